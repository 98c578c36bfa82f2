//! Aggregates beside `count(DISTINCT …)`. The optimiser groups by the value that is counted, and adds up the sums of these groups: by
//! the same function, which must give the type that it is given.

use arrow_schema::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::single_distinct_to_groupby::SingleDistinctToGroupBy;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// The optimiser's rule where sums of sums have the type of sums.
#[derive(Debug, Default)]
pub(crate) struct DistinctToGroups(SingleDistinctToGroupBy);

impl OptimizerRule for DistinctToGroups {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if let LogicalPlan::Aggregate(aggregate) = &plan {
            let schema = aggregate.input.schema();
            let widens = |own: &Expr| match own {
                Expr::AggregateFunction(call) if call.func.name() == "sum" && !call.params.distinct => {
                    let given = call.params.args.first().map(|own| own.get_type(schema));
                    !matches!(given, Some(Ok(DataType::Float64)))
                }
                _ => false,
            };
            if aggregate.aggr_expr.iter().any(widens) {
                return Ok(Transformed::no(plan));
            }
        }
        self.0.rewrite(plan, config)
    }
}
