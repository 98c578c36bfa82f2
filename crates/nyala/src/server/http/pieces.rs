//! An answer on its way, piece by piece.

use super::response::Broken;
use bytes::Bytes;
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc;

/// A part of an answer.
pub(super) struct Piece {
    pub(super) bytes: Bytes,
    pub(super) last: bool,
}

/// The pieces of an answer as they come.
pub(crate) struct Pieces {
    first: Option<Piece>,
    rest: mpsc::Receiver<Result<Piece, Broken>>,
    ended: bool,
}

impl Pieces {
    /// A first piece, and those that follow it.
    pub(super) fn new(first: Piece, rest: mpsc::Receiver<Result<Piece, Broken>>) -> Self {
        Self { first: Some(first), rest, ended: false }
    }

    /// The next piece. Where none comes after one that is not the last, the answer is broken, whatever the reason.
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let next = match self.first.take() {
            Some(first) => Some(Ok(first)),
            None => ready!(self.rest.poll_recv(context)),
        };
        let next = next.unwrap_or_else(|| Err(Broken("the query ended before its answer".into())));
        self.ended = next.as_ref().map_or(true, |piece| piece.last);
        Poll::Ready(Some(next.map(|piece| piece.bytes)))
    }
}
