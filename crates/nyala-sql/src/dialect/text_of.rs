//! Casts to texts of values that Arrow writes otherwise than PostgreSQL: floats, times and intervals. Times keep their nanoseconds. Values
//! that are kept as texts and have a type of their own, as UUIDs, lose it.

use crate::float_text::{write_f32, write_f64};
use crate::pg_type::TYPE_KEY;
use crate::time_printing::{Span, write_exact_timestamp};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, TimestampNanosecondType,
};
use arrow_array::{ArrayRef, ArrowPrimitiveType, PrimitiveArray, StringArray};
use arrow_schema::{DataType, Field, IntervalUnit, TimeUnit};
use datafusion::arrow::compute::cast;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use nyala_exec::Zone;
use std::sync::Arc;

/// Whether values of a type are written here.
pub(super) fn writes(field: &Field) -> bool {
    match field.data_type() {
        DataType::Float32 | DataType::Float64 | DataType::Timestamp(..) | DataType::Interval(_) => true,
        other => other.is_string() && field.metadata().contains_key(TYPE_KEY),
    }
}

/// The text of a value.
pub(super) fn of(value: Expr, data_type: &DataType) -> Expr {
    // A time with a zone is shown by the clock of the session's.
    let volatility = match data_type {
        DataType::Timestamp(_, Some(_)) => Volatility::Stable,
        _ => Volatility::Immutable,
    };
    ScalarUDF::from(TextOf { signature: Signature::any(1, volatility) }).call(vec![value])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TextOf {
    signature: Signature,
}

fn texts<Type: ArrowPrimitiveType>(
    values: &PrimitiveArray<Type>,
    write: impl Fn(Type::Native, &mut Vec<u8>),
) -> ArrayRef {
    let text = |own| {
        let mut out = Vec::new();
        write(own, &mut out);
        String::from_utf8(out).expect("digits are letters")
    };
    Arc::new(values.iter().map(|own| own.map(text)).collect::<StringArray>())
}

fn write_span(own: IntervalMonthDayNano, out: &mut Vec<u8>) {
    Span { months: own.months, days: own.days, us: own.nanoseconds / 1_000 }.write(out);
}

impl ScalarUDFImpl for TextOf {
    fn name(&self) -> &str {
        "as::text"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = matches!(arguments.args[0], ColumnarValue::Scalar(_));
        let values = arguments.args[0].to_array(if is_constant { 1 } else { arguments.number_rows })?;
        let texts = match values.data_type() {
            DataType::Float32 => texts(values.as_primitive::<Float32Type>(), write_f32),
            DataType::Float64 => texts(values.as_primitive::<Float64Type>(), write_f64),
            DataType::Timestamp(_, zone) => {
                let named = arguments.config_options.execution.time_zone.as_deref();
                let shown = || named.and_then(Zone::named).or_else(|| Zone::named("UTC"));
                let shown = zone.as_ref().and_then(|_| shown());
                let moments = cast(&values, &DataType::Timestamp(TimeUnit::Nanosecond, zone.clone()))?;
                texts(moments.as_primitive::<TimestampNanosecondType>(), |own, out| {
                    write_exact_timestamp(own, shown, out);
                })
            }
            own if own.is_string() => cast(&values, &DataType::Utf8)?,
            _ => {
                let spans = cast(&values, &DataType::Interval(IntervalUnit::MonthDayNano))?;
                texts(spans.as_primitive::<IntervalMonthDayNanoType>(), write_span)
            }
        };
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&texts, 0)?),
            false => ColumnarValue::Array(texts),
        })
    }
}
