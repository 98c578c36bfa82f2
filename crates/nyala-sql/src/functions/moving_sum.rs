//! `sum(…)` and `avg(…)` of floats over a frame that moves along the rows. What leaves the frame is not taken away from the sum,
//! which would keep the digits that it has cost: the frame is two stacks of partial sums, as in Tangwongsan et al., "General
//! Incremental Sliding-Window Aggregation" (2015), 4.1. Each row is added twice at most.

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_schema::DataType;
use datafusion::arrow::compute::cast;
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::Accumulator;

/// A sum of numbers, and how many they are.
#[derive(Debug, Default, Clone, Copy)]
struct Partial {
    sum: f64,
    count: u64,
}

impl Partial {
    fn plus(self, other: Self) -> Self {
        Self { sum: self.sum + other.sum, count: self.count + other.count }
    }
}

/// The numbers of a frame.
#[derive(Debug)]
pub(super) struct MovingSum {
    is_average: bool,
    data_type: DataType,
    /// For each of the older rows the sum of its number and those of the newer ones of these; the oldest row is the last.
    older: Vec<Partial>,
    /// The numbers of the newer rows, and their sum.
    newer: Vec<Partial>,
    newer_sum: Partial,
}

impl MovingSum {
    /// The accumulator of a function with results of a type of floats.
    pub(super) fn of(is_average: bool, data_type: DataType) -> Box<dyn Accumulator> {
        let (older, newer, newer_sum) = (Vec::new(), Vec::new(), Partial::default());
        Box::new(Self { is_average, data_type, older, newer, newer_sum })
    }

    /// Takes the oldest row out.
    fn pop(&mut self) {
        if self.older.is_empty() {
            let mut sum = Partial::default();
            for own in self.newer.drain(..).rev() {
                sum = own.plus(sum);
                self.older.push(sum);
            }
            self.newer_sum = Partial::default();
        }
        self.older.pop();
    }
}

impl Accumulator for MovingSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = cast(&values[0], &DataType::Float64)?;
        for own in values.as_primitive::<Float64Type>() {
            let own = own.map_or(Partial::default(), |sum| Partial { sum, count: 1 });
            self.newer.push(own);
            self.newer_sum = self.newer_sum.plus(own);
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        (0..values[0].len()).for_each(|_| self.pop());
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        Err(DataFusionError::Internal("a moving sum has no parts".to_owned()))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Err(DataFusionError::Internal("a moving sum has no parts".to_owned()))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let Partial { sum, count } = self.older.last().copied().unwrap_or_default().plus(self.newer_sum);
        let value = (count > 0).then_some(if self.is_average { sum / count as f64 } else { sum });
        Ok(match self.data_type {
            DataType::Float32 => ScalarValue::Float32(value.map(|own| own as f32)),
            _ => ScalarValue::Float64(value),
        })
    }

    fn size(&self) -> usize {
        size_of::<Self>() + (self.older.capacity() + self.newer.capacity()) * size_of::<Partial>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Float64Array;
    use std::sync::Arc;

    #[test]
    fn sums_are_those_of_the_frame_alone() {
        let rows =
            [Some(1e100), Some(0.1), None, Some(f64::NAN), Some(2.5), Some(-0.5), None, None, Some(7.0)];
        let array = |own: &[Option<f64>]| vec![Arc::new(Float64Array::from(own.to_vec())) as ArrayRef];
        for width in 1..=rows.len() {
            let mut sum = MovingSum::of(false, DataType::Float64);
            for end in 1..=rows.len() {
                sum.update_batch(&array(&rows[end - 1..end])).unwrap();
                if end > width {
                    sum.retract_batch(&array(&rows[end - width - 1..end - width])).unwrap();
                }
                let frame: Vec<f64> =
                    rows[end.saturating_sub(width)..end].iter().flatten().copied().collect();
                let ScalarValue::Float64(own) = sum.evaluate().unwrap() else { panic!("a float") };
                match own {
                    None => assert!(frame.is_empty()),
                    Some(own) => {
                        let expected: f64 = frame.iter().sum();
                        let is_near = (own - expected).abs() <= expected.abs() * 1e-15;
                        assert!(is_near || own.is_nan() && expected.is_nan(), "{frame:?}: {own} {expected}");
                    }
                }
            }
        }
    }
}
