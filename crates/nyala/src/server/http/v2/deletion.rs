//! Which points a request of `/api/v2/delete` means: its times and its predicate, as a condition of InfluxQL.

use nyala_core::{Error, Result};
use nyala_query::influxql::{
    Binary, BinaryOperator, Deletion, Expr, Measurement, MeasurementName, Regex, TimeLiteral, parse_expr,
    parse_time,
};
use serde::Deserialize;

/// Which points are deleted.
#[derive(Deserialize)]
pub(super) struct DeleteRequest {
    start: String,
    stop: String,
    #[serde(default)]
    predicate: String,
}

/// The points of a policy that a request means.
pub(super) fn deletion(request: &DeleteRequest, policy: String) -> Result<Deletion> {
    let (mut measurement, mut tags) = (None, None);
    if !request.predicate.trim().is_empty() {
        let predicate = parse_expr(&request.predicate);
        let predicate = predicate.map_err(|error| Error::invalid(format!("predicate: {error}")))?;
        tags = tags_of(predicate, &mut measurement)?;
    }
    let name = match measurement {
        Some(name) => MeasurementName::Name(name),
        None => MeasurementName::Regex(Regex::new("").map_err(Error::invalid)?),
    };
    let source = Measurement { database: None, retention_policy: Some(policy), name };
    Ok(Deletion { sources: vec![source], condition: both(Some(times(request)?), tags) })
}

/// The time range in which points are deleted, as a condition.
fn times(request: &DeleteRequest) -> Result<Expr> {
    let time = |name: &str, text: &str| {
        parse_time(text, None).filter(|_| text.contains('T')).ok_or_else(|| {
            Error::invalid(format!(
                "invalid {name} time {text:?}: a time in RFC 3339 is needed, such as 2026-01-02T03:04:05Z"
            ))
        })
    };
    let bound = |operator, time: TimeLiteral| Expr::binary(operator, Expr::var("time"), Expr::Time(time));
    let first = bound(BinaryOperator::GreaterOrEqual, time("start", &request.start)?);
    let last = bound(BinaryOperator::LessOrEqual, time("stop", &request.stop)?);
    Ok(Expr::binary(BinaryOperator::And, first, last))
}

fn both(left: Option<Expr>, right: Option<Expr>) -> Option<Expr> {
    match (left, right) {
        (Some(left), Some(right)) => Some(Expr::binary(BinaryOperator::And, left, right)),
        (left, right) => left.or(right),
    }
}

/// The conditions of a predicate on tags; its measurement is stored separately. The parsed tree is reused, so it does
/// not get deeper.
fn tags_of(predicate: Expr, measurement: &mut Option<String>) -> Result<Option<Expr>> {
    match predicate {
        Expr::Paren(inner) => tags_of(*inner, measurement),
        Expr::Binary(binary) if binary.op == BinaryOperator::And => {
            let Binary { lhs, rhs, .. } = *binary;
            Ok(both(tags_of(lhs, measurement)?, tags_of(rhs, measurement)?))
        }
        other => {
            let (key, value) = pair(&other)?;
            if key != "_measurement" {
                let equal = Expr::binary(BinaryOperator::Equal, Expr::var(key), Expr::String(value));
                return Ok(Some(equal));
            }
            match measurement.replace(value) {
                Some(_) => Err(Error::invalid("predicate: a point is in one _measurement only")),
                None => Ok(None),
            }
        }
    }
}

/// `key="value"`: a predicate may only be such pairs joined by AND.
fn pair(expr: &Expr) -> Result<(String, String)> {
    let refused = |expr: &Expr| {
        Err(Error::invalid(format!(
            "predicate: {expr} is not supported: only key=\"value\" joined by AND is"
        )))
    };
    let Expr::Binary(binary) = expr else { return refused(expr) };
    match (&binary.lhs, binary.op, &binary.rhs) {
        (Expr::VarRef(key), _, _) if key.is_time() || key.name == "_field" => refused(expr),
        // Values are in double quotes here, which InfluxQL uses for names.
        (Expr::VarRef(key), BinaryOperator::Equal, Expr::VarRef(value)) => {
            Ok((key.name.clone(), value.name.clone()))
        }
        (Expr::VarRef(key), BinaryOperator::Equal, Expr::String(value)) => {
            Ok((key.name.clone(), value.clone()))
        }
        _ => refused(expr),
    }
}
