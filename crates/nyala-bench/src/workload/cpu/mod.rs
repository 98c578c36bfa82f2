//! TSBS' cpu-only data set: every host reports ten integer percentages in each interval.
//!
//! A value starts uniform in [0, 100) and walks by standard normal steps, clamped to [0, 100]; its integer part is
//! written. As in TSBS, rows are ordered by tick, and by host within a tick. Each host has its own random stream, so
//! that verification can compute one host's history alone, and the data depends only on seed and host number.
//!
//! Claiming rows (one step of each walk, under a lock) is separate from writing them as text ([`lines`], by any number
//! of workers), so that the lock is held briefly.

mod lines;
pub mod model;

use super::{BatchSize, Workload};
use crate::random::{Random, Ziggurat};
use crate::time::Span;
use lines::CpuLines;
use model::{CpuModel, HostRow, HostsConfig};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Number of fields of a row.
pub const FIELD_COUNT: usize = 10;

/// Names of the fields, in order.
pub const FIELDS: [&str; FIELD_COUNT] = [
    "usage_user",
    "usage_system",
    "usage_idle",
    "usage_nice",
    "usage_iowait",
    "usage_irq",
    "usage_softirq",
    "usage_steal",
    "usage_guest",
    "usage_guest_nice",
];

/// One row's values.
pub type CpuRow = [u8; FIELD_COUNT];

/// One host's ten random walks.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    random: Random,
    /// Their current values.
    pub(super) values: [f64; FIELD_COUNT],
}

impl Walk {
    pub(super) fn new(seed: u64, host: u64) -> Walk {
        let mut random = Random::new(seed, host);
        let values = std::array::from_fn(|_| random.unit() * 100.0);
        Walk { random, values }
    }

    /// Moves them to the next tick.
    #[inline]
    pub(super) fn advance(&mut self, ziggurat: &Ziggurat) {
        for value in &mut self.values {
            *value = (*value + self.random.normal(ziggurat)).clamp(0.0, 100.0);
        }
    }

    /// Returns the current values and moves the walks to the next tick.
    #[inline]
    fn take(&mut self, ziggurat: &Ziggurat) -> CpuRow {
        let row = self.values.map(|value| value as u8);
        self.advance(ziggurat);
        row
    }
}

impl CpuModel for HostsConfig {
    fn config(&self) -> &HostsConfig {
        self
    }

    fn rows(&self, host: u64, span: Span) -> Vec<HostRow> {
        self.walked(host, span, f64::trunc)
    }
}

/// The rows of one batch.
#[derive(Debug, Default)]
pub struct CpuBatch {
    first_row: u64,
    rows: Vec<CpuRow>,
}

/// The workload: the walks of all hosts behind a lock, and the constant parts of their lines.
#[derive(Debug)]
pub struct CpuWorkload {
    config: HostsConfig,
    batch_rows: usize,
    lines: CpuLines,
    end_row: AtomicU64,
    walks: Mutex<Walks>,
}

#[derive(Debug)]
struct Walks {
    walks: Vec<Walk>,
    next_row: u64,
}

impl CpuWorkload {
    /// The whole data set of `config`, in batches of `batch_rows`.
    pub fn new(config: HostsConfig, batch_rows: usize) -> CpuWorkload {
        let walks = (0..config.hosts).map(|host| Walk::new(config.seed, host)).collect();
        CpuWorkload {
            config,
            batch_rows,
            lines: CpuLines::new(&config),
            end_row: AtomicU64::new(config.reports()),
            walks: Mutex::new(Walks { walks, next_row: 0 }),
        }
    }

    /// Makes the workload end at row `row` of the data set, so that it can be loaded in parts.
    pub fn end_at(&self, row: u64) {
        self.end_row.store(row.min(self.config.reports()), Relaxed);
    }
}

impl Workload for CpuWorkload {
    type Batch = CpuBatch;

    fn total_rows(&self) -> Option<u64> {
        Some(self.end_row.load(Relaxed))
    }

    fn claim(&self, batch: &mut CpuBatch) -> Option<BatchSize> {
        let ziggurat = Ziggurat::shared();
        let mut shared = self.walks.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let rows = self.end_row.load(Relaxed).saturating_sub(shared.next_row).min(self.batch_rows as u64);
        if rows == 0 {
            return None;
        }
        batch.first_row = shared.next_row;
        batch.rows.clear();
        let mut host = (shared.next_row % self.config.hosts) as usize;
        while (batch.rows.len() as u64) < rows {
            let wanted = rows as usize - batch.rows.len();
            let end = shared.walks.len().min(host + wanted);
            batch.rows.extend(shared.walks[host..end].iter_mut().map(|walk| walk.take(ziggurat)));
            host = 0;
        }
        shared.next_row += rows;
        Some(BatchSize { rows, values: rows * FIELD_COUNT as u64 })
    }

    fn write(&self, batch: &CpuBatch, body: &mut Vec<u8>) {
        self.lines.write(&self.config, batch.first_row, &batch.rows, body);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{DAY_SECONDS, TSBS_START};

    fn config(hosts: u64, seed: u64) -> HostsConfig {
        let span = Span { start: TSBS_START, end: TSBS_START + DAY_SECONDS };
        HostsConfig { hosts, span, interval_seconds: 10, seed }
    }

    fn text(config: HostsConfig, batch_rows: usize, batches: usize) -> String {
        let workload = CpuWorkload::new(config, batch_rows);
        let (mut batch, mut body, mut all) = (CpuBatch::default(), Vec::new(), Vec::new());
        for _ in 0..batches {
            workload.claim(&mut batch).unwrap();
            workload.write(&batch, &mut body);
            all.extend_from_slice(&body);
        }
        String::from_utf8(all).unwrap()
    }

    /// FNV-1a, to compare the text with a fixture.
    fn fingerprint(text: &str) -> u64 {
        text.bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }

    #[test]
    fn the_same_seed_always_writes_the_same_bytes() {
        let text = text(config(7, 123), 100, 3);
        assert_eq!(text.lines().count(), 300);
        assert_eq!(fingerprint(&text), FIXTURE, "{}", text.lines().next().unwrap());
    }
    const FIXTURE: u64 = 17_426_248_144_167_949_460;

    #[test]
    fn batch_size_does_not_change_the_data() {
        assert!(text(config(5, 9), 7, 9).starts_with(&text(config(5, 9), 60, 1)));
        assert_ne!(text(config(5, 9), 60, 1), text(config(5, 10), 60, 1));
    }

    #[test]
    fn lines_are_the_walks_of_their_hosts() {
        let config = config(3, 5);
        let text = text(config, 10, 3);
        let mut walks: Vec<Walk> = (0..3).map(|host| Walk::new(5, host)).collect();
        for (number, line) in text.lines().enumerate() {
            let host = number % 3;
            let row = walks[host].take(Ziggurat::shared());
            let fields: Vec<String> =
                FIELDS.iter().zip(row).map(|(field, value)| format!("{field}={value}i")).collect();
            let expected = format!(
                "cpu{} {} {}000000000",
                config.host(host as u64).line_tags(),
                fields.join(","),
                TSBS_START + (number / 3) as i64 * 10
            );
            assert_eq!(line, expected);
        }
    }

    #[test]
    fn values_walk_by_normal_steps_within_bounds() {
        let mut changes = 0.0;
        let mut previous: Option<CpuRow> = None;
        let mut walk = Walk::new(4, 0);
        for _ in 0..20_000 {
            let row = walk.take(Ziggurat::shared());
            assert!(row.iter().all(|&value| value <= 100));
            if let Some(previous) = previous {
                for (before, after) in previous.iter().zip(row) {
                    changes += (f64::from(after) - f64::from(*before)).powi(2);
                }
            }
            previous = Some(row);
        }
        // Truncation adds the variance of two uniform remainders (1/6) to the step's 1.
        let variance = changes / (19_999.0 * FIELD_COUNT as f64);
        assert!((0.95..1.25).contains(&variance), "{variance}");
    }

    #[test]
    fn the_last_batch_is_what_remains() {
        let span = Span { start: TSBS_START, end: TSBS_START + 30 };
        let workload = CpuWorkload::new(HostsConfig { span, ..config(5, 1) }, 10);
        let mut batch = CpuBatch::default();
        let rows: Vec<u64> =
            std::iter::from_fn(|| workload.claim(&mut batch)).map(|size| size.rows).collect();
        assert_eq!(rows, [10, 5]);
    }
}
