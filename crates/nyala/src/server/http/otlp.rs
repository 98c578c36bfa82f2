//! `POST /v1/metrics`: metrics of OpenTelemetry (OTLP over HTTP, `docs/inputs.md`).
//!
//! Failures, too, are in the form of the request, as the protocol says: a status of protocol buffers, or one in JSON. Exporters
//! send again after 429, 502, 503 and 504, and drop what gets another failure.

use super::body::{self, RequestBody};
use super::params::Params;
use super::request_lines::{RequestLines, reason_of, refused};
use super::response::{Answer, Failure, failed, failure, in_form, with_body};
use super::{Context, access};
use crate::server::received::{PointLines, Reason, Writer};
use hyper::header::CONTENT_TYPE;
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use nyala_core::Error;
use nyala_inputs::otlp::{Refusals, read_binary, read_json};
use prost::Message;

/// The form of a request and of its answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Binary,
    Json,
}

impl Form {
    fn of(head: &Parts) -> Option<Self> {
        let text = head.headers.get(CONTENT_TYPE)?.to_str().ok()?;
        let kind = text.split(';').next().unwrap_or_default().trim();
        match kind {
            _ if kind.eq_ignore_ascii_case("application/x-protobuf") => Some(Form::Binary),
            _ if kind.eq_ignore_ascii_case("application/json") => Some(Form::Json),
            _ => None,
        }
    }

    fn content_type(self) -> &'static str {
        match self {
            Form::Binary => "application/x-protobuf",
            Form::Json => "application/json",
        }
    }

    fn answer(self, refused: i64, words: String) -> Response<Answer> {
        let body = match (self, refused) {
            (Form::Json, 0) => b"{}".to_vec(),
            // Numbers of 64 bits are texts in JSON of protocol buffers.
            (Form::Json, refused) => serde_json::json!({
                "partialSuccess": { "rejectedDataPoints": refused.to_string(), "errorMessage": words }
            })
            .to_string()
            .into_bytes(),
            (Form::Binary, _) => {
                let partial = PartialSuccess { rejected_data_points: refused, error_message: words };
                ExportResponse { partial_success: (refused > 0).then_some(partial) }.encode_to_vec()
            }
        };
        with_body(StatusCode::OK, self.content_type(), body)
    }

    /// The status that stands for a failure.
    fn status(self, words: &str) -> Vec<u8> {
        match self {
            Form::Json => serde_json::json!({ "message": words }).to_string().into_bytes(),
            Form::Binary => Status { message: words.to_owned() }.encode_to_vec(),
        }
    }
}

#[derive(Clone, PartialEq, Message)]
struct ExportResponse {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<PartialSuccess>,
}

#[derive(Clone, PartialEq, Message)]
struct PartialSuccess {
    #[prost(int64, tag = "1")]
    rejected_data_points: i64,
    #[prost(string, tag = "2")]
    error_message: String,
}

/// `google.rpc.Status`
#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(string, tag = "2")]
    message: String,
}

/// Writes the data points of a request.
pub(super) async fn handle(
    context: &Context,
    head: &Parts,
    incoming: &mut RequestBody,
) -> Result<Response<Answer>, Failure> {
    let Some(form) = Form::of(head) else {
        let words = "the content type is neither application/x-protobuf nor application/json";
        return Err(failure(StatusCode::UNSUPPORTED_MEDIA_TYPE, words));
    };
    let exported = export(context, head, incoming, form).await;
    exported.map_err(|failure| in_form(failure, form.content_type(), |words| form.status(words)))
}

async fn export(
    context: &Context,
    head: &Parts,
    incoming: &mut RequestBody,
    form: Form,
) -> Result<Response<Answer>, Failure> {
    let writer = context.otlp.clone().ok_or_else(|| {
        failure(StatusCode::NOT_FOUND, "metrics of OpenTelemetry are not taken: otlp-database is not set")
    })?;
    let params = Params::parse(head.uri.query().unwrap_or(""));
    let principal = access::authenticate(context, &params, head).await?;
    access::check_write(&principal, &writer.destination.database)?;
    principal.admit_write().map_err(|error| failed(&error))?;
    let body = body::read(context, incoming, &head.headers).await?;
    let (line_writer, limit_bytes) = (context.databases()?.writer.clone(), context.limits.body_bytes);
    let now_ns = context.clock.now_ns();
    // Decompressing and parsing take long, so the thread pool does both and leaves the threads of connections free.
    let written = context.work.spawn(async move {
        let mut body = body.decompressed()?;
        writer.counts.receive(body.bytes.len());
        let mut lines = RequestLines::of(&mut body.charge, limit_bytes);
        let read = read_lines(&mut lines, form, &body.bytes, now_ns, &writer);
        let refusals = read.map_err(|error| {
            writer.counts.reject(reason_of(&error), 1);
            refused(&error)
        })?;
        let PointLines { text, points } = lines.into_lines().map_err(body::refused)?;
        let written =
            writer.write(&line_writer, now_ns, text.as_bytes(), points, principal.series_max()).await;
        let report = written.map_err(|error| {
            writer.counts.reject(Reason::WriteFailed, points);
            failed(&error)
        })?;
        principal.has_written(report.written, body.bytes.len() as u64);
        let not_stored = points.saturating_sub(report.written) + refusals.data_points;
        let words = [report.complaint().unwrap_or_default(), refusals.words];
        let words: Vec<&str> = words.iter().map(String::as_str).filter(|words| !words.is_empty()).collect();
        Ok(form.answer(i64::try_from(not_stored).unwrap_or(i64::MAX), words.join("; ")))
    });
    written.await.map_err(|_| failure(StatusCode::INTERNAL_SERVER_ERROR, "the write was aborted"))?
}

/// Makes lines of a request. Returns which data points are none.
fn read_lines(
    lines: &mut RequestLines<'_>,
    form: Form,
    body: &[u8],
    now_ns: i64,
    writer: &Writer,
) -> Result<Refusals, Error> {
    let counts = &writer.counts;
    let mut unnamed = Refusals::default();
    let mut take = |point: nyala_inputs::Point<'_>| {
        if let Some(refused) = lines.add(Ok(point), now_ns, counts)? {
            unnamed.data_points += 1;
            unnamed.words = refused.to_string();
        }
        Ok(())
    };
    let mut refusals = match form {
        Form::Binary => read_binary(body, &mut take)?,
        Form::Json => read_json(body, &mut take)?,
    };
    counts.reject(Reason::NotANumber, refusals.not_a_number);
    counts.reject(Reason::Unreadable, refusals.data_points - refusals.not_a_number);
    refusals.data_points += unnamed.data_points;
    if refusals.words.is_empty() {
        refusals.words = unnamed.words;
    }
    Ok(refusals)
}
