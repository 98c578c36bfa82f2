//! Rows as text or bytes, for clients that ask over HTTP.
//!
//! JSON, JSON lines and CSV are written by Arrow's own writers; `arrow` is the stream format of Arrow IPC. Tables are for
//! programs that show rows to people ([`table`]).

mod table;

use crate::error::{SqlError, SqlResult};
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};
use datafusion::arrow::csv::writer as csv;
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::arrow::json::writer as json;
use datafusion::arrow::json::writer::{JsonArray, LineDelimited};
use datafusion::error::DataFusionError;
use std::collections::HashSet;
use std::sync::Arc;

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
    /// A line with the columns, and an array per line.
    Table,
}

/// The media types of the forms, the usual one of each first.
const MEDIA_TYPES: [(RowFormat, &str); 8] = [
    (RowFormat::Json, "application/json"),
    (RowFormat::JsonLines, "application/jsonl"),
    (RowFormat::Csv, "text/csv"),
    (RowFormat::Arrow, "application/vnd.apache.arrow.stream"),
    (RowFormat::Table, "application/vnd.nyala.table+jsonl"),
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
    /// The columns have names of their own: an object has each name once.
    Json(json::Writer<Vec<u8>, JsonArray>, SchemaRef),
    JsonLines(json::Writer<Vec<u8>, LineDelimited>, SchemaRef),
    /// What is written; its writer keeps nothing from batch to batch.
    Csv(Vec<u8>),
    Arrow(StreamWriter<Vec<u8>>),
    Table(Vec<u8>),
}

impl RowWriter {
    /// A writer of rows with these columns.
    pub fn new(format: RowFormat, schema: &SchemaRef) -> SqlResult<Self> {
        let json = || json::WriterBuilder::new().with_explicit_nulls(true);
        Ok(Self(match format {
            RowFormat::Json => Writer::Json(json().build(Vec::new()), told_apart(schema)),
            RowFormat::JsonLines => Writer::JsonLines(json().build(Vec::new()), told_apart(schema)),
            RowFormat::Csv => {
                let mut out = Vec::new();
                // An answer without rows has names all the same.
                write_csv(&RecordBatch::new_empty(schema.clone()), true, &mut out)?;
                Writer::Csv(out)
            }
            RowFormat::Arrow => Writer::Arrow(StreamWriter::try_new(Vec::new(), schema).map_err(failed)?),
            RowFormat::Table => Writer::Table(table::heading(schema)),
        }))
    }

    /// Writes more rows.
    pub fn write(&mut self, rows: &RecordBatch) -> SqlResult<()> {
        match &mut self.0 {
            Writer::Json(writer, names) => {
                renamed(rows, names).and_then(|rows| writer.write(&rows)).map_err(failed)
            }
            Writer::JsonLines(writer, names) => {
                renamed(rows, names).and_then(|rows| writer.write(&rows)).map_err(failed)
            }
            Writer::Csv(out) => write_csv(rows, false, out),
            Writer::Arrow(writer) => writer.write(rows).map_err(failed),
            Writer::Table(out) => table::write(rows, out).map_err(failed),
        }
    }

    /// Ends the answer.
    pub fn finish(&mut self) -> SqlResult<()> {
        match &mut self.0 {
            Writer::Json(writer, _) => writer.finish().map_err(failed),
            Writer::JsonLines(writer, _) => writer.finish().map_err(failed),
            Writer::Csv(_) | Writer::Table(_) => Ok(()),
            Writer::Arrow(writer) => writer.finish().map_err(failed),
        }
    }

    /// What is written and not taken yet.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        match &mut self.0 {
            Writer::Json(writer, _) => writer.get_mut(),
            Writer::JsonLines(writer, _) => writer.get_mut(),
            Writer::Csv(out) | Writer::Table(out) => out,
            Writer::Arrow(writer) => writer.get_mut(),
        }
    }
}

/// Columns of which no two have one name: the second `count` is `count_2`.
fn told_apart(schema: &SchemaRef) -> SchemaRef {
    let mut taken: HashSet<String> = HashSet::new();
    let mut fields: Vec<Field> = schema.fields().iter().map(|field| field.as_ref().clone()).collect();
    for field in &mut fields {
        let numbered = (2..).map(|number| format!("{}_{number}", field.name()));
        let free = std::iter::once(field.name().clone()).chain(numbered).find(|name| !taken.contains(name));
        let name = free.expect("numbers do not end");
        taken.insert(name.clone());
        field.set_name(name);
    }
    Arc::new(Schema::new(fields))
}

/// The same rows under other names.
fn renamed(rows: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), rows.columns().to_vec(), &options)
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
    use arrow_schema::DataType;

    #[test]
    fn an_object_has_each_name_once() {
        let fields = ["count", "count", "count_2"].map(|name| Field::new(name, DataType::Int64, true));
        let schema: SchemaRef = Arc::new(Schema::new(fields.to_vec()));
        let column = |value| Arc::new(Int64Array::from(vec![value])) as arrow_array::ArrayRef;
        let rows = RecordBatch::try_new(schema.clone(), vec![column(1), column(2), column(3)]).unwrap();
        let mut writer = RowWriter::new(RowFormat::Json, &schema).unwrap();
        writer.write(&rows).unwrap();
        writer.finish().unwrap();
        assert_eq!(&writer.buffer()[..], br#"[{"count":1,"count_2":2,"count_2_2":3}]"#);
    }

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
