//! What is written: batches of upserts and deletes by key, and changes by condition.

use super::predicate::Predicate;
use super::scan::RowSelection;
use crate::arrays::{array_of_values, value_at};
use crate::error::{Error, Result};
use crate::ids::{ColumnId, Sequence, TableId};
use crate::schema::{ColumnSchema, TableSchema};
use crate::time::MAX_TIME_NS;
use crate::value::Value;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::BooleanBuffer;

/// Operations that become durable and visible together.
#[derive(Debug, Clone, Default)]
pub struct WriteBatch {
    /// In order: if two operations write one cell, the later one wins.
    pub operations: Vec<Operation>,
}

/// One operation of a batch.
#[derive(Debug, Clone)]
pub enum Operation {
    /// Writes rows.
    Upsert(Upsert),
    /// Deletes the rows with these keys.
    DeleteKeys {
        /// The table.
        table: TableId,
        /// The condition on the keys.
        mode: DeleteMode,
        /// The keys: one array per key column, in key order, with the columns' types, equal lengths and no NULL.
        keys: Vec<ArrayRef>,
    },
}

/// The condition on the keys of written rows. Rows are checked one after the other, so each row sees what earlier rows
/// of the batch did to its key. If a condition does not hold, the batch is rejected as a conflict and nothing is
/// stored. In the "ignore" modes only the row is left out and listed in [`WriteOutcome::conflicts`]. A store whose
/// batches are not atomic leaves such rows out in both kinds of modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriteMode {
    /// No condition.
    #[default]
    Upsert,
    /// No row with the key exists.
    Insert,
    /// No row with the key exists; rows that exist keep their cells.
    InsertIgnore,
    /// A row with the key exists.
    Update,
    /// A row with the key exists; rows that do not exist are not created.
    UpdateIgnore,
}

/// The condition on the keys of deleted rows; see [`WriteMode`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeleteMode {
    /// No condition. The store does not check which rows exist: all keys count as deleted.
    #[default]
    Blind,
    /// A row with the key exists.
    Delete,
    /// A row with the key exists; keys without a row are ignored.
    DeleteIgnore,
}

/// The outcome of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteOutcome {
    /// A snapshot of this sequence or a later one shows the batch. For a staged batch, the sequence of its stage.
    pub sequence: Sequence,
    /// The number of rows written and deleted. A blind deletion counts keys.
    pub affected: u64,
    /// Rows left out because the condition of their mode did not hold, in order.
    pub conflicts: Vec<RowPosition>,
}

/// A row of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowPosition {
    /// The index of the operation.
    pub operation: usize,
    /// The index of the row in the operation.
    pub row: usize,
}

/// Whether a key must have a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyCondition {
    /// The key must have no row.
    Absent,
    /// The key must have a row.
    Present,
}

impl WriteMode {
    /// The condition on keys, if any.
    pub fn condition(self) -> Option<KeyCondition> {
        match self {
            WriteMode::Upsert => None,
            WriteMode::Insert | WriteMode::InsertIgnore => Some(KeyCondition::Absent),
            WriteMode::Update | WriteMode::UpdateIgnore => Some(KeyCondition::Present),
        }
    }

    /// Whether rows are left out when the condition does not hold, instead of rejecting the batch.
    pub fn ignores(self) -> bool {
        matches!(self, WriteMode::InsertIgnore | WriteMode::UpdateIgnore)
    }

    /// Whether the mode can create rows.
    pub fn makes_rows(self) -> bool {
        !matches!(self, WriteMode::Update | WriteMode::UpdateIgnore)
    }
}

impl DeleteMode {
    /// The condition on keys, if any.
    pub fn condition(self) -> Option<KeyCondition> {
        (self != DeleteMode::Blind).then_some(KeyCondition::Present)
    }
}

impl Operation {
    /// Its table.
    pub fn table(&self) -> TableId {
        match self {
            Operation::Upsert(upsert) => upsert.table,
            Operation::DeleteKeys { table, .. } => *table,
        }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        match self {
            Operation::Upsert(upsert) => upsert.rows(),
            Operation::DeleteKeys { keys, .. } => keys.first().map_or(0, |array| array.len()),
        }
    }

    /// The condition on its keys, if any.
    pub fn condition(&self) -> Option<KeyCondition> {
        match self {
            Operation::Upsert(upsert) => upsert.mode.condition(),
            Operation::DeleteKeys { mode, .. } => mode.condition(),
        }
    }

    /// Whether rows are left out when the condition does not hold, instead of rejecting the batch.
    pub fn ignores(&self) -> bool {
        match self {
            Operation::Upsert(upsert) => upsert.mode.ignores(),
            Operation::DeleteKeys { mode, .. } => *mode == DeleteMode::DeleteIgnore,
        }
    }

    /// Checks the operation against the schema of its table; see [`Upsert::validate`].
    pub fn validate(&self, schema: &TableSchema) -> Result<()> {
        match self {
            Operation::Upsert(upsert) => {
                upsert.validate(schema)?;
                upsert.check_times(schema)
            }
            Operation::DeleteKeys { keys, .. } => validate_keys(schema, keys),
        }
    }

    /// Some consecutive rows of the operation.
    #[must_use]
    pub fn slice(&self, begin: usize, count: usize) -> Self {
        match self {
            Operation::Upsert(upsert) => {
                let cells = |cells: &CellColumn| CellColumn {
                    column: cells.column,
                    values: cells.values.slice(begin, count),
                    null_cells: cells.null_cells.as_ref().map(|nulls| nulls.slice(begin, count)),
                };
                let columns = upsert.columns.iter().map(cells).collect();
                Operation::Upsert(Upsert { columns, ..*upsert })
            }
            Operation::DeleteKeys { table, mode, keys } => Operation::DeleteKeys {
                table: *table,
                mode: *mode,
                keys: keys.iter().map(|array| array.slice(begin, count)).collect(),
            },
        }
    }
}

/// Rows of one table as columns of equal length.
#[derive(Debug, Clone)]
pub struct Upsert {
    /// The table.
    pub table: TableId,
    /// The condition on the keys.
    pub mode: WriteMode,
    /// The written columns: all key columns, and any others.
    pub columns: Vec<CellColumn>,
}

/// The cells of one column. A valid slot of `values` is a value. A slot that is not valid is NULL if `null_cells` is
/// set there; otherwise the cell is absent, and the write leaves it as it is.
#[derive(Debug, Clone)]
pub struct CellColumn {
    /// The column.
    pub column: ColumnId,
    /// Its values, of [`crate::ColumnType::data_type`].
    pub values: ArrayRef,
    /// Slots without a value that set NULL; if missing, none do. It is not set for valid slots.
    pub null_cells: Option<BooleanBuffer>,
}

impl CellColumn {
    /// A column in which every row has a cell: NULL where there is no value.
    pub fn whole(column: ColumnId, values: ArrayRef) -> Self {
        let nulls = values.nulls().filter(|nulls| nulls.null_count() > 0);
        let null_cells = nulls.map(|valid| !valid.inner());
        Self { column, values, null_cells }
    }
}

/// Deletes rows by selection and predicates. Both are checked as in a scan.
#[derive(Debug, Clone)]
pub struct Delete {
    /// The table.
    pub table: TableId,
    /// Which keys to delete.
    pub rows: RowSelection,
    /// Conditions that must all hold for a row.
    pub predicates: Vec<Predicate>,
}

/// Sets columns of rows by selection and predicates. Both are checked as in a scan.
#[derive(Debug, Clone)]
pub struct Update {
    /// The table.
    pub table: TableId,
    /// Which keys to update.
    pub rows: RowSelection,
    /// Conditions that must all hold for a row.
    pub predicates: Vec<Predicate>,
    /// The values to set; `None` is NULL. If a column is assigned twice, the last value counts.
    pub assignments: Vec<(ColumnId, Option<Value>)>,
}

/// Checks keys to delete: they have all key columns with the right types.
pub fn validate_keys(schema: &TableSchema, keys: &[ArrayRef]) -> Result<()> {
    let name = || schema.shown_name();
    let fail = |words: &str| Err(Error::invalid(format!("table {}: keys to delete {words}", name())));
    if keys.len() != schema.key.len() {
        return fail("do not have the key's columns");
    }
    for (id, array) in schema.key.iter().zip(keys) {
        let column_type = schema.column(*id).expect("schemas are validated").column_type;
        if array.data_type() != &column_type.data_type() {
            return fail("have the wrong types");
        }
        if array.len() != keys[0].len() || array.null_count() > 0 {
            return fail("differ in length or contain NULL");
        }
    }
    Ok(())
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
        // Most upserts have their columns in this order.
        if self.columns.is_sorted_by(|a, b| a.column < b.column) {
            return None;
        }
        let mut ids: Vec<ColumnId> = self.columns.iter().map(|cells| cells.column).collect();
        ids.sort_unstable();
        ids.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
    }

    /// Whether some cells of a column are absent.
    fn lacks(&self, id: ColumnId) -> bool {
        self.column(id).is_none_or(|cells| {
            let nulls = cells.null_cells.as_ref().map_or(0, BooleanBuffer::count_set_bits);
            nulls < cells.values.null_count()
        })
    }

    /// Whether the result depends on which keys have rows: because of the mode, or because new rows get defaults.
    pub fn depends_on_rows(&self, schema: &TableSchema) -> bool {
        self.mode.condition().is_some()
            || schema.columns_of_new_rows().any(|column| column.default.is_some() && self.lacks(column.id))
    }

    /// Fills absent cells of new rows with the columns' defaults.
    pub fn with_defaults(
        mut self,
        schema: &TableSchema,
        comes_into_being: impl Fn(usize) -> bool,
    ) -> Result<Self> {
        let rows = self.rows();
        let lacking = schema.columns_of_new_rows().filter(|column| self.lacks(column.id));
        let lacking: Vec<_> = lacking.filter_map(|column| Some((column, column.default.as_ref()?))).collect();
        for (column, default) in lacking {
            let place = self.columns.iter().position(|cells| cells.column == column.id);
            let written = place.map(|place| self.columns.remove(place));
            let is_null = |row: usize| {
                let nulls = written.as_ref().and_then(|cells| cells.null_cells.as_ref());
                nulls.is_some_and(|nulls| nulls.value(row))
            };
            let value = |row: usize| {
                let value = written.as_ref().and_then(|cells| value_at(&cells.values, row));
                value.or_else(|| (!is_null(row) && comes_into_being(row)).then(|| default.clone()))
            };
            let values: Vec<_> = (0..rows).map(value).collect();
            let values =
                array_of_values(column.column_type, &values.iter().map(Option::as_ref).collect::<Vec<_>>())?;
            let null_cells = written.and_then(|cells| cells.null_cells);
            self.columns.push(CellColumn { column: column.id, values, null_cells });
        }
        Ok(self)
    }

    /// Checks the rows against the schema: their shape, no NULL in columns that are not nullable, and no missing column
    /// that a new row must have.
    pub fn validate(&self, schema: &TableSchema) -> Result<()> {
        self.validate_shape(schema)?;
        let fail = |column: &ColumnSchema, words: &str| {
            Err(Error::invalid(format!("table {}, column {:?}: {words}", schema.shown_name(), column.name)))
        };
        for column in schema.columns_of_new_rows().filter(|column| !column.nullable) {
            let null_cells = self.column(column.id).and_then(|cells| cells.null_cells.as_ref());
            if null_cells.is_some_and(|nulls| nulls.count_set_bits() > 0) {
                return fail(column, "cannot be NULL");
            }
            if column.default.is_none() && self.mode.makes_rows() && self.lacks(column.id) {
                return fail(column, "cannot be left out of a new row, as it has no default");
            }
        }
        Ok(())
    }

    /// Checks the shape against the schema: each column is known and named once, types are right, lengths are equal,
    /// keys are complete.
    pub fn validate_shape(&self, schema: &TableSchema) -> Result<()> {
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
        }
        match schema.key.iter().find(|id| self.column(**id).is_none()) {
            Some(id) => {
                let table = schema.shown_name();
                Err(Error::invalid(format!("table {table}: key column {id} is missing")))
            }
            None => Ok(()),
        }
    }

    /// Rejects rows of a table of series at `i64::MAX`, which no partition contains.
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
    /// The upsert that sets this update's assignments in rows with the given keys; `keys` has one array per key column.
    /// The update must be valid.
    pub fn of_keys(
        &self,
        schema: &TableSchema,
        keys: impl IntoIterator<Item = ArrayRef>,
        rows: usize,
        mode: WriteMode,
    ) -> Result<Upsert> {
        let cells = |column, values, null_cells| CellColumn { column, values, null_cells };
        let keys = schema.key.iter().zip(keys);
        let mut columns: Vec<_> = keys.map(|(column, values)| cells(*column, values, None)).collect();
        for (column, value) in &self.assignments {
            let column_type = schema.column(*column).expect("updates are validated").column_type;
            let values = array_of_values(column_type, &vec![value.as_ref(); rows])?;
            let null_cells = value.is_none().then(|| BooleanBuffer::new_set(rows));
            // If a column is assigned twice, the last value counts.
            columns.retain(|cells| cells.column != *column);
            columns.push(cells(*column, values, null_cells));
        }
        Ok(Upsert { table: self.table, mode, columns })
    }

    /// Checks that only columns outside the key are set, to values of their types, and to NULL only if they are
    /// nullable.
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
