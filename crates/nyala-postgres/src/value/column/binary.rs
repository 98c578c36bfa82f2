//! Cells as the bytes of their types: what PostgreSQL's `…send` functions return.

use super::{Cells, Column};
use crate::error::Failure;
use crate::value::time::{DAYS_TO_2000, Span, US_TO_2000};
use crate::value::types::PgType;
use crate::value::{numeric, units};
use std::fmt::Display;

/// Appends a cell that is not NULL.
pub(in crate::value) fn write(column: &Column, row: usize, out: &mut Vec<u8>) -> Result<(), Failure> {
    let (column, row) = column.resolve(row);
    let of = column.of;
    match column.cells() {
        Cells::Null | Cells::Dictionary(..) => {}
        Cells::Bool(values) => out.push(values.value(row).into()),
        Cells::Int8(values) => integer(values[row].into(), of, out)?,
        Cells::Int16(values) => integer(values[row].into(), of, out)?,
        Cells::Int32(values) => integer(values[row].into(), of, out)?,
        Cells::Int64(values) => integer(values[row], of, out)?,
        Cells::UInt8(values) => integer(values[row].into(), of, out)?,
        Cells::UInt16(values) => integer(values[row].into(), of, out)?,
        Cells::UInt32(values) => integer(values[row].into(), of, out)?,
        Cells::UInt64(values) => decimal(values[row], 0, out),
        Cells::Float32(values) => out.extend_from_slice(&values[row].to_be_bytes()),
        Cells::Float64(values) => out.extend_from_slice(&values[row].to_be_bytes()),
        Cells::Decimal32(values) => decimal(values.value(row), values.scale(), out),
        Cells::Decimal64(values) => decimal(values.value(row), values.scale(), out),
        Cells::Decimal128(values) => decimal(values.value(row), values.scale(), out),
        Cells::Decimal256(values) => decimal(values.value(row), values.scale(), out),
        Cells::Text(values) => text(values.value(row), of, out)?,
        Cells::LargeText(values) => text(values.value(row), of, out)?,
        Cells::TextView(values) => text(values.value(row), of, out)?,
        Cells::Bytes(values) => out.extend_from_slice(values.value(row)),
        Cells::LargeBytes(values) => out.extend_from_slice(values.value(row)),
        Cells::BytesView(values) => out.extend_from_slice(values.value(row)),
        Cells::FixedBytes(values) => out.extend_from_slice(values.value(row)),
        Cells::Date(values) => date(values[row], out)?,
        Cells::LongDate(values) => date(units::days(values[row])?, out)?,
        Cells::Time32(values, unit) => {
            out.extend_from_slice(&units::microseconds(values[row].into(), *unit)?.to_be_bytes());
        }
        Cells::Time64(values, unit) => {
            out.extend_from_slice(&units::microseconds(values[row], *unit)?.to_be_bytes());
        }
        Cells::Timestamp(values, unit) => timestamp(units::microseconds(values[row], *unit)?, out)?,
        Cells::Months(values) => span(Span { months: values[row], ..Span::default() }, out),
        Cells::DaysAndTime(values) => span(units::of_day_time(values.value(row)), out),
        Cells::Span(values) => span(units::of_month_day_nano(values.value(row)), out),
        Cells::Duration(values, unit) => span(units::of_duration(values[row], *unit)?, out),
        Cells::List(ends, elements) => list(ends.of(row), elements, out)?,
    }
    Ok(())
}

/// An integer in the width of its type, which may differ from that of the array.
fn integer(value: i64, of: PgType, out: &mut Vec<u8>) -> Result<(), Failure> {
    let out_of_range = || Failure::new("22003", format!("{value} is out of range for type {}", of.name()));
    match of.size_bytes() {
        2 => out.extend_from_slice(&i16::try_from(value).map_err(|_| out_of_range())?.to_be_bytes()),
        4 if of == PgType::Int4 => {
            out.extend_from_slice(&i32::try_from(value).map_err(|_| out_of_range())?.to_be_bytes());
        }
        // Numbers of objects have no sign.
        4 => out.extend_from_slice(&u32::try_from(value).map_err(|_| out_of_range())?.to_be_bytes()),
        _ => out.extend_from_slice(&value.to_be_bytes()),
    }
    Ok(())
}

fn decimal(value: impl Display, scale: i8, out: &mut Vec<u8>) {
    numeric::write_binary(&value.to_string(), scale, out);
}

fn text(value: &str, of: PgType, out: &mut Vec<u8>) -> Result<(), Failure> {
    match of {
        PgType::Uuid => {
            out.extend_from_slice(&uuid(value).ok_or_else(|| Failure::malformed("uuid", value))?);
        }
        // The version of the format, then its text.
        PgType::Jsonb => {
            out.push(1);
            out.extend_from_slice(value.as_bytes());
        }
        PgType::Char => out.push(value.as_bytes().first().copied().unwrap_or(0)),
        PgType::Regclass | PgType::Regtype | PgType::Regproc | PgType::Oid => {
            let number: u32 = value.parse().map_err(|_| {
                Failure::unsupported(format!(
                    "the binary form of a {} is its number: ask for text",
                    of.name()
                ))
            })?;
            out.extend_from_slice(&number.to_be_bytes());
        }
        _ => out.extend_from_slice(value.as_bytes()),
    }
    Ok(())
}

/// The bytes of a UUID, as PostgreSQL reads one: in braces or not, and with a hyphen behind any group of four digits but the last.
pub(in crate::value) fn uuid(text: &str) -> Option<[u8; 16]> {
    let inner = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}')?,
        None => text,
    };
    let digit = |letter: u8| char::from(letter).to_digit(16).map(|digit| digit as u8);
    let (mut left, mut bytes) = (inner.as_bytes(), [0; 16]);
    for (place, byte) in bytes.iter_mut().enumerate() {
        let [high, low, rest @ ..] = left else { return None };
        *byte = (digit(*high)? << 4) | digit(*low)?;
        let may_separate = place % 2 == 1 && place < 15;
        left = rest.strip_prefix(b"-").filter(|_| may_separate).unwrap_or(rest);
    }
    left.is_empty().then_some(bytes)
}

fn date(days: i32, out: &mut Vec<u8>) -> Result<(), Failure> {
    let from_2000 = match days {
        i32::MAX | i32::MIN => Some(days),
        _ => days.checked_sub(DAYS_TO_2000),
    };
    let from_2000 = from_2000.ok_or_else(|| Failure::new("22008", "date out of range"))?;
    out.extend_from_slice(&from_2000.to_be_bytes());
    Ok(())
}

fn timestamp(unix_us: i64, out: &mut Vec<u8>) -> Result<(), Failure> {
    let from_2000 = match unix_us {
        i64::MAX | i64::MIN => Some(unix_us),
        _ => unix_us.checked_sub(US_TO_2000),
    };
    let from_2000 = from_2000.ok_or_else(|| Failure::new("22008", "timestamp out of range"))?;
    out.extend_from_slice(&from_2000.to_be_bytes());
    Ok(())
}

fn span(span: Span, out: &mut Vec<u8>) {
    out.extend_from_slice(&span.us.to_be_bytes());
    out.extend_from_slice(&span.days.to_be_bytes());
    out.extend_from_slice(&span.months.to_be_bytes());
}

/// An array: its dimensions, whether it has NULLs, the type of its elements, the size of each dimension, and the
/// elements. Lists in lists are further dimensions, so they must be equally long.
fn list(rows: std::ops::Range<usize>, elements: &Column, out: &mut Vec<u8>) -> Result<(), Failure> {
    let mut dimensions = Vec::new();
    let (mut level, mut ranges) = (elements, vec![rows]);
    loop {
        let length = ranges[0].len();
        if ranges.iter().any(|range| range.len() != length) {
            return Err(Failure::new("2202E", "the arrays within an array must be equally long"));
        }
        dimensions.push(length);
        let Cells::List(ends, inner) = level.cells() else { break };
        let deeper: Vec<_> = ranges.iter().flat_map(|range| range.clone()).map(|row| ends.of(row)).collect();
        if deeper.is_empty() {
            break;
        }
        (level, ranges) = (inner, deeper);
    }
    let is_empty = dimensions.contains(&0);
    let has_nulls = ranges.iter().flat_map(|range| range.clone()).any(|row| level.is_null(row));
    out.extend_from_slice(&(if is_empty { 0 } else { dimensions.len() as i32 }).to_be_bytes());
    out.extend_from_slice(&i32::from(has_nulls && !is_empty).to_be_bytes());
    out.extend_from_slice(&elements.of.oid().to_be_bytes());
    if is_empty {
        return Ok(());
    }
    for length in dimensions {
        let length = i32::try_from(length).map_err(|_| Failure::new("54000", "an array is too long"))?;
        out.extend_from_slice(&length.to_be_bytes());
        // The number of its first element.
        out.extend_from_slice(&1_i32.to_be_bytes());
    }
    ranges.into_iter().flatten().try_for_each(|row| level.write(row, out))
}
