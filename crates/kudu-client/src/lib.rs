//! A native asynchronous client for Apache Kudu.
//!
#![doc = include_str!("../README.md")]
//!
//! ## Where to start
//!
//! [`Client::builder`] connects; [`Client::create_table`] and [`Client::open_table`] give a [`Table`];
//! [`Table::session`] writes, [`Table::scan`] reads, [`Table::alter`] changes it.
//!
//! ## Map of the source
//!
//! - `rpc/`: frames with sidecars, negotiation and TLS, connections with calls in flight, the pool of them.
//! - `masters`: who leads; `tablets`: where a table's tablets are; `table`, `create`, `alter`: the catalogue.
//! - `schema`, `value`, `row`, `key`, `partition`: from values to wire bytes, keys and tablets.
//! - `write/`: sessions, batches, exactly-once retries; `backoff`: how long to wait, and how much at once.
//! - `predicate`, `bloom`, `scan/`: what is wanted, which tablets have it, and Arrow arrays of it.
//! - `pb/`: the protocol's messages, by hand.

mod alter;
mod backoff;
mod bloom;
mod client;
mod clock;
mod create;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod key;
mod masters;
mod metrics;
mod partition;
mod pb;
mod predicate;
mod row;
mod rpc;
mod scan;
mod schema;
mod table;
mod tablets;
#[cfg(feature = "test-cluster")]
pub mod test_cluster;
mod value;
mod write;

pub use alter::{ColumnChange, TableAlterer};
pub use bloom::BloomFilter;
pub use client::{Client, ClientBuilder, ListedTable, TabletServer};
pub use clock::Timestamp;
pub use create::TableCreator;
pub use error::{Code, Error, ErrorKind, Result};
pub use metrics::MetricsSnapshot;
pub use partition::{HashPartition, RangeBound, RangePartition};
pub use predicate::Predicate;
pub use row::{Operation, Row};
pub use scan::{Layout, ReadMode, ReplicaSelection, ScanBuilder, ScanToken, Scanner};
pub use schema::{Column, Compression, DataType, Encoding, Schema};
pub use table::{Table, TableStatistics};
pub use value::{Cell, Value};
pub use write::{FlushMode, PendingErrors, RowError, Session, SessionBuilder, WriteCall};
