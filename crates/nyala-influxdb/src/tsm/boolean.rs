//! Booleans of a block: their number, and a bit each, the highest first.

use super::limit::{Problem, check_count};
use crate::varint::read_varint;

/// Appends the booleans.
pub(super) fn decode(bytes: &[u8], into: &mut Vec<bool>) -> Result<(), Problem> {
    let (&head, body) = bytes.split_first().ok_or("there are no booleans")?;
    if head >> 4 != 1 {
        return Err(Problem::from(format!("encoding {} of booleans is unknown", head >> 4)));
    }
    let (count, bits) = read_varint(body).ok_or("the number of booleans is cut off")?;
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    check_count(count)?;
    if bits.len() < count.div_ceil(8) {
        return Err("the booleans are cut off".into());
    }
    into.extend((0..count).map(|index| bits[index / 8] & (128 >> (index % 8)) != 0));
    Ok(())
}
