//! `POST /api/backup` makes a copy of the store in the data directory, from which `nyala backup` takes a backup.
//! `DELETE /api/backup?name=…` removes it when that is done; `bytes` and `new_bytes` say what the backup has, and are missing
//! if there is none. `read=true`: the copy was read for a move, and was not meant to become a backup. Only administrators may do this.

use super::params::Params;
use super::response::{Answer, Failure, empty, failure, status_of, with_body};
use super::{Context, access};
use crate::server::copies::Ended;
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use nyala_core::{Error, ErrorKind};
use serde_json::json;
use std::net::IpAddr;

pub(super) async fn handle(
    context: &Context,
    head: &Parts,
    client: Option<IpAddr>,
) -> Result<Response<Answer>, Failure> {
    let (principal, of_url) = access::administrator(context, head).await?;
    context.watch.count(head.uri.path(), &head.extensions, &principal);
    let user = principal.user_name();
    match head.method {
        Method::POST => make(context, user, client).await,
        _ => end(context, &of_url, user, client).await,
    }
}

async fn make(
    context: &Context,
    user: Option<&str>,
    client: Option<IpAddr>,
) -> Result<Response<Answer>, Failure> {
    let copies = context.databases()?.copies.clone();
    let (sender, receiver) = tokio::sync::oneshot::channel();
    context.work.spawn_blocking(move || {
        if let Err(Ok((place, _))) = sender.send(copies.make()) {
            // The client has left meanwhile. If the copy cannot be removed now, it is later.
            let _ = copies.end(&place.name, Ended::GivenUp);
        }
    });
    let (place, copied) = receiver.await.map_err(|_| panicked())?.map_err(|error| failed(&error))?;
    context.audit.backup("begun", &place.name, user, client);
    let directory = std::path::absolute(&place.dir).map_err(|error| failed(&error.into()))?;
    let body = json!({
        "name": place.name,
        "directory": directory,
        "time_ns": copied.time_ns,
        "sequence": copied.sequence,
        "rowsets": copied.rowsets,
        "bytes": copied.bytes,
    });
    Ok(with_body(StatusCode::CREATED, "application/json", body.to_string() + "\n"))
}

async fn end(
    context: &Context,
    of_url: &Params,
    user: Option<&str>,
    client: Option<IpAddr>,
) -> Result<Response<Answer>, Failure> {
    let copies = context.databases()?.copies.clone();
    let name = of_url.get("name").to_owned();
    let (ended, what) = match (of_url.get("read"), of_url.get("bytes")) {
        ("true", _) => (Ended::Read, "read"),
        (_, "") => (Ended::GivenUp, "given up"),
        _ => {
            let (bytes, new_bytes) = (number(of_url, "bytes")?, number(of_url, "new_bytes")?);
            (Ended::Finished { bytes, new_bytes }, "finished")
        }
    };
    context.audit.backup(what, &name, user, client);
    let ended = context.work.spawn_blocking(move || copies.end(&name, ended)).await;
    ended.map_err(|_| panicked())?.map_err(|error| failed(&error))?;
    Ok(empty(StatusCode::NO_CONTENT))
}

fn number(of_url: &Params, name: &str) -> Result<u64, Failure> {
    let text = of_url.get(name);
    text.parse().map_err(|_| failure(StatusCode::BAD_REQUEST, format!("{name} is no number: {text:?}")))
}

fn failed(error: &Error) -> Failure {
    let status = match error.kind() {
        ErrorKind::Conflict => StatusCode::CONFLICT,
        _ => status_of(error),
    };
    failure(status, error.to_string())
}

fn panicked() -> Failure {
    failure(StatusCode::INTERNAL_SERVER_ERROR, "the copy failed; the server's log says why")
}
