//! Counters of the log.

use crate::failure::LastFailure;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Buckets of sync times: bucket `n` counts syncs that took less than 2ⁿ µs and not less than half of that; the
/// last one everything slower (more than half an hour).
pub const SYNC_BUCKETS: usize = 32;

/// Counters of a log since it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WalStats {
    /// Records written.
    pub records: u64,
    /// Bytes written, frames included.
    pub written_bytes: u64,
    /// Writes that carried the records; records by groups is the gain of writing together.
    pub groups: u64,
    /// Syncs of the log's files that succeeded.
    pub syncs: u64,
    /// Syncs that failed.
    pub failed_syncs: u64,
    /// Writes that failed.
    pub failed_writes: u64,
    /// Segments begun, the first included.
    pub segments_begun: u64,
    /// Records that had been acknowledged under a relaxed policy when the sync of them failed. A power cut loses
    /// them as long as the store has not flushed them.
    pub doubtful_records: u64,
    /// Time spent in syncs.
    pub sync_ns: u64,
    /// Times of syncs, see [`SYNC_BUCKETS`].
    pub sync_times: [u64; SYNC_BUCKETS],
    /// Segments now.
    pub segments: u64,
    /// Bytes of records now in the segments.
    pub size_bytes: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) records: AtomicU64,
    pub(super) written_bytes: AtomicU64,
    pub(super) groups: AtomicU64,
    pub(super) failed_syncs: AtomicU64,
    pub(super) failed_writes: AtomicU64,
    pub(super) segments_begun: AtomicU64,
    pub(super) doubtful_records: AtomicU64,
    pub(super) last_failure: LastFailure,
    sync_ns: AtomicU64,
    sync_times: [AtomicU64; SYNC_BUCKETS],
}

pub(super) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Relaxed);
}

impl Counters {
    pub(super) fn synced(&self, took: Duration) {
        add(&self.sync_ns, u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        let bucket = (u128::BITS - took.as_micros().leading_zeros()) as usize;
        add(&self.sync_times[bucket.min(SYNC_BUCKETS - 1)], 1);
    }

    pub(super) fn snapshot(&self, segments: u64, size_bytes: u64) -> WalStats {
        let sync_times = std::array::from_fn(|bucket| self.sync_times[bucket].load(Relaxed));
        WalStats {
            records: self.records.load(Relaxed),
            written_bytes: self.written_bytes.load(Relaxed),
            groups: self.groups.load(Relaxed),
            syncs: sync_times.iter().sum(),
            failed_syncs: self.failed_syncs.load(Relaxed),
            failed_writes: self.failed_writes.load(Relaxed),
            segments_begun: self.segments_begun.load(Relaxed),
            doubtful_records: self.doubtful_records.load(Relaxed),
            sync_ns: self.sync_ns.load(Relaxed),
            sync_times,
            segments,
            size_bytes,
        }
    }
}
