//! What the targets of this crate share: stores in memory whose files are changed, with checksums that are right.

#[cfg(feature = "backup")]
#[allow(dead_code, reason = "they are modules of a program that uses all of them")]
#[path = "../../crates/nyala/src/backup/mod.rs"]
mod backup;
#[cfg(feature = "backup")]
pub mod backup_manifest;
pub mod catalog;
pub mod entropy;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod rowset;
