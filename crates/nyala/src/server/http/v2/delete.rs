//! `POST /api/v2/delete`: points of a bucket by time, measurement and tags.

use super::super::body::RequestBody;
use super::super::response::{Answer, Failure, empty};
use super::super::write::bucket;
use super::super::{Context, access, params::Params};
use super::{document, failed, perform};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use nyala_core::{Error, Result as CoreResult};
use nyala_query::influxql::{
    Binary, BinaryOperator, Deletion, Expr, Measurement, MeasurementName, Regex, Statement, TimeLiteral,
    parse_expr, parse_time,
};
use serde::Deserialize;
use std::net::IpAddr;

/// Which points are deleted.
#[derive(Deserialize)]
struct DeleteRequest {
    start: String,
    stop: String,
    #[serde(default)]
    predicate: String,
}

pub(in super::super) async fn handle(
    context: &Context,
    head: &Parts,
    incoming: &mut RequestBody,
    client: Option<IpAddr>,
) -> Result<Response<Answer>, Failure> {
    let params = Params::parse(head.uri.query().unwrap_or(""));
    let principal = access::authenticate(context, &params, head).await?;
    let (database, policy) = bucket(params.get("bucket"))?;
    access::check_write(&principal, database)?;
    let request: DeleteRequest = document(context, incoming, &head.headers, "delete").await?;
    let database_entry =
        context.databases()?.catalog.existing_database(database).map_err(|error| failed(&error))?;
    let policy = database_entry.existing_policy(policy).map_err(|error| failed(&error))?.name.clone();
    let deletion = deletion(&request, policy).map_err(|error| failed(&error))?;
    perform(context, (&principal, client), database, Statement::Delete(deletion)).await?;
    Ok(empty(StatusCode::NO_CONTENT))
}

fn deletion(request: &DeleteRequest, policy: String) -> CoreResult<Deletion> {
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
fn times(request: &DeleteRequest) -> CoreResult<Expr> {
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
fn tags_of(predicate: Expr, measurement: &mut Option<String>) -> CoreResult<Option<Expr>> {
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
fn pair(expr: &Expr) -> CoreResult<(String, String)> {
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
