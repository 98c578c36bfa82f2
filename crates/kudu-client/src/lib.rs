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
//! - `rpc/`: frames with sidecars, negotiation and TLS, connections with calls in flight, the connection pool.
//! - `cluster`: what all handles of a client share; `masters`: calls to the leading master.
//! - `client`, `table`, `create`, `alter`: tables, and changes of them; `location_cache`: which servers have a table's tablets.
//! - `data_type`, `schema`, `value`, `row`, `key`, `partition`: from values to wire bytes, keys and tablets.
//! - `write/`: sessions and batches; `request_tracker`: numbers by which a server applies a retried write once;
//!   `backoff`, `concurrency_limit`: how long to wait, and how much to send at once.
//! - `predicate`, `bloom`, `scan/`: from predicates to the tablets to read and to Arrow arrays.
//! - `pb/`: the protocol's messages, written by hand.

mod alter;
mod backoff;
mod bloom;
mod client;
mod clock;
mod cluster;
mod concurrency_limit;
mod create;
mod data_type;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod key;
mod location_cache;
mod masters;
mod metrics;
mod partition;
mod pb;
mod predicate;
mod request_tracker;
mod row;
mod rpc;
mod scan;
mod schema;
mod servers;
mod table;
#[cfg(feature = "test-cluster")]
pub mod test_cluster;
mod value;
mod write;

pub use alter::{ColumnChange, TableAlterer};
pub use bloom::BloomFilter;
pub use client::{Client, ClientBuilder, ListedTable, TabletServer};
pub use clock::Timestamp;
pub use create::TableCreator;
pub use data_type::DataType;
pub use error::{Code, Error, ErrorKind, Result};
pub use metrics::MetricsSnapshot;
pub use partition::{HashPartition, RangeBound, RangePartition};
pub use predicate::Predicate;
pub use row::{Operation, Row};
pub use scan::{Layout, ReadMode, ReplicaSelection, ScanBuilder, ScanToken, Scanner, TabletScanner};
pub use schema::{Column, Compression, Encoding, Schema};
pub use table::{Table, TableStatistics};
pub use value::{Cell, Value};
pub use write::{FlushMode, PendingErrors, RowError, Session, SessionBuilder, WriteCall};
