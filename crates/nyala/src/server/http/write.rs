//! `POST /write`, `/api/v2/write` and `/api/v1/prom/write`: writes points.

use super::body::{self, RequestBody};
use super::prometheus::{self, Lines};
use super::response::{Answer, Failure, empty, failed, failure, failure_with, status_of};
use super::{Context, access, params::Params};
use crate::server::format::push_string;
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use nyala_core::span::{Instrument, Span};
use nyala_core::{Error, ErrorKind};
use nyala_db::ingest::{LineLimits, ParseErrors, ParseOptions, Precision};
use nyala_db::quoted;
use nyala_db::users::Principal;
use nyala_db::write::{LineWriter, WriteReport};

/// The header that says of a refused write how many of its points are stored all the same.
const POINTS_WRITTEN: &str = "x-nyala-points-written";
/// The most rejected lines that an answer describes.
const DETAILS_MAX: usize = 100;

/// Where points are written, and the unit of their times.
struct WriteTarget {
    database: String,
    policy: String,
    precision: Precision,
}

/// The protocol of a write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// `/write`
    V1,
    /// `/api/v2/write`
    V2,
    /// `/api/v1/prom/write`
    Prometheus,
}

impl WriteTarget {
    fn of(params: &Params, protocol: Protocol) -> Result<Self, Failure> {
        let text = params.get("precision");
        let (precision, units) = match (protocol, text) {
            // The lines that are made of samples have times in nanoseconds.
            (Protocol::Prometheus, _) | (Protocol::V2, "" | "ns") => (Some(Precision::Nanosecond), ""),
            (Protocol::V2, "us") => (Some(Precision::Microsecond), ""),
            (Protocol::V2, "ms") => (Some(Precision::Millisecond), ""),
            (Protocol::V2, "s") => (Some(Precision::Second), ""),
            (Protocol::V2, _) => (None, "ns, us, ms or s"),
            (Protocol::V1, text) => (Precision::from_parameter(text), "n, u, ms, s, m or h"),
        };
        let precision = precision.ok_or_else(|| {
            let words = format!("invalid precision {} (use {units})", quoted(text));
            failure(StatusCode::BAD_REQUEST, words)
        })?;
        let (database, policy) = match protocol {
            Protocol::V2 => bucket(params.get("bucket"))?,
            Protocol::V1 | Protocol::Prometheus => (params.get("db"), params.get("rp")),
        };
        Ok(Self { database: database.into(), policy: policy.into(), precision })
    }
}

/// Database and retention policy of a bucket: `database[/policy]`.
pub(super) fn bucket(text: &str) -> Result<(&str, &str), Failure> {
    let refused =
        |words: &str| Err(failure(StatusCode::NOT_FOUND, format!("bucket name {} {words}", quoted(text))));
    match text.split_once('/') {
        None if text.is_empty() => refused("is missing a slash; not in \"database/retention-policy\" format"),
        None => Ok((text, "")),
        Some(("", _)) => refused("is in db/rp form but has an empty database"),
        Some(place) => Ok(place),
    }
}

/// Writes the points in the body of a request.
pub(super) async fn handle(
    context: &Context,
    head: &Parts,
    incoming: &mut RequestBody,
    protocol: Protocol,
) -> Result<Response<Answer>, Failure> {
    let databases = context.databases()?;
    let (principal, WriteTarget { database, policy, precision }) = check(context, head, protocol).await?;
    let body = body::read(context, incoming, &head.headers).await?;
    let (now_ns, limits) = (context.clock.now_ns(), LineLimits::default());
    let options = ParseOptions { precision, now_ns, limits, series_max: principal.series_max() };
    let writer = databases.writer.clone();
    let limit_bytes = context.limits.body_bytes;
    // Decompressing and parsing take long, so the thread pool does both and leaves the threads of connections free.
    let request = Span::current();
    let write = async move {
        let mut body = body.decompressed()?;
        let of_prometheus = match protocol {
            Protocol::V1 | Protocol::V2 => None,
            Protocol::Prometheus => {
                let own_tables = writer.catalog().own_tables(&database, &policy);
                let lines = Lines::of(&body.bytes, limit_bytes, own_tables, &mut body.charge);
                Some(lines.map_err(prometheus::refused)?)
            }
        };
        let lines_bytes = of_prometheus.as_ref().map_or(body.bytes.len(), Lines::len);
        // Parsed lines take about as much memory again, and so does their record for the log.
        body.charge.grow(lines_bytes.saturating_mul(2)).map_err(body::refused)?;
        let written = match &of_prometheus {
            None => writer.write(&database, &policy, options, &body.bytes).await,
            Some(lines) => write_samples(&writer, &database, &policy, options, lines).await,
        };
        if let Ok(report) = &written {
            principal.has_written(report.written, body.bytes.len() as u64);
        }
        Ok::<_, Failure>(written)
    };
    let aborted = |_| failure(StatusCode::INTERNAL_SERVER_ERROR, "the write was aborted");
    let written = context.work.spawn(write.instrument(request)).await.map_err(aborted)??;
    match written {
        Ok(report) => answer(&report),
        Err(error) => Err(failure(write_status(&error), error.to_string())),
    }
}

async fn write_samples(
    writer: &LineWriter,
    database: &str,
    policy: &str,
    options: ParseOptions,
    lines: &Lines,
) -> Result<WriteReport, Error> {
    let mut report = WriteReport::default();
    if !lines.of_group.is_empty() {
        report = writer.write_samples(database, policy, options, lines.of_group.as_bytes()).await?;
    }
    if !lines.of_tables.is_empty() {
        report.add(writer.write(database, policy, options, lines.of_tables.as_bytes()).await?);
    }
    Ok(report)
}

/// Checks all that can be known before the body is read: credentials, target, rights.
async fn check(
    context: &Context,
    head: &Parts,
    protocol: Protocol,
) -> Result<(Principal, WriteTarget), Failure> {
    let params = Params::parse(head.uri.query().unwrap_or(""));
    let principal = access::authenticate(context, &params, head).await?;
    context.watch.count(head.uri.path(), &head.extensions, &principal);
    let target = WriteTarget::of(&params, protocol)?;
    let database = &target.database;
    if database.is_empty() {
        return Err(failure(StatusCode::BAD_REQUEST, "database is required"));
    }
    let catalog = &context.databases()?.catalog;
    if catalog.database(database).is_none() {
        // Another server may just have created it.
        super::follow(context).await?;
    }
    if catalog.database(database).is_none() {
        return Err(failure(StatusCode::NOT_FOUND, format!("database not found: {}", quoted(database))));
    }
    access::check_write(&principal, database)?;
    let consistency = params.get("consistency").to_ascii_lowercase();
    if !matches!(&*consistency, "" | "any" | "one" | "quorum" | "all") {
        return Err(failure(StatusCode::BAD_REQUEST, "invalid consistency level"));
    }
    if protocol == Protocol::Prometheus {
        prometheus::check_message(&head.headers)?;
    }
    principal.admit_write().map_err(|error| failed(&error))?;
    Ok((principal, target))
}

/// Clients drop a batch on any 4xx and send it again on 5xx. An unknown retention policy is 500, as in InfluxDB.
fn write_status(error: &Error) -> StatusCode {
    match error.kind() {
        ErrorKind::Missing if error.message().starts_with("retention policy") => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
        ErrorKind::Limit => StatusCode::INTERNAL_SERVER_ERROR,
        _ => status_of(error),
    }
}

fn answer(report: &WriteReport) -> Result<Response<Answer>, Failure> {
    match report.complaint() {
        None => Ok(empty(StatusCode::NO_CONTENT)),
        Some(message) => {
            let mut failure = failure_with(StatusCode::BAD_REQUEST, &message, &details(&report.unreadable));
            failure.headers_mut().insert(POINTS_WRITTEN, report.written.into());
            Err(failure)
        }
    }
}

/// Describes rejected lines for people and programs: `,"refused":n,"lines":[…]`.
fn details(errors: &ParseErrors) -> Vec<u8> {
    let mut out = Vec::new();
    if errors.is_empty() {
        return out;
    }
    out.extend_from_slice(format!(",\"refused\":{},\"lines\":[", errors.count()).as_bytes());
    for (position, error) in errors.details().iter().take(DETAILS_MAX).enumerate() {
        if position > 0 {
            out.push(b',');
        }
        let place = format!("{{\"line\":{},\"column\":{},\"expected\":", error.line, error.column);
        out.extend_from_slice(place.as_bytes());
        push_string(&mut out, error.kind.expected());
        out.push(b'}');
    }
    out.push(b']');
    out
}
