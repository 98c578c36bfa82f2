//! Reading rows: from a request to a stream of batches.
//!
//! Series-keyed tables are read series by series ([`series`]), each partition by partition in order of
//! time; within a partition a series is cut into segments in which either one source has all rows or
//! several must be merged ([`partition`]). Order of time sorts slices of such reads ([`time_order`], [`slices`],
//! [`sorting`]).
//! Other tables are merged over all their sources by key ([`keyed`]), or asked for one key ([`lookup`]) or
//! whether many have rows ([`existence`]).

pub(crate) mod existence;
pub(crate) mod filter;
mod group_rows;
pub(crate) mod key_merge;
pub(crate) mod keyed;
pub(crate) mod keyed_rows;
pub(crate) mod lookup;
pub(crate) mod partition;
mod pending_batch;
mod scan_buffer;
pub(crate) mod scan_spec;
pub(crate) mod series;
mod slices;
mod sorting;
pub(crate) mod time_order;

/// Rows of a batch, about.
pub(crate) const BATCH_ROWS: usize = 8192;
