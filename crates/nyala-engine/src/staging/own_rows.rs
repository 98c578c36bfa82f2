//! The keys that a stage has written or deleted in a table.

use super::deleted_ranges::{CHUNK_ROWS, DeletedRanges};
use crate::files::rowset::Rowset;
use crate::files::rowset::lookup::SoughtKey;
use crate::files::rowset::reader::Use;
use crate::memory::key_layers::KeyLayers;
use crate::memory::memtable::Memtable;
use crate::memory::version::{PartitionVersion, TableVersion};
use crate::reading::scan::key_merge::KeyMerge;
use crate::reading::scan::lookup::time_of;
use crate::reading::scan::partition::PartitionReader;
use crate::rows::key::KeyRange;
use crate::rows::newest_row::NewestRow;
use crate::rows::projection::Projection;
use crate::writing::conditional_write::RowKey;
use hashbrown::HashMap;
use nyala_core::{Result, SeriesId, TimeRange};
use std::sync::Arc;

pub(super) struct OwnRows<'a> {
    /// As the stage sees it.
    table: &'a TableVersion,
    /// The sequence of the opening, and that of the last batch of the stage.
    sequences: (u64, u64),
    /// Readers of the partitions that were looked into, by position.
    readers: HashMap<usize, OwnReader>,
}

struct OwnReader {
    reader: PartitionReader,
    /// The times that it finds keys at: nearly all that others write lies beyond.
    times: TimeRange,
}

impl<'a> OwnRows<'a> {
    pub(super) fn new(table: &'a TableVersion, sequences: (u64, u64)) -> Self {
        Self { table, sequences, readers: HashMap::new() }
    }

    /// The partitions that have some, by position.
    pub(super) fn partitions(&self) -> impl Iterator<Item = (usize, &'a Arc<PartitionVersion>)> + use<'a> {
        let opened = self.sequences.0;
        let has_own = move |partition: &PartitionVersion| {
            partition.has_active_rows() || !own_rowsets(partition, opened).is_empty()
        };
        self.table.partitions.iter().enumerate().filter(move |(_, partition)| has_own(partition))
    }

    /// Whether the stage has written or deleted a key.
    pub(super) fn has(&mut self, key: &RowKey<'_>) -> Result<bool> {
        let Some(position) = self.table.partition_at(key.time_ns()) else { return Ok(false) };
        let partition = &self.table.partitions[position];
        match key {
            RowKey::Encoded { key, .. } => self.has_encoded(partition, key),
            RowKey::Point { series, time_ns } => {
                let time = TimeRange::new(*time_ns, time_ns.saturating_add(1));
                let OwnReader { reader, times } = self.reader(position)?;
                if !times.contains(*time_ns) {
                    return Ok(false);
                }
                for segment in reader.segments(*series, time)? {
                    if reader.read_with_deletes(*series, segment)?.rows() > 0 {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }

    fn has_encoded(&self, partition: &PartitionVersion, key: &[u8]) -> Result<bool> {
        if partition.active_if_made().is_some_and(|memtable| memtable.keyed().is_some_and(|m| m.has(key))) {
            return Ok(true);
        }
        let projection = Projection::keys_only();
        let mut newest = NewestRow::new(&projection);
        let around = partition.key_layers()?.around(key);
        for rowset in around.filter(|rowset| rowset.meta.max_sequence > self.sequences.0) {
            rowset.add_version(&self.table.schema, SoughtKey::new(key), &projection, &mut newest)?;
        }
        Ok(newest.is_found())
    }

    /// Visits the keys of a partition, in order.
    pub(super) fn for_each(
        &self,
        position: usize,
        visit: &mut dyn FnMut(&RowKey<'_>) -> Result<()>,
    ) -> Result<()> {
        let partition = &self.table.partitions[position];
        let rowsets = own_rowsets(partition, self.sequences.0);
        for_each_key(self.table, rowsets, partition.active_if_made(), visit)
    }

    /// The same with those that lie in ranges.
    pub(super) fn for_each_in(
        &self,
        position: usize,
        ranges: &DeletedRanges,
        visit: &mut dyn FnMut(&RowKey<'_>) -> Result<()>,
    ) -> Result<()> {
        let partition = &self.table.partitions[position];
        let mut around = Vec::new();
        for rowset in own_rowsets(partition, self.sequences.0) {
            if ranges.may_hold_keys_of(rowset)? {
                around.push(rowset.clone());
            }
        }
        ranges.for_each_key(self.table, &around, partition.active_if_made(), visit)
    }

    /// Whether files have to be read to know which keys lie in ranges.
    pub(super) fn has_files_around(&self, ranges: &DeletedRanges) -> Result<bool> {
        for (_, partition) in self.partitions() {
            for rowset in own_rowsets(partition, self.sequences.0) {
                if ranges.may_hold_keys_of(rowset)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// A reader of the stage's own rows in a partition.
    fn reader(&mut self, position: usize) -> Result<&mut OwnReader> {
        use hashbrown::hash_map::Entry;
        Ok(match self.readers.entry(position) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let partition = &self.table.partitions[position];
                let memtables = partition.active_if_made().into_iter();
                let rowsets = own_rowsets(partition, self.sequences.0);
                let projection = Projection::keys_only();
                let (last, all) = (self.sequences.1, TimeRange::ALL);
                let of_memtables = memtables.clone().filter_map(|memtable| memtable.time_bounds());
                let times = rowsets.iter().map(|rowset| rowset.meta.time()).chain(of_memtables);
                let times = times.reduce(TimeRange::around).unwrap_or(TimeRange::new(0, 0));
                let reader = PartitionReader::of(rowsets, memtables, &[], last, all, projection)?;
                entry.insert(OwnReader { reader, times })
            }
        })
    }
}

/// Visits the keys in rowsets and a memtable of a stage, in order.
pub(super) fn for_each_key(
    table: &TableVersion,
    rowsets: &[Arc<Rowset>],
    memtable: Option<&Arc<Memtable>>,
    visit: &mut dyn FnMut(&RowKey<'_>) -> Result<()>,
) -> Result<()> {
    let (memtables, projection) = (memtable.into_iter(), Projection::keys_only());
    if table.schema.is_series_keyed() {
        let all = TimeRange::ALL;
        let mut reader = PartitionReader::of(rowsets, memtables, &[], u64::MAX, all, projection)?;
        let mut least = Some(0);
        while let Some(series) = least.map(|least| reader.next_series(least)).transpose()?.flatten() {
            for segment in reader.segments(SeriesId(series), all)? {
                for time_ns in reader.read_with_deletes(SeriesId(series), segment)?.keys {
                    visit(&RowKey::Point { series: SeriesId(series), time_ns })?;
                }
            }
            least = series.checked_add(1);
        }
        return Ok(());
    }
    let (schema, range) = (table.schema.clone(), KeyRange::all());
    let mut merge = KeyMerge::new(schema, (&[], u64::MAX), projection, range, false, Use::Once);
    merge.add(&Arc::new(KeyLayers::of(rowsets)?), memtables, CHUNK_ROWS)?;
    while let Some(batch) = merge.next_batch()? {
        for row in 0..batch.rows() {
            let key = batch.keys.get(row);
            visit(&RowKey::Encoded { key, time_ns: time_of(table, key) })?;
        }
    }
    Ok(())
}

/// The rowsets that a stage has written, from oldest to newest: no other has sequences after its opening.
pub(super) fn own_rowsets(partition: &PartitionVersion, opened: u64) -> &[Arc<Rowset>] {
    let first = partition.rowsets.partition_point(|rowset| rowset.meta.max_sequence <= opened);
    &partition.rowsets[first..]
}
