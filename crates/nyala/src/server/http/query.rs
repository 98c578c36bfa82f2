//! `GET` and `POST /query`: InfluxQL in, JSON out.

use super::response::{Answer, Broken, Failure, failure, whole};
use super::{Context, body, params::Params};
use crate::server::format::json::indented;
use crate::server::format::{Epoch, JsonAnswer, JsonOptions};
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use nyala_query::exec::QueryMemory;
use nyala_query::influxql::{self, Statement};
use nyala_query::plan::QueryContext;
use nyala_query::statement::{self, execute};
use tokio::sync::mpsc;

/// An answer below this size is sent at once, and an error met before is shown in it.
const BUFFER_BYTES: usize = 1 << 20;
/// Pieces on their way to a slow client before the query waits for it.
const PIECES_MAX: usize = 4;
/// Rows of a chunk where none are asked for.
const DEFAULT_CHUNK_ROWS: usize = 10_000;

pub(super) async fn handle(
    context: &Context,
    request: Request<Incoming>,
) -> Result<Response<Answer>, Failure> {
    let (head, incoming) = request.into_parts();
    let mut params = Params::parse(head.uri.query().unwrap_or(""));
    if head.method == Method::POST {
        let form = body::read(incoming, &head.headers, context.limits.body_bytes).await?;
        if is_form(&head.headers) {
            params.add(&String::from_utf8_lossy(&form));
        }
    }
    let text = params.get("q").trim();
    if text.is_empty() {
        return Err(failure(StatusCode::BAD_REQUEST, "missing required parameter \"q\""));
    }
    let bound = match params.get("params") {
        "" => influxql::Params::default(),
        json => influxql::Params::from_json(json).map_err(|error| {
            failure(StatusCode::BAD_REQUEST, format!("error parsing query parameters: {error}"))
        })?,
    };
    let statements = influxql::parse_query(text, &bound)
        .map_err(|error| failure(StatusCode::BAD_REQUEST, format!("error parsing query: {error}")))?;
    let chunk_rows = params.is_true("chunked").then(|| {
        params.get("chunk_size").parse().ok().filter(|rows| *rows > 0).unwrap_or(DEFAULT_CHUNK_ROWS)
    });
    let job = Job {
        statements,
        context: QueryContext {
            catalog: context.databases()?.catalog.clone(),
            database: params.get("db").to_owned(),
            retention_policy: params.get("rp").to_owned(),
            now_ns: context.clock.now_ns(),
        },
        options: JsonOptions { epoch: Epoch::of_parameter(params.get("epoch")), chunk_rows },
        by_get: head.method == Method::GET,
        memory_bytes: context.limits.query_bytes,
    };
    let pretty = params.is_true("pretty");
    let (pieces, mut received) = mpsc::channel(PIECES_MAX);
    let running = context.work.spawn(job.run(pieces));
    // The first piece comes when the answer is whole, or too large to wait for.
    let first = match received.recv().await {
        Some(Ok(first)) => first,
        Some(Err(broken)) => return Err(failure(StatusCode::INTERNAL_SERVER_ERROR, broken.0)),
        None => {
            let outcome = running.await;
            let words =
                if outcome.is_err() { "the query failed; the server's log says why" } else { "no answer" };
            return Err(failure(StatusCode::INTERNAL_SERVER_ERROR, words));
        }
    };
    if first.last || pretty {
        let mut bytes = first.bytes;
        if !first.last {
            let mut all = bytes.to_vec();
            while let Some(piece) = received.recv().await {
                match piece {
                    Ok(piece) => all.extend_from_slice(&piece.bytes),
                    Err(broken) => return Err(failure(StatusCode::INTERNAL_SERVER_ERROR, broken.0)),
                }
            }
            bytes = all.into();
        }
        if pretty {
            bytes = indented(&bytes).into();
        }
        return Ok(whole(StatusCode::OK, "application/json", bytes));
    }
    let (sender, pieces) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut next = Some(Ok(first));
        while let Some(piece) = next {
            let piece = piece.map(|piece: Piece| piece.bytes);
            if sender.send(piece).await.is_err() {
                break;
            }
            next = received.recv().await;
        }
    });
    let mut response = Response::new(Answer::Pieces(pieces));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

fn is_form(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    content_type.starts_with("application/x-www-form-urlencoded")
}

/// A part of an answer.
struct Piece {
    bytes: Bytes,
    last: bool,
}

/// The statements of a request, to be executed one after the other.
struct Job {
    statements: Vec<Statement>,
    context: QueryContext,
    options: JsonOptions,
    by_get: bool,
    memory_bytes: usize,
}

impl Job {
    async fn run(self, pieces: mpsc::Sender<Result<Piece, Broken>>) {
        let mut answer = JsonAnswer::new(self.options);
        let mut failed = false;
        for (number, statement) in self.statements.iter().enumerate() {
            let zone = match statement {
                Statement::Select(select) => select.zone,
                _ => None,
            };
            answer.begin_statement(number, zone);
            // After an error the statements that follow are not executed.
            if failed {
                answer.end_statement_with_error("not executed");
                continue;
            }
            match self.execute(statement, &mut answer, &pieces).await {
                Ok(()) if self.by_get && writes(statement) => answer.end_statement_with_warning(&format!(
                    "deprecated use of '{statement}' in a read only context, please use a POST request instead"
                )),
                Ok(()) => answer.end_statement(),
                Err(Stop::ClientGone) => return,
                Err(Stop::Failed(error)) if !answer.has_shown() => {
                    failed = true;
                    answer.end_statement_with_error(&error.to_string());
                }
                Err(Stop::Failed(error)) => {
                    // Rows are on their way, so the only honest end is to break off.
                    drop(pieces.send(Err(Broken(error.to_string()))).await);
                    return;
                }
            }
        }
        answer.finish();
        drop(pieces.send(Ok(Piece { bytes: answer.take().into(), last: true })).await);
    }

    async fn execute(
        &self,
        statement: &Statement,
        answer: &mut JsonAnswer,
        pieces: &mpsc::Sender<Result<Piece, Broken>>,
    ) -> Result<(), Stop> {
        let memory = QueryMemory::new(self.memory_bytes);
        match execute(statement, &self.context, memory).await? {
            statement::Answer::Done => {}
            statement::Answer::Rows(frames) => frames.iter().for_each(|frame| answer.frame(frame)),
            statement::Answer::Stream(mut stream) => {
                while let Some(frame) = stream.next().await? {
                    answer.frame(&frame);
                    if answer.len() >= BUFFER_BYTES {
                        let piece = Piece { bytes: answer.take().into(), last: false };
                        pieces.send(Ok(piece)).await.map_err(|_| Stop::ClientGone)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Why a statement was not finished.
enum Stop {
    ClientGone,
    Failed(nyala_core::Error),
}

impl From<nyala_core::Error> for Stop {
    fn from(error: nyala_core::Error) -> Self {
        Stop::Failed(error)
    }
}

fn writes(statement: &Statement) -> bool {
    match statement {
        Statement::Select(select) => select.target.is_some(),
        Statement::Explain { .. } => false,
        other => !format!("{other}").starts_with("SHOW"),
    }
}
