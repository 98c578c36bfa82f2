//! Rowsets: immutable files of rows sorted by key, columns apart.
//!
//! A file is a chain of *row groups* of at most [`GROUP_ROWS`] rows. In a group every column is one block;
//! all blocks of a group hold the same rows, so a row's number in the group finds it in every column.
//! Index pages say where the blocks are and what is in them, the footer where the pages are. Every block
//! and page has a checksum beside its address, and is verified when it enters the cache.
//!
//! The layout is drawn in `docs/format/rowset.md`.

pub(crate) mod block;
pub(crate) mod block_cache;
pub(crate) mod bloom;
mod cached_row;
mod clock_cache;
pub(crate) mod format;
pub(crate) mod gather;
pub(crate) mod group_blocks;
pub(crate) mod keyed;
pub(crate) mod keyed_group;
pub(crate) mod keyed_page;
pub(crate) mod keys;
pub(crate) mod loaded;
pub(crate) mod lookup;
pub(crate) mod origin;
pub(crate) mod reader;
mod rows;
pub(crate) mod run_iterator;
pub(crate) mod series;
pub(crate) mod verified;
pub(crate) mod writer;

/// Rows of a group of a series-keyed table.
pub(crate) const GROUP_ROWS: usize = nyala_column::BLOCK_VALUES;
/// Rows of a group of any other table: a vector.
pub(crate) const KEYED_GROUP_ROWS: usize = 1024;
/// Bytes of rows of such a group, unless one row is longer. A look-up of a row that is not in the cache reads about so
/// much, and scans read columns in parts of it.
pub(crate) const KEYED_GROUP_BYTES: usize = 32 << 10;
/// The same for each column, if there are many: in a table of 150 columns, 32 KiB are 22 rows, and blocks of 22 values took 8 bytes
/// a value and made scans 20 times as expensive. With 4 KiB they have 500 numbers.
pub(crate) const KEYED_COLUMN_BYTES: usize = 4 << 10;
/// Groups whose index entries share a page.
pub(crate) const PAGE_GROUPS: usize = 256;
/// The same in any other table: a look-up reads a page whose group is not in the cache.
pub(crate) const KEYED_PAGE_GROUPS: usize = 32;
/// A page with so many rows is full, because of its filter.
pub(crate) const KEYED_PAGE_ROWS: usize = 16 << 10;
/// A series with so many rows in a group has vectors of its own.
pub(crate) const LONG_RUN_ROWS: usize = 128;

pub(crate) use reader::{Rowset, RowsetKind, RowsetMeta, RowsetSource};
