//! Decodes blocks.

use super::limit::Problem;
use super::{boolean, float, integer, string, time};
use crate::values::{Kind, Points, Values};
use crate::varint::read_varint;

/// Memory that is used again for each block.
#[derive(Debug, Default)]
pub struct Scratch {
    text: Vec<u8>,
}

impl Kind {
    /// The type that a byte of a block or of an index stands for.
    pub fn of_block(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Self::Float,
            1 => Self::Integer,
            2 => Self::Boolean,
            3 => Self::String,
            4 => Self::Unsigned,
            _ => return None,
        })
    }
}

/// Decodes a block, without its checksum, to `into`, which must be empty and of the block's type. After an error `into`
/// has some of the points. Times may come in any order; InfluxDB writes them in ascending order.
pub fn decode(block: &[u8], scratch: &mut Scratch, into: &mut Points) -> Result<(), Problem> {
    let (&kind, body) = block.split_first().ok_or("the block is empty")?;
    let kind = Kind::of_block(kind).ok_or_else(|| format!("type {kind} of values is unknown"))?;
    if kind != into.values.kind() {
        return Err(format!(
            "the block has values of type {kind:?}, its index says {:?}",
            into.values.kind()
        )
        .into());
    }
    let (times, values) = split(body)?;
    time::decode(times, &mut into.times_ns)?;
    let count = into.times_ns.len();
    match &mut into.values {
        Values::Float(floats) => {
            floats.reserve(count);
            float::decode(values, floats)?;
        }
        Values::Integer(integers) => {
            integers.reserve(count);
            integer::decode(values, &mut |integer| integers.push(integer))?;
        }
        Values::Unsigned(integers) => {
            integers.reserve(count);
            integer::decode(values, &mut |integer| integers.push(integer as u64))?;
        }
        Values::Boolean(booleans) => boolean::decode(values, booleans)?,
        Values::String(strings) => string::decode(values, &mut scratch.text, strings)?,
    }
    match into.values.len() == count {
        true => Ok(()),
        false => Err(format!("{count} times, but {} values", into.values.len()).into()),
    }
}

/// The number of points of a block, without its checksum.
pub fn count(block: &[u8]) -> Result<usize, Problem> {
    let (times, _) = split(block.get(1..).ok_or("the block is empty")?)?;
    let mut decoded = Vec::new();
    time::decode(times, &mut decoded)?;
    Ok(decoded.len())
}

fn split(body: &[u8]) -> Result<(&[u8], &[u8]), Problem> {
    let (length, rest) = read_varint(body).ok_or("the length of the times is cut off")?;
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    rest.split_at_checked(length).ok_or_else(|| Problem::from("the times are cut off"))
}
