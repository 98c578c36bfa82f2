//! Databases, measurements, series index and ingestion over the store contract.
//!
//! A write goes through `ingest` (text to columns) and `write` (columns to a batch of the store); a
//! query finds its series in `series` and reads rows through the store's scans. Nothing here knows a
//! concrete store, and the stores know nothing of databases.

pub mod catalog;
mod delete;
pub mod feed;
pub mod idle;
pub mod ingest;
mod names;
mod records;
pub mod retention;
pub mod scan;
pub mod series;
pub mod users;
pub mod write;

pub use names::{is_valid_name, quoted};
