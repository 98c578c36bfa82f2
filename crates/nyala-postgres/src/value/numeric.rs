//! `numeric`: decimal numbers as digits, as PostgreSQL's groups of four digits, and back.
//!
//! In binary a number is a count of groups, the weight of the first one (as a power of 10 000), a sign, the digits
//! behind the point that are shown, and the groups, without groups of zeros at either end.

use crate::error::Failure;

/// Digits of a group.
const GROUP_DIGITS: usize = 4;
const NEGATIVE: u16 = 0x4000;
const NOT_A_NUMBER: u16 = 0xc000;
/// The digits of the largest `Decimal128`.
const DIGITS_MAX: usize = 38;

/// Appends `value / 10^scale`, given by its digits, which may begin with a minus.
pub fn write_text(digits: &str, scale: i8, out: &mut Vec<u8>) {
    let (sign, digits) = split_sign(digits);
    out.extend_from_slice(sign.as_bytes());
    let digits = digits.as_bytes();
    if scale <= 0 {
        out.extend_from_slice(digits);
        if digits != b"0" {
            out.extend(std::iter::repeat_n(b'0', usize::from(scale.unsigned_abs())));
        }
        return;
    }
    let scale = usize::from(scale.unsigned_abs());
    match digits.len().checked_sub(scale).filter(|whole| *whole > 0) {
        Some(whole) => {
            out.extend_from_slice(&digits[..whole]);
            out.push(b'.');
            out.extend_from_slice(&digits[whole..]);
        }
        None => {
            out.extend_from_slice(b"0.");
            out.extend(std::iter::repeat_n(b'0', scale - digits.len()));
            out.extend_from_slice(digits);
        }
    }
}

/// Appends the same in binary.
pub fn write_binary(digits: &str, scale: i8, out: &mut Vec<u8>) {
    let (sign, digits) = split_sign(digits);
    let shown = scale.max(0) as usize;
    let mut all = Vec::with_capacity(digits.len() + 2 * GROUP_DIGITS);
    // Whole groups on both sides of the point.
    let whole = (digits.len() as i64 - i64::from(scale)).max(0) as usize;
    let lead = whole.next_multiple_of(GROUP_DIGITS) - whole;
    all.extend(std::iter::repeat_n(b'0', lead));
    if digits.len() < shown {
        all.extend(std::iter::repeat_n(b'0', shown - digits.len()));
    }
    all.extend_from_slice(digits.as_bytes());
    all.extend(std::iter::repeat_n(b'0', usize::from(scale.min(0).unsigned_abs())));
    let behind = shown.next_multiple_of(GROUP_DIGITS) - shown;
    all.extend(std::iter::repeat_n(b'0', behind));
    let groups: Vec<u16> = all
        .chunks(GROUP_DIGITS)
        .map(|group| group.iter().fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0')))
        .collect();
    let first = groups.iter().position(|group| *group != 0);
    let last = groups.iter().rposition(|group| *group != 0);
    let weight_of_all = (whole.div_ceil(GROUP_DIGITS)) as i16 - 1;
    let (kept, weight) = match first.zip(last) {
        Some((first, last)) => (&groups[first..=last], weight_of_all - first as i16),
        None => (&groups[..0], 0),
    };
    out.extend_from_slice(&(kept.len() as u16).to_be_bytes());
    out.extend_from_slice(&weight.to_be_bytes());
    out.extend_from_slice(&(if sign.is_empty() { 0 } else { NEGATIVE }).to_be_bytes());
    out.extend_from_slice(&(shown as u16).to_be_bytes());
    kept.iter().for_each(|group| out.extend_from_slice(&group.to_be_bytes()));
}

fn split_sign(digits: &str) -> (&'static str, &str) {
    digits.strip_prefix('-').map_or(("", digits), |rest| ("-", rest))
}

/// A decimal number that a client sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decimal {
    /// The number times `10^scale`.
    pub value: i128,
    /// Digits behind the point.
    pub scale: i8,
}

impl Decimal {
    /// Reads a number as PostgreSQL does: with a sign, a point and an exponent.
    pub fn read(text: &str) -> Result<Self, Failure> {
        let malformed = || Failure::malformed("numeric", text);
        let trimmed = text.trim_matches(|letter: char| letter.is_ascii_whitespace() || letter == '\x0b');
        let (mantissa, exponent) = match trimmed.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().map_err(|_| malformed())?),
            None => (trimmed, 0),
        };
        let (is_negative, mantissa) = match mantissa.as_bytes() {
            [b'-', ..] => (true, &mantissa[1..]),
            [b'+', ..] => (false, &mantissa[1..]),
            _ => (false, mantissa),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let is_number = |part: &str| part.bytes().all(|letter| letter.is_ascii_digit());
        if whole.is_empty() && fraction.is_empty() || !is_number(whole) || !is_number(fraction) {
            return Err(match trimmed.to_ascii_lowercase().trim_start_matches(['-', '+']) {
                "nan" | "inf" | "infinity" => not_stored(trimmed),
                _ => malformed(),
            });
        }
        let digits = whole.bytes().chain(fraction.bytes());
        let scale = fraction.len() as i64 - i64::from(exponent);
        Self::of_digits(digits, scale, is_negative).ok_or_else(|| out_of_range(text))
    }

    /// Reads the binary form.
    pub fn of_binary(bytes: &[u8]) -> Result<Self, Failure> {
        let word =
            |at: usize| bytes.get(2 * at..2 * at + 2).map(|word| u16::from_be_bytes([word[0], word[1]]));
        let invalid = || Failure::invalid_binary("numeric");
        let header = (word(0), word(1), word(2), word(3));
        let (Some(count), Some(weight), Some(sign), Some(shown)) = header else { return Err(invalid()) };
        if bytes.len() != 8 + 2 * usize::from(count) {
            return Err(invalid());
        }
        match sign {
            0 | NEGATIVE => {}
            NOT_A_NUMBER | 0xd000 | 0xf000 => return Err(not_stored("NaN or Infinity")),
            _ => return Err(invalid()),
        }
        let groups = (0..usize::from(count)).map(|at| word(4 + at).filter(|group| *group < 10_000));
        let groups: Vec<u16> = groups.collect::<Option<_>>().ok_or_else(invalid)?;
        let digits =
            groups.iter().flat_map(|group| [group / 1000, group / 100 % 10, group / 10 % 10, group % 10]);
        let digits = digits.map(|digit| digit as u8 + b'0');
        let scale = (i64::from(count) - 1 - i64::from(weight as i16)) * GROUP_DIGITS as i64;
        let found = Self::of_digits(digits, scale, sign == NEGATIVE);
        // Zeros at the end are shown, but not sent.
        let shown = shown.min(DIGITS_MAX as u16) as i8;
        found.map(|found| found.showing(shown)).ok_or_else(|| out_of_range("a number"))
    }

    /// Of digits of a number, of which `scale` are behind the point; more than there are, or less than none.
    fn of_digits(digits: impl Iterator<Item = u8>, scale: i64, is_negative: bool) -> Option<Self> {
        let mut digits: Vec<u8> = digits.skip_while(|digit| *digit == b'0').collect();
        let mut scale = scale;
        if digits.is_empty() {
            return Some(Self { value: 0, scale: i8::try_from(scale.clamp(0, DIGITS_MAX as i64)).ok()? });
        }
        let is_long = |digits: &[u8], scale| digits.len() > DIGITS_MAX || scale > DIGITS_MAX as i64;
        while is_long(&digits, scale) && scale > 0 && digits.last() == Some(&b'0') {
            digits.pop();
            scale -= 1;
        }
        if scale < 0 {
            if scale < -(DIGITS_MAX as i64) {
                return None;
            }
            digits.extend(std::iter::repeat_n(b'0', scale.unsigned_abs() as usize));
            scale = 0;
        }
        if digits.len() > DIGITS_MAX || scale > DIGITS_MAX as i64 {
            return None;
        }
        let value = digits.iter().fold(0_i128, |value, digit| value * 10 + i128::from(digit - b'0'));
        Some(Self { value: if is_negative { -value } else { value }, scale: scale as i8 })
    }

    /// Its value times `10^scale`, rounded half away from zero, if that has at most so many digits.
    pub fn rounded(self, scale: i8, precision: u8) -> Option<i128> {
        let places = i32::from(scale) - i32::from(self.scale);
        let power = 10_i128.checked_pow(places.unsigned_abs());
        let value = match (places >= 0, power) {
            (true, Some(power)) => self.value.checked_mul(power)?,
            (true, None) => (self.value == 0).then_some(0)?,
            (false, Some(power)) => {
                let (quotient, rest) = (self.value / power, self.value % power);
                let is_up = rest.unsigned_abs() >= power.unsigned_abs().div_ceil(2);
                quotient + if is_up { self.value.signum() } else { 0 }
            }
            (false, None) => 0,
        };
        let limit = 10_u128.checked_pow(precision.into())?;
        (value.unsigned_abs() < limit).then_some(value)
    }

    /// The number, if it is an integer.
    pub fn whole(self) -> Option<i128> {
        let power = 10_i128.checked_pow(self.scale.max(0).unsigned_abs().into())?;
        (self.value % power == 0).then_some(self.value / power)
    }

    /// The same number with so many digits behind the point, as far as there is room for zeros, and without those that are zeros.
    fn showing(self, scale: i8) -> Self {
        let mut number = self;
        while number.scale > scale && number.value % 10 == 0 {
            number = Self { value: number.value / 10, scale: number.scale - 1 };
        }
        let fits = |value: &i128| value.unsigned_abs() < 10_u128.pow(DIGITS_MAX as u32);
        while number.scale < scale
            && let Some(value) = number.value.checked_mul(10).filter(fits)
        {
            number = Self { value, scale: number.scale + 1 };
        }
        number
    }
}

fn not_stored(text: &str) -> Failure {
    Failure::new("22003", format!("numeric {text} cannot be stored"))
}

fn out_of_range(text: &str) -> Failure {
    let shown: String = text.chars().take(64).collect();
    Failure::new("22003", format!("value \"{shown}\" is out of range for type numeric(38)"))
}
