//! Counters of an engine, for metrics.

use crate::failure::LastFailure;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters since the engine was opened.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) batches: AtomicU64,
    pub(crate) rows_written: AtomicU64,
    pub(crate) writes_refused: AtomicU64,
    pub(crate) write_stalls: AtomicU64,
    pub(crate) write_stall_ns: AtomicU64,
    pub(crate) flushes: AtomicU64,
    pub(crate) flush_failures: AtomicU64,
    pub(crate) flushed_rows: AtomicU64,
    pub(crate) flushed_bytes: AtomicU64,
    pub(crate) compactions: AtomicU64,
    pub(crate) compaction_failures: AtomicU64,
    pub(crate) compacted_bytes_read: AtomicU64,
    pub(crate) compacted_bytes_written: AtomicU64,
    pub(crate) flush_failure: LastFailure,
    pub(crate) compaction_failure: LastFailure,
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

/// Counters and sizes of an engine.
#[derive(Debug, Clone, Default)]
pub struct EngineStats {
    /// Batches applied.
    pub batches: u64,
    /// Rows in them.
    pub rows_written: u64,
    /// Batches refused because memory or the log was at its hard limit.
    pub writes_refused: u64,
    /// Batches that were slowed.
    pub write_stalls: u64,
    /// How long, ns.
    pub write_stall_ns: u64,
    /// Flushes done.
    pub flushes: u64,
    /// Flushes that failed and were or will be tried again.
    pub flush_failures: u64,
    /// Rows they wrote.
    pub flushed_rows: u64,
    /// Bytes they wrote.
    pub flushed_bytes: u64,
    /// Compactions done.
    pub compactions: u64,
    /// Compactions that failed.
    pub compaction_failures: u64,
    /// Bytes of rowsets they replaced.
    pub compacted_bytes_read: u64,
    /// Bytes they wrote.
    pub compacted_bytes_written: u64,
    /// Blocks found in the cache.
    pub cache_hits: u64,
    /// Blocks read from files.
    pub cache_misses: u64,
    /// Questions to Bloom filters whether a rowset may have a key.
    pub filter_lookups: u64,
    /// Those of them that were answered with no.
    pub filter_rejections: u64,
    /// Rowsets.
    pub rowsets: u64,
    /// Their bytes.
    pub rowset_bytes: u64,
    /// Bytes of files that are kept only for reading the past.
    pub past_bytes: u64,
    /// Rows in them, versions counted apart.
    pub rowset_rows: u64,
    /// Deleted ranges that may still hide rows.
    pub tombstones: u64,
    /// Rows in memtables.
    pub memtable_rows: u64,
    /// The last sequence that is visible.
    pub watermark: u64,
    /// Changes of the catalog that could not be written.
    pub catalog_failures: u64,
    /// Batches up to this sequence are in rowsets.
    pub flushed_sequence: u64,
    /// The log.
    pub wal: Option<crate::files::wal::WalStats>,
}

impl Counters {
    pub(crate) fn snapshot(&self) -> EngineStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        EngineStats {
            batches: get(&self.batches),
            rows_written: get(&self.rows_written),
            writes_refused: get(&self.writes_refused),
            write_stalls: get(&self.write_stalls),
            write_stall_ns: get(&self.write_stall_ns),
            flushes: get(&self.flushes),
            flush_failures: get(&self.flush_failures),
            flushed_rows: get(&self.flushed_rows),
            flushed_bytes: get(&self.flushed_bytes),
            compactions: get(&self.compactions),
            compaction_failures: get(&self.compaction_failures),
            compacted_bytes_read: get(&self.compacted_bytes_read),
            compacted_bytes_written: get(&self.compacted_bytes_written),
            ..EngineStats::default()
        }
    }
}
