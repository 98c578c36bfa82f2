//! Finds aggregates in plans that the store can compute.
//!
//! The rule runs before the planner decides how rows are distributed, so that an aggregate stands directly above its scan,
//! or above projections that only rename and compute. Whatever it does not understand stays as it is.

use super::{Aggregate, Function, Grouping, Key, MeasurementAggregate};
use crate::buckets::Buckets;
use crate::functions::bucket_of;
use crate::measurement::columns::Source;
use crate::measurement::input::Input;
use crate::walk::Walk;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use nyala_core::schema::TIME_COLUMN;
use nyala_core::store::PartialAggregate;
use nyala_db::catalog::FieldType;
use std::sync::Arc;

/// Has the store compute aggregates of measurements.
#[derive(Debug)]
pub(crate) struct PushDownAggregates;

impl PhysicalOptimizerRule for PushDownAggregates {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let replaced = plan.changed_up(&mut |node| match pushed_down(&node)? {
            Some(pushed) => Ok(Transformed::yes(pushed)),
            None => Ok(Transformed::no(node)),
        });
        replaced.data()
    }

    fn name(&self) -> &str {
        "push_down_aggregates"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn pushed_down(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(upper) = node.downcast_ref::<AggregateExec>() else { return Ok(None) };
    let lower = match upper.mode() {
        AggregateMode::Single | AggregateMode::SinglePartitioned => upper,
        AggregateMode::Final | AggregateMode::FinalPartitioned => {
            match upper.input().downcast_ref::<AggregateExec>() {
                Some(lower) if *lower.mode() == AggregateMode::Partial => lower,
                _ => return Ok(None),
            }
        }
        _ => return Ok(None),
    };
    let limited = upper.limit_options().is_some() || lower.limit_options().is_some();
    let filtered = lower.filter_expr().iter().any(Option::is_some);
    let group_by = lower.group_expr();
    if limited || filtered || group_by.has_grouping_set() {
        return Ok(None);
    }
    let Some(input) = Input::of(lower.input()) else { return Ok(None) };
    let keys = group_by.expr().iter().map(|(key, _)| input.key(key)).collect::<Option<Vec<_>>>();
    let aggregates = lower.aggr_expr().iter().map(|own| input.aggregate(own)).collect::<Option<Vec<_>>>();
    let (Some(keys), Some(aggregates)) = (keys, aggregates) else { return Ok(None) };
    let buckets = keys.iter().filter(|key| matches!(key, Key::Bucket(_))).count();
    if buckets > 1 || aggregates.is_empty() && keys.is_empty() {
        return Ok(None);
    }
    let rows = Arc::new(CoalescePartitionsExec::new(lower.input().clone()));
    let ordinary = AggregateExec::try_new(
        AggregateMode::Single,
        group_by.clone(),
        lower.aggr_expr().to_vec(),
        lower.filter_expr().to_vec(),
        rows,
        lower.input_schema(),
    )?;
    if ordinary.schema() != upper.schema() {
        return Ok(None);
    }
    let grouping = Grouping { keys, aggregates };
    Ok(Some(Arc::new(MeasurementAggregate::new(input.scan.clone(), grouping, Arc::new(ordinary)))))
}

/// What expressions over columns of a scan mean to the store.
impl Input<'_> {
    fn key(&self, expression: &Arc<dyn PhysicalExpr>) -> Option<Key> {
        let expression = self.resolved(expression)?;
        if let Some(Source::Tag(tag)) = self.source(&expression) {
            return Some(Key::Tag(tag.clone()));
        }
        let call = expression.downcast_ref::<ScalarFunctionExpr>()?;
        let (arguments, buckets): (&[Arc<dyn PhysicalExpr>], Buckets) = (call.args(), bucket_of(call)?);
        let time = arguments.get(1)?;
        (self.source(time) == Some(&Source::Time)).then_some(Key::Bucket(buckets))
    }

    fn aggregate(&self, own: &AggregateFunctionExpr) -> Option<Aggregate> {
        if own.is_distinct() || own.ignore_nulls() || !own.order_bys().is_empty() {
            return None;
        }
        let arguments: Vec<_> =
            own.expressions().iter().map(|own| self.resolved(own)).collect::<Option<_>>()?;
        let argument = arguments.first()?;
        let function = match (own.fun().name(), arguments.len()) {
            ("count", 1) => {
                if let Some(literal) = argument.downcast_ref::<Literal>() {
                    let counts_rows = !literal.value().is_null();
                    return counts_rows
                        .then_some(Aggregate { function: Function::Count, column: TIME_COLUMN });
                }
                Function::Count
            }
            ("sum", 1) => Function::Sum,
            ("avg", 1) => Function::Mean,
            ("min", 1) => Function::Min,
            ("max", 1) => Function::Max,
            ("first", 2) => Function::First,
            ("last", 2) => Function::Last,
            _ => return None,
        };
        if matches!(function, Function::First | Function::Last) {
            matches!(self.source(&arguments[1])?, Source::Time | Source::TimeNs).then_some(())?;
        }
        let source = self.source(argument)?;
        match source {
            Source::Time | Source::TimeNs if function == Function::Count => {
                Some(Aggregate { function, column: TIME_COLUMN })
            }
            Source::Field(_, field_type, column) => {
                let chooses = !matches!(function, Function::Count | Function::Sum | Function::Mean);
                let is_chosen_from_nan = chooses && self.scan.columns.may_be_nan(source);
                // A mean of anything but numbers is a mean of what it is cast to.
                let is_number =
                    matches!(field_type, FieldType::Float | FieldType::Integer | FieldType::Unsigned);
                if is_chosen_from_nan || function == Function::Mean && !is_number {
                    return None;
                }
                let column_type = field_type.column_type();
                PartialAggregate::empty(function.measure(), column_type, 0).ok()?;
                Some(Aggregate { function, column: *column })
            }
            _ => None,
        }
    }
}
