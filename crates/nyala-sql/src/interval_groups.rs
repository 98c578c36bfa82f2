//! Intervals that are equal because a month has 30 days and a day 24 hours are one value to GROUP BY, DISTINCT, PARTITION BY, `min`
//! and `max`, as in PostgreSQL. DataFusion would compare their parts. So they are grouped and ordered by their
//! [lengths](interval_length), and a group shows the first of its intervals.

use crate::interval_length;
use crate::walk::{WalkPlan, read_schema};
use arrow_schema::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, Sort};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Projection,
};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

/// Has intervals be grouped by their lengths.
#[derive(Debug)]
pub(crate) struct IntervalGroups;

impl AnalyzerRule for IntervalGroups {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let done = plan.changed_up_with_subqueries(&mut |node| match node {
            LogicalPlan::Aggregate(own) => of_aggregate(own),
            LogicalPlan::Distinct(Distinct::All(input))
                if input.schema().fields().iter().any(|field| is_interval(field.data_type())) =>
            {
                let columns: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
                of_aggregate(Aggregate::try_new(input, columns, Vec::new())?)
            }
            LogicalPlan::Window(_) => of_window(node),
            other => Ok(Transformed::no(other)),
        })?;
        Ok(done.data)
    }

    fn name(&self) -> &str {
        "interval_groups"
    }
}

fn is_interval(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Interval(_))
}

fn gives_interval(expression: &Expr, schema: &DFSchema) -> bool {
    expression.get_type(schema).is_ok_and(|own| is_interval(&own))
}

fn of_aggregate(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let read = aggregate.input.schema().clone();
    let node = LogicalPlan::Aggregate(aggregate);
    let names = NamePreserver::new(&node);
    let node = node.with_changed_expressions(&mut |own| {
        let name = names.save(&own);
        Ok(by_length(own, &read).update_data(|own| name.restore(own)))
    })?;
    let LogicalPlan::Aggregate(aggregate) = node.data else { return Ok(node) };
    let is_grouped = |own: &Expr| !matches!(own, Expr::GroupingSet(_)) && gives_interval(own, &read);
    if !aggregate.group_expr.iter().any(is_grouped) {
        return Ok(Transformed::new(LogicalPlan::Aggregate(aggregate), node.transformed, node.tnr));
    }
    let shown = aggregate.schema.clone();
    let (mut keys, mut aggregates) = (Vec::new(), aggregate.aggr_expr);
    let mut columns: Vec<Expr> = shown.columns().into_iter().map(Expr::Column).collect();
    for (place, key) in aggregate.group_expr.into_iter().enumerate() {
        if !is_grouped(&key) {
            keys.push(key);
            continue;
        }
        let name = format!("\u{1}interval {place}");
        let first = first_of(key.clone(), None, Vec::new());
        aggregates.push(Expr::AggregateFunction(first).alias(&name));
        keys.push(interval_length::of(key).alias(format!("\u{1}length {place}")));
        let (qualifier, field) = shown.qualified_field(place);
        let first = Expr::Column(Column::new_unqualified(name));
        columns[place] = first.alias_qualified(qualifier.cloned(), field.name());
    }
    let grouped = LogicalPlanBuilder::from(Arc::unwrap_or_clone(aggregate.input));
    let grouped = grouped.aggregate(keys, aggregates)?.build()?;
    let shown = Projection::try_new(columns, Arc::new(grouped))?;
    Ok(Transformed::yes(LogicalPlan::Projection(shown)))
}

/// The first value of a group in an order.
fn first_of(value: Expr, filter: Option<Box<Expr>>, order_by: Vec<Sort>) -> AggregateFunction {
    AggregateFunction::new_udf(first_value_udaf(), vec![value], false, filter, order_by, None)
}

/// An aggregate of intervals that compares them.
fn by_length(expression: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expression {
        Expr::Alias(mut alias) => {
            let inner = by_length(*alias.expr, schema);
            alias.expr = Box::new(inner.data);
            Transformed::new(Expr::Alias(alias), inner.transformed, inner.tnr)
        }
        Expr::AggregateFunction(mut own) if own.params.args.len() == 1 => {
            if !gives_interval(&own.params.args[0], schema) {
                return Transformed::no(Expr::AggregateFunction(own));
            }
            let value = own.params.args[0].clone();
            match own.func.name() {
                name @ ("min" | "max") => {
                    let order = Sort::new(interval_length::of(value.clone()), name == "min", false);
                    let first = first_of(value, own.params.filter, vec![order]);
                    Transformed::yes(Expr::AggregateFunction(first))
                }
                "count" if own.params.distinct => {
                    own.params.args = vec![interval_length::of(value)];
                    Transformed::yes(Expr::AggregateFunction(own))
                }
                _ => Transformed::no(Expr::AggregateFunction(own)),
            }
        }
        other => Transformed::no(other),
    }
}

/// Parts and orders of windows.
fn of_window(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let read = read_schema(&node);
    let names = NamePreserver::new(&node);
    node.with_changed_expressions(&mut |own| {
        let name = names.save(&own);
        let (own, alias) = match own {
            Expr::Alias(alias) => (*alias.expr.clone(), Some(alias)),
            own => (own, None),
        };
        let Expr::WindowFunction(mut own) = own else {
            return Ok(Transformed::no(alias.map_or(own, Expr::Alias)));
        };
        let mut is_changed = false;
        let keys = own.params.partition_by.iter_mut();
        for key in keys.chain(own.params.order_by.iter_mut().map(|own| &mut own.expr)) {
            if gives_interval(key, &read) {
                *key = interval_length::of(key.clone());
                is_changed = true;
            }
        }
        let own = Expr::WindowFunction(own);
        match (is_changed, alias) {
            (false, Some(alias)) => Ok(Transformed::no(Expr::Alias(alias))),
            (false, None) => Ok(Transformed::no(own)),
            (true, _) => Ok(Transformed::yes(name.restore(own))),
        }
    })
}
