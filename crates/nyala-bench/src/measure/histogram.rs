//! Any number of latencies in a bounded space: counts by buckets, whose widths grow with the latency.
//!
//! A long run has more latencies than can be kept, and the shape of their distribution says more than percentiles: two
//! peaks mean that some actions wait for something that others do not.

use super::latency::LatencySummary;
use std::time::Duration;

/// Buckets of each power of two, so that a bucket is at most 1/32 wide, and its middle at most 1.6 % wrong.
const BUCKETS_PER_OCTAVE_BITS: u32 = 5;
const BUCKETS_PER_OCTAVE: u64 = 1 << BUCKETS_PER_OCTAVE_BITS;
/// Latencies beyond are counted in the last bucket: 18 minutes, more than the longest wait for an answer.
const LONGEST_NS: u64 = (1 << 40) - 1;
/// Parts of a decade in [`Histogram::density`].
pub const PARTS_PER_DECADE: u32 = 10;

/// Latencies by buckets.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

impl Histogram {
    /// Adds a latency that so many actions had.
    #[inline]
    pub fn add(&mut self, latency: Duration, actions: u64) {
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        let bucket = bucket_of(nanoseconds);
        if bucket >= self.buckets.len() {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += actions;
        self.min_ns = if self.count == 0 { nanoseconds } else { self.min_ns.min(nanoseconds) };
        self.max_ns = self.max_ns.max(nanoseconds);
        self.count += actions;
        self.sum_ns += u128::from(nanoseconds) * u128::from(actions);
    }

    /// Adds the latencies of another one.
    pub fn merge(&mut self, other: &Histogram) {
        if other.count == 0 {
            return;
        }
        if other.buckets.len() > self.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (own, others) in self.buckets.iter_mut().zip(&other.buckets) {
            *own += others;
        }
        self.min_ns = if self.count == 0 { other.min_ns } else { self.min_ns.min(other.min_ns) };
        self.max_ns = self.max_ns.max(other.max_ns);
        self.count += other.count;
        self.sum_ns += other.sum_ns;
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest.
    pub fn max_ms(&self) -> f64 {
        self.max_ns as f64 / 1e6
    }

    /// The latency that at least `share` of all do not exceed, within 1.6 %. 0 without any.
    pub fn percentile_ms(&self, share: f64) -> f64 {
        let rank = ((share * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut before = 0;
        for (bucket, actions) in self.buckets.iter().enumerate() {
            before += actions;
            if before >= rank {
                return middle_ns(bucket).clamp(self.min_ns as f64, self.max_ns as f64) / 1e6;
            }
        }
        0.0
    }

    /// Their summary; `None` without any.
    pub fn summary(&self) -> Option<LatencySummary> {
        (self.count > 0).then(|| LatencySummary {
            count: self.count,
            min_ms: self.min_ns as f64 / 1e6,
            mean_ms: self.sum_ns as f64 / self.count as f64 / 1e6,
            p50_ms: self.percentile_ms(0.50),
            p95_ms: self.percentile_ms(0.95),
            p99_ms: self.percentile_ms(0.99),
            max_ms: self.max_ms(),
            curve: LatencySummary::shares().map(|share| [share, self.percentile_ms(share)]).collect(),
        })
    }

    /// How the latencies are distributed: pairs of a latency in ms, a tenth of a decade after the other from the shortest to
    /// the longest, and the share of all that are about so long.
    pub fn density(&self) -> Vec<[f64; 2]> {
        let part_of =
            |nanoseconds: f64| (nanoseconds.max(1.0).log10() * f64::from(PARTS_PER_DECADE)) as usize;
        let mut parts: Vec<u64> = Vec::new();
        for (bucket, actions) in self.buckets.iter().enumerate().filter(|(_, actions)| **actions > 0) {
            let part = part_of(middle_ns(bucket));
            if part >= parts.len() {
                parts.resize(part + 1, 0);
            }
            parts[part] += actions;
        }
        let middle_ms = |part: usize| 10f64.powf((part as f64 + 0.5) / f64::from(PARTS_PER_DECADE)) / 1e6;
        let first = parts.iter().position(|actions| *actions > 0).unwrap_or(0);
        let share = |(part, actions): (usize, &u64)| [middle_ms(part), *actions as f64 / self.count as f64];
        parts.iter().enumerate().skip(first).map(share).collect()
    }
}

/// The number of peaks of a density that are clearly apart: each has a tenth of the highest or more, and between two of them
/// there is a valley of less than half of the lower one. Neighbours are smoothed, because buckets do not divide a decade evenly.
pub fn peaks(density: &[[f64; 2]]) -> usize {
    let share =
        |at: isize| usize::try_from(at).ok().and_then(|at| density.get(at)).map_or(0.0, |pair| pair[1]);
    let smooth: Vec<f64> = (0..density.len() as isize)
        .map(|at| (share(at - 1) + 2.0 * share(at) + share(at + 1)) / 4.0)
        .collect();
    let highest = smooth.iter().copied().fold(0.0, f64::max);
    let (mut peaks, mut peak, mut valley) = (0, 0.0, f64::INFINITY);
    for height in smooth {
        if height >= highest / 10.0 && highest > 0.0 {
            if peaks == 0 || valley < f64::min(peak, height) / 2.0 {
                peaks += 1;
                (peak, valley) = (height, height);
            } else if height > peak {
                (peak, valley) = (height, height);
            }
        }
        valley = f64::min(valley, height);
    }
    peaks
}

fn bucket_of(nanoseconds: u64) -> usize {
    let nanoseconds = nanoseconds.min(LONGEST_NS);
    if nanoseconds < BUCKETS_PER_OCTAVE {
        return nanoseconds as usize;
    }
    let shift = nanoseconds.ilog2() - BUCKETS_PER_OCTAVE_BITS;
    (u64::from(shift) * BUCKETS_PER_OCTAVE + (nanoseconds >> shift)) as usize
}

fn middle_ns(bucket: usize) -> f64 {
    let (octave, within) = (bucket as u64 / BUCKETS_PER_OCTAVE, bucket as u64 % BUCKETS_PER_OCTAVE);
    if octave == 0 {
        return within as f64;
    }
    let width = (1_u64 << (octave - 1)) as f64;
    ((BUCKETS_PER_OCTAVE + within) as f64 + 0.5) * width
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::latency::Latencies;
    use crate::random::Random;

    #[test]
    fn percentiles_are_near_the_exact_ones() {
        let (mut histogram, mut parts, mut exact) =
            (Histogram::default(), [(); 2].map(|()| Histogram::default()), Latencies::default());
        let mut random = Random::new(5, 0);
        for number in 0..20_000 {
            let latency = Duration::from_nanos(10f64.powf(3.0 + 6.0 * random.unit()) as u64);
            histogram.add(latency, 1);
            parts[number % 2].add(latency, 1);
            exact.add(latency);
        }
        let mut merged = Histogram::default();
        parts.iter().for_each(|part| merged.merge(part));
        let exact = exact.summary().unwrap();
        for found in [histogram.summary().unwrap(), merged.summary().unwrap()] {
            assert_eq!((found.count, found.min_ms, found.max_ms), (exact.count, exact.min_ms, exact.max_ms));
            let pairs = found.curve.iter().zip(&exact.curve);
            for ([share, near], [_, right]) in pairs {
                assert!((near / right - 1.0).abs() < 0.017, "{share}: {near} instead of {right}");
            }
        }
        assert_eq!(Histogram::default().summary(), None);
    }

    #[test]
    fn extremes_have_buckets() {
        let mut histogram = Histogram::default();
        histogram.add(Duration::ZERO, 1);
        histogram.add(Duration::MAX, 3);
        assert_eq!(histogram.count(), 4);
        assert_eq!(histogram.percentile_ms(0.1), 0.0);
        assert!((0..2000).all(|bucket| bucket > bucket_of(LONGEST_NS) || bucket_of(middle_ns(bucket) as u64) == bucket));
    }

    #[test]
    fn two_kinds_of_latency_are_two_peaks() {
        let around = |histogram: &mut Histogram, middle_ms: f64, count: u64| {
            let mut random = Random::new(9, count);
            for _ in 0..count {
                let spread = (random.unit() + random.unit() + random.unit() - 1.5) * 0.3;
                histogram.add(Duration::from_secs_f64(middle_ms * 10f64.powf(spread) / 1e3), 1);
            }
        };
        let mut histogram = Histogram::default();
        around(&mut histogram, 1.0, 20_000);
        assert_eq!(peaks(&histogram.density()), 1);
        let sum: f64 = histogram.density().iter().map(|pair| pair[1]).sum();
        assert!((sum - 1.0).abs() < 1e-9);
        around(&mut histogram, 30.0, 200);
        assert_eq!(peaks(&histogram.density()), 1, "a few slow ones are a tail");
        around(&mut histogram, 30.0, 10_000);
        assert_eq!(peaks(&histogram.density()), 2);
        assert_eq!(peaks(&[]), 0);
    }
}
