//! Bodies of requests: read whole, within a limit, unpacked within the same limit.
//!
//! All bodies that are held share a part of the server's memory, so that many clients at once cannot take more, and
//! a client that sends slowly or not at all is let go. A buffer grows with what arrives, whatever a client announces, and
//! is charged with all it has room for.

use super::Context;
use super::response::{Failure, failure, status_of};
use super::rooms::Rooms;
use super::unpack;
use crate::server::slots::Slot;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::{Body as _, Frame};
use hyper::header::{CONTENT_ENCODING, EXPECT, HeaderMap};
use nyala_core::memory::{Charge, Component, MemoryBudget};
use nyala_core::{Error, Result as CoreResult};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// How long a client may pause within a body.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// How long a client may take to send a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(300);
/// How much of a body that nobody wants is taken, ...
const DISCARDED_MAX_BYTES: usize = 256 << 10;
/// ... and for how long.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(1);
/// Bodies up to this length are taken even when memory is full, so that queries go on beside too many writes: all
/// connections together cannot hold much in them.
const SMALL_BODY_BYTES: u64 = 8 << 10;
/// Bodies up to this length may be parsed where they were received.
const QUICK_BODY_BYTES: usize = 64 << 10;

/// A body on its way. Its connection may be closed for another while it pauses.
pub struct Incoming {
    body: hyper::body::Incoming,
    slot: Arc<Slot>,
}

impl Incoming {
    pub(super) fn new(body: hyper::body::Incoming, slot: Arc<Slot>) -> Self {
        Self { body, slot }
    }

    async fn frame(&mut self) -> Option<Result<Frame<Bytes>, hyper::Error>> {
        self.slot.wait_for_body();
        let frame = self.body.frame().await;
        if !self.slot.go_on() {
            // The connection ends here.
            std::future::pending::<()>().await;
        }
        frame
    }
}

/// What a body takes of the server's memory, and what is made of it. All bodies together get a part; a small one
/// always gets in.
pub(super) struct Hold(Charge);

impl Hold {
    pub(super) fn of(memory: &Arc<MemoryBudget>) -> Self {
        Self(memory.charge(Component::InFlight, 0))
    }

    /// Takes more, or says retry.
    pub(super) fn grow(&mut self, bytes: usize) -> CoreResult<()> {
        if self.0.bytes() + bytes as u64 <= SMALL_BODY_BYTES {
            self.0.grow(bytes as u64);
            return Ok(());
        }
        self.0.try_grow(bytes as u64)
    }

    pub(super) fn shrink(&mut self, bytes: usize) {
        self.0.set(self.0.bytes().saturating_sub(bytes as u64));
    }
}

/// The bytes of a body.
pub(super) enum Held {
    /// It came in one piece.
    Piece(Bytes),
    Whole(Buffer),
}

/// Memory that a body is gathered in, and that a later one uses again.
pub(super) struct Buffer {
    pub(super) bytes: Vec<u8>,
    rooms: Arc<Rooms>,
}

impl Buffer {
    /// An empty one, charged with what it has room for.
    pub(super) fn take(rooms: &Arc<Rooms>, hold: &mut Hold) -> Self {
        let bytes = rooms.take();
        // It was charged where it waited: nothing is taken that was not.
        hold.0.grow(bytes.capacity() as u64);
        Self { bytes, rooms: rooms.clone() }
    }

    /// Makes room for `more` bytes, charged before it is made, and for as many again as there will be then, up to
    /// `most_bytes` in all.
    pub(super) fn reserve(&mut self, more: usize, most_bytes: usize, hold: &mut Hold) -> CoreResult<()> {
        let (needed, room) = (self.bytes.len() + more, self.bytes.capacity());
        if needed <= room {
            return Ok(());
        }
        let wanted = needed.saturating_mul(2).min(most_bytes).max(needed);
        hold.grow(wanted - room).or_else(|_| {
            self.rooms.give_up();
            hold.grow(wanted - room)
        })?;
        self.bytes.reserve_exact(wanted - self.bytes.len());
        Ok(())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.rooms.give(std::mem::take(&mut self.bytes));
    }
}

impl Deref for Held {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Held::Piece(bytes) => bytes,
            Held::Whole(buffer) => &buffer.bytes,
        }
    }
}

impl Held {
    /// What is charged for it.
    fn held_bytes(&self) -> usize {
        match self {
            Held::Piece(bytes) => bytes.len(),
            Held::Whole(buffer) => buffer.bytes.capacity(),
        }
    }
}

/// A body as it was sent.
pub(super) struct Body {
    bytes: Held,
    encoding: Encoding,
    limit_bytes: usize,
    hold: Hold,
    rooms: Arc<Rooms>,
}

/// How a body is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Plain,
    Gzip,
    Zstd,
}

/// Reads a body.
pub(super) async fn read(
    context: &Context,
    body: &mut Incoming,
    headers: &HeaderMap,
) -> Result<Body, Failure> {
    read_within(context.limits.body_bytes, context, body, headers).await
}

/// Reads a body that may not be longer than `limit_bytes`, packed or unpacked.
pub(super) async fn read_within(
    limit_bytes: usize,
    context: &Context,
    body: &mut Incoming,
    headers: &HeaderMap,
) -> Result<Body, Failure> {
    let databases = context.databases()?;
    let mut hold = Hold::of(&databases.memory);
    let rooms = databases.body_rooms.clone();
    let reading = collect(body, limit_bytes, &rooms, &mut hold);
    let bytes = tokio::time::timeout(BODY_TIMEOUT, reading).await.map_err(|_| too_slow(BODY_TIMEOUT))??;
    let encoding = match headers.get(CONTENT_ENCODING).map(|value| value.as_bytes()) {
        Some(b"gzip") => Encoding::Gzip,
        Some(b"zstd") => Encoding::Zstd,
        _ => Encoding::Plain,
    };
    Ok(Body { bytes, encoding, limit_bytes, hold, rooms })
}

/// Takes what is left and short of a body that nobody wants: clients that cannot send on see a broken connection instead
/// of the answer. Where they wait to be asked for it, it never comes.
pub(super) async fn discard(body: &mut Incoming, headers: &HeaderMap) {
    if body.body.is_end_stream() || headers.contains_key(EXPECT) {
        return;
    }
    let take = async {
        let mut left_bytes = DISCARDED_MAX_BYTES;
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, Bytes::len);
            let Some(left) = left_bytes.checked_sub(length) else { return };
            left_bytes = left;
        }
    };
    drop(tokio::time::timeout(DISCARD_TIMEOUT, take).await);
}

async fn collect(
    body: &mut Incoming,
    limit_bytes: usize,
    rooms: &Arc<Rooms>,
    hold: &mut Hold,
) -> Result<Held, Failure> {
    let told_bytes = body.body.size_hint().lower();
    if told_bytes > limit_bytes as u64 {
        return Err(too_large());
    }
    let most_bytes = if told_bytes > 0 { told_bytes as usize } else { limit_bytes };
    let mut first = Bytes::new();
    let mut all: Option<Buffer> = None;
    loop {
        let frame = tokio::time::timeout(PAUSE_MAX, body.frame()).await.map_err(|_| too_slow(PAUSE_MAX))?;
        let data = match frame {
            None => return Ok(all.map_or(Held::Piece(first), Held::Whole)),
            Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            Some(Err(error)) => {
                return Err(failure(StatusCode::BAD_REQUEST, format!("reading the body: {error}")));
            }
        };
        let read_bytes = all.as_ref().map_or(first.len(), |all| all.bytes.len());
        if read_bytes + data.len() > limit_bytes {
            return Err(too_large());
        }
        if all.is_none() && first.is_empty() {
            hold.grow(data.len()).map_err(refused)?;
            first = data;
            continue;
        }
        let all = match &mut all {
            Some(all) => all,
            None => {
                hold.shrink(first.len());
                let gathered = all.insert(Buffer::take(rooms, hold));
                gathered.reserve(first.len() + data.len(), most_bytes, hold).map_err(refused)?;
                // The connection reads on into the memory of pieces that are gone.
                gathered.bytes.extend_from_slice(&std::mem::take(&mut first));
                gathered
            }
        };
        all.reserve(data.len(), most_bytes, hold).map_err(refused)?;
        all.bytes.extend_from_slice(&data);
    }
}

impl Body {
    /// Whether unpacking and reading it takes no time to speak of.
    pub(super) fn is_quick(&self) -> bool {
        self.encoding == Encoding::Plain && self.bytes.len() <= QUICK_BODY_BYTES
    }

    /// What the body says, unpacked if it is packed. Takes its time: not for threads that serve connections
    /// unless the body is small.
    pub(super) fn unpacked(self) -> Result<Unpacked, Failure> {
        let Body { bytes, encoding, limit_bytes, mut hold, rooms } = self;
        let unpack = match encoding {
            Encoding::Plain => return Ok(Unpacked { bytes, hold }),
            // InfluxDB's words, which clients may know.
            Encoding::Gzip if bytes.is_empty() => return Err(failure(StatusCode::BAD_REQUEST, "EOF")),
            Encoding::Gzip => unpack::gzip,
            Encoding::Zstd => unpack::zstd,
        };
        let mut into = Buffer::take(&rooms, &mut hold);
        unpack(&bytes, &mut into, limit_bytes, &mut hold).map_err(|error| match error {
            unpack::Error::TooLarge => too_large(),
            unpack::Error::Refused(error) => refused(error),
            unpack::Error::Broken(words) => failure(StatusCode::BAD_REQUEST, words),
        })?;
        let packed_bytes = bytes.held_bytes();
        drop(bytes);
        hold.shrink(packed_bytes);
        Ok(Unpacked { bytes: Held::Whole(into), hold })
    }
}

/// The bytes of a body, not packed.
pub(super) struct Unpacked {
    pub(super) bytes: Held,
    pub(super) hold: Hold,
}

/// What is told of an error of the account of memory.
pub(super) fn refused(error: Error) -> Failure {
    failure(status_of(&error), error.message())
}

fn too_large() -> Failure {
    failure(StatusCode::PAYLOAD_TOO_LARGE, "Request Entity Too Large")
}

/// Not 408, which would say it: clients drop what they write on any 4xx, and send it again on this.
fn too_slow(limit: Duration) -> Failure {
    let words = format!("the body did not come within {} s", limit.as_secs());
    failure(StatusCode::SERVICE_UNAVAILABLE, words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::RETRY_AFTER;

    #[test]
    fn a_buffer_grows_with_what_arrives_and_all_of_it_is_charged() {
        let memory = MemoryBudget::new(64 << 20);
        let rooms = Rooms::for_bodies(&memory);
        let mut hold = Hold::of(&memory);
        let mut buffer = Buffer::take(&rooms, &mut hold);
        for _ in 0..4 {
            buffer.reserve(32 << 10, 25_000_000, &mut hold).unwrap();
            buffer.bytes.extend_from_slice(&[b'#'; 32 << 10]);
            let room = buffer.bytes.capacity();
            assert!(room <= 2 * buffer.bytes.len(), "{room} of {}", buffer.bytes.len());
            assert_eq!(memory.total_bytes(), room as u64);
        }
        buffer.reserve(1 << 10, (128 << 10) + 1_024, &mut hold).unwrap();
        let room = buffer.bytes.capacity();
        drop((buffer, hold));
        assert_eq!(memory.total_bytes(), room as u64, "it waits for another body");
        let mut hold = Hold::of(&memory);
        let again = Buffer::take(&rooms, &mut hold);
        assert_eq!((again.bytes.capacity(), memory.total_bytes()), (room, room as u64));
        // What waits gives way.
        rooms.give(Vec::with_capacity(1 << 20));
        let _others = memory.charge(Component::Query, (63 << 20) - room as u64);
        let mut more = Buffer { bytes: Vec::new(), rooms: rooms.clone() };
        more.reserve(512 << 10, 512 << 10, &mut hold).unwrap();
    }

    #[test]
    fn a_client_that_was_slow_may_send_it_again() {
        let refused = too_slow(PAUSE_MAX);
        assert!(refused.status().is_server_error() && refused.headers().contains_key(RETRY_AFTER));
    }
}
