//! Rowsets of stages: rows that do not fit into memory, which only their stage sees, and what its commit makes of them.
//!
//! A commit writes the rows of the stage once more, merged, under a sequence that a flush has just reserved: they are newer
//! than all that was flushed, and older than all that is in memory. One edit of the manifest adopts them. So they appear
//! at once, and after a crash all of them are there or none.

use super::Maintenance;
use super::inputs::MergeInputs;
use super::output::{SplitPoints, WrittenRowset};
use super::pace::MergePace;
use crate::files::catalog::put_rowset;
use crate::files::rowset::{Rowset, RowsetKind, RowsetMeta};
use crate::memory::memtable::Memtable;
use crate::memory::version::{PartitionVersion, TableVersion, Version};
use crate::memory::watermark::TakenSequences;
use crate::rows::tombstone::Tombstone;
use crate::writing::change_journal::{Change, ChangedRows};
use nyala_core::{Error, Result, TableId, TimeRange};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a stage moves from memory to the disk, or merges there.
pub(crate) struct StagedInputs<'a> {
    pub(crate) rowsets: &'a [Arc<Rowset>],
    pub(crate) memtables: &'a [Arc<Memtable>],
    pub(crate) tombstones: &'a [Arc<Tombstone>],
    /// The sequences that the stage has given its batches.
    pub(crate) sequences: (u64, u64),
}

/// Rowsets that are to be adopted by a partition.
pub(crate) struct AdoptedRowsets {
    pub(crate) table: TableId,
    pub(crate) partition: u64,
    pub(crate) written: Vec<WrittenRowset>,
}

/// Partitions that are not compacted while this is held.
pub(crate) struct HeldPartitions {
    maintenance: Arc<Maintenance>,
    partitions: Vec<u64>,
}

impl Drop for HeldPartitions {
    fn drop(&mut self) {
        let mut held = self.maintenance.held.lock();
        for partition in &self.partitions {
            let place = held.iter().position(|other| other == partition).expect("is held until now");
            held.swap_remove(place);
        }
    }
}

impl Maintenance {
    /// Begins no compaction of some partitions: it could merge rowsets from before and after a sequence that is to be
    /// adopted between them.
    pub(crate) fn hold(self: &Arc<Self>, partitions: Vec<u64>) -> HeldPartitions {
        self.held.lock().extend(&partitions);
        HeldPartitions { maintenance: self.clone(), partitions }
    }

    /// Writes rows that only a stage sees. The files go with the last reference.
    pub(crate) fn write_staged(
        &self,
        table: &TableVersion,
        partition: &PartitionVersion,
        inputs: &StagedInputs<'_>,
    ) -> Result<Vec<Arc<Rowset>>> {
        let merged = MergeInputs {
            kind: RowsetKind::Staged,
            rowsets: inputs.rowsets,
            memtables: inputs.memtables,
            tombstones: inputs.tombstones,
            oldest: false,
            sequences: inputs.sequences,
            since_sequence: 0,
            sequence: inputs.sequences.1,
            keeps_sequences: false,
            written_rows: None,
            pace: Some(&MergePace::full(&self.signal)),
        };
        let (splits, mut written) = (SplitPoints { keys: &[], bytes_max: u64::MAX }, Vec::new());
        let outcome =
            self.output.write(table, (partition.id, partition.range), &merged, splits, &mut written);
        let rowset = |written: WrittenRowset| {
            let rowset = Rowset::new(written.meta, self.output.source.clone());
            rowset.set_obsolete();
            rowset.set_clean_to(inputs.sequences.1);
            rowset
        };
        // After an error the files that were finished go at once.
        let rowsets = written.into_iter().map(rowset).collect();
        outcome.map(|()| rowsets)
    }

    /// Writes the rows of a stage in a partition, without those that are hidden, as rowsets of a reserved sequence. After an
    /// error `written` has those that were finished.
    pub(crate) fn write_adopted(
        &self,
        table: &TableVersion,
        (partition, range): (u64, TimeRange),
        (rowsets, hidden): (&[Arc<Rowset>], &[Arc<Tombstone>]),
        sequence: u64,
        written: &mut Vec<WrittenRowset>,
    ) -> Result<()> {
        let inputs = MergeInputs {
            kind: RowsetKind::Rows,
            rowsets,
            memtables: &[],
            tombstones: hidden,
            // What is in memory is newer.
            oldest: self.is_without_rowsets(table.id, partition),
            sequences: (sequence, sequence),
            since_sequence: 0,
            sequence: u64::MAX,
            keeps_sequences: false,
            written_rows: None,
            pace: Some(&MergePace::full(&self.signal)),
        };
        let splits = SplitPoints { keys: &[], bytes_max: self.options.rowset_bytes_max_of(&table.schema) };
        self.output.write(table, (partition, range), &inputs, splits, written)?;
        self.output.sync(written.iter_mut())
    }

    /// Whether a partition has no rowsets. The version is not held while rows are written: it would hold memtables that are
    /// flushed.
    fn is_without_rowsets(&self, table: TableId, partition: u64) -> bool {
        let version = self.versions.current();
        let is_empty = |other: &Arc<PartitionVersion>| other.id == partition && other.rowsets.is_empty();
        version.tables.get(&table).is_some_and(|table| table.partitions.iter().any(is_empty))
    }

    /// Makes rowsets, whose names are synced, part of their partitions. The sequence `since` is where the past begins to
    /// have them, and whoever sees it sees them. The caller holds their tables exclusively, and the lock of the store.
    pub(crate) fn adopt(&self, adopted: &[AdoptedRowsets], since: TakenSequences) -> Result<()> {
        let mut catalog = self.versions.catalog.lock();
        let mut changed = Version::clone(&self.versions.current());
        let since_sequence = if self.keeps_past() { since.last } else { 0 };
        let (mut edits, mut added) = (Vec::new(), BTreeMap::<TableId, Vec<Arc<Rowset>>>::new());
        for AdoptedRowsets { table, partition, written } in adopted {
            let gone =
                || Error::conflict(format!("the partition {partition} of table {table} was dropped since"));
            let table = changed.table(*table).map_err(|_| gone())?;
            let partition = table.partitions.iter().find(|other| other.id == *partition).ok_or_else(gone)?;
            let mut rowsets = partition.rowsets.clone();
            for WrittenRowset { meta, .. } in written {
                let meta = RowsetMeta { since_sequence, ..meta.clone() };
                edits.push(put_rowset(meta.clone()));
                let rowset = Rowset::new(meta, self.output.source.clone());
                rowset.set_clean_to(rowset.meta.max_sequence);
                added.entry(table.id).or_default().push(rowset.clone());
                rowsets.push(rowset);
            }
            let partition = partition.with_rowsets(rowsets, &[]);
            let table = table.with_partition(partition.id, Some(partition));
            changed.put_table(table);
        }
        let sequence = |rowsets: &[Arc<Rowset>]| rowsets.first().map_or(0, |rowset| rowset.meta.max_sequence);
        let changes = added.into_iter().map(|(table, rowsets)| Change {
            table,
            sequence: sequence(&rowsets),
            rows: ChangedRows::Rowsets(rowsets),
        });
        let changes: Vec<Change> = changes.collect();
        self.writer.reserve.make_room(0);
        self.versions.commit(&mut catalog, edits, || {
            self.writer.journal.publish(changes, || self.versions.publish_at(changed, since));
        })
    }
}
