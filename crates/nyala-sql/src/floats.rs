//! Comparisons of floats: with decimal numbers, and of the two zeros.
//!
//! A number with a point is a decimal. In PostgreSQL a decimal that is compared with a float becomes a float. The planner
//! would do the opposite, but a decimal has no place for large floats, NaN and infinities.
//!
//! 0 and -0 are equal. The planner groups by them rightly, but windows have to be told, and so has a sort by more than them.

use crate::common_type::compares;
use crate::walk::{Walk, WalkPlan, read_schema};
use arrow_schema::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ExprSchema};
use datafusion::error::Result;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, ExprSchemable, LogicalPlan, cast, lit};
use datafusion::optimizer::AnalyzerRule;

/// Has decimals become floats where they are compared with floats, and zeros one where windows divide or order rows.
#[derive(Debug)]
pub(crate) struct CompareFloats;

impl AnalyzerRule for CompareFloats {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let done = plan.changed_up_with_subqueries(&mut |node| {
            let schema = read_schema(&node);
            let (node, is_sorted) = sorted_by_one_zero(node, &schema);
            let names = NamePreserver::new(&node);
            let done = node.with_changed_expressions(&mut |own| {
                let name = names.save(&own);
                Ok(compared_as_floats(own, &schema)?.update_data(|own| name.restore(own)))
            })?;
            Ok(Transformed::new_transformed(done.data, done.transformed || is_sorted))
        })?;
        Ok(done.data)
    }

    fn name(&self) -> &str {
        "compare_floats"
    }
}

/// The same for an expression over rows of a schema.
pub(crate) fn compared_as_floats(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    expression.changed_up(&mut |inner| {
        Ok(match inner {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(op) => {
                let [left, right] = alike([*left, *right], schema);
                Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right))))
            }
            Expr::Between(Between { expr, negated, low, high }) => {
                let [expr, low, high] = alike([*expr, *low, *high], schema).map(Box::new);
                Transformed::yes(Expr::Between(Between { expr, negated, low, high }))
            }
            Expr::InList(InList { expr, list, negated }) => {
                let mut all = vec![*expr];
                all.extend(list);
                let mut all = all_alike(all, schema).into_iter();
                let expr = Box::new(all.next().expect("it was put in"));
                Transformed::yes(Expr::InList(InList { expr, list: all.collect(), negated }))
            }
            Expr::WindowFunction(mut own) => {
                let params = &mut own.params;
                let order = params.order_by.iter_mut().map(|own| &mut own.expr);
                let is_changed = with_one_zero(params.partition_by.iter_mut().chain(order), schema);
                Transformed::new_transformed(Expr::WindowFunction(own), is_changed)
            }
            other => Transformed::no(other),
        })
    })
}

/// Has a sort take both zeros for one, so that what it sorts by next decides between them.
fn sorted_by_one_zero(plan: LogicalPlan, schema: &DFSchema) -> (LogicalPlan, bool) {
    let LogicalPlan::Sort(mut sort) = plan else { return (plan, false) };
    let is_changed = match sort.expr.split_last_mut() {
        Some((_, before)) => with_one_zero(before.iter_mut().map(|own| &mut own.expr), schema),
        None => false,
    };
    (LogicalPlan::Sort(sort), is_changed)
}

/// Makes a negative zero of floats the other one; whether there are any.
fn with_one_zero<'a>(expressions: impl Iterator<Item = &'a mut Expr>, schema: &DFSchema) -> bool {
    let mut is_changed = false;
    for expression in expressions {
        let zero = match expression.get_type(schema) {
            Ok(DataType::Float64) => lit(0.0_f64),
            Ok(DataType::Float32) => lit(0.0_f32),
            _ => continue,
        };
        *expression = std::mem::take(expression) + zero;
        is_changed = true;
    }
    is_changed
}

fn alike<const N: usize>(operands: [Expr; N], schema: &dyn ExprSchema) -> [Expr; N] {
    let all = all_alike(operands.into(), schema);
    all.try_into().expect("there are as many")
}

fn all_alike(operands: Vec<Expr>, schema: &dyn ExprSchema) -> Vec<Expr> {
    // What has no type yet is not of these.
    let types: Vec<Option<DataType>> = operands.iter().map(|own| own.get_type(schema).ok()).collect();
    if !types.iter().flatten().any(DataType::is_floating) {
        return operands;
    }
    let is_decimal = |data_type: &Option<DataType>| data_type.as_ref().is_some_and(DataType::is_decimal);
    let converted = operands.into_iter().zip(types).map(|(own, data_type)| match is_decimal(&data_type) {
        true => cast(own, DataType::Float64),
        false => own,
    });
    converted.collect()
}
