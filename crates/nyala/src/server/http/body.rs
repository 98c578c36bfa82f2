//! Request bodies: read completely within a size limit, and decompressed within the same limit.
//!
//! All bodies share a part of the server's memory, so that many clients at once cannot take more. A client that sends
//! slowly or not at all gets an error. A buffer grows with what arrives, whatever length a client announces, and its
//! whole capacity is charged.

mod buffer;
mod decompress;
mod inflate;

pub(super) use buffer::{BodyCharge, Buffer};

use super::Context;
use super::buffer_pool::BufferPool;
use super::response::{Failure, failure, status_of};
use crate::server::connection_limit::ConnectionPermit;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::{Body as _, Frame};
use hyper::header::{CONTENT_ENCODING, EXPECT, HeaderMap};
use nyala_core::Error;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// How long a client may pause within a body.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// How long a client may take to send a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(300);
/// How much of an unwanted body is read and discarded, ...
const DISCARDED_MAX_BYTES: usize = 256 << 10;
/// ... and for how long.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(1);
/// Bodies up to this length may be parsed by the thread that received them.
const INLINE_BODY_BYTES: usize = 64 << 10;

/// A body that is being received. While it pauses, its connection may be closed for another.
pub struct RequestBody {
    body: hyper::body::Incoming,
    permit: Arc<ConnectionPermit>,
}

impl RequestBody {
    pub(super) fn new(body: hyper::body::Incoming, permit: Arc<ConnectionPermit>) -> Self {
        Self { body, permit }
    }

    async fn frame(&mut self) -> Option<Result<Frame<Bytes>, hyper::Error>> {
        self.permit.wait_for_body();
        let frame = self.body.frame().await;
        if !self.permit.resume() {
            // The connection is being closed.
            std::future::pending::<()>().await;
        }
        frame
    }
}

/// The bytes of a body.
pub(super) enum BodyBytes {
    /// The body arrived in one frame.
    Frame(Bytes),
    /// The body arrived in several frames.
    Gathered(Buffer),
}

impl Deref for BodyBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            BodyBytes::Frame(bytes) => bytes,
            BodyBytes::Gathered(buffer) => &buffer.bytes,
        }
    }
}

impl BodyBytes {
    /// What is charged for them.
    fn charged_bytes(&self) -> usize {
        match self {
            BodyBytes::Frame(bytes) => bytes.len(),
            BodyBytes::Gathered(buffer) => buffer.bytes.capacity(),
        }
    }
}

/// A body as it was sent.
pub(super) struct Body {
    bytes: BodyBytes,
    encoding: Encoding,
    limit_bytes: usize,
    charge: BodyCharge,
    buffers: Arc<BufferPool>,
}

/// How a body is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Plain,
    Gzip,
    Zstd,
}

/// Reads a body.
pub(super) async fn read(
    context: &Context,
    body: &mut RequestBody,
    headers: &HeaderMap,
) -> Result<Body, Failure> {
    read_within(context.limits.body_bytes, context, body, headers).await
}

/// Reads a body that may not be longer than `limit_bytes`, compressed or decompressed.
pub(super) async fn read_within(
    limit_bytes: usize,
    context: &Context,
    body: &mut RequestBody,
    headers: &HeaderMap,
) -> Result<Body, Failure> {
    let databases = context.databases()?;
    let mut charge = BodyCharge::of(&databases.memory);
    let buffers = databases.body_buffers.clone();
    let reading = collect(body, limit_bytes, &buffers, &mut charge);
    let bytes = tokio::time::timeout(BODY_TIMEOUT, reading).await.map_err(|_| too_slow(BODY_TIMEOUT))??;
    let encoding = match headers.get(CONTENT_ENCODING).map(|value| value.as_bytes()) {
        Some(b"gzip") => Encoding::Gzip,
        Some(b"zstd") => Encoding::Zstd,
        _ => Encoding::Plain,
    };
    Ok(Body { bytes, encoding, limit_bytes, charge, buffers })
}

/// Reads the rest of an unwanted body, if it is short. A client that is still sending would otherwise see a broken
/// connection instead of the answer. A client that waits for `100 Continue` never sends the body.
pub(super) async fn discard(body: &mut RequestBody, headers: &HeaderMap) {
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
    body: &mut RequestBody,
    limit_bytes: usize,
    buffers: &Arc<BufferPool>,
    charge: &mut BodyCharge,
) -> Result<BodyBytes, Failure> {
    let declared_bytes = body.body.size_hint().lower();
    if declared_bytes > limit_bytes as u64 {
        return Err(too_large());
    }
    let most_bytes = if declared_bytes > 0 { declared_bytes as usize } else { limit_bytes };
    let mut first = Bytes::new();
    let mut all: Option<Buffer> = None;
    loop {
        let frame = tokio::time::timeout(PAUSE_MAX, body.frame()).await.map_err(|_| too_slow(PAUSE_MAX))?;
        let data = match frame {
            None => return Ok(all.map_or(BodyBytes::Frame(first), BodyBytes::Gathered)),
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
            charge.grow(data.len()).map_err(refused)?;
            first = data;
            continue;
        }
        let all = match &mut all {
            Some(all) => all,
            None => {
                charge.shrink(first.len());
                let gathered = all.insert(Buffer::take(buffers, charge));
                gathered.reserve(first.len() + data.len(), most_bytes, charge).map_err(refused)?;
                // The first frame is dropped here, so that the connection can use its memory again.
                gathered.bytes.extend_from_slice(&std::mem::take(&mut first));
                gathered
            }
        };
        all.reserve(data.len(), most_bytes, charge).map_err(refused)?;
        all.bytes.extend_from_slice(&data);
    }
}

impl Body {
    /// Whether it is so small that the connection's thread may parse it.
    pub(super) fn can_parse_inline(&self) -> bool {
        self.encoding == Encoding::Plain && self.bytes.len() <= INLINE_BODY_BYTES
    }

    /// Decompresses the body if it is compressed. This takes long: threads that serve connections do it only for small
    /// bodies.
    pub(super) fn decompressed(self) -> Result<DecompressedBody, Failure> {
        let Body { bytes, encoding, limit_bytes, mut charge, buffers } = self;
        let decompress = match encoding {
            Encoding::Plain => return Ok(DecompressedBody { bytes, charge }),
            // The message is InfluxDB's; clients may know it.
            Encoding::Gzip if bytes.is_empty() => return Err(failure(StatusCode::BAD_REQUEST, "EOF")),
            Encoding::Gzip => decompress::gzip,
            Encoding::Zstd => decompress::zstd,
        };
        let mut into = Buffer::take(&buffers, &mut charge);
        decompress(&bytes, &mut into, limit_bytes, &mut charge).map_err(|error| match error {
            decompress::Error::TooLarge => too_large(),
            decompress::Error::OutOfMemory(error) => refused(error),
            decompress::Error::Corrupt(words) => failure(StatusCode::BAD_REQUEST, words),
        })?;
        let compressed_bytes = bytes.charged_bytes();
        drop(bytes);
        charge.shrink(compressed_bytes);
        Ok(DecompressedBody { bytes: BodyBytes::Gathered(into), charge })
    }
}

/// A body without compression.
pub(super) struct DecompressedBody {
    pub(super) bytes: BodyBytes,
    pub(super) charge: BodyCharge,
}

/// The answer when memory cannot be charged.
pub(super) fn refused(error: Error) -> Failure {
    failure(status_of(&error), error.message())
}

fn too_large() -> Failure {
    failure(StatusCode::PAYLOAD_TOO_LARGE, "Request Entity Too Large")
}

/// 503 instead of 408, because clients drop a write on any 4xx and send it again on 503.
fn too_slow(limit: Duration) -> Failure {
    let words = format!("the body did not come within {} s", limit.as_secs());
    failure(StatusCode::SERVICE_UNAVAILABLE, words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::RETRY_AFTER;

    #[test]
    fn a_client_that_was_slow_is_told_to_retry() {
        let refused = too_slow(PAUSE_MAX);
        assert!(refused.status().is_server_error() && refused.headers().contains_key(RETRY_AFTER));
    }
}
