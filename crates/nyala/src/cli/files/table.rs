//! Rows of files on their way into a table: batches as Arrow IPC, or pieces of CSV, each for a COPY of its own.

use super::csv::{Records, Suffix};
use super::inputs::Input;
use super::parts::DAY;
use super::pieces::ImportedPieces;
use super::query::columns_of;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray, new_null_array};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use nyala_files::parquet::ParquetInput;
use nyala_files::partition;
use nyala_shell::Client;
use nyala_sql::quoted_name;
use std::io::Read;
use std::sync::Arc;

/// A piece is sent when it has about so many bytes: the server takes 16 MiB.
const PIECE_BYTES: usize = 6 << 20;
/// The media type of batches.
const ARROW: &str = "application/vnd.apache.arrow.stream";
/// Rows of a batch are sent apart so that one is not longer than that.
const PIECE_ROWS: usize = 1 << 16;
/// What of a file is read at once.
const READ_BYTES: usize = 1 << 20;

/// Where rows go.
pub(super) struct Destination<'a> {
    pub(super) database: &'a str,
    /// The name, as it stands in SQL.
    pub(super) table: String,
}

/// A Parquet file, and the columns of the folders that it is in.
pub(super) struct ParquetRows {
    input: ParquetInput,
    folders: Vec<(String, Option<String>)>,
    pub(super) schema: SchemaRef,
}

impl ParquetRows {
    /// Opens a file. `is_known` says which columns its destination has.
    pub(super) fn open(input: &Input, is_known: impl Fn(&str) -> bool) -> Result<Self, String> {
        let shown = input.shown.clone();
        let file = input.open()?;
        let opened = ParquetInput::open(file, &shown).map_err(|error| error.to_string())?;
        let own = opened.schema().clone();
        let folders = folder_columns(input, |name| own.field_with_name(name).is_ok(), is_known);
        let mut fields: Vec<Field> = own.fields().iter().map(|field| field.as_ref().clone()).collect();
        fields.extend(folders.iter().map(|(name, _)| Field::new(name, DataType::Utf8, true)));
        Ok(Self { input: opened, folders, schema: Arc::new(Schema::new(fields)) })
    }

    /// How many there are.
    pub(super) fn rows(&self) -> u64 {
        self.input.rows()
    }

    /// Whether a column is not in the file, but in the names of its folders.
    pub(super) fn is_of_folders(&self, place: usize) -> bool {
        place >= self.schema.fields().len() - self.folders.len()
    }

    /// The next ones.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>, String> {
        let Some(rows) = self.input.next_rows().map_err(|error| error.to_string())? else { return Ok(None) };
        let mut columns = rows.columns().to_vec();
        for (_, value) in &self.folders {
            columns.push(match value {
                Some(text) => Arc::new(StringArray::from(vec![text.as_str(); rows.num_rows()])) as ArrayRef,
                None => new_null_array(&DataType::Utf8, rows.num_rows()),
            });
        }
        let rows = RecordBatch::try_new(self.schema.clone(), columns);
        rows.map(Some).map_err(|error| error.to_string())
    }
}

/// The columns in the names of a file's folders, but for those that the file has as well. The day that an export computes is none,
/// unless the destination has a column of that name: the times are in the file.
fn folder_columns(
    input: &Input,
    is_in_file: impl Fn(&str) -> bool,
    is_known: impl Fn(&str) -> bool,
) -> Vec<(String, Option<String>)> {
    let folders = input.below.rsplit_once('/').map_or("", |(folders, _)| folders);
    let columns = partition::values_of(folders).into_iter();
    columns.filter(|(name, _)| !is_in_file(name) && (name != DAY || is_known(name))).collect()
}

/// Imports a Parquet file. Returns its rows.
pub(super) fn import_parquet(
    client: &Client,
    input: &Input,
    to: &Destination<'_>,
    pieces: &mut ImportedPieces<'_>,
) -> Result<u64, String> {
    let all = format!("SELECT * FROM {}", to.table);
    let columns = columns_of(client, &all, to.database)?;
    let mut file = ParquetRows::open(input, |name| columns.field_with_name(name).is_ok())?;
    let total = file.rows();
    let (done, bytes) = (pieces.done_rows(input), input.bytes);
    let names: Vec<String> = file.schema.fields().iter().map(|field| quoted_name(field.name())).collect();
    let statement = format!("COPY {} ({}) FROM STDIN (FORMAT arrow)", to.table, names.join(", "));
    let write = |body: &[u8]| client.copy(&statement, to.database, ARROW, body);
    let mut piece = Piece::new(&file.schema)?;
    let mut at = 0;
    while let Some(rows) = file.next()? {
        let begin = at;
        at += rows.num_rows() as u64;
        // What was sent before is skipped.
        let skipped = done.saturating_sub(begin).min(rows.num_rows() as u64) as usize;
        let mut from = skipped;
        while from < rows.num_rows() {
            let taken = next_rows(&rows, from);
            piece.add(&taken)?;
            from += taken.num_rows();
            if piece.is_full() {
                piece.send(input, begin + from as u64, pieces, write)?;
            }
        }
        pieces.watch((at as f64 / total.max(1) as f64 * bytes as f64) as u64);
    }
    if piece.rows > 0 {
        piece.send(input, at, pieces, write)?;
    }
    Ok(at)
}

/// The rows from there on that make half a piece at most, but one at least.
fn next_rows(rows: &RecordBatch, from: usize) -> RecordBatch {
    let mut count = PIECE_ROWS.min(rows.num_rows() - from);
    let bytes = |count| rows.columns().iter().map(|column| bytes_of(column, from, count)).sum::<usize>();
    while count > 1 && bytes(count) > PIECE_BYTES / 2 {
        count = count.div_ceil(2);
    }
    rows.slice(from, count)
}

/// About how many bytes some rows of a column have. A few of them may have nearly all bytes of texts.
fn bytes_of(column: &ArrayRef, from: usize, count: usize) -> usize {
    let between = |ends: &[i32]| (ends[from + count] - ends[from]) as usize;
    let between_large = |ends: &[i64]| (ends[from + count] - ends[from]) as usize;
    let rows = from..from + count;
    match column.data_type() {
        DataType::Utf8 => between(column.as_string::<i32>().offsets()),
        DataType::Binary => between(column.as_binary::<i32>().offsets()),
        DataType::LargeUtf8 => between_large(column.as_string::<i64>().offsets()),
        DataType::LargeBinary => between_large(column.as_binary::<i64>().offsets()),
        DataType::Utf8View => rows.map(|row| column.as_string_view().value(row).len()).sum(),
        DataType::BinaryView => rows.map(|row| column.as_binary_view().value(row).len()).sum(),
        _ => column.get_array_memory_size() / column.len().max(1) * count,
    }
}

/// Rows that are sent together.
struct Piece {
    schema: SchemaRef,
    writer: StreamWriter<Vec<u8>>,
    rows: u64,
}

impl Piece {
    fn new(schema: &SchemaRef) -> Result<Self, String> {
        let writer = StreamWriter::try_new(Vec::new(), schema).map_err(|error| error.to_string())?;
        Ok(Self { schema: schema.clone(), writer, rows: 0 })
    }

    fn add(&mut self, rows: &RecordBatch) -> Result<(), String> {
        self.writer.write(rows).map_err(|error| error.to_string())?;
        self.rows += rows.num_rows() as u64;
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.writer.get_ref().len() >= PIECE_BYTES
    }

    fn send(
        &mut self,
        input: &Input,
        until: u64,
        pieces: &mut ImportedPieces<'_>,
        write: impl FnOnce(&[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        let own = std::mem::replace(self, Self::new(&self.schema)?);
        let body = own.writer.into_inner().map_err(|error| error.to_string())?;
        let first = until - own.rows + 1;
        pieces.send(input, until, own.rows, || {
            write(&body).map(|()| 0).map_err(|words| format!("rows {first} to {until}: {words}"))
        })
    }
}

/// Imports a CSV file. Returns its rows.
pub(super) fn import_csv(
    client: &Client,
    input: &Input,
    to: &Destination<'_>,
    columns: &[String],
    pieces: &mut ImportedPieces<'_>,
) -> Result<u64, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", input.shown);
    let mut file = input.open()?;
    let mut records = Records::default();
    let mut buffer = vec![0; READ_BYTES];
    let known = columns_of(client, &format!("SELECT * FROM {}", to.table), to.database)?;
    let folders = |names: &[String]| {
        let is_known = |name: &str| known.field_with_name(name).is_ok();
        folder_columns(input, |name| names.iter().any(|own| own == name), is_known)
    };
    let (mut names, mut behind) = (Vec::new(), Suffix::default());
    let begin = |of_file: Vec<String>| {
        let (of_folders, values): (Vec<_>, Vec<_>) = folders(&of_file).into_iter().unzip();
        ([of_file, of_folders].concat(), Suffix::of(&values))
    };
    if !columns.is_empty() {
        (names, behind) = begin(columns.to_vec());
    }
    let (mut read_bytes, mut at, done) = (0, 0, pieces.done_rows(input));
    let mut body = Vec::new();
    let mut in_body = 0;
    loop {
        let length = file.read(&mut buffer).map_err(failed)?;
        records.push(&buffer[..length]);
        read_bytes += length as u64;
        while let Some(record) = records.next(length == 0) {
            if names.is_empty() {
                let of_file = record.names().ok_or_else(|| {
                    format!("{}: the first line has no names of columns: say --columns", input.shown)
                })?;
                (names, behind) = begin(of_file);
                continue;
            }
            at += 1;
            if at > done {
                behind.append(&record, &mut body);
                in_body += 1;
            }
            if body.len() >= PIECE_BYTES {
                send_csv(client, to, &names, input, at, &mut in_body, &mut body, pieces)?;
            }
        }
        if length == 0 {
            break;
        }
        records
            .check()
            .map_err(|words| format!("{}, behind line {}: {words}", input.shown, records.line()))?;
        pieces.watch(read_bytes);
    }
    if in_body > 0 {
        send_csv(client, to, &names, input, at, &mut in_body, &mut body, pieces)?;
    }
    Ok(at)
}

#[allow(clippy::too_many_arguments, reason = "the parts of a piece of a file, named at both calls")]
fn send_csv(
    client: &Client,
    to: &Destination<'_>,
    names: &[String],
    input: &Input,
    until: u64,
    rows: &mut u64,
    body: &mut Vec<u8>,
    pieces: &mut ImportedPieces<'_>,
) -> Result<(), String> {
    let names: Vec<String> = names.iter().map(|name| quoted_name(name)).collect();
    let statement = format!("COPY {} ({}) FROM STDIN (FORMAT csv)", to.table, names.join(", "));
    let count = std::mem::take(rows);
    let first = until - count + 1;
    pieces.send(input, until, count, || {
        client
            .copy(&statement, to.database, "text/csv", body)
            .map(|()| 0)
            .map_err(|words| format!("rows {first} to {until} (lines are counted from row {first}): {words}"))
    })?;
    body.clear();
    Ok(())
}
