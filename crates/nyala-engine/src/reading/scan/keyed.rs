//! Scans of tables with any key: all sources of all partitions merged by key.
//!
//! Every source returns sorted chunks. Rows up to the least last key of all chunks can be merged and emitted, because
//! no source can return another row before it. Partitions hold distinct keys, so their order among the sources does not
//! matter.

use super::BATCH_ROWS;
use super::filter::{test, test_empty};
use super::scan_buffer::BATCH_BYTES;
use super::scan_spec::ScanSpec;
use crate::files::rowset::Rowset;
use crate::files::rowset::keyed::KeyedCursor;
use crate::files::rowset::reader::Use;
use crate::memory::memtable::{Memtable, Visibility};
use crate::memory::version::TableVersion;
use crate::rows::byte_vec::ByteVec;
use crate::rows::column_buffer::{Column, Kind};
use crate::rows::key::{self, KeyRange};
use crate::rows::merge::{self, Part, RowBatch, keep_rows};
use crate::rows::projection::Projection;
use crate::rows::tombstone::Tombstone;
use async_trait::async_trait;
use nyala_core::memory::{Charge, Component, MemoryBudget};
use nyala_core::store::{Batch, Direction, RowStream};
use nyala_core::{ColumnType, Result, TableSchema, before_long_work};
use std::ops::Range;
use std::sync::Arc;

/// Rows read from a memtable at once.
const CHUNK_ROWS: usize = 1024;

/// Rows read before other work may go on: some milliseconds.
const PAUSE_ROWS: usize = 1 << 16;

/// Sources of a table merged by key, in chunks; deletes are still in unless they are finished.
pub(crate) struct KeyedMerge {
    /// The sources of one partition go from oldest to newest.
    sources: Vec<MergeSource>,
    projection: Projection,
    backward: bool,
    use_of: Use,
    tombstones: Vec<Arc<Tombstone>>,
    sequence: u64,
}

struct MergeSource {
    reader: SourceReader,
    /// Rows read, ascending.
    chunk: RowBatch<ByteVec>,
    /// Those that were not emitted yet.
    left: Range<usize>,
    exhausted: bool,
}

enum SourceReader {
    /// With the deleted ranges that may hide rows of it.
    Rowset(Box<KeyedCursor>, Vec<Arc<Tombstone>>),
    Memtable {
        memtable: Arc<Memtable>,
        range: KeyRange,
        rows: usize,
    },
}

impl KeyedMerge {
    /// No sources yet.
    pub(crate) fn new(
        tombstones: &[Arc<Tombstone>],
        sequence: u64,
        projection: Projection,
        backward: bool,
        use_of: Use,
    ) -> Self {
        let tombstones =
            tombstones.iter().filter(|tombstone| tombstone.sequence <= sequence).cloned().collect();
        Self { sources: Vec::new(), projection, backward, use_of, tombstones, sequence }
    }

    /// Adds sources of a partition, from oldest to newest; `first_rows` bounds what is read ahead at
    /// first.
    pub(crate) fn add<'a>(
        &mut self,
        schema: &TableSchema,
        rowsets: &[Arc<Rowset>],
        memtables: impl Iterator<Item = &'a Arc<Memtable>>,
        range: &KeyRange,
        first_rows: usize,
    ) -> Result<()> {
        let mut readers = Vec::new();
        for rowset in rowsets {
            let projection = self.projection.clone();
            let cursor = KeyedCursor::new(
                rowset.clone(),
                schema,
                projection,
                range.clone(),
                self.backward,
                self.use_of,
            )?;
            let hiding = self.tombstones.iter().filter(|tombstone| rowset.may_be_hidden_by(tombstone));
            let hiding = hiding.filter(|tombstone| tombstone.overlaps_keys(range)).cloned().collect();
            readers.push(SourceReader::Rowset(Box::new(cursor), hiding));
        }
        let rows = first_rows.clamp(1, CHUNK_ROWS);
        for memtable in memtables {
            memtable.check()?;
            let (memtable, range) = (memtable.clone(), range.clone());
            readers.push(SourceReader::Memtable { memtable, range, rows });
        }
        let source = |reader| MergeSource {
            reader,
            chunk: RowBatch::empty(&self.projection.kinds),
            left: 0..0,
            exhausted: false,
        };
        self.sources.extend(readers.into_iter().map(source));
        Ok(())
    }

    fn fill(&mut self) -> Result<()> {
        let visibility = Visibility { sequence: self.sequence, tombstones: &self.tombstones };
        for source in &mut self.sources {
            while source.left.is_empty() && !source.exhausted {
                match &mut source.reader {
                    SourceReader::Rowset(cursor, hiding) => match cursor.next_batch()? {
                        Some(batch) => source.chunk = without_deleted(batch, hiding, &self.projection.kinds),
                        None => {
                            source.exhausted = true;
                            source.chunk = RowBatch::empty(&self.projection.kinds);
                        }
                    },
                    SourceReader::Memtable { memtable, range, rows } => {
                        let keyed = memtable.keyed().expect("a table not keyed by series");
                        let (batch, all) =
                            keyed.read(range, self.backward, *rows, &self.projection, &visibility);
                        source.exhausted = all;
                        if let (false, Some(last)) = (all, batch.rows().checked_sub(1)) {
                            if self.backward {
                                range.end = Some(batch.keys.get(0).to_vec());
                            } else {
                                range.start = batch.keys.get(last).to_vec();
                                range.start.push(0);
                            }
                        }
                        *rows = CHUNK_ROWS;
                        source.chunk = batch;
                    }
                }
                source.left = 0..source.chunk.rows();
            }
        }
        Ok(())
    }

    /// Bytes that the sources hold.
    fn held_bytes(&self) -> u64 {
        self.sources.iter().map(|source| bytes_of(&source.chunk)).sum()
    }

    /// The next rows in the scan's direction but each batch ascending, merged; `None` at the end.
    pub(crate) fn next_batch(&mut self) -> Result<Option<RowBatch<ByteVec>>> {
        self.fill()?;
        // The key up to which every source has handed out its rows.
        let unfinished = self.sources.iter().filter(|source| !source.exhausted);
        let edges = unfinished.map(|source| {
            let row = if self.backward { source.left.start } else { source.left.end - 1 };
            source.chunk.keys.get(row)
        });
        let cut: Option<Vec<u8>> = if self.backward { edges.max() } else { edges.min() }.map(<[u8]>::to_vec);
        let taken: Vec<Range<usize>> =
            self.sources.iter_mut().map(|source| source.take(cut.as_deref(), self.backward)).collect();
        let kinds = &self.projection.kinds;
        let mut sources = self.sources.iter_mut().zip(&taken).filter(|(_, rows)| !rows.is_empty());
        match (sources.next(), sources.next()) {
            (None, _) => Ok(None),
            (Some((source, rows)), None) => Ok(Some(source.copy(rows, kinds))),
            _ => {
                let parts: Vec<_> = (self.sources.iter().zip(&taken))
                    .filter(|(_, rows)| !rows.is_empty())
                    .map(|(source, rows)| Part { batch: &source.chunk, rows: rows.clone() })
                    .collect();
                Ok(Some(merge::merge_parts(&parts, kinds)))
            }
        }
    }
}

impl MergeSource {
    /// Takes the rows up to a key, or from there on, out of those that are left; all where there is no key.
    fn take(&mut self, cut: Option<&[u8]>, backward: bool) -> Range<usize> {
        let Range { start, end } = self.left.clone();
        let keys = &self.chunk.keys;
        match cut {
            None => {
                self.left = end..end;
                start..end
            }
            Some(cut) if backward => {
                let split = merge::gallop(start, end, |row| keys.get(row) < cut);
                self.left = start..split;
                split..end
            }
            Some(cut) => {
                let split = merge::gallop(start, end, |row| keys.get(row) <= cut);
                self.left = split..end;
                start..split
            }
        }
    }

    /// Some rows, which were taken.
    fn copy(&mut self, rows: &Range<usize>, kinds: &[Kind]) -> RowBatch<ByteVec> {
        if *rows == (0..self.chunk.rows()) {
            return std::mem::replace(&mut self.chunk, RowBatch::empty(kinds));
        }
        let mut copy = RowBatch::empty(kinds);
        copy.append(&self.chunk, rows.clone());
        copy
    }
}

/// About how many bytes rows take.
fn bytes_of(batch: &RowBatch<ByteVec>) -> u64 {
    let cells = batch.rows() * (8 + 8 * batch.columns.len());
    (cells + batch.keys.data.len() + batch.string_bytes()) as u64
}

fn without_deleted(batch: RowBatch<ByteVec>, hides: &[Arc<Tombstone>], kinds: &[Kind]) -> RowBatch<ByteVec> {
    if hides.is_empty() {
        return batch;
    }
    keep_rows(&batch, |row| !hides.iter().any(|tombstone| tombstone.hides_key(batch.keys.get(row))), kinds)
}

/// A scan under way.
pub(crate) struct KeyedScan {
    merge: KeyedMerge,
    spec: ScanSpec,
    key_types: Vec<ColumnType>,
    rows_left: usize,
    limit_per_prefix: Option<usize>,
    /// First key column of the last row, encoded, and its rows so far.
    prefix: Option<(Vec<u8>, usize)>,
    /// Rows read since other work could go on.
    rows_since_pause: usize,
    /// For the memory of its sources and its batch.
    charge: Charge,
}

impl KeyedScan {
    pub(crate) fn new(
        table: &TableVersion,
        (sequence, budget): (u64, &Arc<MemoryBudget>),
        spec: ScanSpec,
        range: &KeyRange,
        direction: Direction,
        limit: Option<usize>,
        limit_per_prefix: Option<usize>,
    ) -> Result<Self> {
        let backward = direction == Direction::Backward;
        let mut merge =
            KeyedMerge::new(&table.tombstones, sequence, spec.projection.clone(), backward, Use::Again);
        let first_rows = limit.unwrap_or(CHUNK_ROWS);
        for partition in &table.partitions {
            merge.add(&table.schema, &partition.rowsets, partition.memtables(), range, first_rows)?;
        }
        Ok(Self {
            merge,
            spec,
            key_types: key_types(&table.schema),
            rows_left: limit.unwrap_or(usize::MAX),
            limit_per_prefix,
            prefix: None,
            rows_since_pause: 0,
            charge: budget.charge(Component::Query, 0),
        })
    }

    fn prefix_rows(&mut self, key: &[u8]) -> usize {
        match &mut self.prefix {
            Some((prefix, rows)) if key.starts_with(prefix) => {
                *rows += 1;
                *rows
            }
            _ => {
                let mut column = Column::new(Kind::of(self.key_types[0]));
                key::decode_into(key, &self.key_types[..1], &mut [Some(&mut column)]);
                let mut prefix = Vec::new();
                key::encode_decoded(&mut prefix, &column, self.key_types[0], 0);
                self.prefix = Some((prefix, 1));
                1
            }
        }
    }

    /// The rows that satisfy the request out of the next ones, in its direction: perhaps none. Nothing at the end.
    fn next_rows(&mut self) -> Result<Option<RowBatch<ByteVec>>> {
        if self.rows_left == 0 {
            return Ok(None);
        }
        let Some(batch) = self.merge.next_batch()? else { return Ok(None) };
        self.rows_since_pause += batch.rows();
        let kinds = &self.spec.projection.kinds;
        let mut batch = merge::finish(batch, kinds);
        batch.markers = None;
        let key = |position: usize| key_column(&batch.keys, &self.key_types, position);
        let mut keep = test(&self.spec, batch.rows(), &batch.columns, key);
        test_empty(&self.spec, batch.rows(), &batch.columns, &mut keep);
        if let Some(keep) = keep {
            batch = keep_rows(&batch, |row| keep[row], kinds);
        }
        if self.merge.backward {
            let order: Vec<u32> = (0..batch.rows() as u32).rev().collect();
            let mut keys = ByteVec::new();
            order.iter().for_each(|row| keys.push(batch.keys.get(*row as usize)));
            let columns = batch.columns.iter().map(|column| column.take(&order)).collect();
            batch = RowBatch { keys, markers: None, columns };
        }
        if let Some(limit) = self.limit_per_prefix {
            let within: Vec<bool> =
                (0..batch.rows()).map(|row| self.prefix_rows(batch.keys.get(row)) <= limit).collect();
            batch = keep_rows(&batch, |row| within[row], &self.spec.projection.kinds);
        }
        if batch.rows() > self.rows_left {
            let mut cut = RowBatch::empty(&self.spec.projection.kinds);
            cut.append(&batch, 0..self.rows_left);
            batch = cut;
        }
        self.rows_left -= batch.rows();
        Ok(Some(batch))
    }
}

/// Types of the key columns.
pub(crate) fn key_types(schema: &TableSchema) -> Vec<ColumnType> {
    schema.key.iter().map(|id| schema.column(*id).expect("schemas are validated").column_type).collect()
}

/// A key column out of encoded keys.
pub(crate) fn key_column(keys: &ByteVec, types: &[ColumnType], position: usize) -> Column {
    let mut column = Column::new(Kind::of(types[position]));
    for row in 0..keys.len() {
        let mut columns: Vec<Option<&mut Column>> = (0..=position).map(|_| None).collect();
        columns[position] = Some(&mut column);
        key::decode_into(keys.get(row), &types[..=position], &mut columns);
    }
    column
}

#[async_trait]
impl RowStream for KeyedScan {
    async fn next(&mut self) -> Result<Option<Batch>> {
        let kinds = self.spec.projection.kinds.clone();
        let mut rows: RowBatch<ByteVec> = RowBatch::empty(&kinds);
        // The batch before is gone, most likely.
        self.charge.set(self.charge.bytes().min(self.merge.held_bytes()));
        while rows.rows() < BATCH_ROWS && bytes_of(&rows) < BATCH_BYTES {
            let Some(batch) = self.next_rows()? else { break };
            if self.rows_since_pause >= PAUSE_ROWS {
                // A scan that finds little can be cancelled, too.
                self.rows_since_pause = 0;
                before_long_work().await;
            }
            if rows.rows() == 0 {
                rows = batch;
            } else {
                rows.append(&batch, 0..batch.rows());
            }
            let held = self.merge.held_bytes() + bytes_of(&rows);
            self.charge.try_grow(held.saturating_sub(self.charge.bytes()))?;
        }
        if rows.rows() == 0 {
            return Ok(None);
        }
        let RowBatch { keys, columns, .. } = rows;
        let types = &self.key_types;
        let columns = self.spec.arrays(columns, |position| key_column(&keys, types, position))?;
        Ok(Some(Batch { rows: keys.len(), series: Vec::new(), columns }))
    }
}
