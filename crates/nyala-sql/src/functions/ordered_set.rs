//! `mode()` and `percentile_disc(…)` `WITHIN GROUP (ORDER BY …)`: one of the values of a group, of any type. All values of the
//! group are kept and sorted, as in PostgreSQL.

use crate::error::{SqlError, SqlState};
use arrow_array::{Array, ArrayRef, ListArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, FieldRef, SortOptions};
use datafusion::arrow::compute::{concat, filter, is_not_null, sort};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Signature, Volatility};
use datafusion::physical_expr::expressions::Literal;
use std::sync::Arc;

/// One of the two functions.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct OrderedSet {
    signature: Signature,
    is_mode: bool,
}

impl OrderedSet {
    pub(super) fn mode() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable), is_mode: true }
    }

    pub(super) fn percentile() -> Self {
        Self { is_mode: false, ..Self::mode() }
    }

    fn refused(&self) -> SqlError {
        let words = match self.is_mode {
            true => "WITHIN GROUP is required for ordered-set aggregate mode",
            false => "percentile_disc takes a fraction between 0 and 1, and WITHIN GROUP (ORDER BY …)",
        };
        SqlError::new(SqlState::WRONG_OBJECT, words)
    }
}

impl AggregateUDFImpl for OrderedSet {
    fn name(&self) -> &str {
        if self.is_mode { "mode" } else { "percentile_disc" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        // What is sorted comes first.
        match (given, self.is_mode) {
            ([value], true) => Ok(vec![value.clone()]),
            ([value, fraction], false) if fraction.is_numeric() => Ok(vec![value.clone(), DataType::Float64]),
            _ => Err(self.refused().into()),
        }
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        Ok(given[0].clone())
    }

    fn state_fields(&self, of: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let value = Field::new_list_field(of.input_fields[0].data_type().clone(), true);
        Ok(vec![Arc::new(Field::new(format!("{}[values]", of.name), DataType::List(Arc::new(value)), true))])
    }

    fn accumulator(&self, of: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let Some(order) = of.order_bys.first() else { return Err(self.refused().into()) };
        let fraction = match self.is_mode {
            true => None,
            false => {
                let constant = of.exprs.get(1).and_then(|own| own.downcast_ref::<Literal>());
                match constant.map(Literal::value) {
                    Some(ScalarValue::Float64(Some(own))) if (0.0..=1.0).contains(own) => Some(*own),
                    Some(ScalarValue::Float64(Some(own))) => {
                        let words = format!("percentile value {own} is not between 0 and 1");
                        return Err(SqlError::new(SqlState::OUT_OF_RANGE, words).into());
                    }
                    _ => {
                        let what = "percentile_disc with a fraction that is no constant";
                        return Err(SqlError::unsupported(what).into());
                    }
                }
            }
        };
        Ok(Box::new(Collected {
            data_type: of.expr_fields[0].data_type().clone(),
            is_descending: order.options.descending,
            fraction,
            parts: Vec::new(),
        }))
    }
}

/// The values of a group.
#[derive(Debug)]
struct Collected {
    data_type: DataType,
    is_descending: bool,
    /// Which of them is wanted; `None`: the most frequent.
    fraction: Option<f64>,
    /// Without NULLs.
    parts: Vec<ArrayRef>,
}

impl Collected {
    fn all(&self) -> Result<ArrayRef> {
        let parts: Vec<&dyn Array> = self.parts.iter().map(|own| &**own).collect();
        match parts.is_empty() {
            true => Ok(arrow_array::new_empty_array(&self.data_type)),
            false => Ok(concat(&parts)?),
        }
    }

    fn add(&mut self, values: &ArrayRef) -> Result<()> {
        let values = match values.null_count() {
            0 => values.clone(),
            _ => filter(values, &is_not_null(values)?)?,
        };
        if !values.is_empty() {
            self.parts.push(values);
        }
        Ok(())
    }
}

impl Accumulator for Collected {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        self.add(&columns[0])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let Some(lists) = states[0].as_any().downcast_ref::<ListArray>() else { return Ok(()) };
        lists.iter().flatten().try_for_each(|values| self.add(&values))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = self.all()?;
        let offsets = OffsetBuffer::from_lengths([values.len()]);
        let field = Arc::new(Field::new_list_field(self.data_type.clone(), true));
        Ok(vec![ScalarValue::List(Arc::new(ListArray::try_new(field, offsets, values, None)?))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let options = SortOptions { descending: self.is_descending, nulls_first: false };
        let sorted = sort(&self.all()?, Some(options))?;
        if sorted.is_empty() {
            return ScalarValue::try_from(&self.data_type);
        }
        let place = match self.fraction {
            Some(fraction) => ((fraction * sorted.len() as f64).ceil() as usize).saturating_sub(1),
            None => most_frequent(&sorted)?,
        };
        ScalarValue::try_from_array(&sorted, place)
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.parts.iter().map(|own| own.get_array_memory_size()).sum::<usize>()
    }
}

/// The place of the first of the most frequent values.
fn most_frequent(sorted: &ArrayRef) -> Result<usize> {
    let runs = datafusion::arrow::compute::partition(std::slice::from_ref(sorted))?.ranges();
    let mut best = 0..0;
    for run in runs {
        if run.len() > best.len() {
            best = run;
        }
    }
    Ok(best.start)
}
