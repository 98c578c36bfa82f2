//! Finds queries for the latest rows of groups of series: `DISTINCT ON (tags) … ORDER BY tags, time DESC`, aggregates
//! `last_value(x ORDER BY time)` by tags, and `ROW_NUMBER() OVER (PARTITION BY tags ORDER BY time DESC) <= n`.
//!
//! A group by tags consists of whole series, so that of each series only as many rows are read as of each group are wanted.

use super::columns::Source;
use super::input::Input;
use super::latest::LatestRows;
use super::scan::MeasurementScan;
use crate::walk::Walk;
use arrow_schema::Field;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use nyala_core::store::Direction;
use std::sync::Arc;

/// The most rows of a series that are read backwards.
const ROWS_MAX: usize = 1_000;

/// Has the scan read the latest rows of each series only.
#[derive(Debug)]
pub(crate) struct PushDownLatest;

impl PhysicalOptimizerRule for PushDownLatest {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let replaced = plan.changed_up(&mut |node| {
            let pushed = match of_aggregate(&node) {
                Some(pushed) => Some(pushed),
                None => of_window(&node)?,
            };
            Ok(match pushed {
                Some(pushed) => Transformed::yes(pushed),
                None => Transformed::no(node),
            })
        });
        replaced.data()
    }

    fn name(&self) -> &str {
        "push_down_latest"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The direction in which a scan finds the wanted rows first, if an order is that of the time within groups.
fn direction_of(order: &[PhysicalSortExpr], input: &Input<'_>, keys: &[usize]) -> Option<Direction> {
    let mut direction = None;
    for by in order {
        let resolved = input.resolved(&by.expr)?;
        let column = resolved.downcast_ref::<Column>()?.index();
        match input.source(&resolved)? {
            Source::Time | Source::TimeNs if direction.is_none() => {
                direction = Some(match by.options.descending {
                    true => Direction::Backward,
                    false => Direction::Forward,
                });
            }
            // Within a group it is always the same.
            _ if keys.contains(&column) => {}
            // Times are unique within a series, but not within a group.
            _ => return None,
        }
    }
    direction
}

fn reversed(direction: Direction) -> Direction {
    match direction {
        Direction::Forward => Direction::Backward,
        Direction::Backward => Direction::Forward,
    }
}

/// The tags that rows are grouped by, as columns of the scan.
fn tags<'a>(input: &Input<'_>, keys: impl Iterator<Item = &'a Arc<dyn PhysicalExpr>>) -> Option<Vec<usize>> {
    let tag = |key: &Arc<dyn PhysicalExpr>| {
        let resolved = input.resolved(key)?;
        let is_tag = matches!(input.source(&resolved)?, Source::Tag(_));
        is_tag.then(|| resolved.downcast_ref::<Column>().map(Column::index))?
    };
    keys.map(tag).collect()
}

fn of_aggregate(node: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    let upper = node.downcast_ref::<AggregateExec>()?;
    let lower = match upper.mode() {
        AggregateMode::Single | AggregateMode::SinglePartitioned => upper,
        AggregateMode::Final | AggregateMode::FinalPartitioned => upper.input().downcast_ref()?,
        _ => return None,
    };
    let is_limited = upper.limit_options().is_some() || lower.limit_options().is_some();
    let is_filtered = lower.filter_expr().iter().any(Option::is_some);
    if is_limited || is_filtered || lower.group_expr().has_grouping_set() || lower.aggr_expr().is_empty() {
        return None;
    }
    let input = Input::of(lower.input())?;
    let keys = tags(&input, lower.group_expr().expr().iter().map(|(key, _)| key))?;
    if keys.is_empty() {
        return None;
    }
    let (mut wanted, mut shown) = (None, keys.clone());
    for aggregate in lower.aggr_expr() {
        let is_last = match aggregate.fun().name() {
            "first_value" => false,
            "last_value" => true,
            _ => return None,
        };
        if aggregate.ignore_nulls() || aggregate.is_distinct() {
            return None;
        }
        let direction = direction_of(aggregate.order_bys(), &input, &keys)?;
        let direction = if is_last { reversed(direction) } else { direction };
        if wanted.is_some_and(|wanted| wanted != direction) {
            return None;
        }
        wanted = Some(direction);
        let argument = input.resolved(aggregate.expressions().first()?)?;
        shown.push(argument.downcast_ref::<Column>()?.index());
    }
    let direction = wanted?;
    let time = input.scan.sources().position(|source| *source == Source::Time)?;
    let schema = upper.schema();
    let is_shown = |(own, column): (&Arc<Field>, &usize)| {
        own.data_type() == input.scan.schema().field(*column).data_type()
    };
    if schema.fields().len() != shown.len() || !schema.fields().iter().zip(&shown).all(is_shown) {
        return None;
    }
    let scan = Arc::new(input.scan.by_one_task().per_series(1, direction));
    Some(Arc::new(LatestRows::new(scan, keys, (time, direction), shown, schema)))
}

/// `Filter(row_number <= n)` over a window of tags in the order of time.
fn of_window(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let found = node.downcast_ref::<FilterExec>().and_then(latest_of_window);
    let Some((limit, direction)) = found else { return Ok(None) };
    let limited = node.clone().changed_up(&mut |inner| {
        Ok(match inner.downcast_ref::<MeasurementScan>() {
            Some(scan) => {
                let scan: Arc<dyn ExecutionPlan> = Arc::new(scan.per_series(limit, direction));
                Transformed::yes(scan)
            }
            None => Transformed::no(inner),
        })
    });
    Ok(Some(limited.data()?))
}

fn latest_of_window(filter: &FilterExec) -> Option<(usize, Direction)> {
    let mut below = filter.input();
    let mut projections = Vec::new();
    while let Some(projection) = below.downcast_ref::<ProjectionExec>() {
        projections.push(projection);
        below = projection.input();
    }
    let (windows, mut input) = match below.downcast_ref::<BoundedWindowAggExec>() {
        Some(window) => (window.window_expr(), window.input()),
        None => {
            let window = below.downcast_ref::<WindowAggExec>()?;
            (window.window_expr(), window.input())
        }
    };
    let [window] = windows else { return None };
    if !window.name().to_ascii_lowercase().starts_with("row_number()") {
        return None;
    }
    while let Some(sort) = input.downcast_ref::<SortExec>() {
        if sort.fetch().is_some() {
            return None;
        }
        input = sort.input();
    }
    let width = input.schema().fields().len();
    let input = Input::of(input)?;
    let keys = tags(&input, window.partition_by().iter())?;
    let direction = direction_of(window.order_by(), &input, &keys)?;
    let limit = split_conjunction(filter.predicate()).into_iter().find_map(|condition| {
        let compared = condition.downcast_ref::<BinaryExpr>()?;
        let mut column = compared.left().downcast_ref::<Column>()?.index();
        for projection in &projections {
            column = projection.expr().get(column)?.expr.downcast_ref::<Column>()?.index();
        }
        let value = compared.right().downcast_ref::<Literal>()?.value();
        let number = match value {
            ScalarValue::UInt64(Some(number)) => *number as usize,
            ScalarValue::Int64(Some(number)) => usize::try_from(*number).ok()?,
            _ => return None,
        };
        if column != width {
            return None;
        }
        match compared.op() {
            Operator::LtEq => Some(number),
            Operator::Lt => number.checked_sub(1),
            Operator::Eq => Some(number),
            _ => None,
        }
    })?;
    (1..=ROWS_MAX).contains(&limit).then_some((limit, direction))
}
