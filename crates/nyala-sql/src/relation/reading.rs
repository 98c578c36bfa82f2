//! Rows of a table that are being read, for one execution of a scan.

use super::columns::TableColumns;
use super::entries::one;
use super::filter::Conditions;
use super::index_range::IndexRange;
use super::known::check_known;
use super::parts::part_of;
use super::prefilter::PushedTests;
use super::shown::shown_as;
use crate::error::outside;
use crate::execution::Execution;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use datafusion::error::Result;
use nyala_core::arrays::value_at;
use nyala_core::store::{
    Direction, Order, Prefilter, RowSelection, RowStream, ScanRequest, Snapshot, SnapshotRef,
};
use nyala_core::{ColumnId, TableId, Value};
use nyala_db::catalog::Catalog;
use nyala_exec::Distinct;
use std::sync::Arc;

/// Rows that conditions leave are read by their keys if they are at most one of so many: by its key, a row of many columns costs
/// about thirty times what it costs in a scan.
const ROWS_PER_FOUND_ROW: usize = 64;
/// The most rows that are read by their keys.
const FOUND_ROWS_MAX: usize = 256;
/// So many rows are read by their keys, however small the table was when the scan was planned.
const FOUND_ENTRIES_MIN: usize = 16;
/// With fewer columns that neither conditions nor keys read, a scan reads hardly more than what finds the rows.
const OTHER_COLUMNS_MIN: usize = 8;

/// What is read of a table.
#[derive(Clone)]
pub(super) struct TableRead {
    pub(super) catalog: Arc<Catalog>,
    pub(super) name: String,
    pub(super) table: TableId,
    pub(super) columns: Arc<TableColumns>,
    /// Which columns it shows.
    pub(super) projection: Arc<[usize]>,
    pub(super) conditions: Arc<Conditions>,
    /// What finds the rows that conditions leave.
    pub(super) index: Option<Arc<IndexRange>>,
    pub(super) direction: Direction,
    /// The most rows.
    pub(super) limit: Option<usize>,
    /// About how many rows the table has.
    pub(super) rows: Option<usize>,
    /// How many parts are read side by side.
    pub(super) parts: usize,
    /// What nodes above will test: those of the plan, and those that are found out while it is executed.
    pub(super) tests: PushedTests,
}

impl TableRead {
    /// The columns that it shows.
    pub(super) fn shown(&self) -> impl Iterator<Item = ColumnId> {
        self.projection.iter().map(|position| self.columns.columns[*position].id)
    }
}

/// Rows that are being read.
pub(super) struct Reading {
    scan: TableRead,
    schema: SchemaRef,
    snapshot: SnapshotRef,
    /// The columns that the store is asked for.
    stored: Vec<ColumnId>,
    /// Per shown column its place among them.
    places: Vec<usize>,
    /// What is still to be read, the next at the end.
    selections: Vec<RowSelection>,
    prefilter: Option<Arc<dyn Prefilter>>,
    /// How many rows are still wanted.
    left: usize,
    rows: Option<Box<dyn RowStream>>,
}

impl Reading {
    /// The rows that a scan reads for one of its parts.
    pub(super) async fn open(
        (scan, schema): (TableRead, SchemaRef),
        part: usize,
        execution: Arc<Execution>,
    ) -> Result<Self> {
        let snapshot = execution.snapshot().await.map_err(outside)?.clone();
        let mut stored = Distinct::default();
        let places: Vec<usize> = scan.shown().map(|id| stored.position(id)).collect();
        // None if rows are counted.
        let stored = stored.into_list();
        let mut selections = scan.conditions.keys.selections();
        let judged = scan.conditions.predicates.iter().map(|own| own.column);
        let read: Vec<ColumnId> = stored.iter().copied().chain(judged).collect();
        if !check_known(&scan.catalog, &*snapshot, (scan.table, &scan.name), &read)? {
            selections.clear();
        }
        match found_by_index(&*snapshot, &scan).await? {
            // They are few: the first part reads them.
            Some(found) => selections = if part == 0 { found } else { Vec::new() },
            None if scan.parts > 1 => {
                selections = part_of(selections, (part, scan.parts), (&*snapshot, scan.table)).await?;
            }
            None => {}
        }
        if scan.direction == Direction::Forward {
            // The next one is taken from the end.
            selections.reverse();
        }
        let left = scan.limit.unwrap_or(usize::MAX);
        let prefilter = scan.tests.prefilter(&scan.columns, &schema);
        let mut reading =
            Self { scan, schema, snapshot, stored, places, selections, prefilter, left, rows: None };
        reading.find_few().await?;
        Ok(reading)
    }

    /// How many rows are few, if the scan reads many columns that are of use for few rows only.
    fn few_rows(&self) -> Option<usize> {
        let judged = |id: &ColumnId| self.scan.conditions.predicates.iter().any(|own| own.column == *id);
        let others = self.scan.shown().filter(|id| !judged(id) && !self.scan.columns.key.contains(id));
        if self.scan.conditions.predicates.is_empty() || others.count() < OTHER_COLUMNS_MIN {
            return None;
        }
        let few = (self.scan.rows? / ROWS_PER_FOUND_ROW).min(FOUND_ROWS_MAX);
        (few > 0).then_some(few)
    }

    /// Finds the rows that conditions leave by the columns that are judged. If they are few, only they are read.
    async fn find_few(&mut self) -> Result<()> {
        let Some(few) = self.few_rows() else { return Ok(()) };
        let mut keys: Vec<Vec<Value>> = Vec::new();
        for selection in self.selections.iter().rev() {
            let limit = Some((few + 1 - keys.len()).min(self.left - keys.len()));
            let columns = self.scan.columns.key.clone();
            let request = ScanRequest { columns, limit, prefilter: None, ..self.request(selection.clone()) };
            let mut rows = self.snapshot.scan(request).await.map_err(outside)?;
            while let Some(batch) = rows.next().await.map_err(outside)? {
                let key = |row| batch.columns.iter().filter_map(|values| value_at(values, row)).collect();
                keys.extend((0..batch.rows).map(key));
                if keys.len() > few {
                    return Ok(());
                }
            }
            if keys.len() >= self.left {
                break;
            }
        }
        // The next one is taken from the end.
        self.selections = keys.into_iter().rev().map(one).collect();
        Ok(())
    }

    /// The next rows.
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if self.left == 0 {
                return Ok(None);
            }
            if self.rows.is_none() {
                let Some(selection) = self.selections.pop() else { return Ok(None) };
                let request = self.request(selection);
                self.rows = Some(self.snapshot.scan(request).await.map_err(outside)?);
            }
            let rows = self.rows.as_mut().expect("it was just opened");
            let Some(batch) = rows.next().await.map_err(outside)? else {
                self.rows = None;
                continue;
            };
            // Also if a store does not know of limits.
            let count = batch.rows.min(self.left);
            self.left -= count;
            let columns = self.places.iter().zip(self.schema.fields());
            let columns: Vec<ArrayRef> = columns
                .map(|(place, field)| shown_as(&batch.columns[*place].slice(0, count), field.data_type()))
                .collect::<Result<_>>()?;
            let options = RecordBatchOptions::new().with_row_count(Some(count));
            return Ok(Some(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?));
        }
    }

    fn request(&self, selection: RowSelection) -> ScanRequest {
        ScanRequest {
            predicates: self.scan.conditions.predicates.clone(),
            order: Order::Key(self.scan.direction),
            limit: self.scan.limit.map(|_| self.left),
            prefilter: self.prefilter.clone().filter(|_| self.scan.limit.is_none()),
            ..ScanRequest::by_key(self.scan.table, selection, self.stored.clone())
        }
    }
}

/// The rows that an index finds, in order of their keys; `None` if there is no index for them, or if there are so many of
/// them that a scan is cheaper.
async fn found_by_index(snapshot: &dyn Snapshot, scan: &TableRead) -> Result<Option<Vec<RowSelection>>> {
    let Some(IndexRange { index, entries, is_unique, since }) = scan.index.as_deref() else {
        return Ok(None);
    };
    // A snapshot may be older than the index.
    let is_known = snapshot.sequence() >= *since && snapshot.schema(index.table).is_ok();
    if !is_known || snapshot.schema(scan.table).is_err() {
        return Ok(None);
    }
    let worth_it = (scan.rows.unwrap_or(0) / ROWS_PER_FOUND_ROW).clamp(FOUND_ENTRIES_MIN, FOUND_ROWS_MAX);
    let most = if *is_unique { entries.count() } else { worth_it };
    let columns: Vec<ColumnId> = (0..scan.columns.key.len()).map(|place| index.key_column(place)).collect();
    let mut keys: Vec<Vec<Value>> = Vec::new();
    for selection in entries.selections() {
        let limit = Some(most + 1 - keys.len());
        let request = ScanRequest { limit, ..ScanRequest::by_key(index.table, selection, columns.clone()) };
        let mut rows = snapshot.scan(request).await.map_err(outside)?;
        while let Some(batch) = rows.next().await.map_err(outside)? {
            let key = |row| batch.columns.iter().filter_map(|values| value_at(values, row)).collect();
            keys.extend((0..batch.rows).map(key));
            if keys.len() > most {
                return Ok(None);
            }
        }
    }
    keys.sort_unstable();
    keys.dedup();
    Ok(Some(keys.into_iter().map(one).collect()))
}
