//! `avg(…)` of whole numbers and decimals, which is `numeric` as in PostgreSQL, with at least 16 digits behind the point. DataFusion's
//! would make floats of whole numbers, and cut decimals off four digits behind their own; all other numbers it gives as they are.

use super::converted::{Converted, WIDE, is_whole, retyped};
use super::interval_sum::{self, IntervalSum, SPAN};
use super::moving_sum::MovingSum;
use crate::arithmetic::decimals::QUOTIENT_SCALE;
use crate::error::{SqlError, SqlState};
use crate::type_name;
use arrow_array::ArrayRef;
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType, FieldRef};
use datafusion::arrow::compute::cast;
use datafusion::error::Result;
use datafusion::functions_aggregate::average::Avg;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature, Volatility,
};

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Average {
    inner: Avg,
    signature: Signature,
}

impl Default for Average {
    fn default() -> Self {
        Self { inner: Avg::default(), signature: Signature::user_defined(Volatility::Immutable) }
    }
}

/// What DataFusion's function is given instead: its sums have 76 digits then, so that no average is lost because its sum is too
/// large. `None`: what it is given anyway.
fn wide(given: &DataType) -> Option<DataType> {
    match given {
        DataType::Decimal128(_, scale) => Some(DataType::Decimal128(DECIMAL128_MAX_PRECISION, *scale)),
        own if is_whole(own) => Some(WIDE),
        _ => None,
    }
}

/// DataFusion cuts digits off, so that it computes one more, and that is rounded.
fn with_digit(shown: &DataType) -> DataType {
    match shown {
        DataType::Decimal128(precision, scale) => DataType::Decimal128(*precision, scale + 1),
        other => other.clone(),
    }
}

fn rounded(averages: &ArrayRef, shown: &DataType) -> Result<ArrayRef> {
    Ok(cast(averages, shown)?)
}

impl AggregateUDFImpl for Average {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let [given] = given else {
            return Err(SqlError::new(SqlState::UNKNOWN_FUNCTION, "avg takes one argument").into());
        };
        Ok(vec![match given {
            DataType::Int8 | DataType::Int16 | DataType::UInt8 | DataType::UInt16 => DataType::Int32,
            DataType::UInt32 => DataType::Int64,
            DataType::Float16 | DataType::Float32 | DataType::Null => DataType::Float64,
            DataType::Int32
            | DataType::Int64
            | DataType::UInt64
            | DataType::Float64
            | DataType::Decimal128(..)
            | DataType::Duration(_) => given.clone(),
            DataType::Interval(_) => SPAN,
            other => {
                let words = format!("function avg({}) does not exist", type_name::of(other));
                let hint = "No function matches the given name and argument types. You might need to add explicit type casts.";
                return Err(SqlError::new(SqlState::UNKNOWN_FUNCTION, words).with_hint(hint).into());
            }
        }])
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        match wide(&given[0]) {
            Some(DataType::Decimal128(precision, scale)) => {
                Ok(DataType::Decimal128(precision, scale.max(QUOTIENT_SCALE)))
            }
            _ if given[0] == SPAN => Ok(SPAN),
            _ => self.inner.return_type(given),
        }
    }

    fn state_fields(&self, of: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if *of.input_fields[0].data_type() == SPAN {
            return Ok(interval_sum::state_fields(&of));
        }
        let Some(wide) = wide(of.input_fields[0].data_type()) else { return self.inner.state_fields(of) };
        let input_fields = &[retyped(&of.input_fields[0], wide)];
        self.inner.state_fields(StateFieldsArgs { input_fields, ..of })
    }

    fn accumulator(&self, of: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if *of.return_type() == SPAN {
            return IntervalSum::of(true, of.is_distinct);
        }
        let Some(wide) = wide(of.expr_fields[0].data_type()) else { return self.inner.accumulator(of) };
        let data_type = of.return_type().clone();
        let return_field = retyped(&of.return_field, with_digit(&data_type));
        let expr_fields = &[retyped(&of.expr_fields[0], wide)];
        let inner = self.inner.accumulator(AccumulatorArgs { return_field, expr_fields, ..of })?;
        Ok(Box::new(Converted { inner, shown: rounded, data_type }))
    }

    fn groups_accumulator_supported(&self, of: AccumulatorArgs) -> bool {
        *of.return_type() != SPAN && self.inner.groups_accumulator_supported(of)
    }

    fn create_groups_accumulator(&self, of: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let Some(wide) = wide(of.expr_fields[0].data_type()) else {
            return self.inner.create_groups_accumulator(of);
        };
        let data_type = of.return_type().clone();
        let return_field = retyped(&of.return_field, with_digit(&data_type));
        let expr_fields = &[retyped(&of.expr_fields[0], wide)];
        let inner =
            self.inner.create_groups_accumulator(AccumulatorArgs { return_field, expr_fields, ..of })?;
        Ok(Box::new(Converted { inner, shown: rounded, data_type }))
    }

    fn create_sliding_accumulator(&self, of: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match of.expr_fields[0].data_type() {
            DataType::Float64 if !of.is_distinct => Ok(MovingSum::of(true, DataType::Float64)),
            _ => self.accumulator(of),
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.inner.reverse_expr()
    }
}
