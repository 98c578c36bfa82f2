//! The embedded store: log, memtable, column rowsets, compaction.

pub mod fs;
