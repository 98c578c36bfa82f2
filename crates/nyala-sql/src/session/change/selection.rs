//! The query that finds what a change writes.

use super::parameters::ParameterTypes;
use crate::complexity;
use crate::error::{SqlError, SqlResult};
use crate::plan_parameters::with_types;
use crate::plans::calls_stable_function;
use crate::rewrite::rewritten;
use crate::session::{Session, ToPlan};
use crate::whole_numbers::narrowed;
use arrow_schema::DataType;
use datafusion::execution::SessionState;
use datafusion::execution::context::SQLOptions;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::parser::Statement as PlannedStatement;
use datafusion::sql::sqlparser::ast::{self, Query};
use nyala_core::before_long_work;

/// A planned query.
#[derive(Debug)]
pub(super) struct Selection {
    plan: LogicalPlan,
    /// Whether it is optimised, and still right at a later execution.
    is_optimized: bool,
}

impl Selection {
    /// Plans a query. What it says of parameters is noted.
    pub(super) async fn of_query(
        session: &mut Session,
        types: &mut ParameterTypes,
        query: Query,
    ) -> SqlResult<Self> {
        before_long_work().await;
        let statement = ast::Statement::Query(Box::new(query));
        complexity::check(&statement)?;
        let statement = rewritten(statement)?;
        let state = session.state();
        let plan = state.statement_to_plan(PlannedStatement::Statement(Box::new(statement))).await;
        let plan = plan.and_then(narrowed).map_err(SqlError::from)?;
        let options =
            SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        options.verify_plan(&plan)?;
        types.note_plan(&plan)?;
        Ok(Self { plan, is_optimized: false })
    }

    /// How many columns it has.
    pub(super) fn columns(&self) -> usize {
        self.plan.schema().fields().len()
    }

    pub(super) fn plan(&self) -> &LogicalPlan {
        &self.plan
    }

    /// What is left of planning it.
    pub(super) fn to_plan(&self) -> ToPlan<'_> {
        ToPlan { plan: &self.plan, is_optimized: self.is_optimized }
    }

    pub(super) fn with_types(self, types: &[DataType], state: Option<&SessionState>) -> SqlResult<Self> {
        let plan = with_types(self.plan, types)?;
        match state {
            Some(state) if !calls_stable_function(&plan)? => {
                Ok(Self { plan: state.optimize(&plan)?, is_optimized: true })
            }
            _ => Ok(Self { plan, is_optimized: false }),
        }
    }
}

/// Per column of a query whether its texts are literals, which become what they are needed as.
pub(super) fn unknown_columns(plan: &LogicalPlan) -> Vec<bool> {
    match plan {
        LogicalPlan::Projection(projection) => {
            let inner = unknown_columns(&projection.input);
            let is_values = matches!(&*projection.input, LogicalPlan::Values(_));
            let is_unknown = |expression: &Expr| match unaliased(expression) {
                Expr::Literal(..) | Expr::Placeholder(_) => true,
                Expr::Column(column) if is_values => {
                    let place = projection.input.schema().maybe_index_of_column(column);
                    place.is_some_and(|place| inner[place])
                }
                _ => false,
            };
            projection.expr.iter().map(is_unknown).collect()
        }
        LogicalPlan::Values(values) => vec![true; values.schema.fields().len()],
        LogicalPlan::Limit(limit) => unknown_columns(&limit.input),
        LogicalPlan::Sort(sort) => unknown_columns(&sort.input),
        LogicalPlan::SubqueryAlias(alias) => unknown_columns(&alias.input),
        other => vec![false; other.schema().fields().len()],
    }
}

fn unaliased(expression: &Expr) -> &Expr {
    match expression {
        Expr::Alias(alias) => unaliased(&alias.expr),
        other => other,
    }
}
