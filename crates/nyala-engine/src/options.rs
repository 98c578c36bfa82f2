//! Settings of an engine.

use crate::files::fs::{FsRef, RealFs};
use crate::files::wal::SyncPolicy;
use crate::write_hook::WriteHook;
pub use nyala_column::Preference;
use nyala_core::env::{ClockRef, SystemClock};
use nyala_core::memory::MemoryBudget;
use std::path::PathBuf;
use std::sync::Arc;

/// One row in so many takes at most 1.6 % more room and work, and the longer series are the less.
const LAST_ROWS_FROM: u64 = 64;

/// Settings of an engine.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Where everything is; created if missing.
    pub data_dir: PathBuf,
    /// The file system.
    pub fs: FsRef,
    /// The time of day, by which files are kept that no manifest names.
    pub clock: ClockRef,
    /// The account of the memory that it takes, and others beside it.
    pub memory: Arc<MemoryBudget>,
    /// When the log is synced.
    pub wal_sync: SyncPolicy,
    /// Length of a segment of the log.
    pub wal_segment_bytes: u64,
    /// Records are flushed when the log has so many bytes of them: it bounds recovery.
    pub wal_bytes_max: u64,
    /// A rowset that is so long is followed by another one: it bounds what one step of a compaction does.
    pub rowset_bytes_max: u64,
    /// What encodings lean to.
    pub encoding: Preference,
    /// Rows that series have on average in a file for the last row of each to be written to it once more, which makes
    /// the newest values of many series cheap to find. 0: never.
    pub last_rows_from: u64,
    /// Threads for flushes and compactions. With none, only [`crate::Engine::flush`] and
    /// [`crate::Engine::compact`] do them: what tests want.
    pub maintenance_threads: usize,
    /// For tests.
    pub write_hook: WriteHook,
}

impl EngineOptions {
    /// The defaults for a directory.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            fs: Arc::new(RealFs),
            clock: Arc::new(SystemClock),
            memory: MemoryBudget::new(512 << 20),
            wal_sync: SyncPolicy::Always,
            wal_segment_bytes: 64 << 20,
            wal_bytes_max: 512 << 20,
            rowset_bytes_max: 1 << 30,
            encoding: Preference::Balanced,
            last_rows_from: LAST_ROWS_FROM,
            maintenance_threads: 2,
            write_hook: WriteHook::default(),
        }
    }
}
