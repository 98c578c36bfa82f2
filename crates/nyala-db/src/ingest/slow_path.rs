//! Parses one line at a time, with every quirk of InfluxDB 1.8.10 and its error messages.
//!
//! InfluxDB parses a line in several passes, which disagree in corner cases about what a backslash escapes. Clients see
//! this disagreement. So the passes are the same here: cut the body into blocks, find the key, check the fields, cut
//! them, parse the time. Some passes take a backslash and the next byte as a pair, others look only at the byte before;
//! each function says which. One thing is ours: the suffix `u` is parsed (a stock 1.8 rejects it).

use std::borrow::Cow;
use std::ops::Range;

use super::column::FieldValue;
use super::error::{Failure, LineErrorKind};
use super::key::{NAME_ESCAPES, TagSpan, scan_key, unescape};
use super::number::{IntegerError, whole_float, whole_integer, whole_unsigned};
use super::options::{MAX_KEY_BYTES, MAX_TIME_NS, MIN_TIME_NS, ParseOptions};

/// One field of a line.
#[derive(Debug)]
pub(super) struct ParsedField<'a> {
    /// The name as written.
    pub(super) written_name: &'a [u8],
    /// The name, unescaped.
    pub(super) name: Cow<'a, [u8]>,
    pub(super) value: FieldValue<'a>,
}

/// The end of the block that begins at `from`: the first newline outside of quotes.
///
/// A backslash and the next byte are a pair (except for the last two bytes of the body). Quotes count after an `=` of
/// the field section, which begins at the first blank, even one before the measurement.
pub(super) fn block_end(body: &[u8], from: usize) -> usize {
    match memchr::memchr3(b'\n', b'\\', b'"', &body[from..]) {
        None => return body.len(),
        Some(offset) if body[from + offset] == b'\n' => return from + offset,
        Some(_) => {}
    }
    let (mut in_fields, mut quoted) = (false, false);
    let (mut equals, mut commas) = (0_usize, 0_usize);
    let mut at = from;
    while let Some(&byte) = body.get(at) {
        match byte {
            b'\\' if at + 2 < body.len() => at += 1,
            b' ' => in_fields = true,
            b'=' if in_fields && !quoted => equals += 1,
            b',' if in_fields && !quoted => commas += 1,
            b'"' if in_fields && equals > commas => quoted = !quoted,
            b'\n' if !quoted => return at,
            _ => {}
        }
        at += 1;
    }
    body.len()
}

/// Where the line that begins at `from` ends, behind its newline, in a piece of a longer text. `None` if the piece ends before that is
/// certain: a byte behind the newline must be there, because what a backslash means depends on what follows it.
///
/// ```
/// let piece = b"m s=\"two\nlines\" 1\nm v=2 2\n";
/// let end = nyala_db::ingest::line_end(piece, 0).unwrap();
/// assert_eq!(&piece[end..], b"m v=2 2\n");
/// assert_eq!(nyala_db::ingest::line_end(piece, end), None);
/// ```
pub fn line_end(piece: &[u8], from: usize) -> Option<usize> {
    let end = block_end(piece, from) + 1;
    (end < piece.len()).then_some(end)
}

/// The first byte from `from` on that is not a blank.
pub(super) fn skip_blanks(line: &[u8], from: usize) -> usize {
    let blanks = line[from..].iter().take_while(|byte| matches!(byte, b' ' | b'\t' | 0)).count();
    from + blanks
}

/// Parses the line that begins at `start` of `block`. Returns the end of its key and its time, and fills `fields`.
pub(super) fn parse_line<'a>(
    block: &'a [u8],
    start: usize,
    options: &ParseOptions,
    tags: &mut Vec<TagSpan>,
    fields: &mut Vec<ParsedField<'a>>,
) -> Result<(usize, Option<i64>), Failure> {
    fields.clear();
    if block.len() > options.limits.max_line_bytes {
        return Err(Failure::new(LineErrorKind::LineTooLong, options.limits.max_line_bytes));
    }
    let key_end = scan_key(block, start, options.limits.max_tags, tags)?;
    let key_bytes = key_end - start;
    if key_bytes > MAX_KEY_BYTES {
        return Err(Failure::key_too_long(key_bytes, start + MAX_KEY_BYTES));
    }
    let section = check_fields(block, key_end)?;
    let mut wrong_value = None;
    cut_fields(block, section.clone(), key_bytes, options.limits.max_fields, |written_name, value, at| {
        match read_value(value) {
            // This is possible after a tab. InfluxDB stores the point, but nobody can query it.
            _ if written_name.is_empty() => {
                wrong_value = Some(Failure::new(LineErrorKind::MissingFieldKey, at - 1));
            }
            Ok(value) => fields.push(ParsedField { written_name, name: unescape_name(written_name), value }),
            Err((kind, text)) => wrong_value = Some(Failure::with_text(kind, at, text)),
        }
    })?;
    let time_ns = read_time(block, section.end, options)?;
    if let Some(failure) = wrong_value {
        return Err(failure);
    }
    Ok((key_end, time_ns))
}

fn unescape_name(written: &[u8]) -> Cow<'_, [u8]> {
    if !written.contains(&b'\\') {
        return Cow::Borrowed(written);
    }
    let mut name = Vec::with_capacity(written.len());
    unescape(written, NAME_ESCAPES, &mut name);
    Cow::Owned(name)
}

/// Checks the field section that begins at `from`, and finds its end.
///
/// A backslash and the next byte are a pair, in strings too.
pub(super) fn check_fields(block: &[u8], from: usize) -> Result<Range<usize>, Failure> {
    let start = skip_blanks(block, from);
    let mut quoted = false;
    let (mut equals, mut commas) = (0_usize, 0_usize);
    let mut at = start;
    while let Some(&byte) = block.get(at) {
        match byte {
            b'\\' if at + 1 < block.len() => at += 1,
            b'"' if equals > commas => quoted = !quoted,
            b'=' if !quoted => {
                equals += 1;
                // At least one byte of the measurement and a blank come before.
                if matches!(block[at - 1], b' ' | b',') && block[at - 2] != b'\\' {
                    return Err(Failure::new(LineErrorKind::MissingFieldKey, at));
                }
                let end = match block.get(at + 1) {
                    None | Some(b',' | b' ') => {
                        return Err(Failure::new(LineErrorKind::MissingFieldValue, at + 1));
                    }
                    Some(b'"') => at + 1,
                    Some(b'0'..=b'9' | b'.' | b'-' | b'N' | b'n') => check_number(block, at + 1)?,
                    Some(_) => check_boolean(block, at + 1)?,
                };
                at = end;
                continue;
            }
            b',' if !quoted => commas += 1,
            b' ' if !quoted => break,
            _ => {}
        }
        at += 1;
    }
    let at = at.min(block.len());
    if quoted {
        return Err(Failure::new(LineErrorKind::UnbalancedQuotes, at));
    }
    if equals == 0 || commas != equals - 1 {
        return Err(Failure::new(LineErrorKind::InvalidFieldFormat, at));
    }
    Ok(start..at)
}

/// Checks the number at `start` and finds its end.
fn check_number(block: &[u8], start: usize) -> Result<usize, Failure> {
    let length = block[start..].iter().take_while(|byte| !matches!(byte, b',' | b' ')).count();
    let end = start + length;
    let text = &block[start..end];
    let invalid = |at: usize| Failure::new(LineErrorKind::InvalidNumber, start + at);
    let mut suffix = None;
    let (mut points, mut scientific) = (0, false);
    for (at, &byte) in text.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {}
            b'-' if at == 0 => {}
            b'i' | b'u' if at > 0 && suffix.is_none() => suffix = Some(byte),
            b'.' if points == 0 => points = 1,
            b'e' | b'E' if at > 0 => scientific = true,
            b'+' | b'-' if at > 0 && matches!(text[at - 1], b'e' | b'E') => {}
            _ => return Err(invalid(at)),
        }
    }
    if suffix.is_some() && (points > 0 || scientific) {
        return Err(invalid(length));
    }
    let others = usize::from(suffix == Some(b'i')) + points + usize::from(text[0] == b'-');
    if length == others || suffix.is_some_and(|suffix| text[length - 1] != suffix) {
        return Err(invalid(length));
    }
    let digits = &text[..length - usize::from(suffix.is_some())];
    match suffix {
        Some(b'i') => out_of_range("integer", "ParseInt", digits, start, whole_integer(digits).err())?,
        Some(_) if digits[0] == b'-' => return Err(invalid(0)),
        Some(_) => out_of_range("unsigned", "ParseUint", digits, start, whole_unsigned(digits).err())?,
        None if whole_float(digits).is_none() => {
            return Err(Failure::new(LineErrorKind::InvalidFloat, start));
        }
        None => {}
    }
    Ok(end)
}

fn out_of_range(
    name: &str,
    function: &str,
    digits: &[u8],
    at: usize,
    error: Option<IntegerError>,
) -> Result<(), Failure> {
    let Some(error) = error else { return Ok(()) };
    let digits = String::from_utf8_lossy(digits);
    let text = format!("unable to parse {name} {digits}: {}", go_number_error(function, &digits, error));
    Err(Failure::with_text(LineErrorKind::IntegerOutOfRange, at, text))
}

fn go_number_error(function: &str, digits: &str, error: IntegerError) -> String {
    format!("strconv.{function}: parsing \"{digits}\": {}", error.text())
}

/// Checks the boolean at `start` and finds its end.
fn check_boolean(block: &[u8], start: usize) -> Result<usize, Failure> {
    let length = block[start..].iter().take_while(|byte| !matches!(byte, b',' | b' ')).count();
    match read_boolean(&block[start..start + length]) {
        Some(_) => Ok(start + length),
        None => Err(Failure::new(LineErrorKind::InvalidBoolean, start)),
    }
}

fn read_boolean(text: &[u8]) -> Option<bool> {
    match text {
        b"t" | b"T" | b"true" | b"True" | b"TRUE" => Some(true),
        b"f" | b"F" | b"false" | b"False" | b"FALSE" => Some(false),
        _ => None,
    }
}

/// Cuts the checked field section into names and values.
///
/// A name ends at an `=` without a backslash before it. In values only `\"` and `\\` are pairs, and quotes count
/// everywhere.
fn cut_fields<'a>(
    block: &'a [u8],
    section: Range<usize>,
    key_bytes: usize,
    max_fields: usize,
    mut each: impl FnMut(&'a [u8], &'a [u8], usize),
) -> Result<(), Failure> {
    let mut at = section.start;
    let mut count = 0;
    while at < section.end {
        let rest = &block[at..section.end];
        let equals = memchr::memchr_iter(b'=', rest)
            .find(|&equals| equals == 0 || rest[equals - 1] != b'\\')
            .unwrap_or(rest.len());
        let name = &rest[..equals];
        if equals + 2 > rest.len() {
            let text = [b"invalid value: field-key=", name].concat();
            return Err(Failure::with_text(LineErrorKind::InvalidFieldFormat, at, text));
        }
        let value = &rest[equals + 1..];
        let value = &value[..value_length(value)];
        // InfluxDB counts like this: its index puts four bytes between series and field.
        let indexed_bytes = key_bytes + 4 + name.len();
        if indexed_bytes > MAX_KEY_BYTES {
            return Err(Failure::key_too_long(indexed_bytes, at));
        }
        count += 1;
        if count > max_fields {
            return Err(Failure::new(LineErrorKind::TooManyFields, at));
        }
        each(name, value, at + equals + 1);
        at += equals + 1 + value.len() + 1;
    }
    Ok(())
}

fn value_length(text: &[u8]) -> usize {
    let mut quoted = false;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'\\' if matches!(text.get(at + 1), Some(b'"' | b'\\')) => at += 1,
            b'"' => quoted = !quoted,
            b',' if !quoted => break,
            _ => {}
        }
        at += 1;
    }
    at.min(text.len())
}

/// Parses a value. A value that passed `check_fields` but is malformed comes from the disagreement of the passes.
/// InfluxDB rejects the whole request (500) or drops the connection in this case; here the line is rejected.
fn read_value(text: &[u8]) -> Result<FieldValue<'_>, (LineErrorKind, String)> {
    let shown = || String::from_utf8_lossy(text);
    match *text {
        [b'"', ref inner @ .., _] => Ok(FieldValue::String(inner)),
        [b'0'..=b'9' | b'-' | b'.' | b'n' | b'N' | b'i' | b'I' | b'u', ..] => match *text {
            [ref digits @ .., b'i'] => whole_integer(digits).map(FieldValue::Integer).map_err(|error| {
                let digits = String::from_utf8_lossy(digits);
                let error = go_number_error("ParseInt", &digits, error);
                (
                    LineErrorKind::IntegerOutOfRange,
                    format!("unable to parse integer value \"{digits}\": {error}"),
                )
            }),
            [ref digits @ .., b'u'] => whole_unsigned(digits).map(FieldValue::Unsigned).map_err(|error| {
                let digits = String::from_utf8_lossy(digits);
                let error = go_number_error("ParseUint", &digits, error);
                (
                    LineErrorKind::IntegerOutOfRange,
                    format!("unable to parse unsigned value \"{digits}\": {error}"),
                )
            }),
            _ => whole_float(text).map(FieldValue::Float).ok_or_else(|| {
                (LineErrorKind::InvalidFloat, format!("unable to parse floating point value \"{}\"", shown()))
            }),
        },
        _ => read_boolean(text).map(FieldValue::Boolean).ok_or_else(|| {
            (LineErrorKind::InvalidBoolean, format!("unable to parse bool value \"{}\"", shown()))
        }),
    }
}

/// Parses the optional timestamp after the fields.
fn read_time(block: &[u8], from: usize, options: &ParseOptions) -> Result<Option<i64>, Failure> {
    let start = skip_blanks(block, from);
    let mut end = start;
    while let Some(&byte) = block.get(end) {
        match byte {
            b'0'..=b'9' => {}
            b'-' if end == start => {}
            // There can only be a newline here if the passes disagree about a quote.
            b' ' | b'\n' => break,
            _ => return Err(Failure::new(LineErrorKind::BadTimestamp, end)),
        }
        end += 1;
    }
    let digits = &block[start..end];
    if digits.is_empty() {
        return Ok(None);
    }
    let timestamp = whole_integer(digits).map_err(|error| {
        let text = go_number_error("ParseInt", &String::from_utf8_lossy(digits), error);
        Failure::with_text(LineErrorKind::TimeOutOfRange, start, text)
    })?;
    let time_ns = timestamp
        .checked_mul(options.precision.unit_ns())
        .filter(|time_ns| (MIN_TIME_NS..=MAX_TIME_NS).contains(time_ns))
        .ok_or_else(|| Failure::new(LineErrorKind::TimeOutOfRange, start))?;
    match block[end..].iter().position(|&byte| byte != b' ') {
        Some(offset) => Err(Failure::new(LineErrorKind::TrailingCharacters, end + offset)),
        None => Ok(Some(time_ns)),
    }
}
