//! The body of an answer that is sent in segments.

use bytes::Bytes;
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc;

/// An answer that could not be finished.
#[derive(Debug)]
pub(crate) struct AbortedAnswer(pub(crate) String);

impl std::fmt::Display for AbortedAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "answer aborted: {}", self.0)
    }
}

impl std::error::Error for AbortedAnswer {}

/// A part of the text of an answer.
pub(super) struct Segment {
    pub(super) bytes: Bytes,
    pub(super) last: bool,
}

/// The segments of an answer, in order.
pub(crate) struct BodyStream {
    first: Option<Segment>,
    rest: mpsc::Receiver<Result<Segment, AbortedAnswer>>,
    ended: bool,
}

impl BodyStream {
    /// The first segment, and those that follow it.
    pub(super) fn new(first: Segment, rest: mpsc::Receiver<Result<Segment, AbortedAnswer>>) -> Self {
        Self { first: Some(first), rest, ended: false }
    }

    /// The next segment. When the sender ends without a last segment, the answer is aborted, whatever the reason.
    pub(super) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, AbortedAnswer>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let next = match self.first.take() {
            Some(first) => Some(Ok(first)),
            None => ready!(self.rest.poll_recv(context)),
        };
        let next = next.unwrap_or_else(|| Err(AbortedAnswer("the query ended before its answer".into())));
        self.ended = next.as_ref().map_or(true, |segment| segment.last);
        Poll::Ready(Some(next.map(|segment| segment.bytes)))
    }
}
