//! What is written: batches of upserts and deletes by key, and changes by predicate.

use super::convert::{array_of_values, value_at};
use super::predicate::Predicate;
use super::scan::RowSelection;
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
    /// In order: of two that touch one cell the later wins.
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
        /// What is demanded of the keys.
        mode: DeleteMode,
        /// The keys: an array per key column, in the order of the key, of their types and one length, without NULL.
        keys: Vec<ArrayRef>,
    },
}

/// What is demanded of the keys of rows that are written, one after the other: a row meets what those before it made of
/// its key. Where a demand does not hold the batch is refused as a conflict and nothing is stored, unless the mode says
/// ignore: then the row is left out and counted among [`WriteOutcome::conflicts`]. A store whose batches are not atomic
/// leaves such rows out in either mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriteMode {
    /// Nothing.
    #[default]
    Upsert,
    /// No row with the key exists yet.
    Insert,
    /// The same; rows that exist stay as they are.
    InsertIgnore,
    /// A row with the key exists.
    Update,
    /// The same; rows that do not exist are not made.
    UpdateIgnore,
}

/// What is demanded of keys that are deleted; see [`WriteMode`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeleteMode {
    /// Nothing, and nobody asks which of them were there: all count as deleted.
    #[default]
    Blind,
    /// A row with the key exists.
    Delete,
    /// The same; keys without a row are left out.
    DeleteIgnore,
}

/// What became of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteOutcome {
    /// Snapshots that are at least as new show it; of what is only staged, that of its stage.
    pub sequence: Sequence,
    /// Rows written and deleted; of a blind deletion keys.
    pub affected: u64,
    /// Rows left out because their keys did not meet the demand of their mode, in order.
    pub conflicts: Vec<RowPlace>,
}

/// A row of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowPlace {
    /// The number of the operation.
    pub operation: usize,
    /// The number of the row in it.
    pub row: usize,
}

/// Whether a key must have a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    /// It must not.
    Absent,
    /// It must.
    Present,
}

impl WriteMode {
    /// What is demanded of keys, if anything.
    pub fn demand(self) -> Option<Demand> {
        match self {
            WriteMode::Upsert => None,
            WriteMode::Insert | WriteMode::InsertIgnore => Some(Demand::Absent),
            WriteMode::Update | WriteMode::UpdateIgnore => Some(Demand::Present),
        }
    }

    /// Whether rows that do not meet the demand are left out, and not the whole batch.
    pub fn ignores(self) -> bool {
        matches!(self, WriteMode::InsertIgnore | WriteMode::UpdateIgnore)
    }

    /// Whether it may bring rows into being.
    pub fn makes_rows(self) -> bool {
        !matches!(self, WriteMode::Update | WriteMode::UpdateIgnore)
    }
}

impl DeleteMode {
    /// What is demanded of keys, if anything.
    pub fn demand(self) -> Option<Demand> {
        (self != DeleteMode::Blind).then_some(Demand::Present)
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

    /// What is demanded of its keys, if anything.
    pub fn demand(&self) -> Option<Demand> {
        match self {
            Operation::Upsert(upsert) => upsert.mode.demand(),
            Operation::DeleteKeys { mode, .. } => mode.demand(),
        }
    }

    /// Whether rows that do not meet the demand are left out, and not the whole batch.
    pub fn ignores(&self) -> bool {
        match self {
            Operation::Upsert(upsert) => upsert.mode.ignores(),
            Operation::DeleteKeys { mode, .. } => *mode == DeleteMode::DeleteIgnore,
        }
    }

    /// Checks the shape against the schema of its table; see [`Upsert::validate`].
    pub fn validate(&self, schema: &TableSchema) -> Result<()> {
        match self {
            Operation::Upsert(upsert) => {
                upsert.validate(schema)?;
                upsert.check_times(schema)
            }
            Operation::DeleteKeys { keys, .. } => validate_keys(schema, keys),
        }
    }

    /// Some consecutive rows of it.
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
    /// Which invalid slots set NULL; none when missing. Those of valid slots are not set.
    pub null_cells: Option<BooleanBuffer>,
}

/// Deletes rows by selection and predicate, which are checked as those of a scan.
#[derive(Debug, Clone)]
pub struct Delete {
    /// The table.
    pub table: TableId,
    /// Which keys.
    pub rows: RowSelection,
    /// Which of them: all must hold. Empty: all.
    pub predicates: Vec<Predicate>,
}

/// Sets columns of rows by selection and predicate, which are checked as those of a scan.
#[derive(Debug, Clone)]
pub struct Update {
    /// The table.
    pub table: TableId,
    /// Which keys.
    pub rows: RowSelection,
    /// Which of them: all must hold. Empty: all.
    pub predicates: Vec<Predicate>,
    /// What to set; `None` is NULL. Of several assignments to one column the last counts.
    pub assignments: Vec<(ColumnId, Option<Value>)>,
}

/// Checks keys that are deleted: whole ones, of the key's types.
pub fn validate_keys(schema: &TableSchema, keys: &[ArrayRef]) -> Result<()> {
    let name = || schema.shown_name();
    let fail = |words: &str| Err(Error::invalid(format!("table {}: keys to delete {words}", name())));
    if keys.len() != schema.key.len() {
        return fail("do not have the key's columns");
    }
    for (id, array) in schema.key.iter().zip(keys) {
        let column_type = schema.column(*id).expect("schemas are validated").column_type;
        if array.data_type() != &column_type.data_type() {
            return fail("have other types");
        }
        if array.len() != keys[0].len() || array.null_count() > 0 {
            return fail("are not whole");
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
        // As columns stand in most upserts.
        if self.columns.is_sorted_by(|a, b| a.column < b.column) {
            return None;
        }
        let mut ids: Vec<ColumnId> = self.columns.iter().map(|cells| cells.column).collect();
        ids.sort_unstable();
        ids.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
    }

    /// Whether cells of a column are absent.
    fn lacks(&self, id: ColumnId) -> bool {
        self.column(id).is_none_or(|cells| {
            let nulls = cells.null_cells.as_ref().map_or(0, BooleanBuffer::count_set_bits);
            nulls < cells.values.null_count()
        })
    }

    /// Whether what is stored depends on which of its keys have rows: on those that have none its defaults apply.
    pub fn depends_on_rows(&self, schema: &TableSchema) -> bool {
        self.mode.demand().is_some()
            || schema.demanding_columns().any(|column| column.default.is_some() && self.lacks(column.id))
    }

    /// The same with the defaults of what is absent in the rows that come into being.
    pub fn with_defaults(
        mut self,
        schema: &TableSchema,
        comes_into_being: impl Fn(usize) -> bool,
    ) -> Result<Self> {
        let rows = self.rows();
        let lacking = schema.demanding_columns().filter(|column| self.lacks(column.id));
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

    /// Checks the rows against the schema: their shape, no NULL where none may be, what every row has to have.
    pub fn validate(&self, schema: &TableSchema) -> Result<()> {
        self.validate_shape(schema)?;
        let fail = |column: &ColumnSchema, words: &str| {
            Err(Error::invalid(format!("table {}, column {:?}: {words}", schema.shown_name(), column.name)))
        };
        for column in schema.demanding_columns().filter(|column| !column.nullable) {
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

    /// Checks the shape against the schema: known columns once each, right types, equal lengths, whole keys.
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
    /// The rows of some keys, an array per key column, with what a validated update sets.
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
            // Of several assignments to one column the last counts.
            columns.retain(|cells| cells.column != *column);
            columns.push(cells(*column, values, null_cells));
        }
        Ok(Upsert { table: self.table, mode, columns })
    }

    /// Checks that only columns outside the key are set, with values of their types, to NULL only those that may be.
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
