//! `DELETE`.

use super::preparing::{Preparing, Written, changed_name, column_of, named_item, query_of};
use super::selection::Selection;
use super::update::{first_ones, places_of, whole};
use super::work::Work;
use crate::error::{SqlError, SqlResult};
use arrow_array::{ArrayRef, NullArray, RecordBatch};
use datafusion::sql::sqlparser::ast::{self, SelectItem};
use nyala_core::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A prepared DELETE.
#[derive(Debug)]
pub(super) struct Delete {
    pub(super) selection: Selection,
    /// The columns of the table that the query has.
    read: Vec<usize>,
    /// Whether the query may find a row several times.
    may_repeat: bool,
}

pub(super) async fn prepare(
    preparing: &mut Preparing<'_>,
    written: &Written<'_>,
    delete: &ast::Delete,
) -> SqlResult<Delete> {
    preparing.check_readable()?;
    if !delete.order_by.is_empty() || delete.limit.is_some() || delete.output.is_some() {
        return Err(SqlError::unsupported("DELETE with ORDER BY, LIMIT or OUTPUT"));
    }
    let key = preparing.columns.key_positions().expect("a change knows all columns");
    let all = 0..preparing.columns.columns.len();
    let is_needed = |position: &usize| {
        let id = preparing.columns.columns[*position].id;
        let mut indexed = preparing.relation.table().into_iter().flat_map(|table| &table.indexes);
        key.contains(position) || indexed.any(|index| index.columns.contains(&id))
    };
    let read: Vec<usize> = match delete.returning.is_some() {
        true => all.collect(),
        false => all.filter(is_needed).collect(),
    };
    let item = |position: &usize| -> SelectItem {
        let name = preparing.columns.name(*position);
        named_item(column_of(&preparing.alias, name), &format!("\u{0}{position}"))
    };
    let items = read.iter().map(item).collect();
    let others = delete.using.as_deref().unwrap_or_default();
    let (name, alias) = (changed_name(&preparing.place), &preparing.alias);
    let query = query_of(name, alias, written.with, items, others, delete.selection.as_ref())?;
    let selection = Selection::of_query(preparing.session, &mut preparing.types, query).await?;
    Ok(Delete { selection, read, may_repeat: !others.is_empty() })
}

impl Work<'_> {
    /// Deletes the rows that the query has found.
    pub(super) async fn delete_batches(
        &mut self,
        delete: &Delete,
        seen: &mut BTreeSet<Vec<Value>>,
        batches: &[RecordBatch],
    ) -> SqlResult<()> {
        let Some(mut rows) = whole(batches)? else { return Ok(()) };
        let places = places_of(&self.key(), &delete.read);
        if delete.may_repeat {
            rows = first_ones(&rows, &places, seen, self)?;
            if rows.num_rows() == 0 {
                return Ok(());
            }
        }
        let old = self.stored(&rows, &delete.read)?;
        let keys: Vec<ArrayRef> = places.iter().map(|place| old[*place].clone()).collect();
        let mut operations = vec![self.delete(keys)];
        if !self.indexes.is_empty() {
            // In the places that columns have in whole rows; what is not read is not looked at.
            let nothing: ArrayRef = Arc::new(NullArray::new(rows.num_rows()));
            let mut spread = vec![nothing; self.rules.columns().columns.len()];
            delete.read.iter().zip(&old).for_each(|(position, values)| spread[*position] = values.clone());
            operations.extend(self.entries_removed(&spread));
        }
        self.write(operations).await?;
        self.note(&old)
    }
}
