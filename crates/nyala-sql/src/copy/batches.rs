//! Columns of a file, or of a client that sends Arrow, as the columns of a table have them.
//!
//! A value is taken over if the column can hold it: numbers of other widths, decimals of another scale that lose no digit,
//! times of other units. What would have to be rounded, cut off or guessed is an error that names the column. A text is read
//! as PostgreSQL would read it.

use super::cells::Cells;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::relation::assign::one_zero;
use crate::relation::columns::data_type;
use crate::relation::input::{Surroundings, limited_text};
use crate::relation::second_digits::rounded;
use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::Date64Type;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{ArrowError, DataType, TimeUnit};
use chrono_tz::Tz;
use datafusion::arrow::compute::{CastOptions, cast, cast_with_options};
use nyala_db::relations::DeclaredType;
use std::sync::Arc;

const MILLISECONDS_IN_DAY: i64 = 86_400_000;

/// The values of a column, as one of a declared type has them.
pub(crate) fn as_declared(
    values: &ArrayRef,
    name: &str,
    declared: DeclaredType,
    around: &Surroundings,
) -> SqlResult<ArrayRef> {
    let wanted = stored_type(declared);
    let mismatch = || {
        let message = format!(
            "column \"{name}\" is of type {declared}, and the values for it are {}",
            words(values.data_type())
        );
        Err(SqlError::new(SqlState::TYPE_MISMATCH, message))
    };
    let failed = |error: ArrowError| {
        let message = format!("column \"{name}\": a value is out of range for type {declared}");
        SqlError::new(SqlState::OUT_OF_RANGE, message).with_detail(error.to_string())
    };
    if let Some((unrounded, digits)) = declared.rounded() {
        let times = as_declared(values, name, unrounded, around)?;
        return match rounded(&times, digits)?.to_data() == times.to_data() {
            true => Ok(times),
            false => Err(too_many_digits(name, declared)),
        };
    }
    let own = values.data_type();
    let exactly = |values: &ArrayRef| {
        let options = CastOptions { safe: false, ..CastOptions::default() };
        cast_with_options(values, &wanted, &options).map_err(failed)
    };
    if *own == DataType::Null {
        return Ok(arrow_array::new_null_array(&wanted, values.len()));
    }
    if let DataType::Dictionary(_, inner) = own
        && !is_text(inner)
    {
        return as_declared(&cast(values, inner).map_err(failed)?, name, declared, around);
    }
    match declared {
        _ if is_text(own) => texts(values, name, declared, around),
        DeclaredType::Bool if *own == DataType::Boolean => Ok(values.clone()),
        DeclaredType::Int2 | DeclaredType::Int4 | DeclaredType::Int8 if own.is_integer() => exactly(values),
        DeclaredType::Float4 if matches!(own, DataType::Float16 | DataType::Float32) => {
            Ok(one_zero(&exactly(values)?))
        }
        DeclaredType::Float8 if own.is_floating() => Ok(one_zero(&exactly(values)?)),
        DeclaredType::Float4 | DeclaredType::Float8 if own.is_integer() => exactly(values),
        DeclaredType::Numeric { .. } if own.is_integer() => exactly(values),
        DeclaredType::Numeric { .. } if own.is_decimal() => {
            let converted = exactly(values)?;
            // A smaller scale would round.
            let back = cast(&converted, own).map_err(failed)?;
            match back.to_data() == values.to_data() || is_same(&back, values) {
                true => Ok(converted),
                false => Err(too_many_digits(name, declared)),
            }
        }
        DeclaredType::Bytea if is_bytes(own) => exactly(values),
        DeclaredType::Date if *own == DataType::Date32 => exactly(values),
        DeclaredType::Date if *own == DataType::Date64 => {
            let milliseconds = values.as_primitive::<Date64Type>();
            match milliseconds.iter().flatten().all(|time| time % MILLISECONDS_IN_DAY == 0) {
                true => exactly(values),
                false => {
                    let message =
                        format!("column \"{name}\": a value has a time of day, and type {declared} has none");
                    Err(SqlError::new(SqlState::OUT_OF_RANGE, message))
                }
            }
        }
        DeclaredType::Timestamp | DeclaredType::Timestamptz => match own {
            DataType::Timestamp(_, zone) => {
                let has_zone = zone.is_some();
                if has_zone != (declared == DeclaredType::Timestamptz) && around.zone != Tz::UTC {
                    let message = format!(
                        "times {} a zone for column \"{name}\" of type {declared} while TimeZone is not UTC",
                        if has_zone { "with" } else { "without" }
                    );
                    return Err(SqlError::unsupported(message).with_hint("SET TimeZone = 'UTC'."));
                }
                let utc = DataType::Timestamp(TimeUnit::Nanosecond, zone.as_ref().map(|_| "UTC".into()));
                let options = CastOptions { safe: false, ..CastOptions::default() };
                let instants = cast_with_options(values, &utc, &options).map_err(failed)?;
                let times = instants.as_primitive::<arrow_array::types::TimestampNanosecondType>();
                Ok(Arc::new(times.clone().with_timezone_opt(None::<Arc<str>>)))
            }
            DataType::Date32 => exactly(values),
            // Straight to nanoseconds, arrow multiplies without looking whether they fit.
            DataType::Date64 => {
                let milliseconds = DataType::Timestamp(TimeUnit::Millisecond, None);
                exactly(&cast(values, &milliseconds).map_err(failed)?)
            }
            _ => mismatch(),
        },
        _ => mismatch(),
    }
}

fn too_many_digits(name: &str, declared: DeclaredType) -> SqlError {
    let message = format!("column \"{name}\": a value has more digits than type {declared}");
    SqlError::new(SqlState::OUT_OF_RANGE, message)
}

/// The type in which the store has values: moments have no zone there.
fn stored_type(declared: DeclaredType) -> DataType {
    match data_type(declared) {
        DataType::Timestamp(unit, _) => DataType::Timestamp(unit, None),
        other => other,
    }
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, inner) => is_text(inner),
        _ => false,
    }
}

fn is_bytes(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_)
    )
}

/// Whether two columns have the same values; what is below a NULL does not count.
fn is_same(left: &ArrayRef, right: &ArrayRef) -> bool {
    datafusion::arrow::compute::kernels::cmp::not_distinct(left, right)
        .is_ok_and(|same| same.true_count() == same.len())
}

/// Texts as values of the type.
fn texts(
    values: &ArrayRef,
    name: &str,
    declared: DeclaredType,
    around: &Surroundings,
) -> SqlResult<ArrayRef> {
    let plain = cast(values, &DataType::Utf8)
        .map_err(|error| SqlError::new(SqlState::OUT_OF_MEMORY, format!("column \"{name}\": {error}")))?;
    let texts = plain.as_string::<i32>();
    let located = |row: usize| move |error: SqlError| error.of_row(row);
    match declared {
        DeclaredType::Text => match texts.value_data().contains(&0) {
            // It may be in a text of another slice.
            true => {
                for (row, text) in texts.iter().enumerate() {
                    limited_text(text.unwrap_or(""), declared).map_err(located(row))?;
                }
                Ok(plain)
            }
            false => Ok(plain),
        },
        DeclaredType::Varchar(_) | DeclaredType::Char(_) => {
            let mut limited = StringBuilder::with_capacity(texts.len(), texts.value_data().len());
            for (row, text) in texts.iter().enumerate() {
                let text = text.map(|text| limited_text(text, declared)).transpose();
                limited.append_option(text.map_err(located(row))?);
            }
            Ok(Arc::new(limited.finish()))
        }
        _ => {
            let mut cells = Cells::of(declared)?;
            for (row, text) in texts.iter().enumerate() {
                match text {
                    Some(text) => cells.add_text(text, around).map_err(located(row))?,
                    None => cells.add_null(),
                }
            }
            Ok(cells.take())
        }
    }
}

/// A type of Arrow, in words of SQL where there are some.
fn words(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean => "boolean".to_owned(),
        DataType::Float32 => "real".to_owned(),
        DataType::Float64 => "double precision".to_owned(),
        DataType::Decimal128(precision, scale) => format!("numeric({precision},{scale})"),
        DataType::Date32 | DataType::Date64 => "dates".to_owned(),
        DataType::Timestamp(_, None) => "timestamps without time zone".to_owned(),
        DataType::Timestamp(..) => "timestamps with time zone".to_owned(),
        other if other.is_integer() => format!("integers ({other})"),
        other if is_bytes(other) => "bytes".to_owned(),
        other => format!("of the type {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::Float64Type;
    use arrow_array::{
        BooleanArray, Date32Array, Date64Array, Decimal128Array, Float64Array, Int32Array, Int64Array,
        StringArray, TimestampMicrosecondArray, TimestampNanosecondArray, UInt64Array,
    };

    fn around() -> Surroundings {
        Surroundings { zone: Tz::UTC, now_ns: 0 }
    }

    fn converted(values: impl Array + 'static, declared: DeclaredType) -> Result<ArrayRef, &'static str> {
        let values: ArrayRef = Arc::new(values);
        as_declared(&values, "a", declared, &around()).map_err(|error| error.code.0)
    }

    #[test]
    fn numbers_are_taken_over_if_the_column_can_hold_them() {
        let found = converted(Int64Array::from(vec![Some(7), None]), DeclaredType::Int2).unwrap();
        assert_eq!(found.data_type(), &DataType::Int16);
        assert_eq!(converted(Int64Array::from(vec![70_000]), DeclaredType::Int2).unwrap_err(), "22003");
        assert_eq!(converted(UInt64Array::from(vec![u64::MAX]), DeclaredType::Int8).unwrap_err(), "22003");
        assert_eq!(converted(Float64Array::from(vec![1.0]), DeclaredType::Int8).unwrap_err(), "42804");
        assert_eq!(converted(Float64Array::from(vec![1.0]), DeclaredType::Float4).unwrap_err(), "42804");
        let numeric = DeclaredType::Numeric { precision: 20, scale: 2 };
        assert!(converted(UInt64Array::from(vec![u64::MAX]), numeric).is_err());
        let numbers = |scale, values: Vec<i128>| {
            Decimal128Array::from(values).with_precision_and_scale(30, scale).unwrap()
        };
        let found = converted(numbers(4, vec![12_300]), numeric).unwrap();
        assert_eq!(found.as_primitive::<arrow_array::types::Decimal128Type>().value(0), 123);
        assert_eq!(converted(numbers(4, vec![12_345]), numeric).unwrap_err(), "22003");
    }

    #[test]
    fn floats_have_one_zero_and_one_nan() {
        let values = Float64Array::from(vec![-0.0, f64::NAN, -f64::NAN, f64::NEG_INFINITY]);
        let found = converted(values, DeclaredType::Float8).unwrap();
        let bits: Vec<u64> =
            found.as_primitive::<Float64Type>().values().iter().map(|number| number.to_bits()).collect();
        let nan = f64::NAN.abs().to_bits();
        assert_eq!(bits, [0, nan, nan, f64::NEG_INFINITY.to_bits()]);
    }

    #[test]
    fn times_of_other_units_are_exact_or_refused() {
        let times = TimestampMicrosecondArray::from(vec![Some(1), None]).with_timezone("+02:00");
        let found = converted(times, DeclaredType::Timestamptz).unwrap();
        let expected = TimestampNanosecondArray::from(vec![Some(1000), None]);
        assert_eq!(&*found as &dyn Array, &expected as &dyn Array);
        let far = TimestampMicrosecondArray::from(vec![i64::MAX]);
        assert_eq!(converted(far, DeclaredType::Timestamp).unwrap_err(), "22003");
        let naive: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![1]));
        let elsewhere = Surroundings { zone: Tz::Europe__Berlin, now_ns: 0 };
        let error = as_declared(&naive, "a", DeclaredType::Timestamptz, &elsewhere).unwrap_err();
        assert_eq!((error.code, error.message.contains("without a zone")), (SqlState::UNSUPPORTED, true));
    }

    #[test]
    fn dates_in_milliseconds_are_exact_or_refused() {
        let dates = |milliseconds: i64| Date64Array::from(vec![Some(milliseconds), None]);
        let found = converted(dates(-MILLISECONDS_IN_DAY), DeclaredType::Date).unwrap();
        assert_eq!(&*found as &dyn Array, &Date32Array::from(vec![Some(-1), None]) as &dyn Array);
        for milliseconds in [-1, 1, MILLISECONDS_IN_DAY + 1] {
            assert_eq!(converted(dates(milliseconds), DeclaredType::Date).unwrap_err(), "22003");
        }
        // Beyond 32 bits of days, and beyond 64 bits of nanoseconds: the last one is 1816 if it wraps.
        let far = MILLISECONDS_IN_DAY * (1 << 32);
        assert_eq!(converted(dates(far), DeclaredType::Date).unwrap_err(), "22003");
        for declared in [DeclaredType::Timestamp, DeclaredType::Timestamptz] {
            let found = converted(dates(-1), declared).unwrap();
            let expected = TimestampNanosecondArray::from(vec![Some(-1_000_000), None]);
            assert_eq!(&*found as &dyn Array, &expected as &dyn Array);
            for milliseconds in [far, 253_402_214_400_000, i64::MIN] {
                assert_eq!(converted(dates(milliseconds), declared).unwrap_err(), "22003");
            }
        }
    }

    #[test]
    fn texts_are_read_as_postgresql_reads_them() {
        let texts = || StringArray::from(vec![Some("2026-01-31"), None]);
        assert_eq!(converted(texts(), DeclaredType::Date).unwrap().data_type(), &DataType::Date32);
        assert_eq!(converted(texts(), DeclaredType::Int4).unwrap_err(), "22P02");
        assert_eq!(converted(texts(), DeclaredType::Varchar(5)).unwrap_err(), "22001");
        assert_eq!(converted(StringArray::from(vec!["a\0"]), DeclaredType::Text).unwrap_err(), "22021");
        let tags: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "a"]));
        let tags = cast(&tags, &DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)));
        let found = as_declared(&tags.unwrap(), "a", DeclaredType::Text, &around()).unwrap();
        assert_eq!(found.as_string::<i32>().value(2), "a");
        assert_eq!(converted(Int32Array::from(vec![1]), DeclaredType::Text).unwrap_err(), "42804");
        let nothing = converted(arrow_array::NullArray::new(2), DeclaredType::Bool).unwrap();
        assert_eq!(&*nothing as &dyn Array, &BooleanArray::new_null(2) as &dyn Array);
    }
}
