//! Numbers from bytes, eight digits at a time.
//!
//! There are two kinds of parsers for the same language. The *fast* ones parse the longest plain prefix of a line, and
//! return `None` where only the slow path can tell. The *whole* ones parse a delimited number. Floats are correctly
//! rounded: either both the mantissa and the power of ten are exact (then one division rounds once), or a library
//! decides.

/// Powers of ten that a float represents exactly and that eight digits can need.
const POWERS_OF_TEN: [f64; 8] = [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7];
const INTEGER_POWERS_OF_TEN: [u64; 9] =
    [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

const ASCII_ZEROS: u64 = 0x3030_3030_3030_3030;

/// The 32 bytes at `at`, with zeros after the end of `bytes`.
#[inline(always)]
pub(super) fn load_words(bytes: &[u8], at: usize) -> [u64; 4] {
    let window = match bytes.get(at..).and_then(|rest| rest.first_chunk::<32>()) {
        Some(window) => window,
        None => &load_last_window(bytes, at),
    };
    let (words, _) = window.as_chunks::<8>();
    let word = |index: usize| u64::from_le_bytes(words[index]);
    [word(0), word(1), word(2), word(3)]
}

#[cold]
fn load_last_window(bytes: &[u8], at: usize) -> [u8; 32] {
    let rest = bytes.get(at..).unwrap_or_default();
    let mut window = [0; 32];
    window[..rest.len()].copy_from_slice(rest);
    window
}

/// The eight bytes at `at`, with zeros after the end of `bytes`.
#[inline(always)]
pub(super) fn load_word(bytes: &[u8], at: usize) -> u64 {
    match bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        Some(word) => u64::from_le_bytes(*word),
        None => load_last_word(bytes, at),
    }
}

#[cold]
fn load_last_word(bytes: &[u8], at: usize) -> u64 {
    let rest = bytes.get(at..).unwrap_or_default();
    let mut word = [0; 8];
    word[..rest.len()].copy_from_slice(rest);
    u64::from_le_bytes(word)
}

/// The number of digits at the start of the word, whose bytes were xored with '0'.
#[inline(always)]
fn leading_digits(digits: u64) -> usize {
    // A digit stays below 0x80 when 0x76 is added. Any other byte sets the top bit there or has it already.
    // Carries only change bytes after the first non-digit.
    let others = (digits.wrapping_add(0x7676_7676_7676_7676) | digits) & 0x8080_8080_8080_8080;
    (others.trailing_zeros() / 8) as usize
}

/// The value of eight digits, the first in the lowest byte.
#[inline(always)]
fn eight_digits(digits: u64) -> u64 {
    const LOW_BYTES: u64 = 0x0000_00ff_0000_00ff;
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let high = (pairs & LOW_BYTES).wrapping_mul(100 + (1_000_000 << 32));
    let low = ((pairs >> 16) & LOW_BYTES).wrapping_mul(1 + (10_000 << 32));
    high.wrapping_add(low) >> 32
}

/// The value of the first `count` (1 to 8) digits of the word.
#[inline(always)]
fn some_digits(digits: u64, count: usize) -> u64 {
    eight_digits(digits << (64 - 8 * count))
}

/// The value and the end of up to 19 digits at `at`. `None` without a digit or with more than 19.
#[inline(always)]
pub(super) fn fast_digits(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    let digits = load_word(bytes, at) ^ ASCII_ZEROS;
    let count = leading_digits(digits);
    if count < 8 {
        if count == 0 {
            return None;
        }
        return Some((some_digits(digits, count), at + count));
    }
    fast_many_digits(bytes, at + 8, eight_digits(digits))
}

#[inline]
fn fast_many_digits(bytes: &[u8], at: usize, first: u64) -> Option<(u64, usize)> {
    let digits = load_word(bytes, at) ^ ASCII_ZEROS;
    let count = leading_digits(digits);
    if count == 0 {
        return Some((first, at));
    }
    let second = first * INTEGER_POWERS_OF_TEN[count] + some_digits(digits, count);
    if count < 8 {
        return Some((second, at + count));
    }
    let digits = load_word(bytes, at + 8) ^ ASCII_ZEROS;
    match leading_digits(digits) {
        0 => Some((second, at + 8)),
        // At most 19 digits in all, so the value is below 10^19, which fits a u64.
        count @ 1..=3 => {
            Some((second * INTEGER_POWERS_OF_TEN[count] + some_digits(digits, count), at + 8 + count))
        }
        _ => None,
    }
}

/// Up to 19 digits at `at` and the byte `suffix`: value and end.
#[inline(always)]
pub(super) fn fast_unsigned(bytes: &[u8], at: usize, suffix: u8) -> Option<(u64, usize)> {
    let word = load_word(bytes, at);
    let digits = word ^ ASCII_ZEROS;
    let count = leading_digits(digits);
    if count == 0 {
        return None;
    }
    if count < 8 {
        let suffixed = (word >> (8 * count)) as u8 == suffix;
        return suffixed.then(|| (some_digits(digits, count), at + count + 1));
    }
    let (value, end) = fast_many_digits(bytes, at + 8, eight_digits(digits))?;
    (bytes.get(end) == Some(&suffix)).then_some((value, end + 1))
}

/// A signed integer at `at` with its suffix.
#[inline(always)]
pub(super) fn fast_integer(bytes: &[u8], at: usize) -> Option<(i64, usize)> {
    let negative = bytes.get(at) == Some(&b'-');
    let (magnitude, end) = fast_unsigned(bytes, at + usize::from(negative), b'i')?;
    let value = i64::try_from(magnitude).ok()?;
    Some((if negative { -value } else { value }, end))
}

/// A float at `at`.
#[inline(always)]
pub(super) fn fast_float(bytes: &[u8], at: usize) -> Option<(f64, usize)> {
    let negative = bytes.get(at) == Some(&b'-');
    let start = at + usize::from(negative);
    let digits = load_word(bytes, start) ^ ASCII_ZEROS;
    let whole_count = leading_digits(digits);
    if whole_count == 0 || whole_count == 8 {
        return fast_long_float(bytes, at);
    }
    let whole = some_digits(digits, whole_count);
    let end = start + whole_count;
    let (magnitude, end) = if bytes.get(end) == Some(&b'.') {
        let digits = load_word(bytes, end + 1) ^ ASCII_ZEROS;
        let count = leading_digits(digits);
        if count == 8 {
            return fast_long_float(bytes, at);
        }
        // With fewer than 15 digits the mantissa and the power are exact, so the division rounds correctly.
        let fraction = if count == 0 { 0 } else { some_digits(digits, count) };
        let mantissa = whole * INTEGER_POWERS_OF_TEN[count] + fraction;
        (mantissa as f64 / POWERS_OF_TEN[count], end + 1 + count)
    } else {
        (whole as f64, end)
    };
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        return fast_long_float(bytes, at);
    }
    Some((if negative { -magnitude } else { magnitude }, end))
}

/// A float of many digits or with an exponent (18 ns where the standard library takes 40).
#[inline(never)]
fn fast_long_float(bytes: &[u8], at: usize) -> Option<(f64, usize)> {
    let rest = bytes.get(at..)?;
    // Names of infinity and NaN are not numbers here, and there is no plus sign.
    let unsigned = rest.strip_prefix(b"-").unwrap_or(rest);
    if !matches!(unsigned.first(), Some(b'0'..=b'9' | b'.')) {
        return None;
    }
    let (value, length): (f64, usize) = fast_float2::parse_partial(rest).ok()?;
    value.is_finite().then_some((value, at + length))
}

/// Parses all of `text` as a finite float. The caller has checked that it consists of digits, points, signs and
/// exponents.
pub(super) fn whole_float(text: &[u8]) -> Option<f64> {
    if text.first() == Some(&b'+') {
        return None;
    }
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    value.is_finite().then_some(value)
}

/// Why an integer could not be parsed, in Go's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IntegerError {
    Syntax,
    Range,
}

impl IntegerError {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Syntax => "invalid syntax",
            Self::Range => "value out of range",
        }
    }
}

/// An unsigned integer that takes all of `text`.
pub(super) fn whole_unsigned(text: &[u8]) -> Result<u64, IntegerError> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return Err(IntegerError::Syntax);
    }
    text.iter()
        .try_fold(0_u64, |value, digit| value.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
        .ok_or(IntegerError::Range)
}

/// A signed integer that takes all of `text`.
pub(super) fn whole_integer(text: &[u8]) -> Result<i64, IntegerError> {
    match text.strip_prefix(b"-") {
        Some(digits) => 0_i64.checked_sub_unsigned(whole_unsigned(digits)?),
        None => i64::try_from(whole_unsigned(text)?).ok(),
    }
    .ok_or(IntegerError::Range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_integers_agree_with_the_standard_library() {
        let mut numbers =
            vec![0, 1, -1, 9, 10, 99_999_999, 100_000_000, i64::MAX, -i64::MAX, 1_451_606_400_000_000_000];
        for shift in 0..63 {
            numbers.extend([1_i64 << shift, -(1_i64 << shift), (1_i64 << shift) - 1]);
        }
        for number in numbers {
            for tail in ["i", "i,a=1i 1451606400000000000"] {
                let digits = number.to_string();
                let text = format!("{digits}{tail}");
                assert_eq!(fast_integer(text.as_bytes(), 0), Some((number, digits.len() + 1)), "{text}");
                assert_eq!(fast_integer(text.replace('i', ",").as_bytes(), 0), None);
                assert_eq!(whole_integer(digits.as_bytes()), Ok(number));
            }
        }
    }

    #[test]
    fn integers_out_of_range_are_left_to_the_slow_path() {
        for text in
            ["", "i", "-", "-i", "a", "1", "99999999999999999999i", "9223372036854775808i", ":i", "/i"]
        {
            assert_eq!(fast_integer(text.as_bytes(), 0), None, "{text}");
        }
        assert_eq!(whole_integer(b"9223372036854775808"), Err(IntegerError::Range));
        assert_eq!(whole_integer(b"-9223372036854775808"), Ok(i64::MIN));
        assert_eq!(whole_integer(b"-9223372036854775809"), Err(IntegerError::Range));
        assert_eq!(whole_integer(b"-"), Err(IntegerError::Syntax));
        assert_eq!(whole_integer(b"+1"), Err(IntegerError::Syntax));
        assert_eq!(whole_unsigned(b"18446744073709551615"), Ok(u64::MAX));
        assert_eq!(whole_unsigned(b"18446744073709551616"), Err(IntegerError::Range));
    }

    #[test]
    fn fast_floats_are_correctly_rounded() {
        let texts = [
            "0",
            "-0",
            "1",
            "1.",
            "0.1",
            "0.3",
            "1.1",
            "-1.5",
            "123456.789",
            "9999999.9999999",
            "5e-324",
            "1e3",
            "1E+3",
            "2.2250738585072014e-308",
            "1.7976931348623157e308",
            "58.1317132304976170",
            "0.1234567890123456789",
            "9007199254740993",
            "9007199254740993.0",
            ".5",
            "-.5",
            "00001.5",
            "4.35",
            "8.41",
            "1234567.1234567",
            "12345678.5",
            "5.e3",
            "1e22",
            "1e23",
            "-8.5e-7",
            "100000000",
            "1e-400",
            "123456789012345678901234567890",
        ];
        for text in texts {
            for tail in [",a=1", " 12", ""] {
                let line = format!("{text}{tail}");
                let (value, end) = fast_float(line.as_bytes(), 0).expect(text);
                assert_eq!(value.to_bits(), text.parse::<f64>().unwrap().to_bits(), "{text}");
                assert_eq!(end, text.len(), "{text}");
            }
        }
    }

    #[test]
    fn infinite_floats_are_rejected() {
        for text in ["", ".", "-", "-.", "e1", "1e", "1e400", "nan", "inf", "+1", "1.1.1", "--1", "1-1"] {
            let accepted = fast_float(text.as_bytes(), 0).filter(|(_, end)| *end == text.len());
            assert_eq!(accepted, None, "{text}");
        }
    }
}
