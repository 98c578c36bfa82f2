//! Answers packed for clients that accept it.
//!
//! An answer that fits into a few network packets is only wrapped: making it smaller saves nothing that could be
//! noticed, and light queries then cost no compression.

use super::deflate::deflate;
use bytes::Bytes;
use crc32fast::Hasher;
use hyper::header::{ACCEPT_ENCODING, HeaderMap};

/// Below this an answer is wrapped, not packed: what three Ethernet packets hold beside their headers. Packing costs what
/// a light query does.
const PACKED_FROM_BYTES: usize = 4_000;
/// A gzip file (RFC 1952) of deflate, without a name or a time.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// Whether a client takes packed answers.
pub(super) fn is_accepted(headers: &HeaderMap) -> bool {
    let accepts = |value: &[u8]| value.windows(4).any(|word| word == b"gzip");
    headers.get_all(ACCEPT_ENCODING).iter().any(|value| accepts(value.as_bytes()))
}

/// Packs the pieces of one answer.
#[derive(Default)]
pub(super) struct Packer {
    begun: bool,
    checksum: Hasher,
    /// Modulo 2^32, as it is told.
    length: u32,
}

impl Packer {
    /// The next piece, packed, all of which the client can read at once. The last one ends the file.
    pub(super) fn pack(&mut self, piece: &[u8], last: bool) -> Bytes {
        let mut out = Vec::new();
        if !self.begun {
            out.reserve(if piece.len() < PACKED_FROM_BYTES { piece.len() + 32 } else { piece.len() / 3 });
            out.extend_from_slice(&HEADER);
        }
        self.checksum.update(piece);
        self.length = self.length.wrapping_add(piece.len() as u32);
        match !self.begun && last && piece.len() < PACKED_FROM_BYTES {
            true => store(piece, &mut out),
            false => deflate(piece, last, &mut out),
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
fn store(piece: &[u8], out: &mut Vec<u8>) {
    const LAST_STORED: u8 = 1;
    let length = piece.len() as u16;
    out.push(LAST_STORED);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&(!length).to_le_bytes());
    out.extend_from_slice(piece);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn what_is_packed_unpacks() {
        let long = b"0123456789".repeat(1_000);
        let answers: [&[&[u8]]; 4] = [&[b""], &[b"short"], &[&long], &[b"a", &long, b"", b"end"]];
        for pieces in answers {
            let mut packer = Packer::default();
            let mut packed = Vec::new();
            for (position, piece) in pieces.iter().enumerate() {
                packed.extend_from_slice(&packer.pack(piece, position + 1 == pieces.len()));
            }
            let mut unpacked = Vec::new();
            flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut unpacked).unwrap();
            assert_eq!(unpacked, pieces.concat());
        }
    }
}
