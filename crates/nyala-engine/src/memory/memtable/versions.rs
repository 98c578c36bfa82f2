//! All versions of rows that memtables have several of: what a flush would otherwise forget.

use super::Memtable;
use super::keyed::KeyedMemtable;
use super::row_collector::RowCollector;
use super::series::SeriesMemtable;
use crate::rows::byte_vec::ByteVec;
use crate::rows::column_buffer::{Column, Kind, VALUE, Values};
use crate::rows::key::{self, KeyRange};
use crate::rows::key_tombstones::KeyTombstones;
use crate::rows::merge::{self, RowBatch, UPSERTED};
use crate::rows::projection::Projection;
use crate::rows::series_tombstones::SeriesTombstones;
use crate::rows::tombstone::Tombstone;
use nyala_core::{ColumnType, Result, SeriesId, TimeRange};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// Rows that are handed over at once.
const BATCH_ROWS: usize = 4096;
/// Or fewer, if they have so many bytes of texts.
const BATCH_BYTES: usize = 4 << 20;

/// Hands over all versions of the rows of memtables of one partition of which newer ones or deleted ranges hide
/// something. Their keys are those of rows, followed by the sequence ([`versioned_key`]), and ascend.
pub(crate) fn for_each_replaced(
    memtables: &[Arc<Memtable>],
    tombstones: &[Arc<Tombstone>],
    projection: &Projection,
    mut take: impl FnMut(&RowBatch<ByteVec>) -> Result<()>,
) -> Result<()> {
    let series: Vec<&SeriesMemtable> = memtables.iter().filter_map(|memtable| memtable.series()).collect();
    if series.is_empty() {
        return for_each_replaced_key(memtables, tombstones, projection, take);
    }
    let all: BTreeSet<SeriesId> = series.iter().flat_map(|memtable| memtable.series()).collect();
    let mut tombstones = SeriesTombstones::new(tombstones.to_vec());
    for id in all {
        let times = replaced_times(&series, id, tombstones.of(id));
        if times.is_empty() {
            continue;
        }
        let mut collector = RowCollector::new(projection);
        series
            .iter()
            .for_each(|each| each.collect_versions(id, |time_ns| times.contains(&time_ns), &mut collector));
        let mut versions = collector.into_versions();
        let sequences = versions.columns.pop().expect("sequences are the last column");
        let kinds = &projection.kinds[..projection.kinds.len() - 1];
        let mut keys = ByteVec::new();
        let ids = Column::words(vec![id.0.into(); versions.rows()]);
        let times = Column::words(versions.keys.iter().map(|time_ns| *time_ns as u64).collect());
        let mut key = Vec::new();
        for row in 0..versions.rows() {
            key.clear();
            key::encode_decoded(&mut key, &ids, ColumnType::UInt32, row);
            key::encode_decoded(&mut key, &times, ColumnType::Timestamp, row);
            keys.push(&versioned_key(&key, sequence_at(&sequences, row)));
        }
        let RowBatch { markers, columns, .. } = versions;
        // A batch may write a row twice.
        take(&merge::collapse(RowBatch { keys, markers, columns }, kinds))?;
    }
    Ok(())
}

/// The times at which a series has several versions of a row, or a hidden one.
fn replaced_times(
    memtables: &[&SeriesMemtable],
    series: SeriesId,
    tombstones: &[Arc<Tombstone>],
) -> HashSet<i64> {
    let hiding: Vec<(u64, TimeRange)> =
        tombstones.iter().filter_map(|each| Some((each.sequence, each.times_of(series)?))).collect();
    let with_rows = memtables.iter().filter(|memtable| memtable.row_count(series) > 0);
    if hiding.is_empty()
        && with_rows.clone().count() < 2
        && with_rows.clone().all(|each| each.is_in_order(series))
    {
        return HashSet::new();
    }
    let no_columns = Projection::keys_only();
    let mut collector = RowCollector::new(&no_columns);
    with_rows.for_each(|memtable| memtable.collect_versions(series, |_| true, &mut collector));
    let mut seen: Vec<(i64, u64)> = collector.versions().collect();
    seen.sort_unstable();
    let doubled = seen.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| pair[0].0);
    let is_hidden = |version: &&(i64, u64)| {
        hiding.iter().any(|(sequence, times)| version.1 <= *sequence && times.contains(version.0))
    };
    doubled.chain(seen.iter().filter(is_hidden).map(|version| version.0)).collect()
}

/// The same of tables with any key: as many at once as fit into little memory, because all of them may be replaced.
fn for_each_replaced_key(
    memtables: &[Arc<Memtable>],
    tombstones: &[Arc<Tombstone>],
    projection: &Projection,
    mut take: impl FnMut(&RowBatch<ByteVec>) -> Result<()>,
) -> Result<()> {
    let kinds = &projection.kinds[..projection.kinds.len() - 1];
    let hidden = KeyTombstones::new(tombstones, u64::MAX, &KeyRange::all());
    let keyed = memtables.iter().map(|memtable| memtable.keyed().expect("a table not keyed by series"));
    let keyed: Vec<&KeyedMemtable> = keyed.collect();
    let mut batch: RowBatch<ByteVec> = RowBatch::empty(kinds);
    let mut markers = Vec::new();
    KeyedMemtable::for_each_replaced(&keyed, projection, &hidden, |key, sequence, marker, push_cell| {
        let key = versioned_key(key, sequence);
        let is_full = batch.rows() >= BATCH_ROWS || batch.string_bytes() >= BATCH_BYTES;
        // A batch may write a row twice: both are handed over together.
        if is_full && batch.keys.get(batch.rows() - 1) != key.as_slice() {
            let full = std::mem::replace(&mut batch, RowBatch::empty(kinds));
            take(&collapsed(full, std::mem::take(&mut markers), kinds))?;
        }
        batch.keys.push(&key);
        markers.push(marker);
        batch.columns.iter_mut().enumerate().for_each(|(position, column)| push_cell(position, column));
        Ok(())
    })?;
    if batch.rows() > 0 { take(&collapsed(batch, markers, kinds)) } else { Ok(()) }
}

fn collapsed(mut batch: RowBatch<ByteVec>, markers: Vec<u8>, kinds: &[Kind]) -> RowBatch<ByteVec> {
    if markers.iter().any(|marker| *marker != UPSERTED) {
        batch.markers = Some(markers);
    }
    merge::collapse(batch, kinds)
}

/// A sequence in a column of them; 0 where there is none.
pub(crate) fn sequence_at(column: &Column, row: usize) -> u64 {
    match &column.values {
        Values::Word(words) if column.state(row) == VALUE => words[row],
        _ => 0,
    }
}

/// The key of a version of a row.
fn versioned_key(key: &[u8], sequence: u64) -> Vec<u8> {
    [key, &sequence.to_be_bytes()].concat()
}

/// The key of the row of a version, and its sequence.
pub(crate) fn split_versioned_key(key: &[u8]) -> Option<(&[u8], u64)> {
    let (key, sequence) = key.split_last_chunk::<8>()?;
    Some((key, u64::from_be_bytes(*sequence)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::rowset::writer::sequenced_columns;
    use crate::memory::memtable::PreparedUpsert;
    use arrow_array::{StringArray, UInt64Array};
    use nyala_core::memory::MemoryBudget;
    use nyala_core::store::{CellColumn, Upsert, WriteMode};
    use nyala_core::{ColumnId, ColumnSchema, TableId, TableSchema};

    #[test]
    fn replaced_versions_of_keys_are_handed_over_in_small_parts() -> Result<()> {
        const KEYS: u64 = 1000;
        let columns = vec![
            ColumnSchema::new(ColumnId(0), "k", ColumnType::UInt64).required(),
            ColumnSchema::new(ColumnId(1), "t", ColumnType::String),
        ];
        let schema = TableSchema::keyed("t", columns, vec![ColumnId(0)]);
        let (budget, text) = (MemoryBudget::new(256 << 20), "x".repeat(16 << 10));
        let written = |sequence: u64, keys: u64| {
            let cells = |id, values| CellColumn { column: ColumnId(id), values, null_cells: None };
            let texts = StringArray::from_iter_values((0..keys).map(|_| text.as_str()));
            let columns = vec![
                cells(0, Arc::new(UInt64Array::from_iter_values(0..keys)) as _),
                cells(1, Arc::new(texts) as _),
            ];
            let upsert = Upsert { table: TableId(1), mode: WriteMode::Upsert, columns };
            let memtable = Memtable::new(&schema, sequence, &budget);
            memtable.upsert(&PreparedUpsert::new(&upsert, &schema), None, sequence);
            Arc::new(memtable)
        };
        // Half of them have one version only.
        let memtables = [written(1, KEYS), written(2, KEYS / 2)];
        let projection = Projection::new(sequenced_columns(&schema));
        let mut versions = Vec::new();
        for_each_replaced(&memtables, &[], &projection, |batch| {
            let bytes = batch.string_bytes();
            assert!(bytes <= BATCH_BYTES + text.len(), "{bytes} bytes at once");
            for row in 0..batch.rows() {
                let (key, sequence) = split_versioned_key(batch.keys.get(row)).expect("has a sequence");
                versions.push((key.to_vec(), sequence));
            }
            Ok(())
        })?;
        let expected =
            (0..KEYS / 2).flat_map(|key| [1, 2].map(|sequence| (key.to_be_bytes().to_vec(), sequence)));
        assert_eq!(versions, expected.collect::<Vec<_>>());
        Ok(())
    }
}
