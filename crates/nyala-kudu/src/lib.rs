//! The store over an Apache Kudu cluster: the contract of [`nyala_core::store`] on [`kudu_client`].
//!
//! A daemon with this store keeps nothing itself. Rows are in Kudu's tables, which replicate them; what tables there are,
//! and what their columns mean, is in a log of schema changes in a table of its own (`schema_log`), which all daemons of a
//! cluster read and extend.
//!
//! ## Map of the source
//!
//! - `store`: the verbs of the contract; `write`: rows on their way to the cluster.
//! - `snapshot`: reading. `scan`: what is asked of the servers; `rows`, `aggregate`: what becomes of their answers.
//! - `schema_log`, `state`, `entry`: which tables there are, agreed on by all daemons.
//! - `kudu_tables`: the Kudu tables of a table: their columns and ranges, made when they are needed; `dropping`: ranges that
//!   go, and how daemons agree on it, by marks (`seen_marks`).
//!   `sheets`: which columns stand in which of them; `merge`: their rows put together.
//! - `cluster`: what these work with. `cells`: values and arrays, between the contract's types and Kudu's.

mod aggregate;
mod arbitrary;
mod cells;
mod clock;
mod cluster;
mod dropping;
mod entry;
mod error;
mod kudu_tables;
mod merge;
mod options;
mod rows;
mod scan;
mod schema_log;
mod seen_marks;
mod sheets;
mod snapshot;
mod state;
mod store;
mod write;

pub use arbitrary::read_arbitrary;
pub use options::{KuduLogin, KuduOptions};
pub use store::KuduStore;
