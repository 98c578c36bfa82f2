//! Compaction: adjacent rowsets of a partition become one.
//!
//! Only rowsets next to each other in sequence are merged, so sequence ranges stay disjoint and newest-wins
//! stays decidable. Rows that tombstones hide, versions that newer ones replace, and (where nothing older
//! is left in the partition) deletes are left out. Readers keep the old rowsets until they are done.

mod pick;

pub(crate) use pick::{Candidate, FAN_IN_BUSY, FAN_IN_QUIET, pick};

use crate::catalog::Edit;
use crate::flush::{durable_tombstones, needed_tombstones};
use crate::output::{Sources, WrittenRowset};
use crate::rowset::Rowset;
use crate::shared::Shared;
use crate::stats::add;
use crate::version::{PartitionVersion, TableVersion};
use nyala_core::{Error, ErrorKind, Result, TimeRange};
use std::ops::Range;
use std::sync::Arc;

impl Shared {
    /// Merges every partition's rowsets into one; false if there was nothing to merge. Blocks.
    pub(crate) fn compact_all(&self) -> Result<bool> {
        let mut candidates = Vec::new();
        for table in self.version().tables.values() {
            for partition in table.partitions.iter().filter(|partition| partition.rowsets.len() > 1) {
                let rowsets = 0..partition.rowsets.len();
                candidates.push(Candidate { table: table.id, partition: partition.id, rowsets, score: 0.0 });
            }
        }
        let mut any = false;
        for candidate in candidates {
            any |= self.compact(&candidate)?;
        }
        Ok(any)
    }

    /// Does one compaction; false if its partition changed or another thread is at it.
    pub(crate) fn compact(&self, candidate: &Candidate) -> Result<bool> {
        {
            let mut busy = self.compacting.lock();
            if busy.contains(&candidate.partition) {
                return Ok(false);
            }
            busy.push(candidate.partition);
        }
        let outcome = self.compact_partition(candidate);
        self.compacting.lock().retain(|id| *id != candidate.partition);
        if !matches!(&outcome, Err(error) if error.kind() == ErrorKind::Cancelled) {
            self.counters.compaction_failure.note(&outcome);
        }
        if let Err(error) = &outcome
            && error.kind() != ErrorKind::Cancelled
        {
            add(&self.counters.compaction_failures, 1);
            tracing::error!(%error, "a compaction failed; its rowsets stay as they are");
            self.set_aside(candidate, error);
        }
        outcome
    }

    /// Keeps a rowset that cannot be read from being tried again and again: what is beside it is still compacted.
    fn set_aside(&self, candidate: &Candidate, error: &Error) {
        let version = self.version();
        let Some((_, partition)) = find(version.tables.get(&candidate.table), candidate.partition) else {
            return;
        };
        if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Missing) {
            let inputs = partition.rowsets.get(candidate.rowsets.clone()).unwrap_or_default();
            let place = error.place().map(|place| &place.file);
            for rowset in inputs {
                if place.is_none_or(|file| *file == rowset.path()) {
                    rowset.set_unreadable();
                }
            }
        }
    }

    fn compact_partition(&self, candidate: &Candidate) -> Result<bool> {
        let Some((table, range, inputs)) = self.inputs(candidate) else { return Ok(false) };
        let sources = Sources {
            rowsets: &inputs,
            memtables: &[],
            oldest: candidate.rowsets.start == 0,
            sequence: u64::MAX,
            cancelled_by: Some(&self.signal),
        };
        let sequences = (inputs[0].meta.min_sequence, inputs[inputs.len() - 1].meta.max_sequence);
        self.remove_abandoned();
        let place = (candidate.partition, range);
        let mut written = self.write_rowset(&table, place, &sources, sequences)?;
        let published = self
            .sync_rowsets(written.iter_mut())
            .and_then(|()| self.options.fs.sync_dir(&self.rowset_dir()))
            .and_then(|()| self.publish_compaction(candidate, &inputs, written.as_ref()));
        if published.is_err() {
            self.abandon(written.iter().map(|written| &written.meta));
        }
        published
    }

    fn publish_compaction(
        &self,
        candidate: &Candidate,
        inputs: &[Arc<Rowset>],
        written: Option<&WrittenRowset>,
    ) -> Result<bool> {
        let mut catalog = self.catalog.lock();
        let version = self.version();
        let Some((table, partition)) = find(version.tables.get(&candidate.table), candidate.partition) else {
            if let Some(WrittenRowset { meta, .. }) = written {
                let _ = self.options.fs.remove(&self.rowset_dir().join(meta.file_name()));
            }
            return Ok(false);
        };
        let mut edits: Vec<Edit> =
            inputs.iter().map(|rowset| Edit::DropRowset { table: table.id, id: rowset.meta.id }).collect();
        let is_input = |rowset: &Arc<Rowset>| inputs.iter().any(|input| Arc::ptr_eq(input, rowset));
        let place: Range<usize> = position_of(&partition.rowsets, &inputs[0]);
        let mut rowsets: Vec<Arc<Rowset>> = partition.rowsets.clone();
        rowsets.retain(|rowset| !is_input(rowset));
        if let Some(WrittenRowset { meta, .. }) = written {
            edits.push(Edit::PutRowset(meta.clone()));
            rowsets.insert(place.start, Rowset::new(meta.clone(), self.source.clone()));
            add(&self.counters.compacted_bytes_written, meta.length_bytes);
        }
        let partition = partition.with_rowsets(rowsets, &[]);
        let mut table = table.with_partition(partition.id, Some(partition));
        table.tombstones = needed_tombstones(&table, catalog.state.flushed_sequence);
        let durable = durable_tombstones(&table.tombstones, catalog.state.flushed_sequence);
        if catalog.state.tables.get(&table.id).is_some_and(|known| known.tombstones != durable) {
            edits.push(Edit::SetTombstones { table: table.id, tombstones: durable });
        }
        catalog.commit(edits)?;
        self.publish(version.with_table(table));
        Self::set_obsolete(inputs.iter());
        add(&self.counters.compactions, 1);
        let read: u64 = inputs.iter().map(|rowset| rowset.meta.length_bytes).sum();
        add(&self.counters.compacted_bytes_read, read);
        Ok(true)
    }

    /// The table without its partitions, and the rowsets to merge. A version held for as long as a compaction
    /// takes would hold memtables that were flushed meanwhile.
    fn inputs(&self, candidate: &Candidate) -> Option<(TableVersion, TimeRange, Vec<Arc<Rowset>>)> {
        let version = self.version();
        let (table, partition) = find(version.tables.get(&candidate.table), candidate.partition)?;
        let inputs = partition.rowsets.get(candidate.rowsets.clone()).filter(|inputs| inputs.len() > 1)?;
        let empty = TableVersion::new(table.id, table.schema.clone());
        let table = TableVersion { tombstones: table.tombstones.clone(), ..empty };
        Some((table, partition.range, inputs.to_vec()))
    }
}

fn find(
    table: Option<&Arc<TableVersion>>,
    partition: u64,
) -> Option<(&Arc<TableVersion>, &Arc<PartitionVersion>)> {
    let table = table?;
    let partition = table.partitions.iter().find(|other| other.id == partition)?;
    Some((table, partition))
}

fn position_of(rowsets: &[Arc<Rowset>], wanted: &Arc<Rowset>) -> Range<usize> {
    // Flushes only append, and no other compaction works on the partition.
    let position = rowsets.iter().position(|rowset| Arc::ptr_eq(rowset, wanted));
    let position = position.expect("the inputs of a compaction stay until it is done");
    position..position + 1
}
