//! Reads the query files of `tsbs_generate_queries`: streams of Go's gob encoding.
//!
//! ```text
//! file    = message*
//! message = length:unsigned  content
//! content = id:signed  …        id < 0: the definition of type -id, skipped
//!                               id > 0: a value of it
//! value   = (delta:unsigned  field)*  0       delta: steps from the last field's number, from -1
//! ```
//! An unsigned number below 128 is one byte; a larger one is a byte with the negated count of the big-endian bytes that
//! follow. A signed number is stored as an unsigned one with its sign in the lowest bit. The type is TSBS' `HTTP`, whose
//! fields in order are two labels, method, path, body, raw query (all bytes), two times (signed).

use super::text::Request;
use crate::error::{BenchError, Result};
use std::path::Path;

/// A query of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileQuery {
    /// TSBS' name for its type.
    pub label: String,
    /// What to send.
    pub request: Request,
}

/// Reads a file, gzipped or not. `suffix` (such as a database) is appended to each query string.
pub fn read_queries(path: &Path, suffix: &str) -> Result<Vec<FileQuery>> {
    let bytes = crate::workload::file::read_whole(path)?;
    let invalid =
        |what: &str| BenchError::Invalid(format!("{} is not a TSBS query file: {what}", path.display()));
    let mut queries = Vec::new();
    for value in decode(&bytes).map_err(invalid)? {
        let [label, _, method, path, body, _] = value;
        let method = match &method[..] {
            b"GET" => "GET",
            b"POST" => "POST",
            _ => return Err(invalid("a method other than GET and POST")),
        };
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).map_err(|_| invalid("text that is not UTF-8"));
        let path = text(path)?;
        // The path becomes part of a request line.
        if !path.starts_with('/') || path.bytes().any(|byte| byte <= b' ' || byte == 0x7f) || !body.is_empty()
        {
            return Err(invalid("a request other than a path with a query string"));
        }
        queries.push(FileQuery { label: text(label)?, request: Request { method, path: path + suffix } });
    }
    Ok(queries)
}

/// TSBS' type begins with this many fields of bytes, and has this many fields in total.
const BYTE_FIELDS: usize = 6;
const FIELDS: usize = 8;

/// The byte fields of each value.
fn decode(mut bytes: &[u8]) -> std::result::Result<Vec<[Vec<u8>; BYTE_FIELDS]>, &'static str> {
    let mut values = Vec::new();
    while !bytes.is_empty() {
        let length = take_length(&mut bytes)?;
        let mut content;
        (content, bytes) = bytes.split_at(length);
        if take_unsigned(&mut content)? & 1 == 1 {
            continue;
        }
        let mut value: [Vec<u8>; BYTE_FIELDS] = Default::default();
        let mut next = 0;
        loop {
            let delta = take_unsigned(&mut content)?;
            if delta == 0 {
                break;
            }
            let field =
                usize::try_from(delta).ok().and_then(|delta| delta.checked_add(next)).unwrap_or(usize::MAX);
            next = field;
            match field {
                1..=BYTE_FIELDS => {
                    let length = take_length(&mut content)?;
                    let text;
                    (text, content) = content.split_at(length);
                    value[field - 1] = text.to_vec();
                }
                ..=FIELDS => drop(take_unsigned(&mut content)?),
                _ => return Err("a field that TSBS' type does not have"),
            }
        }
        if !content.is_empty() {
            return Err("a message longer than its value");
        }
        values.push(value);
    }
    Ok(values)
}

fn take_unsigned(bytes: &mut &[u8]) -> std::result::Result<u64, &'static str> {
    let (&first, rest) = bytes.split_first().ok_or("it ends within a number")?;
    *bytes = rest;
    if first < 128 {
        return Ok(u64::from(first));
    }
    let count = usize::from(first.wrapping_neg());
    if count > 8 || count > bytes.len() {
        return Err("a number of too many bytes");
    }
    let (number, rest) = bytes.split_at(count);
    *bytes = rest;
    Ok(number.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

/// A length, which must not exceed the bytes after it.
fn take_length(bytes: &mut &[u8]) -> std::result::Result<usize, &'static str> {
    let length = take_unsigned(bytes)?;
    usize::try_from(length).ok().filter(|length| *length <= bytes.len()).ok_or("it ends too early")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Three queries, written by Go's `encoding/gob` from a structure like TSBS'.
    const FILE: &[u8] = include_bytes!("../../testdata/queries.gob");

    #[test]
    fn values_written_by_go_are_read() {
        let values = decode(FILE).unwrap();
        assert_eq!(values.len(), 3);
        for (number, value) in values.iter().enumerate() {
            let text = |field: usize| std::str::from_utf8(&value[field]).unwrap();
            assert_eq!(text(0), "Influx 1 cpu metric(s), random    1 hosts, random 1h0m0s by 1m");
            assert_eq!((text(1), text(2)), ("d", "POST"));
            assert!(text(3).starts_with("/query?q=SELECT+max%28usage_user%29"));
            assert_eq!(text(4), if number == 2 { "body" } else { "" });
            assert!(text(5).contains(&format!("'host_{number}'")));
        }
    }

    #[test]
    fn damaged_files_never_panic() {
        for length in 0..FILE.len() {
            let _ = decode(&FILE[..length]);
        }
        let mut random = Random::new(1, 1);
        for _ in 0..20_000 {
            let mut bytes = FILE.to_vec();
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.bits() as u8;
            }
            let _ = decode(&bytes);
        }
        assert!(decode(&FILE[..FILE.len() - 1]).is_err());
        assert!(decode(b"\x05hello").is_err());
    }

    #[test]
    fn files_become_requests() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("queries");
        std::fs::write(&path, FILE).unwrap();
        let refused = read_queries(&path, "&db=x").unwrap_err().to_string();
        assert!(refused.contains("a request other than"), "the third has a body: {refused}");
        let two = FILE.len() - decode_lengths().last().unwrap();
        std::fs::write(&path, &FILE[..two]).unwrap();
        let queries = read_queries(&path, "&db=x").unwrap();
        assert_eq!(queries.len(), 2);
        assert!(queries[1].request.path.ends_with("&db=x") && queries[1].request.method == "POST");
    }

    /// The size of each message, with its length prefix.
    fn decode_lengths() -> Vec<usize> {
        let (mut bytes, mut lengths) = (FILE, Vec::new());
        while !bytes.is_empty() {
            let before = bytes.len();
            let length = take_length(&mut bytes).unwrap();
            bytes = &bytes[length..];
            lengths.push(before - bytes.len());
        }
        lengths
    }
}
