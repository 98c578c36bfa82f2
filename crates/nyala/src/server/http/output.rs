//! An answer on its way from frames of columns to its client: written, indented, packed and sent in pieces, in whatever
//! language was asked.
//!
//! A light query is answered by the thread that received it; what waits or takes long goes on in the pool ([`start`]),
//! where its frames are computed ahead of their writing (`nyala_exec::frames`). Charged is what is held back, and what a
//! client leaves lying. Whoever leaves, or is told to stop, ends the query at its next step.

use super::Context;
use super::gzip::Packer;
use super::pieces::{Piece, Pieces};
use super::response::{Answer, Broken, Failure, failure, whole};
use super::rooms::Rooms;
use crate::server::format::{Draft, Indenter};
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

/// Pieces on their way to a slow client before the query waits for it.
const PIECES_MAX: usize = 2;
/// An answer below this size is sent at once, and an error met before is shown in it.
const BUFFER_BYTES: usize = 1 << 20;
/// From this size on there is likely more to come.
const LONG_BYTES: usize = 256 << 10;
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

/// Why no more is shown.
pub(super) enum Stop {
    /// Nobody waits for the answer any more.
    ClientGone,
    /// As many rows are shown as may be.
    Enough,
    /// It failed, or was told to stop.
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Failed(error)
    }
}

/// Where an answer goes.
pub(super) struct Output<Text> {
    pub(super) answer: Text,
    indenter: Option<Indenter>,
    packer: Option<Packer>,
    pieces: mpsc::Sender<Result<Piece, Broken>>,
    /// Charged with what the answer holds back until it is whole, so far `held_bytes`.
    held: QueryMemory,
    held_bytes: usize,
    /// What the frame takes that is being written.
    frame_bytes: usize,
    /// Where long answers are written.
    rooms: Arc<Rooms>,
    /// Rows that may still be shown; `None`: any number.
    rows_left: Option<usize>,
    /// Where a heavy query is computed.
    work: Handle,
}

/// How an answer is sent.
pub(super) struct Way {
    /// Whether it is indented, as JSON.
    pub(super) indented: bool,
    /// Whether it is packed.
    pub(super) packed: bool,
    /// The most rows; `None`: any number.
    pub(super) rows_max: Option<usize>,
}

impl<Text: Draft> Output<Text> {
    /// The way of an answer, and where its pieces come out.
    pub(super) fn of(
        answer: Text,
        way: &Way,
        held: QueryMemory,
        rooms: Arc<Rooms>,
        work: &Handle,
    ) -> (Self, Received) {
        let (pieces, received) = mpsc::channel(PIECES_MAX);
        let output = Self {
            answer,
            indenter: way.indented.then(Indenter::default),
            packer: way.packed.then(Packer::default),
            pieces,
            held,
            held_bytes: 0,
            frame_bytes: 0,
            rooms,
            rows_left: way.rows_max,
            work: work.clone(),
        };
        (output, Received(received))
    }

    /// Whether no more rows may be shown.
    pub(super) fn is_full(&self) -> bool {
        self.rows_left == Some(0)
    }

    /// Waits for something as long as somebody waits for the answer and the query may run.
    pub(super) async fn unless_stopped<T>(
        &self,
        query: &Query,
        waited_for: Pin<&mut impl Future<Output = nyala_core::Result<T>>>,
    ) -> Result<T, Stop> {
        tokio::select! {
            done = waited_for => Ok(done?),
            () = self.pieces.closed() => Err(Stop::ClientGone),
            error = query.stopped() => Err(Stop::Failed(error)),
        }
    }

    /// Shows what a query computes, as it computes it.
    pub(super) async fn show_stream(
        &mut self,
        stream: Box<impl FrameStream>,
        query: &Query,
        chunks: Chunks,
    ) -> Result<(), Stop> {
        let mut frames = Frames::of(stream, &self.work, &self.held);
        let gone = self.pieces.clone();
        let mut stopped = std::pin::pin!(query.stopped());
        loop {
            let next = tokio::select! {
                next = frames.next() => next?,
                () = gone.closed() => return Err(Stop::ClientGone),
                error = stopped.as_mut() => return Err(Stop::Failed(error)),
            };
            if next.is_empty() {
                return Ok(());
            }
            // A client that does not read keeps a query from its end, but not from being stopped.
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
        // A frame may be larger than a query's share, and yet be shown: that bounds how many are at once.
        self.frame_bytes = match frame.rows() {
            0..FEW_ROWS => 0,
            _ => frame.written_bytes().min(self.held.limit_bytes() / 2),
        };
        let mut start = frame.span.start;
        let shown_end = start + rows;
        // A frame without rows still shows its columns.
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

    /// Charges what an answer holds: what can only be sent when it is whole, which will be there twice when it is put
    /// together, and pieces and rows that a slow client leaves lying.
    fn charge_held(&mut self) -> Result<(), Error> {
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

    /// Sends the rest of an answer that is finished, or breaks it off.
    pub(super) async fn end(&mut self) {
        if let Some(words) = self.answer.broken() {
            // Rows are on their way, so the only honest end is to break off.
            let broken = Broken(words.to_owned());
            drop(self.pieces.send(Err(broken)).await);
            return;
        }
        drop(self.send(true).await);
    }
}

/// Where the first stride of some rows ends.
fn stride_end(frame: &Frame, rows: Range<usize>) -> usize {
    let stride_rows = (STRIDE_CELLS / frame.columns.len().max(1)).clamp(1, STRIDE_ROWS);
    let mut end = rows.end.min(rows.start + stride_rows);
    while end > rows.start + 1 && frame.text_bytes(rows.start..end) > STRIDE_TEXT_BYTES {
        end = rows.start.midpoint(end);
    }
    end
}

/// Answers here and now what may be light; what waits or takes long goes on in the pool. What panics drops its sender of
/// pieces, which is how the receiver learns of it.
///
/// What answers comes in its box: it is large, and would be copied on its way here.
pub(super) async fn start(
    answering: Pin<Box<impl Future<Output = ()> + Send + 'static>>,
    may_be_light: bool,
    context: &Context,
) {
    let mut running = AssertUnwindSafe(answering).catch_unwind();
    if may_be_light && poll_fn(|waker| Poll::Ready(running.poll_unpin(waker))).await.is_ready() {
        return;
    }
    context.work.spawn(running);
}

/// The pieces of an answer on the side of the client.
pub(super) struct Received(mpsc::Receiver<Result<Piece, Broken>>);

impl Received {
    /// The response they make.
    pub(super) async fn response(
        mut self,
        content_type: &'static str,
        packed: bool,
    ) -> Result<Response<Answer>, Failure> {
        // The first piece comes when the answer is whole, or too large to wait for.
        let first = match self.0.recv().await {
            Some(Ok(first)) => first,
            Some(Err(broken)) => return Err(failure(StatusCode::INTERNAL_SERVER_ERROR, broken.0)),
            None => {
                let words = "the query failed; the server's log says why";
                return Err(failure(StatusCode::INTERNAL_SERVER_ERROR, words));
            }
        };
        let mut response = if first.last {
            whole(StatusCode::OK, content_type, first.bytes)
        } else {
            let mut response = Response::new(Answer::Pieces(Pieces::new(first, self.0)));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
            response
        };
        if packed {
            response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        Ok(response)
    }

    /// Takes them until the last, for a client that does not wait for any.
    pub(super) async fn ignore(mut self) {
        while self.0.recv().await.is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nyala_core::memory::MemoryBudget;
    use nyala_db::users::Rights;
    use nyala_exec::running::{QueryLimits, RunningQueries};
    use nyala_exec::{Column, GroupTags, Sheet};

    /// A language in which every row is a line.
    #[derive(Default)]
    struct Lines {
        out: Vec<u8>,
        cuts: usize,
    }

    impl Draft for Lines {
        fn frame(&mut self, _frame: &Frame, rows: Range<usize>, _chunks: Chunks) {
            rows.for_each(|_| self.out.extend_from_slice(b"row\n"));
        }

        fn cut(&mut self, _frame: &Frame) {
            self.cuts += 1;
        }

        fn len(&self) -> usize {
            self.out.len()
        }

        fn held_bytes(&self) -> usize {
            0
        }

        fn take(&mut self, room: Vec<u8>) -> Vec<u8> {
            std::mem::replace(&mut self.out, room)
        }

        fn room_bytes(&self) -> usize {
            self.out.capacity()
        }

        fn go_on_in(&mut self, mut room: Vec<u8>) {
            room.extend_from_slice(&self.out);
            self.out = room;
        }

        fn broken(&self) -> Option<&str> {
            None
        }
    }

    /// So many frames of a thousand rows.
    struct Thousands(usize);

    impl FrameStream for Thousands {
        async fn next(&mut self) -> nyala_core::Result<Option<Frame>> {
            let Some(left) = self.0.checked_sub(1) else { return Ok(None) };
            self.0 = left;
            let names: Arc<[String]> = Arc::new(["v".to_owned()]);
            let sheet = Sheet {
                name: "m".into(),
                time_column: Some("time".into()),
                column_names: names.clone(),
                reference_names: names,
                times_ns: (0..1_000).collect(),
                columns: vec![Column::Integer((0..1_000).collect::<Vec<_>>().into())],
                instead: None,
            };
            Ok(Some(Frame::of(GroupTags::none(), sheet)))
        }

        async fn next_list(&mut self) -> nyala_core::Result<Vec<Frame>> {
            Ok(self.next().await?.into_iter().collect())
        }
    }

    fn output(rows_max: Option<usize>) -> (Output<Lines>, Received) {
        let memory = MemoryBudget::new(1 << 30);
        let held = QueryMemory::new(256 << 20, &memory);
        let way = Way { indented: false, packed: false, rows_max };
        Output::of(Lines::default(), &way, held, Rooms::for_answers(&memory), &Handle::current())
    }

    fn running() -> Arc<RunningQueries> {
        Arc::new(RunningQueries::new(QueryLimits::default()))
    }

    #[tokio::test]
    async fn an_answer_of_any_language_comes_in_pieces() {
        let (mut output, mut received) = output(None);
        let entered = running().enter(|| "lines".to_owned(), "", &Rights::Open).expect("the first");
        let answered = tokio::spawn(async move {
            let shown =
                output.show_stream(Box::new(Thousands(1_000)), &entered.query(), Chunks::BySize).await;
            assert!(shown.is_ok());
            output.end().await;
        });
        let (mut bytes, mut pieces, mut last) = (0, 0, false);
        while let Some(piece) = received.0.recv().await {
            let piece = piece.expect("not broken");
            (bytes, pieces, last) = (bytes + piece.bytes.len(), pieces + 1, piece.last);
        }
        answered.await.expect("no panic");
        assert_eq!((bytes, last), (4_000_000, true));
        assert!(pieces > 2, "{pieces}");
    }

    #[tokio::test]
    async fn no_more_rows_are_shown_than_may_be() {
        let (mut output, _received) = output(Some(2_500));
        let entered = running().enter(|| "lines".to_owned(), "", &Rights::Open).expect("the first");
        let shown = output.show_stream(Box::new(Thousands(4)), &entered.query(), Chunks::BySize).await;
        assert!(matches!(shown, Err(Stop::Enough)) && output.is_full());
        assert_eq!((output.answer.len(), output.answer.cuts), (4 * 2_500, 1));
    }

    #[tokio::test]
    async fn whoever_leaves_or_is_told_to_stop_ends_it() {
        let running = running();
        let entered = running.enter(|| "lines".to_owned(), "", &Rights::Open).expect("the first");
        let (mut left, received) = output(None);
        drop(received);
        let shown = left.show_stream(Box::new(Thousands(1_000_000)), &entered.query(), Chunks::BySize).await;
        assert!(matches!(shown, Err(Stop::ClientGone)));
        // Nobody reads, so that it would never end.
        let (mut slow, _received) = output(None);
        running.kill(entered.query().number()).expect("runs");
        let shown = slow.show_stream(Box::new(Thousands(1_000_000)), &entered.query(), Chunks::BySize).await;
        assert!(matches!(shown, Err(Stop::Failed(error)) if error.message() == "query interrupted"));
    }
}
