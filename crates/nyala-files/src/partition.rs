//! Rows in order of some columns, spread over files: one for each combination of their values.
//!
//! Folders are named as Hive does, `host=a/day=2026-01-31/part-0.parquet`, which pyarrow, DuckDB, polars and Spark read as
//! columns. The rows come in order, so one file is open at a time.

use crate::error::{FileError, FileErrorKind, FileResult};
use arrow_array::RecordBatch;
use arrow_ord::partition::partition;
use arrow_schema::{ArrowError, Schema};
use std::collections::HashSet;
use std::ops::Range;

/// What Hive calls the folder of NULL.
const NULL: &str = "__HIVE_DEFAULT_PARTITION__";
/// The longest name of a folder. Most file systems have 255.
const NAME_MAX_BYTES: usize = 240;

/// The ranges of rows with the same values in the columns. `columns` is not empty.
pub fn ranges(rows: &RecordBatch, columns: &[usize]) -> FileResult<Vec<Range<usize>>> {
    let keys: Vec<_> = columns.iter().map(|column| rows.column(*column).clone()).collect();
    Ok(partition(&keys).map_err(internal)?.ranges())
}

/// The folder of a row, from the names of the columns and their values as text; `None` is NULL.
pub fn folder<'a>(values: impl Iterator<Item = (&'a str, Option<&'a str>)>) -> FileResult<String> {
    let mut path = String::new();
    for (name, value) in values {
        if name == "\0" || value == Some("\0") {
            // It would be read as an empty text.
            let message = format!("a zero byte of {name:?} cannot be the name of a directory");
            return Err(FileError::new(FileErrorKind::Unsupported, message));
        }
        let part = format!("{}={}", escaped(name), value.map_or(NULL.to_owned(), escaped));
        if part.len() > NAME_MAX_BYTES {
            let message = format!("the value of \"{name}\" is too long for the name of a directory");
            return Err(FileError::new(FileErrorKind::Unsupported, message));
        }
        if !path.is_empty() {
            path.push('/');
        }
        path.push_str(&part);
    }
    Ok(path)
}

/// The folders that rows were written to: as these come in order, none comes twice.
#[derive(Debug, Default)]
pub struct Folders(HashSet<String>);

impl Folders {
    /// Begins one.
    ///
    /// # Errors
    /// Unsupported if there is one of this name: other values of the columns are written in the same way, and its files would be
    /// written over.
    pub fn begin(&mut self, name: &str) -> FileResult<()> {
        match self.0.insert(name.to_owned()) {
            true => Ok(()),
            false => {
                let message = format!("several values to partition by have the directory \"{name}\"");
                Err(FileError::new(FileErrorKind::Unsupported, message))
            }
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

/// The rows without the columns that are in the names of folders.
pub fn without(rows: &RecordBatch, columns: &[usize]) -> FileResult<RecordBatch> {
    let others: Vec<usize> = (0..rows.num_columns()).filter(|column| !columns.contains(column)).collect();
    rows.project(&others).map_err(internal)
}

/// The same of a schema.
pub fn schema_without(schema: &Schema, columns: &[usize]) -> FileResult<Schema> {
    let others: Vec<usize> = (0..schema.fields().len()).filter(|column| !columns.contains(column)).collect();
    if others.is_empty() {
        let message = "every column is in the names of directories: nothing is left for files";
        return Err(FileError::new(FileErrorKind::Unsupported, message));
    }
    schema.project(&others).map_err(internal)
}

/// The names and values in the path of a file that [`folder`] has named.
pub fn values_of(path: &str) -> Vec<(String, Option<String>)> {
    let folders = path.split('/').filter_map(|part| part.split_once('='));
    let value = |value: &str| (value != NULL).then(|| unescaped(value));
    folders.map(|(name, own)| (unescaped(name), value(own))).collect()
}

/// Letters that mean something in paths, on any system, as `%` and two digits.
fn escaped(text: &str) -> String {
    if text.is_empty() {
        // A folder `host=` is NULL for some readers.
        return "%".to_owned() + "00";
    }
    if text == NULL {
        // It is a text all the same.
        return format!("%{:02X}{}", NULL.as_bytes()[0], &NULL[1..]);
    }
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '"' | '#' | '%' | '\'' | '*' | '/' | ':' | '=' | '?' | '\\' | '{' | '}' | '[' | ']' | '^'
            | '<' | '>' | '|' => out.push_str(&format!("%{:02X}", u32::from(letter))),
            letter if letter.is_ascii_control() => out.push_str(&format!("%{:02X}", u32::from(letter))),
            letter => out.push(letter),
        }
    }
    out
}

fn unescaped(text: &str) -> String {
    if text == "%00" {
        return String::new();
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        // A number may have a sign, an escape may not.
        let digits = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_owned())
}

fn internal(error: ArrowError) -> FileError {
    FileError::new(FileErrorKind::Io, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::StringArray;
    use std::sync::Arc;

    #[test]
    fn folders_say_what_is_in_them() {
        for value in [
            Some("a"),
            Some(""),
            None,
            Some("a/b=c%2F"),
            Some(".."),
            Some("ä\u{1}\n"),
            Some("%00"),
            Some(NULL),
        ] {
            let path = folder([("host", value), ("d=y", Some("1"))].into_iter()).unwrap();
            assert_eq!(path.matches('/').count(), 1, "{path}");
            let values = values_of(&format!("{path}/part-0.parquet"));
            let own = |value: Option<&str>| value.map(str::to_owned);
            assert_eq!(values, [("host".to_owned(), own(value)), ("d=y".to_owned(), own(Some("1")))]);
        }
        assert_eq!(folder([("host", Some("a:b"))].into_iter()).unwrap(), "host=a%3Ab");
        assert!(folder([("host", Some("\0"))].into_iter()).is_err());
        for text in ["%+5", "%", "%5", "%ä"] {
            let found = values_of(&format!("host={text}/x.parquet"));
            assert_eq!(found, [("host".to_owned(), Some(text.to_owned()))], "no escape");
        }
        assert!(folder([("host", Some(&*"x".repeat(300)))].into_iter()).is_err());
        let mut folders = Folders::default();
        assert!(
            folders.begin("a=1").is_ok() && folders.begin("a=2").is_ok() && folders.begin("a=1").is_err()
        );
    }

    #[test]
    fn rows_of_one_value_are_a_range() {
        let hosts = StringArray::from(vec![None, Some("a"), Some("a"), Some("b")]);
        let zones = StringArray::from(vec![Some("x"), Some("x"), Some("y"), Some("y")]);
        let rows =
            RecordBatch::try_from_iter([("host", Arc::new(hosts) as _), ("zone", Arc::new(zones) as _)]);
        let rows = rows.unwrap();
        assert_eq!(ranges(&rows, &[0]).unwrap(), [0..1, 1..3, 3..4]);
        assert_eq!(ranges(&rows, &[0, 1]).unwrap(), [0..1, 1..2, 2..3, 3..4]);
        assert_eq!(without(&rows, &[0]).unwrap().schema().field(0).name(), "zone");
        assert!(schema_without(&rows.schema(), &[0, 1]).is_err());
    }
}
