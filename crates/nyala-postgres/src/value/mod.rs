//! Values as PostgreSQL's protocol carries them: Arrow arrays to text and binary ([`Column`]), parameters of clients
//! back to values ([`parameter`]).
//!
//! Every text and every byte is the one that a PostgreSQL 15 sends for the same value; `testdata/postgres` has its
//! answers. Types are [`types`], the parts of values that need an algorithm stand in files of their own.

pub mod column;
pub mod numeric;
pub mod parameter;
pub mod time_text;
pub mod types;
mod units;

pub use column::{Column, Format, RowWriter, WrittenRows};
pub use nyala_sql::time_printing as time;
pub use types::PgType;
