//! Snapshots are read here: scans and aggregates over memtables and rowsets.

pub(crate) mod aggregate;
mod background;
pub(crate) mod key_splits;
pub(crate) mod past;
pub(crate) mod query_cost;
pub(crate) mod scan;
pub(crate) mod snapshot;
pub(crate) mod table_storage;
