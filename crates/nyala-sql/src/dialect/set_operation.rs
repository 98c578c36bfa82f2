//! UNION, INTERSECT and EXCEPT: their columns get the types that PostgreSQL gives them, and with ALL they count duplicates.
//!
//! DataFusion plans INTERSECT and EXCEPT as joins that only ask whether there is an equal row. With ALL the rows that are equal
//! are numbered on both sides, and the number is compared, too.

use crate::common_type::{CommonTypes, Known, common_type, converted, is_untyped};
use crate::walk::WalkPlan;
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, JoinConstraint, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{
    Distinct, Expr, ExprFunctionExt, Join, LogicalPlan, LogicalPlanBuilder, Union, Values, cast,
};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

/// The numbers of equal rows. Nobody writes such names.
const NUMBERS: [&str; 2] = ["\u{1}left number", "\u{1}right number"];

/// Has them mean what they mean in PostgreSQL.
#[derive(Debug)]
pub(crate) struct SetOperations;

impl AnalyzerRule for SetOperations {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut is_found = false;
        plan.each_with_subqueries(&mut |node| {
            is_found |= match node {
                LogicalPlan::Union(_) => true,
                LogicalPlan::Join(join) => operation(join).is_some(),
                _ => false,
            };
            Ok(if is_found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if !is_found {
            return Ok(plan);
        }
        let done = plan.changed_up_with_subqueries(&mut |node| {
            Ok(match node {
                LogicalPlan::Union(Union { inputs, .. }) => {
                    let inputs = with_common_types("UNION", inputs)?;
                    Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?))
                }
                LogicalPlan::Join(join) if let Some(name) = operation(&join) => {
                    Transformed::yes(compared(name, join)?)
                }
                // Operations around it ask for types.
                other => Transformed::yes(other.recompute_schema()?),
            })
        })?;
        // What is combined had its types before; what stands above asks for those of the operation.
        CommonTypes.analyze(done.data, config)
    }

    fn name(&self) -> &str {
        "set_operations"
    }
}

/// The operation that a join was planned for. No other join is one of these before the plan is optimised.
fn operation(join: &Join) -> Option<&'static str> {
    match join.join_type {
        _ if join.null_equality != NullEquality::NullEqualsNull => None,
        JoinType::LeftSemi => Some("INTERSECT"),
        JoinType::LeftAnti => Some("EXCEPT"),
        _ => None,
    }
}

fn compared(name: &str, join: Join) -> Result<LogicalPlan> {
    let Join { left, right, join_type, .. } = join;
    let (left, is_all) = match Arc::unwrap_or_clone(left) {
        LogicalPlan::Distinct(Distinct::All(inner)) => (inner, false),
        other => (Arc::new(other), true),
    };
    let mut sides = with_common_types(name, vec![left, right])?.into_iter();
    let (left, right) = (sides.next().expect("two"), sides.next().expect("two"));
    let columns: Vec<Expr> = left.schema().columns().into_iter().map(Expr::Column).collect();
    let (left, right) = match is_all {
        true => (numbered(left, NUMBERS[0])?, numbered(right, NUMBERS[1])?),
        false => (LogicalPlan::Distinct(Distinct::All(left)), Arc::unwrap_or_clone(right)),
    };
    let on = left.schema().columns().into_iter().map(Expr::Column);
    let on = on.zip(right.schema().columns().into_iter().map(Expr::Column)).collect();
    let (constraint, equality) = (JoinConstraint::On, NullEquality::NullEqualsNull);
    let joined =
        Join::try_new(Arc::new(left), Arc::new(right), on, None, join_type, constraint, equality, false)?;
    let joined = LogicalPlan::Join(joined);
    if is_all { LogicalPlanBuilder::from(joined).project(columns)?.build() } else { Ok(joined) }
}

/// The rows of a plan, each with its number among those that are equal to it.
fn numbered(plan: Arc<LogicalPlan>, name: &str) -> Result<LogicalPlan> {
    let mut columns: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
    let number = row_number().partition_by(columns.clone()).build()?;
    let counted = LogicalPlanBuilder::from(plan).window([number])?.build()?;
    let number = counted.schema().columns().pop().expect("it was just added");
    columns.push(Expr::Column(number).alias(name));
    LogicalPlanBuilder::from(counted).project(columns)?.build()
}

/// Plans whose columns have types that go together.
fn with_common_types(name: &str, inputs: Vec<Arc<LogicalPlan>>) -> Result<Vec<Arc<LogicalPlan>>> {
    let width = inputs.first().map_or(0, |input| input.schema().fields().len());
    let mut known: Vec<Vec<Known>> = vec![Vec::new(); inputs.len()];
    let mut common = Vec::with_capacity(width);
    for place in 0..width {
        let column: Vec<Known> = inputs.iter().map(|input| known_column(input, place)).collect();
        common.push(common_type(name, &column)?);
        known.iter_mut().zip(column).for_each(|(known, own)| known.push(own));
    }
    // What is planned as a join would show the types of its left side.
    let is_join = name != "UNION";
    inputs.into_iter().zip(known).map(|(input, known)| with_types(input, &known, &common, is_join)).collect()
}

fn with_types(
    plan: Arc<LogicalPlan>,
    known: &[Known],
    common: &[Option<DataType>],
    is_join: bool,
) -> Result<Arc<LogicalPlan>> {
    let mut is_changed = false;
    let mut shown = Vec::with_capacity(known.len());
    for (((qualifier, field), known), common) in plan.schema().iter().zip(known).zip(common) {
        let column = Expr::Column(Column::from((qualifier, field)));
        let Some(common) = common else {
            shown.push(column);
            continue;
        };
        let done = match known {
            Known::Type(own) if is_join => cast_to(column.clone(), own, common),
            _ => converted(column.clone(), known, common)?,
        };
        shown.push(match done == column {
            true => column,
            false => {
                is_changed = true;
                done.alias_qualified(qualifier.cloned(), field.name())
            }
        });
    }
    match is_changed {
        true => Ok(Arc::new(LogicalPlanBuilder::from(plan).project(shown)?.build()?)),
        false => Ok(plan),
    }
}

/// A value of a type as one of the type that all have.
fn cast_to(value: Expr, own: &DataType, common: &DataType) -> Expr {
    match common {
        _ if own == common => value,
        DataType::Decimal128(_, scale) if own.is_integer() => {
            cast(value, DataType::Decimal128(DECIMAL128_MAX_PRECISION, *scale))
        }
        common if common.is_decimal() => value,
        common if common.is_numeric() || common.is_temporal() => cast(value, common.clone()),
        _ => value,
    }
}

/// What is known of the type of a column.
fn known_column(plan: &LogicalPlan, place: usize) -> Known {
    if has_untyped(plan, place) {
        return Known::Untyped;
    }
    match plan.schema().fields().get(place).map(|field| field.data_type()) {
        Some(DataType::Null) | None => Known::Nothing,
        Some(data_type) => Known::Type(data_type.clone()),
    }
}

fn has_untyped(plan: &LogicalPlan, place: usize) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => projection.expr.get(place).is_some_and(is_untyped),
        LogicalPlan::SubqueryAlias(alias) => has_untyped(&alias.input, place),
        LogicalPlan::Distinct(Distinct::All(input)) => has_untyped(input, place),
        LogicalPlan::Values(Values { values, .. }) => {
            values.iter().all(|row| row.get(place).is_some_and(is_untyped))
        }
        _ => false,
    }
}
