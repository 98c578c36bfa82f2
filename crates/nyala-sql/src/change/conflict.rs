//! `ON CONFLICT DO UPDATE`, and `UPSERT` of a part of the columns: the new row meets the row that is there.

use super::existing::{existing, key_of, some_rows};
use super::prepare::Preparing;
use super::work::Work;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::expression::{compiled, evaluated, planned};
use crate::literal::parameter;
use crate::relation::assign::assigned;
use crate::relation::columns::data_type;
use crate::relation::rules::batch_of;
use crate::target::{folded, last_part};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::Schema;
use datafusion::arrow::compute::{cast, take};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::sql::sqlparser::ast::{self, Assignment, AssignmentTarget, DoUpdate};
use nyala_core::store::{WriteBatch, WriteMode};
use nyala_core::{ErrorKind, Value};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The name of the new row in expressions.
const EXCLUDED: &str = "excluded";

/// What DO UPDATE does.
#[derive(Debug)]
pub(super) struct ConflictUpdate {
    /// The columns of the row that is there, and those of the new one behind them.
    rows: DFSchema,
    assignments: Vec<(usize, Expr, bool)>,
    selection: Option<Expr>,
}

/// The same, with the values of parameters.
pub(super) struct CompiledUpdate {
    assignments: Vec<(usize, Arc<dyn PhysicalExpr>, bool)>,
    selection: Option<Arc<dyn PhysicalExpr>>,
}

/// What SET assigns: per column an expression.
pub(super) fn assignments(
    preparing: &mut Preparing<'_>,
    written: &[Assignment],
) -> SqlResult<Vec<(usize, ast::Expr)>> {
    let mut all: Vec<(usize, ast::Expr)> = Vec::new();
    for assignment in written {
        let pairs = match (&assignment.target, &assignment.value) {
            (AssignmentTarget::ColumnName(name), value) => vec![(name, value)],
            (AssignmentTarget::Tuple(names), ast::Expr::Tuple(values)) if names.len() == values.len() => {
                names.iter().zip(values).collect()
            }
            (AssignmentTarget::Tuple(names), value) if names.len() == 1 => vec![(&names[0], value)],
            (AssignmentTarget::Tuple(_), ast::Expr::Subquery(_)) => {
                return Err(SqlError::unsupported("SET (…) = (SELECT …)")
                    .with_hint("Assign each column, or use UPDATE … FROM."));
            }
            (AssignmentTarget::Tuple(_), _) => {
                let words = "number of columns does not match number of values";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, words));
            }
        };
        for (name, value) in pairs {
            let name = last_part(name)?;
            let position = preparing.column(&name)?;
            if all.iter().any(|(known, _)| *known == position) {
                let message = format!("multiple assignments to same column \"{name}\"");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
            let value = match super::insert::is_default(value) {
                true => preparing.default(position)?,
                false => value.clone(),
            };
            if let Some(number) = parameter(&value) {
                preparing.types.note(number, data_type(preparing.columns.columns[position].declared_type));
            }
            all.push((position, value));
        }
    }
    Ok(all)
}

pub(super) fn prepare(preparing: &mut Preparing<'_>, update: &DoUpdate) -> SqlResult<ConflictUpdate> {
    preparing.check_readable()?;
    let alias = folded(&preparing.alias);
    let columns = &preparing.columns.schema;
    let own = DFSchema::try_from_qualified_schema(quoted(&alias), columns)?;
    let rows = own.join(&DFSchema::try_from_qualified_schema(EXCLUDED, columns)?)?;
    let written = assignments(preparing, &update.assignments)?;
    let mut planned_assignments = Vec::with_capacity(written.len());
    for (position, value) in written {
        let id = preparing.columns.columns[position].id;
        if preparing.columns.key.contains(&id) {
            return Err(SqlError::unsupported("a change of the key by ON CONFLICT DO UPDATE"));
        }
        let expression = planned(preparing.session.state(), &value, &rows)?;
        preparing.types.note_expression(&expression)?;
        let is_unknown = matches!(expression, Expr::Literal(..) | Expr::Placeholder(_));
        planned_assignments.push((position, expression, is_unknown));
    }
    let selection = match &update.selection {
        Some(written) => {
            let expression = planned(preparing.session.state(), written, &rows)?;
            preparing.types.note_expression(&expression)?;
            Some(expression)
        }
        None => None,
    };
    Ok(ConflictUpdate { rows, assignments: planned_assignments, selection })
}

fn quoted(name: &str) -> datafusion::common::TableReference {
    datafusion::common::TableReference::bare(name)
}

impl ConflictUpdate {
    pub(super) fn compiled(
        &self,
        state: &SessionState,
        parameters: &[ScalarValue],
    ) -> SqlResult<CompiledUpdate> {
        let compile = |expression: &Expr| compiled(state, expression.clone(), &self.rows, parameters);
        let assignments = self.assignments.iter();
        let assignments =
            assignments.map(|(position, own, is_unknown)| Ok((*position, compile(own)?, *is_unknown)));
        Ok(CompiledUpdate {
            assignments: assignments.collect::<SqlResult<_>>()?,
            selection: self.selection.as_ref().map(compile).transpose()?,
        })
    }
}

/// Inserts rows whose keys are new, and changes those that are there: as `update` says, or to the values of the new rows in
/// the columns `named`.
pub(super) async fn update_existing(
    work: &mut Work<'_>,
    rows: Vec<ArrayRef>,
    update: Option<&CompiledUpdate>,
    named: &[usize],
) -> SqlResult<()> {
    let keys: Vec<ArrayRef> = work.key().iter().map(|place| rows[*place].clone()).collect();
    check_once(&keys, update.is_some())?;
    let snapshot = work.sink.snapshot().await?;
    let found = existing(work, &snapshot, &keys).await?;
    let (mut new, mut met, mut there) = (Vec::new(), Vec::new(), Vec::new());
    for (row, place) in (0_u32..).zip(&found.places) {
        match place {
            Some(place) => {
                met.push(row);
                there.push(*place);
            }
            None => new.push(row),
        }
    }
    let (before, excluded) = (some_rows(&found.rows, &there), some_rows(&rows, &met));
    let (after, assigned) = match update {
        Some(update) => updated(work, &before, &excluded, update)?,
        None => {
            let key = work.key();
            let assigned: Vec<usize> = named.iter().copied().filter(|place| !key.contains(place)).collect();
            let mut after = before.clone();
            assigned.iter().for_each(|place| after[*place] = excluded[*place].clone());
            (after, assigned)
        }
    };
    work.rules.check(&after)?;
    let mut operations = Vec::new();
    let new_rows = some_rows(&rows, &new);
    if !new.is_empty() {
        operations.push(work.upsert(WriteMode::Insert, new_rows.iter().cloned().enumerate().collect()));
    }
    if after.first().is_some_and(|values| !values.is_empty()) {
        let key = work.key();
        let cells = key.iter().chain(&assigned).map(|place| (*place, after[*place].clone()));
        operations.push(work.upsert(WriteMode::Update, cells.collect()));
    }
    if !operations.is_empty() {
        match work.sink.write(WriteBatch { operations }).await {
            Err(error) if error.kind() == ErrorKind::Conflict => {
                let words = "could not serialize access due to concurrent update";
                return Err(SqlError::new(SqlState::SERIALIZATION_FAILURE, words));
            }
            written => drop(written?),
        }
    }
    work.note(&new_rows)?;
    work.note(&after)
}

/// Fails if two of the new rows have one key: PostgreSQL refuses to change a row twice.
fn check_once(keys: &[ArrayRef], is_update: bool) -> SqlResult<()> {
    let mut seen: BTreeSet<Vec<Value>> = BTreeSet::new();
    let count = keys.first().map_or(0, |values| values.len());
    if (0..count).all(|row| seen.insert(key_of(keys, row))) {
        return Ok(());
    }
    let words = match is_update {
        true => "ON CONFLICT DO UPDATE command cannot affect row a second time",
        false => "UPSERT cannot affect a row a second time if it leaves columns out",
    };
    Err(SqlError::new(SqlState::CARDINALITY_VIOLATION, words).with_hint(
        "Ensure that no rows proposed for insertion within the same command have duplicate constrained values.",
    ))
}

/// Rows as they are after the update, and the columns that it assigns.
fn updated(
    work: &Work<'_>,
    before: &[ArrayRef],
    excluded: &[ArrayRef],
    update: &CompiledUpdate,
) -> SqlResult<(Vec<ArrayRef>, Vec<usize>)> {
    let columns = work.rules.columns();
    let mut both = joined(&batch_of(columns, before)?, &batch_of(columns, excluded)?)?;
    let mut before = before.to_vec();
    if let Some(selection) = &update.selection {
        let holds = evaluated(selection, &both)?;
        let holds = cast(&holds, &arrow_schema::DataType::Boolean).map_err(DataFusionError::from)?;
        let holds = holds.as_boolean();
        let kept: Vec<u32> = (0..holds.len() as u32)
            .filter(|row| holds.is_valid(*row as usize) && holds.value(*row as usize))
            .collect();
        let rows = UInt32Array::from(kept.clone());
        let columns = both.columns().iter().map(|values| take(values, &rows, None));
        let columns = columns.collect::<Result<Vec<_>, _>>().map_err(DataFusionError::from)?;
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(kept.len()));
        both = RecordBatch::try_new_with_options(both.schema(), columns, &options)
            .map_err(DataFusionError::from)?;
        before = some_rows(&before, &kept);
    }
    let mut places = Vec::with_capacity(update.assignments.len());
    let mut after = before;
    for (position, expression, is_unknown) in &update.assignments {
        let column = columns.columns[*position];
        let values = evaluated(expression, &both)?;
        let name = columns.name(*position);
        after[*position] = assigned(&values, *is_unknown, name, column.declared_type, work.rules.around())?;
        places.push(*position);
    }
    Ok((after, places))
}

fn joined(left: &RecordBatch, right: &RecordBatch) -> SqlResult<RecordBatch> {
    let (left_schema, right_schema) = (left.schema(), right.schema());
    let fields = left_schema.fields().iter().chain(right_schema.fields()).cloned();
    let columns = left.columns().iter().chain(right.columns()).cloned().collect();
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(left.num_rows()));
    Ok(RecordBatch::try_new_with_options(schema, columns, &options).map_err(DataFusionError::from)?)
}
