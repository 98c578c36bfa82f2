//! Values on the straight line between two rows.

use arrow_schema::DataType;
use datafusion::common::ScalarValue;

/// A time and a value at it.
pub(super) type Sample = (i64, ScalarValue);

/// The value between two samples at a time; `None` if one of them is no number.
///
/// Integers are rounded, halves away from zero, as in TimescaleDB.
pub(super) fn between(
    before: &Sample,
    after: &Sample,
    time_ns: i64,
    data_type: &DataType,
) -> Option<ScalarValue> {
    let [x0, x1, x] = [before.0, after.0, time_ns].map(i128::from);
    match (number(&before.1)?, number(&after.1)?) {
        (Number::Integer(y0), Number::Integer(y1)) => {
            // Both factors are below 2^64.
            let width = (x1 - x0).unsigned_abs();
            let step = (y1 - y0).unsigned_abs() * (x - x0).unsigned_abs();
            let (whole, left) = ((step / width) as i128, step % width);
            let (floor, rest) = match left {
                left if y1 >= y0 => (y0 + whole, left),
                0 => (y0 - whole, 0),
                left => (y0 - whole - 1, width - left),
            };
            let is_rounded_up = if floor < 0 { rest > width - rest } else { rest >= width - rest };
            let rounded = floor + i128::from(is_rounded_up);
            integer(rounded, data_type)
        }
        (Number::Float(y0), Number::Float(y1)) => {
            // Rounding would give a value beside two equal ones.
            let value = match y0 == y1 {
                true => y0,
                false => (y0 * (x1 - x) as f64 + y1 * (x - x0) as f64) / (x1 - x0) as f64,
            };
            Some(match data_type {
                DataType::Float32 => ScalarValue::Float32(Some(value as f32)),
                _ => ScalarValue::Float64(Some(value)),
            })
        }
        _ => None,
    }
}

enum Number {
    Integer(i128),
    Float(f64),
}

fn number(value: &ScalarValue) -> Option<Number> {
    Some(match value {
        ScalarValue::Int8(Some(own)) => Number::Integer((*own).into()),
        ScalarValue::Int16(Some(own)) => Number::Integer((*own).into()),
        ScalarValue::Int32(Some(own)) => Number::Integer((*own).into()),
        ScalarValue::Int64(Some(own)) => Number::Integer((*own).into()),
        ScalarValue::UInt8(Some(own)) => Number::Integer((*own).into()),
        ScalarValue::UInt16(Some(own)) => Number::Integer((*own).into()),
        ScalarValue::UInt32(Some(own)) => Number::Integer((*own).into()),
        ScalarValue::UInt64(Some(own)) => Number::Integer((*own).into()),
        ScalarValue::Float32(Some(own)) => Number::Float((*own).into()),
        ScalarValue::Float64(Some(own)) => Number::Float(*own),
        _ => return None,
    })
}

/// An integer between two of a type, which is of that type, too.
fn integer(value: i128, data_type: &DataType) -> Option<ScalarValue> {
    Some(match data_type {
        DataType::Int8 => ScalarValue::Int8(value.try_into().ok()),
        DataType::Int16 => ScalarValue::Int16(value.try_into().ok()),
        DataType::Int32 => ScalarValue::Int32(value.try_into().ok()),
        DataType::Int64 => ScalarValue::Int64(value.try_into().ok()),
        DataType::UInt8 => ScalarValue::UInt8(value.try_into().ok()),
        DataType::UInt16 => ScalarValue::UInt16(value.try_into().ok()),
        DataType::UInt32 => ScalarValue::UInt32(value.try_into().ok()),
        DataType::UInt64 => ScalarValue::UInt64(value.try_into().ok()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_exact_and_rounded() {
        let at = |y0: i64, y1: i64, x: i64| {
            let (before, after) = ((0, ScalarValue::from(y0)), (4, ScalarValue::from(y1)));
            between(&before, &after, x, &DataType::Int64)
        };
        assert_eq!(at(0, 10, 1), Some(ScalarValue::from(3_i64)));
        assert_eq!(at(0, -10, 1), Some(ScalarValue::from(-3_i64)));
        assert_eq!(at(i64::MIN, i64::MAX, 2), Some(ScalarValue::from(-1_i64)));
        let far = |time| (time, ScalarValue::from(u64::MAX));
        let most = between(&far(i64::MIN), &far(i64::MAX), 0, &DataType::UInt64);
        assert_eq!(most, None.or(Some(ScalarValue::from(u64::MAX))));
    }
}
