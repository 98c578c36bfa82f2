//! A native asynchronous client for Apache Kudu.

mod alter;
mod backoff;
mod bloom;
mod client;
mod clock;
mod create;
mod error;
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
pub use write::{FlushMode, PendingErrors, RowError, Session, SessionBuilder};
