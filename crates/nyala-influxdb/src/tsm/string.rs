//! Strings of a block: length and bytes of each, compressed together by Snappy.

use super::limit::{Problem, TEXT_BYTES_MAX, check_count};
use crate::values::Strings;
use crate::varint::read_varint;

/// Each byte of Snappy's format stands for at most this many: a copy of 64 bytes takes three, or two.
const EXPANSION_MAX: usize = 32;

/// Decompresses Snappy's block format within a bound.
pub(crate) fn decompress<'a>(
    bytes: &[u8],
    scratch: &'a mut Vec<u8>,
    bytes_max: usize,
) -> Result<&'a [u8], Problem> {
    let length = snap::raw::decompress_len(bytes).map_err(|error| Problem::from(error.to_string()))?;
    if length > bytes_max || length > bytes.len().saturating_mul(EXPANSION_MAX) {
        return Err(Problem::from(format!(
            "{} compressed bytes claim to be {length}: at most {bytes_max} are read",
            bytes.len()
        )));
    }
    if scratch.len() < length {
        scratch.resize(length, 0);
    }
    let written = snap::raw::Decoder::new()
        .decompress(bytes, &mut scratch[..length])
        .map_err(|error| Problem::from(error.to_string()))?;
    Ok(&scratch[..written])
}

/// Appends the strings.
pub(super) fn decode(bytes: &[u8], scratch: &mut Vec<u8>, into: &mut Strings) -> Result<(), Problem> {
    let (&head, body) = bytes.split_first().ok_or("there are no strings")?;
    if head >> 4 != 1 {
        return Err(Problem::from(format!("encoding {} of strings is unknown", head >> 4)));
    }
    let mut rest = decompress(body, scratch, TEXT_BYTES_MAX)?;
    while !rest.is_empty() {
        check_count(into.ends.len())?;
        let (length, after) = read_varint(rest).ok_or("the length of a string is cut off")?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > after.len() {
            return Err(Problem::from(format!(
                "a string of {length} bytes is cut off after {}",
                after.len()
            )));
        }
        into.push(&after[..length]);
        rest = &after[length..];
    }
    Ok(())
}
