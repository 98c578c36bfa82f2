//! `FROM host h, LATERAL (SELECT … FROM cpu WHERE cpu.host = h.host ORDER BY time DESC LIMIT 1) x`: the first rows of each group.
//!
//! DataFusion joins subqueries that depend on the row beside them, but none with a limit: it would count the rows of all of
//! them together. If the subquery depends by equality, its rows are counted for each value of what is compared, and joined by that.

use crate::walk::Walk;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, TableReference};
use datafusion::error::Result;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr::Sort as SortExpr;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprFunctionExt, Join, LogicalPlan, LogicalPlanBuilder, Operator, Subquery,
    SubqueryAlias, lit,
};
use std::sync::Arc;

/// A column that is compared with one of the row beside the subquery, and one that rows are sorted by.
const KEY: &str = "__lateral_key_";
const ORDER: &str = "__lateral_order_";

/// A subquery without what it depends on.
struct Independent {
    plan: LogicalPlan,
    /// Its columns that are compared, and what each is compared with.
    keys: Vec<(Column, Expr)>,
    /// What its rows are sorted by.
    order: Vec<SortExpr>,
    is_limited: bool,
}

/// The join as one that depends on nothing; `None` if its right side is something else than a subquery with a limit.
pub(super) fn joined(join: &Join) -> Result<Option<LogicalPlan>> {
    let (alias, right) = match &*join.right {
        LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, .. }) => (Some(alias), input),
        _ => (None, &join.right),
    };
    let LogicalPlan::Subquery(Subquery { subquery, .. }) = &**right else { return Ok(None) };
    let has_limit = subquery.any(&mut |plan| Ok(matches!(plan, LogicalPlan::Limit(_))))?;
    if !has_limit || !matches!(join.join_type, JoinType::Inner | JoinType::Left) {
        return Ok(None);
    }
    let Some(mut found) = independent(subquery)?.filter(|found| found.is_limited) else { return Ok(None) };
    if let Some(alias) = alias {
        found = renamed(found, alias.clone())?;
    }
    let mut conditions = Vec::with_capacity(found.keys.len() + 1);
    for (key, beside) in found.keys {
        conditions.push(beside.changed_up(&mut inner).data()?.eq(Expr::Column(key)));
    }
    conditions.extend(join.filter.clone());
    conditions.extend(join.on.iter().map(|(left, right)| left.clone().eq(right.clone())));
    let shown = join.schema.iter().map(|(qualifier, field)| Column::from((qualifier, field)));
    let shown: Vec<Expr> = shown.map(Expr::Column).collect();
    let left = LogicalPlanBuilder::from(join.left.clone());
    left.join_on(found.plan, join.join_type, conditions)?.project(shown)?.build().map(Some)
}

/// A subquery and what it depends on; `None` if that is more than equality.
fn independent(plan: &LogicalPlan) -> Result<Option<Independent>> {
    if !plan.any(&mut |node| Ok(node.contains_outer_reference()))? {
        let (keys, order) = (Vec::new(), Vec::new());
        return Ok(Some(Independent { plan: plan.clone(), keys, order, is_limited: false }));
    }
    let input = match plan {
        LogicalPlan::Filter(filter) => &filter.input,
        LogicalPlan::Projection(projection) => &projection.input,
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => &sort.input,
        LogicalPlan::Limit(limit) => &limit.input,
        LogicalPlan::SubqueryAlias(alias) => &alias.input,
        _ => return Ok(None),
    };
    let Some(below) = independent(input)? else { return Ok(None) };
    match plan {
        LogicalPlan::Filter(filter) => filtered(below, filter.predicate.clone()),
        LogicalPlan::Projection(projection) => projected(below, &projection.expr),
        LogicalPlan::Sort(sort) if !sort.expr.iter().any(|own| depends(&own.expr)) => {
            Ok(Some(Independent { order: sort.expr.clone(), ..below }))
        }
        LogicalPlan::Limit(limit) => {
            let number = |own: &Option<Box<Expr>>| match own.as_deref() {
                None => Some(None),
                Some(Expr::Literal(value, _)) if value.is_null() => Some(None),
                Some(own) if depends(own) || own.contains_scalar_subquery() => None,
                Some(own) => Some(Some(own.clone())),
            };
            match (number(&limit.skip), number(&limit.fetch)) {
                (Some(skip), Some(fetch)) if !below.keys.is_empty() => limited(below, skip, fetch).map(Some),
                _ => Ok(None),
            }
        }
        LogicalPlan::SubqueryAlias(alias) => renamed(below, alias.alias.clone()).map(Some),
        _ => Ok(None),
    }
}

/// Takes what compares with the row beside out of a condition.
fn filtered(below: Independent, condition: Expr) -> Result<Option<Independent>> {
    let Independent { plan, mut keys, order, is_limited } = below;
    let (dependent, own): (Vec<Expr>, Vec<Expr>) =
        split_conjunction_owned(condition).into_iter().partition(depends);
    let mut builder = LogicalPlanBuilder::from(plan);
    if let Some(own) = conjunction(own) {
        builder = builder.filter(own)?;
    }
    let mut plan = builder.build()?;
    for condition in dependent {
        let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else {
            return Ok(None);
        };
        let (own, beside) = if depends(&left) { (*right, *left) } else { (*left, *right) };
        if depends(&own) || !beside.column_refs().is_empty() {
            return Ok(None);
        }
        let key = match own {
            Expr::Column(column) => column,
            computed => {
                let name = format!("{KEY}{}", keys.len());
                let mut shown = columns_of(&plan);
                shown.push(computed.alias(&name));
                plan = LogicalPlanBuilder::from(plan).project(shown)?.build()?;
                Column::new_unqualified(name)
            }
        };
        keys.push((key, beside));
    }
    Ok(Some(Independent { plan, keys, order, is_limited }))
}

/// Columns of a subquery, with those that it is compared and sorted by behind them.
fn projected(below: Independent, shown: &[Expr]) -> Result<Option<Independent>> {
    if shown.iter().any(depends) {
        return Ok(None);
    }
    let mut shown = shown.to_vec();
    let mut keys = Vec::with_capacity(below.keys.len());
    for (number, (key, beside)) in below.keys.into_iter().enumerate() {
        let name = format!("{KEY}{number}");
        shown.push(Expr::Column(key).alias(&name));
        keys.push((Column::new_unqualified(name), beside));
    }
    let mut order = Vec::with_capacity(below.order.len());
    for (number, own) in below.order.into_iter().enumerate() {
        let name = format!("{ORDER}{number}");
        shown.push(own.expr.alias(&name));
        order.push(SortExpr { expr: Expr::Column(Column::new_unqualified(name)), ..own });
    }
    let plan = LogicalPlanBuilder::from(below.plan).project(shown)?.build()?;
    Ok(Some(Independent { plan, keys, order, is_limited: below.is_limited }))
}

/// The first rows of each group.
fn limited(below: Independent, skip: Option<Expr>, fetch: Option<Expr>) -> Result<Independent> {
    let keys = below.keys.iter().map(|(key, _)| Expr::Column(key.clone())).collect();
    let shown = columns_of(&below.plan);
    let number = row_number().partition_by(keys).order_by(below.order).build()?;
    let counted = LogicalPlanBuilder::from(below.plan).window([number])?.build()?;
    let number = counted.schema().columns().pop().expect("it was just added");
    let number = Expr::Column(number);
    let mut conditions = Vec::new();
    match (skip, fetch) {
        (None, Some(fetch)) => conditions.push(number.lt_eq(fetch)),
        (Some(skip), fetch) => {
            conditions.extend(fetch.map(|fetch| number.clone().lt_eq(skip.clone() + fetch)));
            conditions.push(number.gt(skip));
        }
        (None, None) => conditions.push(lit(true)),
    }
    let condition = conjunction(conditions).expect("there is one at least");
    let plan = LogicalPlanBuilder::from(counted).filter(condition)?.project(shown)?.build()?;
    Ok(Independent { plan, keys: below.keys, order: Vec::new(), is_limited: true })
}

/// The same under another name.
fn renamed(below: Independent, alias: TableReference) -> Result<Independent> {
    let under = |column: Column| Column::new(Some(alias.clone()), column.name);
    let keys = below.keys.into_iter().map(|(key, beside)| (under(key), beside)).collect();
    let order = below.order.into_iter().map(|own| {
        let expr = own.expr.changed_up(&mut |inner| {
            Ok(match inner {
                Expr::Column(column) => Transformed::yes(Expr::Column(under(column))),
                other => Transformed::no(other),
            })
        });
        Ok(SortExpr { expr: expr.data()?, ..own })
    });
    let order = order.collect::<Result<_>>()?;
    let plan = SubqueryAlias::try_new(Arc::new(below.plan), alias.clone())?;
    Ok(Independent { plan: LogicalPlan::SubqueryAlias(plan), keys, order, is_limited: below.is_limited })
}

/// A column of the row around a subquery, where it is a column of the same rows.
pub(super) fn inner(expression: Expr) -> Result<Transformed<Expr>> {
    Ok(match expression {
        Expr::OuterReferenceColumn(_, column) => Transformed::yes(Expr::Column(column)),
        other => Transformed::no(other),
    })
}

/// Whether an expression names the row beside its subquery.
fn depends(expression: &Expr) -> bool {
    let mut depends = false;
    // Nothing fails.
    let _ = expression.each(&mut |inner| {
        depends |= matches!(inner, Expr::OuterReferenceColumn(..));
        Ok(TreeNodeRecursion::Continue)
    });
    depends
}

fn columns_of(plan: &LogicalPlan) -> Vec<Expr> {
    plan.schema().columns().into_iter().map(Expr::Column).collect()
}
