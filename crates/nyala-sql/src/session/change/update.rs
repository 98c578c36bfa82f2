//! `UPDATE`.

use super::assignments::assignments;
use super::existing::key_of;
use super::preparing::{Preparing, Written, changed_name, column_of, named_item, query_of};
use super::selection::Selection;
use super::work::Work;
use crate::error::{SqlError, SqlResult};
use crate::relation::assign::assigned;
use crate::relation::literal::is_literal;
use crate::session::definition::table_of;
use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array};
use datafusion::arrow::compute::{concat_batches, take};
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::ast::{self, SelectItem, TableWithJoins, UpdateTableFromKind};
use nyala_core::store::WriteMode;
use nyala_core::{ColumnId, Value};
use std::collections::BTreeSet;

/// A prepared UPDATE. Its query has the needed columns of the table, and behind them the new values.
#[derive(Debug)]
pub(super) struct Update {
    pub(super) selection: Selection,
    /// The columns of the table that the query has.
    pub(super) read: Vec<usize>,
    /// The columns that are assigned, and whether their texts become what they are needed as.
    assigned: Vec<(usize, bool)>,
    /// Whether the query may find a row several times: only the first one counts.
    pub(super) may_repeat: bool,
    /// Whether keys are changed: then rows are deleted before the first is written again.
    moves_rows: bool,
    /// Whether all rows are changed together, because what one gets another one may give up.
    pub(super) is_whole: bool,
}

pub(super) async fn prepare(
    preparing: &mut Preparing<'_>,
    written: &Written<'_>,
    update: &ast::Update,
) -> SqlResult<Update> {
    preparing.check_readable()?;
    if update.or.is_some() || !update.order_by.is_empty() || update.limit.is_some() || update.output.is_some()
    {
        return Err(SqlError::unsupported("UPDATE OR …, and UPDATE with ORDER BY, LIMIT or OUTPUT"));
    }
    let from: &[TableWithJoins] = match &update.from {
        None => &[],
        Some(UpdateTableFromKind::AfterSet(from)) => from,
        Some(UpdateTableFromKind::BeforeSet(_)) => return Err(SqlError::unsupported("UPDATE FROM … SET")),
    };
    let assignments = assignments(preparing, &update.assignments)?;
    let key = preparing.columns.key_positions().expect("a change knows all columns");
    let moves_rows = assignments.iter().any(|(position, _)| key.contains(position));
    let table = table_of(&preparing.relation)?;
    let is_assigned = |id: &ColumnId| {
        assignments.iter().any(|(position, _)| preparing.columns.columns[*position].id == *id)
    };
    let mut indexes =
        table.indexes.iter().filter(|index| moves_rows || index.columns.iter().any(is_assigned));
    let changes_entries = indexes.clone().next().is_some();
    let is_whole = moves_rows || indexes.any(|index| index.is_unique);
    let reads_all = moves_rows || changes_entries || !table.checks.is_empty() || update.returning.is_some();
    let read: Vec<usize> =
        if reads_all { (0..preparing.columns.columns.len()).collect() } else { key.clone() };
    let mut items: Vec<SelectItem> = read
        .iter()
        .map(|position| {
            let name = preparing.columns.name(*position);
            named_item(column_of(&preparing.alias, name), &format!("\u{0}{position}"))
        })
        .collect();
    let mut assigned = Vec::with_capacity(assignments.len());
    for (number, (position, value)) in assignments.into_iter().enumerate() {
        assigned.push((position, is_literal(&value)));
        items.push(named_item(value, &format!("\u{0}new{number}")));
    }
    let (name, alias) = (changed_name(&preparing.place), &preparing.alias);
    let query = query_of(name, alias, written.with, items, from, update.selection.as_ref())?;
    let selection = Selection::of_query(preparing.session, &mut preparing.types, query).await?;
    Ok(Update { selection, read, assigned, may_repeat: !from.is_empty(), moves_rows, is_whole })
}

impl Work<'_> {
    /// Updates the rows that the query has found.
    pub(super) async fn update_batches(
        &mut self,
        update: &Update,
        seen: &mut BTreeSet<Vec<Value>>,
        batches: &[RecordBatch],
    ) -> SqlResult<()> {
        let Some(mut rows) = whole(batches)? else { return Ok(()) };
        let key = self.key();
        if update.may_repeat {
            rows = first_ones(&rows, &places_of(&key, &update.read), seen, self)?;
            if rows.num_rows() == 0 {
                return Ok(());
            }
        }
        let old = self.stored(&rows, &update.read)?;
        let mut new: Vec<(usize, ArrayRef)> = Vec::with_capacity(update.assigned.len());
        let values = &rows.columns()[update.read.len()..];
        for ((position, is_unknown), values) in update.assigned.iter().zip(values) {
            let columns = self.rules.columns();
            let (declared, name) = (columns.columns[*position].declared_type, columns.name(*position));
            new.push((*position, assigned(values, *is_unknown, name, declared, self.rules.around())?));
        }
        let old_keys: Vec<ArrayRef> =
            places_of(&key, &update.read).iter().map(|place| old[*place].clone()).collect();
        let is_whole = update.read.len() == self.rules.columns().columns.len();
        if !is_whole {
            self.rules.check_some(&new)?;
            let cells = key.iter().copied().zip(old_keys).chain(new).collect();
            let operation = self.upsert(WriteMode::Update, cells);
            self.write(vec![operation]).await?;
            self.changed += rows.num_rows() as u64;
            return Ok(());
        }
        let mut after = old.clone();
        let assigned: Vec<usize> = new.iter().map(|(position, _)| *position).collect();
        new.into_iter().for_each(|(position, values)| after[position] = values);
        self.rules.check(&after)?;
        if update.moves_rows {
            let mut operations = vec![self.delete(old_keys)];
            operations.extend(self.entries_removed(&old));
            self.write(operations).await?;
            return self.insert_new(after, WriteMode::Insert).await;
        }
        let cells = key.iter().chain(&assigned).map(|place| (*place, after[*place].clone()));
        let (mut operations, added) = self.entries_changed(&old, &after);
        operations.push(self.upsert(WriteMode::Update, cells.collect()));
        self.write(operations).await?;
        self.write_unique(added, &after, false).await?;
        self.note(&after)
    }

    /// The columns of a query that are those of the table, as the store has them.
    pub(super) fn stored(&self, rows: &RecordBatch, read: &[usize]) -> SqlResult<Vec<ArrayRef>> {
        let columns = self.rules.columns();
        let stored = read.iter().zip(rows.columns()).map(|(position, values)| {
            let data_type = columns.columns[*position].declared_type.column_type().data_type();
            Ok(crate::relation::shown_as(values, &data_type)?)
        });
        stored.collect()
    }
}

/// The batches of a query as one.
pub(super) fn whole(batches: &[RecordBatch]) -> SqlResult<Option<RecordBatch>> {
    let Some(first) = batches.first() else { return Ok(None) };
    Ok(Some(concat_batches(&first.schema(), batches).map_err(DataFusionError::from)?))
}

/// Where columns are among those that a query has.
pub(super) fn places_of(wanted: &[usize], read: &[usize]) -> Vec<usize> {
    let place = |position| read.iter().position(|own| own == position).expect("the key is always read");
    wanted.iter().map(place).collect()
}

/// The rows whose keys were not seen before.
pub(super) fn first_ones(
    rows: &RecordBatch,
    key: &[usize],
    seen: &mut BTreeSet<Vec<Value>>,
    work: &mut Work<'_>,
) -> SqlResult<RecordBatch> {
    let keys: Vec<ArrayRef> = key
        .iter()
        .map(|place| {
            let values = rows.column(*place);
            let plain = match values.data_type() {
                arrow_schema::DataType::Timestamp(unit, _) => arrow_schema::DataType::Timestamp(*unit, None),
                other => other.clone(),
            };
            Ok(crate::relation::shown_as(values, &plain)?)
        })
        .collect::<SqlResult<_>>()?;
    let kept: Vec<u32> =
        (0..rows.num_rows() as u32).filter(|row| seen.insert(key_of(&keys, *row as usize))).collect();
    // About what a key takes in the set.
    work.held.charge(kept.len() * (48 + 32 * key.len()))?;
    if kept.len() == rows.num_rows() {
        return Ok(rows.clone());
    }
    let kept = UInt32Array::from(kept);
    let columns = rows.columns().iter().map(|values| take(values, &kept, None));
    let columns = columns.collect::<Result<Vec<_>, _>>().map_err(DataFusionError::from)?;
    Ok(RecordBatch::try_new(rows.schema(), columns).map_err(DataFusionError::from)?)
}
