//! Columns of values while a query runs: Arrow arrays by type.

use super::tag::TagColumn;
use crate::value_type::ValueType;
use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, ListArray, StringArray, UInt64Array,
};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

/// The most bytes of text in a column: Arrow counts them by signed numbers of 32 bits.
pub const TEXTS_MAX_BYTES: usize = i32::MAX as usize;

/// A column. Invalid rows are NULL.
#[derive(Debug, Clone)]
pub enum Column {
    /// Floats.
    Float(Float64Array),
    /// Integers.
    Integer(Int64Array),
    /// Unsigned integers.
    Unsigned(UInt64Array),
    /// Text: string fields and tags.
    String(StringArray),
    /// Booleans.
    Boolean(BooleanArray),
    /// Text by series: only in stored rows on their way to the answer.
    Tag(TagColumn),
    /// Lists of texts: only in answers of SHOW, never in stored rows.
    Texts(ListArray),
    /// That many NULLs, without a type.
    Null(usize),
}

/// Calls an expression with the array inside a column; the last arm is for columns of NULLs.
macro_rules! for_array {
    ($column:expr, $array:ident => $body:expr, $rows:ident => $null:expr) => {
        match $column {
            Column::Float($array) => $body,
            Column::Integer($array) => $body,
            Column::Unsigned($array) => $body,
            Column::String($array) => $body,
            Column::Boolean($array) => $body,
            Column::Tag($array) => $body,
            Column::Texts($array) => $body,
            Column::Null($rows) => $null,
        }
    };
}

/// A single value of a column, for the few places that hold one.
#[derive(Debug, Clone, PartialEq)]
pub enum Scalar {
    /// A float.
    Float(f64),
    /// An integer.
    Integer(i64),
    /// An unsigned integer.
    Unsigned(u64),
    /// Text.
    String(String),
    /// A boolean.
    Boolean(bool),
}

impl Column {
    /// The column in an array of the store; NULLs if no field has such a type.
    pub fn from_array(array: &ArrayRef) -> Self {
        match array.data_type() {
            DataType::Float64 => Column::Float(array.as_primitive::<Float64Type>().clone()),
            DataType::Int64 => Column::Integer(array.as_primitive::<Int64Type>().clone()),
            DataType::UInt64 => Column::Unsigned(array.as_primitive::<UInt64Type>().clone()),
            DataType::Utf8 => Column::String(array.as_string::<i32>().clone()),
            DataType::Boolean => Column::Boolean(array.as_boolean().clone()),
            _ => Column::Null(array.len()),
        }
    }

    /// The column; if it is all NULLs and has no type, with this type.
    #[must_use]
    pub fn typed(self, value_type: Option<ValueType>) -> Self {
        let (Column::Null(rows), Some(value_type)) = (&self, value_type) else { return self };
        match value_type {
            ValueType::Float => Column::Float(Float64Array::new_null(*rows)),
            ValueType::Integer => Column::Integer(Int64Array::new_null(*rows)),
            ValueType::Unsigned => Column::Unsigned(UInt64Array::new_null(*rows)),
            ValueType::String => Column::String(StringArray::new_null(*rows)),
            ValueType::Boolean => Column::Boolean(BooleanArray::new_null(*rows)),
        }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        for_array!(self, array => array.len(), rows => *rows)
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Which rows hold a value; `None`: all.
    pub fn nulls(&self) -> Option<NullBuffer> {
        match self {
            Column::Float(array) => array.nulls().cloned(),
            Column::Integer(array) => array.nulls().cloned(),
            Column::Unsigned(array) => array.nulls().cloned(),
            Column::String(array) => array.nulls().cloned(),
            Column::Boolean(array) => array.nulls().cloned(),
            Column::Tag(tags) => tags.nulls(),
            Column::Texts(lists) => lists.nulls().cloned(),
            Column::Null(rows) => Some(NullBuffer::new_null(*rows)),
        }
    }

    /// Whether a row holds a value.
    #[inline]
    pub fn is_valid(&self, row: usize) -> bool {
        for_array!(self, array => array.is_valid(row), _rows => false)
    }

    /// Rows `[start, start + length)` without a copy.
    #[must_use]
    pub fn slice(&self, start: usize, length: usize) -> Self {
        match self {
            Column::Float(array) => Column::Float(array.slice(start, length)),
            Column::Integer(array) => Column::Integer(array.slice(start, length)),
            Column::Unsigned(array) => Column::Unsigned(array.slice(start, length)),
            Column::String(array) => Column::String(array.slice(start, length)),
            Column::Boolean(array) => Column::Boolean(array.slice(start, length)),
            Column::Tag(tags) => Column::Tag(tags.slice(start, length)),
            Column::Texts(lists) => Column::Texts(lists.slice(start, length)),
            Column::Null(_) => Column::Null(length),
        }
    }

    /// The rows at these positions; `None` gives NULL.
    #[must_use]
    pub fn take(&self, positions: &[Option<u32>]) -> Self {
        macro_rules! gather {
            ($array:expr, $variant:ident, $collection:ty) => {
                Column::$variant(
                    positions
                        .iter()
                        .map(|position| {
                            let row = (*position)? as usize;
                            $array.is_valid(row).then(|| $array.value(row))
                        })
                        .collect::<$collection>(),
                )
            };
        }
        match self {
            Column::Float(array) => gather!(array, Float, Float64Array),
            Column::Integer(array) => gather!(array, Integer, Int64Array),
            Column::Unsigned(array) => gather!(array, Unsigned, UInt64Array),
            Column::String(array) => gather!(array, String, StringArray),
            Column::Boolean(array) => gather!(array, Boolean, BooleanArray),
            Column::Tag(tags) => Column::Tag(tags.take(positions.iter().copied())),
            Column::Texts(lists) => {
                let lists = positions.iter().map(|position| list((*position)? as usize, lists));
                Self::of_lists(lists)
            }
            Column::Null(_) => Column::Null(positions.len()),
        }
    }

    /// The rows at these positions.
    #[must_use]
    pub fn gather(&self, rows: &[u32]) -> Self {
        macro_rules! numbers {
            ($array:expr, $variant:ident) => {
                match $array.nulls() {
                    None => {
                        let values = $array.values();
                        let taken: Vec<_> = rows.iter().map(|row| values[*row as usize]).collect();
                        Column::$variant(taken.into())
                    }
                    Some(_) => self.take(&rows.iter().copied().map(Some).collect::<Vec<_>>()),
                }
            };
        }
        match self {
            Column::Float(array) => numbers!(array, Float),
            Column::Integer(array) => numbers!(array, Integer),
            Column::Unsigned(array) => numbers!(array, Unsigned),
            Column::Tag(tags) => Column::Tag(tags.take(rows.iter().copied().map(Some))),
            _ => self.take(&rows.iter().copied().map(Some).collect::<Vec<_>>()),
        }
    }

    /// The value of a row.
    pub fn scalar(&self, row: usize) -> Option<Scalar> {
        if !self.is_valid(row) {
            return None;
        }
        Some(match self {
            Column::Float(array) => Scalar::Float(array.value(row)),
            Column::Integer(array) => Scalar::Integer(array.value(row)),
            Column::Unsigned(array) => Scalar::Unsigned(array.value(row)),
            Column::String(array) => Scalar::String(array.value(row).to_owned()),
            Column::Boolean(array) => Scalar::Boolean(array.value(row)),
            Column::Tag(tags) => Scalar::String(tags.text(row)?.to_owned()),
            Column::Texts(_) | Column::Null(_) => return None,
        })
    }

    /// A column from single values. Its type is that of the first value; values of other types become NULL.
    pub fn from_scalars(values: &[Option<Scalar>]) -> Self {
        macro_rules! collect {
            ($variant:ident, $collection:ty) => {
                Column::$variant(
                    values
                        .iter()
                        .map(|value| match value {
                            Some(Scalar::$variant(value)) => Some(value.clone()),
                            _ => None,
                        })
                        .collect::<$collection>(),
                )
            };
        }
        match values.iter().flatten().next() {
            None => Column::Null(values.len()),
            Some(Scalar::Float(_)) => collect!(Float, Float64Array),
            Some(Scalar::Integer(_)) => collect!(Integer, Int64Array),
            Some(Scalar::Unsigned(_)) => collect!(Unsigned, UInt64Array),
            Some(Scalar::String(_)) => collect!(String, StringArray),
            Some(Scalar::Boolean(_)) => collect!(Boolean, BooleanArray),
        }
    }

    /// A list of texts in every row.
    pub fn of_lists<Text: AsRef<str>>(lists: impl Iterator<Item = Option<Vec<Text>>>) -> Self {
        let mut builder = ListBuilder::new(StringBuilder::new());
        lists.for_each(|list| builder.append_option(list.map(|list| list.into_iter().map(Some))));
        Column::Texts(builder.finish())
    }

    /// The same text in every row.
    pub fn repeat_text(text: &str, rows: usize) -> Self {
        Self::of_runs(std::iter::once((Some(text), rows)), rows)
    }

    /// Text from runs of rows that have the same.
    pub fn of_runs<'a>(runs: impl Iterator<Item = (Option<&'a str>, usize)>, rows: usize) -> Self {
        let mut builder = StringBuilder::with_capacity(rows, rows * 8);
        for (text, rows) in runs {
            (0..rows).for_each(|_| builder.append_option(text));
        }
        Column::String(builder.finish())
    }

    /// Columns one after the other. Numbers of different types become floats; values of other types than the first become
    /// NULL.
    pub fn concatenate(columns: &[Column]) -> Self {
        if let [column] = columns {
            return column.clone();
        }
        let tags = columns.iter().map(|column| match column {
            Column::Tag(tags) => Some(tags),
            _ => None,
        });
        if let Some(tags) = TagColumn::concatenate(tags) {
            return Column::Tag(tags);
        }
        let columns: Vec<Column> = columns.iter().map(Column::plain).collect();
        let rows = columns.iter().map(Column::len).sum();
        let mut typed = columns.iter().filter(|column| !matches!(column, Column::Null(_)));
        let Some(first) = typed.next() else { return Column::Null(rows) };
        let mixed = typed.any(|other| std::mem::discriminant(first) != std::mem::discriminant(other));
        if mixed && first.is_number() {
            let values = columns.iter().flat_map(|column| (0..column.len()).map(|row| column.float(row)));
            return Column::Float(values.collect());
        }
        macro_rules! chain {
            ($variant:ident, $collection:ty) => {{
                let values = columns.iter().flat_map(|column| -> Box<dyn Iterator<Item = Option<_>>> {
                    match column {
                        Column::$variant(array) => Box::new(array.iter()),
                        other => Box::new(std::iter::repeat_n(None, other.len())),
                    }
                });
                Column::$variant(values.collect::<$collection>())
            }};
        }
        match first {
            Column::Float(_) => chain!(Float, Float64Array),
            Column::Integer(_) => chain!(Integer, Int64Array),
            Column::Unsigned(_) => chain!(Unsigned, UInt64Array),
            Column::String(_) => chain!(String, StringArray),
            Column::Boolean(_) => chain!(Boolean, BooleanArray),
            Column::Tag(_) | Column::Texts(_) | Column::Null(_) => Column::Null(rows),
        }
    }

    /// The column with tags as plain text.
    #[must_use]
    pub fn plain(&self) -> Self {
        match self {
            Column::Tag(tags) => Column::String(tags.to_array()),
            other => other.clone(),
        }
    }

    /// Whether it holds numbers.
    #[inline]
    pub fn is_number(&self) -> bool {
        matches!(self, Column::Float(_) | Column::Integer(_) | Column::Unsigned(_))
    }

    /// The value of a row as a float, if it is a number.
    pub fn float(&self, row: usize) -> Option<f64> {
        match self.scalar(row)? {
            Scalar::Float(value) => Some(value),
            Scalar::Integer(value) => Some(value as f64),
            Scalar::Unsigned(value) => Some(value as f64),
            Scalar::String(_) | Scalar::Boolean(_) => None,
        }
    }

    /// The column as floats: numbers converted, everything else NULL.
    pub fn to_floats(&self) -> Float64Array {
        match self {
            Column::Float(array) => array.clone(),
            Column::Integer(array) => array.unary(|value| value as f64),
            Column::Unsigned(array) => array.unary(|value| value as f64),
            other => Float64Array::new_null(other.len()),
        }
    }

    /// The bytes of its texts.
    pub fn text_bytes(&self) -> usize {
        match self {
            Column::String(array) => {
                let offsets = array.value_offsets();
                (offsets[offsets.len() - 1] - offsets[0]) as usize
            }
            Column::Tag(tags) => (0..tags.len()).filter_map(|row| tags.text(row)).map(str::len).sum(),
            _ => 0,
        }
    }

    /// About how many bytes of memory it takes.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Column::Float(array) => array.get_array_memory_size(),
            Column::Integer(array) => array.get_array_memory_size(),
            Column::Unsigned(array) => array.get_array_memory_size(),
            Column::String(array) => array.get_array_memory_size(),
            Column::Boolean(array) => array.get_array_memory_size(),
            Column::Tag(tags) => tags.memory_bytes(),
            Column::Texts(lists) => lists.get_array_memory_size(),
            Column::Null(_) => 0,
        }
    }
}

/// The list of a row, if it has one.
pub fn list(row: usize, lists: &ListArray) -> Option<Vec<String>> {
    let texts = lists.is_valid(row).then(|| lists.value(row))?;
    Some(texts.as_string::<i32>().iter().map(|text| text.unwrap_or_default().to_owned()).collect())
}
