//! Times that keep fewer digits behind the seconds than they could, such as those of `timestamp(3)`.

use crate::error::{SqlError, SqlResult, SqlState};
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use nyala_core::Value;
use std::sync::Arc;

/// The beginning of the year 2000, ns since 1970. What lies in the middle is rounded away from it, as PostgreSQL does.
const EPOCH_NS: i128 = 946_684_800_000_000_000;

/// A time, rounded to so many digits behind the seconds, at most 9. Both are ns since 1970.
pub(crate) fn rounded_ns(time_ns: i64, digits: u8) -> SqlResult<i64> {
    let unit = 10_i128.pow(9 - u32::from(digits));
    let since = i128::from(time_ns) - EPOCH_NS;
    let rounded = (since.abs() + unit / 2) / unit * unit * since.signum();
    i64::try_from(rounded + EPOCH_NS)
        .map_err(|_| SqlError::new(SqlState::DATETIME_OUT_OF_RANGE, "timestamp out of range"))
}

/// A value of a type of times, rounded.
pub(super) fn rounded_value(value: Value, digits: u8) -> SqlResult<Value> {
    match value {
        Value::Int(time_ns) => rounded_ns(time_ns, digits).map(Value::Int),
        other => Ok(other),
    }
}

/// Times in nanoseconds, rounded.
pub(crate) fn rounded(times: &ArrayRef, digits: u8) -> SqlResult<ArrayRef> {
    let own = times.as_primitive::<TimestampNanosecondType>();
    let rounded: PrimitiveArray<TimestampNanosecondType> =
        own.try_unary(|time_ns| rounded_ns(time_ns, digits))?;
    Ok(Arc::new(rounded.with_data_type(times.data_type().clone())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_rounded_away_from_2000() {
        let second = 1_000_000_000;
        let base = EPOCH_NS as i64;
        let cases = [
            (base + 1_500_000_000, 0, base + 2 * second),
            (base + 1_499_999_999, 0, base + second),
            (base - 1_500_000_000, 0, base - 2 * second),
            (base - 1_499_999_999, 0, base - second),
            (123_456_789, 3, 123_000_000),
            (123_456_789, 9, 123_456_789),
            (0, 0, 0),
        ];
        for (given, digits, expected) in cases {
            assert_eq!(rounded_ns(given, digits).unwrap(), expected, "{given} to {digits}");
        }
        assert_eq!(rounded_ns(i64::MAX, 0).unwrap_err().code, SqlState::DATETIME_OUT_OF_RANGE);
        assert_eq!(rounded_ns(i64::MIN, 0).unwrap_err().code, SqlState::DATETIME_OUT_OF_RANGE);
    }
}
