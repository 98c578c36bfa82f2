//! The changes between two states of the naive store. It compares the states, as a store without a list of changes
//! would do.

use super::table::{Key, Row, Table};
use super::{History, State};
use crate::arrays::array_of_values;
use crate::error::{Error, Result};
use crate::ids::{ColumnId, Sequence, TableId};
use crate::schema::{ColumnSchema, Ranges, TableSchema};
use crate::store::{
    CellColumn, Change, ChangeStream, ChangesRequest, Delete, DeleteMode, Operation, RowSelection, Upsert,
    WriteBatch, WriteMode,
};
use arrow_array::ArrayRef;
use arrow_buffer::BooleanBuffer;
use async_trait::async_trait;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, PoisonError};

/// The number of changes of the store between two returned positions. Followers see that versions are left out, and
/// that there are positions on the way.
const STEPS: usize = 3;
/// Rows per batch; most tables have a few more rows.
const BATCH_ROWS: usize = 5;
/// This many adjacent deleted rows are returned as a deletion by selection.
const SELECTED_ROWS: usize = 3;

pub(super) struct MemoryChanges {
    changes: VecDeque<Change>,
}

#[async_trait]
impl ChangeStream for MemoryChanges {
    async fn next(&mut self) -> Result<Option<Change>> {
        Ok(self.changes.pop_front())
    }
}

impl MemoryChanges {
    pub(super) fn new(history: &History, request: &ChangesRequest) -> Result<Self> {
        let after = request.after.0;
        let states = history.states.lock().unwrap_or_else(PoisonError::into_inner);
        let states: Vec<&Arc<State>> = states.iter().map(|(_, state)| state).collect();
        let (first, last) = (states[0].sequence, states[states.len() - 1].sequence);
        if after > last {
            return Err(Error::invalid(format!("nothing was written under sequence {after} yet")));
        }
        if after < first {
            return Err(Error::missing(format!("what changed after sequence {after} is not known any more")));
        }
        let mut changes = VecDeque::new();
        // Every change has a sequence of its own.
        let mut from = (after - first) as usize;
        loop {
            let to = (from + STEPS).min(states.len() - 1);
            between(states[from], states[to], request.tables.as_deref(), &mut changes)?;
            changes.push_back(Change::Position(Sequence(states[to].sequence)));
            if to == states.len() - 1 {
                return Ok(Self { changes });
            }
            from = to;
        }
    }
}

fn between(
    old: &State,
    new: &State,
    wanted: Option<&[TableId]>,
    changes: &mut VecDeque<Change>,
) -> Result<()> {
    let ids: BTreeSet<TableId> = old.tables.keys().chain(new.tables.keys()).copied().collect();
    for id in ids.into_iter().filter(|id| wanted.is_none_or(|wanted| wanted.contains(id))) {
        let Some(table) = new.tables.get(&id) else {
            changes.push_back(Change::Dropped(id));
            continue;
        };
        let old = old.tables.get(&id);
        if old.is_none_or(|old| old.schema != table.schema) {
            changes.push_back(Change::Table(id, table.schema.clone()));
        }
        let empty = Table::new(TableSchema::clone(&table.schema));
        TableChange { id, old: old.map_or(&empty, |old| old), new: table }.push(changes)?;
    }
    Ok(())
}

struct TableChange<'a> {
    id: TableId,
    old: &'a Table,
    new: &'a Table,
}

/// A changed row: what a copy has so far, if anything, and the new row.
struct ChangedRow<'a> {
    key: &'a Key,
    before: Option<Row>,
    row: &'a Row,
}

impl TableChange<'_> {
    fn push(&self, changes: &mut VecDeque<Change>) -> Result<()> {
        let old: Vec<&Key> = self.old.rows.keys().collect();
        let is_gone = |key: &Key| !self.new.rows.contains_key(key);
        for run in old.chunk_by(|a, b| is_gone(a) && is_gone(b)).filter(|run| is_gone(run[0])) {
            changes.push_back(self.deletion(run)?);
        }
        let mut changed = Vec::new();
        for (key, row) in &self.new.rows {
            let before = self.copied(key);
            if before.as_ref() != Some(row) {
                changed.push(ChangedRow { key, before, row });
            }
        }
        for rows in changed.chunks(BATCH_ROWS) {
            let operations = vec![Operation::Upsert(self.upsert(rows)?)];
            changes.push_back(Change::Rows(WriteBatch { operations }));
        }
        Ok(())
    }

    /// Deletes adjacent keys.
    fn deletion(&self, keys: &[&Key]) -> Result<Change> {
        let table = self.id;
        if keys.len() < SELECTED_ROWS {
            let keys = self.key_arrays(keys)?;
            let operation = Operation::DeleteKeys { table, mode: DeleteMode::Blind, keys };
            return Ok(Change::Rows(WriteBatch { operations: vec![operation] }));
        }
        let bound = |key: &Key| Bound::Included(key.clone());
        let rows = RowSelection::Keys { start: bound(keys[0]), end: bound(keys[keys.len() - 1]) };
        Ok(Change::Delete(Delete { table, rows, predicates: Vec::new() }))
    }

    /// What a copy has under a key once the table has the new schema.
    fn copied(&self, key: &Key) -> Option<Row> {
        let (old, new) = (&self.old.schema, &self.new.schema);
        if let (Ranges::Keys { spans, .. }, Some(span)) = (&new.partitioning.ranges, self.old.span_of(key))
            && !spans.contains(span)
        {
            return None;
        }
        let mut row = Row::clone(self.old.rows.get(key)?);
        row.retain(|id, _| new.column(*id).is_some());
        let added = new.columns.iter().filter(|column| column.id >= old.next_column);
        row.extend(added.filter_map(|column| Some((column.id, column.default.clone()?))));
        Some(row)
    }

    fn key_arrays(&self, keys: &[&Key]) -> Result<Vec<ArrayRef>> {
        let array = |(position, id): (usize, &ColumnId)| {
            let column = self.new.schema.column(*id).expect("schemas are validated");
            let values: Vec<_> = keys.iter().map(|key| Some(&key[position])).collect();
            array_of_values(column.column_type, &values)
        };
        self.new.schema.key.iter().enumerate().map(array).collect()
    }

    /// The cells that changed, and the cells that a row must have.
    fn upsert(&self, rows: &[ChangedRow<'_>]) -> Result<Upsert> {
        let schema = &self.new.schema;
        let keys: Vec<&Key> = rows.iter().map(|row| row.key).collect();
        let keys = schema.key.iter().zip(self.key_arrays(&keys)?);
        let cells =
            |column: &ColumnId, values, null_cells| CellColumn { column: *column, values, null_cells };
        let mut columns: Vec<_> = keys.map(|(column, values)| cells(column, values, None)).collect();
        let demanding: Vec<ColumnId> = schema.columns_of_new_rows().map(|column| column.id).collect();
        for ColumnSchema { id, column_type, .. } in &schema.columns {
            let is_named = |row: &ChangedRow<'_>| {
                let before = row.before.as_ref().and_then(|before| before.get(id));
                demanding.contains(id) || before != row.row.get(id)
            };
            if schema.is_key(*id) || !rows.iter().any(is_named) {
                continue;
            }
            let values: Vec<_> = rows.iter().map(|row| row.row.get(id).filter(|_| is_named(row))).collect();
            let nulls: BooleanBuffer =
                rows.iter().map(|row| is_named(row) && !row.row.contains_key(id)).collect();
            columns.push(cells(id, array_of_values(*column_type, &values)?, Some(nulls)));
        }
        Ok(Upsert { table: self.id, mode: WriteMode::Upsert, columns })
    }
}
