//! Rows as text or bytes, for clients that ask over HTTP.
//!
//! JSON, JSON lines and CSV are written by Arrow's own writers; `arrow` is the stream format of Arrow IPC.

use crate::error::{SqlError, SqlResult};
use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use datafusion::arrow::csv::writer as csv;
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::arrow::json::writer as json;
use datafusion::arrow::json::writer::{JsonArray, LineDelimited};
use datafusion::error::DataFusionError;

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RowFormat {
    /// An array of objects.
    #[default]
    Json,
    /// An object per line.
    JsonLines,
    /// Comma-separated values under a line of names.
    Csv,
    /// Arrow IPC's stream.
    Arrow,
}

/// The media types of the forms, the usual one of each first.
const MEDIA_TYPES: [(RowFormat, &str); 7] = [
    (RowFormat::Json, "application/json"),
    (RowFormat::JsonLines, "application/jsonl"),
    (RowFormat::Csv, "text/csv"),
    (RowFormat::Arrow, "application/vnd.apache.arrow.stream"),
    (RowFormat::JsonLines, "application/x-ndjson"),
    (RowFormat::JsonLines, "application/json-lines"),
    (RowFormat::Csv, "application/csv"),
];

impl RowFormat {
    /// The form of a media type, as it stands in an `Accept` header; `None` if there is no such form.
    pub fn of_media_type(media_type: &str) -> Option<Self> {
        if media_type == "*/*" || media_type == "application/*" {
            return Some(Self::default());
        }
        MEDIA_TYPES.iter().find(|(_, own)| own.eq_ignore_ascii_case(media_type)).map(|(format, _)| *format)
    }

    /// Its media type.
    pub fn media_type(self) -> &'static str {
        MEDIA_TYPES.iter().find(|(own, _)| *own == self).expect("every form has one").1
    }
}

/// Writes an answer.
pub struct RowWriter(Writer);

enum Writer {
    Json(json::Writer<Vec<u8>, JsonArray>),
    JsonLines(json::Writer<Vec<u8>, LineDelimited>),
    /// What is written; its writer keeps nothing from batch to batch.
    Csv(Vec<u8>),
    Arrow(StreamWriter<Vec<u8>>),
}

impl RowWriter {
    /// A writer of rows with these columns.
    pub fn new(format: RowFormat, schema: &SchemaRef) -> SqlResult<Self> {
        let json = || json::WriterBuilder::new().with_explicit_nulls(true);
        Ok(Self(match format {
            RowFormat::Json => Writer::Json(json().build(Vec::new())),
            RowFormat::JsonLines => Writer::JsonLines(json().build(Vec::new())),
            RowFormat::Csv => {
                let mut out = Vec::new();
                // An answer without rows has names all the same.
                write_csv(&RecordBatch::new_empty(schema.clone()), true, &mut out)?;
                Writer::Csv(out)
            }
            RowFormat::Arrow => Writer::Arrow(StreamWriter::try_new(Vec::new(), schema).map_err(failed)?),
        }))
    }

    /// Writes more rows.
    pub fn write(&mut self, rows: &RecordBatch) -> SqlResult<()> {
        match &mut self.0 {
            Writer::Json(writer) => writer.write(rows).map_err(failed),
            Writer::JsonLines(writer) => writer.write(rows).map_err(failed),
            Writer::Csv(out) => write_csv(rows, false, out),
            Writer::Arrow(writer) => writer.write(rows).map_err(failed),
        }
    }

    /// Ends the answer.
    pub fn finish(&mut self) -> SqlResult<()> {
        match &mut self.0 {
            Writer::Json(writer) => writer.finish().map_err(failed),
            Writer::JsonLines(writer) => writer.finish().map_err(failed),
            Writer::Csv(_) => Ok(()),
            Writer::Arrow(writer) => writer.finish().map_err(failed),
        }
    }

    /// What is written and not taken yet.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        match &mut self.0 {
            Writer::Json(writer) => writer.get_mut(),
            Writer::JsonLines(writer) => writer.get_mut(),
            Writer::Csv(out) => out,
            Writer::Arrow(writer) => writer.get_mut(),
        }
    }
}

fn write_csv(rows: &RecordBatch, header: bool, out: &mut Vec<u8>) -> SqlResult<()> {
    csv::WriterBuilder::new().with_header(header).build(out).write(rows).map_err(failed)
}

fn failed(error: ArrowError) -> SqlError {
    DataFusionError::from(error).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Int64Array, StringArray};
    use arrow_schema::{DataType, Field, Schema};
    use std::sync::Arc;

    #[test]
    fn rows_are_written_in_every_form() {
        let fields = [Field::new("a", DataType::Int64, true), Field::new("b", DataType::Utf8, true)];
        let schema: SchemaRef = Arc::new(Schema::new(fields.to_vec()));
        let (a, b) = (Int64Array::from(vec![Some(1), None]), StringArray::from(vec![Some("x,\""), None]));
        let rows = RecordBatch::try_new(schema.clone(), vec![Arc::new(a), Arc::new(b)]).unwrap();
        let written = |format, batches: usize| {
            let mut writer = RowWriter::new(format, &schema).unwrap();
            (0..batches).for_each(|_| writer.write(&rows).unwrap());
            writer.finish().unwrap();
            std::mem::take(writer.buffer())
        };
        let text = |format, batches| String::from_utf8(written(format, batches)).unwrap();
        let one = r#"{"a":1,"b":"x,\""},{"a":null,"b":null}"#;
        assert_eq!(text(RowFormat::Json, 2), format!("[{one},{one}]"));
        assert_eq!(text(RowFormat::Json, 0), "[]");
        assert_eq!(text(RowFormat::JsonLines, 1), one.replace("},{", "}\n{") + "\n");
        assert_eq!(text(RowFormat::Csv, 0), "a,b\n");
        assert_eq!(text(RowFormat::Csv, 2), "a,b\n1,\"x,\"\"\"\n,\n1,\"x,\"\"\"\n,\n");
        let bytes = written(RowFormat::Arrow, 2);
        let read = datafusion::arrow::ipc::reader::StreamReader::try_new(&bytes[..], None).unwrap();
        assert_eq!(read.map(|batch| batch.unwrap()).collect::<Vec<_>>(), [rows.clone(), rows.clone()]);
    }
}
