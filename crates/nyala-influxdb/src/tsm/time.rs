//! Times of a block: differences as they are, by simple8b (divided by a power of ten), or one that is repeated.

use super::limit::{Problem, check_count};
use super::simple8b;
use crate::varint::{big_endian_64, read_varint};

/// Appends the times.
pub(super) fn decode(bytes: &[u8], into: &mut Vec<i64>) -> Result<(), Problem> {
    let (&head, body) = bytes.split_first().ok_or("there are no times")?;
    let divisor = 10_u64.pow(u32::from(head & 0xF));
    match head >> 4 {
        0 => differences(body, into),
        1 => packed(body, divisor, into),
        2 => repeated(body, divisor, into),
        other => Err(Problem::from(format!("encoding {other} of times is unknown"))),
    }
}

fn differences(body: &[u8], into: &mut Vec<i64>) -> Result<(), Problem> {
    let (words, rest) = body.as_chunks::<8>();
    if !rest.is_empty() {
        return Err("the times are cut off".into());
    }
    check_count(words.len())?;
    let mut last = 0_u64;
    into.extend(words.iter().map(|word| {
        last = last.wrapping_add(u64::from_be_bytes(*word));
        last as i64
    }));
    Ok(())
}

fn packed(body: &[u8], divisor: u64, into: &mut Vec<i64>) -> Result<(), Problem> {
    let mut last = big_endian_64(body).ok_or("the first time is cut off")?;
    let count = 1 + simple8b::count(&body[8..]).ok_or("the times are cut off")?;
    check_count(count)?;
    into.reserve(count);
    into.push(last as i64);
    simple8b::decode(&body[8..], |difference| {
        last = last.wrapping_add(difference.wrapping_mul(divisor));
        into.push(last as i64);
    });
    Ok(())
}

fn repeated(body: &[u8], divisor: u64, into: &mut Vec<i64>) -> Result<(), Problem> {
    let first = big_endian_64(body).ok_or("the first time is cut off")?;
    let (difference, rest) = read_varint(&body[8..]).ok_or("the difference of times is cut off")?;
    let (count, _) = read_varint(rest).ok_or("the number of times is cut off")?;
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    check_count(count)?;
    let difference = difference.wrapping_mul(divisor);
    into.extend((0..count as u64).map(|index| first.wrapping_add(index.wrapping_mul(difference)) as i64));
    Ok(())
}
