//! Functions of numbers, and of values of any type.

use super::plain::{Call, Kind, PlainFunction, immutable};
use crate::error::{SqlError, SqlResult, SqlState};
use datafusion::common::ScalarValue;

pub(super) static FUNCTIONS: &[PlainFunction] = &[immutable(
    "width_bucket",
    &[&[Kind::Float, Kind::Float, Kind::Float, Kind::Int]],
    Kind::Int,
    width_bucket,
)];

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
