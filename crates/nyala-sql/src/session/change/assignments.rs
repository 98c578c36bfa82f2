//! What `ON CONFLICT DO UPDATE` assigns.

use super::preparing::{Preparing, is_default};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::expression::{compiled, planned};
use crate::identifier::folded;
use crate::relation::columns::data_type;
use crate::relation::literal::parameter;
use crate::target::last_part;
use datafusion::common::{DFSchema, ScalarValue, TableReference};
use datafusion::execution::SessionState;
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::sql::sqlparser::ast::{self, Assignment, AssignmentTarget, DoUpdate};
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
    pub(super) assignments: Vec<(usize, Arc<dyn PhysicalExpr>, bool)>,
    pub(super) selection: Option<Arc<dyn PhysicalExpr>>,
}

/// What SET assigns: per column an expression.
pub(super) fn assignments(
    preparing: &mut Preparing<'_>,
    written: &[Assignment],
) -> SqlResult<Vec<(usize, ast::Expr)>> {
    let mut all: Vec<(usize, ast::Expr)> = Vec::new();
    for (name, value) in assigned_names(written)? {
        let position = preparing.column(&name)?;
        if preparing.is_always_generated(position) && !is_default(value) {
            let message = format!("column \"{name}\" can only be updated to DEFAULT");
            return Err(
                SqlError::new(SqlState::GENERATED_ALWAYS, message).with_detail(always_generated(&name))
            );
        }
        let value = match is_default(value) {
            true => preparing.default(position)?,
            false => value.clone(),
        };
        if let Some(number) = parameter(&value) {
            preparing.types.note(number, data_type(preparing.columns.columns[position].declared_type));
        }
        all.push((position, value));
    }
    Ok(all)
}

/// Says that a column is always generated.
pub(super) fn always_generated(column: &str) -> String {
    format!("Column \"{column}\" is an identity column defined as GENERATED ALWAYS.")
}

/// The names of columns that SET assigns to, with their expressions.
pub(super) fn assigned_names(written: &[Assignment]) -> SqlResult<Vec<(String, &ast::Expr)>> {
    let mut all: Vec<(String, &ast::Expr)> = Vec::new();
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
            if all.iter().any(|(known, _)| *known == name) {
                let message = format!("multiple assignments to same column \"{name}\"");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
            all.push((name, value));
        }
    }
    Ok(all)
}

/// The columns that are assigned, if each takes the value that the new row has there.
pub(super) fn columns_taken(preparing: &Preparing<'_>, update: &DoUpdate) -> SqlResult<Option<Vec<usize>>> {
    if update.selection.is_some() {
        return Ok(None);
    }
    let mut taken = Vec::with_capacity(update.assignments.len());
    for (name, value) in assigned_names(&update.assignments)? {
        let is_taken = matches!(value, ast::Expr::CompoundIdentifier(parts)
            if matches!(&parts[..], [row, column] if folded(row) == EXCLUDED && folded(column) == name));
        if !is_taken {
            return Ok(None);
        }
        taken.push(preparing.column(&name)?);
    }
    Ok(Some(taken))
}

pub(super) fn prepare(preparing: &mut Preparing<'_>, update: &DoUpdate) -> SqlResult<ConflictUpdate> {
    preparing.check_readable()?;
    let alias = folded(&preparing.alias);
    let columns = &preparing.columns.schema;
    // A text would be parsed as a name, which the alias is already.
    let own = DFSchema::try_from_qualified_schema(TableReference::bare(alias), columns)?;
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
