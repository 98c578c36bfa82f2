//! The core types of nyala, and the contract between the database and its stores.
//!
//! Everything above (databases, queries, servers) uses storage only through [`store::Store`]. Everything below (the
//! embedded engine, a Kudu cluster) implements it and knows nothing of query languages or protocols.

pub mod arrays;
mod column_type;
mod durations;
pub mod env;
pub mod error;
pub mod ids;
pub mod memory;
pub mod schema;
mod shared_look;
pub mod span;
pub mod store;
pub mod time;
pub mod value;
mod yielding;

pub use durations::Durations;
pub use error::{Error, ErrorKind, Result};
pub use ids::{ColumnId, Sequence, SeriesId, TableId};
pub use schema::{ColumnSchema, ColumnType, Encoding, KeySpan, Partitioning, Ranges, TableKind, TableSchema};
pub use shared_look::SharedLook;
pub use time::TimeRange;
pub use value::Value;
pub use yielding::{before_long_work, poll_light, short_wait};
