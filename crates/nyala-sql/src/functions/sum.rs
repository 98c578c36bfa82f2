//! `sum(…)` of whole numbers, with PostgreSQL's types: that of `integer` is a `bigint`, and fails where that cannot hold it; that
//! of `bigint` is `numeric`. DataFusion's sum would wrap around, so that it is given numbers of 128 bits; everything else it adds
//! as it is.

use crate::error::{SqlError, SqlState};
use crate::integers::out_of_range;
use crate::type_name;
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int32Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions_aggregate::sum::Sum;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, SetMonotonicity, Signature,
    Volatility,
};
use std::sync::Arc;

/// Holds more than 2^63 numbers of 64 bits.
const WIDE: DataType = DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0);

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

/// Whether numbers of a type are added here.
fn is_whole(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Int32 | DataType::Int64 | DataType::UInt64)
}

fn wide_field(of: &FieldRef) -> FieldRef {
    Arc::new(Field::new(of.name(), WIDE, true))
}

/// Whole numbers, in 128 bits.
fn widened(values: &ArrayRef) -> ArrayRef {
    let wide = match values.data_type() {
        DataType::UInt64 => values.as_primitive::<UInt64Type>().unary::<_, Decimal128Type>(i128::from),
        DataType::Int32 => values.as_primitive::<Int32Type>().unary::<_, Decimal128Type>(i128::from),
        _ => values.as_primitive::<Int64Type>().unary::<_, Decimal128Type>(i128::from),
    };
    Arc::new(wide.with_data_type(WIDE))
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
            DataType::UInt64 | DataType::Interval(_) | DataType::Duration(_) => given.clone(),
            DataType::Float16 | DataType::Float32 | DataType::Float64 => DataType::Float64,
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
            _ => self.inner.return_type(given),
        }
    }

    fn state_fields(&self, of: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        match is_whole(of.input_fields[0].data_type()) {
            true => {
                let return_field = wide_field(&of.return_field);
                self.inner.state_fields(StateFieldsArgs { return_field, ..of })
            }
            false => self.inner.state_fields(of),
        }
    }

    fn accumulator(&self, of: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if !is_whole(of.expr_fields[0].data_type()) {
            return self.inner.accumulator(of);
        }
        let shown = of.return_type().clone();
        let return_field = wide_field(&of.return_field);
        let inner = self.inner.accumulator(AccumulatorArgs { return_field, ..of })?;
        Ok(Box::new(OfWhole { inner, shown }))
    }

    fn groups_accumulator_supported(&self, of: AccumulatorArgs) -> bool {
        self.inner.groups_accumulator_supported(of)
    }

    fn create_groups_accumulator(&self, of: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        if !is_whole(of.expr_fields[0].data_type()) {
            return self.inner.create_groups_accumulator(of);
        }
        let shown = of.return_type().clone();
        let return_field = wide_field(&of.return_field);
        let inner = self.inner.create_groups_accumulator(AccumulatorArgs { return_field, ..of })?;
        Ok(Box::new(OfWholeGroups { inner, shown }))
    }

    fn create_sliding_accumulator(&self, of: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if of.is_distinct {
            return Err(SqlError::unsupported("DISTINCT of a window function").into());
        }
        if !is_whole(of.expr_fields[0].data_type()) {
            return self.inner.create_sliding_accumulator(of);
        }
        let shown = of.return_type().clone();
        let return_field = wide_field(&of.return_field);
        let inner = self.inner.create_sliding_accumulator(AccumulatorArgs { return_field, ..of })?;
        Ok(Box::new(OfWhole { inner, shown }))
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

/// A sum of whole numbers.
#[derive(Debug)]
struct OfWhole {
    inner: Box<dyn Accumulator>,
    shown: DataType,
}

impl Accumulator for OfWhole {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(&[widened(&values[0])])
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.retract_batch(&[widened(&values[0])])
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sum = self.inner.evaluate()?.to_array()?;
        ScalarValue::try_from_array(&narrowed(&sum, &self.shown)?, 0)
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.inner.size()
    }
}

/// A sum of whole numbers for each group.
struct OfWholeGroups {
    inner: Box<dyn GroupsAccumulator>,
    shown: DataType,
}

impl GroupsAccumulator for OfWholeGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        groups_count: usize,
    ) -> Result<()> {
        self.inner.update_batch(&[widened(&values[0])], groups, filter, groups_count)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], groups_count: usize) -> Result<()> {
        self.inner.merge_batch(states, groups, groups_count)
    }

    fn state(&mut self, emitted: EmitTo) -> Result<Vec<ArrayRef>> {
        self.inner.state(emitted)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.inner.convert_to_state(&[widened(&values[0])], filter)
    }

    fn evaluate(&mut self, emitted: EmitTo) -> Result<ArrayRef> {
        narrowed(&self.inner.evaluate(emitted)?, &self.shown)
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.inner.size()
    }
}

/// Sums in the type that users see.
fn narrowed(sums: &ArrayRef, shown: &DataType) -> Result<ArrayRef> {
    if *shown == WIDE {
        return Ok(sums.clone());
    }
    let sums = sums.as_primitive::<Decimal128Type>();
    let narrow = |sum| i64::try_from(sum).map_err(|_| out_of_range(shown));
    Ok(Arc::new(sums.try_unary::<_, Int64Type, _>(narrow)?))
}
