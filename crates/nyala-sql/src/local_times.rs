//! Applies the session's time zone, as PostgreSQL does. A `timestamptz` that is cast to a date, time of day or text, truncated
//! or taken apart shows that zone's local time. A text or date without a zone is a local time of that zone.
//!
//! Stored times have Arrow's zone UTC, so the argument is first cast to the session's zone. A result that is a time gets its
//! old type back.

use crate::walk::{Walk, WalkPlan, read_schema};
use arrow_schema::DataType;
use datafusion::common::ExprSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::functions::datetime::to_local_time;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, cast};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

/// Evaluates expressions in the zone of the session.
#[derive(Debug)]
pub(crate) struct LocalTimes;

impl AnalyzerRule for LocalTimes {
    fn analyze(&self, plan: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
        let zone = options.execution.time_zone.as_deref().unwrap_or("UTC");
        if is_utc(zone) {
            return Ok(plan);
        }
        let zone: Arc<str> = zone.into();
        let done = plan.changed_up_with_subqueries(&mut |node| {
            let schema = read_schema(&node);
            let names = NamePreserver::new(&node);
            node.with_changed_expressions(&mut |expression| {
                let name = names.save(&expression);
                let local = expression.changed_up(&mut |inner| localized(inner, &zone, &schema))?;
                Ok(local.update_data(|expression| name.restore(expression)))
            })
        })?;
        Ok(done.data)
    }

    fn name(&self) -> &str {
        "local_times"
    }
}

/// The same for one expression.
pub(crate) fn with_local_times(expression: Expr, schema: &dyn ExprSchema, zone: &str) -> Result<Expr> {
    if is_utc(zone) {
        return Ok(expression);
    }
    let zone: Arc<str> = zone.into();
    Ok(expression.changed_up(&mut |inner| localized(inner, &zone, schema))?.data)
}

/// Whether times of a zone are those of UTC.
pub(crate) fn is_utc(zone: &str) -> bool {
    matches!(zone, "UTC" | "Etc/UTC" | "+00:00" | "GMT")
}

fn localized(expression: Expr, zone: &Arc<str>, schema: &dyn ExprSchema) -> Result<Transformed<Expr>> {
    let with_zone = |unit| DataType::Timestamp(unit, Some(zone.clone()));
    // The unit of a time with another zone.
    let unit_of = |own: &DataType| match own {
        DataType::Timestamp(unit, Some(other)) if other != zone => Some(*unit),
        _ => None,
    };
    match expression {
        Expr::Cast(mut own) => {
            // An operand of unknown type is left alone.
            let Ok(from) = own.expr.get_type(schema) else { return Ok(Transformed::no(Expr::Cast(own))) };
            let to = own.field.data_type();
            if let (DataType::Timestamp(unit, Some(_)), DataType::Timestamp(_, None)) = (&from, to) {
                // A cast would show the clock of UTC.
                own.expr = Box::new(to_local_time().call(vec![cast(*own.expr, with_zone(*unit))]));
                return Ok(Transformed::yes(Expr::Cast(own)));
            }
            let is_plain = |own: &DataType| {
                own.is_string()
                    || matches!(own, DataType::Date32 | DataType::Date64 | DataType::Timestamp(_, None))
            };
            let unit = match (unit_of(&from), unit_of(to)) {
                (Some(unit), _)
                    if is_plain(to) || matches!(to, DataType::Time32(_) | DataType::Time64(_)) =>
                {
                    unit
                }
                (_, Some(unit)) if is_plain(&from) => unit,
                _ => return Ok(Transformed::no(Expr::Cast(own))),
            };
            own.expr = Box::new(cast(*own.expr, with_zone(unit)));
            Ok(Transformed::yes(Expr::Cast(own)))
        }
        // An interval adds calendar days and months of the session's zone.
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Plus | Operator::Minus), right }) => {
            let of = |own: &Expr| own.get_type(schema).ok();
            let is_interval = |own: &Expr| matches!(of(own), Some(DataType::Interval(_)));
            let zoned = |own: &Expr| of(own).and_then(|own| Some((unit_of(&own)?, own)));
            let (left, right, given) = match (zoned(&left), zoned(&right)) {
                (Some((unit, given)), _) if is_interval(&right) => {
                    (cast(*left, with_zone(unit)), *right, given)
                }
                (_, Some((unit, given))) if is_interval(&left) => {
                    (*left, cast(*right, with_zone(unit)), given)
                }
                _ => return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right }))),
            };
            let sum = Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op, right: Box::new(right) });
            Ok(Transformed::yes(cast(sum, given)))
        }
        Expr::ScalarFunction(mut call) => {
            let place = match call.name() {
                "date_trunc" | "date_part" | "extract" => 1,
                "to_char" | "date_format" => 0,
                _ => return Ok(Transformed::no(Expr::ScalarFunction(call))),
            };
            let given = call.args.get(place).and_then(|own| own.get_type(schema).ok());
            let Some((unit, given)) = given.and_then(|own| Some((unit_of(&own)?, own))) else {
                return Ok(Transformed::no(Expr::ScalarFunction(call)));
            };
            call.args[place] = cast(call.args[place].clone(), with_zone(unit));
            let is_time = call.name() == "date_trunc";
            let called = Expr::ScalarFunction(call);
            Ok(Transformed::yes(if is_time { cast(called, given) } else { called }))
        }
        other => Ok(Transformed::no(other)),
    }
}
