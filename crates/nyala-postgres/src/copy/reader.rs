//! Reads what a client sends in a COPY, and collects it as columns.

use super::binary::Tuples;
use super::fields::Fields;
use super::lines::{Lines, bad};
use crate::error::Failure;
use crate::value::types::ColumnType;
use crate::value::{Format, parameter};
use arrow_schema::DataType;
use nyala_exec::Zone;
use nyala_exec::memory::MemoryCharge;
use nyala_sql::{CopyContext, CopyForm, CopyHeader, CopyIn, CopyKind, CopyRows, SqlError};

/// The code of bytes that are no value of their type. The column is named beside it.
const INVALID_BINARY: &str = "22P03";
/// So many names of a header are counted, or as many as there are columns.
const HEADER_NAMES_COUNTED: usize = 2000;

/// The rows of a client, on their way into columns.
pub struct CopyReader {
    table: String,
    names: Vec<String>,
    form: CopyForm,
    input: Input,
    /// What is read and not written yet.
    pub rows: CopyRows,
    /// The memory of what is not read yet.
    held: MemoryCharge,
}

enum Input {
    Lines {
        lines: Lines,
        fields: Fields,
        /// Whether the line of names is still to come.
        has_header: bool,
    },
    Tuples {
        tuples: Tuples,
        types: Vec<(ColumnType, DataType)>,
    },
}

impl CopyReader {
    /// A reader of the rows that a COPY waits for.
    ///
    /// # Errors
    /// Unsupported, if the protocol has no type for a column.
    pub fn of(copy: &CopyIn) -> Result<Self, Failure> {
        let form = copy.form().clone();
        let fields = copy.schema().fields();
        let input = match form.kind {
            CopyKind::Binary => {
                let types = fields.iter().zip(copy.value_types());
                let types = types.map(|(field, values)| Ok((ColumnType::of_field(field)?, values)));
                let types = types.collect::<Result<_, Failure>>()?;
                Input::Tuples { tuples: Tuples::default(), types }
            }
            CopyKind::Parquet | CopyKind::Arrow => {
                return Err(Failure::new("XX000", "columns are no lines"));
            }
            CopyKind::Text | CopyKind::Csv => Input::Lines {
                lines: Lines::of(&form),
                fields: Fields::of(&form),
                has_header: form.header != CopyHeader::Absent,
            },
        };
        let names = fields.iter().map(|field| field.name().clone()).collect();
        let (table, held) = (copy.table().to_owned(), copy.memory().hold());
        Ok(Self { table, names, form, input, rows: copy.rows()?, held })
    }

    /// Takes more bytes.
    ///
    /// # Errors
    /// Out of memory, if a row is too long.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let buffer = match &mut self.input {
            Input::Lines { lines, .. } => {
                lines.push(bytes);
                &lines.buffer
            }
            Input::Tuples { tuples, .. } => {
                tuples.push(bytes);
                &tuples.buffer
            }
        };
        let more = buffer.capacity().saturating_sub(self.held.bytes());
        self.held.charge(more).map_err(|error| SqlError::from(error).into())
    }

    /// Reads rows. True: there are so many that they have to be written. False: all are read, apart from a row whose end did
    /// not come yet; at the end of the bytes there is none.
    ///
    /// # Errors
    /// PostgreSQL's, with the line that is wrong. The rows before it are right as far as it is known here.
    pub fn read(&mut self, is_end: bool) -> Result<bool, Failure> {
        while !self.rows.is_full() {
            let is_read = match &mut self.input {
                Input::Lines { lines, fields, has_header } => {
                    let mut target = Target { table: &self.table, names: &self.names, rows: &mut self.rows };
                    target.read_line(&self.form, lines, fields, has_header, is_end)?
                }
                Input::Tuples { tuples, types } => {
                    let mut target = Target { table: &self.table, names: &self.names, rows: &mut self.rows };
                    target.read_tuple(tuples, types, is_end)?
                }
            };
            if !is_read {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl CopyReader {
    /// Reads what has come, and writes rows when there are many.
    ///
    /// # Errors
    /// What is wrong with the first row that has something wrong with it.
    pub async fn write_to(&mut self, copy: &mut CopyIn, is_end: bool) -> Result<(), Failure> {
        loop {
            match self.read(is_end) {
                Ok(true) => copy.write(&mut self.rows).await?,
                Ok(false) => return Ok(()),
                Err(failure) => {
                    // What is wrong with an earlier row comes first.
                    copy.check(&mut self.rows).await?;
                    return Err(failure);
                }
            }
        }
    }
}

/// Where values go.
struct Target<'a> {
    table: &'a str,
    names: &'a [String],
    rows: &'a mut CopyRows,
}

impl Target<'_> {
    fn context(&self, line: u64) -> CopyContext<'_> {
        CopyContext { table: self.table, line }
    }

    /// Reads a line; false if there is none.
    fn read_line(
        &mut self,
        form: &CopyForm,
        lines: &mut Lines,
        fields: &mut Fields,
        has_header: &mut bool,
        is_end: bool,
    ) -> Result<bool, Failure> {
        let found = lines.next(is_end).map_err(|failure| {
            let context = self.context(lines.number).of_line();
            failure.in_context(context)
        })?;
        let Some(place) = found else { return Ok(false) };
        let context = CopyContext { table: self.table, line: lines.number };
        let line =
            parameter::utf8(&lines.buffer[place]).map_err(|failure| failure.in_context(context.of_line()))?;
        let of_text = |failure: Failure| failure.in_context(context.of_text(line.as_bytes()));
        if *has_header {
            *has_header = false;
            if form.header == CopyHeader::Match {
                let most = self.names.len().max(HEADER_NAMES_COUNTED);
                fields
                    .split(line, most)
                    .and_then(|()| self.check_header(form, fields, line))
                    .map_err(of_text)?;
            }
            return Ok(true);
        }
        fields.split(line, self.names.len()).map_err(of_text)?;
        if fields.count() > self.names.len() {
            return Err(of_text(bad("extra data after last expected column")));
        }
        for (column, name) in self.names.iter().enumerate() {
            if column >= fields.count() {
                return Err(of_text(bad(format!("missing data for column \"{name}\""))));
            }
            let value = match fields.get(line, column) {
                None if form.force_not_null[column] => Some(&*form.null),
                Some(text) if form.force_null[column] && text == form.null => None,
                other => other,
            };
            match value {
                None => self.rows.null(column),
                Some(text) => self
                    .rows
                    .text(column, text)
                    .map_err(|error| Failure::from(error).in_context(context.of_value(name, Some(text))))?,
            }
        }
        self.rows.end(lines.number, line.as_bytes())?;
        Ok(true)
    }

    /// Fails unless a line has the names of the columns.
    fn check_header(&self, form: &CopyForm, fields: &Fields, line: &str) -> Result<(), Failure> {
        let (given, expected) = (fields.count(), self.names.len());
        if given != expected {
            let message = format!("wrong number of fields in header line: got {given}, expected {expected}");
            return Err(bad(message));
        }
        for (column, name) in self.names.iter().enumerate() {
            let field = column + 1;
            let found = match fields.get(line, column) {
                Some(found) if found == name => continue,
                Some(found) => format!("\"{found}\""),
                None => format!("null value (\"{}\")", form.null),
            };
            let message = format!(
                "column name mismatch in header line field {field}: got {found}, expected \"{name}\""
            );
            return Err(bad(message));
        }
        Ok(())
    }

    /// Reads a row of the binary form; false if there is none.
    fn read_tuple(
        &mut self,
        tuples: &mut Tuples,
        types: &[(ColumnType, DataType)],
        is_end: bool,
    ) -> Result<bool, Failure> {
        let is_there = tuples.next(types.len(), is_end).map_err(|(failure, column)| {
            let context = self.context(tuples.number);
            match column {
                // What stands before the rows is in none of their lines.
                _ if tuples.number == 0 => failure,
                Some(column) => failure.in_context(context.of_column(&self.names[column])),
                None => failure.in_context(context.of_line()),
            }
        })?;
        if !is_there {
            return Ok(false);
        }
        for (column, (place, (sent_as, wanted))) in tuples.values.iter().zip(types).enumerate() {
            let read = match place {
                None => {
                    self.rows.null(column);
                    continue;
                }
                Some(place) => {
                    // Times without a zone are those of texts.
                    let bytes = &tuples.buffer[place.clone()];
                    parameter::read(Some(bytes), Format::Binary, *sent_as, wanted, Zone::UTC)
                }
            };
            let added = read.and_then(|value| self.rows.scalar(column, value).map_err(Failure::from));
            added.map_err(|mut failure| {
                if failure.code == INVALID_BINARY {
                    "incorrect binary data format".clone_into(&mut failure.message);
                }
                failure.in_context(self.context(tuples.number).of_column(&self.names[column]))
            })?;
        }
        self.rows.end(tuples.number, b"")?;
        Ok(true)
    }
}
