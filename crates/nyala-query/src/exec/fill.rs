//! What stands in a row where a value is missing.
//!
//! `fill(…)` is about windows without rows, but InfluxDB also asks it for single values that are missing in rows that
//! are there: beside selectors, between several functions, among stored rows.

use super::rows::{to_integer, to_unsigned};
use crate::plan::Fill;
use nyala_exec::{Column, Scalar};

/// Fills the inputs of a result series, frame by frame.
#[derive(Default)]
pub struct Filler {
    /// Per input the value before, for [`Fill::Previous`].
    previous: Vec<Option<Scalar>>,
}

impl Filler {
    /// The input columns with what stands for missing values. Text and booleans stay: see [`shown_instead`]; of what
    /// is no field no call, the first `calls` of the inputs, makes a value.
    pub fn fill(&mut self, fill: Fill, inputs: &[Column], calls: usize) -> Vec<Column> {
        self.previous.resize(inputs.len(), None);
        let pairs = inputs.iter().zip(&mut self.previous);
        match fill {
            Fill::Integer(_) | Fill::Float(_) => inputs
                .iter()
                .enumerate()
                .map(|(place, input)| match input {
                    Column::Null(_) if place < calls => input.clone(),
                    _ => with_number(fill, input),
                })
                .collect(),
            Fill::Previous => pairs.map(|(input, previous)| with_previous(input, previous)).collect(),
            Fill::Null | Fill::None | Fill::Linear => inputs.to_vec(),
        }
    }
}

/// The number that is shown for missing text and booleans, which cannot hold it.
pub fn shown_instead(fill: Fill) -> Option<Scalar> {
    match fill {
        Fill::Integer(value) => Some(Scalar::Integer(value)),
        Fill::Float(value) => Some(Scalar::Float(value)),
        _ => None,
    }
}

/// The cells of a column of numbers, and a number where there is none.
pub fn with_number(fill: Fill, input: &Column) -> Column {
    let (as_float, as_integer, as_unsigned) = match fill {
        Fill::Integer(value) => (value as f64, value, value as u64),
        Fill::Float(value) => (value, to_integer(value), to_unsigned(value)),
        _ => return input.clone(),
    };
    if input.nulls().is_none() {
        return input.clone();
    }
    match (input, fill) {
        (Column::Float(array), _) => {
            Column::Float(array.iter().map(|cell| Some(cell.unwrap_or(as_float))).collect())
        }
        (Column::Integer(array), _) => {
            Column::Integer(array.iter().map(|cell| Some(cell.unwrap_or(as_integer))).collect())
        }
        (Column::Unsigned(array), _) => {
            Column::Unsigned(array.iter().map(|cell| Some(cell.unwrap_or(as_unsigned))).collect())
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
    let mut cells = Vec::with_capacity(input.len());
    for row in 0..input.len() {
        if let Some(value) = input.scalar(row) {
            *previous = Some(value);
        }
        cells.push(previous.clone());
    }
    Column::from_scalars(&cells)
}
