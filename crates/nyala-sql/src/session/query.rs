//! Executing prepared queries.

use super::Session;
use super::prepared::{Prepared, PreparedPlan};
use super::run::{Planning, ToPlan};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::plans::Reused;
use crate::rows::Rows;
use crate::session::Outcome;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast;
use std::sync::Arc;

impl Session {
    pub(super) async fn execute_query(
        &mut self,
        prepared: &Prepared,
        values: Arc<[ScalarValue]>,
    ) -> SqlResult<Outcome> {
        let (planning, values) = match &prepared.plan {
            PreparedPlan::Query { plan, is_optimized } => {
                let to_plan = ToPlan { plan, is_optimized: *is_optimized };
                (Planning::Needed(to_plan), prepared.bound(&values, self.zone())?)
            }
            PreparedPlan::Known { plan, literals } => {
                let values = match literals.is_empty() {
                    true => prepared.bound(&values, self.zone())?,
                    // Literals have their types.
                    false => {
                        prepared.check_count(values.len())?;
                        literals.clone()
                    }
                };
                let planning = match &plan.reused {
                    Reused::Physical(physical) => Planning::Done(physical, &plan.config),
                    Reused::Logical(plan) => Planning::Needed(ToPlan { plan, is_optimized: true }),
                };
                (planning, values)
            }
            _ => return Err(SqlError::new(SqlState::INTERNAL, "the statement is no query")),
        };
        let freshness = self.server.catalog.follow().await?;
        // What a transaction shows is taken by the first statement that reads: one that only takes a lock waits before it.
        let snapshot = match &planning {
            Planning::Needed(to_plan) if self.transaction.is_some() && !reads_tables(to_plan.plan)? => {
                Arc::default()
            }
            _ => self.transaction_snapshot().await?,
        };
        let run = self.run(&prepared.statement, freshness, snapshot, values.clone())?;
        let rows = self.stream(&run, run.execution.clone(), planning, values).await?;
        let rows = Rows::of(rows, run.running).named(prepared.columns.as_ref());
        Ok(Outcome::Rows(match *prepared.statement.ast {
            ast::Statement::Explain { .. } => rows.shown_by("EXPLAIN"),
            _ => rows,
        }))
    }
}

/// Whether a plan reads anything that is stored.
fn reads_tables(plan: &LogicalPlan) -> SqlResult<bool> {
    let mut reads = false;
    plan.apply_with_subqueries(|node| {
        // Nodes of our own may read as well.
        reads |= matches!(node, LogicalPlan::TableScan(_) | LogicalPlan::Extension(_));
        Ok(if reads { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(reads)
}
