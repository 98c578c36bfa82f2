//! Bodies of requests: read whole, within a limit, unpacked within the same limit.
//!
//! All bodies that are held share a part of the server's memory, so that many clients at once cannot take more, and
//! a client that sends slowly or not at all is let go. Large bodies are gathered in buffers that later requests use
//! again: fresh pages otherwise cost more than the copying.

use super::Context;
use super::response::{Failure, failure, status_of};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONTENT_ENCODING, EXPECT, HeaderMap};
use nyala_core::memory::{Charge, Component, MemoryBudget};
use nyala_core::{Error, Result as CoreResult};
use std::io::{ErrorKind, Read};
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long a client may pause within a body.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// How long a client may take to send a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(300);
/// How much of a body that nobody wants is taken, ...
const DISCARDED_MAX_BYTES: usize = 256 << 10;
/// ... and for how long.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(1);
/// Memory reserved ahead for a body of a told length; what is longer grows as it comes.
const RESERVED_MAX_BYTES: usize = 4 << 20;
/// Bodies up to this length are taken even when memory is full, so that queries go on beside too many writes: all
/// connections together cannot hold much in them.
const SMALL_BODY_BYTES: u64 = 8 << 10;
/// Bodies up to this length may be parsed where they were received.
const QUICK_BODY_BYTES: usize = 64 << 10;
/// Bytes unpacked between two looks at the bounds.
const UNPACK_STEP_BYTES: u64 = 1 << 20;

/// Buffers kept for later bodies, …
const KEPT_BUFFERS: usize = 8;
/// … unless they are larger than this.
const KEPT_MAX_BYTES: usize = 4 << 20;

static BUFFERS: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

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
}

/// The bytes of a body.
pub(super) enum Held {
    /// It came in one piece.
    Piece(Bytes),
    Whole(Buffer),
}

/// A buffer that is kept for a later body when it is dropped.
pub(super) struct Buffer(Vec<u8>);

impl Buffer {
    fn take() -> Self {
        let kept = BUFFERS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).pop();
        Self(kept.unwrap_or_default())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut buffer = std::mem::take(&mut self.0);
        buffer.clear();
        let mut kept = BUFFERS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if buffer.capacity() <= KEPT_MAX_BYTES && kept.len() < KEPT_BUFFERS {
            kept.push(buffer);
        }
    }
}

impl Deref for Held {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Held::Piece(bytes) => bytes,
            Held::Whole(buffer) => &buffer.0,
        }
    }
}

/// A body as it was sent.
pub(super) struct Body {
    bytes: Held,
    encoding: Encoding,
    limit_bytes: usize,
    hold: Hold,
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
    let mut hold = Hold::of(&context.databases()?.memory);
    let reading = collect(body, limit_bytes, &mut hold);
    let bytes = tokio::time::timeout(BODY_TIMEOUT, reading).await.map_err(|_| too_slow(BODY_TIMEOUT))??;
    let encoding = match headers.get(CONTENT_ENCODING).map(|value| value.as_bytes()) {
        Some(b"gzip") => Encoding::Gzip,
        Some(b"zstd") => Encoding::Zstd,
        _ => Encoding::Plain,
    };
    Ok(Body { bytes, encoding, limit_bytes, hold })
}

/// Takes what is left and short of a body that nobody wants: clients that cannot send on see a broken connection instead
/// of the answer. Where they wait to be asked for it, it never comes.
pub(super) async fn discard(body: &mut Incoming, headers: &HeaderMap) {
    if body.is_end_stream() || headers.contains_key(EXPECT) {
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

async fn collect(body: &mut Incoming, limit_bytes: usize, hold: &mut Hold) -> Result<Held, Failure> {
    let told_bytes = body.size_hint().lower();
    if told_bytes > limit_bytes as u64 {
        return Err(too_large());
    }
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
        let read_bytes = all.as_ref().map_or(first.len(), |all| all.0.len());
        if read_bytes + data.len() > limit_bytes {
            return Err(too_large());
        }
        hold.grow(data.len()).map_err(refused)?;
        if all.is_none() && first.is_empty() {
            first = data;
            continue;
        }
        let all = all.get_or_insert_with(|| {
            let mut buffer = Buffer::take();
            buffer.0.reserve((told_bytes as usize).min(RESERVED_MAX_BYTES));
            buffer.0.extend_from_slice(&first);
            // The connection reads on into the memory of pieces that are gone.
            first = Bytes::new();
            buffer
        });
        all.0.extend_from_slice(&data);
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
        let Body { bytes, encoding, limit_bytes, mut hold } = self;
        let bytes = match encoding {
            Encoding::Plain => bytes,
            // InfluxDB's words, which clients may know.
            Encoding::Gzip if bytes.is_empty() => return Err(failure(StatusCode::BAD_REQUEST, "EOF")),
            Encoding::Gzip => {
                unpack(flate2::read::MultiGzDecoder::new(&bytes[..]), encoding, limit_bytes, &mut hold)?
            }
            Encoding::Zstd => {
                let decoder = zstd::stream::read::Decoder::new(&bytes[..]);
                unpack(decoder.map_err(|error| broken(encoding, &error))?, encoding, limit_bytes, &mut hold)?
            }
        };
        Ok(Unpacked { bytes, hold })
    }
}

/// The bytes of a body, not packed.
pub(super) struct Unpacked {
    pub(super) bytes: Held,
    pub(super) hold: Hold,
}

fn unpack(
    mut decoder: impl Read,
    encoding: Encoding,
    limit_bytes: usize,
    hold: &mut Hold,
) -> Result<Held, Failure> {
    let mut buffer = Buffer::take();
    let bytes = &mut buffer.0;
    loop {
        let step = decoder.by_ref().take(UNPACK_STEP_BYTES).read_to_end(bytes);
        let step_bytes = step.map_err(|error| broken(encoding, &error))?;
        hold.grow(step_bytes).map_err(refused)?;
        if bytes.len() > limit_bytes {
            return Err(too_large());
        }
        if step_bytes == 0 {
            return Ok(Held::Whole(buffer));
        }
    }
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

fn broken(encoding: Encoding, error: &std::io::Error) -> Failure {
    let words = match (encoding, error.kind()) {
        // The same.
        (Encoding::Gzip, ErrorKind::UnexpectedEof) => "unexpected EOF".to_owned(),
        (Encoding::Gzip, _) => format!("gzip: {error}"),
        _ => format!("zstd: {error}"),
    };
    failure(StatusCode::BAD_REQUEST, words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::RETRY_AFTER;

    #[test]
    fn a_client_that_was_slow_may_send_it_again() {
        let refused = too_slow(PAUSE_MAX);
        assert!(refused.status().is_server_error() && refused.headers().contains_key(RETRY_AFTER));
    }
}
