//! A snapshot of a moment of the past.
//!
//! A table of the past consists of the rowsets that stood for their rows then, and of what was in memory: rows that are in
//! memory still, and rows that a flush has written since. The latter are read back into a memtable, from the rowset of the
//! flush, whose rows have their sequences, and from the versions that it kept of rows that it had several of. So the past
//! is read like the present. Tables, partitions and columns are those of now.

use crate::files::rowset::Rowset;
use crate::files::rowset::keyed::KeyedCursor;
use crate::files::rowset::reader::Use;
use crate::files::rowset::run_iterator::RunIterator;
use crate::files::rowset::writer::{sequenced_columns, value_columns};
use crate::memory::memtable::versions::{sequence_at, split_versioned_key};
use crate::memory::memtable::{Memtable, PreparedKeys, PreparedUpsert};
use crate::memory::version::{TableVersion, Version};
use crate::reading::scan::keyed_rows::{key_column, key_types};
use crate::reading::snapshot::EngineSnapshot;
use crate::rows::byte_vec::ByteVec;
use crate::rows::column_buffer::{Column, NULL};
use crate::rows::key::KeyRange;
use crate::rows::merge::{DELETED, REPLACED, RowBatch};
use crate::rows::projection::Projection;
use arrow_array::ArrayRef;
use arrow_buffer::BooleanBuffer;
use async_trait::async_trait;
use nyala_core::memory::{Component, MemoryBudget};
use nyala_core::store::{
    AggregateRequest, CellColumn, PartialAggregates, RowStream, ScanRequest, Snapshot, Upsert, WriteMode,
};
use nyala_core::{
    ColumnId, ColumnType, Error, Result, Sequence, TableId, TableSchema, TimeRange, before_long_work,
};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Rows that are read back at once.
const BATCH_ROWS: usize = 8192;

/// A view of an engine as it was after a sequence.
pub(crate) struct PastSnapshot {
    version: Arc<Version>,
    sequence: u64,
    budget: Arc<MemoryBudget>,
    /// The tables that were asked for.
    tables: Mutex<HashMap<TableId, EngineSnapshot>>,
    /// Two views just before and just after a change share what is read back.
    shared: Arc<Shared>,
}

/// What is read back for several views.
struct Shared {
    /// Rows are read back up to this sequence; earlier views do not show the last of them.
    last_sequence: u64,
    /// By the rowsets that they come from.
    memtables: Mutex<HashMap<Vec<u64>, Arc<Memtable>>>,
}

impl PastSnapshot {
    /// A view of what a version still knows. Missing if that begins after the sequence.
    pub(crate) fn new(version: Arc<Version>, sequence: u64, budget: &Arc<MemoryBudget>) -> Result<Self> {
        let shared = Shared { last_sequence: sequence, memtables: Mutex::default() };
        Self::sharing(version, sequence, budget, Arc::new(shared))
    }

    /// Views just before and just after a sequence.
    pub(crate) fn around(
        version: Arc<Version>,
        sequence: u64,
        budget: &Arc<MemoryBudget>,
    ) -> Result<(Self, Self)> {
        let shared = Arc::new(Shared { last_sequence: sequence, memtables: Mutex::default() });
        let before = Self::sharing(version.clone(), sequence.saturating_sub(1), budget, shared.clone())?;
        Ok((before, Self::sharing(version, sequence, budget, shared)?))
    }

    fn sharing(
        version: Arc<Version>,
        sequence: u64,
        budget: &Arc<MemoryBudget>,
        shared: Arc<Shared>,
    ) -> Result<Self> {
        if sequence < version.past_from {
            return Err(Error::missing("this moment of the past is not known any more"));
        }
        Ok(Self { version, sequence, budget: budget.clone(), tables: Mutex::default(), shared })
    }

    /// A view of a single table.
    async fn of_table(&self, id: TableId) -> Result<EngineSnapshot> {
        if let Some(known) = self.tables.lock().get(&id) {
            return Ok(known.clone());
        }
        before_long_work().await;
        let table = self.table_at(self.version.table(id)?)?;
        let version = Arc::new(Version::default().with_table(table));
        let snapshot = EngineSnapshot { version, sequence: self.sequence, budget: self.budget.clone() };
        Ok(self.tables.lock().entry(id).or_insert(snapshot).clone())
    }

    fn table_at(&self, table: &TableVersion) -> Result<TableVersion> {
        let sequence = self.sequence;
        let mut past = TableVersion { past_tombstones: Vec::new(), ..table.clone() };
        past.tombstones = table.all_tombstones();
        past.tombstones.retain(|tombstone| tombstone.sequence <= sequence);
        for partition in &mut past.partitions {
            let (rowsets, versions) = partition.flushed_around(sequence);
            let rebuilt = match rowsets.is_empty() && versions.is_empty() {
                true => None,
                false => Some(self.read_back_once(&table.schema, &rowsets, &versions)?),
            };
            *partition = Arc::new(partition.of_past(sequence, rebuilt));
        }
        Ok(past)
    }

    /// The memtable that a flush wrote, unless a view that shares it has read it back already.
    fn read_back_once(
        &self,
        schema: &TableSchema,
        rowsets: &[Arc<Rowset>],
        versions: &[Arc<Rowset>],
    ) -> Result<Arc<Memtable>> {
        let key: Vec<u64> = rowsets.iter().chain(versions).map(|rowset| rowset.meta.id).collect();
        // Locked meanwhile: what is read back twice takes twice the memory.
        let mut known = self.shared.memtables.lock();
        if let Some(memtable) = known.get(&key) {
            return Ok(memtable.clone());
        }
        let memtable = Arc::new(self.read_back(schema, rowsets, versions)?);
        known.insert(key, memtable.clone());
        Ok(memtable)
    }

    /// The memtable that a flush wrote, as far as its rows belong to the moment, or the last one of the views.
    fn read_back(
        &self,
        schema: &TableSchema,
        rowsets: &[Arc<Rowset>],
        versions: &[Arc<Rowset>],
    ) -> Result<Memtable> {
        let all = || rowsets.iter().chain(versions);
        let base_sequence = all().map(|rowset| rowset.meta.min_sequence).min().unwrap_or(0);
        let last_sequence = self.shared.last_sequence;
        if last_sequence - base_sequence > u64::from(u32::MAX) {
            return Err(Error::limit("too many batches were flushed at once to read this moment"));
        }
        let memtable = Memtable::charged_to(Component::Query, schema, base_sequence, &self.budget);
        let back = ReadBack { schema, memtable: &memtable, budget: &self.budget, last_sequence };
        for rowset in rowsets {
            if schema.is_series_keyed() { back.series_rows(rowset)? } else { back.keyed_rows(rowset)? }
        }
        versions.iter().try_for_each(|rowset| back.versions(rowset))?;
        Ok(memtable)
    }
}

/// Puts what a flush wrote back into a memtable.
struct ReadBack<'a> {
    schema: &'a TableSchema,
    memtable: &'a Memtable,
    budget: &'a Arc<MemoryBudget>,
    last_sequence: u64,
}

impl ReadBack<'_> {
    fn series_rows(&self, rowset: &Arc<Rowset>) -> Result<()> {
        let projection = Projection::new(sequenced_columns(self.schema));
        let mut runs = RunIterator::new(rowset.clone(), projection.clone())?;
        let mut series = Vec::new();
        let mut batch: RowBatch<Vec<i64>> = RowBatch::empty(&projection.kinds);
        while let Some(id) = runs.series {
            runs.append(&mut batch)?;
            series.resize(batch.rows(), u64::from(id));
            runs.advance()?;
            if batch.rows() >= BATCH_ROWS || runs.series.is_none() {
                let RowBatch { keys, markers, columns } =
                    std::mem::replace(&mut batch, RowBatch::empty(&projection.kinds));
                let times = keys.iter().map(|time_ns| *time_ns as u64).collect();
                let keys = vec![Column::words(std::mem::take(&mut series)), Column::words(times)];
                self.add_sequenced(keys, markers, columns)?;
            }
        }
        Ok(())
    }

    fn keyed_rows(&self, rowset: &Arc<Rowset>) -> Result<()> {
        let projection = Projection::new(sequenced_columns(self.schema));
        self.for_each_batch(rowset, projection, |keys, markers, columns| {
            self.add_sequenced(self.key_columns(&keys), markers, columns)
        })
    }

    fn versions(&self, rowset: &Arc<Rowset>) -> Result<()> {
        let projection = Projection::new(value_columns(self.schema));
        self.for_each_batch(rowset, projection, |versioned, markers, columns| {
            let (mut keys, mut sequences) = (ByteVec::new(), Vec::new());
            for row in 0..versioned.len() {
                let split = split_versioned_key(versioned.get(row));
                let (key, sequence) =
                    split.ok_or_else(|| Error::corrupt(rowset.path(), 0, "a version without a sequence"))?;
                keys.push(key);
                sequences.push(sequence);
            }
            self.add(self.key_columns(&keys), markers, columns, &sequences)
        })
    }

    fn for_each_batch(
        &self,
        rowset: &Arc<Rowset>,
        projection: Projection,
        mut take: impl FnMut(ByteVec, Option<Vec<u8>>, Vec<Column>) -> Result<()>,
    ) -> Result<()> {
        let all = KeyRange::all();
        let mut cursor = KeyedCursor::new(rowset.clone(), self.schema, projection, all, false, Use::Once)?;
        while let Some(RowBatch { keys, markers, columns }) = cursor.next_batch()? {
            take(keys, markers, columns)?;
        }
        Ok(())
    }

    fn key_columns(&self, keys: &ByteVec) -> Vec<Column> {
        let types = key_types(self.schema);
        (0..types.len()).map(|position| key_column(keys, &types, position)).collect()
    }

    /// Adds rows whose sequences are the last column.
    fn add_sequenced(
        &self,
        keys: Vec<Column>,
        markers: Option<Vec<u8>>,
        mut columns: Vec<Column>,
    ) -> Result<()> {
        let sequences = columns.pop().expect("was asked for");
        let sequences: Vec<u64> = (0..sequences.len()).map(|row| sequence_at(&sequences, row)).collect();
        self.add(keys, markers, columns, &sequences)
    }

    /// Adds the rows that were written up to the moment, each with its sequence.
    fn add(
        &self,
        keys: Vec<Column>,
        markers: Option<Vec<u8>>,
        columns: Vec<Column>,
        sequences: &[u64],
    ) -> Result<()> {
        let mut order: Vec<u32> = (0..sequences.len() as u32).collect();
        order.retain(|row| sequences[*row as usize] <= self.last_sequence);
        order.sort_by_key(|row| sequences[*row as usize]);
        if order.is_empty() {
            return Ok(());
        }
        let keys = keys.into_iter().zip(key_types(self.schema)).map(|(column, of)| column.into_array(of));
        let keys: Vec<ArrayRef> = keys.collect::<Result<_>>()?;
        let key_cells = self.schema.key.iter().zip(&keys);
        let mut cells: Vec<CellColumn> = key_cells
            .map(|(id, values)| CellColumn { column: *id, values: values.clone(), null_cells: None })
            .collect();
        for ((column, column_type), values) in value_columns(self.schema).into_iter().zip(columns) {
            cells.push(written_cells(column, column_type, values)?);
        }
        let upsert = Upsert { table: TableId(0), mode: WriteMode::Upsert, columns: cells };
        let upsert = PreparedUpsert::new(&upsert, self.schema);
        let deleted = PreparedKeys::of_delete(&keys, self.schema);
        let marker = |row: &u32| markers.as_ref().map_or(0, |markers| markers[*row as usize]);
        for rows in order.chunk_by(|a, b| sequences[*a as usize] == sequences[*b as usize]) {
            let sequence = sequences[rows[0] as usize];
            let hiding: Vec<u32> =
                rows.iter().filter(|row| matches!(marker(row), DELETED | REPLACED)).copied().collect();
            let written: Vec<u32> = rows.iter().filter(|row| marker(row) != DELETED).copied().collect();
            if !hiding.is_empty() {
                self.memtable.delete(&deleted, Some(&hiding), sequence);
            }
            if !written.is_empty() {
                self.memtable.upsert(&upsert, Some(&written), sequence);
            }
        }
        match self.budget.is_full() {
            false => Ok(()),
            true => Err(Error::limit(
                "what was in memory at that moment does not fit into memory beside what is there now",
            )),
        }
    }
}

/// Cells as they were written: NULL and absent are told apart.
fn written_cells(column: ColumnId, column_type: ColumnType, values: Column) -> Result<CellColumn> {
    let rows = values.len();
    let nulls = BooleanBuffer::collect_bool(rows, |row| values.state(row) == NULL);
    let null_cells = (nulls.count_set_bits() > 0).then_some(nulls);
    Ok(CellColumn { column, values: values.into_array(column_type)?, null_cells })
}

#[async_trait]
impl Snapshot for PastSnapshot {
    fn sequence(&self) -> Sequence {
        Sequence(self.sequence)
    }

    fn schema(&self, table: TableId) -> Result<Arc<TableSchema>> {
        Ok(self.version.table(table)?.schema.clone())
    }

    async fn scan(&self, request: ScanRequest) -> Result<Box<dyn RowStream>> {
        self.of_table(request.table).await?.scan(request).await
    }

    async fn aggregate(&self, request: AggregateRequest) -> Result<PartialAggregates> {
        self.of_table(request.table).await?.aggregate(request).await
    }

    async fn time_bounds(&self, table: TableId, within: TimeRange) -> Result<Option<TimeRange>> {
        self.of_table(table).await?.time_bounds(table, within).await
    }

    async fn estimate_rows(&self, table: TableId, within: TimeRange) -> Result<u64> {
        self.of_table(table).await?.estimate_rows(table, within).await
    }
}
