//! What the targets of this crate share: stores in memory whose files are changed, with checksums that are right.

pub mod catalog;
pub mod entropy;
pub mod rowset;
