//! How long intervals are, where they are compared: a month has 30 days then, and a day 24 hours, as in PostgreSQL.

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, IntervalMonthDayNanoType};
use arrow_schema::{DataType, IntervalUnit};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, cast,
};
use std::sync::Arc;

const NAME: &str = "interval::length";
const SPAN: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
/// ns. Months are 31 bits of 52 more.
const LENGTH: DataType = DataType::Decimal128(38, 0);
const DAY_NS: i128 = 86_400_000_000_000;
const DAYS_OF_MONTH: i128 = 30;

/// The length of an interval.
pub(crate) fn of(interval: Expr) -> Expr {
    let signature = Signature::exact(vec![SPAN], Volatility::Immutable);
    ScalarUDF::from(Length { signature }).call(vec![cast(interval, SPAN)])
}

/// Whether an expression is such a length.
pub(crate) fn is_length(expression: &Expr) -> bool {
    matches!(expression, Expr::ScalarFunction(call) if call.func.name() == NAME)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Length {
    signature: Signature,
}

impl ScalarUDFImpl for Length {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(LENGTH)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let intervals = arguments.args[0].to_array(arguments.number_rows)?;
        let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
        let lengths = intervals.unary::<_, Decimal128Type>(|own| {
            let days = i128::from(own.months) * DAYS_OF_MONTH + i128::from(own.days);
            days * DAY_NS + i128::from(own.nanoseconds)
        });
        Ok(ColumnarValue::Array(Arc::new(lengths.with_data_type(LENGTH))))
    }
}
