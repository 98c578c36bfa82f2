//! What the targets of this crate share: stores in memory whose files are changed, with checksums that are right.

pub mod catalog;
pub mod entropy;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod rowset;
