//! Functions of numbers, and of values of any type.

use super::plain::{Call, Kind, PlainFunction, immutable};
use crate::error::{SqlError, SqlResult, SqlState};
use datafusion::common::ScalarValue;

pub(super) static FUNCTIONS: &[PlainFunction] = &[
    immutable(
        "width_bucket",
        &[&[Kind::Float, Kind::Float, Kind::Float, Kind::Int]],
        Kind::Int,
        width_bucket,
    ),
    immutable("exp", ANGLE, Kind::Float, |call| {
        let own = call.float(0);
        in_range(own.exp(), own.is_finite())
    }),
    immutable("power", &[&[Kind::Float, Kind::Float]], Kind::Float, power),
    immutable("pow", &[&[Kind::Float, Kind::Float]], Kind::Float, power),
    immutable("sind", ANGLE, Kind::Float, |call| Ok(float(sine(finite(call)?)))),
    immutable("cosd", ANGLE, Kind::Float, |call| Ok(float(sine(finite(call)?.rem_euclid(360.0) + 90.0)))),
    immutable("tand", ANGLE, Kind::Float, |call| Ok(float(tangent(finite(call)?)))),
    immutable("cotd", ANGLE, Kind::Float, |call| Ok(float(tangent(90.0 - finite(call)?)))),
    immutable("asind", ANGLE, Kind::Float, |call| Ok(degrees(within_one(call)?.asin()))),
    immutable("acosd", ANGLE, Kind::Float, |call| Ok(degrees(within_one(call)?.acos()))),
    immutable("atand", ANGLE, Kind::Float, |call| Ok(degrees(call.float(0).atan()))),
    immutable("atan2d", &[&[Kind::Float, Kind::Float]], Kind::Float, |call| {
        Ok(degrees(call.float(0).atan2(call.float(1))))
    }),
];

const ANGLE: &[&[Kind]] = &[&[Kind::Float]];

fn float(own: f64) -> ScalarValue {
    ScalarValue::Float64(Some(own))
}

/// A result that is neither too large nor too small; what is computed from numbers that are not finite may be either.
fn in_range(own: f64, is_of_finite: bool) -> SqlResult<ScalarValue> {
    let words = match own {
        own if own.is_infinite() && is_of_finite => "value out of range: overflow",
        0.0 if is_of_finite => "value out of range: underflow",
        own => return Ok(float(own)),
    };
    Err(SqlError::new(SqlState::OUT_OF_RANGE, words))
}

fn power(call: &Call<'_>) -> SqlResult<ScalarValue> {
    let (base, exponent) = (call.float(0), call.float(1));
    let refused = |words| Err(SqlError::new(SqlState::INVALID_POWER_ARGUMENT, words));
    if base == 0.0 && exponent < 0.0 {
        return refused("zero raised to a negative power is undefined");
    }
    if base < 0.0 && exponent.is_finite() && exponent.fract() != 0.0 {
        return refused("a negative number raised to a non-integer power yields a complex result");
    }
    in_range(base.powf(exponent), base.is_finite() && exponent.is_finite() && base != 0.0)
}

/// An angle in degrees. Those of whole degrees have no digits that come from computing them.
fn degrees(radians: f64) -> ScalarValue {
    let (own, whole) = (radians.to_degrees(), radians.to_degrees().round());
    float(if (own - whole).abs() <= whole.abs() * 4.0 * f64::EPSILON { whole } else { own })
}

/// An angle in degrees.
fn finite(call: &Call<'_>) -> SqlResult<f64> {
    match call.float(0) {
        own if own.is_infinite() => Err(SqlError::new(SqlState::OUT_OF_RANGE, "input is out of range")),
        own => Ok(own),
    }
}

fn within_one(call: &Call<'_>) -> SqlResult<f64> {
    match call.float(0) {
        own if own.abs() > 1.0 => Err(SqlError::new(SqlState::OUT_OF_RANGE, "input is out of range")),
        own => Ok(own),
    }
}

/// The sine of an angle in degrees, exact where it is a half or a whole.
fn sine(degrees: f64) -> f64 {
    // Small angles keep their digits.
    let (sign, degrees) = (degrees.signum(), degrees.abs() % 360.0);
    let (sign, degrees) = if degrees >= 180.0 { (-sign, degrees - 180.0) } else { (sign, degrees) };
    let degrees = if degrees > 90.0 { 180.0 - degrees } else { degrees };
    // The known sines are divided out, as PostgreSQL does it.
    let one_minus_cosine = |degrees: f64| 1.0 - degrees.to_radians().cos();
    sign * match degrees <= 30.0 {
        true => degrees.to_radians().sin() / 30.0_f64.to_radians().sin() / 2.0,
        false => 1.0 - one_minus_cosine(90.0 - degrees) / one_minus_cosine(60.0) / 2.0,
    }
}

fn tangent(degrees: f64) -> f64 {
    let degrees = degrees.rem_euclid(180.0);
    match degrees {
        45.0 => 1.0,
        135.0 => -1.0,
        90.0 => f64::INFINITY,
        0.0 => 0.0,
        own => sine(own) / sine(own + 90.0),
    }
}

/// In which of so many parts of equal width between two bounds a number is: 0 below all of them, one more above.
fn width_bucket(call: &Call<'_>) -> SqlResult<ScalarValue> {
    let (number, low, high, count) = (call.float(0), call.float(1), call.float(2), call.int(3));
    let refused = |words| Err(SqlError::new(SqlState::INVALID_BUCKET_ARGUMENT, words));
    if count <= 0 {
        return refused("count must be greater than zero");
    }
    if number.is_nan() || low.is_nan() || high.is_nan() {
        return refused("operand, lower bound, and upper bound cannot be NaN");
    }
    if low.is_infinite() || high.is_infinite() {
        return refused("lower and upper bounds must be finite");
    }
    if low == high {
        return refused("lower bound cannot equal upper bound");
    }
    let (is_below, is_above) = match low < high {
        true => (number < low, number >= high),
        false => (number > low, number <= high),
    };
    let part = match (is_below, is_above) {
        (true, _) => 0,
        (_, true) => count
            .checked_add(1)
            .ok_or_else(|| SqlError::new(SqlState::OUT_OF_RANGE, "integer out of range"))?,
        // The number is between the bounds, so that the fraction is in [0, 1).
        _ => {
            let fraction = (number / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0);
            ((f64::from(count) * fraction) as i32).min(count - 1) + 1
        }
    };
    Ok(ScalarValue::Int32(Some(part)))
}
