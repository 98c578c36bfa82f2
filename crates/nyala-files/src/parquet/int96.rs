//! Times of the type INT96, as Spark and Impala wrote them: a day and the nanoseconds of it, of any year.
//!
//! The `parquet` crate makes 64 bits of nanoseconds of them, which wrap outside of 1677 to 2262, or seconds, which do not. So such columns are
//! read a second time, as seconds: a time that both agree about is what the file has.

use crate::error::{FileError, FileErrorKind, FileResult};
use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampNanosecondType, TimestampSecondType};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::Type as PhysicalType;
use parquet::errors::ParquetError;
use std::fs::File;
use std::sync::Arc;

const NANOSECONDS: DataType = DataType::Timestamp(TimeUnit::Nanosecond, None);
const SECONDS: DataType = DataType::Timestamp(TimeUnit::Second, None);

/// The columns of a file that are INT96.
pub(super) struct Int96Columns {
    /// The metadata that makes seconds of them.
    metadata: ArrowReaderMetadata,
    /// Their places among the columns of Parquet.
    leaves: Vec<usize>,
    /// Their places among the columns of rows.
    places: Vec<usize>,
}

impl Int96Columns {
    /// Those of a file, if it has some. Others that are in structures cannot be read anyway.
    pub(super) fn of(metadata: &ArrowReaderMetadata) -> Result<Option<Self>, ParquetError> {
        let columns = metadata.metadata().file_metadata().schema_descr();
        let mut fields: Vec<Field> =
            metadata.schema().fields().iter().map(|field| field.as_ref().clone()).collect();
        let (mut leaves, mut places) = (Vec::new(), Vec::new());
        for leaf in 0..columns.num_columns() {
            let place = columns.get_column_root_idx(leaf);
            let is_int96 = columns.column(leaf).physical_type() == PhysicalType::INT96;
            if is_int96 && *fields[place].data_type() == NANOSECONDS {
                fields[place] = fields[place].clone().with_data_type(SECONDS);
                leaves.push(leaf);
                places.push(place);
            }
        }
        if leaves.is_empty() {
            return Ok(None);
        }
        let options = ArrowReaderOptions::new().with_schema(Arc::new(Schema::new(fields)));
        let metadata = ArrowReaderMetadata::try_new(metadata.metadata().clone(), options)?;
        Ok(Some(Self { metadata, leaves, places }))
    }

    /// Reads them as seconds.
    pub(super) fn reader(
        &self,
        file: File,
        group: usize,
        batch_rows: usize,
    ) -> Result<ParquetRecordBatchReader, ParquetError> {
        let columns = self.metadata.metadata().file_metadata().schema_descr();
        let wanted = ProjectionMask::leaves(columns, self.leaves.iter().copied());
        ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
            .with_row_groups(vec![group])
            .with_batch_size(batch_rows)
            .with_projection(wanted)
            .build()
    }

    /// Compares rows with their seconds.
    ///
    /// # Errors
    /// Unsupported, with the column: a time is none of 64 bits of nanoseconds.
    pub(super) fn check(&self, rows: &RecordBatch, seconds: &RecordBatch, path: &str) -> FileResult<()> {
        for (place, seconds) in self.places.iter().zip(seconds.columns()) {
            let times = rows.column(*place).as_primitive::<TimestampNanosecondType>();
            let seconds = seconds.as_primitive::<TimestampSecondType>();
            let is_same = |row: usize| times.value(row).div_euclid(1_000_000_000) == seconds.value(row);
            if times.len() != seconds.len()
                || (0..times.len()).any(|row| times.is_valid(row) && !is_same(row))
            {
                let schema = rows.schema();
                let message = format!(
                    "\"{path}\", column \"{}\": a time is not between 1677-09-21 and 2262-04-11",
                    schema.field(*place).name()
                );
                return Err(FileError::new(FileErrorKind::Unsupported, message));
            }
        }
        Ok(())
    }
}
