//! `first(value, time)` and `last(value, time)`: the earliest or latest value of a group. NULLs are no values. Of several
//! values at one time the largest is taken, as the store does.

use crate::error::{SqlError, SqlState};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::arrow::compute::cast;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Signature, Volatility};
use std::cmp::Ordering;
use std::sync::Arc;

/// One of the two functions.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct FirstLast {
    signature: Signature,
    is_last: bool,
}

impl FirstLast {
    pub(super) fn first() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable), is_last: false }
    }

    pub(super) fn last() -> Self {
        Self { is_last: true, ..Self::first() }
    }
}

impl AggregateUDFImpl for FirstLast {
    fn name(&self) -> &str {
        if self.is_last { "last" } else { "first" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        match given {
            [value, time @ DataType::Timestamp(..)] => Ok(vec![value.clone(), time.clone()]),
            [value, time] if time.is_integer() => Ok(vec![value.clone(), DataType::Int64]),
            _ => {
                let words = format!("{} takes a value and its time", self.name());
                Err(SqlError::new(SqlState::UNKNOWN_FUNCTION, words).into())
            }
        }
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        Ok(given[0].clone())
    }

    fn state_fields(&self, of: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let value = of.return_field.data_type().clone();
        Ok(vec![
            Arc::new(Field::new(format!("{}[value]", of.name), value, true)),
            Arc::new(Field::new(format!("{}[time]", of.name), DataType::Int64, true)),
        ])
    }

    fn accumulator(&self, of: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let value = ScalarValue::try_from(of.return_field.data_type())?;
        Ok(Box::new(Selected { value, time: None, is_last: self.is_last }))
    }
}

/// The value that is selected so far.
#[derive(Debug)]
struct Selected {
    value: ScalarValue,
    /// `None` if there was no value.
    time: Option<i64>,
    is_last: bool,
}

impl Selected {
    fn consider(&mut self, values: &ArrayRef, times: &ArrayRef) -> Result<()> {
        let times = cast(times, &DataType::Int64)?;
        let times = times.as_primitive::<Int64Type>();
        for row in (0..values.len()).filter(|row| values.is_valid(*row) && times.is_valid(*row)) {
            let time = times.value(row);
            let by_time = self.time.map_or(Ordering::Greater, |selected| match self.is_last {
                true => time.cmp(&selected),
                false => selected.cmp(&time),
            });
            if by_time.is_lt() {
                continue;
            }
            let value = ScalarValue::try_from_array(values, row)?;
            if by_time.is_gt() || value.partial_cmp(&self.value) == Some(Ordering::Greater) {
                (self.time, self.value) = (Some(time), value);
            }
        }
        Ok(())
    }
}

impl Accumulator for Selected {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        self.consider(&columns[0], &columns[1])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.consider(&states[0], &states[1])
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value.clone(), ScalarValue::Int64(self.time)])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.value.size() - size_of::<ScalarValue>()
    }
}
