//! Rows, their keys and their deletion: what files and memory have in common.

pub(crate) mod byte_vec;
pub(crate) mod column_buffer;
pub(crate) mod deleted_series;
pub(crate) mod key;
pub(crate) mod key_tombstones;
pub(crate) mod merge;
pub(crate) mod newest_row;
pub(crate) mod projection;
pub(crate) mod series_lookup;
pub(crate) mod series_tombstones;
pub(crate) mod tombstone;
pub(crate) mod wire;
