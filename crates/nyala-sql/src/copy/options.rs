//! What the options of a COPY ask for, with the errors of those that do not go together.

use super::statement::{CopyEnd, OptionValue, WrittenOption};
use crate::error::{SqlError, SqlResult, SqlState};
use nyala_files::parquet::{Compression, ParquetOptions, ROW_GROUP_ROWS_MAX, TimeUnit};
use std::fmt::Display;

/// The form of the rows that a client sends or gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CopyKind {
    /// A line per row, with escapes.
    #[default]
    Text,
    /// Comma-separated values.
    Csv,
    /// PostgreSQL's binary form.
    Binary,
    /// Parquet, in files.
    Parquet,
    /// Arrow IPC's stream, over HTTP.
    Arrow,
}

/// The first line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CopyHeader {
    /// It is a row.
    #[default]
    Absent,
    /// It has names, which are not looked at.
    Names,
    /// It has the names of the columns.
    Match,
}

/// What the rows look like.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CopyForm {
    /// Which of the forms it is.
    pub kind: CopyKind,
    /// The first line.
    pub header: CopyHeader,
    /// What stands between values.
    pub delimiter: u8,
    /// What stands for NULL.
    pub null: String,
    /// What stands around values of CSV.
    pub quote: u8,
    /// What stands before quotes in such values.
    pub escape: u8,
    /// Per column whether all its values are quoted.
    pub force_quote: Vec<bool>,
    /// Per column whether what stands for NULL is a value.
    pub force_not_null: Vec<bool>,
    /// Per column whether what stands for NULL is NULL in quotes, too.
    pub force_null: Vec<bool>,
}

/// What files may be asked for, beside the form of rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FileOptions {
    pub(crate) parquet: ParquetOptions,
    pub(crate) partition_by: Vec<String>,
}

/// Options before it is known which columns there are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct CopyOptions {
    form: CopyForm,
    force_quote: Option<Columns>,
    force_not_null: Option<Columns>,
    force_null: Option<Columns>,
    freeze: bool,
    file: FileOptions,
}

/// Columns that an option names.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Columns {
    All,
    Some(Vec<String>),
}

/// The texts of options that were given.
#[derive(Default)]
struct Given {
    format: Option<CopyKind>,
    header: Option<CopyHeader>,
    freeze: Option<bool>,
    delimiter: Option<String>,
    null: Option<String>,
    quote: Option<String>,
    escape: Option<String>,
    force_quote: Option<Columns>,
    force_not_null: Option<Columns>,
    force_null: Option<Columns>,
    encoding: Option<String>,
    compression: Option<Compression>,
    row_group_rows: Option<usize>,
    time_unit: Option<TimeUnit>,
    partition_by: Option<Vec<String>>,
}

impl CopyOptions {
    /// Judges options as they are written, for a file or a client.
    pub(crate) fn of(written: &[WrittenOption], is_from: bool, end: &CopyEnd) -> SqlResult<Self> {
        let mut given = Given::default();
        written.iter().try_for_each(|option| given.add(option, is_from))?;
        let usual = match end {
            CopyEnd::File(path) if path.ends_with(".parquet") => CopyKind::Parquet,
            _ => CopyKind::default(),
        };
        let kind = given.format.unwrap_or(usual);
        let file = given.file(kind, is_from, end)?;
        let form = given.form(kind, is_from)?;
        let Given { force_quote, force_not_null, force_null, freeze, .. } = given;
        Ok(Self { form, force_quote, force_not_null, force_null, freeze: freeze.unwrap_or(false), file })
    }

    /// What is asked of a file.
    pub(crate) fn file(&self) -> &FileOptions {
        &self.file
    }

    /// Which of the forms it is.
    pub(crate) fn kind(&self) -> CopyKind {
        self.form.kind
    }

    /// Whether it is asked for what only a table of the same transaction can have.
    pub(crate) fn is_frozen(&self) -> bool {
        self.freeze
    }

    /// The form of rows of these columns. `others` says that a name is another column of the table, or why it is none.
    pub(crate) fn form(
        self,
        columns: &[&str],
        others: impl Fn(&str) -> SqlResult<()>,
    ) -> SqlResult<CopyForm> {
        let Self { mut form, force_quote, force_not_null, force_null, .. } = self;
        form.force_quote = flags(force_quote, "FORCE_QUOTE", columns, &others)?;
        form.force_not_null = flags(force_not_null, "FORCE_NOT_NULL", columns, &others)?;
        form.force_null = flags(force_null, "FORCE_NULL", columns, &others)?;
        Ok(form)
    }
}

fn flags(
    named: Option<Columns>,
    option: &str,
    columns: &[&str],
    others: &impl Fn(&str) -> SqlResult<()>,
) -> SqlResult<Vec<bool>> {
    let names = match named {
        None => return Ok(vec![false; columns.len()]),
        Some(Columns::All) => return Ok(vec![true; columns.len()]),
        Some(Columns::Some(names)) => names,
    };
    let mut flags = vec![false; columns.len()];
    for name in names {
        let Some(place) = columns.iter().position(|column| *column == name) else {
            others(&name)?;
            let message = format!("{option} column \"{name}\" not referenced by COPY");
            return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
        };
        if std::mem::replace(&mut flags[place], true) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
    }
    Ok(flags)
}

impl Given {
    fn add(&mut self, option: &WrittenOption, is_from: bool) -> SqlResult<()> {
        let WrittenOption { name, value, place } = option;
        let placed = |code, message: String| SqlError::new(code, format!("{message}{place}"));
        let is_new = match name.as_str() {
            "format" => {
                let kind = match &*text(name, value)? {
                    "text" => CopyKind::Text,
                    "csv" => CopyKind::Csv,
                    "binary" => CopyKind::Binary,
                    "parquet" => CopyKind::Parquet,
                    "arrow" => CopyKind::Arrow,
                    other => {
                        let message = format!("COPY format \"{other}\" not recognized");
                        return Err(placed(SqlState::INVALID_PARAMETER, message));
                    }
                };
                self.format.replace(kind).is_none()
            }
            "time_unit" => {
                let unit = text(name, value)?.parse();
                let unit = unit.map_err(|words| placed(SqlState::INVALID_PARAMETER, words))?;
                self.time_unit.replace(unit).is_none()
            }
            "compression" => {
                let compression = text(name, value)?.parse();
                let compression = compression.map_err(|words| placed(SqlState::INVALID_PARAMETER, words))?;
                self.compression.replace(compression).is_none()
            }
            "row_group_size" => {
                let written = text(name, value)?;
                let rows = written.parse().ok().filter(|rows| (1..=ROW_GROUP_ROWS_MAX).contains(rows));
                let rows = rows.ok_or_else(|| {
                    let words = format!("row_group_size is a number of rows, 1 to {ROW_GROUP_ROWS_MAX}");
                    placed(SqlState::INVALID_PARAMETER, words)
                })?;
                self.row_group_rows.replace(rows).is_none()
            }
            "partition_by" => {
                let names = match value {
                    OptionValue::List(names) => names.clone(),
                    OptionValue::Text(name) => vec![name.clone()],
                    _ => {
                        let words = "argument to option \"partition_by\" must be a list of column names";
                        return Err(placed(SqlState::INVALID_PARAMETER, words.to_owned()));
                    }
                };
                self.partition_by.replace(names).is_none()
            }
            "csv" => self.format.replace(CopyKind::Csv).is_none(),
            "binary" => self.format.replace(CopyKind::Binary).is_none(),
            "header" => self.header.replace(header(value, is_from)?).is_none(),
            "freeze" => {
                let is_frozen = match value {
                    OptionValue::None => true,
                    OptionValue::Text(text) => boolean(text).ok_or_else(|| {
                        SqlError::new(SqlState::SYNTAX_ERROR, format!("{name} requires a Boolean value"))
                    })?,
                    _ => {
                        let message = format!("{name} requires a Boolean value");
                        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                    }
                };
                self.freeze.replace(is_frozen).is_none()
            }
            "delimiter" => self.delimiter.replace(text(name, value)?).is_none(),
            "null" => self.null.replace(text(name, value)?).is_none(),
            "quote" => self.quote.replace(text(name, value)?).is_none(),
            "escape" => self.escape.replace(text(name, value)?).is_none(),
            "encoding" => {
                let encoding = text(name, value)?;
                let plain: String =
                    encoding.to_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
                if !matches!(&*plain, "utf8" | "unicode" | "sqlascii") {
                    return Err(SqlError::unsupported(format!("the encoding \"{encoding}\""))
                        .with_hint("Convert the rows to UTF8."));
                }
                self.encoding.replace(encoding).is_none()
            }
            "force_quote" | "force_not_null" | "force_null" => {
                let columns = match value {
                    OptionValue::Star if name == "force_quote" => Columns::All,
                    OptionValue::List(names) => Columns::Some(names.clone()),
                    _ => {
                        let message = format!("argument to option \"{name}\" must be a list of column names");
                        return Err(placed(SqlState::INVALID_PARAMETER, message));
                    }
                };
                let own = match name.as_str() {
                    "force_quote" => &mut self.force_quote,
                    "force_not_null" => &mut self.force_not_null,
                    _ => &mut self.force_null,
                };
                own.replace(columns).is_none()
            }
            _ => return Err(placed(SqlState::SYNTAX_ERROR, format!("option \"{name}\" not recognized"))),
        };
        match is_new {
            true => Ok(()),
            false => Err(placed(SqlState::SYNTAX_ERROR, "conflicting or redundant options".to_owned())),
        }
    }

    /// What is asked of a file; a client gets rows as they come.
    fn file(&self, kind: CopyKind, is_from: bool, end: &CopyEnd) -> SqlResult<FileOptions> {
        let refused = |words: String| Err(SqlError::new(SqlState::UNSUPPORTED, words));
        let is_file = matches!(end, CopyEnd::File(_));
        match kind {
            CopyKind::Parquet if !is_file => {
                return Err(SqlError::unsupported("COPY in the format parquet to or from a client")
                    .with_hint(
                        "Name a file of the server, or use nyala export and nyala import on the client.",
                    ));
            }
            CopyKind::Arrow if is_file => {
                return refused("COPY format arrow is for rows over HTTP".to_owned());
            }
            _ => {}
        }
        let is_written = is_file && !is_from;
        for (is_given, is_known, name) in [
            (self.compression.is_some(), is_written && kind == CopyKind::Parquet, "COMPRESSION"),
            (self.row_group_rows.is_some(), is_written && kind == CopyKind::Parquet, "ROW_GROUP_SIZE"),
            (self.time_unit.is_some(), is_written && kind == CopyKind::Parquet, "TIME_UNIT"),
            (self.partition_by.is_some(), is_written && kind != CopyKind::Binary, "PARTITION_BY"),
        ] {
            if is_given && !is_known {
                return refused(format!(
                    "cannot specify {name} for this COPY: it is for files that are written"
                ));
            }
        }
        if matches!(kind, CopyKind::Parquet | CopyKind::Arrow) {
            for (is_given, name) in [
                (self.delimiter.is_some(), "DELIMITER"),
                (self.null.is_some(), "NULL"),
                (self.header.is_some(), "HEADER"),
                (self.quote.is_some(), "QUOTE"),
                (self.escape.is_some(), "ESCAPE"),
                (self.force_quote.is_some(), "FORCE_QUOTE"),
                (self.force_not_null.is_some(), "FORCE_NOT_NULL"),
                (self.force_null.is_some(), "FORCE_NULL"),
            ] {
                if is_given {
                    return refused(format!("cannot specify {name} in a form that is no text"));
                }
            }
        }
        let mut parquet = ParquetOptions::default();
        parquet.compression = self.compression.unwrap_or(parquet.compression);
        parquet.time_unit = self.time_unit.unwrap_or(parquet.time_unit);
        parquet.row_group_rows = self.row_group_rows.unwrap_or(parquet.row_group_rows);
        Ok(FileOptions { parquet, partition_by: self.partition_by.clone().unwrap_or_default() })
    }

    fn form(&self, kind: CopyKind, is_from: bool) -> SqlResult<CopyForm> {
        let is_csv = kind == CopyKind::Csv;
        let unsupported = |words: &str| Err(SqlError::new(SqlState::UNSUPPORTED, words));
        let invalid =
            |words: &dyn Display| Err(SqlError::new(SqlState::INVALID_PARAMETER, words.to_string()));
        if kind == CopyKind::Binary {
            for (is_given, name) in [(self.delimiter.is_some(), "DELIMITER"), (self.null.is_some(), "NULL")] {
                if is_given {
                    let message = format!("cannot specify {name} in BINARY mode");
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                }
            }
        }
        let delimiter = self.delimiter.as_deref().unwrap_or(if is_csv { "," } else { "\t" });
        let null = self.null.as_deref().unwrap_or(if is_csv { "" } else { "\\N" });
        let [delimiter] = *delimiter.as_bytes() else {
            return unsupported("COPY delimiter must be a single one-byte character");
        };
        if matches!(delimiter, b'\n' | b'\r') {
            return invalid(&"COPY delimiter cannot be newline or carriage return");
        }
        if null.contains(['\n', '\r']) {
            return invalid(&"COPY null representation cannot use newline or carriage return");
        }
        let is_of_escapes = matches!(delimiter, b'\\' | b'.' | b'a'..=b'z' | b'0'..=b'9');
        if !is_csv && is_of_escapes {
            return invalid(&format_args!("COPY delimiter cannot be \"{}\"", char::from(delimiter)));
        }
        let header = self.header.unwrap_or_default();
        if kind == CopyKind::Binary && header != CopyHeader::Absent {
            return unsupported("cannot specify HEADER in BINARY mode");
        }
        if !is_csv && self.quote.is_some() {
            return unsupported("COPY quote available only in CSV mode");
        }
        let [quote] = *self.quote.as_deref().unwrap_or("\"").as_bytes() else {
            return unsupported("COPY quote must be a single one-byte character");
        };
        if is_csv && quote == delimiter {
            return invalid(&"COPY delimiter and quote must be different");
        }
        if !is_csv && self.escape.is_some() {
            return unsupported("COPY escape available only in CSV mode");
        }
        let escape = match self.escape.as_deref().map(str::as_bytes) {
            None => quote,
            Some([escape]) => *escape,
            Some(_) => return unsupported("COPY escape must be a single one-byte character"),
        };
        for (is_given, name, only_from) in [
            (self.force_quote.is_some(), "quote", false),
            (self.force_not_null.is_some(), "not null", true),
            (self.force_null.is_some(), "null", true),
        ] {
            if is_given && !is_csv {
                return unsupported(&format!("COPY force {name} available only in CSV mode"));
            }
            if is_given && only_from != is_from {
                let direction = if only_from { "FROM" } else { "TO" };
                return unsupported(&format!("COPY force {name} only available using COPY {direction}"));
            }
        }
        if kind != CopyKind::Binary && null.as_bytes().contains(&delimiter) {
            return unsupported("COPY delimiter must not appear in the NULL specification");
        }
        if is_csv && null.as_bytes().contains(&quote) {
            return unsupported("CSV quote character must not appear in the NULL specification");
        }
        let null = null.to_owned();
        Ok(CopyForm { kind, header, delimiter, null, quote, escape, ..CopyForm::default() })
    }
}

/// The text of an option that needs one.
fn text(name: &str, value: &OptionValue) -> SqlResult<String> {
    match value {
        OptionValue::Text(text) => Ok(text.clone()),
        OptionValue::Star => Ok("*".to_owned()),
        OptionValue::List(names) => Ok(names.join(", ")),
        OptionValue::None => {
            Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("{name} requires a parameter")))
        }
    }
}

fn header(value: &OptionValue, is_from: bool) -> SqlResult<CopyHeader> {
    let found = match value {
        OptionValue::None => Some(CopyHeader::Names),
        OptionValue::Text(text) if text.eq_ignore_ascii_case("match") => Some(CopyHeader::Match),
        OptionValue::Text(text) => boolean(text).map(|is_there| match is_there {
            true => CopyHeader::Names,
            false => CopyHeader::Absent,
        }),
        _ => None,
    };
    match found {
        Some(CopyHeader::Match) if !is_from => {
            let words = "cannot use \"match\" with HEADER in COPY TO";
            Err(SqlError::new(SqlState::UNSUPPORTED, words))
        }
        Some(found) => Ok(found),
        None => {
            let words = "header requires a Boolean value or \"match\"";
            Err(SqlError::new(SqlState::SYNTAX_ERROR, words))
        }
    }
}

fn boolean(text: &str) -> Option<bool> {
    match &*text.to_ascii_lowercase() {
        "true" | "on" | "1" => Some(true),
        "false" | "off" | "0" => Some(false),
        _ => None,
    }
}
