//! `fill(…)` for values that are missing in a row.
//!
//! `fill(…)` is meant for windows without rows, but InfluxDB also applies it to single missing values of existing rows:
//! beside selectors, between several functions, in stored rows. Windows without rows are filled in `fill_windows`.

use super::row_batch::to_unsigned;
use crate::influxql::to_integer;
use crate::plan::Fill;
use nyala_exec::{Column, Scalar};

/// Fills the inputs of a result series, frame by frame.
#[derive(Default)]
pub struct Filler {
    /// The previous value of each input, for [`Fill::Previous`].
    previous: Vec<Option<Scalar>>,
}

impl Filler {
    /// The input columns with missing values filled. Texts and booleans stay missing: see [`placeholder`]. The first `calls`
    /// inputs are calls; a call of a name that is no field stays NULL.
    pub fn fill(&mut self, fill: Fill, inputs: &[Column], calls: usize) -> Vec<Column> {
        self.previous.resize(inputs.len(), None);
        let pairs = inputs.iter().zip(&mut self.previous);
        match fill {
            Fill::Integer(_) | Fill::Number(_) => inputs
                .iter()
                .enumerate()
                .map(|(position, input)| match input {
                    Column::Null(_) if position < calls => input.clone(),
                    _ => with_number(fill, input),
                })
                .collect(),
            Fill::Previous => pairs.map(|(input, previous)| with_previous(input, previous)).collect(),
            Fill::Null | Fill::None | Fill::Linear => inputs.to_vec(),
        }
    }
}

/// The number that is shown for missing texts and booleans, whose columns cannot hold it.
pub fn placeholder(fill: Fill) -> Option<Scalar> {
    match fill {
        Fill::Integer(value) => Some(Scalar::Integer(value)),
        Fill::Number(value) => Some(Scalar::Float(value)),
        _ => None,
    }
}

/// A column of numbers with missing values replaced by the number of `fill`.
pub fn with_number(fill: Fill, input: &Column) -> Column {
    let (as_float, as_integer, as_unsigned) = match fill {
        Fill::Integer(value) => (value as f64, value, value as u64),
        Fill::Number(value) => (value, to_integer(value), to_unsigned(value)),
        _ => return input.clone(),
    };
    if input.nulls().is_none() {
        return input.clone();
    }
    match (input, fill) {
        (Column::Float(array), _) => {
            Column::Float(array.iter().map(|value| Some(value.unwrap_or(as_float))).collect())
        }
        (Column::Integer(array), _) => {
            Column::Integer(array.iter().map(|value| Some(value.unwrap_or(as_integer))).collect())
        }
        (Column::Unsigned(array), _) => {
            Column::Unsigned(array.iter().map(|value| Some(value.unwrap_or(as_unsigned))).collect())
        }
        (Column::Null(rows), Fill::Integer(value)) => Column::Integer(vec![value; *rows].into()),
        (Column::Null(rows), _) => Column::Float(vec![as_float; *rows].into()),
        (Column::String(_) | Column::Boolean(_) | Column::Tag(_) | Column::Texts(_), _) => input.clone(),
    }
}

fn with_previous(input: &Column, previous: &mut Option<Scalar>) -> Column {
    if input.is_empty() || (input.nulls().is_none_or(|nulls| nulls.null_count() == 0)) {
        if let Some(last) = input.len().checked_sub(1) {
            *previous = input.scalar(last);
        }
        return input.clone();
    }
    let mut values = Vec::with_capacity(input.len());
    for row in 0..input.len() {
        if let Some(value) = input.scalar(row) {
            *previous = Some(value);
        }
        values.push(previous.clone());
    }
    Column::from_scalars(&values)
}
