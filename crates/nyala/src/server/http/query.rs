//! `GET` and `POST /query`: executes InfluxQL, and answers in the format that the client asks for.

mod job;
mod parse;
mod past;

use super::body::{self, Body, BodyCharge, RequestBody};
use super::gzip;
use super::output::{Output, OutputOptions};
use super::response::{Answer, Failure, empty, failed, failure, indented};
use super::{Context, access, multipart, params::Params};
use crate::server::format::{Epoch, Format, JsonOptions, writer_of};
use hyper::header::{CONTENT_TYPE, HeaderMap};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use job::Job;
use nyala_core::span::Instrument;
use nyala_core::store::Freshness;
use nyala_core::{ErrorKind, span};
use nyala_db::users::Principal;
use nyala_exec::QueryMemory;
use nyala_query::influxql;
use nyala_query::statement::SubmittedQuery;
use parse::QueryText;
use std::net::IpAddr;

/// The longest form: a query of the greatest length with every byte escaped, and some more.
const FORM_MAX_BYTES: usize = 4 * influxql::MAXIMUM_LENGTH;
/// Rows of a chunk when `chunk_size` is missing.
const DEFAULT_CHUNK_ROWS: usize = 10_000;

pub(super) async fn handle(
    context: &Context,
    head: &Parts,
    incoming: &mut RequestBody,
    freshness: Freshness,
    format: Format,
    client: Option<IpAddr>,
) -> Result<Response<Answer>, Failure> {
    let of_url = Params::parse(head.uri.query().unwrap_or(""));
    let pretty = of_url.is_true("pretty");
    let answered = async {
        // Credentials are checked before the body is read.
        let principal = access::authenticate(context, &of_url, head).await?;
        context.watch.count(head.uri.path(), &head.extensions, &principal);
        let (params, _held) = match head.method {
            Method::POST => read_form(context, &head.headers, incoming, of_url).await?,
            _ => (of_url, None),
        };
        let answer_format = AnswerFormat { format, pretty };
        answer(context, head, params, freshness, answer_format, principal, client).await
    };
    answered.await.map_err(|failure| if pretty { indented(failure) } else { failure })
}

/// The format of an answer.
#[derive(Clone, Copy)]
struct AnswerFormat {
    format: Format,
    /// Whether JSON is indented.
    pretty: bool,
}

/// The parameters of a form and a URL, and the charge for the form.
async fn read_form(
    context: &Context,
    headers: &HeaderMap,
    incoming: &mut RequestBody,
    of_url: Params,
) -> Result<(Params, Option<BodyCharge>), Failure> {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let boundary = multipart::boundary(content_type);
    let limit_bytes = context.limits.body_bytes.min(FORM_MAX_BYTES);
    let form = body::read_within(limit_bytes, context, incoming, headers).await?;
    // Bodies of other types are ignored; influxdb-python sends `Content-Encoding: gzip` without a body.
    if boundary.is_none() && !content_type.starts_with("application/x-www-form-urlencoded") {
        return Ok((of_url, None));
    }
    if form.can_parse_inline() {
        return params_of(form, boundary, of_url);
    }
    let boundary = boundary.map(str::to_owned);
    let params = context.work.spawn(async move { params_of(form, boundary.as_deref(), of_url) });
    let broken = |_| failure(StatusCode::INTERNAL_SERVER_ERROR, "the request was aborted");
    params.await.map_err(broken)?
}

fn params_of(
    form: Body,
    boundary: Option<&str>,
    of_url: Params,
) -> Result<(Params, Option<BodyCharge>), Failure> {
    let mut form = form.decompressed()?;
    form.charge.grow(form.bytes.len()).map_err(body::refused)?;
    let params = match boundary {
        Some(boundary) => {
            let mut params = of_url;
            multipart::read(&form.bytes, boundary, &mut params);
            params
        }
        None => {
            let mut params = Params::parse(&String::from_utf8_lossy(&form.bytes));
            params.add_all(of_url);
            params
        }
    };
    Ok((params, Some(form.charge)))
}

/// The moment of the past that a request asks for, ns.
fn moment_of(params: &Params) -> Result<Option<i64>, Failure> {
    let text = params.get("as_of").trim();
    if text.is_empty() {
        return Ok(None);
    }
    let time = influxql::parse_time(text, None).map(|time| time.unix_ns);
    let unix_ns = time.or_else(|| text.parse().ok()).and_then(|unix_ns| i64::try_from(unix_ns).ok());
    unix_ns.map(Some).ok_or_else(|| {
        let words = "as_of must be a time, such as 2026-01-31T12:00:00Z, or nanoseconds since 1970";
        failure(StatusCode::BAD_REQUEST, words)
    })
}

async fn answer(
    context: &Context,
    head: &Parts,
    mut params: Params,
    freshness: Freshness,
    answer_format: AnswerFormat,
    principal: Principal,
    client: Option<IpAddr>,
) -> Result<Response<Answer>, Failure> {
    let text = QueryText::of(&params)?;
    let moment_ns = moment_of(&params)?;
    let databases = context.databases()?;
    let held = QueryMemory::of(&principal, context.limits.query_bytes, &databases.memory);
    let is_short = text.is_short();
    let statements = text.statements(context, &principal, &held).await?;
    let chunk_rows = params.is_true("chunked").then(|| {
        params.get("chunk_size").parse().ok().filter(|rows| *rows > 0).unwrap_or(DEFAULT_CHUNK_ROWS)
    });
    let options = JsonOptions { epoch: Epoch::of_parameter(params.get("epoch").trim()), chunk_rows };
    let compressed = gzip::is_accepted(&head.headers);
    let output_options = OutputOptions {
        indented: answer_format.pretty && answer_format.format == Format::Json,
        compressed,
        rows_max: Some(context.limits.rows).filter(|rows| *rows > 0 && chunk_rows.is_none()),
    };
    let writer = writer_of(answer_format.format, options);
    let (output, received) =
        Output::of(writer, &output_options, held, databases.answer_buffers.clone(), &context.work);
    let (database, policy) = (params.get("db").to_owned(), params.get("rp").to_owned());
    let mut query = context.query(databases, database, policy, principal);
    query.around.freshness = freshness;
    if let Some(moment_ns) = moment_ns {
        // Everything but where INTO writes to.
        let catalog = databases.catalog.clone();
        let opened = context.work.spawn(past::catalog_at(catalog, moment_ns)).await;
        let broken = |_| failure(StatusCode::INTERNAL_SERVER_ERROR, "the request was aborted");
        let refused = |error: nyala_core::Error| failure(StatusCode::BAD_REQUEST, error.to_string());
        query.around.catalog = opened.map_err(broken)?.map_err(refused)?;
    }
    let submitted = SubmittedQuery { query: params.take("q"), values: params.take("params") };
    let entered = context.running.enter(move || submitted.shown(), &query.database, &query.principal);
    let entered = match entered {
        Err(error) if error.kind() == ErrorKind::Throttled => return Err(failed(&error)),
        entered => entered,
    };
    let job = Job {
        statements,
        entered,
        context: query,
        by_get: head.method == Method::GET,
        reads_only: params.is_true("read_only"),
        audit: context.audit.clone(),
        client,
        hint: None,
        change: None,
        memory_bytes: context.limits.query_bytes,
        memory: databases.memory.clone(),
        output,
    };
    if params.is_true("async") {
        context.work.spawn(job.run().instrument(span!("execute")));
        context.work.spawn(received.ignore());
        return Ok(empty(StatusCode::NO_CONTENT));
    }
    job.start(context, is_short).await;
    received.response(answer_format.format.content_type(), compressed).await
}
