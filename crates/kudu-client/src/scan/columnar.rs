//! Decodes a server's answer into Arrow arrays.
//!
//! In the columnar layout, a fixed-size column has the bytes of Arrow's values buffer, a text column those of Arrow's
//! offsets and data, and a validity bitmap is Arrow's. Each was received into its own buffer. If that buffer is aligned
//! for the type it becomes the array without a copy; otherwise it is copied. Booleans (a byte each) are packed, and
//! narrow decimals are widened. Everything is checked against the row count, because the server may be broken.

use std::sync::Arc;

use arrow_array::types::*;
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, PrimitiveArray, RecordBatch,
    RecordBatchOptions, StringArray,
};
use arrow_buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType as ArrowType, SchemaRef};

use crate::data_type::DataType;
use crate::error::{Error, ErrorKind, Result};
use crate::pb::tserver::{ColumnarRowBlock, RowwiseRowBlock};
use crate::row::{INDIRECT_BYTES, indirect_slice};

/// What decoding needs to know of one column of the projection.
#[derive(Clone, Debug)]
pub(crate) struct ProjectedColumn {
    pub(crate) name: String,
    pub(crate) data_type: DataType,
    pub(crate) is_nullable: bool,
}

/// The raw parts of one column.
struct ColumnData {
    /// Fixed-size cells, or offsets.
    cells: Vec<u8>,
    /// Text and bytes.
    variable: Vec<u8>,
    /// 1 = valid.
    validity: Option<Vec<u8>>,
}

/// Decodes a columnar answer.
pub(crate) fn decode_columnar(
    schema: &SchemaRef,
    columns: &[ProjectedColumn],
    block: &ColumnarRowBlock,
    mut sidecars: Vec<Vec<u8>>,
) -> Result<RecordBatch> {
    let rows = row_count(block.num_rows.unwrap_or(0))?;
    if block.columns.len() != columns.len() {
        return Err(Error::protocol(format!(
            "{} columns where {} were requested",
            block.columns.len(),
            columns.len()
        )));
    }
    let mut take = |index: i32| -> Result<Vec<u8>> {
        let sidecar = usize::try_from(index).ok().and_then(|index| sidecars.get_mut(index));
        sidecar.map(std::mem::take).ok_or_else(|| Error::protocol(format!("there is no sidecar {index}")))
    };
    let mut arrays = Vec::with_capacity(columns.len());
    for (column, indexes) in columns.iter().zip(&block.columns) {
        let data = ColumnData {
            cells: indexes.data_sidecar.map_or(Ok(Vec::new()), &mut take)?,
            variable: indexes.varlen_data_sidecar.map_or(Ok(Vec::new()), &mut take)?,
            validity: indexes.non_null_bitmap_sidecar.map(&mut take).transpose()?,
        };
        let arrow = schema.field(arrays.len()).data_type();
        arrays.push(array_of(column, arrow, data, rows)?);
    }
    record_batch(schema, arrays, rows)
}

/// Decodes a row-wise answer: gathers each column, then decodes it like a columnar one.
pub(crate) fn decode_rowwise(
    schema: &SchemaRef,
    columns: &[ProjectedColumn],
    block: &RowwiseRowBlock,
    sidecars: &[Vec<u8>],
) -> Result<RecordBatch> {
    let rows = row_count(block.num_rows.unwrap_or(0).into())?;
    let sidecar = |index: Option<i32>| match index {
        None => Ok(&[][..]),
        Some(index) => {
            let sidecar = usize::try_from(index).ok().and_then(|index| sidecars.get(index));
            sidecar.map(Vec::as_slice).ok_or_else(|| Error::protocol(format!("there is no sidecar {index}")))
        }
    };
    let cells = sidecar(block.rows_sidecar)?;
    let indirect = sidecar(block.indirect_data_sidecar)?;
    let width = |column: &ProjectedColumn| column.data_type.fixed_bytes().unwrap_or(INDIRECT_BYTES);
    let fixed_stride: usize = columns.iter().map(width).sum();
    let any_nullable = columns.iter().any(|column| column.is_nullable);
    let stride = fixed_stride + if any_nullable { columns.len().div_ceil(8) } else { 0 };
    if rows.checked_mul(stride) != Some(cells.len()) {
        return Err(Error::protocol(format!("{} bytes for {rows} rows of {stride} bytes", cells.len())));
    }
    let mut arrays = Vec::with_capacity(columns.len());
    let mut at = 0;
    // Servers give each cell its own bytes. Cells that shared bytes could become many times the size of the message.
    let mut indirect_left = indirect.len();
    for (index, column) in columns.iter().enumerate() {
        let width = width(column);
        let is_variable = column.data_type.fixed_bytes().is_none();
        let mut data = ColumnData { cells: Vec::new(), variable: Vec::new(), validity: None };
        let mut validity = vec![0u8; rows.div_ceil(8)];
        if is_variable {
            data.cells.extend_from_slice(&0u32.to_le_bytes());
        }
        for row in 0..rows {
            let line = &cells[row * stride..][..stride];
            let is_null = column.is_nullable && line[fixed_stride + index / 8] >> (index % 8) & 1 == 1;
            if !is_null {
                validity[row / 8] |= 1 << (row % 8);
            }
            let cell = &line[at..at + width];
            if !is_variable {
                data.cells.extend_from_slice(cell);
                continue;
            }
            if !is_null {
                // NULL cells hold garbage and are not read.
                let slice = indirect_slice(cell, indirect)?;
                indirect_left = indirect_left
                    .checked_sub(slice.len())
                    .ok_or_else(|| Error::protocol("cells that share their bytes"))?;
                data.variable.extend_from_slice(slice);
            }
            let end =
                u32::try_from(data.variable.len()).map_err(|_| Error::protocol("a column beyond 4 GiB"))?;
            data.cells.extend_from_slice(&end.to_le_bytes());
        }
        data.validity = column.is_nullable.then_some(validity);
        at += width;
        let arrow = schema.field(arrays.len()).data_type();
        arrays.push(array_of(column, arrow, data, rows)?);
    }
    record_batch(schema, arrays, rows)
}

fn row_count(rows: i64) -> Result<usize> {
    // No answer within the message bound has more rows than fit u32.
    u32::try_from(rows)
        .map(|rows| rows as usize)
        .map_err(|_| Error::protocol(format!("{rows} rows in an answer")))
}

fn record_batch(schema: &SchemaRef, arrays: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.clone(), arrays, &options)
        .map_err(|error| Error::protocol(error.to_string()))
}

fn array_of(column: &ProjectedColumn, arrow: &ArrowType, data: ColumnData, rows: usize) -> Result<ArrayRef> {
    let wrong =
        |what: &str| Error::protocol(format!("column {:?}: {what} does not fit {rows} rows", column.name));
    let nulls = match data.validity {
        None => None,
        Some(bitmap) if bitmap.len() < rows.div_ceil(8) => return Err(wrong("the validity bitmap")),
        Some(bitmap) => {
            let nulls = NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(bitmap), 0, rows));
            (nulls.null_count() > 0).then_some(nulls)
        }
    };
    if let Some(width) = column.data_type.fixed_bytes()
        && rows.checked_mul(width) != Some(data.cells.len())
    {
        return Err(wrong("the values"));
    }
    let cells = data.cells;
    Ok(match column.data_type {
        DataType::Int8 => primitive::<Int8Type>(cells, rows, nulls),
        DataType::Int16 => primitive::<Int16Type>(cells, rows, nulls),
        DataType::Int32 => primitive::<Int32Type>(cells, rows, nulls),
        DataType::Int64 => primitive::<Int64Type>(cells, rows, nulls),
        DataType::Float => primitive::<Float32Type>(cells, rows, nulls),
        DataType::Double => primitive::<Float64Type>(cells, rows, nulls),
        DataType::Date => primitive::<Date32Type>(cells, rows, nulls),
        DataType::UnixtimeMicros => {
            let values = values::<TimestampMicrosecondType>(cells, rows);
            Arc::new(PrimitiveArray::<TimestampMicrosecondType>::new(values, nulls).with_timezone("UTC"))
        }
        DataType::Bool => {
            let packed = BooleanBuffer::collect_bool(rows, |row| cells[row] != 0);
            Arc::new(BooleanArray::new(packed, nulls))
        }
        DataType::Decimal { precision, scale } => {
            let values: ScalarBuffer<i128> = match column.data_type.fixed_bytes() {
                Some(4) => values::<Int32Type>(cells, rows).iter().map(|&value| i128::from(value)).collect(),
                Some(8) => values::<Int64Type>(cells, rows).iter().map(|&value| i128::from(value)).collect(),
                _ => values::<Decimal128Type>(cells, rows),
            };
            let array = PrimitiveArray::<Decimal128Type>::new(values, nulls);
            let array = array.with_precision_and_scale(precision, scale as i8);
            Arc::new(array.map_err(|error| Error::protocol(error.to_string()))?)
        }
        DataType::String | DataType::Varchar { .. } | DataType::Binary => {
            let offsets = offsets(cells, data.variable.len(), rows).ok_or_else(|| wrong("the offsets"))?;
            let bytes = Buffer::from_vec(data.variable);
            if *arrow == ArrowType::Binary {
                Arc::new(BinaryArray::new(offsets, bytes, nulls))
            } else {
                let array = StringArray::try_new(offsets, bytes, nulls).map_err(|error| {
                    let message = format!(
                        "column {:?} holds bytes that are not UTF-8 ({error}); scan it with strings_as_binary",
                        column.name
                    );
                    Error::new(ErrorKind::NotSupported, message)
                })?;
                Arc::new(array)
            }
        }
        DataType::Unknown(code) => {
            return Err(Error::new(
                ErrorKind::NotSupported,
                format!("column {:?} is of type {code}", column.name),
            ));
        }
    })
}

fn primitive<T: ArrowPrimitiveType>(data: Vec<u8>, rows: usize, nulls: Option<NullBuffer>) -> ArrayRef {
    let array: Arc<dyn Array> = Arc::new(PrimitiveArray::<T>::new(values::<T>(data, rows), nulls));
    array
}

/// The bytes as values, without a copy if they are aligned.
fn values<T: ArrowPrimitiveType>(data: impl Into<Buffer>, rows: usize) -> ScalarBuffer<T::Native> {
    let mut buffer: Buffer = data.into();
    if buffer.as_ptr().align_offset(align_of::<T::Native>()) != 0 {
        let mut copy = MutableBuffer::with_capacity(buffer.len());
        copy.extend_from_slice(&buffer);
        buffer = copy.into();
    }
    ScalarBuffer::new(buffer, 0, rows)
}

/// The offsets of text or bytes; `None` unless they rise and lie within the data.
fn offsets(data: Vec<u8>, variable_bytes: usize, rows: usize) -> Option<OffsetBuffer<i32>> {
    if rows == 0 {
        return Some(OffsetBuffer::new_empty());
    }
    if rows.checked_add(1)?.checked_mul(4)? != data.len() {
        return None;
    }
    let values = values::<Int32Type>(data, rows + 1);
    let rises = values.windows(2).all(|pair| pair[0] <= pair[1]);
    let within = values[0] >= 0 && usize::try_from(values[rows]).is_ok_and(|last| last <= variable_bytes);
    (rises && within).then(|| OffsetBuffer::new(values))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pb::tserver::ColumnarColumn;
    use arrow_schema::{Field, Schema};
    use proptest::prelude::*;

    fn columns() -> (SchemaRef, Vec<ProjectedColumn>) {
        let types = [
            DataType::Int64,
            DataType::String,
            DataType::Bool,
            DataType::Decimal { precision: 30, scale: 2 },
            DataType::Binary,
        ];
        let projected: Vec<ProjectedColumn> = types
            .iter()
            .enumerate()
            .map(|(index, &data_type)| ProjectedColumn {
                name: format!("c{index}"),
                data_type,
                is_nullable: true,
            })
            .collect();
        let fields: Vec<Field> = projected
            .iter()
            .map(|column| Field::new(&column.name, column.data_type.arrow_type(), true))
            .collect();
        (Arc::new(Schema::new(fields)), projected)
    }

    fn column_sidecars(data: i32, variable: i32, validity: i32) -> ColumnarColumn {
        ColumnarColumn {
            data_sidecar: Some(data),
            varlen_data_sidecar: (variable >= 0).then_some(variable),
            non_null_bitmap_sidecar: (validity >= 0).then_some(validity),
        }
    }

    #[test]
    fn misaligned_values_are_copied_not_refused() {
        for start in 0..9 {
            let buffer = Buffer::from_vec([vec![0; start], 7i64.to_le_bytes().to_vec()].concat());
            assert_eq!(values::<Int64Type>(buffer.slice(start), 1)[0], 7);
        }
    }

    #[test]
    fn text_that_is_not_utf8_is_named() {
        let (_, mut projected) = columns();
        projected.drain(..1);
        projected.truncate(1);
        let block = ColumnarRowBlock { columns: vec![column_sidecars(0, 1, -1)], num_rows: Some(1) };
        let sidecars = || vec![[0u32.to_le_bytes(), 1u32.to_le_bytes()].concat(), vec![0xff]];
        let schema = Arc::new(Schema::new(vec![Field::new("c1", ArrowType::Utf8, true)]));
        let error = decode_columnar(&schema, &projected, &block, sidecars()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSupported);
        let schema = Arc::new(Schema::new(vec![Field::new("c1", ArrowType::Binary, true)]));
        assert!(decode_columnar(&schema, &projected, &block, sidecars()).is_ok());
    }

    #[test]
    fn cells_that_share_their_bytes_do_not_multiply_them() {
        let (_, mut projected) = columns();
        projected.drain(..4);
        projected[0].is_nullable = false;
        let schema = Arc::new(Schema::new(vec![Field::new("c4", ArrowType::Binary, false)]));
        let cell = [0u64.to_le_bytes(), 1000u64.to_le_bytes()].concat();
        let decode = |rows: usize| {
            let block = RowwiseRowBlock {
                num_rows: Some(rows as i32),
                rows_sidecar: Some(0),
                indirect_data_sidecar: Some(1),
            };
            decode_rowwise(&schema, &projected, &block, &[cell.repeat(rows), vec![7; 1000]])
        };
        assert_eq!(decode(1).unwrap().num_rows(), 1);
        assert_eq!(decode(2).unwrap_err().kind(), ErrorKind::Protocol);
    }

    proptest! {
        #[test]
        fn no_columnar_answer_makes_the_decoder_panic(
            rows in prop_oneof![Just(-1i64), Just(i64::MAX), 0i64..9],
            sidecar_indexes in proptest::collection::vec((-1i32..8, -1i32..8, -1i32..8), 0..6),
            sidecars in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 0..8),
        ) {
            let (schema, projected) = columns();
            let sidecar_indexes = sidecar_indexes.into_iter().map(|(a, b, c)| column_sidecars(a, b, c)).collect();
            let block = ColumnarRowBlock { columns: sidecar_indexes, num_rows: Some(rows) };
            let _ = decode_columnar(&schema, &projected, &block, sidecars);
        }

        #[test]
        fn offsets_that_lie_are_refused(
            offsets in proptest::collection::vec(any::<i8>(), 1..6),
            bytes in 0usize..100,
        ) {
            let rows = offsets.len() - 1;
            let data = offsets.iter().flat_map(|&offset| i32::from(offset).to_le_bytes()).collect();
            let good = rows == 0 || offsets.is_sorted() && offsets[0] >= 0 && offsets[rows] as usize <= bytes;
            prop_assert_eq!(super::offsets(data, bytes, rows).is_some(), good);
        }

        #[test]
        fn no_rowwise_answer_makes_the_decoder_panic(
            rows in prop_oneof![Just(-1i32), Just(i32::MAX), 0i32..4],
            sidecar_indexes in (proptest::option::of(-1i32..3), proptest::option::of(-1i32..3)),
            cells in proptest::collection::vec(any::<u8>(), 0..240),
        ) {
            let (schema, projected) = columns();
            let stride = 8 + 16 + 1 + 16 + 16 + 1;
            let fitting = vec![3u8; stride * rows.clamp(0, 4) as usize];
            let block =
                RowwiseRowBlock { num_rows: Some(rows), rows_sidecar: sidecar_indexes.0, indirect_data_sidecar: sidecar_indexes.1 };
            let _ = decode_rowwise(&schema, &projected, &block, &[cells, fitting]);
        }
    }
}
