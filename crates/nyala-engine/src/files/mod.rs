//! What is on disk: every file of a data directory, how its bytes are written, read and verified.

pub(crate) mod catalog;
pub(crate) mod directory;
pub(crate) mod framed_log;
pub mod fs;
pub(crate) mod log_record;
pub mod manifest_log;
pub(crate) mod reserve;
pub(crate) mod rowset;
pub(crate) mod schema_format;
pub mod wal;
