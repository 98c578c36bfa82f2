//! The types of the parameters of a change: of the columns that they are assigned to, and of what they are compared with.

use crate::error::{SqlError, SqlResult, SqlState};
use crate::placeholder::PARAMETERS_MAX;
use crate::plan_parameters::parameter_types;
use crate::walk::{Walk, each_expression};
use arrow_schema::DataType;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::sqlparser::ast::{self, Value};

/// What is known of the types of parameters.
pub(super) struct ParameterTypes(Vec<Option<DataType>>);

impl ParameterTypes {
    /// As many parameters as a statement names. `given` are the types that the client knows.
    pub(super) fn of(statement: &ast::Statement, given: &[Option<DataType>]) -> SqlResult<Self> {
        let mut most = given.len();
        let mut wrong = None;
        each_expression(statement, &mut |inner| {
            if let ast::Expr::Value(value) = inner
                && let Value::Placeholder(name) = &value.value
            {
                match name.strip_prefix('$').and_then(|number| number.parse().ok()) {
                    Some(number) if (1..=PARAMETERS_MAX).contains(&number) => most = most.max(number),
                    _ => wrong = Some(name.clone()),
                }
            }
        });
        if let Some(name) = wrong {
            let message = format!("there is no parameter {name}: the first is $1");
            return Err(SqlError::new(SqlState::UNKNOWN_PARAMETER, message));
        }
        let mut types = given.to_vec();
        types.resize(most, None);
        Ok(Self(types))
    }

    /// Notes that a parameter is assigned to a column of a type.
    pub(super) fn note(&mut self, number: usize, data_type: DataType) {
        if let Some(known) = self.0.get_mut(number - 1) {
            known.get_or_insert(data_type);
        }
    }

    /// The types that are known.
    pub(super) fn known(&mut self) -> &mut Vec<Option<DataType>> {
        &mut self.0
    }

    /// Notes what a plan compares parameters with.
    pub(super) fn note_plan(&mut self, plan: &LogicalPlan) -> SqlResult<()> {
        self.0 = parameter_types(plan, &self.0)?;
        Ok(())
    }

    /// Notes what an expression compares parameters with.
    pub(super) fn note_expression(&mut self, expression: &Expr) -> SqlResult<()> {
        expression.each(&mut |inner| {
            if let Expr::Placeholder(placeholder) = inner
                && let Some(field) = &placeholder.field
                && let Some(number) = placeholder.id.strip_prefix('$').and_then(|id| id.parse().ok())
            {
                self.note(number, field.data_type().clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(())
    }

    /// The types; what nobody knows is text.
    pub(super) fn finish(self) -> Vec<DataType> {
        self.0.into_iter().map(|known| known.unwrap_or(DataType::Utf8)).collect()
    }
}
