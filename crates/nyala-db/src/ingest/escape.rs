//! Text in line protocol: a backslash goes before each character that would end a name or a string.

use nyala_core::{Error, Result};
use std::fmt::Write;

/// What is escaped in the name of a measurement.
pub const MEASUREMENT_SPECIALS: &[u8] = b", ";
/// What is escaped in tag keys, tag values and names of fields.
pub const TAG_SPECIALS: &[u8] = b",= ";
/// What is escaped in the string value of a field.
const STRING_SPECIALS: &[u8] = b"\"\\";

/// Appends a text with a backslash before each of `specials`, which are ASCII.
///
/// It is inlined so that bytes are compared with constants, which takes half the instructions. A query that orders rows
/// of several series writes all tags of these series.
#[inline(always)]
pub fn push_escaped(line: &mut String, text: &str, specials: &[u8]) {
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|byte| specials.contains(&byte)) {
        let (before, from_special) = rest.split_at(at);
        line.push_str(before);
        line.push('\\');
        line.push_str(&from_special[..1]);
        rest = &from_special[1..];
    }
    line.push_str(rest);
}

/// Appends a name, with a backslash before each character that would end it. `what` it names is for the error.
///
/// # Errors
/// Invalid for a name that line protocol cannot express.
pub fn push_name(line: &mut String, what: &str, name: &str, specials: &[u8]) -> Result<()> {
    // Most names have nothing that matters, and one pass says so.
    let matters = |byte| matches!(byte, b'\n' | b'\\' | b',' | b'=' | b' ');
    if !name.is_empty() && !name.bytes().fold(false, |found, byte| found | matters(byte)) {
        line.push_str(name);
        return Ok(());
    }
    if name.is_empty() || name.ends_with('\\') || name.contains('\n') {
        return Err(unwritable(what, name));
    }
    push_escaped(line, name, specials);
    Ok(())
}

/// Begins a line with the name of a measurement.
///
/// # Errors
/// Invalid for a name that line protocol cannot express.
pub fn push_measurement_name(line: &mut String, name: &str) -> Result<()> {
    match begins_otherwise(name) {
        true => Err(unwritable("measurement", name)),
        false => push_name(line, "measurement", name, MEASUREMENT_SPECIALS),
    }
}

/// Whether a line that began with this name would be a comment, or its first letter would be skipped.
pub fn begins_otherwise(measurement: &str) -> bool {
    measurement.starts_with(['#', '\t', '\0'])
}

/// Appends `,key=value`.
///
/// # Errors
/// Invalid for a name or a value that line protocol cannot express.
pub fn push_checked_tag(line: &mut String, key: &str, value: &str) -> Result<()> {
    line.push(',');
    push_name(line, "tag", key, TAG_SPECIALS)?;
    line.push('=');
    push_name(line, "tag value", value, TAG_SPECIALS)
}

/// Appends whatever text other programs name things with. Line protocol can write neither a line break nor a backslash at the
/// end: a line break becomes a space, and a space is added after the backslash.
pub fn push_text(line: &mut String, text: &str, specials: &[u8]) {
    let mut parts = text.split('\n');
    push_escaped(line, parts.next().unwrap_or(""), specials);
    for part in parts {
        line.push_str("\\ ");
        push_escaped(line, part, specials);
    }
    if text.ends_with('\\') {
        line.push_str("\\ ");
    }
}

/// Begins a line with whatever text other programs name a measurement with.
pub fn push_measurement(line: &mut String, name: &str) {
    if begins_otherwise(name) {
        line.push('\\');
    }
    push_text(line, name, MEASUREMENT_SPECIALS);
}

/// The value of a field, before it is text.
#[derive(Debug, Clone, Copy)]
pub enum LineValue<'a> {
    /// A float, which must be finite: line protocol has no other ones.
    Float(f64),
    /// An integer.
    Integer(i64),
    /// An integer without a sign.
    Unsigned(u64),
    /// A boolean.
    Boolean(bool),
    /// Text.
    String(&'a str),
}

/// Appends the value of a field: the number of a float is read back to the last bit.
pub fn push_value(line: &mut String, value: LineValue<'_>) {
    match value {
        LineValue::Float(number) => write!(line, "{number:?}"),
        LineValue::Integer(number) => write!(line, "{number}i"),
        LineValue::Unsigned(number) => write!(line, "{number}u"),
        LineValue::Boolean(truth) => write!(line, "{truth}"),
        LineValue::String(text) => {
            line.push('"');
            push_escaped(line, text, STRING_SPECIALS);
            line.push('"');
            Ok(())
        }
    }
    .expect("writing to memory does not fail");
}

/// The error of a name that line protocol cannot express.
pub fn unwritable(what: &str, name: &str) -> Error {
    Error::invalid(format!("points cannot be written with the {what} {name:?}: give it another name"))
}

/// Appends `key=value`.
pub fn push_tag(line: &mut String, key: &str, value: &str) {
    push_escaped(line, key, TAG_SPECIALS);
    line.push('=');
    push_escaped(line, value, TAG_SPECIALS);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specials_get_a_backslash() {
        let mut line = String::new();
        push_escaped(&mut line, " a=b,", MEASUREMENT_SPECIALS);
        line.push('|');
        push_tag(&mut line, "é k", "v=\"\\,");
        line.push('|');
        push_value(&mut line, LineValue::String("\"a\\ "));
        line.push('|');
        push_measurement(&mut line, "#a\nb\\");
        assert!(
            push_measurement_name(&mut line, "#a").is_err()
                && push_measurement_name(&mut line, "\ta").is_err()
        );
        assert_eq!(line, "\\ a=b\\,|é\\ k=v\\=\"\\\\,|\"\\\"a\\\\ \"|\\#a\\ b\\\\ ");
    }

    #[test]
    fn values_say_their_type() {
        use LineValue::{Boolean, Float, Integer, Unsigned};
        let mut line = String::new();
        for value in [Float(1.0), Float(-0.0), Float(5e-324), Integer(-1), Unsigned(u64::MAX), Boolean(true)]
        {
            push_value(&mut line, value);
            line.push(' ');
        }
        assert_eq!(line, "1.0 -0.0 5e-324 -1i 18446744073709551615u true ");
    }
}
