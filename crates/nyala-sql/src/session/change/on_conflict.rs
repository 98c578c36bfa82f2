//! `ON CONFLICT DO UPDATE`, and `UPSERT` of a part of the columns: the new row meets the row that is there.

use super::assignments::CompiledUpdate;
use super::existing::{existing, some_rows};
use super::insert::Arbiter;
use super::work::Work;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::expression::evaluated;
use crate::relation::assign::assigned;
use crate::relation::entries::RowIndex;
use crate::relation::rules::batch_of;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::Schema;
use datafusion::arrow::compute::{cast, take};
use datafusion::error::DataFusionError;
use nyala_core::Value;
use nyala_core::arrays::concat;
use nyala_core::store::WriteMode;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Inserts rows that are new by a key or an index, and changes those that are there: as `update` says, or to the values of the new
/// rows in the columns `named`.
pub(super) async fn update_existing(
    work: &mut Work<'_>,
    rows: Vec<ArrayRef>,
    update: Option<&CompiledUpdate>,
    named: &[usize],
    by: &RowIndex<'_>,
) -> SqlResult<()> {
    let count = rows.first().map_or(0, |values| values.len());
    let mut from = 0;
    while from < count {
        let rest = rows.iter().map(|values| values.slice(from, count - from)).collect();
        from += update_part(work, rest, update, named, by).await?;
    }
    Ok(())
}

/// The same for as many of the rows, from the first on, as find rows that memory is there for. Returns how many.
async fn update_part(
    work: &mut Work<'_>,
    mut rows: Vec<ArrayRef>,
    update: Option<&CompiledUpdate>,
    named: &[usize],
    by: &RowIndex<'_>,
) -> SqlResult<usize> {
    let snapshot = work.sink.snapshot().await?;
    let found = existing(work, &snapshot, by, &rows).await?;
    let part = found.places.len();
    rows.iter_mut().for_each(|values| *values = values.slice(0, part));
    let (mut new, mut met, mut there) = (Vec::new(), Vec::new(), Vec::new());
    for (row, place) in (0_u32..).zip(&found.places) {
        match place {
            Some(place) => {
                met.push(row);
                there.push(*place);
            }
            None => new.push(row),
        }
    }
    let (before, excluded) = (some_rows(&found.rows, &there), some_rows(&rows, &met));
    let (after, assigned, kept) = match update {
        Some(update) => {
            let Updated { rows, places, kept } = updated(work, &before, &excluded, update)?;
            if let Some(kept) = &kept {
                met = kept.iter().map(|row| met[*row as usize]).collect();
            }
            (rows, places, kept)
        }
        None => {
            let key = work.key();
            let assigned: Vec<usize> = named.iter().copied().filter(|place| !key.contains(place)).collect();
            let mut after = before.clone();
            assigned.iter().for_each(|place| after[*place] = excluded[*place].clone());
            (after, assigned, None)
        }
    };
    work.rules.check(&after)?;
    let new_rows = some_rows(&rows, &new);
    let (removed, added) = match &kept {
        Some(kept) => work.entries_changed(&some_rows(&before, kept), &after),
        None => work.entries_changed(&before, &after),
    };
    let mut operations = removed;
    if after.first().is_some_and(|values| !values.is_empty()) {
        let key = work.key();
        let cells = key.iter().chain(&assigned).map(|place| (*place, after[*place].clone()));
        operations.push(work.upsert(WriteMode::Update, cells.collect()));
    }
    if !new.is_empty() {
        if !work.indexes.is_empty() && !operations.is_empty() {
            // What is written anew may be what is taken away.
            work.write(std::mem::take(&mut operations)).await?;
        }
        operations.push(work.upsert(WriteMode::Insert, new_rows.iter().cloned().enumerate().collect()));
        operations.extend(work.entries_added(&new_rows));
    }
    work.write_unique(operations, &new_rows, true).await?;
    work.write_unique(added, &after, false).await?;
    if new.is_empty() || met.is_empty() {
        work.note(&new_rows)?;
        work.note(&after)?;
        return Ok(part);
    }
    // In the order in which they were given.
    let rows: Vec<u32> = new.into_iter().chain(met).collect();
    let mut order: Vec<u32> = (0..rows.len() as u32).collect();
    order.sort_unstable_by_key(|place| rows[*place as usize]);
    let all: Vec<ArrayRef> =
        new_rows.into_iter().zip(after).map(|(new, after)| concat(&[new, after])).collect();
    work.note(&some_rows(&all, &order))?;
    Ok(part)
}

/// The key or index by which ON CONFLICT looks for rows.
pub(super) fn arbiter<'a>(
    of: &Arbiter,
    primary: &'a RowIndex<'a>,
    indexes: &'a [RowIndex<'a>],
) -> SqlResult<&'a RowIndex<'a>> {
    let found = match of {
        Arbiter::Index(name) => indexes.iter().find(|index| index.name == name),
        Arbiter::Key | Arbiter::Any => Some(primary),
    };
    found.ok_or_else(|| SqlError::new(SqlState::INTERNAL, "the arbiter of ON CONFLICT is gone"))
}

impl Work<'_> {
    /// Fails if two of the new rows of a statement are one by a key or an index: PostgreSQL refuses to change a row twice.
    pub(super) fn check_once(
        &mut self,
        by: &RowIndex<'_>,
        rows: &[ArrayRef],
        is_update: bool,
    ) -> SqlResult<()> {
        let mut seen: BTreeSet<Vec<Value>> = BTreeSet::new();
        let count = rows.first().map_or(0, |values| values.len());
        let is_once = (0..count).all(|row| by.values(rows, row).is_none_or(|values| seen.insert(values)));
        if is_once && !self.met.meets_again(by, rows) {
            return Ok(());
        }
        let words = match is_update {
            true => "ON CONFLICT DO UPDATE command cannot affect row a second time",
            false => "UPSERT cannot affect a row a second time if it leaves columns out",
        };
        Err(SqlError::new(SqlState::CARDINALITY_VIOLATION, words).with_hint(
            "Ensure that no rows proposed for insertion within the same command have duplicate constrained values.",
        ))
    }
}

/// Rows after an update.
struct Updated {
    rows: Vec<ArrayRef>,
    /// The columns that it assigns.
    places: Vec<usize>,
    /// Which of the rows it changes, unless it changes all.
    kept: Option<Vec<u32>>,
}

fn updated(
    work: &Work<'_>,
    before: &[ArrayRef],
    excluded: &[ArrayRef],
    update: &CompiledUpdate,
) -> SqlResult<Updated> {
    let columns = work.rules.columns();
    let mut both = joined(&batch_of(columns, before)?, &batch_of(columns, excluded)?)?;
    let (mut before, mut changed) = (before.to_vec(), None);
    if let Some(selection) = &update.selection {
        let holds = evaluated(selection, &both)?;
        let holds = cast(&holds, &arrow_schema::DataType::Boolean).map_err(DataFusionError::from)?;
        let holds = holds.as_boolean();
        let kept: Vec<u32> = (0..holds.len() as u32)
            .filter(|row| holds.is_valid(*row as usize) && holds.value(*row as usize))
            .collect();
        let rows = UInt32Array::from(kept.clone());
        let columns = both.columns().iter().map(|values| take(values, &rows, None));
        let columns = columns.collect::<Result<Vec<_>, _>>().map_err(DataFusionError::from)?;
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(kept.len()));
        both = RecordBatch::try_new_with_options(both.schema(), columns, &options)
            .map_err(DataFusionError::from)?;
        before = some_rows(&before, &kept);
        changed = Some(kept);
    }
    let mut places = Vec::with_capacity(update.assignments.len());
    let mut after = before;
    for (position, expression, is_unknown) in &update.assignments {
        let column = columns.columns[*position];
        let values = evaluated(expression, &both)?;
        let name = columns.name(*position);
        after[*position] = assigned(&values, *is_unknown, name, column.declared_type, work.rules.around())?;
        places.push(*position);
    }
    Ok(Updated { rows: after, places, kept: changed })
}

fn joined(left: &RecordBatch, right: &RecordBatch) -> SqlResult<RecordBatch> {
    let (left_schema, right_schema) = (left.schema(), right.schema());
    let fields = left_schema.fields().iter().chain(right_schema.fields()).cloned();
    let columns = left.columns().iter().chain(right.columns()).cloned().collect();
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(left.num_rows()));
    Ok(RecordBatch::try_new_with_options(schema, columns, &options).map_err(DataFusionError::from)?)
}
