//! A partitioned export: a query per combination of values, and a file for its rows. A file that is there is done.

use super::journal::Journal;
use super::note;
use super::query::{Collected, columns_of, rows_of};
use super::written::{Done, Written, write_file};
use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Schema};
use nyala_bench::report::progress::Progress;
use nyala_files::partition::{self, Folders};
use nyala_files::{Bucket, Directory, Folder};
use nyala_shell::Client;
use nyala_sql::{quoted_name, quoted_text};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The journal in a folder: readers leave out names that begin with a dot.
const JOURNAL: &str = ".nyala-export.journal";
/// That of an export to a bucket, in the current directory.
const JOURNAL_OF_OBJECTS: &str = "nyala-export.journal";
/// What days are called, if no column is.
pub(super) const DAY: &str = "day";
const TIME: &str = "time";
/// Times are 64 bits of nanoseconds around 1970.
const FIRST_DAY: &str = "1677-09-21";
const SECOND_DAY: &str = "1677-09-22";
const LAST_DAY: &str = "2262-04-11";
/// Files of an export: one that makes more was meant otherwise.
const FILES_MAX: usize = 100_000;

/// What is exported, in the journal.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    /// Whose data it is.
    pub(super) place: String,
    pub(super) database: String,
    pub(super) query: String,
    pub(super) partition_by: Vec<String>,
    /// What the files look like, and where they are.
    pub(super) form: String,
}

/// A file that is done.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    folder: String,
    rows: u64,
    bytes: u64,
}

/// A file that is to be written.
struct Part {
    folder: String,
    /// Which rows are in it.
    condition: String,
}

/// Exports into a folder. Returns rows, bytes and files.
pub(super) fn export(
    client: &Client,
    header: &Header,
    output: &Path,
    written: &Written,
    expected: u64,
) -> Result<(u64, u64, usize), String> {
    let Header { query, database, partition_by: by, .. } = header;
    let begun = Instant::now();
    let schema = columns_of(client, query, database)?;
    let parts = parts_of(client, query, database, by, &schema)?;
    let (folder, journal) = open_folder(output)?;
    if !journal.exists() && !folder.is_empty().map_err(|error| error.to_string())? {
        return Err(format!("{} is not empty, and holds no export that was interrupted", output.display()));
    }
    let (mut journal, lines) = Journal::<Line>::open(&journal, header)?;
    let known: HashMap<String, Done> =
        lines.into_iter().map(|line| (line.folder, Done { rows: line.rows, bytes: line.bytes })).collect();
    let others = schema.fields().iter().map(|field| field.name()).filter(|name| !by.contains(name));
    let others: Vec<String> = others.map(|name| quoted_name(name)).collect();
    if others.is_empty() {
        return Err("every column is in the names of directories: nothing is left for files".to_owned());
    }
    let mut progress = Progress::start("exporting");
    let (mut rows, mut bytes) = (0, 0);
    for part in &parts {
        let done = match known.get(&part.folder) {
            Some(done) => *done,
            None => {
                let own = format!(
                    "SELECT {} FROM ({query}) AS exported WHERE {}",
                    others.join(", "),
                    part.condition
                );
                let path = format!("{}/part-0.{}", part.folder, written.extension);
                let mut watch = |own: u64| {
                    progress.update((rows + own) as f64 / expected.max(1) as f64, || note(rows + own, begun));
                };
                let done = write_file(client, &own, database, &folder, &path, written, &mut watch)?;
                journal.add(&Line { folder: part.folder.clone(), rows: done.rows, bytes: done.bytes })?;
                done
            }
        };
        rows += done.rows;
        bytes += done.bytes;
    }
    progress.clear();
    journal.remove()?;
    Ok((rows, bytes, parts.len()))
}

/// The folder, which is created if it is missing, and where its journal is.
fn open_folder(path: &Path) -> Result<(Folder, PathBuf), String> {
    if let Some(url) = path.to_str().filter(|text| Bucket::is_url(text)) {
        let bucket = Bucket::open(url, &std::env::temp_dir()).map_err(|error| error.to_string())?;
        return Ok((Folder::Bucket(bucket), JOURNAL_OF_OBJECTS.into()));
    }
    std::fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let directory = Directory::open(path).map_err(|error| error.to_string())?;
    Ok((Folder::Directory(directory), path.join(JOURNAL)))
}

/// The files that there will be, from the different values of the columns.
fn parts_of(
    client: &Client,
    query: &str,
    database: &str,
    by: &[String],
    schema: &Schema,
) -> Result<Vec<Part>, String> {
    let is_day = |name: &str| name == DAY && schema.field_with_name(DAY).is_err();
    let mut selected = Vec::new();
    for name in by {
        match schema.field_with_name(name) {
            Ok(field) if literal_kind(field.data_type()).is_some() => selected.push(quoted_name(name)),
            Ok(field) => {
                return Err(format!("rows cannot be partitioned by {name}, which is {}", field.data_type()));
            }
            Err(_) if is_day(name) && schema.field_with_name(TIME).is_ok() => {
                // The zone of a request is UTC.
                selected.push(format!("CAST({} AS date) AS {DAY}", quoted_name(TIME)));
            }
            Err(_) => return Err(format!("there is no column {name} to partition by")),
        }
    }
    let distinct = format!("SELECT DISTINCT {} FROM ({query}) AS exported", selected.join(", "));
    let order: Vec<String> = (1..=by.len()).map(|number| number.to_string()).collect();
    let mut found = Collected::default();
    let ordered = format!("{distinct} ORDER BY {} LIMIT {}", order.join(", "), FILES_MAX + 1);
    rows_of(client, &ordered, database, &mut found)?;
    let has_zone = schema
        .field_with_name(TIME)
        .is_ok_and(|field| matches!(field.data_type(), DataType::Timestamp(_, Some(_))));
    let (mut parts, mut folders) = (Vec::new(), Folders::default());
    for rows in &found.batches {
        for row in 0..rows.num_rows() {
            let mut conditions = Vec::new();
            let mut values = Vec::new();
            for (column, name) in by.iter().enumerate() {
                let value = value_of(rows, column, row)?;
                conditions.push(condition(name, is_day(name), has_zone, value.as_ref()));
                values.push(value.map(|(text, _)| text));
            }
            let named = by.iter().map(String::as_str).zip(values.iter().map(Option::as_deref));
            let folder = partition::folder(named).map_err(|error| error.to_string())?;
            folders.begin(&folder).map_err(|error| error.to_string())?;
            parts.push(Part { folder, condition: conditions.join(" AND ") });
        }
    }
    match parts.len() > FILES_MAX {
        true => Err(format!("the rows have more than {FILES_MAX} different values to partition by")),
        false => Ok(parts),
    }
}

/// How a value of a type is written in SQL; `None`: rows cannot be partitioned by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Literal {
    Plain,
    Text,
    Date,
}

fn literal_kind(data_type: &DataType) -> Option<Literal> {
    match data_type {
        DataType::Dictionary(_, inner) => literal_kind(inner),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Some(Literal::Text),
        DataType::Date32 => Some(Literal::Date),
        DataType::Boolean => Some(Literal::Plain),
        other if other.is_integer() => Some(Literal::Plain),
        _ => None,
    }
}

/// A value as text, and how it is written in SQL.
fn value_of(rows: &RecordBatch, column: usize, row: usize) -> Result<Option<(String, Literal)>, String> {
    use nyala_postgres::value::{Column, Format, types::ColumnType};
    let array = rows.column(column);
    let is_null = match array.as_any_dictionary_opt() {
        Some(tags) => tags.logical_nulls().is_some_and(|nulls| nulls.is_null(row)),
        None => array.is_null(row),
    };
    if is_null {
        return Ok(None);
    }
    let schema = rows.schema();
    let field = schema.field(column);
    let literal = literal_kind(field.data_type()).ok_or_else(|| format!("{} has no text", field.name()))?;
    let text = || {
        let own = ColumnType::of_field(field)?;
        let mut text = Vec::new();
        Column::of(array, own, Format::Text)?.write_exactly(row, &mut text)?;
        Ok(text)
    };
    let text = text().map_err(|failure: nyala_postgres::error::Failure| failure.message)?;
    Ok(Some((String::from_utf8_lossy(&text).into_owned(), literal)))
}

/// Which rows have a value.
fn condition(name: &str, is_day: bool, has_zone: bool, value: Option<&(String, Literal)>) -> String {
    let column = quoted_name(if is_day { TIME } else { name });
    match value {
        None => format!("{column} IS NULL"),
        Some((day, _)) if is_day => {
            let (kind, zone) = if has_zone { ("TIMESTAMPTZ", "+00") } else { ("TIMESTAMP", "") };
            let moment = |day: &str| format!("{kind} '{day} 00:00:00{zone}'");
            let from = format!("{column} >= {}", moment(day));
            // The first day begins before the first time that there is, and the last one ends after the last.
            match &**day {
                FIRST_DAY => format!("{column} < {}", moment(SECOND_DAY)),
                LAST_DAY => from,
                _ => format!("{from} AND {column} < {} + INTERVAL '1 day'", moment(day)),
            }
        }
        Some((own, Literal::Text)) => format!("{column} = {}", quoted_text(own)),
        Some((own, Literal::Date)) => format!("{column} = DATE {}", quoted_text(own)),
        Some((own, Literal::Plain)) => format!("{column} = {}", plain(own)),
    }
}

/// Booleans are written as letters in PostgreSQL's text form.
fn plain(own: &str) -> &str {
    match own {
        "t" => "true",
        "f" => "false",
        number => number,
    }
}
