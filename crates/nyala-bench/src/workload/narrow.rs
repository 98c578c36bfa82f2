//! Many series of one value: `narrow,instance=i7,metric=m45,run=0 value=57.31 1451606400000000000`.
//!
//! The data set has a fixed number of slots, 100 per instance. Each slot reports one value per interval. Churn: a slot
//! begins a new series (with another tag `run`) after 1 / churn hours, as when containers are replaced; slots change
//! evenly over that time. Late rows: a share of the rows is sent some ticks later, among the rows of that time.
//!
//! Everything is a function of (seed, slot, tick), so no state is kept per series, and verification can compute any row
//! alone.

use super::{BatchSize, Workload};
use crate::random::hash;
use crate::time::{HOUR_SECONDS, Span};
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Slots of an instance.
pub const METRICS_PER_INSTANCE: u64 = 100;

/// The parameters of the data set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NarrowConfig {
    /// Series at any one time.
    pub slots: u64,
    /// Times of the data.
    pub span: Span,
    /// Seconds between a slot's rows.
    pub interval_seconds: i64,
    /// Share of slots that begin a new series in an hour.
    pub churn_per_hour: f64,
    /// Share of rows that are sent late.
    pub late_share: f64,
    /// By how many ticks they are late.
    pub late_ticks: u64,
    /// Seed of the data.
    pub seed: u64,
}

/// Random streams of the seed.
const LATENESS: u64 = 1;
const NOISE: u64 = 2;
const SHAPE: u64 = 3;

impl NarrowConfig {
    /// How many times each slot reports.
    pub fn ticks(&self) -> u64 {
        (self.span.seconds() / self.interval_seconds) as u64
    }

    /// All rows of the data set, late ones included.
    pub fn rows(&self) -> u64 {
        self.slots * self.ticks()
    }

    /// The time of a tick, in seconds since 1970.
    pub fn time_of(&self, tick: u64) -> i64 {
        self.span.start + tick as i64 * self.interval_seconds
    }

    /// The number of the series, within its slot, that a row belongs to.
    pub fn run_of(&self, slot: u64, tick: u64) -> u64 {
        // Multiples of the golden ratio spread evenly over [0, 1).
        let phase = (slot as f64 * 0.618_033_988_749_894_9).fract();
        let hours = (tick as i64 * self.interval_seconds) as f64 / HOUR_SECONDS as f64;
        (hours * self.churn_per_hour + phase) as u64
    }

    /// Series of the whole data set.
    pub fn series(&self) -> u64 {
        let last = self.ticks().saturating_sub(1);
        (0..self.slots).map(|slot| self.run_of(slot, last) + 1).sum()
    }

    /// Whether a row is sent late. Rows of the first tick never are, so that the first pass creates every series.
    pub fn is_late(&self, slot: u64, tick: u64) -> bool {
        let threshold = (self.late_share * u64::MAX as f64) as u64;
        threshold > 0 && tick > 0 && hash(self.seed ^ LATENESS, slot, tick) < threshold
    }

    /// A row's value in hundredths: a slow triangular wave of its slot and a little noise.
    pub fn hundredths(&self, slot: u64, tick: u64) -> u64 {
        let shape = hash(self.seed, slot, SHAPE);
        let (base, period) = (shape % 8000, 200 + (shape >> 16) % 1800);
        let position = (tick + (shape >> 32) % period) % period;
        let wave = 4000 * position.min(period - position) / period;
        base + wave + hash(self.seed ^ NOISE, slot, tick) % 50
    }

    /// The number of passes over all slots that send everything.
    fn passes(&self) -> u64 {
        if self.late_share > 0.0 { self.ticks() + self.late_ticks } else { self.ticks() }
    }
}

/// The rows of one batch: slot and tick.
#[derive(Debug, Default)]
pub struct NarrowBatch {
    rows: Vec<(u64, u64)>,
}

/// The workload: a counter of chunks of slots.
#[derive(Debug)]
pub struct NarrowWorkload {
    config: NarrowConfig,
    batch_slots: u64,
    next_chunk: AtomicU64,
    end_chunk: AtomicU64,
}

impl NarrowWorkload {
    /// The whole data set, in batches of about `batch_rows`.
    pub fn new(config: NarrowConfig, batch_rows: usize) -> NarrowWorkload {
        let workload = NarrowWorkload {
            config,
            batch_slots: (batch_rows as u64).min(config.slots),
            next_chunk: AtomicU64::new(0),
            end_chunk: AtomicU64::new(0),
        };
        workload.end_after(u64::MAX);
        workload
    }

    /// Makes the workload end after this many passes over all slots, so that it can be loaded in parts.
    pub fn end_after(&self, passes: u64) {
        let passes = passes.min(self.config.passes());
        self.end_chunk.store(passes * self.chunks_per_pass(), Relaxed);
    }

    fn chunks_per_pass(&self) -> u64 {
        self.config.slots.div_ceil(self.batch_slots)
    }
}

impl Workload for NarrowWorkload {
    type Batch = NarrowBatch;

    fn total_rows(&self) -> Option<u64> {
        let passes = self.end_chunk.load(Relaxed) / self.chunks_per_pass();
        Some(self.config.slots * passes.min(self.config.ticks()))
    }

    fn claim(&self, batch: &mut NarrowBatch) -> Option<BatchSize> {
        let config = &self.config;
        loop {
            let end = self.end_chunk.load(Relaxed);
            let claimed =
                self.next_chunk.fetch_update(Relaxed, Relaxed, |next| (next < end).then_some(next + 1));
            let chunk = claimed.ok()?;
            let (pass, part) = (chunk / self.chunks_per_pass(), chunk % self.chunks_per_pass());
            let first = part * self.batch_slots;
            let late_tick = pass.checked_sub(config.late_ticks).filter(|&tick| tick < config.ticks());
            batch.rows.clear();
            for slot in first..config.slots.min(first + self.batch_slots) {
                if pass < config.ticks() && !config.is_late(slot, pass) {
                    batch.rows.push((slot, pass));
                }
                if let Some(tick) = late_tick.filter(|&tick| config.is_late(slot, tick)) {
                    batch.rows.push((slot, tick));
                }
            }
            // The last passes have only late rows, possibly none of this chunk.
            if !batch.rows.is_empty() {
                let rows = batch.rows.len() as u64;
                return Some(BatchSize { rows, values: rows });
            }
        }
    }

    fn write(&self, batch: &NarrowBatch, body: &mut Vec<u8>) {
        body.clear();
        let mut digits = itoa::Buffer::new();
        for &(slot, tick) in &batch.rows {
            let hundredths = self.config.hundredths(slot, tick);
            let mut part = |text: &[u8], number: u64| {
                body.extend_from_slice(text);
                body.extend_from_slice(digits.format(number).as_bytes());
            };
            part(b"narrow,instance=i", slot / METRICS_PER_INSTANCE);
            part(b",metric=m", slot % METRICS_PER_INSTANCE);
            part(b",run=", self.config.run_of(slot, tick));
            part(b" value=", hundredths / 100);
            let cents = hundredths % 100;
            body.extend_from_slice(&[b'.', b'0' + (cents / 10) as u8, b'0' + (cents % 10) as u8]);
            writeln!(body, " {}000000000", digits.format(self.config.time_of(tick)))
                .expect("a vector takes any bytes");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::TSBS_START;
    use std::collections::HashSet;

    fn config(late_share: f64) -> NarrowConfig {
        NarrowConfig {
            slots: 250,
            span: Span { start: TSBS_START, end: TSBS_START + 7200 },
            interval_seconds: 60,
            churn_per_hour: 0.1,
            late_share,
            late_ticks: 7,
            seed: 1,
        }
    }

    fn lines(workload: &NarrowWorkload) -> Vec<String> {
        let (mut batch, mut body, mut all) = (NarrowBatch::default(), Vec::new(), Vec::new());
        while let Some(size) = workload.claim(&mut batch) {
            workload.write(&batch, &mut body);
            let text = std::str::from_utf8(&body).unwrap();
            assert_eq!(text.lines().count() as u64, size.rows);
            all.extend(text.lines().map(str::to_owned));
        }
        all
    }

    #[test]
    fn every_row_is_written_once() {
        for late_share in [0.0, 0.1, 1.0] {
            let config = config(late_share);
            let lines = lines(&NarrowWorkload::new(config, 100));
            let keys: HashSet<&str> = lines.iter().map(|line| line.split(' ').next().unwrap()).collect();
            let points: HashSet<(&str, &str)> = lines
                .iter()
                .map(|line| (line.split(' ').next().unwrap(), line.rsplit(' ').next().unwrap()))
                .collect();
            assert_eq!((lines.len() as u64, points.len() as u64), (config.rows(), config.rows()));
            assert_eq!(keys.len() as u64, config.series());
        }
    }

    #[test]
    fn a_tenth_is_late_by_the_given_time_and_a_tenth_is_replaced_each_hour() {
        let config = config(0.1);
        let late = (0..250).flat_map(|slot| (0..120).map(move |tick| (slot, tick)));
        let late = late.filter(|&(slot, tick)| config.is_late(slot, tick)).count();
        assert!((2600..3400).contains(&late), "{late} of 30000");
        let lines = lines(&NarrowWorkload::new(config, 250));
        let (mut newest, mut farthest) = (0, 0);
        for line in &lines {
            let time: i64 = line.rsplit(' ').next().unwrap().parse().unwrap();
            farthest = farthest.max(newest - time);
            newest = newest.max(time);
        }
        assert_eq!(farthest, 7 * 60 * 1_000_000_000);
        let new_series = config.series() - 250;
        assert!((40..60).contains(&new_series), "two hours replace a fifth: {new_series}");
    }

    #[test]
    fn loading_in_parts_loads_everything() {
        let parts = NarrowWorkload::new(config(0.1), 100);
        parts.end_after(1);
        let mut all = lines(&parts);
        assert!(all.len() == 250 && all.iter().all(|line| line.ends_with("1451606400000000000")));
        parts.end_after(u64::MAX);
        all.extend(lines(&parts));
        assert_eq!(all, lines(&NarrowWorkload::new(config(0.1), 100)));
    }

    #[test]
    fn a_line_has_the_values_of_its_row() {
        let config = config(0.0);
        let line = &lines(&NarrowWorkload::new(config, 250))[201];
        let value = config.hundredths(201, 0) as f64 / 100.0;
        let run = config.run_of(201, 0);
        assert_eq!(
            *line,
            format!("narrow,instance=i2,metric=m1,run={run} value={value:.2} 1451606400000000000")
        );
    }
}
