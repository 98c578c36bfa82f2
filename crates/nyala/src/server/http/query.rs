//! `GET` and `POST /query`: InfluxQL in, an answer in the format asked for out.

use super::gzip::{self, Packer};
use super::response::{Answer, Broken, Failure, empty, failure, prettily, whole};
use super::{Context, access, body, multipart, params::Params};
use crate::server::format::{Epoch, Format, Indenter, JsonOptions, Writer};
use bytes::Bytes;
use futures::FutureExt;
use hyper::body::Incoming;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use nyala_core::memory::MemoryBudget;
use nyala_db::users::Rights;
use nyala_query::exec::{Frame, QueryMemory};
use nyala_query::influxql::{self, Statement};
use nyala_query::plan::QueryContext;
use nyala_query::statement::{self, execute};
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::mpsc;

/// An answer below this size is sent at once, and an error met before is shown in it.
const BUFFER_BYTES: usize = 1 << 20;
/// The most statements of a request that is answered in place.
const LIGHT_STATEMENTS: usize = 4;
/// Pieces on their way to a slow client before the query waits for it.
const PIECES_MAX: usize = 4;
/// Rows of a chunk where none are asked for.
const DEFAULT_CHUNK_ROWS: usize = 10_000;
/// Rows written between two looks at how much was written.
const STRIDE_ROWS: usize = 1_024;

pub(super) async fn handle(
    context: &Context,
    request: Request<Incoming>,
    format: Format,
) -> Result<Response<Answer>, Failure> {
    let (head, incoming) = request.into_parts();
    let of_url = Params::parse(head.uri.query().unwrap_or(""));
    let pretty = of_url.is_true("pretty");
    let answered = async {
        // Before anything of the body is read.
        let rights = access::rights_of(context, &of_url, &head.headers).await?;
        let params = match head.method {
            Method::POST => read_form(context, &head.headers, incoming, of_url).await?,
            _ => of_url,
        };
        answer(context, &head.method, &head.headers, &params, Shape { format, pretty }, rights).await
    };
    answered.await.map_err(|failure| if pretty { prettily(failure) } else { failure })
}

/// How an answer is to look.
#[derive(Clone, Copy)]
struct Shape {
    format: Format,
    /// Whether JSON is indented.
    pretty: bool,
}

async fn read_form(
    context: &Context,
    headers: &HeaderMap,
    incoming: Incoming,
    of_url: Params,
) -> Result<Params, Failure> {
    let form = body::read(context, incoming, headers).await?.unpacked()?;
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    if let Some(boundary) = multipart::boundary(content_type) {
        let mut params = of_url;
        multipart::read(&form, boundary, &mut params);
        return Ok(params);
    }
    if !content_type.starts_with("application/x-www-form-urlencoded") {
        return Ok(of_url);
    }
    let mut params = Params::parse(&String::from_utf8_lossy(&form));
    params.add_all(of_url);
    Ok(params)
}

async fn answer(
    context: &Context,
    method: &Method,
    headers: &HeaderMap,
    params: &Params,
    shape: Shape,
    rights: Rights,
) -> Result<Response<Answer>, Failure> {
    let text = params.get("q").trim();
    if text.is_empty() {
        return Err(failure(StatusCode::BAD_REQUEST, "missing required parameter \"q\""));
    }
    let bound = match params.get("params") {
        "" => influxql::Params::default(),
        json => influxql::Params::from_json(json).map_err(|error| failure(StatusCode::BAD_REQUEST, error))?,
    };
    let statements = influxql::parse_query(text, &bound)
        .map_err(|error| failure(StatusCode::BAD_REQUEST, format!("error parsing query: {error}")))?;
    statement::authorize(&statements, &rights, params.get("db"))
        .map_err(|words| failure(StatusCode::FORBIDDEN, format!("error authorizing query: {words}")))?;
    let chunk_rows = params.is_true("chunked").then(|| {
        params.get("chunk_size").parse().ok().filter(|rows| *rows > 0).unwrap_or(DEFAULT_CHUNK_ROWS)
    });
    let options = JsonOptions { epoch: Epoch::of_parameter(params.get("epoch").trim()), chunk_rows };
    let packed = gzip::is_accepted(headers);
    let (pieces, mut received) = mpsc::channel(PIECES_MAX);
    let databases = context.databases()?;
    let job = Job {
        statements,
        context: QueryContext {
            catalog: databases.catalog.clone(),
            writer: databases.writer.clone(),
            database: params.get("db").to_owned(),
            retention_policy: params.get("rp").to_owned(),
            now_ns: context.clock.now_ns(),
            rights,
        },
        by_get: *method == Method::GET,
        memory_bytes: context.limits.query_bytes,
        memory: databases.memory.clone(),
        output: Output {
            answer: Writer::new(shape.format, options),
            indenter: (shape.pretty && shape.format == Format::Json).then(Indenter::default),
            packer: packed.then(Packer::default),
            pieces,
            held: QueryMemory::new(context.limits.query_bytes, &context.databases()?.memory),
            held_bytes: 0,
        },
    };
    if params.is_true("async") {
        context.work.spawn(job.run());
        context.work.spawn(async move { while received.recv().await.is_some() {} });
        return Ok(empty(StatusCode::NO_CONTENT));
    }
    job.start(context).await;
    // The first piece comes when the answer is whole, or too large to wait for.
    let first = match received.recv().await {
        Some(Ok(first)) => first,
        Some(Err(broken)) => return Err(failure(StatusCode::INTERNAL_SERVER_ERROR, broken.0)),
        None => {
            let words = "the query failed; the server's log says why";
            return Err(failure(StatusCode::INTERNAL_SERVER_ERROR, words));
        }
    };
    let content_type = shape.format.content_type();
    let mut response = if first.last {
        whole(StatusCode::OK, content_type, first.bytes)
    } else {
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
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        response
    };
    if packed {
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    Ok(response)
}

/// A part of an answer.
struct Piece {
    bytes: Bytes,
    last: bool,
}

/// Where an answer goes: written, then indented, then packed, then sent.
struct Output {
    answer: Writer,
    indenter: Option<Indenter>,
    packer: Option<Packer>,
    pieces: mpsc::Sender<Result<Piece, Broken>>,
    /// Charged with what the answer holds back until it is whole, so far `held_bytes`.
    held: QueryMemory,
    held_bytes: usize,
}

impl Output {
    /// Charges what can only be sent when the answer is whole: it will be there twice when it is put together.
    fn charge_held(&mut self) -> Result<(), nyala_core::Error> {
        let held_bytes = 2 * self.answer.held_bytes();
        if held_bytes <= self.held_bytes {
            return Ok(());
        }
        self.held.charge(held_bytes - self.held_bytes).map_err(|error| {
            error.context("MessagePack is sent when it is whole (ask for chunked=true, or for JSON)")
        })?;
        self.held_bytes = held_bytes;
        Ok(())
    }

    /// Sends what was written, if it is much or the last.
    async fn send(&mut self, last: bool) -> Result<(), Stop> {
        if !last && self.answer.len() < BUFFER_BYTES {
            return Ok(());
        }
        let mut bytes = self.answer.take();
        if let Some(indenter) = &mut self.indenter {
            bytes = indenter.indent(&bytes);
        }
        let bytes = match &mut self.packer {
            Some(packer) => packer.pack(&bytes, last),
            None => bytes.into(),
        };
        self.pieces.send(Ok(Piece { bytes, last })).await.map_err(|_| Stop::ClientGone)
    }
}

/// The statements of a request, to be executed one after the other.
struct Job {
    statements: Vec<Statement>,
    context: QueryContext,
    by_get: bool,
    memory_bytes: usize,
    memory: Arc<MemoryBudget>,
    output: Output,
}

impl Job {
    /// Answers a light query here and now; what waits or takes long goes on in the pool. A query that panics drops
    /// its sender of pieces, which is how the receiver learns of it.
    async fn start(self, context: &Context) {
        let is_select = |statement: &Statement| matches!(statement, Statement::Select(_));
        let may_be_light = self.statements.len() <= LIGHT_STATEMENTS && self.statements.iter().all(is_select);
        let mut running = AssertUnwindSafe(Box::pin(self.run())).catch_unwind();
        if may_be_light && poll_fn(|waker| Poll::Ready(running.poll_unpin(waker))).await.is_ready() {
            return;
        }
        context.work.spawn(running);
    }

    async fn run(mut self) {
        let statements = std::mem::take(&mut self.statements);
        for (number, statement) in statements.iter().enumerate() {
            let zone = match statement {
                Statement::Select(select) => select.zone,
                _ => None,
            };
            self.output.answer.begin_statement(number, zone);
            match self.execute(statement).await {
                Ok(()) if self.by_get && warns_of_get(statement) => {
                    let statement = statement::in_full(statement, &self.context);
                    self.output.answer.end_statement_with_warning(&format!(
                        "deprecated use of '{statement}' in a read only context, please use a POST request instead"
                    ));
                }
                Ok(()) => self.output.answer.end_statement(),
                Err(Stop::ClientGone) => return,
                Err(Stop::Refused(error)) => self.output.answer.fail_statement(&error.to_string()),
                Err(Stop::Failed(error)) => {
                    self.fail(number, statements.len(), &error.to_string());
                    break;
                }
            }
        }
        self.output.answer.finish();
        if let Some(words) = self.output.answer.broken() {
            // Rows are on their way, so the only honest end is to break off.
            let broken = Broken(words.to_owned());
            drop(self.output.pieces.send(Err(broken)).await);
            return;
        }
        drop(self.output.send(true).await);
    }

    /// Answers statement `number` with an error and names those that are not executed: InfluxDB counts them from
    /// the failed one on, whose own error is thereby lost unless the answer is chunked.
    fn fail(&mut self, number: usize, statements: usize, message: &str) {
        let answer = &mut self.output.answer;
        let not_executed = "not executed";
        let names_itself = !answer.is_chunked() && number + 1 < statements;
        answer.fail_statement(if names_itself { not_executed } else { message });
        let first = if names_itself { number + 1 } else { number };
        for later in first..statements - 1 {
            answer.begin_statement(later, None);
            answer.fail_statement(not_executed);
        }
    }

    async fn execute(&mut self, statement: &Statement) -> Result<(), Stop> {
        let memory = QueryMemory::new(self.memory_bytes, &self.memory);
        // Reading stops when nobody waits for it any more; what changes something goes on to its end.
        let reads = matches!(statement, Statement::Select(select) if select.target.is_none());
        let gone = self.output.pieces.clone();
        let executed = tokio::select! {
            executed = execute(statement, &self.context, memory) => executed?,
            () = gone.closed(), if reads => return Err(Stop::ClientGone),
        };
        match executed {
            statement::Answer::Done => {}
            statement::Answer::Refused(error) => return Err(Stop::Refused(error)),
            statement::Answer::Rows(frames, chunks) => {
                for frame in frames {
                    self.show(&frame, chunks).await?;
                }
            }
            statement::Answer::Stream(mut stream) => loop {
                let next = tokio::select! {
                    next = stream.next() => next?,
                    () = gone.closed() => return Err(Stop::ClientGone),
                };
                let Some(frame) = next else { break };
                self.show(&frame, statement::Chunks::BySize).await?;
            },
        }
        Ok(())
    }

    async fn show(&mut self, frame: &Frame, chunks: statement::Chunks) -> Result<(), Stop> {
        let mut start = 0;
        loop {
            let end = frame.rows().min(start + STRIDE_ROWS);
            self.output.answer.frame(frame, start..end, chunks);
            self.output.charge_held()?;
            self.output.send(false).await?;
            if end == frame.rows() {
                return Ok(());
            }
            start = end;
        }
    }
}

/// Why a statement was not finished.
enum Stop {
    ClientGone,
    /// It failed; those after it are executed all the same.
    Refused(nyala_core::Error),
    Failed(nyala_core::Error),
}

impl From<nyala_core::Error> for Stop {
    fn from(error: nyala_core::Error) -> Self {
        Stop::Failed(error)
    }
}

/// Whether a statement changes something and InfluxDB warns of asking for it by GET: it forgot DELETE.
fn warns_of_get(statement: &Statement) -> bool {
    match statement {
        Statement::Select(select) => select.target.is_some(),
        Statement::Explain { .. } | Statement::Delete(_) => false,
        other => !format!("{other}").starts_with("SHOW"),
    }
}
