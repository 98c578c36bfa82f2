//! Views: queries under a name. A view is stored as text, and planned anew by every statement that names it, with the
//! rights of whoever executes the statement.

use crate::error::{SqlError, SqlState};
use crate::names::DatabaseNames;
use crate::number_source::name_permanent;
use crate::parser_dialect::SqlDialect;
use crate::rewrite::{named, rewritten};
use crate::walk::WalkPlan;
use crate::whole_numbers::narrowed;
use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::ViewTable;
use datafusion::error::Result;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, col};
use datafusion::sql::parser::Statement as PlannedStatement;
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::parser::Parser;
use nyala_db::relations::ViewDefinition;
use std::sync::Arc;

/// The most tables that a view reads, each as often as it stands there.
const TABLES_MAX: usize = 1024;

/// A view as a table of plans.
pub(crate) async fn view_table(
    name: &str,
    view: &ViewDefinition,
    names: &DatabaseNames,
) -> Result<Arc<dyn TableProvider>> {
    let statements = Parser::parse_sql(&SqlDialect, &view.query);
    let statement = statements.ok().and_then(|mut all| all.pop());
    let Some(statement) = statement else {
        let words = format!("the query of view {name} cannot be read");
        return Err(datafusion::error::DataFusionError::Internal(words));
    };
    // Views stand on views, so the future contains itself.
    let planned: std::pin::Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(plan(statement, view, names));
    let plan = planned.await?;
    Ok(Arc::new(ViewTable::new(plan, Some(view.query.clone()))))
}

/// Views stand on views, so that a few lines of definitions can stand for millions of tables.
fn check_size(plan: &LogicalPlan) -> Result<()> {
    let mut tables = 0;
    plan.each_with_subqueries(&mut |node| {
        tables += usize::from(matches!(node, LogicalPlan::TableScan(_)));
        Ok(if tables > TABLES_MAX { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if tables <= TABLES_MAX {
        return Ok(());
    }
    let message = format!("a view reads more than {TABLES_MAX} tables, also by other views");
    Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message).into())
}

/// The plan of a view's query, with the names that its columns have.
pub(crate) async fn plan(
    statement: ast::Statement,
    view: &ViewDefinition,
    names: &DatabaseNames,
) -> Result<LogicalPlan> {
    let planner = names.planner(&view.database);
    let mut own = statement.clone();
    if !names.temporary.are_seen {
        name_permanent(&mut own);
    }
    let changed = rewritten(own)?;
    let plan = planner.statement_to_plan(PlannedStatement::Statement(Box::new(changed))).await?;
    check_size(&plan)?;
    let plan = narrowed(plan)?;
    let usual = named(plan.schema().inner(), &statement);
    if view.columns.is_empty() && usual == *plan.schema().inner() {
        return Ok(plan);
    }
    let columns: Vec<_> = plan.schema().columns();
    let given = view.columns.iter().map(Some).chain(std::iter::repeat(None));
    let renamed = columns.into_iter().zip(usual.fields()).zip(given);
    let renamed = renamed.map(|((column, usual), given)| col(column).alias(given.unwrap_or(usual.name())));
    LogicalPlanBuilder::from(plan).project(renamed.collect::<Vec<_>>())?.build()
}
