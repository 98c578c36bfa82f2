//! What a plan does, besides giving rows.

use crate::error::SqlResult;
use crate::walk::{Walk, WalkPlan};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::context::SQLOptions;
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility};

/// Functions of sequences: what they give depends on the session, so no other one can use their plans.
const OF_SESSION: [&str; 4] = ["currval", "lastval", "nextval", "setval"];

/// Whether a plan calls a function whose value changes from statement to statement.
pub(crate) fn calls_stable_function(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.each_with_subqueries(&mut |node| {
        node.apply_expressions(|expression| {
            expression.each(&mut |inner| {
                if let Expr::ScalarFunction(call) = inner {
                    found |= call.func.signature().volatility == Volatility::Stable
                        || OF_SESSION.contains(&call.func.name());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(found)
}

/// Refuses plans that read or change anything but the databases: files of the server are nobody's business, and rows are
/// changed by our own statements only.
pub(crate) fn check_only_reads(plan: &LogicalPlan) -> SqlResult<()> {
    let options = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    Ok(options.verify_plan(plan)?)
}
