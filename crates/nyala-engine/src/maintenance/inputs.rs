//! The inputs of flushes and compactions.

use super::pace::MergePace;
use crate::files::rowset::{Rowset, RowsetKind};
use crate::memory::memtable::Memtable;
use crate::rows::tombstone::Tombstone;
use nyala_core::Result;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// What a flush or a compaction reads.
pub(crate) struct MergeInputs<'a> {
    /// What the files are for that are written.
    pub(crate) kind: RowsetKind,
    pub(crate) rowsets: &'a [Arc<Rowset>],
    pub(crate) memtables: &'a [Arc<Memtable>],
    /// Those that may hide rows of these.
    pub(crate) tombstones: &'a [Arc<Tombstone>],
    /// The partition has nothing older, so that deletes need not be kept.
    pub(crate) oldest: bool,
    /// The sequences of their batches.
    pub(crate) sequences: (u64, u64),
    /// See [`RowsetMeta::since_sequence`](crate::files::rowset::RowsetMeta).
    pub(crate) since_sequence: u64,
    /// Rows and deletes up to here are read.
    pub(crate) sequence: u64,
    /// Rows are written with their sequences, for reading the past.
    pub(crate) keeps_sequences: bool,
    /// Counts the rows that are written.
    pub(crate) written_rows: Option<&'a AtomicU64>,
    /// For a compaction, which may take minutes: it is given up when the engine closes.
    pub(crate) pace: Option<&'a MergePace<'a>>,
}

impl MergeInputs<'_> {
    /// Is called after each step.
    pub(super) fn step(&self) -> Result<()> {
        self.pace.map_or(Ok(()), MergePace::step)
    }
}
