//! Frames of windows that count groups of equal rows. DataFusion does not begin to count anew where a part of the rows begins, so that
//! these are refused: a wrong answer would be worse.

use crate::error::SqlError;
use crate::walk::{Walk, WalkPlan};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, WindowFrameUnits};
use datafusion::optimizer::AnalyzerRule;

/// Refuses them.
#[derive(Debug)]
pub(crate) struct GroupFrames;

impl AnalyzerRule for GroupFrames {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.each_with_subqueries(&mut |node| {
            let LogicalPlan::Window(window) = node else { return Ok(TreeNodeRecursion::Continue) };
            for own in &window.window_expr {
                if own.any(&mut |inner| Ok(is_refused(inner)))? {
                    let error = SqlError::unsupported("GROUPS in a window with PARTITION BY");
                    return Err(error
                        .with_hint("Write RANGE or ROWS, or number the groups by dense_rank().")
                        .into());
                }
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(plan)
    }

    fn name(&self) -> &str {
        "group_frames"
    }
}

fn is_refused(expression: &Expr) -> bool {
    match expression {
        Expr::WindowFunction(own) => {
            own.params.window_frame.units == WindowFrameUnits::Groups && !own.params.partition_by.is_empty()
        }
        _ => false,
    }
}
