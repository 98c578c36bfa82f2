//! The rows of a scan of a table with any key: what its sources have, merged by key ([`KeyMerge`]), filtered and limited.
//! Partitions hold distinct keys, so their order among the sources does not matter.
//!
//! Most groups of a table that was settled need not be merged with anything. Of these, conditions are tested first, and the
//! other columns are decoded for the rows that they leave, straight into the batch; keys only if they are asked for.

use super::BATCH_ROWS;
use super::filter::{test, test_empty};
use super::group_rows::{GroupRows, Usefulness};
use super::key_merge::{CHUNK_ROWS, KeyMerge};
use super::pending_batch::{KeyColumns, PendingBatch};
use super::scan_buffer::BATCH_BYTES;
use super::scan_spec::ScanSpec;
use crate::files::rowset::reader::Use;
use crate::memory::version::TableVersion;
use crate::rows::byte_vec::ByteVec;
use crate::rows::column_buffer::Column;
use crate::rows::key::{self, KeyRange};
use crate::rows::merge::{self, RowBatch, keep_rows};
use nyala_core::memory::{Charge, Component, MemoryBudget};
use nyala_core::store::{Batch, Direction};
use nyala_core::{ColumnType, Result, TableSchema, before_long_work};
use std::sync::Arc;

/// Rows read before other work may go on: some milliseconds.
const PAUSE_ROWS: usize = 1 << 16;

/// Rows that are read batch by batch.
pub(super) struct KeyedRows {
    merge: KeyMerge,
    spec: Arc<ScanSpec>,
    key_types: Arc<[ColumnType]>,
    rows_left: usize,
    limit_per_prefix: Option<usize>,
    /// First key column of the last row, encoded, and its rows so far.
    prefix: Option<(Vec<u8>, usize)>,
    /// Rows read since other work could go on.
    rows_since_pause: usize,
    usefulness: Usefulness,
    /// Whether a batch was returned: then the next one will probably be full.
    has_returned: bool,
    /// For the memory of its sources and of the batch under way.
    charge: Charge,
    budget: Arc<MemoryBudget>,
}

impl KeyedRows {
    pub(super) fn new(
        table: &TableVersion,
        (sequence, budget): (u64, &Arc<MemoryBudget>),
        spec: ScanSpec,
        range: &KeyRange,
        direction: Direction,
        limit: Option<usize>,
        limit_per_prefix: Option<usize>,
    ) -> Result<Self> {
        let backward = direction == Direction::Backward;
        let visible = (&table.tombstones[..], sequence);
        let (schema, projection) = (table.schema.clone(), spec.projection.clone());
        let mut merge = KeyMerge::new(schema, visible, projection, range.clone(), backward, Use::Again);
        let first_rows = limit.unwrap_or(CHUNK_ROWS);
        for partition in &table.partitions {
            merge.add(partition.key_layers()?, partition.memtables(), first_rows)?;
        }
        Ok(Self {
            merge,
            spec: Arc::new(spec),
            key_types: key_types(&table.schema).into(),
            rows_left: limit.unwrap_or(usize::MAX),
            limit_per_prefix,
            prefix: None,
            rows_since_pause: 0,
            usefulness: Usefulness::default(),
            has_returned: false,
            charge: budget.charge(Component::Query, 0),
            budget: budget.clone(),
        })
    }

    fn prefix_rows(&mut self, key: &[u8]) -> usize {
        match &mut self.prefix {
            Some((prefix, rows)) if key.starts_with(prefix) => {
                *rows += 1;
                *rows
            }
            _ => {
                let mut first = KeyColumns::new(&self.key_types, |position| position == 0);
                first.push(key);
                let mut prefix = Vec::new();
                key::encode_decoded(&mut prefix, first.column(0), self.key_types[0], 0);
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

    /// Appends what the request leaves of the next group, if its rows need not be merged with others. False if there is no
    /// such group.
    fn append_alone(&mut self, pending: &mut PendingBatch<'_>) -> Result<bool> {
        if self.rows_left == 0 || self.limit_per_prefix.is_some() || self.spec.skip_empty_rows {
            return Ok(false);
        }
        let Some(group) = self.merge.next_alone()? else { return Ok(false) };
        self.rows_since_pause += group.rows() as usize;
        let rows = GroupRows::of(group, &self.spec, &self.key_types, &mut self.usefulness)?;
        self.rows_left -= rows.append_to(pending, self.rows_left)?;
        Ok(true)
    }

    /// The next batch, and its charge, which the caller keeps while the batch is likely to be in use.
    pub(super) async fn next(&mut self) -> Result<Option<(Batch, Charge)>> {
        let (spec, key_types) = (self.spec.clone(), self.key_types.clone());
        let is_long = !spec.filters() && spec.prefilter.is_none() && self.rows_left >= BATCH_ROWS;
        let mut pending = PendingBatch::new(&spec, &key_types, is_long && self.has_returned);
        while pending.rows < BATCH_ROWS && pending.bytes() < BATCH_BYTES {
            if !self.append_alone(&mut pending)? {
                let Some(batch) = self.next_rows()? else { break };
                pending.append(&batch);
            }
            if self.rows_since_pause >= PAUSE_ROWS {
                // A scan that finds little can be cancelled, too.
                self.rows_since_pause = 0;
                before_long_work().await;
            }
            let held = self.merge.held_bytes() + pending.bytes();
            self.charge.try_grow(held.saturating_sub(self.charge.bytes()))?;
        }
        if pending.rows == 0 {
            return Ok(None);
        }
        self.has_returned = true;
        let charge = self.budget.charge(Component::Query, pending.bytes());
        self.charge.set(self.charge.bytes().min(self.merge.held_bytes()));
        let rows = pending.rows;
        Ok(Some((Batch { rows, series: Vec::new(), columns: pending.into_arrays(&spec)? }, charge)))
    }
}

/// Types of the key columns.
pub(crate) fn key_types(schema: &TableSchema) -> Vec<ColumnType> {
    schema.key.iter().map(|id| schema.column(*id).expect("schemas are validated").column_type).collect()
}

/// A key column out of encoded keys.
pub(crate) fn key_column(keys: &ByteVec, types: &[ColumnType], position: usize) -> Column {
    let mut columns = KeyColumns::new(types, |own| own == position);
    (0..keys.len()).for_each(|row| columns.push(keys.get(row)));
    columns.into_column(position)
}
