//! Makes rows of the frames of an answer.

use arrow_array::{
    ArrayRef, RecordBatch, RecordBatchOptions, StringArray, TimestampNanosecondArray, new_null_array,
};
use arrow_schema::{DataType, SchemaRef};
use datafusion::arrow::compute::{cast, concat};
use datafusion::error::Result;
use nyala_exec::{Column, Frame};
use std::sync::Arc;

/// The columns that are wanted of an answer.
#[derive(Debug, Clone)]
pub(super) struct Rows {
    /// The columns that are wanted.
    pub(super) schema: SchemaRef,
    /// Their places among all columns: the time, the name, the tags, and what was selected.
    pub(super) projection: Vec<usize>,
    /// All tags.
    pub(super) tags: Vec<String>,
}

impl Rows {
    /// The rows of some frames.
    pub(super) fn of(&self, frames: &[Frame]) -> Result<RecordBatch> {
        let rows = frames.iter().map(Frame::rows).sum();
        let mut columns = Vec::with_capacity(self.projection.len());
        for (place, field) in self.projection.iter().zip(self.schema.fields()) {
            let data_type = field.data_type();
            columns.push(match *place {
                0 => times(frames, data_type),
                1 => texts(frames, |frame| Some(&frame.name)),
                place if place < 2 + self.tags.len() => {
                    let tag = &self.tags[place - 2];
                    // A series without the tag has an empty one.
                    texts(frames, |frame| frame.tags.get(tag).filter(|value| !value.is_empty()))
                }
                place => values(frames, place - 2 - self.tags.len(), data_type)?,
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?)
    }
}

fn times(frames: &[Frame], data_type: &DataType) -> ArrayRef {
    let times: Vec<i64> =
        frames.iter().flat_map(|frame| &frame.times_ns[frame.span.clone()]).copied().collect();
    Arc::new(TimestampNanosecondArray::from(times).with_data_type(data_type.clone()))
}

/// A text for all rows of each frame.
fn texts<'a>(frames: &'a [Frame], of: impl Fn(&'a Frame) -> Option<&'a str>) -> ArrayRef {
    let texts = frames.iter().flat_map(|frame| std::iter::repeat_n(of(frame), frame.rows()));
    Arc::new(texts.collect::<StringArray>())
}

/// The values of a selected column.
fn values(frames: &[Frame], place: usize, data_type: &DataType) -> Result<ArrayRef> {
    let parts = frames.iter().map(|frame| {
        let rows = frame.rows();
        let Some(column) = frame.columns.get(place) else { return Ok(new_null_array(data_type, rows)) };
        let array: ArrayRef = match column.slice(frame.span.start, rows).plain() {
            Column::Float(array) => Arc::new(array),
            Column::Integer(array) => Arc::new(array),
            Column::Unsigned(array) => Arc::new(array),
            Column::String(array) => Arc::new(array),
            Column::Boolean(array) => Arc::new(array),
            Column::Tag(_) | Column::Texts(_) | Column::Null(_) => new_null_array(data_type, rows),
        };
        let is_alike = array.data_type() == data_type;
        // A measurement may have a weaker type; what is no number cannot become one.
        Ok(if is_alike { array } else { cast(&array, data_type)? })
    });
    let parts: Vec<ArrayRef> = parts.collect::<Result<_>>()?;
    let parts: Vec<&dyn arrow_array::Array> = parts.iter().map(AsRef::as_ref).collect();
    match parts[..] {
        [] => Ok(new_null_array(data_type, 0)),
        _ => Ok(concat(&parts)?),
    }
}
