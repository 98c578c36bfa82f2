//! Writing Arrow record batches.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType as ArrowType, TimeUnit};

use super::session::{Scratch, Session};
use crate::data_type::DataType;
use crate::error::{Error, Result};
use crate::row::{Operation, Row};
use crate::value::Cell;

impl Session {
    /// Applies one row operation per row of the batch. Columns are matched by name.
    ///
    /// Arrow types must be those in which scans return the columns. `LargeUtf8`, `LargeBinary`, and timestamps of other
    /// units (truncated to microseconds) are accepted too. Columns of the table that the batch lacks stay unset.
    ///
    /// # Errors
    /// As [`Self::apply`]; the rows before the refused one have been applied.
    pub async fn apply_arrow(&self, operation: Operation, batch: &RecordBatch) -> Result<()> {
        let schema = self.table().schema.clone();
        let mut columns = Vec::with_capacity(batch.num_columns());
        for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            let index = schema.find(field.name())?;
            let data_type = schema.columns()[index].data_type;
            if !accepts(data_type, array.data_type()) {
                return Err(Error::invalid(format!(
                    "column {:?} of type {data_type:?} cannot be written from Arrow's {}",
                    field.name(),
                    array.data_type()
                )));
            }
            columns.push((index, array.as_ref()));
        }
        let mut scratch = Scratch::default();
        let mut row = Row::new(schema, operation);
        for row_index in 0..batch.num_rows() {
            row.clear();
            for &(index, array) in &columns {
                row.set_at(index, cell_at(array, row_index))?;
            }
            self.apply_with(&row, &mut scratch).await?;
        }
        Ok(())
    }
}

fn accepts(data_type: DataType, array: &ArrowType) -> bool {
    match (data_type, array) {
        (DataType::String | DataType::Varchar { .. }, ArrowType::LargeUtf8)
        | (DataType::Binary, ArrowType::LargeBinary)
        | (DataType::UnixtimeMicros, ArrowType::Timestamp(_, _)) => true,
        (DataType::Decimal { scale, .. }, ArrowType::Decimal128(_, given)) => {
            i32::from(*given) == i32::from(scale)
        }
        (DataType::Unknown(_), _) => false,
        (data_type, array) => data_type.arrow_type() == *array,
    }
}

fn cell_at(array: &dyn Array, row_index: usize) -> Cell<'_> {
    if array.is_null(row_index) {
        return Cell::Null;
    }
    match array.data_type() {
        ArrowType::Boolean => Cell::Bool(array.as_boolean().value(row_index)),
        ArrowType::Int8 => Cell::Int8(array.as_primitive::<Int8Type>().value(row_index)),
        ArrowType::Int16 => Cell::Int16(array.as_primitive::<Int16Type>().value(row_index)),
        ArrowType::Int32 => Cell::Int32(array.as_primitive::<Int32Type>().value(row_index)),
        ArrowType::Int64 => Cell::Int64(array.as_primitive::<Int64Type>().value(row_index)),
        ArrowType::Float32 => Cell::Float(array.as_primitive::<Float32Type>().value(row_index)),
        ArrowType::Float64 => Cell::Double(array.as_primitive::<Float64Type>().value(row_index)),
        ArrowType::Date32 => Cell::Int32(array.as_primitive::<Date32Type>().value(row_index)),
        ArrowType::Decimal128(_, _) => Cell::Int128(array.as_primitive::<Decimal128Type>().value(row_index)),
        ArrowType::Utf8 => Cell::String(array.as_string::<i32>().value(row_index)),
        ArrowType::LargeUtf8 => Cell::String(array.as_string::<i64>().value(row_index)),
        ArrowType::Binary => Cell::Binary(array.as_binary::<i32>().value(row_index)),
        ArrowType::LargeBinary => Cell::Binary(array.as_binary::<i64>().value(row_index)),
        ArrowType::Timestamp(unit, _) => {
            let micros = match unit {
                TimeUnit::Second => {
                    array.as_primitive::<TimestampSecondType>().value(row_index).saturating_mul(1_000_000)
                }
                TimeUnit::Millisecond => {
                    array.as_primitive::<TimestampMillisecondType>().value(row_index).saturating_mul(1_000)
                }
                TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().value(row_index),
                TimeUnit::Nanosecond => {
                    array.as_primitive::<TimestampNanosecondType>().value(row_index).div_euclid(1_000)
                }
            };
            Cell::Int64(micros)
        }
        // `accepts` lets no other type through.
        other => unreachable!("no cells of Arrow type {other}"),
    }
}
