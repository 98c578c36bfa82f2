//! The parts of InfluxDB 2's API that 1.x offers, beside `/api/v2/write`: deleting points, and retention policies of
//! databases as buckets, `database[/policy]`. Organisations are ignored.
//!
//! All changes are made by InfluxQL statements, so that rights and effects are the same. Rights are checked before
//! anything is read or looked up, so that answers do not show others what exists.

pub(super) mod buckets;
pub(super) mod delete;
mod deletion;

use super::Context;
use super::body::{self, RequestBody};
use super::response::{Failure, failed, failure};
use hyper::StatusCode;
use hyper::header::HeaderMap;
use nyala_db::users::Principal;
use nyala_exec::QueryMemory;
use nyala_query::influxql::Statement;
use nyala_query::statement::{self, authorize, execute};
use serde::de::DeserializeOwned;
use std::net::IpAddr;

/// The longest document that is read. A predicate names at most one series, whose key has up to 64 KiB, so a longer
/// document cannot match anything. Shorter ones are parsed by the thread that received them.
const DOCUMENT_MAX_BYTES: usize = 256 << 10;

/// Parses the body of a request; `what` names it in an error.
async fn document<T: DeserializeOwned>(
    context: &Context,
    incoming: &mut RequestBody,
    headers: &HeaderMap,
    what: &str,
) -> Result<T, Failure> {
    let body = body::read_within(DOCUMENT_MAX_BYTES, context, incoming, headers).await?.decompressed()?;
    serde_json::from_slice(&body.bytes).map_err(|error| invalid(format!("{what}: {error}")))
}

/// Executes a statement that has no rows as its result.
async fn perform(
    context: &Context,
    (principal, client): (&Principal, Option<IpAddr>),
    database: &str,
    statement: Statement,
) -> Result<(), Failure> {
    let statements = [statement];
    authorize(&statements, principal, database)
        .map_err(|words| failure(StatusCode::FORBIDDEN, format!("error authorizing query: {words}")))?;
    let databases = context.databases()?;
    let query = context.query(databases, database.to_owned(), String::new(), principal.clone());
    let memory = QueryMemory::of(principal, context.limits.query_bytes, &databases.memory);
    let executed = context.work.spawn(async move {
        let answer = execute(statements[0].clone(), &query, memory).await;
        (answer, statements)
    });
    let broken = |_| failure(StatusCode::INTERNAL_SERVER_ERROR, "the request was aborted");
    let (answer, [statement]) = executed.await.map_err(broken)?;
    match answer {
        Ok(statement::Answer::Refused(error)) | Err(error) => Err(failed(&error)),
        Ok(answer) => {
            let change = match answer {
                statement::Answer::Changed(_, change) => change,
                _ => None,
            };
            context.audit.executed(&statement, database, principal.user_name(), client, change);
            Ok(())
        }
    }
}

fn invalid(words: String) -> Failure {
    failure(StatusCode::BAD_REQUEST, words)
}
