//! Parquet: record batches to a file ([`output`]), and back ([`input`]).
//!
//! Files come from anybody. Before the `parquet` crate sees one, [`layout`] has walked over its [`footer`] and over the header
//! of each page, so that no declared length makes it take memory that the file does not justify. [`int96`] checks times that it would wrap.

mod footer;
pub mod input;
mod int96;
mod layout;
pub mod output;
#[cfg(test)]
mod tests;
mod thrift;

pub use input::ParquetInput;
pub use output::ParquetOutput;

use std::str::FromStr;

/// How pages are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Zstandard, level 1 as in most programs.
    #[default]
    Zstd,
    /// Snappy, which every reader has.
    Snappy,
    /// LZ4 (`LZ4_RAW`).
    Lz4,
    /// None.
    None,
}

impl Compression {
    /// The words that name one.
    pub const WORDS: &str = "zstd, snappy, lz4 or none";
}

impl FromStr for Compression {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match &*text.to_ascii_lowercase() {
            "zstd" => Ok(Self::Zstd),
            "snappy" => Ok(Self::Snappy),
            "lz4" | "lz4_raw" => Ok(Self::Lz4),
            "none" | "uncompressed" => Ok(Self::None),
            _ => Err(format!("\"{text}\" is no compression: {}", Self::WORDS)),
        }
    }
}

/// The unit of moments in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimeUnit {
    /// As the store has them.
    #[default]
    Nanosecond,
    /// For readers that know no nanoseconds, such as Spark.
    Microsecond,
}

impl TimeUnit {
    /// The words that name one.
    pub const WORDS: &str = "ns or us";
}

impl FromStr for TimeUnit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match &*text.to_ascii_lowercase() {
            "ns" => Ok(Self::Nanosecond),
            "us" | "µs" => Ok(Self::Microsecond),
            _ => Err(format!("\"{text}\" is no unit of times: {}", Self::WORDS)),
        }
    }
}

/// The most rows of a group that can be asked for.
pub const ROW_GROUP_ROWS_MAX: usize = 16 << 20;

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParquetOptions {
    /// How pages are compressed.
    pub compression: Compression,
    /// The most rows of a row group, 1 to [`ROW_GROUP_ROWS_MAX`].
    pub row_group_rows: usize,
    /// A row group ends, too, when it takes about so many bytes: it is in memory until then.
    pub row_group_bytes: usize,
    /// The unit of moments. A moment that has more digits is an error.
    pub time_unit: TimeUnit,
}

impl Default for ParquetOptions {
    fn default() -> Self {
        let (compression, time_unit) = (Compression::default(), TimeUnit::default());
        Self { compression, row_group_rows: 1 << 20, row_group_bytes: 64 << 20, time_unit }
    }
}
