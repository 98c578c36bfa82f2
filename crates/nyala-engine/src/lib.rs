//! The embedded store: log, memtable, column rowsets, compaction.

pub mod fs;
pub mod manifest_log;
mod record_log;
pub mod wal;
