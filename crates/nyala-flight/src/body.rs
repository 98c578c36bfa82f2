//! Bodies of requests, whose messages are charged to the memory account before they arrive, and of answers, which say when
//! they end.
//!
//! gRPC puts five bytes before each message: a flag and its length. The decoder collects a message before it gives it away,
//! and asks for the next one when that was used. So what is held of a request is the message that began last.

use hyper::body::{Body, Frame, SizeHint};
use nyala_core::memory::{Charge, Component, MemoryBudget};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::Status;
use tonic::codegen::{Bytes, StdError};

/// What comes before a message.
const HEAD_BYTES: usize = 5;
/// Shorter messages are not charged: many are on their way at once, and none for long.
const UNCHARGED_BYTES: usize = 16 << 10;

/// The body of a request.
pub(crate) struct ChargedBody<B> {
    inner: B,
    messages: Messages,
}

/// Follows the messages in a stream of bytes.
struct Messages {
    head: [u8; HEAD_BYTES],
    /// How much of `head` is there.
    head_bytes: usize,
    /// What of the message is to come.
    left_bytes: usize,
    message_bytes_max: usize,
    charge: Charge,
}

impl<B> ChargedBody<B> {
    pub(crate) fn new(inner: B, message_bytes_max: usize, memory: &Arc<MemoryBudget>) -> Self {
        let charge = memory.charge(Component::InFlight, 0);
        let messages =
            Messages { head: [0; HEAD_BYTES], head_bytes: 0, left_bytes: 0, message_bytes_max, charge };
        Self { inner, messages }
    }
}

impl Messages {
    /// Charges the messages that begin in further bytes.
    fn follow(&mut self, mut bytes: &[u8]) -> Result<(), Status> {
        while !bytes.is_empty() {
            if self.left_bytes > 0 {
                let taken = self.left_bytes.min(bytes.len());
                self.left_bytes -= taken;
                bytes = &bytes[taken..];
                continue;
            }
            let taken = (HEAD_BYTES - self.head_bytes).min(bytes.len());
            self.head[self.head_bytes..self.head_bytes + taken].copy_from_slice(&bytes[..taken]);
            self.head_bytes += taken;
            bytes = &bytes[taken..];
            if self.head_bytes == HEAD_BYTES {
                let [_, length @ ..] = self.head;
                self.begin(u32::from_be_bytes(length) as usize)?;
            }
        }
        Ok(())
    }

    fn begin(&mut self, length: usize) -> Result<(), Status> {
        if length > self.message_bytes_max {
            let most = self.message_bytes_max;
            let words = format!("a message may have {most} bytes (max-body-size), not {length}");
            return Err(Status::resource_exhausted(words));
        }
        (self.left_bytes, self.head_bytes) = (length, 0);
        self.charge.set(0);
        if length > UNCHARGED_BYTES {
            let charged = self.charge.try_grow(length as u64);
            charged.map_err(|error| Status::resource_exhausted(error.to_string()))?;
        }
        Ok(())
    }
}

impl<B> Body for ChargedBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<StdError>,
{
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        let Self { inner, messages } = self.get_mut();
        Pin::new(inner).poll_frame(context).map(|next| {
            next.map(|frame| {
                let frame = frame.map_err(Into::into)?;
                if let Some(bytes) = frame.data_ref() {
                    messages.follow(bytes)?;
                }
                Ok(frame)
            })
        })
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// The body of an answer, with what is held until it is sent.
pub(crate) struct HeldBody<G> {
    pub(crate) inner: tonic::body::Body,
    pub(crate) _held: G,
}

impl<G: Unpin> Body for HeldBody<G> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.inner).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Follows the messages in bytes: what a fuzzer calls. It asserts that it does not matter how they come.
pub(crate) fn read_arbitrary(bytes: &[u8], memory: &Arc<MemoryBudget>) {
    const MESSAGE_BYTES: usize = 64 << 10;
    let follower = || ChargedBody::new((), MESSAGE_BYTES, memory).messages;
    let (mut whole, mut pieces) = (follower(), follower());
    let is_read = whole.follow(bytes).is_ok();
    assert_eq!(bytes.iter().all(|byte| pieces.follow(&[*byte]).is_ok()), is_read);
    assert_eq!(whole.charge.bytes(), pieces.charge.bytes());
    assert!(whole.charge.bytes() <= MESSAGE_BYTES as u64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    fn messages(memory: &Arc<MemoryBudget>) -> Messages {
        ChargedBody::new((), 1 << 20, memory).messages
    }

    #[test]
    fn the_message_that_began_last_is_charged() {
        let memory = MemoryBudget::new(64 << 20);
        let mut messages = messages(&memory);
        let message = |bytes: usize| {
            let mut all = vec![0];
            all.extend((bytes as u32).to_be_bytes());
            all.resize(HEAD_BYTES + bytes, 7);
            all
        };
        let charged = || memory.used_bytes(Component::InFlight);
        for byte in message(100_000) {
            messages.follow(&[byte]).unwrap();
        }
        assert_eq!(charged(), 100_000);
        messages.follow(&[message(3), message(200_000)].concat()).unwrap();
        assert_eq!(charged(), 200_000);
        messages.follow(&message(0)).unwrap();
        assert_eq!(charged(), 0);
    }

    #[test]
    fn what_has_no_room_is_refused_before_it_arrives() {
        let memory = MemoryBudget::new(64 << 20);
        let mut own = messages(&memory);
        assert_eq!(own.follow(&[0, 0xff, 0, 0, 0]).unwrap_err().code(), Code::ResourceExhausted);
        let _all = memory.charge(Component::Query, 64 << 20);
        let mut own = messages(&memory);
        assert_eq!(own.follow(&[0, 0, 8, 0, 0]).unwrap_err().code(), Code::ResourceExhausted);
    }
}
