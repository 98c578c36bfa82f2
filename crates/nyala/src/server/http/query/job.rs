//! The statements of a request, executed one after the other, and the answer on its way to the client.

use super::super::Context;
use super::super::frames::{Frames, bytes_of, text_bytes};
use super::super::gzip::Packer;
use super::super::pieces::Piece;
use super::super::response::Broken;
use super::super::rooms::Rooms;
use super::PIECES_MAX;
use crate::server::audit::Audit;
use crate::server::format::{Indenter, Writer};
use futures::FutureExt;
use nyala_core::memory::MemoryBudget;
use nyala_query::exec::{Frame, QueryMemory};
use nyala_query::influxql::Statement;
use nyala_query::plan::QueryContext;
use nyala_query::running::{Asked, Query};
use nyala_query::statement::{self, execute};
use std::future::poll_fn;
use std::net::IpAddr;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

/// An answer below this size is sent at once, and an error met before is shown in it.
const BUFFER_BYTES: usize = 1 << 20;
/// From this size on there is likely more to come.
const LONG_BYTES: usize = 256 << 10;
/// The most statements of a request that is answered in place.
const LIGHT_STATEMENTS: usize = 4;
/// What is written between two looks at how much was written: rows, ...
const STRIDE_ROWS: usize = 1_024;
/// ... cells, ...
const STRIDE_CELLS: usize = 64 << 10;
/// ... and bytes of text in them.
const STRIDE_TEXT_BYTES: usize = 256 << 10;
/// Frames of fewer rows are not looked at for what they take.
const FEW_ROWS: usize = 64;
/// Answers below this size are not charged: all connections together cannot hold much in them.
const CHARGED_FROM_BYTES: usize = 64 << 10;
/// Pieces of an answer that may be held at once: those on their way, and one each with the connection, in the making
/// and in the packer.
const PIECES_HELD: usize = PIECES_MAX + 3;

/// Where an answer goes: written, then indented, then packed, then sent.
pub(super) struct Output {
    pub(super) answer: Writer,
    pub(super) indenter: Option<Indenter>,
    pub(super) packer: Option<Packer>,
    pub(super) pieces: mpsc::Sender<Result<Piece, Broken>>,
    /// Charged with what the answer holds back until it is whole, so far `held_bytes`.
    pub(super) held: QueryMemory,
    pub(super) held_bytes: usize,
    /// What the frame takes that is being written.
    pub(super) frame_bytes: usize,
    /// Where long answers are written.
    pub(super) rooms: Arc<Rooms>,
    /// Rows that may still be shown in an answer that is not chunked; `None`: any number.
    pub(super) rows_left: Option<usize>,
}

impl Output {
    /// Charges what an answer holds: what can only be sent when it is whole, which will be there twice when it is put
    /// together, and pieces and rows that a slow client leaves lying.
    fn charge_held(&mut self) -> Result<(), nyala_core::Error> {
        let when_whole_bytes = 2 * self.answer.held_bytes();
        let of_pieces_bytes = match self.answer.len() {
            few_bytes @ 0..BUFFER_BYTES => few_bytes,
            piece_bytes => PIECES_HELD * piece_bytes,
        };
        let held_bytes = when_whole_bytes + of_pieces_bytes + self.frame_bytes;
        if held_bytes <= self.held_bytes.max(CHARGED_FROM_BYTES) {
            return Ok(());
        }
        self.held.charge(held_bytes - self.held_bytes).map_err(|error| match when_whole_bytes {
            0 => error.context("the answer waits for its client"),
            _ => error.context("MessagePack is sent when it is whole (ask for chunked=true, or for JSON)"),
        })?;
        self.held_bytes = held_bytes;
        Ok(())
    }

    /// Sends what was written, if it is much or the last.
    async fn send(&mut self, last: bool) -> Result<(), Stop> {
        if !last && self.answer.len() < BUFFER_BYTES {
            if self.answer.len() >= LONG_BYTES && self.answer.room_bytes() < BUFFER_BYTES {
                self.answer.go_on_in(self.rooms.take());
            }
            return Ok(());
        }
        let mut bytes = self.answer.take(if last { Vec::new() } else { self.rooms.take() });
        if let Some(indenter) = &mut self.indenter {
            let indented = indenter.indent(&bytes);
            self.rooms.give(std::mem::replace(&mut bytes, indented));
        }
        let bytes = match &mut self.packer {
            Some(packer) => {
                let packed = packer.pack(&bytes, last);
                self.rooms.give(bytes);
                packed
            }
            None => self.rooms.lend(bytes),
        };
        self.pieces.send(Ok(Piece { bytes, last })).await.map_err(|_| Stop::ClientGone)
    }
}

/// The statements of a request, to be executed one after the other.
pub(super) struct Job {
    pub(super) statements: Vec<Statement>,
    /// What they are shown as among the queries that run.
    pub(super) asked: Asked,
    pub(super) context: QueryContext,
    pub(super) by_get: bool,
    /// Told of what an operator wants to know, and where it came from.
    pub(super) audit: Arc<Audit>,
    pub(super) client: Option<IpAddr>,
    /// What is said beside the answer of the statement at hand.
    pub(super) hint: Option<String>,
    pub(super) memory_bytes: usize,
    pub(super) memory: Arc<MemoryBudget>,
    /// Where a heavy query is computed.
    pub(super) work: Handle,
    pub(super) output: Output,
}

impl Job {
    /// Answers a light query here and now if its text is short; what waits or takes long goes on in the pool. A query
    /// that panics drops its sender of pieces, which is how the receiver learns of it.
    pub(super) async fn start(self, context: &Context, is_short: bool) {
        let is_select = |statement: &Statement| matches!(statement, Statement::Select(_));
        let may_be_light =
            is_short && self.statements.len() <= LIGHT_STATEMENTS && self.statements.iter().all(is_select);
        let mut running = AssertUnwindSafe(Box::pin(self.run())).catch_unwind();
        if may_be_light && poll_fn(|waker| Poll::Ready(running.poll_unpin(waker))).await.is_ready() {
            return;
        }
        context.work.spawn(running);
    }

    pub(super) async fn run(mut self) {
        let statements = std::mem::take(&mut self.statements);
        let among = self.context.running.clone();
        let asked = std::mem::replace(&mut self.asked, Asked::Named(""));
        match among.enter(asked, &self.context.database, &self.context.rights) {
            Ok(entered) => {
                let query = entered.query();
                self.context.query = Some(query.clone());
                if self.execute_all(statements, &query).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                self.output.answer.begin_statement(0, None);
                self.output.answer.fail_statement(&error.to_string());
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

    async fn execute_all(&mut self, statements: Vec<Statement>, query: &Query) -> Result<(), ClientGone> {
        let count = statements.len();
        for (number, statement) in statements.into_iter().enumerate() {
            let zone = match &statement {
                Statement::Select(select) => select.zone,
                _ => None,
            };
            self.output.answer.begin_statement(number, zone);
            // Of those that change something is something to say afterwards.
            let changes = (!statement::only_reads(&statement)).then(|| statement.clone());
            let executed = self.execute(statement, query).await;
            if let (Ok(()), Some(statement)) = (&executed, &changes) {
                self.audit.executed(
                    statement,
                    &self.context.database,
                    self.context.rights.user_name(),
                    self.client,
                );
            }
            let deprecated = changes.as_ref().filter(|statement| self.by_get && warns_of_get(statement));
            match executed {
                Ok(()) => match (deprecated, self.hint.take()) {
                    (Some(statement), _) => {
                        let statement = statement::in_full(statement, &self.context);
                        self.output.answer.end_statement_with_warning(&format!(
                            "deprecated use of '{statement}' in a read only context, please use a POST request instead"
                        ));
                    }
                    (None, Some(hint)) => self.output.answer.end_statement_with_warning(&hint),
                    (None, None) => self.output.answer.end_statement(),
                },
                Err(Stop::ClientGone) => return Err(ClientGone),
                Err(Stop::Enough) => {
                    self.output.answer.end_statement();
                    break;
                }
                Err(Stop::Refused(error)) => self.output.answer.fail_statement(&error.to_string()),
                Err(Stop::Failed(error)) => {
                    self.fail(number, count, &error.to_string());
                    break;
                }
            }
            // One that cannot be broken off ends, and nothing is executed after it.
            if query.check().is_err() {
                for later in number + 1..count {
                    self.output.answer.begin_statement(later, None);
                    self.output.answer.fail_statement("not executed");
                }
                break;
            }
            // Nothing further would be shown, nor does InfluxDB execute it.
            if self.output.rows_left == Some(0) {
                break;
            }
        }
        Ok(())
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

    async fn execute(&mut self, statement: Statement, query: &Query) -> Result<(), Stop> {
        let memory = QueryMemory::new(self.memory_bytes, &self.memory);
        // Reading stops when nobody waits for it any more; what changes something looks by itself whether it can stop.
        let reads = statement::only_reads(&statement);
        let gone = self.output.pieces.clone();
        let mut stopped = std::pin::pin!(query.stopped());
        let executed = tokio::select! {
            executed = execute(statement, &self.context, memory) => executed?,
            () = gone.closed(), if reads => return Err(Stop::ClientGone),
            error = stopped.as_mut(), if reads => return Err(Stop::Failed(error)),
        };
        match executed {
            statement::Answer::Done => {}
            statement::Answer::Refused(error) => return Err(Stop::Refused(error)),
            statement::Answer::Rows(frames, chunks) => {
                for frame in frames {
                    self.show(&frame, chunks).await?;
                }
            }
            statement::Answer::Stream(stream) => {
                self.hint = stream.hint().map(str::to_owned);
                let mut frames = Frames::of(stream, &self.work, &self.output.held);
                loop {
                    let next = tokio::select! {
                        next = frames.next() => next?,
                        () = gone.closed() => return Err(Stop::ClientGone),
                        error = stopped.as_mut() => return Err(Stop::Failed(error)),
                    };
                    if next.is_empty() {
                        break;
                    }
                    // A client that does not read keeps a query from its end, but not from being stopped.
                    tokio::select! {
                        shown = self.show_all(&next) => shown?,
                        error = stopped.as_mut() => return Err(Stop::Failed(error)),
                    }
                }
            }
        }
        Ok(())
    }

    async fn show_all(&mut self, frames: &[Frame]) -> Result<(), Stop> {
        for frame in frames {
            self.show(frame, statement::Chunks::BySize).await?;
        }
        Ok(())
    }

    async fn show(&mut self, frame: &Frame, chunks: statement::Chunks) -> Result<(), Stop> {
        let rows = frame.rows().min(self.output.rows_left.unwrap_or(usize::MAX));
        // A frame may be larger than a query's share, and yet be shown: that bounds how many are at once.
        self.output.frame_bytes = match frame.rows() {
            0..FEW_ROWS => 0,
            _ => bytes_of(frame).min(self.output.held.limit_bytes() / 2),
        };
        let mut start = frame.span.start;
        let shown_end = start + rows;
        // A frame without rows still shows its columns.
        while start < shown_end || frame.rows() == 0 {
            let end = stride_end(frame, start..shown_end);
            self.output.answer.frame(frame, start..end, chunks);
            self.output.charge_held()?;
            self.output.send(false).await?;
            if end == frame.span.end {
                break;
            }
            start = end;
        }
        if let Some(left) = &mut self.output.rows_left {
            *left -= rows;
            if rows < frame.rows() {
                self.output.answer.cut(frame);
                return Err(Stop::Enough);
            }
        }
        Ok(())
    }
}

/// Where the first stride of some rows ends.
fn stride_end(frame: &Frame, rows: Range<usize>) -> usize {
    let stride_rows = (STRIDE_CELLS / frame.columns.len().max(1)).clamp(1, STRIDE_ROWS);
    let mut end = rows.end.min(rows.start + stride_rows);
    while end > rows.start + 1 && text_bytes(frame, rows.start..end) > STRIDE_TEXT_BYTES {
        end = rows.start.midpoint(end);
    }
    end
}

/// Nobody waits for the answer any more.
struct ClientGone;

/// Why a statement was not finished.
enum Stop {
    ClientGone,
    /// As many rows are shown as may be.
    Enough,
    /// It failed; those after it are executed all the same.
    Refused(nyala_core::Error),
    Failed(nyala_core::Error),
}

impl From<nyala_core::Error> for Stop {
    fn from(error: nyala_core::Error) -> Self {
        Stop::Failed(error)
    }
}

/// Whether InfluxDB warns of asking by GET for a statement that changes something: it forgot DELETE.
fn warns_of_get(statement: &Statement) -> bool {
    !matches!(statement, Statement::Delete(_))
}
