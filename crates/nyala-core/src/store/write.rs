//! What is written: batches of upserts and deletes by key, and changes by predicate.

use super::convert::array_of_values;
use super::predicate::Predicate;
use super::scan::RowSelection;
use crate::error::{Error, Result};
use crate::ids::{ColumnId, TableId};
use crate::schema::TableSchema;
use crate::time::MAX_TIME_NS;
use crate::value::Value;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::BooleanBuffer;

/// Operations that become durable and visible together.
#[derive(Debug, Clone, Default)]
pub struct WriteBatch {
    /// In order: of two that touch one cell the later wins.
    pub operations: Vec<Operation>,
}

/// One operation of a batch.
#[derive(Debug, Clone)]
pub enum Operation {
    /// Writes rows.
    Upsert(Upsert),
    /// Deletes the rows with these keys: one array per key column, in key order.
    DeleteKeys {
        /// The table.
        table: TableId,
        /// The keys.
        keys: Vec<ArrayRef>,
    },
}

/// What is demanded of the keys of an upsert; where it does not hold the whole batch is refused as a
/// conflict and nothing is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriteMode {
    /// Nothing.
    #[default]
    Upsert,
    /// No row with the key exists yet (insert-if-absent).
    Insert,
    /// A row with the key exists.
    Update,
}

/// Rows of one table as columns of equal length.
#[derive(Debug, Clone)]
pub struct Upsert {
    /// The table.
    pub table: TableId,
    /// What is demanded of the keys.
    pub mode: WriteMode,
    /// The columns written: all key columns, and any others.
    pub columns: Vec<CellColumn>,
}

/// The cells of one column. A slot valid in `values` is a value; an invalid slot is NULL where
/// `null_cells` says so, and else absent: the write does not speak of the cell.
#[derive(Debug, Clone)]
pub struct CellColumn {
    /// The column.
    pub column: ColumnId,
    /// Its values, of [`crate::ColumnType::data_type`].
    pub values: ArrayRef,
    /// Which invalid slots set NULL; none when missing.
    pub null_cells: Option<BooleanBuffer>,
}

/// Deletes rows by selection and predicate.
#[derive(Debug, Clone)]
pub struct Delete {
    /// The table.
    pub table: TableId,
    /// Which keys.
    pub rows: RowSelection,
    /// Which of them: all must hold. Empty: all.
    pub predicates: Vec<Predicate>,
}

/// Sets columns of rows by selection and predicate.
#[derive(Debug, Clone)]
pub struct Update {
    /// The table.
    pub table: TableId,
    /// Which keys.
    pub rows: RowSelection,
    /// Which of them: all must hold. Empty: all.
    pub predicates: Vec<Predicate>,
    /// What to set; `None` is NULL.
    pub assignments: Vec<(ColumnId, Option<Value>)>,
}

impl Upsert {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.values.len())
    }

    /// The cells of a column, if written.
    pub fn column(&self, id: ColumnId) -> Option<&CellColumn> {
        self.columns.iter().find(|column| column.column == id)
    }

    fn column_written_twice(&self) -> Option<ColumnId> {
        // As columns stand in most upserts.
        if self.columns.is_sorted_by(|a, b| a.column < b.column) {
            return None;
        }
        let mut ids: Vec<ColumnId> = self.columns.iter().map(|cells| cells.column).collect();
        ids.sort_unstable();
        ids.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
    }

    /// Checks the shape against the schema: known columns once each, right types, equal lengths, whole
    /// keys, no NULL where none may be.
    pub fn validate(&self, schema: &TableSchema) -> Result<()> {
        let (rows, twice) = (self.rows(), self.column_written_twice());
        for cells in &self.columns {
            let column = schema.column(cells.column).ok_or_else(|| {
                Error::missing(format!("table {} has no column {}", schema.shown_name(), cells.column))
            })?;
            let fail = |words: &str| {
                Err(Error::invalid(format!(
                    "table {}, column {:?}: {words}",
                    schema.shown_name(),
                    column.name
                )))
            };
            if twice == Some(cells.column) {
                return fail("written twice by one upsert");
            }
            if cells.values.data_type() != &column.column_type.data_type() {
                return fail(&format!("is {:?}, not {}", column.column_type, cells.values.data_type()));
            }
            let null_cells = cells.null_cells.as_ref();
            if cells.values.len() != rows || null_cells.is_some_and(|nulls| nulls.len() != rows) {
                return fail("differs in length from the others");
            }
            if schema.is_key(cells.column) && cells.values.null_count() > 0 {
                return fail("is part of the key and cannot be NULL or absent");
            }
            if !column.nullable && null_cells.is_some_and(|nulls| nulls.count_set_bits() > 0) {
                return fail("cannot be NULL");
            }
        }
        match schema.key.iter().find(|id| self.column(**id).is_none()) {
            Some(id) => {
                let table = schema.shown_name();
                Err(Error::invalid(format!("table {table}: key column {id} is missing")))
            }
            None => Ok(()),
        }
    }

    /// Refuses rows of a series-keyed table at a time that no range of times holds.
    pub fn check_times(&self, schema: &TableSchema) -> Result<()> {
        let times = schema.is_series_keyed().then(|| self.column(schema.key[1])).flatten();
        let times = times.and_then(|cells| cells.values.as_primitive_opt::<TimestampNanosecondType>());
        match times {
            Some(times) if times.values().contains(&i64::MAX) => Err(Error::invalid(format!(
                "table {:?}: the time {} is beyond the last one, {MAX_TIME_NS}",
                schema.name,
                i64::MAX
            ))),
            _ => Ok(()),
        }
    }
}

impl Update {
    /// Checks that only nullable columns outside the key are set, with values of their types.
    pub fn validate(&self, schema: &TableSchema) -> Result<()> {
        for (id, value) in &self.assignments {
            let column = schema
                .column(*id)
                .ok_or_else(|| Error::missing(format!("table {} has no column {id}", schema.shown_name())))?;
            let fail = |words: &str| {
                Err(Error::invalid(format!(
                    "table {}, column {:?}: {words}",
                    schema.shown_name(),
                    column.name
                )))
            };
            match value {
                _ if schema.is_key(*id) => return fail("is part of the key and cannot be changed"),
                None if !column.nullable => return fail("cannot be NULL"),
                Some(value) => drop(array_of_values(column.column_type, &[Some(value)])?),
                None => {}
            }
        }
        Ok(())
    }
}
