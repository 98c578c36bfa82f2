//! Decimal numbers: exact, rounded half away from zero, as PostgreSQL's numeric.

/// The most digits of a decimal.
const DIGITS_MAX: usize = 38;

/// A number with another number of digits behind the point, and whether it is still the same; `None` if it is too large.
pub(super) fn rescaled(value: i128, from: i8, to: i8) -> Option<(i128, bool)> {
    let power = |digits: u32| 10_i128.checked_pow(digits);
    let digits = i32::from(to) - i32::from(from);
    if digits >= 0 {
        return Some((value.checked_mul(power(digits as u32)?)?, true));
    }
    let Some(divisor) = power(digits.unsigned_abs()) else { return Some((0, value == 0)) };
    let (quotient, rest) = (value / divisor, value % divisor);
    let away = i128::from(rest.unsigned_abs() >= divisor.unsigned_abs().div_ceil(2)) * rest.signum();
    Some((quotient + away, rest == 0))
}

/// The greatest number with another number of digits behind the point that is not above a number; `None` if it is too large.
pub(super) fn floored(value: i128, from: i8, to: i8) -> Option<i128> {
    let digits = i32::from(to) - i32::from(from);
    match 10_i128.checked_pow(digits.unsigned_abs()) {
        Some(power) if digits >= 0 => value.checked_mul(power),
        Some(power) => Some(value.div_euclid(power)),
        None if digits >= 0 => (value == 0).then_some(0),
        None => Some(-i128::from(value < 0)),
    }
}

/// A number as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written {
    is_negative: bool,
    /// Its digits from the first that is not zero, and the power of ten of the last.
    digits: Vec<u8>,
    exponent: i64,
}

impl Written {
    /// Reads digits with or without a sign, a point and an exponent.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (is_negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (mantissa, exponent) = match rest.find(['e', 'E']) {
            Some(at) => (&rest[..at], rest[at + 1..].parse::<i64>().ok()?),
            None => (rest, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if (whole.is_empty() && fraction.is_empty()) || !is_digits(whole) || !is_digits(fraction) {
            return None;
        }
        let digits = whole.bytes().chain(fraction.bytes()).map(|byte| byte - b'0');
        let digits: Vec<u8> = digits.skip_while(|digit| *digit == 0).collect();
        let exponent = exponent.checked_sub(fraction.len() as i64)?;
        Some(Self { is_negative, digits, exponent })
    }

    /// How many digits it has behind the point; `None` if it has more than a decimal may have.
    pub(crate) fn scale(&self) -> Option<i8> {
        let scale = i8::try_from((-self.exponent).max(0)).ok()?;
        let whole = self.digits.len() as i64 + self.exponent.max(0);
        (scale as usize <= DIGITS_MAX && whole <= DIGITS_MAX as i64).then_some(scale)
    }

    /// Whether it is zero, however many digits it has.
    pub(super) fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    /// The number in units of the last of `scale` digits behind the point; `None` if it has too many digits.
    pub(crate) fn scaled(&self, scale: u8) -> Option<i128> {
        if self.digits.is_empty() {
            return Some(0);
        }
        // How many digits are appended, or cut off.
        let shift = self.exponent.checked_add(i64::from(scale))?;
        let kept = self.digits.len() as i64 + shift.min(0);
        if kept < 0 {
            return Some(0);
        }
        let (kept, appended) = (kept as usize, shift.max(0) as usize);
        if kept.saturating_add(appended) > DIGITS_MAX {
            return None;
        }
        let number = |digits: &[u8]| digits.iter().fold(0_i128, |sum, digit| sum * 10 + i128::from(*digit));
        let is_away = self.digits.get(kept).is_some_and(|digit| *digit >= 5);
        let value = number(&self.digits[..kept]) * 10_i128.pow(appended as u32) + i128::from(is_away);
        Some(if self.is_negative { -value } else { value })
    }
}

/// Whether a number has at most so many digits.
pub(super) fn fits(value: i128, precision: u8) -> bool {
    value.unsigned_abs() < 10_u128.pow(u32::from(precision))
}

/// A decimal as text, with all its digits behind the point.
pub(super) fn text_of(value: i128, scale: i8) -> String {
    if scale <= 0 {
        return (value * 10_i128.pow(u32::from(scale.unsigned_abs()))).to_string();
    }
    let scale = scale as usize;
    let digits = format!("{:0>width$}", value.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    format!("{}{whole}.{fraction}", if value < 0 { "-" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_and_rounded_away_from_zero() {
        let scaled = |text: &str, scale| Written::read(text).and_then(|written| written.scaled(scale));
        for (text, scale, expected) in [
            ("19.995", 2, Some(2000)),
            ("-0.005", 2, Some(-1)),
            ("0.004999", 2, Some(0)),
            ("1e3", 1, Some(10_000)),
            ("1.5E-1", 1, Some(2)),
            (".5", 0, Some(1)),
            ("00012.", 0, Some(12)),
            ("1e40", 0, None),
            ("1e-400", 2, Some(0)),
            ("0e99999999", 2, Some(0)),
            ("99999999999999999999999999999999999999", 0, Some(10_i128.pow(38) - 1)),
            ("1.2.3", 0, None),
            ("", 0, None),
            (".", 0, None),
            ("12a", 0, None),
        ] {
            assert_eq!(scaled(text, scale), expected, "{text}");
        }
        assert_eq!(rescaled(-15, 1, 0), Some((-2, false)));
        assert_eq!(rescaled(14, 1, 0), Some((1, false)));
        assert_eq!(rescaled(2, 0, 2), Some((200, true)));
        assert_eq!(rescaled(2, 0, 39), None);
        assert_eq!(
            (text_of(-5, 2), text_of(1234, 2), text_of(7, 0)),
            ("-0.05".into(), "12.34".into(), "7".into())
        );
    }
}
