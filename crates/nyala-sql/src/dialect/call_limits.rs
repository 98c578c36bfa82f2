//! Numbers in calls that the planner takes as they are, and that would end in a fault.

use crate::error::{SqlError, SqlState};
use crate::walk::{Walk, WalkPlan};
use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, WindowFrameBound};
use datafusion::optimizer::AnalyzerRule;

/// The most centroids of an approximate percentile: a hundred are usual, and each group has memory for all of them.
const CENTROIDS_MAX: u64 = 10_000;

/// Refuses those that are too large.
#[derive(Debug)]
pub(crate) struct CallLimits;

impl AnalyzerRule for CallLimits {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.each_with_subqueries(&mut |node| {
            if matches!(node, LogicalPlan::Window(_) | LogicalPlan::Aggregate(_)) {
                node.apply_expressions(|own| {
                    own.each(&mut |inner| check(inner).map(|()| TreeNodeRecursion::Continue))
                })?;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(plan)
    }

    fn name(&self) -> &str {
        "call_limits"
    }
}

fn check(expression: &Expr) -> Result<()> {
    let (name, given) = match expression {
        Expr::WindowFunction(own) => {
            let frame = &own.params.window_frame;
            check_bound(&frame.start_bound)?;
            check_bound(&frame.end_bound)?;
            (own.fun.name(), &own.params.args)
        }
        Expr::AggregateFunction(own) => (own.func.name(), &own.params.args),
        _ => return Ok(()),
    };
    let centroids = match name {
        "approx_percentile_cont" => given.get(2),
        "approx_percentile_cont_with_weight" => given.get(3),
        _ => None,
    };
    match centroids {
        Some(Expr::Literal(own, _)) if number(own).is_some_and(|own| own <= CENTROIDS_MAX) => Ok(()),
        None => Ok(()),
        Some(_) => {
            let words = format!("the number of centroids of {name} must be a constant up to {CENTROIDS_MAX}");
            Err(SqlError::new(SqlState::INVALID_PARAMETER, words).into())
        }
    }
}

fn check_bound(bound: &WindowFrameBound) -> Result<()> {
    match bound {
        WindowFrameBound::Preceding(ScalarValue::UInt64(Some(own)))
        | WindowFrameBound::Following(ScalarValue::UInt64(Some(own)))
            if i64::try_from(*own).is_err() =>
        {
            Err(SqlError::new(SqlState::OUT_OF_RANGE, "bigint out of range").into())
        }
        _ => Ok(()),
    }
}

fn number(own: &ScalarValue) -> Option<u64> {
    match own.cast_to(&arrow_schema::DataType::UInt64) {
        Ok(ScalarValue::UInt64(own)) => own,
        _ => None,
    }
}
