//! Which of many keys of a keyed table have rows.
//!
//! All keys are looked up in one source before the next, so its index pages stay in the processor's cache.

use super::lookup::time_of;
use crate::files::rowset::Rowset;
use crate::files::rowset::lookup::SoughtKey;
use crate::memory::version::{PartitionVersion, TableVersion};
use crate::rows::key::KeyRange;
use crate::rows::key_tombstones::KeyTombstones;
use crate::rows::newest_row::NewestRow;
use crate::rows::projection::Projection;
use crate::rows::tombstone::{Tombstone, hidden_to};
use nyala_core::Result;
use std::collections::BTreeMap;
use std::sync::Arc;

/// For so many keys deleted ranges are sorted, which takes longer than to ask each of them for a few keys.
const SORTED_FROM: usize = 16;

/// For each of some encoded keys whether it has a row, seen at a sequence.
pub(crate) fn existing<'k>(
    table: &TableVersion,
    sequence: u64,
    keys: impl Iterator<Item = &'k [u8]>,
) -> Result<Vec<bool>> {
    let mut exists = Vec::new();
    let mut of_partitions: BTreeMap<usize, Unknown<'k>> = BTreeMap::new();
    for (row, key) in keys.enumerate() {
        exists.push(false);
        if let Some(position) = table.partition_at(time_of(table, key)) {
            of_partitions.entry(position).or_default().push(key, row);
        }
    }
    let tombstones = &table.tombstones[..table.tombstones.partition_point(|each| each.sequence <= sequence)];
    for (position, mut unknown) in of_partitions {
        unknown.sort();
        unknown.find_hidden(tombstones);
        let partition = &table.partitions[position];
        unknown.look_into_memory(partition, sequence, &mut exists)?;
        unknown.look_into_files(table, partition, &mut exists)?;
    }
    Ok(exists)
}

/// Keys of a partition of which no version was found yet, each with its place among those that were asked for.
#[derive(Default)]
struct Unknown<'k> {
    keys: Vec<SoughtKey<'k>>,
    rows: Vec<usize>,
    /// The sequence up to which deleted ranges hide each.
    hidden_to: Vec<u64>,
}

impl<'k> Unknown<'k> {
    fn push(&mut self, key: &'k [u8], row: usize) {
        self.keys.push(SoughtKey::new(key));
        self.rows.push(row);
    }

    fn sort(&mut self) {
        if self.keys.is_sorted_by_key(|sought| sought.key) {
            return;
        }
        let mut order: Vec<usize> = (0..self.keys.len()).collect();
        order.sort_unstable_by_key(|at| self.keys[*at].key);
        self.keys = order.iter().map(|at| self.keys[*at]).collect();
        self.rows = order.iter().map(|at| self.rows[*at]).collect();
    }

    /// Finds out which of them are hidden, once they are sorted.
    fn find_hidden(&mut self, tombstones: &[Arc<Tombstone>]) {
        let keys = self.keys.iter().map(|sought| sought.key);
        self.hidden_to = match (self.keys.first(), self.keys.last()) {
            (Some(first), Some(last)) if self.keys.len() >= SORTED_FROM => {
                let range = KeyRange { start: first.key.to_vec(), end: KeyRange::one(last.key.to_vec()).end };
                let hidden = KeyTombstones::new(tombstones, u64::MAX, &range);
                keys.map(|key| hidden.hidden_to(key)).collect()
            }
            _ => keys.map(|key| hidden_to(tombstones, key)).collect(),
        };
    }

    /// Notes what became known of each key, in order, and keeps the others.
    fn settle(&mut self, known: Vec<Option<bool>>, exists: &mut [bool]) {
        let mut kept = 0;
        for (at, known) in known.into_iter().enumerate() {
            match known {
                Some(is_row) => exists[self.rows[at]] = is_row,
                None => {
                    (self.keys[kept], self.rows[kept]) = (self.keys[at], self.rows[at]);
                    self.hidden_to[kept] = self.hidden_to[at];
                    kept += 1;
                }
            }
        }
        self.keys.truncate(kept);
        self.rows.truncate(kept);
        self.hidden_to.truncate(kept);
    }

    fn look_into_memory(
        &mut self,
        partition: &PartitionVersion,
        sequence: u64,
        exists: &mut [bool],
    ) -> Result<()> {
        let memtables: Vec<_> = partition.memtables().collect();
        for memtable in memtables.into_iter().rev() {
            memtable.check()?;
            let keyed = memtable.keyed().expect("a keyed table");
            let keys = self.keys.iter().map(|sought| sought.key).zip(self.hidden_to.iter().copied());
            let known = keyed.newest_exist(keys, memtable.visible_at(sequence));
            self.settle(known, exists);
        }
        Ok(())
    }

    fn look_into_files(
        &mut self,
        table: &TableVersion,
        partition: &PartitionVersion,
        exists: &mut [bool],
    ) -> Result<()> {
        for layer in partition.key_layers()?.iter().rev() {
            let (Some(first), Some(last)) = (self.keys.first(), self.keys.last()) else { break };
            let mut known = vec![None; self.keys.len()];
            let mut next = 0;
            for rowset in layer.between(first.key, last.key) {
                let (first, last) = rowset.key_bounds()?;
                let begin = next + self.keys[next..].partition_point(|sought| sought.key < first.as_slice());
                next = begin + self.keys[begin..].partition_point(|sought| sought.key <= last.as_slice());
                let (keys, hidden_to) = (&self.keys[begin..next], &self.hidden_to[begin..next]);
                look_into_file(table, rowset, (keys, hidden_to), &mut known[begin..next])?;
            }
            self.settle(known, exists);
        }
        Ok(())
    }
}

/// Notes which of some ascending keys a rowset has a version of, and whether that is one of a row. Each key has the sequence up
/// to which deleted ranges hide it.
fn look_into_file(
    table: &TableVersion,
    rowset: &Arc<Rowset>,
    (keys, hidden_to): (&[SoughtKey<'_>], &[u64]),
    known: &mut [Option<bool>],
) -> Result<()> {
    let projection = Projection::keys_only();
    for (at, page) in rowset.candidates(keys)?.into_iter().enumerate() {
        let Some(page) = page else { continue };
        if rowset.hidden_from() <= hidden_to[at] {
            continue;
        }
        let mut newest = NewestRow::new(&projection);
        rowset.add_version_of(&table.schema, (keys[at], page), &projection, &mut newest)?;
        known[at] = newest.is_found().then(|| newest.exists());
    }
    Ok(())
}
