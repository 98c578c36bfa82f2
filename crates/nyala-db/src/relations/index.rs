//! Indexes of tables: rows found, and kept apart, by other columns than those of the key.

use super::ids::{column_ids, table_id};
use nyala_core::{ColumnId, ColumnSchema, Error, Result, TableId, TableSchema};
use serde::{Deserialize, Serialize};

/// An index of a table: a table of the store whose rows, the entries, name rows of the table by their keys.
///
/// An entry has the values of the indexed columns, and behind them the key of their row. The indexed columns are the key of
/// a unique index; of any other all columns are. A row that has NULL in an indexed column has no entry, so that it is equal to no
/// other. Whoever writes rows writes their entries with the same commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    /// Its name, unique among the relations and the indexes of the database.
    pub name: String,
    /// The indexed columns of the table, in order.
    #[serde(with = "column_ids")]
    pub columns: Vec<ColumnId>,
    /// Whether no two rows may have the same values.
    pub is_unique: bool,
    /// Whether it belongs to a constraint of the same name.
    pub is_constraint: bool,
    /// The table of the store that holds its entries.
    #[serde(with = "table_id")]
    pub table: TableId,
}

impl Index {
    /// The column of an entry that holds the value of an indexed column, by its place among these.
    pub fn value_column(place: usize) -> ColumnId {
        ColumnId(place as u32)
    }

    /// The column of an entry that holds a column of the key of its row, by its place in the key.
    pub fn key_column(&self, place: usize) -> ColumnId {
        ColumnId((self.columns.len() + place) as u32)
    }

    /// The schema of the store for its entries. `rows` is that for the rows.
    ///
    /// # Errors
    /// Missing if the table has lost a column of the index.
    pub fn schema(&self, rows: &TableSchema) -> Result<TableSchema> {
        let parts = self.columns.iter().chain(&rows.key);
        let columns = parts.enumerate().map(|(place, id)| {
            let own = rows.column(*id).ok_or_else(|| {
                Error::missing(format!("column {} of index {:?} does not exist", id.0, self.name))
            })?;
            // Names differ, and a column of the key may be indexed.
            let name = format!("{place} {}", own.name);
            Ok(ColumnSchema::new(ColumnId(place as u32), name, own.column_type).required())
        });
        let columns: Vec<ColumnSchema> = columns.collect::<Result<_>>()?;
        let key_columns = if self.is_unique { self.columns.len() } else { columns.len() };
        let key = (0..key_columns).map(Self::value_column).collect();
        Ok(TableSchema::keyed("", columns, key))
    }
}
