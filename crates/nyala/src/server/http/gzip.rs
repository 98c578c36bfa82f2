//! Compresses answers for clients that accept gzip.
//!
//! An answer that fits into a few network packets is stored without compression: a smaller answer would save nothing
//! noticeable, and light queries stay light.

use super::deflate::deflate;
use bytes::Bytes;
use crc32fast::Hasher;
use hyper::header::{ACCEPT_ENCODING, HeaderMap};

/// Shorter answers are not compressed: what three Ethernet packets hold beside their headers. Compression costs as much
/// as a light query.
const COMPRESSED_FROM_BYTES: usize = 4_000;
/// The header of a gzip file (RFC 1952) without a name or a time.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// Whether a client accepts gzip: whether `Accept-Encoding` names it, whatever its weight.
pub(super) fn is_accepted(headers: &HeaderMap) -> bool {
    let accepts = |value: &[u8]| value.windows(4).any(|word| word == b"gzip");
    headers.get_all(ACCEPT_ENCODING).iter().any(|value| accepts(value.as_bytes()))
}

/// Compresses the segments of one answer.
#[derive(Default)]
pub(super) struct Compressor {
    begun: bool,
    checksum: Hasher,
    /// Modulo 2^32, as gzip stores it.
    length: u32,
}

impl Compressor {
    /// Compresses the next segment, which the client can decompress at once. The last segment ends the file.
    pub(super) fn compress(&mut self, segment: &[u8], last: bool) -> Bytes {
        let mut out = Vec::new();
        if !self.begun {
            out.reserve(if segment.len() < COMPRESSED_FROM_BYTES {
                segment.len() + 32
            } else {
                segment.len() / 3
            });
            out.extend_from_slice(&HEADER);
        }
        self.checksum.update(segment);
        self.length = self.length.wrapping_add(segment.len() as u32);
        match !self.begun && last && segment.len() < COMPRESSED_FROM_BYTES {
            true => store(segment, &mut out),
            false => deflate(segment, last, &mut out),
        }
        self.begun = true;
        if last {
            out.extend_from_slice(&std::mem::take(&mut self.checksum).finalize().to_le_bytes());
            out.extend_from_slice(&self.length.to_le_bytes());
        }
        out.into()
    }
}

/// One stored block (RFC 1951), the last.
fn store(segment: &[u8], out: &mut Vec<u8>) {
    const LAST_STORED: u8 = 1;
    let length = segment.len() as u16;
    out.push(LAST_STORED);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&(!length).to_le_bytes());
    out.extend_from_slice(segment);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn compressed_answers_decompress() {
        let long = b"0123456789".repeat(1_000);
        let answers: [&[&[u8]]; 4] = [&[b""], &[b"short"], &[&long], &[b"a", &long, b"", b"end"]];
        for segments in answers {
            let mut compressor = Compressor::default();
            let mut compressed = Vec::new();
            for (position, segment) in segments.iter().enumerate() {
                compressed.extend_from_slice(&compressor.compress(segment, position + 1 == segments.len()));
            }
            let mut decompressed = Vec::new();
            flate2::read::GzDecoder::new(&compressed[..]).read_to_end(&mut decompressed).unwrap();
            assert_eq!(decompressed, segments.concat());
        }
    }
}
