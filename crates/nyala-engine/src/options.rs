//! Settings of an engine.

use crate::files::fs::{FsRef, RealFs};
use crate::files::wal::SyncPolicy;
use crate::write_hook::WriteHook;
pub use nyala_column::Preference;
use nyala_core::TableSchema;
use nyala_core::env::{ClockRef, SystemClock};
use nyala_core::memory::MemoryBudget;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// One more row in so many takes at most 1.6 % more space and work, and less when series are longer.
const LAST_ROWS_FROM: u64 = 64;

/// Random keys are merged again and again, over the whole range of keys: a short rowset makes each step short.
const KEYED_ROWSET_BYTES_MAX: u64 = 128 << 20;

/// Rows of a group of a table with any key: fewer would often leave one that is half full.
const LOADED_ROWS_MIN: usize = 1024;

/// Settings of an engine.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Where everything is; created if missing.
    pub data_dir: PathBuf,
    /// The file system.
    pub fs: FsRef,
    /// The time of day. It decides how long orphaned files and the past are kept.
    pub clock: ClockRef,
    /// The memory budget, which others may share.
    pub memory: Arc<MemoryBudget>,
    /// When the log is synced.
    pub wal_sync: SyncPolicy,
    /// Length of a segment of the log.
    pub wal_segment_bytes: u64,
    /// The log is flushed when it has so many bytes of records: this bounds recovery.
    pub wal_bytes_max: u64,
    /// A rowset that is so long is followed by another one: this bounds one step of a compaction.
    pub rowset_bytes_max: u64,
    /// What encodings prefer.
    pub encoding: Preference,
    /// When the series in a file have at least so many rows on average, the last row of each is written once more, so
    /// that the newest values of many series are cheap to find. 0: never.
    pub last_rows_from: u64,
    /// Threads for flushes and compactions. With none, only [`crate::Engine::flush`] and [`crate::Engine::compact`] do
    /// them, as tests need it.
    pub maintenance_threads: usize,
    /// How long the past can be read; zero: not at all.
    pub history: Duration,
    /// Whether the past that the directory has stays there, whatever `history` says: somebody else's server may keep it.
    pub leaves_past: bool,
    /// Whether a table describes others. On a full disk its rows may use the space that is kept for what deletes.
    pub describes_others: fn(&TableSchema) -> bool,
    /// A stage that takes more memory moves its rows to the disk; none: a sixteenth of all memory.
    pub stage_bytes_max: Option<u64>,
    /// A batch of a large stage that has so many rows goes to the disk at once, if its keys ascend.
    pub loaded_rows_min: usize,
    /// For tests.
    pub write_hook: WriteHook,
}

impl EngineOptions {
    /// When a rowset of a table is followed by another one.
    pub(crate) fn rowset_bytes_max_of(&self, schema: &TableSchema) -> u64 {
        match schema.is_series_keyed() {
            true => self.rowset_bytes_max,
            false => self.rowset_bytes_max.min(KEYED_ROWSET_BYTES_MAX),
        }
    }

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
            history: Duration::ZERO,
            leaves_past: false,
            describes_others: |schema| !schema.is_series_keyed(),
            stage_bytes_max: None,
            loaded_rows_min: LOADED_ROWS_MIN,
            write_hook: WriteHook::default(),
        }
    }
}
