//! Answers packed for clients that accept it.
//!
//! An answer that fits into one network packet is only wrapped, since making it smaller saves nothing: light
//! queries then cost no compression.

use bytes::Bytes;
use flate2::write::GzEncoder;
use flate2::{Compression, Crc};
use hyper::header::{ACCEPT_ENCODING, HeaderMap};
use std::io::Write;

/// Below this an answer is wrapped, not packed: what one Ethernet packet holds beside its headers.
const PACKED_FROM_BYTES: usize = 1_200;

/// Whether a client takes packed answers.
pub(super) fn is_accepted(headers: &HeaderMap) -> bool {
    let accepts = |value: &[u8]| value.windows(4).any(|word| word == b"gzip");
    headers.get_all(ACCEPT_ENCODING).iter().any(|value| accepts(value.as_bytes()))
}

/// Packs the pieces of one answer.
#[derive(Default)]
pub(super) struct Packer {
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl Packer {
    /// The next piece, packed. The last one ends the stream.
    pub(super) fn pack(&mut self, piece: &[u8], last: bool) -> Bytes {
        if self.encoder.is_none() && last && piece.len() < PACKED_FROM_BYTES {
            return wrap(piece).into();
        }
        let encoder = self.encoder.get_or_insert_with(|| GzEncoder::new(Vec::new(), Compression::fast()));
        encoder.write_all(piece).expect("writing to memory does not fail");
        match last {
            true => self.encoder.take().expect("it was just there").finish(),
            // What is held back would keep the client waiting.
            false => encoder.flush().map(|()| std::mem::take(encoder.get_mut())),
        }
        .expect("writing to memory does not fail")
        .into()
    }
}

/// A gzip stream (RFC 1952) of one stored block (RFC 1951).
fn wrap(bytes: &[u8]) -> Vec<u8> {
    const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    const LAST_STORED: u8 = 1;
    let length = bytes.len() as u16;
    let mut checksum = Crc::new();
    checksum.update(bytes);
    let mut out = Vec::with_capacity(bytes.len() + 23);
    out.extend_from_slice(&HEADER);
    out.push(LAST_STORED);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&(!length).to_le_bytes());
    out.extend_from_slice(bytes);
    out.extend_from_slice(&checksum.sum().to_le_bytes());
    out.extend_from_slice(&u32::from(length).to_le_bytes());
    out
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
