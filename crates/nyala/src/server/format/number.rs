//! Numbers as Go's JSON encoder writes them.

use std::io::Write;

/// Appends an integer.
pub(super) fn push_integer(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends an unsigned integer.
pub(super) fn push_unsigned(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends the shortest text that reads back as the same finite float; with an exponent below 1e-6 and from
/// 1e21 on.
pub(super) fn push_float(out: &mut Vec<u8>, value: f64) {
    let magnitude = value.abs();
    if magnitude < 1e15 && value.fract() == 0.0 {
        if value == 0.0 && value.is_sign_negative() {
            out.push(b'-');
        }
        return push_integer(out, value as i64);
    }
    if (1e-5..1e15).contains(&magnitude) {
        let mut buffer = zmij::Buffer::new();
        let text = buffer.format_finite(value);
        if !text.contains('e') {
            out.extend_from_slice(text.strip_suffix(".0").unwrap_or(text).as_bytes());
            return;
        }
    }
    let written = if (1e-6..1e21).contains(&magnitude) {
        write!(out, "{value}")
    } else {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let sign = if exponent.starts_with('-') { "" } else { "+" };
        write!(out, "{digits}e{sign}{exponent}")
    };
    written.expect("writing to memory does not fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_go_does() {
        let cases = [
            (1.0, "1"),
            (-0.0, "-0"),
            (0.1, "0.1"),
            (1.5e15, "1500000000000000"),
            (123456789.125, "123456789.125"),
            (1e-6, "0.000001"),
            (1.5e-7, "1.5e-7"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (-2.5e300, "-2.5e+300"),
            (5e-324, "5e-324"),
            (0.00001, "0.00001"),
            (1.7976931348623157e308, "1.7976931348623157e+308"),
        ];
        for (value, text) in cases {
            let mut out = Vec::new();
            push_float(&mut out, value);
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }
}
