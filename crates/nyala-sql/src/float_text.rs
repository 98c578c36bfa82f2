//! Floating-point numbers as PostgreSQL prints them: the shortest digits that are read back as the same number.
//!
//! PostgreSQL's digits are those of Ryū, with one rule of its own: a decimal that lies exactly half-way between two
//! numbers is not used, though a reader that rounds to even would read it back. So `1e23` is printed as
//! `9.999999999999999e+22`. Other algorithms use it; [`is_halfway`] finds these cases, and they get more digits.

/// The exponents that are printed without `e`, as C's `printf` does: of `float8` ...
const PLAIN_EXPONENTS_OF_8: std::ops::Range<i32> = -4..15;
/// ... and of `float4`.
const PLAIN_EXPONENTS_OF_4: std::ops::Range<i32> = -4..6;

/// Appends a `float8`.
pub fn write_f64(value: f64, out: &mut Vec<u8>) {
    if write_special(value, out) {
        return;
    }
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format_finite(value.abs());
    if (1e-4..1e15).contains(&value.abs()) && write_plain(text, out) {
        return;
    }
    let mut digits = Digits::read(text);
    let bits = value.abs().to_bits();
    if is_halfway(&digits, bits & ((1 << 52) - 1), (bits >> 52) as i32, 52, 1075) {
        digits = digits.longer(
            |places| format!("{:.*e}", places, value.abs()),
            |digits| {
                digits.text().parse() == Ok(value.abs())
                    && !is_halfway(digits, bits & ((1 << 52) - 1), (bits >> 52) as i32, 52, 1075)
            },
        );
    }
    digits.write(&PLAIN_EXPONENTS_OF_8, out);
}

/// Appends a `float4`.
pub fn write_f32(value: f32, out: &mut Vec<u8>) {
    if write_special(value.into(), out) {
        return;
    }
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format_finite(value.abs());
    if (1e-4..1e6).contains(&value.abs()) && write_plain(text, out) {
        return;
    }
    let mut digits = Digits::read(text);
    let bits = value.abs().to_bits();
    let halfway =
        |digits: &Digits| is_halfway(digits, u64::from(bits & ((1 << 23) - 1)), (bits >> 23) as i32, 23, 150);
    if halfway(&digits) {
        digits = digits.longer(
            |places| format!("{:.*e}", places, value.abs()),
            |digits| digits.text().parse() == Ok(value.abs()) && !halfway(digits),
        );
    }
    digits.write(&PLAIN_EXPONENTS_OF_4, out);
}

/// Appends a text without exponent as it is, but for zeros behind its point; `false` if it has an exponent.
///
/// Numbers of the ranges that are printed without one are smaller than 2^52 (2^20 as `float4`), so the middle between two of
/// them is an odd number of at least 54 (25) bits over 4 or more: it has more digits than a shortest text can have.
fn write_plain(text: &str, out: &mut Vec<u8>) -> bool {
    let is_plain = !text.contains('e');
    if is_plain {
        out.extend_from_slice(text.strip_suffix(".0").unwrap_or(text).as_bytes());
    }
    is_plain
}

/// Writes the sign, and all of what has no digits.
fn write_special(value: f64, out: &mut Vec<u8>) -> bool {
    if value.is_nan() {
        out.extend_from_slice(b"NaN");
        return true;
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    if value.is_infinite() {
        out.extend_from_slice(b"Infinity");
    } else if value == 0.0 {
        out.push(b'0');
    }
    value.is_infinite() || value == 0.0
}

/// Decimal digits without zeros at either end, and the exponent of the first one: 1.5e3 has `15` and 3.
struct Digits {
    digits: Vec<u8>,
    exponent: i32,
}

impl Digits {
    /// Reads what a formatter wrote for a positive number, with or without point and exponent.
    fn read(text: &str) -> Self {
        let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
        let exponent: i32 = exponent.parse().expect("formatters write numbers");
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
        let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
        digits.drain(..zeros);
        let kept = digits.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1);
        digits.truncate(kept);
        Self { digits, exponent: exponent + whole.len() as i32 - 1 - zeros as i32 }
    }

    /// The shortest correctly rounded digits that are at least as many and `fit`.
    fn longer(&self, format: impl Fn(usize) -> String, fit: impl Fn(&Digits) -> bool) -> Self {
        let places = self.digits.len() - 1..17;
        let found = places.map(|places| Digits::read(&format(places))).find(fit);
        found.expect("17 digits tell any two numbers apart")
    }

    fn text(&self) -> String {
        let digits = std::str::from_utf8(&self.digits).expect("digits are ASCII");
        format!("{digits}e{}", self.exponent - (self.digits.len() as i32 - 1))
    }

    /// As an integer and the power of ten that it is multiplied with.
    fn integer(&self) -> (u128, i32) {
        let value = self.digits.iter().fold(0_u128, |value, digit| value * 10 + u128::from(digit - b'0'));
        (value, self.exponent - (self.digits.len() as i32 - 1))
    }

    fn write(&self, plain: &std::ops::Range<i32>, out: &mut Vec<u8>) {
        let (digits, exponent) = (&self.digits, self.exponent);
        if !plain.contains(&exponent) {
            out.push(digits[0]);
            if digits.len() > 1 {
                out.push(b'.');
                out.extend_from_slice(&digits[1..]);
            }
            out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
            let shown = exponent.unsigned_abs();
            if shown < 10 {
                out.push(b'0');
            }
            out.extend_from_slice(itoa::Buffer::new().format(shown).as_bytes());
            return;
        }
        if exponent < 0 {
            out.extend_from_slice(b"0.");
            out.extend(std::iter::repeat_n(b'0', (-exponent - 1) as usize));
            out.extend_from_slice(digits);
            return;
        }
        let whole = exponent as usize + 1;
        out.extend_from_slice(&digits[..whole.min(digits.len())]);
        out.extend(std::iter::repeat_n(b'0', whole.saturating_sub(digits.len())));
        if digits.len() > whole {
            out.push(b'.');
            out.extend_from_slice(&digits[whole..]);
        }
    }
}

/// Whether digits lie exactly between a number and one of its neighbours. The number is `fraction` and `biased`
/// exponent of its bits; a value is `significand × 2^(biased − bias)`.
fn is_halfway(digits: &Digits, fraction: u64, biased: i32, fraction_bits: u32, bias: i32) -> bool {
    let significand = if biased == 0 { fraction } else { fraction | 1 << fraction_bits };
    let exponent = biased.max(1) - bias;
    let (integer, ten) = digits.integer();
    // Above, neighbours are a unit apart; below as well, or half of that below a power of two.
    let mut middles = vec![(u128::from(2 * significand + 1), exponent - 1)];
    middles.push(match fraction == 0 && biased > 1 {
        true => (u128::from(4 * significand - 1), exponent - 2),
        false => (u128::from(2 * significand - 1), exponent - 1),
    });
    middles.into_iter().any(|(middle, two)| equals(integer, ten, middle, two))
}

/// Whether `integer × 10^ten = odd × 2^two`. The odd number has at most 55 bits, and the integer at most 57, so powers
/// of five beyond the 27th cannot match, and all products stay within 128 bits.
fn equals(integer: u128, ten: i32, odd: u128, two: i32) -> bool {
    if ten.abs() > 27 || integer == 0 {
        return false;
    }
    let five = 5_u128.pow(ten.unsigned_abs());
    let (left, right) = if ten >= 0 {
        (integer.checked_mul(five), Some(odd))
    } else {
        (Some(integer), odd.checked_mul(five))
    };
    let (Some(left), Some(right)) = (left, right) else { return false };
    // What remains is a power of two; the right side is odd.
    let zeros = left.trailing_zeros();
    left >> zeros == right && zeros as i32 + ten == two
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: f64) -> String {
        let mut out = Vec::new();
        write_f64(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn decimals_between_two_numbers_are_not_used() {
        assert_eq!(text(1e23), "9.999999999999999e+22");
        assert_eq!(text(9_007_199_254_740_992.0), "9.007199254740992e+15");
        assert_eq!(text(5e-324), "5e-324");
        assert_eq!(text(0.3), "0.3");
        assert_eq!(text(-100_000_000_000_000.0), "-100000000000000");
        assert_eq!(text(1e15), "1e+15");
        assert_eq!(text(0.000_012_5), "1.25e-05");
        assert_eq!(text(-0.0), "-0");
    }
}
