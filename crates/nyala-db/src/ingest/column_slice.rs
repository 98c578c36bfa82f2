//! Values of a field that come as a column.

use super::column::{FieldKind, FieldValues};

/// Values of a field, one for each row in which the field is present.
#[derive(Debug, Clone, Copy)]
pub struct FieldSlice<'a> {
    /// The name of the field, unescaped.
    pub name: &'a [u8],
    /// The values.
    pub values: ValueSlice<'a>,
    /// Which rows have the field; `None`: all.
    pub present: Option<&'a [bool]>,
}

/// Values of one type.
#[derive(Debug, Clone, Copy)]
pub enum ValueSlice<'a> {
    /// Floats, all of them finite.
    Float(&'a [f64]),
    /// Signed integers.
    Integer(&'a [i64]),
    /// Unsigned integers.
    Unsigned(&'a [u64]),
    /// Booleans.
    Boolean(&'a [bool]),
    /// Strings: where each ends, counted from the start of the bytes of a larger text, the text, and where the first
    /// begins.
    String(&'a [u32], &'a [u8], usize),
}

impl ValueSlice<'_> {
    pub(super) fn kind(&self) -> FieldKind {
        match self {
            Self::Float(_) => FieldKind::Float,
            Self::Integer(_) => FieldKind::Integer,
            Self::Unsigned(_) => FieldKind::Unsigned,
            Self::Boolean(_) => FieldKind::Boolean,
            Self::String(..) => FieldKind::String,
        }
    }

    /// Some of the values.
    pub(super) fn part(self, start: usize, length: usize) -> Self {
        let range = start..start + length;
        match self {
            Self::Float(values) => Self::Float(&values[range]),
            Self::Integer(values) => Self::Integer(&values[range]),
            Self::Unsigned(values) => Self::Unsigned(&values[range]),
            Self::Boolean(values) => Self::Boolean(&values[range]),
            Self::String(ends, text, first) => {
                let begin = if start == 0 { first } else { ends[start - 1] as usize };
                Self::String(&ends[range], text, begin)
            }
        }
    }
}

impl FieldValues {
    /// Appends values of the same type.
    pub(super) fn append(&mut self, more: ValueSlice<'_>) {
        match (self, more) {
            (Self::Float(values), ValueSlice::Float(more)) => values.extend_from_slice(more),
            (Self::Integer(values), ValueSlice::Integer(more)) => values.extend_from_slice(more),
            (Self::Unsigned(values), ValueSlice::Unsigned(more)) => values.extend_from_slice(more),
            (Self::Boolean(values), ValueSlice::Boolean(more)) => {
                more.iter().for_each(|value| values.push(*value));
            }
            (Self::String(values), ValueSlice::String(ends, text, first)) => {
                let mut start = first;
                for end in ends {
                    values.bytes.extend_from_slice(&text[start..*end as usize]);
                    values.end_string();
                    start = *end as usize;
                }
            }
            (values, more) => panic!("values of {:?} for a column of {:?}", more.kind(), values.kind()),
        }
    }
}
