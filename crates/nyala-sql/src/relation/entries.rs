//! The entries of indexes that belong to rows.

use super::columns::TableColumns;
use arrow_array::{Array, ArrayRef};
use nyala_core::arrays::{take_rows, value_at};
use nyala_core::store::{
    CellColumn, DeleteMode, Operation, RowSelection, ScanRequest, Snapshot, Upsert, WriteMode,
};
use nyala_core::{ColumnId, Result, TableId, Value};
use nyala_db::relations::Index;
use std::ops::Bound;

/// What no two rows have in common, and where it is looked for: the key of a table, or a unique index. Besides, the entries
/// of any index.
pub(crate) struct RowIndex<'a> {
    pub(crate) name: &'a str,
    /// The positions of the columns that rows are found by.
    pub(crate) columns: Vec<usize>,
    /// The positions of the columns of the key.
    key: Vec<usize>,
    /// `None`: it is the key itself.
    index: Option<&'a Index>,
    table: TableId,
    /// A column of its table.
    first: ColumnId,
}

impl<'a> RowIndex<'a> {
    /// The key of a table. `columns` are all its columns.
    pub(crate) fn of_key(name: &'a str, table: TableId, columns: &TableColumns) -> Self {
        let key = columns.key_positions().expect("all columns are there");
        Self { name, columns: key.clone(), key, index: None, table, first: columns.key[0] }
    }

    /// An index of a table. `columns` are all its columns.
    pub(crate) fn of_index(index: &'a Index, columns: &TableColumns) -> Self {
        let position = |id: &ColumnId| columns.position_of(*id).expect("all columns are there");
        let indexed = index.columns.iter().map(position).collect();
        let key = columns.key_positions().expect("all columns are there");
        let first = Index::value_column(0);
        Self { name: &index.name, columns: indexed, key, index: Some(index), table: index.table, first }
    }

    /// Whether no two rows may have the same values.
    pub(crate) fn is_unique(&self) -> bool {
        self.index.is_none_or(|index| index.is_unique)
    }

    /// The values that a row is found by; `None` if one is NULL: then it is found by nothing.
    pub(crate) fn values(&self, rows: &[ArrayRef], row: usize) -> Option<Vec<Value>> {
        self.columns.iter().map(|position| value_at(&rows[*position], row)).collect()
    }

    /// The operation that writes entries of whole rows; `None` if there are none.
    pub(crate) fn added(&self, rows: &[ArrayRef]) -> Option<Operation> {
        let index = self.index?;
        let cells = self.cells(rows, self.columns.iter().chain(&self.key))?;
        let columns = (0..).zip(cells).map(|(id, values)| CellColumn::whole(ColumnId(id), values)).collect();
        let mode = if index.is_unique { WriteMode::Insert } else { WriteMode::Upsert };
        Some(Operation::Upsert(Upsert { table: self.table, mode, columns }))
    }

    /// The operation that deletes entries of whole rows.
    pub(crate) fn removed(&self, rows: &[ArrayRef]) -> Option<Operation> {
        let key: &[usize] = if self.index?.is_unique { &[] } else { &self.key };
        let keys = self.cells(rows, self.columns.iter().chain(key))?;
        Some(Operation::DeleteKeys { table: self.table, mode: DeleteMode::Delete, keys })
    }

    /// Columns of the rows that have entries.
    fn cells<'p>(
        &self,
        rows: &[ArrayRef],
        positions: impl Iterator<Item = &'p usize>,
    ) -> Option<Vec<ArrayRef>> {
        let count = rows.first().map_or(0, |values| values.len());
        let is_whole = |row: &u32| self.columns.iter().all(|own| rows[*own].is_valid(*row as usize));
        let with_null = self.columns.iter().any(|own| rows[*own].null_count() > 0);
        let kept: Option<Vec<u32>> = with_null.then(|| (0..count as u32).filter(is_whole).collect());
        if kept.as_ref().map_or(count, Vec::len) == 0 {
            return None;
        }
        let cells = positions.map(|position| match &kept {
            Some(kept) => take_rows(&rows[*position], kept),
            None => rows[*position].clone(),
        });
        Some(cells.collect())
    }

    /// The key that the row with some values has. By the key itself nothing is looked for.
    pub(crate) async fn key_for(
        &self,
        snapshot: &dyn Snapshot,
        values: Vec<Value>,
    ) -> Result<Option<Vec<Value>>> {
        let Some(index) = self.index else { return Ok(Some(values)) };
        let columns = (0..self.key.len()).map(|place| index.key_column(place)).collect();
        let mut found = snapshot.scan(ScanRequest::by_key(self.table, one(values), columns)).await?;
        while let Some(entries) = found.next().await? {
            if entries.rows > 0 {
                return Ok(entries.columns.iter().map(|values| value_at(values, 0)).collect());
            }
        }
        Ok(None)
    }

    /// Whether another row than that of `rows`, which may be there, has its values, which are given.
    pub(crate) async fn is_taken_by_another(
        &self,
        snapshot: &dyn Snapshot,
        values: Vec<Value>,
        (rows, row): (&[ArrayRef], usize),
    ) -> Result<bool> {
        if self.index.is_none() {
            return self.is_taken(snapshot, values).await;
        }
        let own = self.key.iter().map(|position| value_at(&rows[*position], row)).collect();
        let found = self.key_for(snapshot, values).await?;
        Ok(found.is_some() && found != own)
    }

    /// Whether a row has some values.
    pub(crate) async fn is_taken(&self, snapshot: &dyn Snapshot, values: Vec<Value>) -> Result<bool> {
        if self.index.is_some() {
            return Ok(self.key_for(snapshot, values).await?.is_some());
        }
        let request = ScanRequest::by_key(self.table, one(values), vec![self.first]);
        let mut found = snapshot.scan(request).await?;
        while let Some(rows) = found.next().await? {
            if rows.rows > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// One key.
pub(crate) fn one(key: Vec<Value>) -> RowSelection {
    RowSelection::Keys { start: Bound::Included(key.clone()), end: Bound::Included(key) }
}
