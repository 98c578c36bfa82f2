//! `UPDATE` and `DELETE` of one row by its whole key, with values that are known.
//!
//! What is written does not depend on what is there, so the statement needs neither a plan nor a stage: the store sees whether
//! the row is there when it writes. Writers of different rows share syncs of the log.

use super::assignments::assignments;
use super::preparing::{Preparing, Written};
use super::work::Work;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::identifier::folded;
use crate::relation::assign::{column_of, of_values};
use crate::relation::literal::{datum, is_literal};
use crate::session::definition::table_of;
use crate::session::look_up::KeyCondition;
use arrow_array::ArrayRef;
use datafusion::sql::sqlparser::ast::{self, FromTable};
use nyala_core::store::{DeleteMode, Operation, RowSelection, ScanRequest, WriteBatch, WriteMode};
use nyala_core::{ColumnId, Value};
use std::ops::Bound;

/// A prepared change of one row.
#[derive(Debug)]
pub(super) struct ByKey {
    key: KeyCondition,
    /// The columns that are assigned, and their values; `None`: the row is deleted.
    assigned: Option<Vec<(usize, ast::Expr)>>,
}

/// Prepares an UPDATE or DELETE; `None` if it is any other than of one row by its key.
pub(super) fn prepare(preparing: &mut Preparing<'_>, written: &Written<'_>) -> SqlResult<Option<ByKey>> {
    let Some(condition) = condition_of(written) else { return Ok(None) };
    preparing.check_readable()?;
    let relation = preparing.relation.clone();
    let table = table_of(&relation)?;
    let is_indexed = |id: ColumnId| table.indexes.iter().any(|index| index.columns.contains(&id));
    let assigned = match written.statement {
        ast::Statement::Update(update) => {
            // A check may need the columns that are not assigned.
            if !table.checks.is_empty() {
                return Ok(None);
            }
            let is_indexed: Vec<bool> =
                preparing.columns.columns.iter().map(|own| is_indexed(own.id)).collect();
            let assigned = assignments(preparing, &update.assignments)?;
            let key = preparing.columns.key_positions().expect("a change knows all columns");
            let is_found_by = |position: &usize| key.contains(position) || is_indexed[*position];
            if assigned.iter().any(|(position, value)| is_found_by(position) || !is_literal(value)) {
                return Ok(None);
            }
            Some(assigned)
        }
        // The entries of the row have to be read.
        _ if !table.indexes.is_empty() => return Ok(None),
        _ => None,
    };
    let (alias, columns) = (folded(&preparing.alias), preparing.columns.clone());
    let key = KeyCondition::of(condition, &alias, &columns, preparing.types.known());
    Ok(key.map(|key| ByKey { key, assigned }))
}

/// The condition of a statement that has nothing else that a plan would be needed for.
fn condition_of<'a>(written: &Written<'a>) -> Option<&'a ast::Expr> {
    if written.with.is_some() {
        return None;
    }
    match written.statement {
        ast::Statement::Update(update)
            if update.or.is_none()
                && update.from.is_none()
                && update.order_by.is_empty()
                && update.limit.is_none()
                && update.output.is_none()
                && update.returning.is_none()
                && update.table.joins.is_empty() =>
        {
            update.selection.as_ref()
        }
        ast::Statement::Delete(delete)
            if delete.using.is_none()
                && delete.order_by.is_empty()
                && delete.limit.is_none()
                && delete.output.is_none()
                && delete.returning.is_none() =>
        {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
            delete.selection.as_ref().filter(|_| from.len() == 1)
        }
        _ => None,
    }
}

impl Work<'_> {
    /// Changes the row, if it is there.
    pub(super) async fn change_by_key(&mut self, change: &ByKey) -> SqlResult<()> {
        let Some(key) = change.key.values(self.parameters, self.rules.around())? else { return Ok(()) };
        let columns = self.rules.columns().clone();
        let positions = self.key();
        let key_cells = positions.iter().zip(&key).map(|(position, value)| {
            of_values(columns.columns[*position].declared_type, &[Some(value.clone())])
        });
        let key_cells: Vec<ArrayRef> = key_cells.collect::<SqlResult<_>>()?;
        let operation = match &change.assigned {
            None => Operation::DeleteKeys {
                table: self.table_id(),
                mode: DeleteMode::DeleteIgnore,
                keys: key_cells,
            },
            Some(assigned) => {
                let new = assigned.iter().map(|(position, value)| {
                    let (declared, name) =
                        (columns.columns[*position].declared_type, columns.name(*position));
                    let around = self.rules.around();
                    let value = datum(value, self.parameters, around);
                    Ok((*position, column_of([value].into_iter(), name, declared, around)?))
                });
                let new: Vec<(usize, ArrayRef)> = new.collect::<SqlResult<_>>()?;
                if let Err(error) = self.rules.check_some(&new) {
                    // A row that is not there breaks no rule.
                    let is_there = error.code != SqlState::NOT_NULL_VIOLATION || self.has_row(key).await?;
                    return if is_there { Err(error) } else { Ok(()) };
                }
                let cells = positions.into_iter().zip(key_cells).chain(new);
                self.upsert(WriteMode::UpdateIgnore, cells.collect())
            }
        };
        let written = self.sink.write(WriteBatch { operations: vec![operation] }).await;
        self.changed += written.map_err(SqlError::from)?.affected;
        Ok(())
    }

    async fn has_row(&self, key: Vec<Value>) -> SqlResult<bool> {
        let snapshot = self.sink.snapshot().await?;
        let selection = RowSelection::Keys { start: Bound::Included(key.clone()), end: Bound::Included(key) };
        let first = self.rules.columns().key[0];
        let request = ScanRequest::by_key(self.table_id(), selection, vec![first]);
        Ok(snapshot.scan(request).await?.next().await?.is_some_and(|batch| batch.rows > 0))
    }
}
