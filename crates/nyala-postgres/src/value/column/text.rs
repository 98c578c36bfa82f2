//! Cells as text, as PostgreSQL prints them.

use super::{Cells, Column};
use crate::error::Failure;
use crate::value::time::{Span, write_date, write_time, write_timestamp};
use crate::value::types::PgType;
use crate::value::{numeric, units};
use nyala_sql::float_text;

/// Appends a cell that is not NULL.
pub(in crate::value) fn write(column: &Column, row: usize, out: &mut Vec<u8>) -> Result<(), Failure> {
    let (column, row) = column.resolve(row);
    match column.cells() {
        Cells::Null | Cells::Dictionary(..) => {}
        Cells::Bool(values) => out.push(if values.value(row) { b't' } else { b'f' }),
        Cells::Int8(values) => integer(values[row], out),
        Cells::Int16(values) => integer(values[row], out),
        Cells::Int32(values) => integer(values[row], out),
        Cells::Int64(values) if column.of == PgType::Regproc => function(values[row], out),
        Cells::Int64(values) => integer(values[row], out),
        Cells::UInt8(values) => integer(values[row], out),
        Cells::UInt16(values) => integer(values[row], out),
        Cells::UInt32(values) => integer(values[row], out),
        Cells::UInt64(values) => integer(values[row], out),
        Cells::Float32(values) => float_text::write_f32(values[row], out),
        Cells::Float64(values) => float_text::write_f64(values[row], out),
        Cells::Decimal32(values) => decimal(values.value(row), values.scale(), out),
        Cells::Decimal64(values) => decimal(values.value(row), values.scale(), out),
        // Most have few digits, which are written in a third of the time.
        Cells::Decimal128(values) => match i64::try_from(values.value(row)) {
            Ok(value) => decimal(value, values.scale(), out),
            Err(_) => decimal(values.value(row), values.scale(), out),
        },
        Cells::Decimal256(values) => {
            numeric::write_text(&values.value(row).to_string(), values.scale(), out);
        }
        Cells::Text(values) => out.extend_from_slice(values.value(row).as_bytes()),
        Cells::LargeText(values) => out.extend_from_slice(values.value(row).as_bytes()),
        Cells::TextView(values) => out.extend_from_slice(values.value(row).as_bytes()),
        Cells::Bytes(values) => bytes(values.value(row), column.of, out),
        Cells::LargeBytes(values) => bytes(values.value(row), column.of, out),
        Cells::BytesView(values) => bytes(values.value(row), column.of, out),
        Cells::FixedBytes(values) => bytes(values.value(row), column.of, out),
        Cells::Date(values) => write_date(values[row], out),
        Cells::LongDate(values) => write_date(units::days(values[row])?, out),
        Cells::Time32(values, unit) => write_time(units::microseconds(values[row].into(), *unit)?, out),
        Cells::Time64(values, unit) => write_time(units::microseconds(values[row], *unit)?, out),
        Cells::Timestamp(values, unit) => {
            let zone = (column.of == PgType::Timestamptz).then_some(column.zone);
            write_timestamp(units::microseconds(values[row], *unit)?, zone, out);
        }
        Cells::Months(values) => Span { months: values[row], ..Span::default() }.write(out),
        Cells::DaysAndTime(values) => units::of_day_time(values.value(row)).write(out),
        Cells::Span(values) => units::of_month_day_nano(values.value(row)).write(out),
        Cells::Duration(values, unit) => units::of_duration(values[row], *unit)?.write(out),
        Cells::List(ends, elements) if column.of.element() != column.of => {
            vector(ends.of(row), elements, out)?;
        }
        Cells::List(ends, elements) => list(ends.of(row), elements, out)?,
    }
    Ok(())
}

fn integer(value: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// The name of a function, or its number if it is not known.
fn function(number: i64, out: &mut Vec<u8>) {
    match u32::try_from(number).ok().and_then(nyala_sql::function_name) {
        Some(name) => out.extend_from_slice(name.as_bytes()),
        None => integer(number, out),
    }
}

fn decimal(value: impl itoa::Integer, scale: i8, out: &mut Vec<u8>) {
    numeric::write_text(itoa::Buffer::new().format(value), scale, out);
}

fn bytes(value: &[u8], of: PgType, out: &mut Vec<u8>) {
    if of == PgType::Uuid && value.len() == 16 {
        for (at, byte) in value.iter().enumerate() {
            if [4, 6, 8, 10].contains(&at) {
                out.push(b'-');
            }
            hexadecimal(*byte, out);
        }
        return;
    }
    out.reserve(2 + 2 * value.len());
    out.extend_from_slice(b"\\x");
    value.iter().for_each(|byte| hexadecimal(*byte, out));
}

fn hexadecimal(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

/// `1 2`.
fn vector(mut rows: std::ops::Range<usize>, elements: &Column, out: &mut Vec<u8>) -> Result<(), Failure> {
    if let Some(first) = rows.next() {
        write(elements, first, out)?;
    }
    rows.try_for_each(|row| {
        out.push(b' ');
        write(elements, row, out)
    })
}

/// `{1,NULL,"two words"}`.
fn list(rows: std::ops::Range<usize>, elements: &Column, out: &mut Vec<u8>) -> Result<(), Failure> {
    out.push(b'{');
    let mut element = Vec::new();
    for (number, row) in rows.enumerate() {
        if number > 0 {
            out.push(b',');
        }
        if elements.is_null(row) {
            out.extend_from_slice(b"NULL");
            continue;
        }
        if matches!(elements.resolve(row).0.cells(), Cells::List(..)) {
            write(elements, row, out)?;
            continue;
        }
        element.clear();
        write(elements, row, &mut element)?;
        match needs_quotes(&element) {
            true => quote(&element, out),
            false => out.extend_from_slice(&element),
        }
    }
    out.push(b'}');
    Ok(())
}

fn needs_quotes(element: &[u8]) -> bool {
    let is_special = |byte: &u8| {
        matches!(byte, b'"' | b'\\' | b'{' | b'}' | b',') || byte.is_ascii_whitespace() || *byte == 0x0b
    };
    element.is_empty() || element.eq_ignore_ascii_case(b"NULL") || element.iter().any(is_special)
}

fn quote(element: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in element {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out.push(b'"');
}
