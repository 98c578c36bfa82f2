//! Rows of a batch on their way to the cluster.
//!
//! Kudu is atomic by row. Rows of one tablet are applied in their order, so rows of one key are too; rows that do not meet
//! the demand of their mode come back as errors of theirs and are left out alone.

use crate::cells::Stored;
use crate::cluster::Cluster;
use crate::entry::{Change, Progress};
use crate::error::of_write;
use crate::kudu_tables::{OWN_COLUMNS, Physical, stored, time_column};
use crate::sheets::{self, Sheet};
use crate::state::{RangeState, State, TableState};
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::BooleanBuffer;
use kudu_client::{
    Cell, Error as KuduError, ErrorKind as KuduKind, Operation as KuduOperation, Row, WriteCall,
};
use nyala_core::schema::{Ranges, TableSchema};
use nyala_core::store::{
    CellColumn, DeleteMode, Operation, RowPosition, WriteBatch, WriteMode, WriteOutcome,
};
use nyala_core::time::partition_time;
use nyala_core::{ColumnId, Error, ErrorKind, Result, Sequence, TableId, TimeRange};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use tokio::time::Instant;

/// Limits of Kudu, of 1.18: <https://kudu.apache.org/docs/known_issues.html>.
pub(crate) const CELL_BYTES_MAX: usize = 65_536;
pub(crate) const KEY_BYTES_MAX: usize = 16_384;
pub(crate) const COLUMNS_MAX: usize = 300 - OWN_COLUMNS;

/// How often rows are sent again whose range another daemon dropped.
const ATTEMPTS: usize = 4;

impl Cluster {
    pub(crate) async fn write(&self, batch: WriteBatch) -> Result<WriteOutcome> {
        // What this daemon does not know yet, another may have made.
        if validate(&batch, &self.log.state()).is_err() {
            validate(&batch, &*self.log.refresh().await?)?;
        }
        self.tables.forget_dropped(&self.log.state());
        let mut by_table: BTreeMap<TableId, Vec<usize>> = BTreeMap::new();
        for (number, operation) in batch.operations.iter().enumerate() {
            by_table.entry(operation.table()).or_default().push(number);
        }
        let mut conflicts = Vec::new();
        for (table, numbers) in by_table {
            let known = self.log.state();
            match sheets::all(table, &known.table(table)?.schema).count() {
                1 => {
                    let rows = rows_of(&batch, &numbers);
                    let part = Part { sheet: Sheet::first(table), batch: &batch, is_decided: false };
                    self.write_part(part, rows, &mut conflicts).await?;
                }
                // A row that is written and deleted must be so in every sheet.
                _ => {
                    for number in numbers {
                        self.write_sheets(table, &batch, number, &mut conflicts).await?;
                    }
                }
            }
        }
        conflicts.sort_unstable();
        let rows: usize = batch.operations.iter().map(Operation::rows).sum();
        let sequence = Sequence(self.client.last_timestamp().map_or(0, |at| at.0));
        Ok(WriteOutcome { sequence, affected: (rows - conflicts.len()) as u64, conflicts })
    }

    /// Writes an operation of a batch to all sheets of its table. The first sheet says which rows meet the demand of their
    /// mode. A row leaves it last, so that a deletion that breaks off can be repeated.
    async fn write_sheets(
        &self,
        table: TableId,
        batch: &WriteBatch,
        number: usize,
        conflicts: &mut Vec<RowPosition>,
    ) -> Result<()> {
        let schema = self.log.state().table(table)?.schema.clone();
        let mut rows = rows_of(batch, &[number]);
        let Operation::Upsert(upsert) = &batch.operations[number] else {
            for sheet in sheets::all(table, &schema).rev() {
                self.write_part(Part { sheet, batch, is_decided: false }, rows.clone(), conflicts).await?;
            }
            return Ok(());
        };
        for attempt in 0..ATTEMPTS {
            let part = |sheet: Sheet| Part { sheet, batch, is_decided: attempt > 0 || sheet.number > 0 };
            let known = conflicts.len();
            let mut written = self.write_part(part(Sheet::first(table)), rows.clone(), conflicts).await?;
            let refused: HashSet<usize> = conflicts[known..].iter().map(|place| place.row).collect();
            rows.retain(|place| !refused.contains(&place.row));
            for sheet in sheets::all(table, &schema).skip(1) {
                let cells = || upsert.columns.iter().filter(|cells| sheet.has_field(&schema, cells.column));
                let is_set = |cells: &CellColumn, row: usize| {
                    cells.values.is_valid(row)
                        || cells.null_cells.as_ref().is_some_and(|nulls| nulls.value(row))
                };
                let mut set = rows.clone();
                set.retain(|place| cells().any(|cells| is_set(cells, place.row)));
                written.extend(self.write_part(part(sheet), set, conflicts).await?);
            }
            // If somebody dropped a range between two sheets, the row must get into the new one with all of them.
            if !were_replaced(written) {
                return Ok(());
            }
        }
        Err(being_dropped(table))
    }

    /// Writes the cells of rows that are of one sheet. Returns the ranges to which they, or some of them, were sent.
    async fn write_part(
        &self,
        part: Part<'_>,
        mut left: Vec<RowPosition>,
        conflicts: &mut Vec<RowPosition>,
    ) -> Result<Vec<RangeState>> {
        let Part { sheet, batch, .. } = part;
        let mut written = Vec::new();
        for attempt in 0..ATTEMPTS {
            if left.is_empty() {
                break;
            }
            let (state, ranges) = self.ranges_that_stay(part, &left).await?;
            let table = state.table(sheet.table)?;
            let found = match (&table.schema.partitioning.ranges, ranges.is_empty()) {
                // Nothing is made for rows that make nothing.
                (Ranges::Time { .. }, true) => {
                    self.tables.to_read(sheet, table).await?.map(|physical| (physical, false))
                }
                _ => {
                    let made = self.tables.to_write(sheet, table, &ranges).await;
                    // Another range may lie across one of these.
                    if made.as_ref().is_err_and(|error| error.kind() == ErrorKind::Invalid)
                        && self.clear_leftovers(sheet, &ranges).await?
                    {
                        self.tables.forget_ranges(sheet);
                        continue;
                    }
                    Some(made?)
                }
            };
            let failed: Vec<(RowPosition, KuduError)> = match found {
                Some((physical, has_made)) => {
                    let call = self.call(&physical, &table.schema, part, &left).await?;
                    let tablets: Vec<String> = call.tablets().collect();
                    if has_made || !self.tables.has_noted(sheet, &tablets) || has_unmade(sheet, &ranges) {
                        if !self.are_there(sheet, &ranges).await? {
                            self.tables.forget_ranges(sheet);
                            continue;
                        }
                        if part.has_range_of_each(&left) {
                            self.tables.note(sheet, tablets);
                        }
                    }
                    written.extend_from_slice(&ranges);
                    let failed = call.finish().await.map_err(of_write)?;
                    failed.into_iter().map(|(number, error)| (left[number], error)).collect()
                }
                None => left.iter().map(|place| (*place, no_range())).collect(),
            };
            left.clear();
            for (place, error) in failed {
                let operation = &batch.operations[place.operation];
                match outcome_of(part, operation, &error, attempt > 0) {
                    RowOutcome::Done => {}
                    RowOutcome::Conflict => conflicts.push(place),
                    RowOutcome::Again => left.push(place),
                    RowOutcome::Failed => return Err(of_write(error)),
                }
            }
            if !left.is_empty() {
                self.tables.forget_ranges(sheet);
                // Whoever dropped a range has said so there before.
                self.log.refresh().await?;
            }
        }
        if left.is_empty() { Ok(written) } else { Err(being_dropped(sheet.table)) }
    }

    /// The ranges of [`Self::ranges_for`], when nobody is dropping one of them.
    async fn ranges_that_stay(
        &self,
        part: Part<'_>,
        rows: &[RowPosition],
    ) -> Result<(Arc<State>, Vec<RangeState>)> {
        let deadline = Instant::now() + self.options.write_timeout;
        loop {
            let (state, ranges) = self.ranges_for(part, rows).await?;
            match ranges.iter().find(|range| range.leaving.is_some()) {
                Some(range) => self.wait_for_drop(part.sheet.table, *range, deadline).await?,
                None => return Ok((state, ranges)),
            }
        }
    }

    /// Whether ranges that are made in the cluster, perhaps just now, are in the log, and nobody was dropping them when they
    /// were there. Says in the log that they are made.
    async fn are_there(&self, sheet: Sheet, ranges: &[RangeState]) -> Result<bool> {
        if ranges.is_empty() {
            return Ok(true);
        }
        self.log.refresh().await?;
        let decide = |state: &State| {
            let known = &state.table(sheet.table)?.ranges;
            let same = |range: &RangeState| known.iter().find(|known| known.number == range.number).copied();
            let found = ranges.iter().filter_map(same).filter(|range| range.leaving.is_none());
            let found: Vec<RangeState> = found.collect();
            let are_there = found.len() == ranges.len();
            let made = found.iter().filter(|range| are_there && range.is_unmade(sheet.number));
            let sheets: Vec<(u32, u32)> = made.map(|range| (range.number, sheet.number)).collect();
            let is_news = !sheets.is_empty();
            let change = Change::Sheets { table: sheet.table.0, sheets, progress: Progress::Made };
            Ok((is_news.then_some(change).into_iter().collect(), are_there))
        };
        Ok(self.log.change(decide).await?.1)
    }

    /// Makes sure that the log has a range for every row that may come into being, and says that the sheet is in it; returns
    /// these ranges.
    async fn ranges_for(
        &self,
        part: Part<'_>,
        rows: &[RowPosition],
    ) -> Result<(Arc<State>, Vec<RangeState>)> {
        let sheet = part.sheet;
        let (state, mut ranges) = self.ranges_of_table(part, rows).await?;
        let lacks = |range: &RangeState| !range.has_sheet(sheet.number);
        if !ranges.iter().any(lacks) {
            return Ok((state, ranges));
        }
        let (state, ()) = self
            .log
            .change(|state| {
                let known = state.table(sheet.table)?.ranges.iter();
                let lacking =
                    known.filter(|range| lacks(range) && ranges.iter().any(|its| its.time == range.time));
                let sheets: Vec<_> = lacking.map(|range| (range.number, sheet.number)).collect();
                let is_needed = !sheets.is_empty();
                let progress = Progress::Wanted;
                let change = Change::Sheets { table: sheet.table.0, sheets, progress };
                Ok((is_needed.then_some(change).into_iter().collect(), ()))
            })
            .await?;
        // Another daemon may have made one anew.
        let known = &state.table(sheet.table)?.ranges;
        ranges =
            known.iter().filter(|range| ranges.iter().any(|its| its.time == range.time)).copied().collect();
        Ok((state, ranges))
    }

    async fn ranges_of_table(
        &self,
        part: Part<'_>,
        rows: &[RowPosition],
    ) -> Result<(Arc<State>, Vec<RangeState>)> {
        let id = part.sheet.table;
        let mut state = self.log.state();
        let Some(time) = time_column(&state.table(id)?.schema) else { return Ok((state, Vec::new())) };
        let mut found = part.ranges_in(state.table(id)?, time, rows);
        if found.is_unknown {
            state = self.log.refresh().await?;
            found = part.ranges_in(state.table(id)?, time, rows);
        }
        let FoundRanges { mut ranges, mut lacking, .. } = found;
        if lacking.is_empty() {
            ranges.sort_unstable_by_key(|range| range.time.start_ns);
            ranges.dedup();
            return Ok((state, ranges));
        }
        lacking.sort_unstable();
        lacking.dedup();
        let (state, ()) = self
            .log
            .change(|state| {
                let with = state.table(id)?.ranges_with(&lacking, state.next_range)?;
                let is_new = |number: &u32| *number >= state.next_range;
                let change = with.map(|ranges| Change::Ranges {
                    table: id.0,
                    unmade: ranges.iter().map(|(number, ..)| *number).filter(is_new).collect(),
                    ranges,
                    leaving: Vec::new(),
                });
                Ok((change.into_iter().collect(), ()))
            })
            .await?;
        let table = state.table(id)?;
        ranges.extend(lacking.iter().filter_map(|time_ns| table.range_of(*time_ns)));
        ranges.sort_unstable_by_key(|range| range.time.start_ns);
        ranges.dedup();
        Ok((state, ranges))
    }

    /// Rows of a batch, ready to be sent to the tablets that have them now.
    async fn call(
        &self,
        physical: &Physical,
        schema: &TableSchema,
        part: Part<'_>,
        rows: &[RowPosition],
    ) -> Result<WriteCall> {
        let Part { sheet, batch, .. } = part;
        let mut call = physical.table.write(self.options.write_timeout).stay_in_tablets();
        for of_operation in rows.chunk_by(|a, b| a.operation == b.operation) {
            let operation = &batch.operations[of_operation[0].operation];
            let code = code(part, operation);
            let cells = Cells::of(sheet, operation, code, schema, physical)?;
            let mut row = physical.table.row(code);
            for place in of_operation {
                cells.fill(&mut row, place.row).map_err(of_write)?;
                call.add(&row).await.map_err(of_write)?;
            }
        }
        Ok(call)
    }
}

/// What of a batch goes to a sheet.
#[derive(Clone, Copy)]
struct Part<'a> {
    sheet: Sheet,
    batch: &'a WriteBatch,
    /// Whether the rows have met the demand of their mode already, in the first sheet.
    is_decided: bool,
}

/// The ranges of some rows.
#[derive(Default)]
struct FoundRanges {
    ranges: Vec<RangeState>,
    /// The times of rows that may come into being, if no range holds them.
    lacking: Vec<i64>,
    /// Whether no range holds other rows, which are there if somebody has made one.
    is_unknown: bool,
}

impl Part<'_> {
    /// The ranges in which rows are written. Those of rows that are deleted are not among them: it does not matter where.
    fn ranges_in(self, table: &TableState, time: ColumnId, rows: &[RowPosition]) -> FoundRanges {
        let mut found = FoundRanges::default();
        for of_operation in rows.chunk_by(|a, b| a.operation == b.operation) {
            let Operation::Upsert(upsert) = &self.batch.operations[of_operation[0].operation] else {
                continue;
            };
            let Some(cells) = upsert.column(time) else { continue };
            let times = cells.values.as_primitive::<TimestampNanosecondType>();
            let mut last = TimeRange::new(0, 0);
            for place in of_operation {
                let time_ns = partition_time(times.value(place.row));
                if last.contains(time_ns) {
                    continue;
                }
                match table.range_of(time_ns) {
                    Some(range) => {
                        last = range.time;
                        found.ranges.push(range);
                    }
                    None if upsert.mode.makes_rows() => found.lacking.push(time_ns),
                    None => found.is_unknown = true,
                }
            }
        }
        found
    }

    /// Whether [`Self::ranges_in`] has the ranges of all rows, once they are made.
    fn has_range_of_each(self, rows: &[RowPosition]) -> bool {
        rows.iter().all(|place| match &self.batch.operations[place.operation] {
            Operation::Upsert(upsert) => upsert.mode.makes_rows(),
            Operation::DeleteKeys { .. } => false,
        })
    }
}

fn has_unmade(sheet: Sheet, ranges: &[RangeState]) -> bool {
    ranges.iter().any(|range| range.is_unmade(sheet.number))
}

/// Whether another range has the times of one of these now: somebody has dropped it, or has begun to.
fn were_replaced(mut ranges: Vec<RangeState>) -> bool {
    ranges.sort_unstable_by_key(|range| (range.time.start_ns, range.number));
    ranges.dedup_by_key(|range| range.number);
    ranges.windows(2).any(|pair| pair[0].time.overlaps(pair[1].time))
}

fn being_dropped(table: TableId) -> Error {
    Error::retry(format!("the ranges of table {table} are being dropped by others"))
}

/// All rows of some operations.
fn rows_of(batch: &WriteBatch, operations: &[usize]) -> Vec<RowPosition> {
    let rows = |operation: &usize| {
        let operation = *operation;
        (0..batch.operations[operation].rows()).map(move |row| RowPosition { operation, row })
    };
    operations.iter().flat_map(rows).collect()
}

/// What becomes of a row that was not written.
enum RowOutcome {
    Done,
    Conflict,
    Again,
    Failed,
}

/// `is_fresh`: the masters were asked again where the row is to be.
fn outcome_of(part: Part<'_>, operation: &Operation, error: &KuduError, is_fresh: bool) -> RowOutcome {
    let Part { sheet, is_decided, .. } = part;
    let is_row = error.code().is_some();
    match (operation, error.kind()) {
        // Another daemon may have made its range a moment ago.
        (_, KuduKind::NotFound) if !is_row && !is_fresh => RowOutcome::Again,
        (Operation::Upsert(_), KuduKind::NotFound) if !is_row && is_decided => RowOutcome::Again,
        (Operation::DeleteKeys { .. }, KuduKind::NotFound) if sheet.number > 0 => RowOutcome::Done,
        (Operation::Upsert(upsert), KuduKind::NotFound) if !is_row && upsert.mode.makes_rows() => {
            RowOutcome::Again
        }
        (Operation::Upsert(upsert), KuduKind::NotFound) if !upsert.mode.makes_rows() => RowOutcome::Conflict,
        (Operation::Upsert(upsert), KuduKind::AlreadyPresent)
            if matches!(upsert.mode, WriteMode::Insert | WriteMode::InsertIgnore) =>
        {
            RowOutcome::Conflict
        }
        (Operation::DeleteKeys { mode: DeleteMode::Blind, .. }, KuduKind::NotFound) => RowOutcome::Done,
        (Operation::DeleteKeys { .. }, KuduKind::NotFound) => RowOutcome::Conflict,
        _ => RowOutcome::Failed,
    }
}

fn no_range() -> KuduError {
    KuduError::new(KuduKind::NotFound, "no range partition covers the row")
}

/// What rows are sent as. Ignoring kinds are not used, since servers do not say which rows they passed over.
fn code(Part { sheet, is_decided, .. }: Part<'_>, operation: &Operation) -> KuduOperation {
    match operation {
        Operation::Upsert(_) if is_decided => KuduOperation::Upsert,
        Operation::DeleteKeys { .. } if sheet.number > 0 => KuduOperation::DeleteIgnore,
        Operation::Upsert(upsert) => match upsert.mode {
            WriteMode::Upsert => KuduOperation::Upsert,
            WriteMode::Insert | WriteMode::InsertIgnore => KuduOperation::Insert,
            WriteMode::Update | WriteMode::UpdateIgnore => KuduOperation::Update,
        },
        Operation::DeleteKeys { mode: DeleteMode::Blind, .. } => KuduOperation::DeleteIgnore,
        Operation::DeleteKeys { .. } => KuduOperation::Delete,
    }
}

/// Checks a batch against the schemas, and its cells against what Kudu takes.
fn validate(batch: &WriteBatch, state: &State) -> Result<()> {
    for operation in &batch.operations {
        let TableState { schema, .. } = state.table(operation.table())?;
        operation.validate(schema)?;
        let arrays: Vec<&ArrayRef> = match operation {
            Operation::Upsert(upsert) => upsert.columns.iter().map(|cells| &cells.values).collect(),
            Operation::DeleteKeys { keys, .. } => keys.iter().collect(),
        };
        for array in arrays {
            if longest(array) > CELL_BYTES_MAX {
                return Err(Error::limit(format!(
                    "table {}: a cell of more than {CELL_BYTES_MAX} bytes",
                    schema.shown_name()
                )));
            }
        }
        let keys: Vec<&ArrayRef> = match operation {
            Operation::Upsert(upsert) => {
                schema.key.iter().filter_map(|id| upsert.column(*id)).map(|cells| &cells.values).collect()
            }
            Operation::DeleteKeys { keys, .. } => keys.iter().collect(),
        };
        // Fixed widths take 16 bytes at most, and zeros and ends are encoded by two.
        let longest_key: usize = keys.iter().map(|array| 2 * longest(array) + 18).sum();
        if longest_key > KEY_BYTES_MAX {
            return Err(Error::limit(format!(
                "table {}: a key of more than {KEY_BYTES_MAX} bytes",
                schema.shown_name()
            )));
        }
    }
    Ok(())
}

/// The bytes of the longest text of an array; 0 of other types.
fn longest(array: &ArrayRef) -> usize {
    let lengths = |offsets: &[i32]| offsets.windows(2).map(|pair| (pair[1] - pair[0]) as usize).max();
    if let Some(texts) = array.as_string_opt::<i32>() {
        return lengths(texts.value_offsets()).unwrap_or(0);
    }
    array.as_binary_opt::<i32>().and_then(|bytes| lengths(bytes.value_offsets())).unwrap_or(0)
}

/// The cells of an operation, with the places of their columns.
struct Cells<'a> {
    columns: Vec<(usize, Stored, &'a ArrayRef, Option<&'a BooleanBuffer>)>,
    /// A column that is set to NULL where an update would set nothing.
    touched: Option<usize>,
}

impl<'a> Cells<'a> {
    fn of(
        sheet: Sheet,
        operation: &'a Operation,
        code: KuduOperation,
        schema: &TableSchema,
        physical: &Physical,
    ) -> Result<Self> {
        let place = |id| {
            let place = physical.place(id).zip(schema.column(id));
            let place = place.map(|(place, column)| (place, stored(schema, column)));
            place.ok_or_else(|| Error::missing(format!("the cluster's table has no column {id}")))
        };
        let columns: Result<_> = match operation {
            Operation::Upsert(upsert) => upsert
                .columns
                .iter()
                .filter(|cells| sheet.has(schema, cells.column))
                .map(|cells| {
                    let (place, stored) = place(cells.column)?;
                    Ok((place, stored, &cells.values, cells.null_cells.as_ref()))
                })
                .collect(),
            Operation::DeleteKeys { keys, .. } => schema
                .key
                .iter()
                .zip(keys)
                .map(|(id, keys)| {
                    let (place, stored) = place(*id)?;
                    Ok((place, stored, keys, None))
                })
                .collect(),
        };
        let is_update = matches!(code, KuduOperation::Update);
        Ok(Self { columns: columns?, touched: is_update.then_some(physical.touched) })
    }

    fn fill(&self, row: &mut Row, number: usize) -> kudu_client::Result<()> {
        row.clear();
        for (place, stored, values, null_cells) in &self.columns {
            if values.is_valid(number) {
                row.set_at(*place, stored.cell(values.as_ref(), number))?;
            } else if null_cells.is_some_and(|nulls| nulls.value(number)) {
                row.set_at(*place, Cell::Null)?;
            }
        }
        if let Some(touched) = self.touched {
            row.set_at(touched, Cell::Null)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_was_replaced_if_another_has_its_times() {
        let range = |number, start_ns, end_ns| RangeState::new(number, TimeRange::new(start_ns, end_ns));
        assert!(!were_replaced(Vec::new()));
        // The same in two sheets, and a neighbour.
        assert!(!were_replaced(vec![range(1, 0, 10), range(2, 10, 20), range(1, 0, 10)]));
        assert!(were_replaced(vec![range(1, 0, 10), range(2, 10, 20), range(3, 0, 10)]));
        // The width of shards has changed meanwhile.
        assert!(were_replaced(vec![range(2, 10, 20), range(4, 5, 15)]));
    }
}
