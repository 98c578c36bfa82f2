//! Turning columns of a batch into arrays of the store without a copy, and getting their memory back for the next
//! batch.

use crate::ingest::{FieldColumn, FieldKind, FieldValues, RowGroup};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray, TimestampNanosecondArray,
    UInt32Array, UInt64Array,
};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, NullBuffer, OffsetBuffer};
use std::sync::Arc;

/// The values of a column, which is empty afterwards.
pub(super) fn array_of(column: &mut FieldColumn) -> ArrayRef {
    let (values, presence) = column.take();
    let present = presence.map(|presence| {
        let length = presence.len();
        NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(presence.into_words()), 0, length))
    });
    match values {
        FieldValues::Float(values) => Arc::new(Float64Array::new(values.into(), present)),
        FieldValues::Integer(values) => Arc::new(Int64Array::new(values.into(), present)),
        FieldValues::Unsigned(values) => Arc::new(UInt64Array::new(values.into(), present)),
        FieldValues::Boolean(values) => {
            let length = values.len();
            let bits = BooleanBuffer::new(Buffer::from_vec(values.into_words()), 0, length);
            Arc::new(BooleanArray::new(bits, present))
        }
        FieldValues::String(strings) => {
            if std::str::from_utf8(&strings.bytes).is_err() {
                let text = |row: usize| {
                    let present = present.as_ref().is_none_or(|present| present.is_valid(row));
                    present.then(|| String::from_utf8_lossy(strings.get(row)))
                };
                return Arc::new((0..strings.len()).map(text).collect::<StringArray>());
            }
            let offsets = OffsetBuffer::new(strings.offsets.into());
            Arc::new(StringArray::new(offsets, strings.bytes.into(), present))
        }
    }
}

/// Takes back the vectors when the store has finished with them, so that the next batch need not allocate.
pub(super) fn give_back(group: &mut RowGroup, arrays: Vec<ArrayRef>) {
    let mut arrays = arrays.into_iter();
    if let Some(series_ids) = arrays.next().and_then(vector_of) {
        group.series_ids = series_ids;
    }
    if let Some(times_ns) = arrays.next().and_then(vector_of) {
        group.times_ns = times_ns;
    }
    let columns = group.columns.iter_mut().filter(|column| column.name() != b"time");
    // If rows were rejected, columns may be missing or copied. So kinds are compared; the rest is only memory.
    for (column, array) in columns.zip(arrays) {
        let values = match column.kind() {
            FieldKind::Float => vector_of(array).map(FieldValues::Float),
            FieldKind::Integer => vector_of(array).map(FieldValues::Integer),
            FieldKind::Unsigned => vector_of(array).map(FieldValues::Unsigned),
            FieldKind::Boolean | FieldKind::String => None,
        };
        values.into_iter().for_each(|values| column.give_back(values));
    }
}

/// The memory of an array of numbers that nobody else holds, cleared.
fn vector_of<T: ArrowNativeType>(array: ArrayRef) -> Option<Vec<T>> {
    let data = array.to_data();
    drop(array);
    if data.data_type().primitive_width() != Some(size_of::<T>()) {
        return None;
    }
    let buffer = data.buffers().first()?.clone();
    drop(data);
    let mut values = buffer.into_vec().ok()?;
    values.clear();
    Some(values)
}

/// The rows of an array where `keep` is set.
pub(super) fn filter(array: &ArrayRef, keep: &BooleanBuffer) -> ArrayRef {
    macro_rules! gather {
        ($type:ty) => {
            if let Some(array) = array.as_any().downcast_ref::<$type>() {
                let value = |row| array.is_valid(row).then(|| array.value(row));
                return Arc::new(keep.set_indices().map(value).collect::<$type>());
            }
        };
    }
    gather!(UInt32Array);
    gather!(TimestampNanosecondArray);
    gather!(Float64Array);
    gather!(Int64Array);
    gather!(UInt64Array);
    gather!(BooleanArray);
    gather!(StringArray);
    unreachable!("a field has no type {}", array.data_type())
}
