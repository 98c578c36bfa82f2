//! `sum(…)` and `avg(…)` of intervals, whose sum is divided as PostgreSQL divides an interval.

use crate::error::{SqlError, SqlState};
use crate::interval_factor::part;
use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType};
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType, Field, FieldRef, IntervalUnit};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator;
use datafusion::logical_expr::function::StateFieldsArgs;
use std::sync::Arc;

pub(super) const SPAN: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const SUM: DataType = DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0);

/// Months, days, nanoseconds, and how many intervals they are of.
pub(super) fn state_fields(of: &StateFieldsArgs) -> Vec<FieldRef> {
    let field = |part: &str, data_type| Arc::new(Field::new(format!("{}[{part}]", of.name), data_type, true));
    vec![field("months", SUM), field("days", SUM), field("time", SUM), field("count", DataType::Int64)]
}

/// Intervals that were added.
#[derive(Debug, Default)]
pub(super) struct IntervalSum {
    is_average: bool,
    months: i128,
    days: i128,
    ns: i128,
    count: i64,
}

impl IntervalSum {
    /// The accumulator of a function.
    pub(super) fn of(is_average: bool, is_distinct: bool) -> Result<Box<dyn Accumulator>> {
        match is_distinct {
            true => Err(SqlError::unsupported("a sum or average of DISTINCT intervals").into()),
            false => Ok(Box::new(Self { is_average, ..Self::default() })),
        }
    }

    fn add(&mut self, values: &ArrayRef, sign: i64) {
        let times = i128::from(sign);
        for own in values.as_primitive::<IntervalMonthDayNanoType>().iter().flatten() {
            self.months += times * i128::from(own.months);
            self.days += times * i128::from(own.days);
            self.ns += times * i128::from(own.nanoseconds);
            self.count += sign;
        }
    }
}

fn out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_OUT_OF_RANGE, "interval out of range")
}

impl Accumulator for IntervalSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&values[0], 1);
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&values[0], -1);
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let sum =
            |place: usize| -> i128 { states[place].as_primitive::<Decimal128Type>().iter().flatten().sum() };
        self.months += sum(0);
        self.days += sum(1);
        self.ns += sum(2);
        self.count += states[3].as_primitive::<Int64Type>().iter().flatten().sum::<i64>();
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let sum = |own| ScalarValue::Decimal128(Some(own), DECIMAL128_MAX_PRECISION, 0);
        let count = ScalarValue::Int64(Some(self.count));
        Ok(vec![sum(self.months), sum(self.days), sum(self.ns), count])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.count <= 0 {
            return Ok(ScalarValue::IntervalMonthDayNano(None));
        }
        let parts = (self.months.try_into(), self.days.try_into(), self.ns.try_into());
        let (Ok(months), Ok(days), Ok(ns)) = parts else { return Err(out_of_range().into()) };
        let sum = IntervalMonthDayNano::new(months, days, ns);
        let shown = match self.is_average {
            true => part(sum, self.count as f64).ok_or_else(out_of_range)?,
            false => sum,
        };
        Ok(ScalarValue::IntervalMonthDayNano(Some(shown)))
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }
}
