//! COPY TO a file of the server, or to a folder of files that are named by values of columns.
//!
//! Each file appears when all of its rows are on the disk. Rows stay columns on their way into Parquet.

use super::writer::CopyWriter;
use crate::error::Failure;
use crate::value::types::ColumnType;
use crate::value::{Column, Format};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::Schema;
use nyala_core::before_long_work;
use nyala_exec::Zone;
use nyala_files::parquet::{ParquetOptions, ParquetOutput};
use nyala_files::partition::{self, Folders};
use nyala_files::{Folder, WholeFile};
use nyala_sql::{CommandTag, CopyForm, CopyKind, FileOut, SqlError};
use std::io::Write;

/// Texts are written in pieces of about this size.
const BUFFER_BYTES: usize = 256 << 10;
/// Files that a statement may write: one that makes more was meant otherwise.
const FILES_MAX: usize = 100_000;

/// A file that is being written, in any form.
pub struct RowFile(Kind);

enum Kind {
    Parquet(Box<ParquetOutput<WholeFile>>),
    Text(Box<TextFile>),
}

struct TextFile {
    path: String,
    file: WholeFile,
    writer: CopyWriter,
    types: Vec<ColumnType>,
    format: Format,
    zone: Zone,
    buffer: Vec<u8>,
}

impl RowFile {
    /// Begins a file.
    ///
    /// # Errors
    /// What the folder does not allow, and what the form has no type for.
    pub fn create(
        folder: &Folder,
        path: &str,
        schema: &Schema,
        form: &CopyForm,
        parquet: &ParquetOptions,
        zone: Zone,
    ) -> Result<Self, Failure> {
        // What the form cannot say is known before there is a file.
        let types = match form.kind {
            CopyKind::Parquet => Vec::new(),
            _ => schema.fields().iter().map(|field| ColumnType::of_field(field)).collect::<Result<_, _>>()?,
        };
        let file = WholeFile::create(folder, path).map_err(SqlError::from)?;
        if form.kind == CopyKind::Parquet {
            let output = ParquetOutput::new(file, path, schema, parquet).map_err(SqlError::from)?;
            return Ok(Self(Kind::Parquet(Box::new(output))));
        }
        let format = if form.kind == CopyKind::Binary { Format::Binary } else { Format::Text };
        let writer = CopyWriter::of(form.clone());
        let mut buffer = Vec::new();
        if writer.has_header() {
            writer.header(schema.fields().iter().map(|field| field.name().as_str()), &mut buffer);
        }
        let path = path.to_owned();
        Ok(Self(Kind::Text(Box::new(TextFile { path, file, writer, types, format, zone, buffer }))))
    }

    /// Writes rows.
    pub fn write(&mut self, rows: &RecordBatch) -> Result<(), Failure> {
        match &mut self.0 {
            Kind::Parquet(output) => output.write(rows).map_err(|error| SqlError::from(error).into()),
            Kind::Text(text) => text.write(rows),
        }
    }

    /// The memory that is held for what is not written yet.
    pub fn memory_bytes(&self) -> usize {
        match &self.0 {
            Kind::Parquet(output) => output.memory_bytes() + output.inner().memory_bytes(),
            Kind::Text(text) => text.buffer.capacity() + text.file.memory_bytes(),
        }
    }

    /// Ends the file, which is there from now on. Returns its length, bytes.
    pub fn finish(self) -> Result<u64, Failure> {
        let file = match self.0 {
            Kind::Parquet(output) => output.finish().map_err(SqlError::from)?,
            Kind::Text(mut text) => {
                if text.writer.has_end() {
                    text.writer.end(&mut text.buffer);
                }
                text.flush()?;
                text.file
            }
        };
        Ok(file.publish().map_err(SqlError::from)?)
    }
}

impl TextFile {
    fn write(&mut self, rows: &RecordBatch) -> Result<(), Failure> {
        let columns = rows.columns().iter().zip(&self.types);
        let columns: Vec<Column> = columns
            .map(|(array, own)| Ok(Column::of(array, *own, self.format)?.in_zone(self.zone)))
            .collect::<Result<_, Failure>>()?;
        for row in 0..rows.num_rows() {
            self.writer.row(&columns, row, &mut self.buffer)?;
            if self.buffer.len() >= BUFFER_BYTES {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Failure> {
        let written = self.file.write_all(&self.buffer).map_err(nyala_files::FileError::io(&self.path));
        written.map_err(SqlError::from)?;
        self.buffer.clear();
        Ok(())
    }
}

/// Writes the rows of a COPY, and says how many.
///
/// # Errors
/// What goes wrong with rows or files. Files that were begun are not there then; those of a folder that were ended are.
pub async fn write_files(out: FileOut, zone: Zone) -> Result<CommandTag, Failure> {
    before_long_work().await;
    let FileOut { mut rows, form, folder, path, parquet, partitions } = out;
    let mut held = rows.memory().map(nyala_exec::QueryMemory::hold);
    let mut hold = |file: &RowFile| -> Result<(), Failure> {
        let Some(held) = &mut held else { return Ok(()) };
        let bytes = file.memory_bytes();
        match bytes.checked_sub(held.bytes()) {
            Some(more) => held.charge(more).map_err(SqlError::from)?,
            None => held.shrink_to(bytes),
        }
        Ok(())
    };
    let schema = rows.schema();
    let mut written = 0;
    if partitions.is_empty() {
        let mut file = RowFile::create(&folder, &path, &schema, &form, &parquet, zone)?;
        while let Some(batch) = rows.next().await? {
            file.write(&batch)?;
            hold(&file)?;
            written += batch.num_rows() as u64;
        }
        file.finish()?;
        return Ok(CommandTag { command: "COPY", rows: Some(written), change: None });
    }
    let folder = folder.create_folder(&path).map_err(SqlError::from)?;
    if !folder.is_empty().map_err(SqlError::from)? {
        let message = format!("the directory \"{path}\" is not empty");
        return Err(Failure::new("58P02", message).with_hint("Name another one."));
    }
    let types = partitions.iter().map(|column| ColumnType::of_field(schema.field(*column)));
    let types = types.collect::<Result<Vec<_>, _>>()?;
    let in_files = partition::schema_without(&schema, &partitions).map_err(SqlError::from)?;
    let others = (0..schema.fields().len()).filter(|column| !partitions.contains(column));
    let quotes = others.filter_map(|column| form.force_quote.get(column).copied());
    let form = CopyForm { force_quote: quotes.collect(), ..form };
    let extension = match form.kind {
        CopyKind::Parquet => "parquet",
        CopyKind::Csv => "csv",
        _ => "txt",
    };
    let mut current: Option<(String, RowFile)> = None;
    let mut folders = Folders::default();
    while let Some(batch) = rows.next().await? {
        let keys: Vec<&ArrayRef> = partitions.iter().map(|column| batch.column(*column)).collect();
        let values = partition::without(&batch, &partitions).map_err(SqlError::from)?;
        for range in partition::ranges(&batch, &partitions).map_err(SqlError::from)? {
            let texts = texts_of(&keys, &types, range.start, zone)?;
            let names = partitions.iter().map(|column| schema.field(*column).name().as_str());
            let own = partition::folder(names.zip(texts.iter().map(Option::as_deref)));
            let own = own.map_err(SqlError::from)?;
            if current.as_ref().is_none_or(|(name, _)| *name != own) {
                if let Some((_, file)) = current.take() {
                    file.finish()?;
                }
                folders.begin(&own).map_err(SqlError::from)?;
                if folders.count() > FILES_MAX {
                    let message =
                        format!("the rows have more than {FILES_MAX} different values to partition by");
                    return Err(Failure::new("54000", message));
                }
                let name = format!("{own}/part-0.{extension}");
                let file = RowFile::create(&folder, &name, &in_files, &form, &parquet, zone)?;
                current = Some((own, file));
            }
            let (_, file) = current.as_mut().expect("it was just begun");
            file.write(&values.slice(range.start, range.len()))?;
            hold(file)?;
        }
        written += batch.num_rows() as u64;
    }
    if let Some((_, file)) = current {
        file.finish()?;
    }
    Ok(CommandTag { command: "COPY", rows: Some(written), change: None })
}

/// The values of a row as text.
fn texts_of(
    keys: &[&ArrayRef],
    types: &[ColumnType],
    row: usize,
    zone: Zone,
) -> Result<Vec<Option<String>>, Failure> {
    let text = |(array, own): (&&ArrayRef, &ColumnType)| -> Result<Option<String>, Failure> {
        let column = Column::of(array, *own, Format::Text)?.in_zone(zone);
        if column.is_null(row) {
            return Ok(None);
        }
        let mut text = Vec::new();
        column.write_exactly(row, &mut text)?;
        Ok(Some(String::from_utf8_lossy(&text).into_owned()))
    };
    keys.iter().zip(types).map(text).collect()
}
