//! How long statements and calls took, by upper bounds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds, µs: from a look-up to a long query.
const BOUNDS_US: [u64; 16] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000,
];

/// Counts of durations.
#[derive(Debug, Default)]
pub struct Durations {
    /// Those between two bounds, and those above the last.
    counts: [AtomicU64; BOUNDS_US.len() + 1],
    sum_ns: AtomicU64,
}

impl Durations {
    /// Counts one more.
    pub fn observe(&self, duration: Duration) {
        let duration_ns = duration.as_nanos() as u64;
        let place = BOUNDS_US.partition_point(|bound_us| bound_us * 1000 < duration_ns);
        self.counts[place].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(duration_ns, Ordering::Relaxed);
    }

    /// How many there were, how long they took together, and how many took at most so many seconds.
    pub fn counts(&self) -> (u64, Duration, Vec<(f64, u64)>) {
        let mut count = 0;
        let mut up_to = Vec::with_capacity(BOUNDS_US.len());
        for (place, own) in self.counts.iter().enumerate() {
            count += own.load(Ordering::Relaxed);
            up_to.extend(BOUNDS_US.get(place).map(|bound_us| (*bound_us as f64 / 1e6, count)));
        }
        (count, Duration::from_nanos(self.sum_ns.load(Ordering::Relaxed)), up_to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_counted_below_its_bound() {
        let durations = Durations::default();
        for duration_us in [100, 101, 3_000_000, 20_000_000] {
            durations.observe(Duration::from_micros(duration_us));
        }
        let (count, sum, up_to) = durations.counts();
        assert_eq!((count, sum), (4, Duration::from_micros(23_000_201)));
        let of = |seconds| up_to.iter().find(|(bound, _)| *bound == seconds).map(|(_, count)| *count);
        assert_eq!([of(0.0001), of(0.00025), of(2.5), of(5.0), of(10.0)], [1, 2, 2, 3, 3].map(Some));
    }
}
