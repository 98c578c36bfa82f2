//! The log of an open engine, and how much of it is not in rowsets yet.

use crate::files::wal::Wal;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The log and what is flushed of it. Bytes are those of records, replayed and written.
pub(crate) struct LogState {
    /// Empty while the log is replayed.
    wal: OnceLock<Wal>,
    /// The log is flushed when so many bytes are not in rowsets.
    pub(crate) bytes_max: u64,
    replayed_bytes: AtomicU64,
    flushed_bytes: AtomicU64,
    /// How many doubtful records are in rowsets, or were never applied.
    flushed_doubtful: AtomicU64,
}

impl LogState {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self {
            wal: OnceLock::new(),
            bytes_max,
            replayed_bytes: AtomicU64::new(0),
            flushed_bytes: AtomicU64::new(0),
            flushed_doubtful: AtomicU64::new(0),
        }
    }

    /// Takes the log that was replayed.
    pub(crate) fn set_wal(&self, wal: Wal) {
        assert!(self.wal.set(wal).is_ok(), "the log is opened once");
    }

    /// The log.
    pub(crate) fn wal(&self) -> &Wal {
        self.wal.get().expect("the log is open once it is replayed")
    }

    /// Counts a record that was replayed; returns the bytes of all.
    pub(crate) fn add_replayed(&self, bytes: u64) -> u64 {
        self.replayed_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes
    }

    /// Bytes of records replayed and written so far.
    pub(crate) fn logged_bytes(&self) -> u64 {
        self.replayed_bytes.load(Ordering::Relaxed) + self.wal().written_bytes()
    }

    /// Bytes that are not in rowsets.
    pub(crate) fn unflushed_bytes(&self) -> u64 {
        self.logged_bytes().saturating_sub(self.flushed_bytes.load(Ordering::Relaxed))
    }

    /// Sets how many bytes are in rowsets.
    pub(crate) fn set_flushed_bytes(&self, bytes: u64) {
        self.flushed_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Whether records were acknowledged under a relaxed policy, their sync failed, and no rowset has them: only a
    /// flush makes them durable.
    pub(crate) fn has_doubtful(&self) -> bool {
        self.wal().doubtful_records() > self.flushed_doubtful.load(Ordering::Relaxed)
    }

    /// Sets how many doubtful records are in rowsets.
    pub(crate) fn set_flushed_doubtful(&self, records: u64) {
        self.flushed_doubtful.store(records, Ordering::Relaxed);
    }

    /// Whether the log is so long that batches wait for the flush that cuts it.
    pub(super) fn is_full(&self) -> bool {
        self.unflushed_bytes() >= self.bytes_max.saturating_mul(2)
    }
}
