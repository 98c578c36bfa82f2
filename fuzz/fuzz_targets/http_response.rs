//! Any bytes are read as answers of an HTTP server, or refused. It does not matter how they come.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nyala_client::response::{Body, Response, ResponseReader};
use std::io::Read;

const LIMIT_BYTES: usize = 1 << 10;
/// A longer head may be whole in a buffer and is refused when it comes in parts.
const INPUT_BYTES: usize = 32 << 10;

/// Gives a byte at a time.
struct Slow<'a>(&'a [u8]);

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let most = buffer.len().min(1);
        self.0.read(&mut buffer[..most])
    }
}

/// The answers before the first error, each with its body.
fn answers(mut stream: impl Read) -> Vec<(Response, Vec<u8>)> {
    let (mut reader, mut answers) = (ResponseReader::default(), Vec::new());
    loop {
        let mut into = Vec::new();
        let mut body = Body::Collect { into: &mut into, limit_bytes: LIMIT_BYTES };
        let Ok(Some(response)) = reader.read(&mut stream, &mut body) else { return answers };
        assert!(into.len() <= LIMIT_BYTES);
        answers.push((response, into));
    }
}

fuzz_target!(|bytes: &[u8]| {
    if bytes.len() <= INPUT_BYTES {
        assert_eq!(answers(bytes), answers(Slow(bytes)));
    }
});
