//! The embedded store: log, memtable, column rowsets, compaction.
