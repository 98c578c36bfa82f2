//! Integers of a block: differences whose sign is in the lowest bit; as they are, by simple8b, or one that is repeated.
//! Unsigned integers are encoded as if they were signed.

use super::limit::{Problem, check_count};
use super::simple8b;
use crate::varint::{big_endian_64, read_varint, zigzag};

/// Appends the integers.
pub(super) fn decode(bytes: &[u8], take: &mut impl FnMut(i64)) -> Result<(), Problem> {
    let (&head, body) = bytes.split_first().ok_or("there are no integers")?;
    match head >> 4 {
        0 => differences(body, take),
        1 => packed(body, take),
        2 => repeated(body, take),
        other => Err(Problem::from(format!("encoding {other} of integers is unknown"))),
    }
}

fn differences(body: &[u8], take: &mut impl FnMut(i64)) -> Result<(), Problem> {
    let (words, rest) = body.as_chunks::<8>();
    if !rest.is_empty() {
        return Err("the integers are cut off".into());
    }
    check_count(words.len())?;
    let mut last = 0_i64;
    for word in words {
        last = last.wrapping_add(zigzag(u64::from_be_bytes(*word)));
        take(last);
    }
    Ok(())
}

fn packed(body: &[u8], take: &mut impl FnMut(i64)) -> Result<(), Problem> {
    let mut last = zigzag(big_endian_64(body).ok_or("the first integer is cut off")?);
    let count = 1 + simple8b::count(&body[8..]).ok_or("the integers are cut off")?;
    check_count(count)?;
    take(last);
    simple8b::decode(&body[8..], |difference| {
        last = last.wrapping_add(zigzag(difference));
        take(last);
    });
    Ok(())
}

fn repeated(body: &[u8], take: &mut impl FnMut(i64)) -> Result<(), Problem> {
    let first = zigzag(big_endian_64(body).ok_or("the first integer is cut off")?);
    let (difference, rest) = read_varint(&body[8..]).ok_or("the difference of integers is cut off")?;
    let (repeats, _) = read_varint(rest).ok_or("the number of integers is cut off")?;
    let count = usize::try_from(repeats).unwrap_or(usize::MAX).saturating_add(1);
    check_count(count)?;
    let (mut value, difference) = (first, zigzag(difference));
    for _ in 0..count {
        take(value);
        value = value.wrapping_add(difference);
    }
    Ok(())
}
