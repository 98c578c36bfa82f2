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
use nyala_core::Result;
use std::sync::Arc;

/// So many rowsets of a stage, none larger than all newer ones together, are merged: readers and the commit have few.
const MERGED_ROWSETS: usize = 8;

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
                    before.partitions[place] = Arc::new(on_disk(&partition, rowsets.clone()));
                }
                let own = StagedInputs {
                    rowsets: &[],
                    memtables: std::slice::from_ref(active),
                    tombstones: &[],
                    sequences: (self.spilled_to + 1, self.sequence),
                };
                rowsets.extend(maintenance.write_staged(&table, &partition, &own)?);
                let spilled = self.merged(maintenance, &table, on_disk(&partition, rowsets))?;
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

    /// Merges the newest rowsets of the stage if they are many.
    fn merged(
        &self,
        maintenance: &Maintenance,
        table: &TableVersion,
        partition: PartitionVersion,
    ) -> Result<PartitionVersion> {
        let own = own_rowsets(&partition, self.opened.sequence);
        let mut bytes = 0;
        let similar = own.iter().rev().take_while(|rowset| {
            let is_similar = bytes == 0 || rowset.meta.length_bytes <= bytes;
            bytes += rowset.meta.length_bytes;
            is_similar
        });
        let similar = &own[own.len() - similar.count()..];
        let (Some(first), true) = (similar.first(), similar.len() >= MERGED_ROWSETS) else {
            return Ok(partition);
        };
        let inputs = StagedInputs {
            rowsets: similar,
            memtables: &[],
            tombstones: &[],
            sequences: (first.meta.min_sequence, self.sequence),
        };
        let kept = partition.rowsets.len() - similar.len();
        let mut rowsets = partition.rowsets[..kept].to_vec();
        rowsets.extend(maintenance.write_staged(table, &partition, &inputs)?);
        Ok(on_disk(&partition, rowsets))
    }
}

/// A partition that has nothing in memory.
fn on_disk(partition: &PartitionVersion, rowsets: Vec<Arc<Rowset>>) -> PartitionVersion {
    PartitionVersion::new(partition.id, partition.range).with_rowsets(rowsets, &[])
}
