//! What a table asks of its rows: defaults for what a new row leaves out, columns without NULL, checks.

use super::assign::{assigned, check_sizes, of_values};
use super::columns::{TableColumns, data_type};
use super::entries::RowIndex;
use super::input::Surroundings;
use super::output;
use super::shown_as;
use crate::error::{BrokenRule, SqlError, SqlResult, SqlState};
use crate::expression::{compiled, evaluated, parsed, planned};
use crate::identifier::schema_of;
use crate::number_source::{NumberSource, name_permanent, sequence_of_column};
use crate::relation::literal::{datum, is_literal};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, RecordBatchOptions};
use arrow_schema::Schema;
use datafusion::common::DFSchema;
use datafusion::execution::SessionState;
use datafusion::physical_expr::PhysicalExpr;
use nyala_core::arrays::value_at;
use nyala_core::store::Capabilities;
use nyala_core::{ColumnId, Value};
use nyala_db::relations::{Relation, TEMPORARY, TableDefinition};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most bytes of a value that a message shows.
const SHOWN_BYTES: usize = 64;

/// What a table asks of its rows.
pub(crate) struct Rules {
    schema: &'static str,
    table: String,
    columns: Arc<TableColumns>,
    /// The columns by which rows are found, in the key or in an index.
    found_by: HashSet<ColumnId>,
    /// Per column what a new row gets if it names no value.
    defaults: Vec<DefaultValue>,
    checks: Vec<(String, Arc<dyn PhysicalExpr>)>,
    around: Surroundings,
    capabilities: Capabilities,
    numbers: Option<NumberSource>,
    /// What was taken from it for columns, and no row has yet.
    taken: Mutex<HashMap<usize, VecDeque<i64>>>,
}

enum DefaultValue {
    Constant(Option<Value>),
    /// It is computed for each row.
    Computed(Arc<dyn PhysicalExpr>),
    /// It is the next number of a sequence.
    Number(Arc<Relation>),
}

/// Where rows of a table get the numbers of its sequences.
pub(crate) struct Numbering<'a> {
    pub(crate) source: NumberSource,
    /// The database of the table.
    pub(crate) database: &'a str,
}

/// Whether rules of a table need plans of expressions.
pub(crate) fn need_plans(table: &TableDefinition) -> bool {
    let is_computed = |text: &String| parsed(text).map_or(true, |expression| !is_literal(&expression));
    let computed = table.columns.iter().filter(|own| sequence_of_column(own).is_none());
    !table.checks.is_empty() || computed.filter_map(|own| own.default.as_ref()).any(is_computed)
}

impl Rules {
    /// The rules of a table. `columns` are all its columns. `state` is there if they need plans.
    pub(crate) fn of(
        name: &str,
        table: &TableDefinition,
        columns: Arc<TableColumns>,
        state: Option<&SessionState>,
        around: Surroundings,
        capabilities: Capabilities,
        numbering: Option<Numbering<'_>>,
    ) -> SqlResult<Self> {
        let no_state = || SqlError::new(SqlState::INTERNAL, "an expression is planned without a planner");
        let is_permanent = numbering.as_ref().is_some_and(|own| own.database != TEMPORARY);
        let mut defaults = Vec::with_capacity(columns.columns.len());
        for own in &table.columns {
            if let Some(sequence) = sequence_of_column(own) {
                defaults.push(match &numbering {
                    Some(own) => DefaultValue::Number(own.source.find(own.database, &sequence)?),
                    None => DefaultValue::Constant(None),
                });
                continue;
            }
            let Some(text) = &own.default else {
                defaults.push(DefaultValue::Constant(None));
                continue;
            };
            let mut written = parsed(text)?;
            if is_permanent {
                name_permanent(&mut written);
            }
            defaults.push(if is_literal(&written) {
                let value = datum(&written, &[], &around)?;
                DefaultValue::Constant(value.stored(&own.name, own.declared_type, &around)?)
            } else {
                let (state, empty) = (state.ok_or_else(no_state)?, DFSchema::empty());
                DefaultValue::Computed(compiled(state, planned(state, &written, &empty)?, &empty, &[])?)
            });
        }
        let mut checks = Vec::with_capacity(table.checks.len());
        if !table.checks.is_empty() {
            let state = state.ok_or_else(no_state)?;
            let schema = DFSchema::try_from_qualified_schema(name, &columns.schema)?;
            for check in &table.checks {
                let planned = planned(state, &parsed(&check.expression)?, &schema)?;
                checks.push((check.name.clone(), compiled(state, planned, &schema, &[])?));
            }
        }
        // The hidden key gets its numbers elsewhere.
        defaults.resize_with(columns.columns.len(), || DefaultValue::Constant(None));
        let indexed = table.indexes.iter().flat_map(|index| &index.columns);
        let found_by = columns.key.iter().chain(indexed).copied().collect();
        let schema = schema_of(numbering.as_ref().map_or("", |own| own.database));
        let (table, numbers) = (name.to_owned(), numbering.map(|own| own.source));
        let taken = Mutex::default();
        Ok(Self { schema, table, columns, found_by, defaults, checks, around, capabilities, numbers, taken })
    }

    /// The columns that they are about.
    pub(crate) fn columns(&self) -> &Arc<TableColumns> {
        &self.columns
    }

    /// What the meaning of texts depends on.
    pub(crate) fn around(&self) -> &Surroundings {
        &self.around
    }

    /// Whether a new row gets something for a column that it does not name.
    pub(crate) fn has_default(&self, position: usize) -> bool {
        !matches!(self.defaults[position], DefaultValue::Constant(None))
    }

    /// Takes numbers of sequences for new rows: as many for a column as is asked for.
    pub(crate) async fn take_numbers(&self, wanted: impl Fn(usize) -> usize) -> SqlResult<()> {
        for (position, default) in self.defaults.iter().enumerate() {
            if let (DefaultValue::Number(sequence), Some(source)) = (default, &self.numbers) {
                let count = wanted(position);
                if count > 0 {
                    let numbers = source.take(sequence, count).await?;
                    self.taken().entry(position).or_default().extend(numbers);
                }
            }
        }
        Ok(())
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<usize, VecDeque<i64>>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What new rows get for a column that they do not name.
    pub(crate) fn default(&self, position: usize, rows: usize) -> SqlResult<ArrayRef> {
        let column = self.columns.columns[position];
        match &self.defaults[position] {
            DefaultValue::Constant(value) => of_values(column.declared_type, &vec![value.clone(); rows]),
            DefaultValue::Number(sequence) => {
                let mut taken = self.taken();
                let taken = taken.entry(position).or_default();
                if taken.len() < rows {
                    let words = format!("no number of sequence \"{}\" was taken for a row", sequence.name);
                    return Err(SqlError::new(SqlState::INTERNAL, words));
                }
                let numbers: ArrayRef = Arc::new(taken.drain(..rows).collect::<Int64Array>());
                assigned(&numbers, false, self.columns.name(position), column.declared_type, &self.around)
            }
            DefaultValue::Computed(expression) => {
                let options = RecordBatchOptions::new().with_row_count(Some(rows));
                let none = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options);
                let values = evaluated(expression, &none.map_err(internal)?)?;
                assigned(&values, true, self.columns.name(position), column.declared_type, &self.around)
            }
        }
    }

    /// The value of a constant default.
    pub(crate) fn constant(&self, position: usize) -> Option<&Option<Value>> {
        match &self.defaults[position] {
            DefaultValue::Constant(value) => Some(value),
            DefaultValue::Computed(_) | DefaultValue::Number(_) => None,
        }
    }

    /// Checks whole rows, whose columns are as the store has them.
    pub(crate) fn check(&self, rows: &[ArrayRef]) -> SqlResult<()> {
        for (position, values) in rows.iter().enumerate() {
            let (column, name) = (self.columns.columns[position], self.columns.name(position));
            let is_key = self.columns.key.contains(&column.id);
            if (!column.nullable || is_key) && values.null_count() > 0 {
                let row = (0..values.len()).find(|row| values.is_null(*row)).unwrap_or(0);
                let table = &self.table;
                let words = format!(
                    "null value in column \"{name}\" of relation \"{table}\" violates not-null constraint"
                );
                return Err(SqlError::new(SqlState::NOT_NULL_VIOLATION, words)
                    .with_detail(format!("Failing row contains ({}).", self.shown(rows, row)))
                    .with_rule(BrokenRule::of_column(self.schema, table, name))
                    .of_row(row));
            }
            check_sizes(values, name, self.found_by.contains(&column.id), &self.capabilities)?;
        }
        if self.checks.is_empty() {
            return Ok(());
        }
        let batch = self.batch(rows)?;
        for (name, check) in &self.checks {
            let holds = evaluated(check, &batch)?;
            let Some(holds) = holds.as_boolean_opt() else { continue };
            // What is unknown is not false.
            let failing = (0..holds.len()).find(|row| holds.is_valid(*row) && !holds.value(*row));
            if let Some(row) = failing {
                let table = &self.table;
                let words = format!("new row for relation \"{table}\" violates check constraint \"{name}\"");
                return Err(SqlError::new(SqlState::CHECK_VIOLATION, words)
                    .with_detail(format!("Failing row contains ({}).", self.shown(rows, row)))
                    .with_rule(BrokenRule::of_constraint(self.schema, table, name))
                    .of_row(row));
            }
        }
        Ok(())
    }

    /// Checks columns of rows of a table without checks.
    pub(crate) fn check_some(&self, cells: &[(usize, ArrayRef)]) -> SqlResult<()> {
        for (position, values) in cells {
            let (column, name) = (self.columns.columns[*position], self.columns.name(*position));
            if !column.nullable && values.null_count() > 0 {
                let table = &self.table;
                let words = format!(
                    "null value in column \"{name}\" of relation \"{table}\" violates not-null constraint"
                );
                let rule = BrokenRule::of_column(self.schema, table, name);
                return Err(SqlError::new(SqlState::NOT_NULL_VIOLATION, words).with_rule(rule));
            }
            check_sizes(values, name, false, &self.capabilities)?;
        }
        Ok(())
    }

    /// Rows of the store as rows of plans.
    fn batch(&self, rows: &[ArrayRef]) -> SqlResult<RecordBatch> {
        batch_of(&self.columns, rows)
    }

    /// A row as messages show it.
    fn shown(&self, rows: &[ArrayRef], row: usize) -> String {
        let columns = rows.iter().zip(&self.columns.columns).zip(self.columns.schema.fields());
        let shown = columns.filter(|(_, field)| field.name() != super::columns::ROW_ID);
        let values = shown.map(|((values, column), _)| {
            clipped(output::value(value_at(values, row).as_ref(), column.declared_type, self.around.zone))
        });
        values.collect::<Vec<_>>().join(", ")
    }

    /// The error of a row whose values another one has that must differ.
    pub(crate) fn duplicate(&self, of: &RowIndex<'_>, rows: &[ArrayRef], row: usize) -> SqlError {
        let words = format!("duplicate key value violates unique constraint \"{}\"", of.name);
        let detail = format!("Key {} already exists.", self.shown_key(of, rows, row));
        let rule = BrokenRule::of_constraint(self.schema, &self.table, of.name);
        SqlError::new(SqlState::UNIQUE_VIOLATION, words).with_detail(detail).with_rule(rule).of_row(row)
    }

    /// What a row is found by, as messages show it: `(a, b)=(1, x)`.
    pub(crate) fn shown_key(&self, of: &RowIndex<'_>, rows: &[ArrayRef], row: usize) -> String {
        let names: Vec<&str> = of.columns.iter().map(|position| self.columns.name(*position)).collect();
        let value = |position: &usize| {
            let declared_type = self.columns.columns[*position].declared_type;
            output::value(value_at(&rows[*position], row).as_ref(), declared_type, self.around.zone)
        };
        let values: Vec<String> = of.columns.iter().map(value).collect();
        format!("({})=({})", names.join(", "), values.join(", "))
    }
}

/// The beginning of a text that is long, as PostgreSQL shows it.
fn clipped(mut text: String) -> String {
    if text.len() > SHOWN_BYTES {
        let end = (0..=SHOWN_BYTES).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push_str("...");
    }
    text
}

/// Rows of the store as rows of plans.
pub(crate) fn batch_of(columns: &TableColumns, rows: &[ArrayRef]) -> SqlResult<RecordBatch> {
    let shown = rows.iter().zip(&columns.columns);
    let shown: Vec<ArrayRef> = shown
        .map(|(values, column)| shown_as(values, &data_type(column.declared_type)))
        .collect::<Result<_, _>>()?;
    // Rows that are checked may have NULL where their table does not.
    let fields = columns.schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let count = rows.first().map_or(0, |values| values.len());
    let options = RecordBatchOptions::new().with_row_count(Some(count));
    RecordBatch::try_new_with_options(schema, shown, &options).map_err(internal)
}

fn internal(error: arrow_schema::ArrowError) -> SqlError {
    datafusion::error::DataFusionError::from(error).into()
}
