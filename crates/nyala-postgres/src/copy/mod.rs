//! Rows of COPY, as the protocol carries them: text, CSV, and PostgreSQL's binary form.
//!
//! What a client sends is split into lines ([`lines`]) and values ([`fields`]), or is [`binary`]; [`reader`] turns it into
//! columns. [`writer`] goes the other way. [`file_in`] and [`file_out`] do both with files of the server, in which rows may be
//! columns of Parquet, too. All of it is written by hand: readers of CSV (`csv-core`, Arrow's) do not tell a
//! quoted value from one without quotes, which is how PostgreSQL tells a text from NULL, and have rules of their own for ends
//! of lines.

mod arbitrary;
mod binary;
mod fields;
mod file_in;
mod file_out;
mod lines;
mod reader;
mod writer;

pub use arbitrary::{ArbitraryRow, split_arbitrary};
pub use file_in::read_file;
pub use file_out::{RowFile, write_files};
pub use reader::CopyReader;
pub use writer::CopyWriter;
