//! `date_part`, which gives floats: seconds have their fractions. DataFusion's function gives whole numbers of most parts.
//! `extract` gives decimals ([`super::extract`]).

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, DurationNanosecondType, Float64Type, Int32Type, Int64Type,
    IntervalMonthDayNano, IntervalMonthDayNanoType, TimestampMicrosecondType,
};
use arrow_schema::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};
use datafusion::arrow::compute::cast;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, lit,
};
use std::sync::Arc;

/// The name of the function.
pub(super) const NAME: &str = "date_part";

const MINUTE_NS: i64 = 60_000_000_000;
const DAY_NS: i64 = 86_400_000_000_000;
const DAY_S: f64 = 86_400.0;

/// The function, over DataFusion's.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct DatePart {
    inner: Arc<ScalarUDF>,
}

impl DatePart {
    pub(super) fn over(inner: Arc<ScalarUDF>) -> Self {
        Self { inner }
    }

    /// What DataFusion gives of a part.
    pub(super) fn part(
        &self,
        part: &str,
        of: &ScalarFunctionArgs,
        data_type: DataType,
    ) -> Result<ColumnarValue> {
        let mut arguments = of.clone();
        arguments.args[0] = ColumnarValue::Scalar(ScalarValue::from(part));
        arguments.return_field = Arc::new(Field::new(NAME, data_type, true));
        self.inner.invoke_with_args(arguments)
    }
}

/// How many microseconds there are in a part of a second, and in seconds themselves.
pub(super) fn microseconds_in(part: &str) -> Option<i64> {
    match part {
        "second" | "seconds" | "sec" | "secs" | "s" => Some(1_000_000),
        "millisecond" | "milliseconds" | "msec" | "msecs" | "msecond" | "mseconds" | "ms" => Some(1_000),
        "microsecond" | "microseconds" | "usec" | "usecs" | "usecond" | "useconds" | "us" => Some(1),
        _ => None,
    }
}

/// Seconds and their parts, and those since 1970, in microseconds; `None` if it is another part.
pub(super) fn exact_us(
    over: &DatePart,
    part: &str,
    of: &ScalarFunctionArgs,
    rows: usize,
) -> Result<Option<ArrayRef>> {
    let (is_second, is_epoch) = (microseconds_in(part).is_some(), part == "epoch");
    let times = &of.args[1];
    let us: ArrayRef = match times.data_type() {
        DataType::Interval(_) | DataType::Duration(_) if is_second || is_epoch => {
            let spans = spans_of(&times.to_array(rows)?)?;
            let spans = spans.as_primitive::<IntervalMonthDayNanoType>();
            Arc::new(spans.unary::<_, Decimal128Type>(|span| match is_epoch {
                true => us_of(span),
                false => i128::from(span.nanoseconds % MINUTE_NS / 1_000),
            }))
        }
        DataType::Timestamp(..) | DataType::Time32(_) | DataType::Time64(_) if is_second => {
            let of_minute = over.part("nanosecond", of, DataType::Int64)?.to_array(rows)?;
            Arc::new(
                of_minute
                    .as_primitive::<Int64Type>()
                    .unary::<_, Decimal128Type>(|own| i128::from(own / 1_000)),
            )
        }
        DataType::Timestamp(_, zone) if is_epoch => {
            let times = cast(&times.to_array(rows)?, &DataType::Timestamp(TimeUnit::Microsecond, zone))?;
            Arc::new(times.as_primitive::<TimestampMicrosecondType>().unary::<_, Decimal128Type>(i128::from))
        }
        _ => return Ok(None),
    };
    Ok(Some(us))
}

fn spans_of(spans: &ArrayRef) -> Result<ArrayRef> {
    match spans.data_type() {
        DataType::Duration(_) => span_between(spans),
        _ => Ok(cast(spans, &DataType::Interval(IntervalUnit::MonthDayNano))?),
    }
}

impl ScalarUDFImpl for DatePart {
    fn name(&self) -> &str {
        self.inner.name()
    }

    // Under these names the function of DataFusion would be found again.
    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn return_field_from_args(&self, given: ReturnFieldArgs) -> Result<FieldRef> {
        let field = self.inner.return_field_from_args(given)?;
        Ok(Arc::new(field.as_ref().clone().with_data_type(DataType::Float64)))
    }

    fn invoke_with_args(&self, mut arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let part = match &arguments.args[0] {
            ColumnarValue::Scalar(part) => part.try_as_str().flatten().unwrap_or_default().to_lowercase(),
            ColumnarValue::Array(_) => String::new(),
        };
        let is_constant = matches!(arguments.args[1], ColumnarValue::Scalar(_));
        let rows = if is_constant { 1 } else { arguments.number_rows };
        if let DataType::Duration(_) = arguments.args[1].data_type() {
            arguments.args[1] = ColumnarValue::Array(span_between(&arguments.args[1].to_array(rows)?)?);
        }
        let given = arguments.args[1].data_type();
        let times = &arguments.args[1];
        // The nanoseconds in the part.
        let unit = microseconds_in(&part).map(|us| us as f64 * 1e3);
        let floats: ArrayRef = match (unit, &given) {
            (unit, DataType::Interval(_)) if unit.is_some() || part == "epoch" => {
                let spans = spans_of(&times.to_array(rows)?)?;
                let spans = spans.as_primitive::<IntervalMonthDayNanoType>();
                Arc::new(spans.unary::<_, Float64Type>(|span| match unit {
                    Some(unit) => (span.nanoseconds % MINUTE_NS) as f64 / unit,
                    None => seconds_of(span),
                }))
            }
            (Some(unit), DataType::Timestamp(..) | DataType::Time32(_) | DataType::Time64(_)) => {
                let of_minute = self.part("nanosecond", &arguments, DataType::Int64)?.to_array(rows)?;
                let of_minute = of_minute.as_primitive::<Int64Type>();
                Arc::new(of_minute.unary::<_, Float64Type>(|own| own as f64 / unit))
            }
            (None, DataType::Timestamp(_, zone)) if part == "epoch" => {
                // Microseconds are exact as floats, nanoseconds are not.
                let unit = DataType::Timestamp(TimeUnit::Microsecond, zone.clone());
                let times = cast(&times.to_array(rows)?, &unit)?;
                let times = times.as_primitive::<TimestampMicrosecondType>();
                Arc::new(times.unary::<_, Float64Type>(|own| own as f64 / 1e6))
            }
            (None, DataType::Date32) if part == "epoch" => {
                let days = times.to_array(rows)?;
                let days = days.as_primitive::<Date32Type>();
                Arc::new(days.unary::<_, Float64Type>(|own| f64::from(own) * DAY_S))
            }
            (None, DataType::Interval(_)) if matches!(&*part, "quarter" | "qtr") => {
                let months = self.part("month", &arguments, DataType::Int32)?.to_array(rows)?;
                let months = months.as_primitive::<Int32Type>();
                Arc::new(months.unary::<_, Float64Type>(|own| f64::from(own / 3 + 1)))
            }
            _ => match years_of(&part, &given) {
                Some(of_year) => {
                    let years = self.part("year", &arguments, DataType::Int32)?.to_array(rows)?;
                    let years = years.as_primitive::<Int32Type>();
                    Arc::new(years.unary::<_, Float64Type>(|own| f64::from(of_year(own))))
                }
                None => {
                    cast(&self.part(&part, &arguments, DataType::Int32)?.to_array(rows)?, &DataType::Float64)?
                }
            },
        };
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&floats, 0)?),
            false => ColumnarValue::Array(floats),
        })
    }

    fn preimage(&self, arguments: &[Expr], literal: &Expr, info: &SimplifyContext) -> Result<PreimageResult> {
        // Of a year it is a range of times, which the store can judge.
        match literal.as_literal() {
            Some(ScalarValue::Float64(Some(year))) if year.fract() == 0.0 && year.abs() < 1e6 => {
                self.inner.inner().preimage(arguments, &lit(*year as i32), info)
            }
            _ => Ok(PreimageResult::None),
        }
    }
}

/// A part that is one of years.
fn years_of(part: &str, given: &DataType) -> Option<fn(i32) -> i32> {
    let is_span = matches!(given, DataType::Interval(_));
    Some(match (part, is_span) {
        ("decade" | "decades", true) => |own| own / 10,
        ("century" | "centuries", true) => |own| own / 100,
        ("millennium" | "millennia", true) => |own| own / 1_000,
        ("decade" | "decades", false) => |own| own.div_euclid(10),
        // There is none with the number 0.
        ("century" | "centuries", false) => |own| if own > 0 { (own + 99) / 100 } else { own / 100 - 1 },
        ("millennium" | "millennia", false) => {
            |own| if own > 0 { (own + 999) / 1_000 } else { own / 1_000 - 1 }
        }
        _ => return None,
    })
}

/// Times between others as intervals, whose hours are days where there are enough of them.
pub(super) fn span_between(durations: &ArrayRef) -> Result<ArrayRef> {
    let durations = cast(durations, &DataType::Duration(TimeUnit::Nanosecond))?;
    let durations = durations.as_primitive::<DurationNanosecondType>();
    // There are at most 106,751 days.
    let spans = durations.unary::<_, IntervalMonthDayNanoType>(|own| {
        IntervalMonthDayNano::new(0, (own / DAY_NS) as i32, own % DAY_NS)
    });
    Ok(Arc::new(spans))
}

/// The same in microseconds.
fn us_of(span: IntervalMonthDayNano) -> i128 {
    let quarter_days = i64::from(span.months / 12) * 1_461 + i64::from(span.months % 12) * 120;
    let quarter_days = quarter_days + i64::from(span.days) * 4;
    i128::from(quarter_days) * i128::from(DAY_NS / 4_000) + i128::from(span.nanoseconds / 1_000)
}

/// The seconds of an interval: years of 365 days and a quarter, months of 30 days.
fn seconds_of(span: IntervalMonthDayNano) -> f64 {
    let days = f64::from(span.months / 12) * 365.25 + f64::from(span.months % 12) * 30.0;
    (days + f64::from(span.days)) * 86_400.0 + span.nanoseconds as f64 / 1e9
}
