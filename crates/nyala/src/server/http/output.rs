//! Sends the answer of a query to its client: frames of columns are written as text, indented, compressed and sent in
//! segments. This works for every query language.
//!
//! A light query is answered by the thread that received it. A query that waits or takes long is moved to the thread
//! pool ([`start`]), where the next frames are computed while the last ones are written (`nyala_exec::frames`). The
//! answer charges what it holds back until it is complete, and what a slow client has not read yet. A query ends at its
//! next step when its client disconnects or when it is killed.

use super::Context;
use super::body_stream::{AbortedAnswer, BodyStream, Segment};
use super::buffer_pool::BufferPool;
use super::gzip::Compressor;
use super::response::{Answer, Failure, failure, with_body};
use crate::server::format::{Indenter, ResultWriter};
use futures::FutureExt;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use nyala_core::Error;
use nyala_exec::running::Query;
use nyala_exec::{Chunks, Frame, FrameStream, Frames, QueryMemory};
use std::future::poll_fn;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

/// Segments that may wait for a slow client before the query waits too.
const SEGMENTS_MAX: usize = 2;
/// A shorter answer is sent as a whole, so that an error replaces it. Longer ones are sent in segments of this size.
const BUFFER_BYTES: usize = 1 << 20;
/// An answer of this size will probably become long, so it continues in a pooled buffer.
const LONG_BYTES: usize = 256 << 10;
/// The most rows that are written between two checks of the size (a stride).
const STRIDE_ROWS: usize = 1_024;
/// The most cells of a stride.
const STRIDE_CELLS: usize = 64 << 10;
/// The most bytes of text in the cells of a stride.
const STRIDE_TEXT_BYTES: usize = 256 << 10;
/// The memory of frames with fewer rows is not measured.
const FEW_ROWS: usize = 64;
/// Answers below this size are not charged: all connections together cannot hold much in them.
const CHARGED_FROM_BYTES: usize = 64 << 10;
/// The most segments of an answer at once: those that wait, and one each in the connection, in the writer and in the
/// compressor.
const SEGMENTS_HELD: usize = SEGMENTS_MAX + 3;

/// Why an answer ends early.
pub(super) enum Stop {
    /// The client disconnected.
    ClientGone,
    /// The limit of rows is reached.
    Enough,
    /// The query failed or was killed.
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Failed(error)
    }
}

/// An answer that is being sent.
pub(super) struct Output<Text: ?Sized> {
    pub(super) answer: Box<Text>,
    indenter: Option<Indenter>,
    compressor: Option<Compressor>,
    segments: mpsc::Sender<Result<Segment, AbortedAnswer>>,
    /// Charges what the answer holds.
    held: QueryMemory,
    /// How much is charged so far.
    held_bytes: usize,
    /// The memory of the frame that is being written.
    frame_bytes: usize,
    /// Buffers for long answers.
    buffers: Arc<BufferPool>,
    /// How many rows may still be shown. `None`: any number.
    rows_left: Option<usize>,
    /// The thread pool for heavy queries.
    work: Handle,
}

/// How an answer is sent.
pub(super) struct OutputOptions {
    /// Whether it is indented, as JSON.
    pub(super) indented: bool,
    /// Whether it is compressed.
    pub(super) compressed: bool,
    /// The most rows; `None`: any number.
    pub(super) rows_max: Option<usize>,
}

impl<Text: ResultWriter + ?Sized> Output<Text> {
    /// An output for the answer of a query, and the receiver of its segments.
    pub(super) fn of(
        answer: Box<Text>,
        options: &OutputOptions,
        held: QueryMemory,
        buffers: Arc<BufferPool>,
        work: &Handle,
    ) -> (Self, AnswerReceiver) {
        let (segments, received) = mpsc::channel(SEGMENTS_MAX);
        let output = Self {
            answer,
            indenter: options.indented.then(Indenter::default),
            compressor: options.compressed.then(Compressor::default),
            segments,
            held,
            held_bytes: 0,
            frame_bytes: 0,
            buffers,
            rows_left: options.rows_max,
            work: work.clone(),
        };
        (output, AnswerReceiver(received))
    }

    /// Whether no more rows may be shown.
    pub(super) fn is_full(&self) -> bool {
        self.rows_left == Some(0)
    }

    /// Waits for a future, unless the client disconnects or the query is stopped.
    pub(super) async fn unless_stopped<T>(
        &self,
        query: &Query,
        future: Pin<&mut impl Future<Output = nyala_core::Result<T>>>,
    ) -> Result<T, Stop> {
        tokio::select! {
            done = future => Ok(done?),
            () = self.segments.closed() => Err(Stop::ClientGone),
            error = query.stopped() => Err(Stop::Failed(error)),
        }
    }

    /// Shows the frames of a query while it computes them.
    pub(super) async fn show_stream(
        &mut self,
        stream: Box<impl FrameStream>,
        query: &Query,
        chunks: Chunks,
    ) -> Result<(), Stop> {
        let mut frames = Frames::of(stream, &self.work, &self.held);
        let segments = self.segments.clone();
        let mut stopped = std::pin::pin!(query.stopped());
        loop {
            let next = tokio::select! {
                next = frames.next() => next?,
                () = segments.closed() => return Err(Stop::ClientGone),
                error = stopped.as_mut() => return Err(Stop::Failed(error)),
            };
            if next.is_empty() {
                return Ok(());
            }
            // A client that does not read delays the query, but the query can still be stopped.
            tokio::select! {
                shown = self.show_all(&next, chunks) => shown?,
                error = stopped.as_mut() => return Err(Stop::Failed(error)),
            }
        }
    }

    /// Shows some frames.
    pub(super) async fn show_all(&mut self, frames: &[Frame], chunks: Chunks) -> Result<(), Stop> {
        for frame in frames {
            self.show(frame, chunks).await?;
        }
        Ok(())
    }

    async fn show(&mut self, frame: &Frame, chunks: Chunks) -> Result<(), Stop> {
        let rows = frame.rows().min(self.rows_left.unwrap_or(usize::MAX));
        // A single frame may be larger than a query's share and is shown all the same; the charge limits how many there
        // are at once.
        self.frame_bytes = match frame.rows() {
            0..FEW_ROWS => 0,
            _ => frame.written_bytes().min(self.held.limit_bytes() / 2),
        };
        let mut start = frame.span.start;
        let shown_end = start + rows;
        // A frame without rows shows its columns.
        while start < shown_end || frame.rows() == 0 {
            let end = stride_end(frame, start..shown_end);
            self.answer.frame(frame, start..end, chunks);
            self.charge_held()?;
            self.send(false).await?;
            if end == frame.span.end {
                break;
            }
            start = end;
        }
        if let Some(left) = &mut self.rows_left {
            *left -= rows;
            if rows < frame.rows() {
                self.answer.cut(frame);
                return Err(Stop::Enough);
            }
        }
        Ok(())
    }

    /// Charges what the answer holds: text that can be sent only when the answer is complete, which exists twice when
    /// it is put together, and segments and rows that a slow client has not read.
    fn charge_held(&mut self) -> Result<(), Error> {
        let when_whole_bytes = 2 * self.answer.held_bytes();
        let segments_bytes = match self.answer.buffer().len() {
            few_bytes @ 0..BUFFER_BYTES => few_bytes,
            length_bytes => SEGMENTS_HELD * length_bytes,
        };
        let held_bytes = when_whole_bytes + segments_bytes + self.frame_bytes;
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

    /// Sends what was written, if it is long enough or the last segment.
    async fn send(&mut self, last: bool) -> Result<(), Stop> {
        let written = self.answer.buffer();
        if !last && written.len() < BUFFER_BYTES {
            if written.len() >= LONG_BYTES && written.capacity() < BUFFER_BYTES {
                let mut larger = self.buffers.take();
                larger.extend_from_slice(written);
                *written = larger;
            }
            return Ok(());
        }
        let mut bytes = self.answer.take(if last { Vec::new() } else { self.buffers.take() });
        if let Some(indenter) = &mut self.indenter {
            let indented = indenter.indent(&bytes);
            self.buffers.give_back(std::mem::replace(&mut bytes, indented));
        }
        let bytes = match &mut self.compressor {
            Some(compressor) => {
                let compressed = compressor.compress(&bytes, last);
                self.buffers.give_back(bytes);
                compressed
            }
            None => self.buffers.lend(bytes),
        };
        self.segments.send(Ok(Segment { bytes, last })).await.map_err(|_| Stop::ClientGone)
    }

    /// Sends the rest of a finished answer, or aborts the answer.
    pub(super) async fn end(&mut self) {
        if let Some(words) = self.answer.broken() {
            // Rows were sent already, so aborting is the only way to report the error.
            let broken = AbortedAnswer(words.to_owned());
            drop(self.segments.send(Err(broken)).await);
            return;
        }
        drop(self.send(true).await);
    }
}

/// Where the first stride of some rows ends; strides are bounded in rows, cells and text.
fn stride_end(frame: &Frame, rows: Range<usize>) -> usize {
    let stride_rows = (STRIDE_CELLS / frame.columns.len().max(1)).clamp(1, STRIDE_ROWS);
    let mut end = rows.end.min(rows.start + stride_rows);
    while end > rows.start + 1 && frame.text_bytes(rows.start..end) > STRIDE_TEXT_BYTES {
        end = rows.start.midpoint(end);
    }
    end
}

/// Starts to answer on this thread if the query may be light. When it waits or takes long, it continues in the thread
/// pool. A panic drops the sender of segments, which tells the receiver.
///
/// The future is boxed because it is large and would be copied.
pub(super) async fn start(
    answering: impl Future<Output = ()> + Send + Unpin + 'static,
    may_be_light: bool,
    context: &Context,
) {
    let mut running = AssertUnwindSafe(answering).catch_unwind();
    if may_be_light && poll_fn(|waker| Poll::Ready(running.poll_unpin(waker))).await.is_ready() {
        return;
    }
    context.work.spawn(running);
}

/// Receives the segments of an answer for its client.
pub(super) struct AnswerReceiver(mpsc::Receiver<Result<Segment, AbortedAnswer>>);

impl AnswerReceiver {
    /// Receives the segments of an answer that is not made of frames.
    #[cfg(feature = "sql")]
    pub(super) fn of(segments: mpsc::Receiver<Result<Segment, AbortedAnswer>>) -> Self {
        Self(segments)
    }

    /// The response to the client.
    pub(super) async fn response(
        mut self,
        content_type: &'static str,
        compressed: bool,
    ) -> Result<Response<Answer>, Failure> {
        // The first segment comes when the answer is complete or longer than a segment.
        let first = match self.0.recv().await {
            Some(Ok(first)) => first,
            Some(Err(broken)) => return Err(failure(StatusCode::INTERNAL_SERVER_ERROR, broken.0)),
            None => {
                let words = "the query failed; the server's log says why";
                return Err(failure(StatusCode::INTERNAL_SERVER_ERROR, words));
            }
        };
        let mut response = if first.last {
            with_body(StatusCode::OK, content_type, first.bytes)
        } else {
            let mut response = Response::new(Answer::Stream(BodyStream::new(first, self.0)));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
            response
        };
        if compressed {
            response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        Ok(response)
    }

    /// Takes all segments, for a client that does not wait for the answer.
    pub(super) async fn ignore(mut self) {
        while self.0.recv().await.is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nyala_core::memory::MemoryBudget;
    use nyala_db::users::Principal;
    use nyala_exec::running::{QueryLimits, RunningQueries};
    use nyala_exec::{Column, GroupTags, ResultBatch};

    /// A language in which every row is a line.
    #[derive(Default)]
    struct Lines {
        out: Vec<u8>,
        cuts: usize,
    }

    impl ResultWriter for Lines {
        fn frame(&mut self, _frame: &Frame, rows: Range<usize>, _chunks: Chunks) {
            rows.for_each(|_| self.out.extend_from_slice(b"row\n"));
        }

        fn cut(&mut self, _frame: &Frame) {
            self.cuts += 1;
        }

        fn buffer(&mut self) -> &mut Vec<u8> {
            &mut self.out
        }
    }

    /// A stream of this many frames of a thousand rows.
    struct Thousands(usize);

    impl FrameStream for Thousands {
        async fn next(&mut self) -> nyala_core::Result<Option<Frame>> {
            let Some(left) = self.0.checked_sub(1) else { return Ok(None) };
            self.0 = left;
            let names: Arc<[String]> = Arc::new(["v".to_owned()]);
            let batch = ResultBatch {
                name: "m".into(),
                time_column: Some("time".into()),
                column_names: names.clone(),
                reference_names: names,
                times_ns: (0..1_000).collect(),
                columns: vec![Column::Integer((0..1_000).collect::<Vec<_>>().into())],
                instead: None,
            };
            Ok(Some(Frame::of(GroupTags::none(), batch)))
        }

        async fn next_list(&mut self) -> nyala_core::Result<Vec<Frame>> {
            Ok(self.next().await?.into_iter().collect())
        }
    }

    fn output(rows_max: Option<usize>) -> (Output<Lines>, AnswerReceiver) {
        let memory = MemoryBudget::new(1 << 30);
        let held = QueryMemory::new(256 << 20, &memory);
        let options = OutputOptions { indented: false, compressed: false, rows_max };
        Output::of(Box::default(), &options, held, BufferPool::for_answers(&memory), &Handle::current())
    }

    fn running() -> Arc<RunningQueries> {
        Arc::new(RunningQueries::new(QueryLimits::default()))
    }

    #[tokio::test]
    async fn an_answer_of_any_language_comes_in_segments() {
        let (mut output, mut received) = output(None);
        let entered = running().enter(|| "lines".to_owned(), "", &Principal::Open).expect("the first");
        let answered = tokio::spawn(async move {
            let shown =
                output.show_stream(Box::new(Thousands(1_000)), &entered.query(), Chunks::BySize).await;
            assert!(shown.is_ok());
            output.end().await;
        });
        let (mut bytes, mut segments, mut last) = (0, 0, false);
        while let Some(segment) = received.0.recv().await {
            let segment = segment.expect("not broken");
            (bytes, segments, last) = (bytes + segment.bytes.len(), segments + 1, segment.last);
        }
        answered.await.expect("no panic");
        assert_eq!((bytes, last), (4_000_000, true));
        assert!(segments > 2, "{segments}");
    }

    #[tokio::test]
    async fn no_more_rows_are_shown_than_the_limit() {
        let (mut output, _received) = output(Some(2_500));
        let entered = running().enter(|| "lines".to_owned(), "", &Principal::Open).expect("the first");
        let shown = output.show_stream(Box::new(Thousands(4)), &entered.query(), Chunks::BySize).await;
        assert!(matches!(shown, Err(Stop::Enough)) && output.is_full());
        assert_eq!((output.answer.out.len(), output.answer.cuts), (4 * 2_500, 1));
    }

    #[tokio::test]
    async fn a_query_ends_when_its_client_leaves_or_it_is_killed() {
        let running = running();
        let entered = running.enter(|| "lines".to_owned(), "", &Principal::Open).expect("the first");
        let (mut left, received) = output(None);
        drop(received);
        let shown = left.show_stream(Box::new(Thousands(1_000_000)), &entered.query(), Chunks::BySize).await;
        assert!(matches!(shown, Err(Stop::ClientGone)));
        // Nobody reads the answer, so the query would never end.
        let (mut slow, _received) = output(None);
        running.kill(entered.query().number()).expect("runs");
        let shown = slow.show_stream(Box::new(Thousands(1_000_000)), &entered.query(), Chunks::BySize).await;
        assert!(matches!(shown, Err(Stop::Failed(error)) if error.message() == "query interrupted"));
    }
}
