//! Entries of the log.

use crate::tsm::limit::Problem;
use crate::values::{Kind, Points, Values};

/// Who receives what entries say.
pub trait LogTarget {
    /// An entry of so many bytes follows.
    fn begin(&mut self, _entry_bytes: usize) {}
    /// Points of a key, in the order in which they were written, to be appended to what it returns.
    fn points(&mut self, key: &[u8], kind: Kind) -> &mut Points;
    /// The points of a key between two times are deleted.
    fn delete(&mut self, key: &[u8], first_ns: i64, last_ns: i64);
}

/// Bytes that are read from the front.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Problem> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or("the entry is cut off")?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Problem> {
        Ok(*self.take(N)?.first_chunk().expect("as many bytes as were taken"))
    }
}

/// Decodes an entry that is decompressed. It is checked as a whole first, so a bad one changes nothing.
pub fn decode(entry_type: u8, entry: &[u8], target: &mut impl LogTarget) -> Result<(), Problem> {
    match entry_type {
        1 => {
            written(entry, &mut Checked(None))?;
            target.begin(entry.len());
            written(entry, target)
        }
        2 => {
            entry.split(|byte| *byte == b'\n').for_each(|key| target.delete(key, i64::MIN, i64::MAX));
            Ok(())
        }
        3 => {
            deleted(entry, &mut Checked(None))?;
            deleted(entry, target)
        }
        other => Err(format!("type {other} of entries is unknown").into()),
    }
}

/// Takes what an entry says only to see that it can be read.
struct Checked(Option<Points>);

impl LogTarget for Checked {
    fn points(&mut self, _: &[u8], kind: Kind) -> &mut Points {
        self.0.insert(Points::new(kind))
    }

    fn delete(&mut self, _: &[u8], _: i64, _: i64) {}
}

fn written(entry: &[u8], target: &mut impl LogTarget) -> Result<(), Problem> {
    let mut input = Input(entry);
    while !input.0.is_empty() {
        let [kind] = input.array()?;
        let kind = match kind {
            1 => Kind::Float,
            2 => Kind::Integer,
            3 => Kind::Boolean,
            4 => Kind::String,
            5 => Kind::Unsigned,
            other => return Err(format!("type {other} of values is unknown").into()),
        };
        let key_bytes = usize::from(u16::from_be_bytes(input.array()?));
        let key = input.take(key_bytes)?;
        let count = u32::from_be_bytes(input.array()?) as usize;
        let value_bytes_min = match kind {
            Kind::Float | Kind::Integer | Kind::Unsigned => 8,
            Kind::Boolean => 1,
            Kind::String => 4,
        };
        if count == 0 || count > input.0.len() / (8 + value_bytes_min) {
            return Err(format!("{count} values are said to be in {} bytes", input.0.len()).into());
        }
        let points = target.points(key, kind);
        for _ in 0..count {
            let time_ns = i64::from_be_bytes(input.array()?);
            match &mut points.values {
                Values::Float(floats) => floats.push(f64::from_be_bytes(input.array()?)),
                Values::Integer(integers) => integers.push(i64::from_be_bytes(input.array()?)),
                Values::Unsigned(integers) => integers.push(u64::from_be_bytes(input.array()?)),
                Values::Boolean(booleans) => booleans.push(input.array::<1>()? == [1]),
                Values::String(strings) => {
                    let length = u32::from_be_bytes(input.array()?) as usize;
                    strings.push(input.take(length)?);
                }
            }
            points.times_ns.push(time_ns);
        }
    }
    Ok(())
}

fn deleted(entry: &[u8], target: &mut impl LogTarget) -> Result<(), Problem> {
    let mut input = Input(entry);
    let (first_ns, last_ns) = (i64::from_be_bytes(input.array()?), i64::from_be_bytes(input.array()?));
    while !input.0.is_empty() {
        let length = u32::from_be_bytes(input.array()?) as usize;
        target.delete(input.take(length)?, first_ns, last_ns);
    }
    Ok(())
}
