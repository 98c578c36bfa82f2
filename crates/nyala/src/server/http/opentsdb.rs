//! OpenTSDB's `POST /api/put`: points in JSON. It has a port of its own, which takes lines, too (`server/inputs/opentsdb.rs`).
//! Nobody logs in there, as in InfluxDB.

use super::body::{self, RequestBody};
use super::host_origin::Rejection;
use super::request_lines::{self, RequestLines};
use super::response::{Answer, Failure, TrackedBody, empty, failed, failure};
use super::{Context, TEXT, rejected, with_body, without_sniffing};
use crate::server::connection_limit::ConnectionPermit;
use crate::server::format::Format;
use crate::server::received::{Reason, Writer};
use hyper::body::Incoming;
use hyper::header::{ALLOW, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use nyala_inputs::opentsdb::read_json;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

/// Answers a request.
pub(in crate::server) async fn answer(
    context: Arc<Context>,
    writer: Writer,
    request: Request<Incoming>,
    client: IpAddr,
    permit: Arc<ConnectionPermit>,
) -> Result<Response<TrackedBody>, Infallible> {
    let Some(active) = permit.begin_request() else {
        // The connection is being closed.
        return std::future::pending().await;
    };
    let (head, incoming) = request.into_parts();
    let mut incoming = RequestBody::new(incoming, permit);
    let answered = check_and_route(&context, writer, &head, &mut incoming).await;
    let response =
        answered.unwrap_or_else(|rejection| rejected(&context, rejection, Format::Json, Some(client)));
    body::discard(&mut incoming, &head.headers).await;
    Ok(response.map(|answer| TrackedBody { answer, _active: active }))
}

/// Answers a request, unless a page of another site made a browser send it.
async fn check_and_route(
    context: &Context,
    writer: Writer,
    head: &Parts,
    incoming: &mut RequestBody,
) -> Result<Response<Answer>, Rejection> {
    context.allowed_sites.check_host(head, true)?;
    context.allowed_sites.check_origin(head)?;
    Ok(match head.uri.path() {
        "/api/put" if head.method == Method::POST => {
            put(context, writer, head, incoming).await.unwrap_or_else(|failure| *failure)
        }
        "/api/put" => {
            let words = "Method Not Allowed\n";
            let mut refused = without_sniffing(with_body(StatusCode::METHOD_NOT_ALLOWED, TEXT, words));
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
            refused
        }
        // Nothing is kept of it, as in InfluxDB.
        "/api/metadata/put" => empty(StatusCode::NO_CONTENT),
        _ => without_sniffing(with_body(StatusCode::NOT_FOUND, TEXT, "404 page not found\n")),
    })
}

/// Writes the points of a body before it answers.
async fn put(
    context: &Context,
    writer: Writer,
    head: &Parts,
    incoming: &mut RequestBody,
) -> Result<Response<Answer>, Failure> {
    let body = body::read(context, incoming, &head.headers).await?;
    let now_ns = context.clock.now_ns();
    let (line_writer, limit_bytes) = (context.databases()?.writer.clone(), context.limits.body_bytes);
    // Parsing takes long, so the thread pool does it and leaves the thread of the inputs free.
    let written = context.work.spawn(async move {
        let mut body = body.decompressed()?;
        writer.counts.receive(body.bytes.len());
        let (mut lines, mut refused, mut unwritable) =
            (RequestLines::of(&mut body.charge, limit_bytes), None, None);
        let read = read_json(&body.bytes, |point| {
            if unwritable.is_some() {
                return;
            }
            match lines.add(point, now_ns, &writer.counts) {
                Ok(why) => refused = refused.or(why),
                Err(error) => unwritable = Some(error),
            }
        });
        if let Err(words) = read {
            writer.counts.reject(Reason::Unreadable, 1);
            return Err(failure(StatusCode::BAD_REQUEST, format!("json decode error: {words}")));
        }
        if let Some(error) = unwritable {
            writer.counts.reject(request_lines::reason_of(&error), 1);
            return Err(request_lines::refused(&error));
        }
        let lines = lines.into_lines().map_err(body::refused)?;
        let written = writer.write(&line_writer, now_ns, lines.text.as_bytes(), lines.points, None).await;
        let report = written.map_err(|error| {
            writer.counts.reject(Reason::WriteFailed, lines.points);
            failed(&error)
        })?;
        let refused = refused.map(|refused| format!("a point is left out: {refused}"));
        match report.complaint().or(refused) {
            Some(words) => Err(failure(StatusCode::BAD_REQUEST, words)),
            None => Ok(empty(StatusCode::NO_CONTENT)),
        }
    });
    written.await.map_err(|_| failure(StatusCode::INTERNAL_SERVER_ERROR, "the write was aborted"))?
}
