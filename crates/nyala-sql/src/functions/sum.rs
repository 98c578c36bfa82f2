//! `sum(…)` of whole numbers, with PostgreSQL's types: that of `integer` is a `bigint`, and fails where that cannot hold it; that
//! of `bigint` is `numeric`, that of `real` a `real`. DataFusion's sum would wrap around, so that it is given numbers of 128 bits; everything else it adds
//! as it is.

use super::converted::{Converted, WIDE, is_whole, retyped};
use super::interval_sum::{self, IntervalSum, SPAN};
use super::moving_sum::MovingSum;
use crate::arithmetic::out_of_range;
use crate::error::{SqlError, SqlState};
use crate::type_name;
use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int64Type};
use arrow_schema::{DataType, FieldRef};
use datafusion::arrow::compute::cast;
use datafusion::error::Result;
use datafusion::functions_aggregate::sum::Sum;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, SetMonotonicity, Signature, Volatility,
};
use std::sync::Arc;

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct CheckedSum {
    inner: Sum,
    signature: Signature,
}

impl Default for CheckedSum {
    fn default() -> Self {
        Self { inner: Sum::default(), signature: Signature::user_defined(Volatility::Immutable) }
    }
}

/// What numbers are added as, if it is not what they are.
fn wide(given: &DataType) -> Option<DataType> {
    match given {
        DataType::Float32 => Some(DataType::Float64),
        own => is_whole(own).then_some(WIDE),
    }
}

impl AggregateUDFImpl for CheckedSum {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let [given] = given else {
            return Err(SqlError::new(SqlState::UNKNOWN_FUNCTION, "sum takes one argument").into());
        };
        Ok(vec![match given {
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::UInt8 | DataType::UInt16 => {
                DataType::Int32
            }
            DataType::Int64 | DataType::UInt32 | DataType::Null => DataType::Int64,
            DataType::UInt64 | DataType::Interval(_) | DataType::Duration(_) | DataType::Float32 => {
                given.clone()
            }
            DataType::Float16 | DataType::Float64 => DataType::Float64,
            own if own.is_decimal() => own.clone(),
            other => {
                let words = format!("function sum({}) does not exist", type_name::of(other));
                let hint = "No function matches the given name and argument types. You might need to add explicit type casts.";
                return Err(SqlError::new(SqlState::UNKNOWN_FUNCTION, words).with_hint(hint).into());
            }
        }])
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        match &given[0] {
            DataType::Int32 => Ok(DataType::Int64),
            DataType::Int64 | DataType::UInt64 => Ok(WIDE),
            DataType::Float32 => Ok(DataType::Float32),
            DataType::Interval(_) => Ok(SPAN),
            _ => self.inner.return_type(given),
        }
    }

    fn state_fields(&self, of: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if *of.input_fields[0].data_type() == SPAN {
            return Ok(interval_sum::state_fields(&of));
        }
        let Some(wide) = wide(of.input_fields[0].data_type()) else { return self.inner.state_fields(of) };
        let return_field = retyped(&of.return_field, wide);
        self.inner.state_fields(StateFieldsArgs { return_field, ..of })
    }

    fn accumulator(&self, of: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if *of.return_type() == SPAN {
            return IntervalSum::of(false, of.is_distinct);
        }
        let Some(wide) = wide(of.expr_fields[0].data_type()) else { return self.inner.accumulator(of) };
        let data_type = of.return_type().clone();
        let return_field = retyped(&of.return_field, wide);
        let inner = self.inner.accumulator(AccumulatorArgs { return_field, ..of })?;
        Ok(Box::new(Converted { inner, shown: narrowed, data_type }))
    }

    fn groups_accumulator_supported(&self, of: AccumulatorArgs) -> bool {
        *of.return_type() != SPAN && self.inner.groups_accumulator_supported(of)
    }

    fn create_groups_accumulator(&self, of: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let Some(wide) = wide(of.expr_fields[0].data_type()) else {
            return self.inner.create_groups_accumulator(of);
        };
        let data_type = of.return_type().clone();
        let return_field = retyped(&of.return_field, wide);
        let inner = self.inner.create_groups_accumulator(AccumulatorArgs { return_field, ..of })?;
        Ok(Box::new(Converted { inner, shown: narrowed, data_type }))
    }

    fn create_sliding_accumulator(&self, of: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if of.is_distinct {
            return Err(SqlError::unsupported("DISTINCT of a window function").into());
        }
        if *of.return_type() == SPAN {
            return IntervalSum::of(false, false);
        }
        if of.expr_fields[0].data_type().is_floating() {
            return Ok(MovingSum::of(false, of.return_type().clone()));
        }
        let Some(wide) = wide(of.expr_fields[0].data_type()) else {
            return self.inner.create_sliding_accumulator(of);
        };
        let data_type = of.return_type().clone();
        let return_field = retyped(&of.return_field, wide);
        let inner = self.inner.create_sliding_accumulator(AccumulatorArgs { return_field, ..of })?;
        Ok(Box::new(Converted { inner, shown: narrowed, data_type }))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.inner.reverse_expr()
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.inner.set_monotonicity(data_type)
    }
}

/// Sums in the type that users see.
fn narrowed(sums: &ArrayRef, shown: &DataType) -> Result<ArrayRef> {
    match shown {
        DataType::Float32 => return Ok(cast(sums, shown)?),
        shown if *shown == WIDE => return Ok(sums.clone()),
        _ => {}
    }
    let sums = sums.as_primitive::<Decimal128Type>();
    let narrow = |sum| i64::try_from(sum).map_err(|_| out_of_range(shown));
    Ok(Arc::new(sums.try_unary::<_, Int64Type, _>(narrow)?))
}
