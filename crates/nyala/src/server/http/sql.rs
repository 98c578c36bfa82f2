//! `POST /api/sql`: executes one statement of SQL, and answers with its rows in the form that the client accepts.
//!
//! The statement is the body as it is, or `q` of a form, or `query` of a JSON document, which may have `params` for the
//! parameters `$1`, `$2`, …, and `settings`. `db` names the database whose measurements need no prefix. With `read_only=true`
//! a statement that changes something is refused.
//!
//! A body of Arrow IPC or CSV is rows for the COPY that is `q` of the URL ([`copy`]). `load` and `attempt` of the URL say that what
//! earlier attempts of the same load have sent must be over before ([`load_attempts`]).

mod arrow_stream;
mod copy;
mod load_attempts;

pub use load_attempts::LoadAttempts;

use super::body::{self, DecompressedBody, RequestBody};
use super::body_stream::{AbortedAnswer, Segment};
use super::gzip::{self, Compressor};
use super::output::AnswerReceiver;
use super::response::{Answer, Failure, audited, failure, failure_with, retried_after};
use super::{Context, access, params::Params};
use crate::server::format::push_string;
use futures::FutureExt;
use hyper::header::{ACCEPT, CONTENT_TYPE};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use nyala_core::span::{Instrument, Span};
use nyala_db::changes::{ClientProtocol, RemoteClient};
use nyala_sql::{
    CancelHandle, Outcome, Parameter, RowFormat, RowWriter, Rows, Session, SqlError, SqlResult, SqlState,
    Statement, TEXT_MAX_BYTES,
};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use tokio::sync::mpsc;

/// A longer answer is sent in segments of about this size.
const SEGMENT_BYTES: usize = 1 << 20;
/// Segments that may wait for a slow client before the statement waits too.
const SEGMENTS_MAX: usize = 2;

/// A request as a JSON document.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    query: String,
    #[serde(default, alias = "db")]
    database: Option<String>,
    #[serde(default)]
    params: Vec<Parameter>,
    /// Settings of the session, such as the time zone.
    #[serde(default)]
    settings: BTreeMap<String, String>,
}

pub(super) async fn handle(
    context: &Context,
    head: &Parts,
    incoming: &mut RequestBody,
    client: Option<IpAddr>,
) -> Result<Response<Answer>, Failure> {
    let of_url = Params::parse(head.uri.query().unwrap_or(""));
    // Credentials are checked before the body is read.
    let principal = access::authenticate(context, &of_url, head).await?;
    access::require_administrator_to_exist(&principal)?;
    context.watch.count(head.uri.path(), &head.extensions, &principal);
    let format = accepted(head)?;
    // Before the body is read: nothing of it may come later than what a later attempt sends.
    let attempt = context.load_attempts.begin(principal.user_name(), &of_url).await?;
    let body = body::read_within(TEXT_MAX_BYTES, context, incoming, &head.headers).await?.decompressed()?;
    let has_rows = copy::is_rows(content_type(head));
    let document = match has_rows {
        true => Document { query: of_url.get("q").to_owned(), ..Document::default() }.of_url(&of_url),
        false => document_of(head, &body.bytes, &of_url)?,
    };
    let mut settings = document.settings;
    if of_url.is_true("read_only") {
        settings.insert("default_transaction_read_only".to_owned(), "on".to_owned());
    }
    let sent = has_rows.then_some(body);
    let database = document.database.unwrap_or_default();
    let mut session = Session::open(context.sql()?, principal, &database)
        .from_client(RemoteClient::of(client, ClientProtocol::Http));
    let cancel = CancelOnDrop(Some(session.cancel_handle()));
    let compressed = gzip::is_accepted(&head.headers);
    let (segments, received) = mpsc::channel(SEGMENTS_MAX);
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let work = async move {
        let _attempt = attempt;
        let set = |(name, value): (&String, &String)| session.set(name, value);
        let started = match settings.iter().try_for_each(set) {
            Ok(()) => start(&mut session, &document.query, document.params, format, sent).await,
            Err(error) => Err(error),
        };
        let writing = match started {
            Ok(writing) => writing,
            Err(error) => return drop(begun.send(Err(error))),
        };
        let mut sending =
            OutgoingAnswer { writing, segments, compressor: compressed.then(Compressor::default) };
        let mut begun = Some(begun);
        let written = sending.run(|| begun.take().map_or((), |begun| drop(begun.send(Ok(()))))).await;
        match (written, begun) {
            (Ok(()), _) => {}
            (Err(error), Some(begun)) => drop(begun.send(Err(error))),
            (Err(error), None) => drop(sending.segments.send(Err(AbortedAnswer(error.to_string()))).await),
        }
    };
    context.work.spawn(AssertUnwindSafe(work.instrument(Span::current())).catch_unwind());
    let aborted =
        |_| failure(StatusCode::INTERNAL_SERVER_ERROR, "the statement failed; the server's log says why");
    has_begun.await.map_err(aborted)?.map_err(|error| failed(&error))?;
    cancel.disarm();
    AnswerReceiver::of(received).response(format.media_type(), compressed).await
}

/// Cancels a statement when its client leaves before the answer begins. Later, a segment that cannot be sent ends it.
struct CancelOnDrop(Option<CancelHandle>);

impl CancelOnDrop {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(handle) = &self.0 {
            handle.cancel();
        }
    }
}

/// The form of the answer.
fn accepted(head: &Parts) -> Result<RowFormat, Failure> {
    let headers = head.headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut types =
        headers.flat_map(|value| value.split(',')).map(|part| part.split(';').next().unwrap_or("").trim());
    let mut types = types.by_ref().filter(|part| !part.is_empty()).peekable();
    if types.peek().is_none() {
        return Ok(RowFormat::default());
    }
    types.find_map(RowFormat::of_media_type).ok_or_else(|| {
        let words = "SQL is answered as application/json, application/jsonl, text/csv or \
                     application/vnd.apache.arrow.stream";
        failure(StatusCode::NOT_ACCEPTABLE, words)
    })
}

fn document_of(head: &Parts, body: &[u8], of_url: &Params) -> Result<Document, Failure> {
    let invalid = |words: String| failure(StatusCode::BAD_REQUEST, words);
    let content_type = content_type(head);
    let text = || std::str::from_utf8(body).map_err(|_| invalid("the body is not UTF-8".to_owned()));
    let document = if content_type.starts_with("application/json") {
        serde_json::from_slice(body).map_err(|error| invalid(format!("the body is no request: {error}")))?
    } else if content_type.starts_with("application/x-www-form-urlencoded") && body.starts_with(b"q=") {
        let mut params = Params::parse(text()?);
        Document { query: params.take("q"), ..Document::default() }.of_url(&params)
    } else {
        Document { query: text()?.to_owned(), ..Document::default() }
    };
    Ok(document.of_url(of_url))
}

fn content_type(head: &Parts) -> &str {
    head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("")
}

impl Document {
    /// The same, in the database of the URL unless it names one.
    fn of_url(mut self, params: &Params) -> Self {
        if self.database.is_none() {
            self.database = Some(params.get("db")).filter(|name| !name.is_empty()).map(str::to_owned);
        }
        self
    }
}

/// Begins to execute the statement of a request.
async fn start(
    session: &mut Session,
    text: &str,
    parameters: Vec<Parameter>,
    format: RowFormat,
    sent: Option<DecompressedBody>,
) -> SqlResult<Writing> {
    let mut statements = Statement::parse(text)?;
    let statement = match (statements.pop(), statements.len()) {
        (Some(statement), 0) => statement,
        (None, _) => return Err(SqlError::new(SqlState::SYNTAX_ERROR, "the request has no statement")),
        (Some(_), _) => {
            let words = "a request has one statement: send each in a request of its own";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, words));
        }
    };
    let prepared = session.prepare(statement, &[]).await?;
    let values = prepared.values(&parameters)?;
    let outcome = session.execute(&prepared, values).await?;
    if sent.is_some() && !matches!(outcome, Outcome::CopyIn(_)) {
        let words = "a body of rows needs COPY … FROM STDIN in the parameter q of the URL";
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, words));
    }
    let rows = match outcome {
        Outcome::Rows(rows) => rows,
        Outcome::Done(tag) => Rows::of_command(&tag),
        Outcome::FileOut(out) => {
            let written = nyala_postgres::copy::write_files(*out, session.zone()).await;
            Rows::of_command(&written.map_err(copy::error_of)?)
        }
        Outcome::FileIn(input) => {
            let read = nyala_postgres::copy::read_file(*input, session).await;
            Rows::of_command(&read.map_err(copy::error_of)?)
        }
        Outcome::CopyIn(copying) => match sent {
            Some(sent) => Rows::of_command(&copy::copy_rows(*copying, session, &sent.bytes).await?),
            None => {
                return Err(SqlError::unsupported("COPY FROM STDIN over HTTP without rows").with_hint(
                    "Send the rows as the body, as text/csv or application/vnd.apache.arrow.stream, and the statement as q of the \
                     URL.",
                ));
            }
        },
        Outcome::CopyOut(..) => {
            return Err(SqlError::unsupported("COPY TO STDOUT over HTTP")
                .with_hint("Over HTTP, send SELECT with \"Accept: text/csv\"."));
        }
    };
    let writer = RowWriter::new(format, &rows.schema())?;
    Ok(Writing { rows, writer })
}

/// Rows that are being written.
struct Writing {
    rows: Rows,
    writer: RowWriter,
}

/// An answer that is being sent.
struct OutgoingAnswer {
    writing: Writing,
    segments: mpsc::Sender<Result<Segment, AbortedAnswer>>,
    compressor: Option<Compressor>,
}

impl OutgoingAnswer {
    /// Writes and sends all rows. `begins` is called when the first segment is there: until then an error replaces the
    /// answer.
    async fn run(&mut self, mut begins: impl FnMut()) -> SqlResult<()> {
        loop {
            let Writing { rows, writer } = &mut self.writing;
            let next = tokio::select! {
                next = rows.next() => next?,
                () = self.segments.closed() => return Ok(()),
            };
            let last = next.is_none();
            match next {
                Some(rows) => writer.write(&rows)?,
                None => writer.finish()?,
            }
            if !last && writer.buffer().len() < SEGMENT_BYTES {
                continue;
            }
            let bytes = std::mem::take(writer.buffer());
            let bytes = match &mut self.compressor {
                Some(compressor) => compressor.compress(&bytes, last),
                None => bytes.into(),
            };
            begins();
            if self.segments.send(Ok(Segment { bytes, last })).await.is_err() || last {
                return Ok(());
            }
        }
    }
}

/// The response to a statement that failed: its code, position and hint stand beside the message. The session has written to the audit
/// log what may not be executed.
fn failed(error: &SqlError) -> Failure {
    let mut members = Vec::new();
    let mut add = |name: &str, text: &str| {
        members.extend_from_slice(format!(",\"{name}\":").as_bytes());
        push_string(&mut members, text);
    };
    add("code", error.code.0);
    error.detail.iter().for_each(|detail| add("detail", detail));
    error.hint.iter().for_each(|hint| add("hint", hint));
    error.context.iter().for_each(|context| add("context", context));
    if let Some(position) = error.position {
        members.extend_from_slice(format!(",\"position\":{position}").as_bytes());
    }
    let status = match error.retry_after_seconds {
        Some(_) => StatusCode::TOO_MANY_REQUESTS,
        None => status_of(error.code),
    };
    audited(retried_after(failure_with(status, &error.message, &members), error.retry_after_seconds))
}

fn status_of(code: SqlState) -> StatusCode {
    match code {
        SqlState::INSUFFICIENT_PRIVILEGE => StatusCode::FORBIDDEN,
        SqlState::UNSUPPORTED => StatusCode::NOT_IMPLEMENTED,
        SqlState::UNKNOWN_DATABASE => StatusCode::NOT_FOUND,
        SqlState::UNIQUE_VIOLATION | SqlState::SERIALIZATION_FAILURE => StatusCode::CONFLICT,
        SqlState(code) if code.starts_with("54") => StatusCode::UNPROCESSABLE_ENTITY,
        SqlState::OUT_OF_MEMORY | SqlState::CONFIGURATION_LIMIT_EXCEEDED => StatusCode::UNPROCESSABLE_ENTITY,
        SqlState::TOO_FEW_RESOURCES | SqlState::DISK_FULL | SqlState::NOT_NOW => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        SqlState(code) if ["57", "58", "XX"].contains(&&code[..2]) => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::BAD_REQUEST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nyala_exec::running::RunningQueries;
    use std::sync::Arc;

    #[test]
    fn an_answered_request_keeps_nothing_of_its_session() {
        let running = Arc::new(RunningQueries::default());
        CancelOnDrop(Some(CancelHandle::new(&running))).disarm();
        assert_eq!(Arc::strong_count(&running), 1);
    }
}
