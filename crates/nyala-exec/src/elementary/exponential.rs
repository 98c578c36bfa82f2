//! Exponential, logarithms, powers: computed as Go does, see `mod.rs`.
#![allow(clippy::excessive_precision, reason = "coefficients stand as they were published")]

use super::polynomial;
use std::f64::consts::{FRAC_1_SQRT_2, LOG2_E, LOG10_E};

/// ln 2 in two parts. The first has so few digits that its product with an exponent is exact.
const LN_2_HIGH: f64 = 6.931_471_803_691_238_164_90e-1;
const LN_2_LOW: f64 = 1.908_214_929_270_587_700_02e-10;
/// ln 2 in two parts, as the exponential needs it.
const LN_2_UPPER: f64 = 0.693_147_180_559_662_956_511_601_805_686_950_683_593_75;
const LN_2_LOWER: f64 = 0.282_352_905_630_315_771_225_884_481_750_134_360_255_254_120_68e-12;
/// Above this the exponential is infinite.
const OVERFLOW: f64 = 7.097_827_128_933_84e2;

/// Coefficients of the logarithm, for odd and for even powers.
const LOGARITHM_ODD: [f64; 4] = [
    1.479_819_860_511_658_591e-1,
    1.818_357_216_161_805_012e-1,
    2.857_142_874_366_239_149e-1,
    6.666_666_666_666_735_130e-1,
];
const LOGARITHM_EVEN: [f64; 3] =
    [1.531_383_769_920_937_332e-1, 2.222_219_843_214_978_396e-1, 3.999_999_999_940_941_908e-1];
/// 1/8!, 1/7!, … 1/1!.
const TAYLOR: [f64; 8] = [
    2.480_158_730_158_730_158_7e-5,
    1.984_126_984_126_984_127_0e-4,
    1.388_888_888_888_888_888_9e-3,
    8.333_333_333_333_333_333_3e-3,
    4.166_666_666_666_666_666_7e-2,
    1.666_666_666_666_666_666_7e-1,
    0.5,
    1.0,
];

/// A positive or negative number, neither zero nor infinite, as a fraction from 0.5 to 1 and a power of two.
fn fraction_and_exponent(x: f64) -> (f64, i32) {
    const FRACTION: u64 = (1 << 52) - 1;
    let (x, shift) = if x.abs() < f64::MIN_POSITIVE { (x * (1_u64 << 52) as f64, -52) } else { (x, 0) };
    let bits = x.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i32 - 1022 + shift;
    (f64::from_bits(bits & (FRACTION | 1 << 63) | 1022 << 52), exponent)
}

/// `x` times a power of two.
fn scaled(x: f64, exponent: i64) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return x;
    }
    let (fraction, own) = fraction_and_exponent(x);
    let exponent = exponent + i64::from(own);
    let power = |exponent: i64| f64::from_bits(((exponent + 1023) as u64) << 52);
    match exponent {
        1025.. => f64::INFINITY.copysign(x),
        -1020.. => fraction * 2.0 * power(exponent - 1),
        -1075.. => fraction * 2.0 * power(exponent - 1 + 53) * power(-53),
        _ => 0.0_f64.copysign(x),
    }
}

/// The exponential.
pub fn exp(x: f64) -> f64 {
    if x.is_nan() || x == f64::INFINITY || x > OVERFLOW {
        return if x.is_nan() { x } else { f64::INFINITY };
    }
    let exponent = (x * LOG2_E).round_ties_even();
    if exponent < -1075.0 {
        return 0.0;
    }
    let rest = (-exponent).mul_add(LN_2_UPPER, x);
    let rest = (-exponent).mul_add(LN_2_LOWER, rest) * 0.0625;
    let series = TAYLOR.iter().copied().reduce(|value, term| value.mul_add(rest, term)).unwrap_or(1.0);
    // With y = exp(x) - 1, exp(2x) - 1 is y (y + 2). Three such steps here and one below undo the factor 1/16.
    let mut less_one = rest * series;
    for _ in 0..3 {
        less_one *= less_one + 2.0;
    }
    scaled((less_one + 2.0).mul_add(less_one, 1.0), exponent as i64)
}

/// The natural logarithm.
pub fn ln(x: f64) -> f64 {
    if x <= 0.0 || !x.is_finite() {
        return x.ln();
    }
    let (mut fraction, mut exponent) = fraction_and_exponent(x);
    if fraction < FRAC_1_SQRT_2 {
        fraction *= 2.0;
        exponent -= 1;
    }
    let (above_one, exponent) = (fraction - 1.0, f64::from(exponent));
    let quotient = above_one / (2.0 + above_one);
    let square = quotient * quotient;
    let fourth = square * square;
    let series = square * polynomial(fourth, &LOGARITHM_ODD) + fourth * polynomial(fourth, &LOGARITHM_EVEN);
    let half_square = 0.5 * above_one * above_one;
    let correction = quotient * (half_square + series) + exponent * LN_2_LOW;
    exponent * LN_2_HIGH - ((half_square - correction) - above_one)
}

/// The logarithm to the base 2. It is exact for powers of 2.
pub fn log2(x: f64) -> f64 {
    if x <= 0.0 || !x.is_finite() {
        return x.log2();
    }
    match fraction_and_exponent(x) {
        (0.5, exponent) => f64::from(exponent - 1),
        (fraction, exponent) => ln(fraction) * LOG2_E + f64::from(exponent),
    }
}

/// The logarithm to the base 10.
pub fn log10(x: f64) -> f64 {
    ln(x) * LOG10_E
}

/// A power.
pub fn pow(base: f64, exponent: f64) -> f64 {
    /// 2^63: from here on a power is 0, 1 or infinite.
    const WHOLE_MAX: f64 = 9_223_372_036_854_775_808.0;
    if base == 0.0 || base == 1.0 || !base.is_finite() || !exponent.is_finite() || exponent == 0.0 {
        // Of these every library returns the same.
        return base.powf(exponent);
    }
    if exponent == 0.5 {
        return base.sqrt();
    }
    if exponent == -0.5 {
        return 1.0 / base.sqrt();
    }
    let (mut whole, mut rest) = (exponent.abs().trunc(), exponent.abs().fract());
    if whole >= WHOLE_MAX || (rest != 0.0 && base < 0.0) {
        return base.powf(exponent);
    }
    let mut value = 1.0;
    if rest != 0.0 {
        if rest > 0.5 {
            rest -= 1.0;
            whole += 1.0;
        }
        value = exp(rest * ln(base));
    }
    // Fractions are squared and multiplied; their powers of two are added separately.
    let (mut square, square_exponent) = fraction_and_exponent(base);
    let (mut square_exponent, mut value_exponent) = (i64::from(square_exponent), 0);
    let mut bits = whole as u64;
    while bits != 0 {
        if square_exponent.abs() > 1 << 12 {
            // The result is infinite or zero already.
            value_exponent += square_exponent;
            break;
        }
        if bits & 1 == 1 {
            value *= square;
            value_exponent += square_exponent;
        }
        square *= square;
        square_exponent *= 2;
        if square < 0.5 {
            square += square;
            square_exponent -= 1;
        }
        bits >>= 1;
    }
    match exponent < 0.0 {
        true => scaled(1.0 / value, -value_exponent),
        false => scaled(value, value_exponent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_close_to_the_standard_librarys() {
        let close = |own: f64, other: f64| {
            let both_none = own.is_nan() && other.is_nan();
            let near = (own - other).abs() <= 1e-13 * other.abs() + f64::MIN_POSITIVE;
            assert!(both_none || own == other || near, "{own} {other}");
        };
        for step in -8000_i32..8000 {
            let x = f64::from(step) * 0.1;
            close(exp(x), x.exp());
            close(ln(x), x.ln());
            close(log2(x), x.log2());
            close(log10(x), x.log10());
            for y in [-300.0, -2.5, -1.0, -0.5, 0.0, 0.3, 0.5, 1.0, 2.0, 2.7, 17.0, 1e300] {
                close(pow(x, y), x.powf(y));
            }
        }
        for x in [f64::MAX, f64::MIN_POSITIVE, 5e-324, f64::INFINITY, f64::NAN, -0.0] {
            close(ln(x), x.ln());
            close(exp(x), x.exp());
            close(pow(x, 3.0), x.powf(3.0));
            close(pow(x, -1.5), x.powf(-1.5));
        }
        assert_eq!(scaled(1.5, -1074), 1e-323);
        assert_eq!(log2(1024.0), 10.0);
    }
}
