//! What of InfluxDB 2's interface 1.x has for its clients, beside `/api/v2/write`: deleting points, and databases with
//! their retention policies as buckets, `database[/policy]`. Organisations are ignored.
//!
//! All of it is done by statements, so that rights and effects are those of InfluxQL. Rights are judged before anything
//! is read or looked up, so that nobody learns what there is from how the answer differs.

pub(super) mod buckets;
pub(super) mod deletion;

use super::Context;
use super::body::{self, Incoming};
use super::response::{Failure, failure, status_of};
use hyper::StatusCode;
use hyper::header::HeaderMap;
use nyala_core::Error;
use nyala_db::users::Rights;
use nyala_exec::QueryMemory;
use nyala_query::influxql::Statement;
use nyala_query::statement::{self, authorize, execute};
use serde::de::DeserializeOwned;

/// The longest document that is read. A predicate names one series at most, whose key has 64 KiB; so what is longer
/// asks for nothing that there is, and what is not is parsed where it came.
const DOCUMENT_MAX_BYTES: usize = 256 << 10;

/// The body of a request as what it says; `what` names it where it says something else.
async fn document<T: DeserializeOwned>(
    context: &Context,
    incoming: &mut Incoming,
    headers: &HeaderMap,
    what: &str,
) -> Result<T, Failure> {
    let body = body::read_within(DOCUMENT_MAX_BYTES, context, incoming, headers).await?.unpacked()?;
    serde_json::from_slice(&body.bytes).map_err(|error| invalid(format!("{what}: {error}")))
}

/// Executes a statement that shows nothing.
async fn perform(
    context: &Context,
    rights: &Rights,
    database: &str,
    statement: Statement,
) -> Result<(), Failure> {
    let statements = [statement];
    authorize(&statements, rights, database)
        .map_err(|words| failure(StatusCode::FORBIDDEN, format!("error authorizing query: {words}")))?;
    let databases = context.databases()?;
    let query = context.query(databases, database.to_owned(), String::new(), rights.clone());
    let memory = QueryMemory::new(context.limits.query_bytes, &databases.memory);
    let executed = context.work.spawn(async move {
        let answer = execute(statements[0].clone(), &query, memory).await;
        (answer, statements)
    });
    let broken = |_| failure(StatusCode::INTERNAL_SERVER_ERROR, "the request was broken off");
    let (answer, [statement]) = executed.await.map_err(broken)?;
    match answer {
        Ok(statement::Answer::Refused(error)) | Err(error) => Err(failed(&error)),
        Ok(_) => {
            context.audit.executed(&statement, database, rights.user_name(), None);
            Ok(())
        }
    }
}

fn failed(error: &Error) -> Failure {
    failure(status_of(error), error.to_string())
}

fn invalid(words: String) -> Failure {
    failure(StatusCode::BAD_REQUEST, words)
}
