//! Numbers as Go's JSON encoder writes them.

use std::io::Write;

/// Numbers below this are looked up in a table; most metrics are.
const SMALL_END: usize = 1000;
/// A comma and the digits of each number, and how many digits it has.
static SMALL: [([u8; 4], u8); SMALL_END] = {
    let mut all = [([0; 4], 0); SMALL_END];
    let mut number = 0;
    while number < SMALL_END {
        let (hundreds, tens) = (b'0' + (number / 100) as u8, b'0' + (number / 10 % 10) as u8);
        let ones = b'0' + (number % 10) as u8;
        all[number] = match number {
            0..10 => ([b',', ones, 0, 0], 1),
            10..100 => ([b',', tens, ones, 0], 2),
            _ => ([b',', hundreds, tens, ones], 3),
        };
        number += 1;
    }
    all
};

/// Appends an integer.
pub(super) fn push_integer(out: &mut Vec<u8>, value: i64) {
    if let Some(([_, first, second, third], count)) = SMALL.get(value as u64 as usize) {
        // Four bytes are copied by one store; a variable length would need a function call.
        out.extend_from_slice(&[*first, *second, *third, 0]);
        out.truncate(out.len() - 4 + usize::from(*count));
        return;
    }
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends a comma and an integer.
pub(super) fn push_next_integer(out: &mut Vec<u8>, value: i64) {
    if let Some((bytes, digits)) = SMALL.get(value as u64 as usize) {
        out.extend_from_slice(bytes);
        out.truncate(out.len() - 3 + usize::from(*digits));
        return;
    }
    out.push(b',');
    push_integer(out, value);
}

/// Appends an unsigned integer.
pub(super) fn push_unsigned(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends the shortest text that is parsed as the same finite float, with an exponent below 1e-6 and from 1e21 on.
pub(super) fn push_float(out: &mut Vec<u8>, value: f64) {
    let magnitude = value.abs();
    if magnitude < 1e15 && value.fract() == 0.0 {
        if value == 0.0 && value.is_sign_negative() {
            out.push(b'-');
        }
        return push_integer(out, value as i64);
    }
    // Between these bounds zmij writes no exponent, and the shortest digits of a fraction.
    if (1e-5..1e15).contains(&magnitude) {
        out.extend_from_slice(zmij::Buffer::new().format_finite(value).as_bytes());
        return;
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
    fn integers_are_written_as_they_are_displayed() {
        for value in (-1100..1100).chain([i64::MIN, i64::MAX, 1 << 40]) {
            let mut out = Vec::new();
            push_integer(&mut out, value);
            push_next_integer(&mut out, value);
            assert_eq!(String::from_utf8(out).unwrap(), format!("{value},{value}"));
        }
    }

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
            (-0.000012345678901234568, "-0.000012345678901234568"),
            (999999999999999.9, "999999999999999.9"),
            (1.7976931348623157e308, "1.7976931348623157e+308"),
        ];
        for (value, text) in cases {
            let mut out = Vec::new();
            push_float(&mut out, value);
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }
}
