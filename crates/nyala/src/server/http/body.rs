//! Bodies of requests: read whole, within a limit, unpacked within the same limit.

use super::response::{Failure, failure};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::header::{CONTENT_ENCODING, HeaderMap};
use std::io::Read;

/// Reads a body. `limit_bytes` bounds it as it is sent and unpacked.
pub(super) async fn read(body: Incoming, headers: &HeaderMap, limit_bytes: usize) -> Result<Bytes, Failure> {
    let too_large = || failure(StatusCode::PAYLOAD_TOO_LARGE, "Request Entity Too Large");
    let packed = match Limited::new(body, limit_bytes).collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => return Err(too_large()),
        Err(error) => return Err(failure(StatusCode::BAD_REQUEST, format!("reading the body: {error}"))),
    };
    let encoding = headers.get(CONTENT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or("");
    let unpacked = match encoding {
        "gzip" => unpack(flate2::read::MultiGzDecoder::new(&packed[..]), limit_bytes),
        "zstd" => match zstd::stream::read::Decoder::new(&packed[..]) {
            Ok(decoder) => unpack(decoder, limit_bytes),
            Err(error) => Err(error),
        },
        _ => return Ok(packed),
    };
    match unpacked {
        Ok(Some(bytes)) => Ok(bytes.into()),
        Ok(None) => Err(too_large()),
        Err(error) => Err(failure(StatusCode::BAD_REQUEST, format!("{encoding}: {error}"))),
    }
}

/// What a decoder yields; `None` if that is more than the limit.
fn unpack(decoder: impl Read, limit_bytes: usize) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    decoder.take(limit_bytes as u64 + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() <= limit_bytes).then_some(bytes))
}
