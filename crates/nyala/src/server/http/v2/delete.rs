//! `POST /api/v2/delete`: points of a bucket by time, measurement and tags.

use super::super::body::RequestBody;
use super::super::response::{Answer, Failure, empty};
use super::super::write::bucket;
use super::super::{Context, access, params::Params};
use super::deletion::{DeleteRequest, deletion};
use super::{document, failed, perform};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use nyala_query::influxql::Statement;
use std::net::IpAddr;

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
