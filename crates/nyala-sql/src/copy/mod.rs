//! COPY: rows that a client sends or gets as text, CSV or PostgreSQL's binary form.
//!
//! [`statement`] reads the statement, [`options`] what its options ask for, and [`rows`] collects the rows that a client
//! sends as columns ([`cells`]); columns of a file become those of the table in [`batches`], piece by piece ([`pieces`]); [`dictionaries`] bounds what their dictionaries cost. The forms themselves belong to the protocol: `nyala-postgres` reads and writes them.

mod batches;
mod cells;
mod context;
mod dictionaries;
mod options;
mod pieces;
mod rows;
mod statement;

pub(crate) use batches::as_declared;
pub use context::CopyContext;
pub use dictionaries::SentDictionaries;
pub(crate) use options::CopyOptions;
pub use options::{CopyForm, CopyHeader, CopyKind};
pub(crate) use pieces::{bytes_max, piece_rows};
pub use rows::CopyRows;
pub(crate) use rows::{COPY_WAIT_MAX, CopiedRows};
pub(crate) use statement::{CopyEnd, CopyStatement, CopySubject, begins_copy};
