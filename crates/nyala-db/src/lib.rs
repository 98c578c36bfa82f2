//! Databases, measurements, the series index and ingestion, on top of the store contract.
//!
//! A write goes through `ingest` (text to columns) and `write` (columns to a batch of the store). A query finds its
//! series in `series` and reads rows by scans of the store. This crate knows no concrete store, and stores know nothing
//! of databases.

mod arbitrary;
pub mod catalog;
pub mod changes;
pub mod correct;
pub mod daemons;
mod delete;
pub mod feed;
pub mod handover;
pub mod idle;
pub mod ingest;
pub mod moving;
mod names;
mod records;
pub mod relations;
pub mod retention;
pub mod scan;
pub mod selection;
pub mod series;
pub mod undo;
pub mod users;
pub mod write;

pub use arbitrary::read_arbitrary;
pub use names::{is_valid_name, quoted};
