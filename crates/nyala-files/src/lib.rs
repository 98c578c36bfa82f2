//! Rows in files: Parquet in and out, and where on the disk a file may be.
//!
//! [`parquet`] writes record batches and reads them back; it trusts no file ([`parquet::input`]). [`Directory`] is the
//! folder that files stay in, whatever path somebody names, [`Bucket`] one of S3, and [`WholeFile`] a file that appears when all of
//! it is there.
//! [`partition`] spreads rows over files by the values of columns.
//!
//! Nothing here knows where rows come from or go to: the server (`COPY`) and the command line (`nyala export`,
//! `nyala import`) use the same code.

mod bucket;
mod directory;
mod error;
mod folder;
mod object_reader;
pub mod parquet;
pub mod partition;
mod remote;
mod upload;
mod whole_file;

pub use bucket::{Bucket, Object};
pub use directory::{Directory, FileKind};
pub use error::{FileError, FileErrorKind, FileResult};
pub use folder::{Folder, Folders};
pub use object_reader::ObjectReader;
pub use whole_file::WholeFile;
