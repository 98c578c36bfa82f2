//! How much columns that a client sends take as those of a table.
//!
//! In a dictionary or a view many rows name the same long value, and each of them has a copy of it in the column of a table: a megabyte
//! of keys becomes gigabytes of texts. So rows are taken over in pieces, whose size is charged before there are any copies.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Schema};

/// Rows of a piece, at most: some columns need no bytes for theirs.
const PIECE_ROWS: usize = 1 << 16;
/// Bytes of a piece, about: many rows may name the same long value.
const PIECE_BYTES: usize = 8 << 20;
/// The longest value that has one length in all rows, a decimal.
const VALUE_BYTES: usize = 16;
/// What a text takes beside its bytes.
const OFFSET_BYTES: usize = size_of::<i32>();

/// How many rows are taken over at once.
pub(crate) fn piece_rows(columns: &[ArrayRef]) -> usize {
    let row_bytes: usize = columns.iter().map(expanded).sum();
    (PIECE_BYTES / row_bytes.max(1)).clamp(1, PIECE_ROWS)
}

/// What some rows take at most as columns of these types. A text that rows share is copied twice if its length is limited.
pub(crate) fn bytes_max(columns: &[ArrayRef], schema: &Schema, rows: usize) -> usize {
    let fixed =
        schema.fields().iter().map(|field| field.data_type().primitive_width().unwrap_or(OFFSET_BYTES));
    let texts = columns.iter().map(|values| match longest_shared(values) {
        0 => plain_bytes(values),
        longest => longest.saturating_mul(rows).saturating_mul(2),
    });
    texts.fold(fixed.sum::<usize>() * rows, usize::saturating_add)
}

/// What a row takes of a column beyond what was sent of it.
fn expanded(values: &ArrayRef) -> usize {
    match values.data_type() {
        DataType::Null => VALUE_BYTES,
        _ => longest_shared(values),
    }
}

/// The longest value of a column that rows may share.
fn longest_shared(values: &ArrayRef) -> usize {
    match values.data_type() {
        DataType::Dictionary(..) => longest(values.as_any_dictionary().values()),
        DataType::Utf8View | DataType::BinaryView => longest(values),
        _ => 0,
    }
}

fn longest(values: &ArrayRef) -> usize {
    let of_offsets = |offsets: &[i32]| offsets.windows(2).map(|ends| (ends[1] - ends[0]) as usize).max();
    let of_long_offsets = |offsets: &[i64]| offsets.windows(2).map(|ends| (ends[1] - ends[0]) as usize).max();
    let of_views = |views: &[u128]| views.iter().map(|view| *view as u32 as usize).max();
    let most = match values.data_type() {
        DataType::Utf8 => of_offsets(values.as_string::<i32>().value_offsets()),
        DataType::LargeUtf8 => of_long_offsets(values.as_string::<i64>().value_offsets()),
        DataType::Binary => of_offsets(values.as_binary::<i32>().value_offsets()),
        DataType::LargeBinary => of_long_offsets(values.as_binary::<i64>().value_offsets()),
        DataType::Utf8View => of_views(values.as_string_view().views()),
        DataType::BinaryView => of_views(values.as_binary_view().views()),
        DataType::FixedSizeBinary(bytes) => usize::try_from(*bytes).ok(),
        DataType::Dictionary(..) => Some(longest(values.as_any_dictionary().values())),
        _ => None,
    };
    most.unwrap_or(0)
}

/// The bytes of texts of which each row has its own.
fn plain_bytes(values: &ArrayRef) -> usize {
    let of_offsets = |offsets: &[i32]| (offsets[offsets.len() - 1] - offsets[0]) as usize;
    let of_long_offsets = |offsets: &[i64]| (offsets[offsets.len() - 1] - offsets[0]) as usize;
    match values.data_type() {
        DataType::Utf8 => of_offsets(values.as_string::<i32>().value_offsets()),
        DataType::LargeUtf8 => of_long_offsets(values.as_string::<i64>().value_offsets()),
        DataType::Binary => of_offsets(values.as_binary::<i32>().value_offsets()),
        DataType::LargeBinary => of_long_offsets(values.as_binary::<i64>().value_offsets()),
        DataType::FixedSizeBinary(bytes) => usize::try_from(*bytes).unwrap_or(0) * values.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::Int8Type;
    use arrow_array::{DictionaryArray, Int8Array, Int64Array, NullArray, StringArray, StringViewArray};
    use arrow_schema::Field;
    use std::sync::Arc;

    #[test]
    fn rows_that_share_long_values_are_taken_over_in_pieces() {
        let long = "x".repeat(1 << 20);
        let keys = Int8Array::from(vec![0; 1000]);
        let shared: ArrayRef = Arc::new(DictionaryArray::<Int8Type>::new(
            keys,
            Arc::new(StringArray::from(vec![&*long])) as ArrayRef,
        ));
        let views: ArrayRef = Arc::new(StringViewArray::from(vec![&*long; 3]));
        let own: ArrayRef = Arc::new(StringArray::from(vec![&*long; 3]));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![7; 3]));
        let nothing: ArrayRef = Arc::new(NullArray::new(1_000_000));
        assert_eq!(piece_rows(std::slice::from_ref(&shared)), 8);
        assert_eq!(piece_rows(&[shared.clone(), views.clone()]), 4);
        assert_eq!(piece_rows(&[own.clone(), numbers.clone()]), PIECE_ROWS);
        assert_eq!(piece_rows(&vec![nothing; 1000]), 524);
        let schema = Schema::new(vec![
            Field::new("text", DataType::Utf8, true),
            Field::new("number", DataType::Decimal128(38, 0), true),
        ]);
        for (column, copies) in [(shared.slice(0, 3), 2), (views, 2), (own, 1)] {
            let bytes = bytes_max(&[column, numbers.clone()], &schema, 3);
            assert_eq!(bytes, copies * 3 * (1 << 20) + 3 * (OFFSET_BYTES + VALUE_BYTES));
        }
    }
}
