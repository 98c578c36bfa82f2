//! Executing an INSERT.

use super::existing::some_rows;
use super::insert::{Arbiter, Conflict, Insert};
use super::on_conflict::{arbiter, update_existing};
use super::preparing::is_default;
use super::work::Work;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::relation::assign::{assigned, column_of, of_values};
use crate::relation::entries::RowIndex;
use crate::relation::literal::datum;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, UInt32Array};
use datafusion::arrow::compute::{concat_batches, take_record_batch};
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::ast::{self, SetExpr};
use nyala_core::arrays::concat;
use nyala_core::store::{WriteBatch, WriteMode};
use nyala_core::{ErrorKind, Value};
use nyala_db::relations::Key;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How often rows get other numbers because another server has given them too.
const NUMBERINGS_MAX: usize = 8;

impl Work<'_> {
    /// Inserts rows that VALUES has as literals.
    pub(super) async fn insert_literals(
        &mut self,
        insert: &Insert,
        statement: &ast::Insert,
    ) -> SqlResult<()> {
        let values = match statement.source.as_ref().map(|query| &*query.body) {
            Some(SetExpr::Values(values)) => values,
            _ => return Err(SqlError::new(SqlState::INTERNAL, "the statement has no VALUES")),
        };
        let defaults_at = |place: usize| values.rows.iter().filter(|cells| is_default(&cells[place])).count();
        let place_of = |position: usize| insert.named.iter().position(|own| *own == position);
        self.rules.take_numbers(|position| place_of(position).map_or(0, defaults_at)).await?;
        let mut cells = Vec::with_capacity(insert.named.len());
        for (place, position) in insert.named.iter().enumerate() {
            cells.push(self.literal_column(place, *position, values)?);
        }
        self.insert(insert, cells, values.rows.len()).await
    }

    /// A column of VALUES.
    fn literal_column(&self, place: usize, position: usize, values: &ast::Values) -> SqlResult<ArrayRef> {
        let columns = self.rules.columns();
        let (declared, name) = (columns.columns[position].declared_type, columns.name(position));
        let around = self.rules.around();
        if !values.rows.iter().any(|cells| is_default(&cells[place])) {
            let data = values.rows.iter().map(|cells| datum(&cells[place], self.parameters, around));
            return column_of(data, name, declared, around);
        }
        let mut stored: Vec<Option<Value>> = Vec::with_capacity(values.rows.len());
        // A default that is computed for each row is another value in each.
        let mut computed: Vec<(usize, ArrayRef)> = Vec::new();
        for (row, cells) in values.rows.iter().enumerate() {
            let cell = &cells[place];
            stored.push(if !is_default(cell) {
                datum(cell, self.parameters, around)?.stored(name, declared, around)?
            } else if let Some(value) = self.rules.constant(position) {
                value.clone()
            } else {
                computed.push((row, self.rules.default(position, 1)?));
                None
            });
        }
        let all = of_values(declared, &stored)?;
        let mut parts: Vec<ArrayRef> = Vec::new();
        let mut from = 0;
        for (row, value) in computed {
            parts.extend([all.slice(from, row - from), value]);
            from = row + 1;
        }
        if parts.is_empty() {
            return Ok(all);
        }
        parts.push(all.slice(from, all.len() - from));
        Ok(concat(&parts))
    }

    /// Inserts rows of a query.
    pub(super) async fn insert_batches(
        &mut self,
        insert: &Insert,
        is_unknown: &[bool],
        batches: &[RecordBatch],
    ) -> SqlResult<()> {
        let Some(first) = batches.first() else { return Ok(()) };
        let rows = concat_batches(&first.schema(), batches).map_err(DataFusionError::from)?;
        let mut cells = Vec::with_capacity(insert.named.len());
        for ((position, values), is_unknown) in insert.named.iter().zip(rows.columns()).zip(is_unknown) {
            let columns = self.rules.columns();
            let (declared, name) = (columns.columns[*position].declared_type, columns.name(*position));
            cells.push(assigned(values, *is_unknown, name, declared, self.rules.around())?);
        }
        self.insert(insert, cells, rows.num_rows()).await
    }

    /// Inserts rows that have the columns that the statement names.
    pub(super) async fn insert(
        &mut self,
        insert: &Insert,
        cells: Vec<ArrayRef>,
        count: usize,
    ) -> SqlResult<()> {
        let mut rows = self.completed(&insert.named, cells, count).await?;
        self.rules.check(&rows)?;
        let mode = match &insert.conflict {
            Conflict::Fail => WriteMode::Insert,
            Conflict::Ignore { is_by_store: true } => WriteMode::InsertIgnore,
            Conflict::Ignore { is_by_store: false } => {
                let primary = self.primary();
                let own = self.arbiters(&insert.arbiter, &primary);
                let absent = self.absent(&rows, &own).await?;
                rows = some_rows(&rows, &absent);
                WriteMode::Insert
            }
            Conflict::Replace { is_blind: true, may_repeat } => {
                if !may_repeat {
                    self.check_once(&self.primary(), &rows, true)?;
                }
                return self.replace(insert, rows).await;
            }
            Conflict::Replace { is_blind: false, may_repeat } => {
                let primary = self.primary();
                match may_repeat {
                    true => rows = last_ones(&primary, &rows),
                    false => self.check_once(&primary, &rows, false)?,
                }
                return update_existing(self, rows, None, &insert.named, &primary).await;
            }
            Conflict::Update(_) => {
                let (update, primary, indexes) = (self.conflict.take(), self.primary(), self.indexes.clone());
                let by = arbiter(&insert.arbiter, &primary, &indexes)?;
                self.check_once(by, &rows, true)?;
                let done = update_existing(self, rows, update.as_ref(), &[], by).await;
                self.conflict = update;
                return done;
            }
        };
        if rows.first().is_none_or(|values| values.is_empty()) {
            return Ok(());
        }
        self.insert_new(rows, mode).await
    }

    /// Inserts whole rows whose keys are new, or leaves those out that are not.
    pub(super) async fn insert_new(&mut self, mut rows: Vec<ArrayRef>, mode: WriteMode) -> SqlResult<()> {
        let returned = self.returned_of(&rows)?;
        for _ in 0..NUMBERINGS_MAX {
            let mut operations = vec![self.upsert(mode, rows.iter().cloned().enumerate().collect())];
            operations.extend(self.entries_added(&rows));
            match self.sink.write(WriteBatch { operations }).await {
                Ok(outcome) if outcome.conflicts.is_empty() => {
                    self.note_returned(rows[0].len(), returned);
                    return Ok(());
                }
                Ok(outcome) => {
                    // A store whose batches are not atomic leaves such rows out in either mode.
                    let left_out: Vec<usize> = outcome.conflicts.iter().map(|place| place.row).collect();
                    if mode == WriteMode::Insert {
                        return Err(self.rules.duplicate(&self.primary(), &rows, left_out[0]));
                    }
                    let count = rows[0].len() as u32;
                    let kept = (0..count).filter(|row| left_out.binary_search(&(*row as usize)).is_err());
                    let kept = UInt32Array::from_iter_values(kept);
                    let returned = returned.map(|returned| take_record_batch(&returned, &kept)).transpose();
                    self.note_returned(kept.len(), returned.map_err(DataFusionError::from)?);
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    let snapshot = self.sink.snapshot().await?;
                    match self.first_taken(&*snapshot, &rows, true).await? {
                        Some(taken) if taken.is_key() && matches!(self.table.key, Key::Hidden { .. }) => {
                            self.number(&mut rows);
                        }
                        Some(taken) => return Err(self.taken(&taken, &rows)),
                        // Whoever had the key has given it up.
                        None => {}
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        let words = "could not serialize access due to concurrent update";
        Err(SqlError::new(SqlState::SERIALIZATION_FAILURE, words))
    }

    /// The keys and indexes that ON CONFLICT is about.
    pub(super) fn arbiters<'b>(
        &'b self,
        arbiter: &Arbiter,
        primary: &'b RowIndex<'b>,
    ) -> Vec<&'b RowIndex<'b>> {
        match arbiter {
            Arbiter::Key => vec![primary],
            Arbiter::Any => {
                let unique = self.indexes.iter().filter(|index| index.is_unique());
                std::iter::once(primary).chain(unique).collect()
            }
            Arbiter::Index(name) => self.indexes.iter().filter(|index| index.name == name).collect(),
        }
    }

    /// Writes rows whether their keys are taken or not.
    async fn replace(&mut self, insert: &Insert, rows: Vec<ArrayRef>) -> SqlResult<()> {
        let key = self.key();
        let is_written = |position: &usize| insert.named.contains(position) || key.contains(position);
        let cells = (0..rows.len()).filter(is_written).map(|position| (position, rows[position].clone()));
        let operation = self.upsert(WriteMode::Upsert, cells.collect());
        let returned = self.returned_of(&rows)?;
        self.write(vec![operation]).await?;
        self.note_returned(rows.first().map_or(0, |values| values.len()), returned);
        Ok(())
    }

    /// Whole rows: with defaults for what the statement does not name, and numbers if the key is hidden.
    pub(super) async fn completed(
        &self,
        named: &[usize],
        cells: Vec<ArrayRef>,
        count: usize,
    ) -> SqlResult<Vec<ArrayRef>> {
        self.rules.take_numbers(|position| if named.contains(&position) { 0 } else { count }).await?;
        let mut rows: Vec<Option<ArrayRef>> = vec![None; self.rules.columns().columns.len()];
        for (position, values) in named.iter().zip(cells) {
            rows[*position] = Some(values);
        }
        let default = |(position, values): (usize, Option<ArrayRef>)| match values {
            Some(values) => Ok(values),
            None => self.rules.default(position, count),
        };
        let mut rows = rows.into_iter().enumerate().map(default).collect::<SqlResult<Vec<_>>>()?;
        if matches!(self.table.key, Key::Hidden { .. }) {
            self.number(&mut rows);
        }
        Ok(rows)
    }

    /// Gives rows new numbers as their keys.
    fn number(&self, rows: &mut [ArrayRef]) {
        let Some(numbers) = rows.last_mut() else { return };
        let count = numbers.len();
        let first = self.catalog.relations().row_ids(self.rules.around().now_ns, count);
        *numbers = Arc::new(Int64Array::from_iter_values(first..first + count as i64));
    }
}

/// The rows of which none after them has the same key.
fn last_ones(key: &RowIndex<'_>, rows: &[ArrayRef]) -> Vec<ArrayRef> {
    let count = rows.first().map_or(0, |values| values.len());
    let last: BTreeMap<Option<Vec<Value>>, u32> =
        (0..count).map(|row| (key.values(rows, row), row as u32)).collect();
    if last.len() == count {
        return rows.to_vec();
    }
    let mut kept: Vec<u32> = last.into_values().collect();
    kept.sort_unstable();
    some_rows(rows, &kept)
}
