//! A file of an export: what it looks like, and the rows of a query on their way into it.

use super::query::{TakeRows, rows_of};
use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use nyala_exec::Zone;
use nyala_files::Folder;
use nyala_files::parquet::ParquetOptions;
use nyala_postgres::copy::RowFile;
use nyala_shell::Client;
use nyala_sql::CopyForm;

/// What files look like.
#[derive(Clone)]
pub(super) struct Written {
    pub(super) form: CopyForm,
    pub(super) parquet: ParquetOptions,
    pub(super) extension: &'static str,
}

/// What was written.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Done {
    pub(super) rows: u64,
    pub(super) bytes: u64,
}

/// Writes the rows of a query to a file. `watch` is told how many there are.
pub(super) fn write_file(
    client: &Client,
    query: &str,
    database: &str,
    folder: &Folder,
    path: &str,
    written: &Written,
    watch: &mut dyn FnMut(u64),
) -> Result<Done, String> {
    let mut filling = Filling { folder, path, written, file: None, rows: 0, watch };
    rows_of(client, query, database, &mut filling)?;
    let Filling { file, rows, .. } = filling;
    let file = file.ok_or_else(|| "the query has no columns".to_owned())?;
    let bytes = file.finish().map_err(|failure| failure.message)?;
    Ok(Done { rows, bytes })
}

/// A file that is being filled.
struct Filling<'a> {
    folder: &'a Folder,
    path: &'a str,
    written: &'a Written,
    file: Option<RowFile>,
    rows: u64,
    watch: &'a mut dyn FnMut(u64),
}

impl TakeRows for Filling<'_> {
    fn columns(&mut self, schema: &SchemaRef) -> Result<(), String> {
        let mut form = self.written.form.clone();
        form.force_quote = vec![false; schema.fields().len()];
        let schema: &Schema = schema;
        let file = RowFile::create(self.folder, self.path, schema, &form, &self.written.parquet, Zone::UTC);
        self.file = Some(file.map_err(|failure| failure.message)?);
        Ok(())
    }

    fn rows(&mut self, rows: &RecordBatch) -> Result<(), String> {
        let file = self.file.as_mut().ok_or("rows came before their columns")?;
        file.write(rows).map_err(|failure| failure.message)?;
        self.rows += rows.num_rows() as u64;
        (self.watch)(self.rows);
        Ok(())
    }
}
