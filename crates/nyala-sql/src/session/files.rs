//! A COPY whose rows are in a file of the server: what is to be written or read, and how.
//!
//! Files are in the folders that the operator allows (`nyala_files::Folders`), and only administrators may name them.

use super::{CopyIn, Session};
use crate::copy::{CopyEnd, CopyForm, CopyStatement};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::rows::Rows;
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::ast::Ident;
use nyala_files::parquet::{ParquetInput, ParquetOptions};
use nyala_files::{FileError, FileErrorKind, Folder};
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};

/// Rows on their way into files.
pub struct FileOut {
    /// The rows. With partitions, they are in the order of the columns that these are named by.
    pub rows: Rows,
    /// What rows of text look like.
    pub form: CopyForm,
    /// Where it is allowed to write.
    pub folder: Folder,
    /// The file in it; with partitions the folder.
    pub path: String,
    /// What a Parquet file looks like.
    pub parquet: ParquetOptions,
    /// The columns whose values name folders; empty if all rows go into one file.
    pub partitions: Vec<usize>,
}

/// Rows on their way from a file into a table.
pub struct FileIn {
    /// The table.
    pub copy: Box<CopyIn>,
    /// The file.
    pub file: CopyFile,
    /// Its path, for messages.
    pub path: String,
}

/// The file of a COPY.
#[derive(Debug, Clone)]
pub struct CopyFile {
    pub(crate) folder: Folder,
    /// Below the folder.
    pub(crate) path: String,
    pub(crate) parquet: ParquetOptions,
    /// The columns that folders are named by, which come last in the query.
    pub(crate) partitions: Vec<String>,
    /// What was opened to read its columns, and is read next: an object is not fetched twice.
    pub(crate) opened: Arc<Mutex<Option<File>>>,
}

impl CopyFile {
    /// The columns of a Parquet file that is to be read.
    pub(crate) fn columns(&self) -> SqlResult<Vec<Ident>> {
        let file = self.open()?;
        let again = file.try_clone().map_err(FileError::io(&self.path))?;
        let input = ParquetInput::open(file, &self.path)?;
        let names = input.schema().fields().iter();
        let names = names.map(|field| Ident::with_quote('"', field.name())).collect();
        *self.opened.lock().unwrap_or_else(PoisonError::into_inner) = Some(again);
        Ok(names)
    }

    /// Opens it, to read it.
    ///
    /// # Errors
    /// It is missing, or cannot be read.
    pub fn open(&self) -> Result<File, FileError> {
        match self.opened.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(file) => Ok(file),
            None => self.folder.read(&self.path),
        }
    }

    /// Rows on their way into it.
    pub(crate) fn out(&self, rows: Rows, form: CopyForm) -> SqlResult<FileOut> {
        let schema = rows.schema();
        let partitions = self.partitions.iter().map(|name| schema.index_of(name));
        let partitions = partitions.collect::<Result<_, _>>().map_err(DataFusionError::from)?;
        let Self { folder, path, mut parquet, .. } = self.clone();
        // A part of the statement's memory.
        let share = rows.memory().map_or(usize::MAX, |memory| memory.limit_bytes() / 4);
        parquet.row_group_bytes = parquet.row_group_bytes.min(share);
        Ok(FileOut { rows, form, folder, path, parquet, partitions })
    }
}

impl Session {
    /// The folder for the file of a COPY and the path in it; `None` if its rows come from the client or go there.
    ///
    /// # Errors
    /// Insufficient privilege, unless an administrator asks a server that allows files.
    pub(crate) fn file_of(&self, written: &CopyStatement) -> SqlResult<Option<(Folder, String)>> {
        let direction = if written.is_from { "FROM" } else { "TO" };
        let refused = |words: String, hint: &str| {
            Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, words).with_hint(hint))
        };
        match &written.end {
            CopyEnd::Client => Ok(None),
            CopyEnd::Program => Err(SqlError::unsupported(format!("COPY {direction} PROGRAM")).with_hint(
                "Anyone can COPY to stdout or from stdin. psql's \\copy command also works for anyone.",
            )),
            CopyEnd::File(_) if !self.principal().is_admin() => refused(
                format!("only administrators may COPY {direction} a file of the server"),
                "Anyone can COPY to stdout or from stdin. psql's \\copy command also works for anyone.",
            ),
            CopyEnd::File(name) => match self.server.files.locate(name) {
                Ok(place) => Ok(Some(place)),
                Err(error) => Err(SqlError::from(error).with_hint(
                    "Anyone can COPY to stdout or from stdin, and psql's \\copy and nyala export and import work for anyone.",
                )),
            },
        }
    }
}

impl From<FileError> for SqlError {
    fn from(error: FileError) -> Self {
        let code = match error.kind {
            FileErrorKind::Forbidden => SqlState::INSUFFICIENT_PRIVILEGE,
            FileErrorKind::Missing => SqlState::UNDEFINED_FILE,
            FileErrorKind::Exists => SqlState::DUPLICATE_FILE,
            FileErrorKind::Corrupt => SqlState::BAD_COPY,
            FileErrorKind::TooLarge => SqlState::LIMIT_EXCEEDED,
            FileErrorKind::Unsupported => SqlState::UNSUPPORTED,
            FileErrorKind::DiskFull => SqlState::DISK_FULL,
            FileErrorKind::Io => SqlState::IO_ERROR,
        };
        Self::new(code, error.message)
    }
}
