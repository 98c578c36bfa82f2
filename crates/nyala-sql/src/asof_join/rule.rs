//! Finds joins with a marker in plans.

use super::marker::{MARKER, refused};
use super::node::{AsofJoin, Match};
use crate::error::SqlError;
use crate::walk::{Walk, WalkPlan};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{DFSchema, JoinType};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{BinaryExpr, Expr, Extension, Filter, Join, LogicalPlan, Operator};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

/// Puts joins by time into plans.
#[derive(Debug)]
pub(crate) struct FindAsofJoins;

impl AnalyzerRule for FindAsofJoins {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        if !has_marker(&plan)? {
            return Ok(plan);
        }
        let found = plan.changed_up_with_subqueries(&mut |node| match node {
            LogicalPlan::Join(join) if join.filter.as_ref().is_some_and(is_marked) => {
                Ok(Transformed::yes(made_of(join)?))
            }
            other => Ok(Transformed::no(other)),
        });
        found.data()
    }

    fn name(&self) -> &str {
        "find_asof_joins"
    }
}

fn has_marker(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.each_with_subqueries(&mut |node| {
        if let LogicalPlan::Join(Join { filter: Some(filter), .. }) = node {
            found |= is_marked(filter);
        }
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

fn is_marked(condition: &Expr) -> bool {
    condition.any(&mut |own| Ok(marked(own).is_some())).unwrap_or(false)
}

/// What a marker marks.
fn marked(expression: &Expr) -> Option<&Expr> {
    match expression {
        Expr::ScalarFunction(call) if call.name() == MARKER => call.args.first(),
        _ => None,
    }
}

fn made_of(join: Join) -> Result<LogicalPlan> {
    let (left, right) = (join.left.schema().clone(), join.right.schema().clone());
    let is_outer = join.join_type == JoinType::Left;
    let mut keys = join.on;
    let (mut times, mut of_left, mut of_right) = (None, Vec::new(), Vec::new());
    for part in join.filter.into_iter().flat_map(split_conjunction_owned) {
        if let Some(comparison) = marked(&part) {
            match (is_of(comparison, &left), is_of(comparison, &right)) {
                (_, true) => {
                    of_right.push(comparison.clone());
                    continue;
                }
                (true, _) if !is_outer => {
                    of_left.push(comparison.clone());
                    continue;
                }
                (true, _) => return Err(misplaced(comparison).into()),
                _ => {}
            }
            if times.is_some() {
                return Err(refused("only one comparison of times is possible").into());
            }
            times = Some(compared(comparison, &left, &right)?);
            continue;
        }
        if is_marked(&part) {
            return Err(refused("the comparison of times must be joined to others by AND").into());
        }
        match part {
            Expr::BinaryExpr(BinaryExpr { left: one, op: Operator::Eq, right: other })
                if is_of(&one, &left) && is_of(&other, &right) =>
            {
                keys.push((*one, *other));
            }
            Expr::BinaryExpr(BinaryExpr { left: one, op: Operator::Eq, right: other })
                if is_of(&one, &right) && is_of(&other, &left) =>
            {
                keys.push((*other, *one));
            }
            // Only rows that satisfy it are candidates.
            part if is_of(&part, &right) => of_right.push(part),
            part if is_of(&part, &left) && !is_outer => of_left.push(part),
            part => return Err(misplaced(&part).into()),
        }
    }
    let Some((times, rule)) = times else { return Err(refused("there is no comparison of times").into()) };
    let rule = Match { is_outer, ..rule };
    let node =
        AsofJoin::new(selected(join.left, of_left)?, selected(join.right, of_right)?, keys, times, rule)?;
    Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
}

/// The error of a condition that chooses no rows of the right side.
fn misplaced(condition: &Expr) -> SqlError {
    refused(&format!("{condition} is no equality of the two sides, and no condition of the right one"))
}

fn compared(comparison: &Expr, left: &DFSchema, right: &DFSchema) -> Result<((Expr, Expr), Match)> {
    let Expr::BinaryExpr(BinaryExpr { left: one, op, right: other }) = comparison else {
        return Err(refused("the times are compared with >=, >, <= or <").into());
    };
    let (one, op, other) =
        match (is_of(one, left) && is_of(other, right), is_of(other, left) && is_of(one, right)) {
            (true, _) => (one, Some(*op), other),
            (_, true) => (other, op.swap(), one),
            _ => return Err(refused("a time of the left side is compared with one of the right side").into()),
        };
    let (looks_forward, may_be_equal) = match op {
        Some(Operator::GtEq) => (false, true),
        Some(Operator::Gt) => (false, false),
        Some(Operator::LtEq) => (true, true),
        Some(Operator::Lt) => (true, false),
        _ => return Err(refused("the times are compared with >=, >, <= or <").into()),
    };
    let rule = Match { looks_forward, may_be_equal, is_outer: false };
    Ok((((**one).clone(), (**other).clone()), rule))
}

/// Whether an expression names columns, and all of them are of a side.
fn is_of(expression: &Expr, side: &DFSchema) -> bool {
    let columns = expression.column_refs();
    !columns.is_empty() && columns.iter().all(|own| side.is_column_from_schema(own))
}

fn selected(input: Arc<LogicalPlan>, conditions: Vec<Expr>) -> Result<Arc<LogicalPlan>> {
    match conjunction(conditions) {
        Some(condition) => Ok(Arc::new(LogicalPlan::Filter(Filter::try_new(condition, input)?))),
        None => Ok(input),
    }
}
