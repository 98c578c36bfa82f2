//! What is in memory: rows that are in no rowset yet, and the versions of all tables that readers see.

pub(crate) mod history;
pub(crate) mod key_layers;
pub(crate) mod memtable;
pub(crate) mod publisher;
mod retired_tombstones;
pub(crate) mod version;
pub(crate) mod watermark;
