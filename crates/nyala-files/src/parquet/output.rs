//! Writes record batches to a Parquet file, a row group at a time.
//!
//! A column keeps its type: dictionaries of texts stay dictionaries for readers that know Arrow, moments are UTC with
//! nanoseconds. What Parquet cannot say is refused before anything is written.

use super::{Compression, ParquetOptions, TimeUnit};
use crate::error::{FileError, FileErrorKind, FileResult};
use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampMicrosecondType, TimestampNanosecondType};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit as ArrowUnit};
use parquet::arrow::ArrowWriter;
use parquet::basic;
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use std::collections::HashSet;
use std::io::Write;
use std::sync::Arc;

/// Who wrote a file.
const CREATED_BY: &str = concat!("nyala version ", env!("CARGO_PKG_VERSION"));
/// What moments have for a zone in files: programs know it better than an offset of no hours.
const UTC: &str = "UTC";

/// A Parquet file that is being written.
pub struct ParquetOutput<W: Write + Send> {
    path: String,
    /// The columns as they are written.
    schema: SchemaRef,
    writer: ArrowWriter<W>,
    rows: u64,
}

impl<W: Write + Send> ParquetOutput<W> {
    /// Begins a file. `path` is for messages.
    ///
    /// # Errors
    /// Unsupported, if Parquet has no type for a column, or two columns have one name.
    pub fn new(out: W, path: &str, schema: &Schema, options: &ParquetOptions) -> FileResult<Self> {
        let schema = written_schema(schema, options.time_unit)?;
        let compression = match options.compression {
            Compression::Zstd => basic::Compression::ZSTD(basic::ZstdLevel::default()),
            Compression::Snappy => basic::Compression::SNAPPY,
            Compression::Lz4 => basic::Compression::LZ4_RAW,
            Compression::None => basic::Compression::UNCOMPRESSED,
        };
        let properties = WriterProperties::builder()
            .set_created_by(CREATED_BY.to_owned())
            .set_compression(compression)
            .set_max_row_group_row_count(Some(options.row_group_rows.max(1)))
            .set_max_row_group_bytes(Some(options.row_group_bytes.max(1)))
            // Those of pages are in the column index.
            .set_statistics_enabled(EnabledStatistics::Page)
            .build();
        let writer = ArrowWriter::try_new(out, schema.clone(), Some(properties));
        let writer = writer.map_err(|error| failed(path, error))?;
        Ok(Self { path: path.to_owned(), schema, writer, rows: 0 })
    }

    /// Writes rows.
    pub fn write(&mut self, rows: &RecordBatch) -> FileResult<()> {
        let columns = rows.columns().iter().zip(self.schema.fields()).map(|(array, own)| written(array, own));
        let columns = columns.collect::<FileResult<Vec<_>>>()?;
        let rows = RecordBatch::try_new(self.schema.clone(), columns);
        let rows = rows.map_err(|error| failed(&self.path, error.into()))?;
        self.writer.write(&rows).map_err(|error| failed(&self.path, error))?;
        self.rows += rows.num_rows() as u64;
        Ok(())
    }

    /// Rows that were written.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The memory that is held for the row group that is being written.
    pub fn memory_bytes(&self) -> usize {
        self.writer.memory_size()
    }

    /// What it is written to.
    pub fn inner(&self) -> &W {
        self.writer.inner()
    }

    /// Writes what is left, and the footer. Returns what it was written to.
    pub fn finish(self) -> FileResult<W> {
        self.writer.into_inner().map_err(|error| failed(&self.path, error))
    }
}

/// The columns as they are written.
fn written_schema(schema: &Schema, time_unit: TimeUnit) -> FileResult<SchemaRef> {
    let mut names = HashSet::new();
    let unsupported = |message: String| FileError::new(FileErrorKind::Unsupported, message);
    let fields = schema.fields().iter().map(|field| {
        if !names.insert(field.name().as_str()) {
            let message = format!("two columns are called \"{}\": name one with AS", field.name());
            return Err(unsupported(message));
        }
        let data_type = match field.data_type() {
            DataType::Timestamp(ArrowUnit::Nanosecond, zone) => {
                let unit = match time_unit {
                    TimeUnit::Nanosecond => ArrowUnit::Nanosecond,
                    TimeUnit::Microsecond => ArrowUnit::Microsecond,
                };
                let zone = zone.as_ref().map(|zone| if is_utc(zone) { UTC.into() } else { zone.clone() });
                DataType::Timestamp(unit, zone)
            }
            DataType::Interval(_) | DataType::Duration(_) => {
                return Err(unsupported(format!(
                    "column \"{}\" is an interval, which Parquet's readers do not know: cast it to text, or to a number \
                     by extract(epoch FROM …)",
                    field.name()
                )));
            }
            // Parquet has logical types of integers only.
            other => other.clone(),
        };
        // What only this program means by a column is not told.
        Ok(Field::new(field.name(), data_type, field.is_nullable()))
    });
    Ok(Arc::new(Schema::new(fields.collect::<FileResult<Vec<_>>>()?)))
}

fn is_utc(zone: &str) -> bool {
    matches!(zone, "+00:00" | "+00" | "UTC" | "Z")
}

/// The same values, with the type that is written.
fn written(array: &ArrayRef, field: &Field) -> FileResult<ArrayRef> {
    let DataType::Timestamp(unit, zone) = field.data_type() else { return Ok(array.clone()) };
    let Some(times) = array.as_primitive_opt::<TimestampNanosecondType>() else { return Ok(array.clone()) };
    if *unit == ArrowUnit::Nanosecond {
        return Ok(Arc::new(times.clone().with_timezone_opt(zone.clone())));
    }
    let microseconds = times.try_unary::<_, TimestampMicrosecondType, _>(|time_ns| match time_ns % 1000 {
        0 => Ok(time_ns / 1000),
        _ => {
            let message = format!(
                "column \"{}\" has a time with nanoseconds, {time_ns} of them since 1970, which microseconds cannot say: \
                 truncate it by date_trunc('microseconds', …), or write nanoseconds",
                field.name()
            );
            Err(FileError::new(FileErrorKind::Unsupported, message))
        }
    })?;
    Ok(Arc::new(microseconds.with_timezone_opt(zone.clone())))
}

fn failed(path: &str, error: ParquetError) -> FileError {
    let source = match &error {
        ParquetError::External(source) => source.downcast_ref::<std::io::Error>(),
        _ => None,
    };
    match (source, &error) {
        (Some(source), _) => FileError::of_io(path, source),
        (None, ParquetError::NYI(words)) => {
            FileError::new(FileErrorKind::Unsupported, format!("\"{path}\": {words}"))
        }
        (None, error) => FileError::new(FileErrorKind::Io, format!("\"{path}\": {error}")),
    }
}
