//! Rows of a stage move from memory to the disk.
//!
//! A memtable of the stage becomes a rowset of its own. It must be newer than all that was there at the opening, and
//! readers take rowsets to be older than memtables. So what was in memory at the opening is written, too, once for each
//! partition. That also lets the store have this memory back.

use super::own_rows::own_rowsets;
use super::staged_rows::StagedRows;
use crate::files::rowset::Rowset;
use crate::maintenance::Maintenance;
use crate::maintenance::stages::StagedInputs;
use crate::memory::version::{PartitionVersion, TableVersion, Version};
use nyala_core::{Result, TableId};
use std::sync::Arc;

/// So many runs of a stage, none larger than all newer ones together, are merged: readers and the commit have few.
const MERGED_RUNS: usize = 8;

impl StagedRows {
    /// Moves everything that was staged to the disk. After an error it is where it was.
    pub(super) fn spill(&mut self, maintenance: &Maintenance) -> Result<()> {
        let mut version = Version::clone(&self.version);
        let mut opened = Version::clone(&self.opened.version);
        for id in &self.written {
            let mut table = TableVersion::clone(version.table(*id)?);
            let mut before = TableVersion::clone(opened.table(*id)?);
            for position in 0..table.partitions.len() {
                let partition = table.partitions[position].clone();
                let Some(active) = partition.active_if_made().filter(|memtable| !memtable.is_empty()) else {
                    continue;
                };
                let mut rowsets = partition.rowsets.clone();
                rowsets.extend(self.write_opened(maintenance, &table, &partition)?);
                let place = before.partitions.iter().position(|other| other.id == partition.id);
                if let Some(place) = place.filter(|_| !partition.frozen.is_empty()) {
                    before.partitions[place] = Arc::new(partition.on_disk(rowsets.clone()));
                }
                let newest = rowsets.iter().map(|rowset| rowset.meta.max_sequence).max().unwrap_or(0);
                let own = StagedInputs {
                    rowsets: &[],
                    memtables: std::slice::from_ref(active),
                    tombstones: &[],
                    sequences: (newest.max(self.opened.sequence) + 1, self.sequence),
                };
                rowsets.extend(maintenance.write_staged(&table, &partition, &own)?);
                let spilled = self.merged(maintenance, &table, partition.on_disk(rowsets))?;
                table.partitions[position] = Arc::new(spilled);
            }
            version.put_table(table);
            opened.put_table(before);
        }
        (self.version, self.opened.version) = (Arc::new(version), Arc::new(opened));
        self.spilled_to = self.sequence;
        self.memtables.lock().clear();
        Ok(())
    }

    /// Moves what was in memory at the opening, in the one partition of a table, to the disk. Of the stage it has nothing
    /// in memory.
    pub(super) fn spill_opened(&mut self, maintenance: &Maintenance, id: TableId) -> Result<()> {
        let mut table = TableVersion::clone(self.version.table(id)?);
        for position in 0..table.partitions.len() {
            let partition = table.partitions[position].clone();
            if partition.frozen.is_empty() {
                continue;
            }
            let mut rowsets = partition.rowsets.clone();
            rowsets.extend(self.write_opened(maintenance, &table, &partition)?);
            table.partitions[position] = Arc::new(partition.on_disk(rowsets.clone()));
            let mut before = TableVersion::clone(self.opened.version.table(id)?);
            if let Some(place) = before.partitions.iter().position(|other| other.id == partition.id) {
                before.partitions[place] = Arc::new(partition.on_disk(rowsets));
                self.opened.version = Arc::new(self.opened.version.with_table(before));
            }
        }
        self.version = Arc::new(self.version.with_table(table));
        Ok(())
    }

    /// Writes what was in memory at the opening.
    fn write_opened(
        &self,
        maintenance: &Maintenance,
        table: &TableVersion,
        partition: &PartitionVersion,
    ) -> Result<Vec<Arc<Rowset>>> {
        if partition.frozen.is_empty() {
            return Ok(Vec::new());
        }
        let last = self.opened.sequence;
        let newest = partition.rowsets.iter().map(|rowset| rowset.meta.max_sequence).max().unwrap_or(0);
        let inputs = StagedInputs {
            rowsets: &[],
            memtables: &partition.frozen,
            tombstones: &table.tombstones,
            // If the rowsets have all of them, memory has no row that is seen, and nothing is written.
            sequences: ((newest + 1).min(last), last),
        };
        maintenance.write_staged(table, partition, &inputs)
    }

    /// Merges the newest runs of the stage if they are many.
    pub(super) fn merged(
        &self,
        maintenance: &Maintenance,
        table: &TableVersion,
        partition: PartitionVersion,
    ) -> Result<PartitionVersion> {
        // The rowsets of a run have the same sequences, and no keys in common.
        let own = own_rowsets(&partition, self.opened.sequence);
        let runs: Vec<&[Arc<Rowset>]> =
            own.chunk_by(|a, b| a.meta.min_sequence == b.meta.min_sequence).collect();
        let mut bytes = 0;
        let similar = runs.iter().rev().take_while(|run| {
            let of_run: u64 = run.iter().map(|rowset| rowset.meta.length_bytes).sum();
            let is_similar = bytes == 0 || of_run <= bytes;
            bytes += of_run;
            is_similar
        });
        let similar = similar.count();
        let rowsets = runs[runs.len() - similar..].iter().map(|run| run.len()).sum::<usize>();
        let merged = &own[own.len() - rowsets..];
        let (Some(first), true) = (merged.first(), similar >= MERGED_RUNS) else {
            return Ok(partition);
        };
        let inputs = StagedInputs {
            rowsets: merged,
            memtables: &[],
            tombstones: &[],
            sequences: (first.meta.min_sequence, self.sequence),
        };
        let kept = partition.rowsets.len() - merged.len();
        let mut rowsets = partition.rowsets[..kept].to_vec();
        rowsets.extend(maintenance.write_staged(table, &partition, &inputs)?);
        Ok(partition.on_disk(rowsets))
    }
}
