//! An accumulator of DataFusion that is given values of another type than users give, and whose results get the type that users
//! see.

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type, UInt64Type};
use arrow_array::{ArrayRef, BooleanArray};
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};
use std::sync::Arc;

/// Holds more than 2^63 numbers of 64 bits.
pub(super) const WIDE: DataType = DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0);

/// Whether numbers of a type are given as decimals to sums and averages. Shorter ones become these before.
pub(super) fn is_whole(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Int32 | DataType::Int64 | DataType::UInt64)
}

/// Numbers with all digits that a decimal, or a float, may have.
pub(super) fn widened(values: &ArrayRef) -> ArrayRef {
    let wide = match values.data_type() {
        DataType::Float32 => {
            return Arc::new(values.as_primitive::<Float32Type>().unary::<_, Float64Type>(f64::from));
        }
        DataType::Decimal128(_, scale) => {
            let wide = DataType::Decimal128(DECIMAL128_MAX_PRECISION, *scale);
            return Arc::new(values.as_primitive::<Decimal128Type>().clone().with_data_type(wide));
        }
        DataType::UInt64 => values.as_primitive::<UInt64Type>().unary::<_, Decimal128Type>(i128::from),
        DataType::Int32 => values.as_primitive::<Int32Type>().unary::<_, Decimal128Type>(i128::from),
        _ => values.as_primitive::<Int64Type>().unary::<_, Decimal128Type>(i128::from),
    };
    Arc::new(wide.with_data_type(WIDE))
}

/// A field of another type.
pub(super) fn retyped(of: &FieldRef, data_type: DataType) -> FieldRef {
    Arc::new(Field::new(of.name(), data_type, true))
}

/// Results in the type that users see.
type Shown = fn(&ArrayRef, &DataType) -> Result<ArrayRef>;

/// An accumulator that is given [`widened`] numbers.
pub(super) struct Converted<Inner: ?Sized> {
    pub(super) inner: Box<Inner>,
    pub(super) shown: Shown,
    pub(super) data_type: DataType,
}

impl<Inner: ?Sized> std::fmt::Debug for Converted<Inner> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Converted({})", self.data_type)
    }
}

impl Accumulator for Converted<dyn Accumulator> {
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
        let result = self.inner.evaluate()?.to_array()?;
        ScalarValue::try_from_array(&(self.shown)(&result, &self.data_type)?, 0)
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.inner.size()
    }
}

impl GroupsAccumulator for Converted<dyn GroupsAccumulator> {
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
        (self.shown)(&self.inner.evaluate(emitted)?, &self.data_type)
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.inner.size()
    }
}
