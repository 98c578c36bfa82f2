//! YCSB (Cooper et al., "Benchmarking Cloud Serving Systems with YCSB", 2010): rows with a key and some fields, and
//! clients that read, change, insert and scan them.
//!
//! [`rows`] makes keys and values, [`popularity`] draws which rows are asked for, [`actions`] what is done with them. A row
//! is known by its number: the order in which rows are inserted.

pub mod actions;
pub mod popularity;
pub mod rows;

pub use actions::{Action, ActionKind, Client, Workload};
pub use popularity::Popularity;
pub use rows::RowShape;
