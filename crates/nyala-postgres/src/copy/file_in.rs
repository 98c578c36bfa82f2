//! COPY FROM a file of the server.

use super::reader::CopyReader;
use crate::error::Failure;
use arrow_array::ArrayRef;
use nyala_core::before_long_work;
use nyala_files::FileError;
use nyala_files::parquet::ParquetInput;
use nyala_sql::{CommandTag, CopyIn, CopyKind, FileIn, Session, SqlError};
use std::fs::File;
use std::io::Read;

/// What is read at once.
const BUFFER_BYTES: usize = 256 << 10;

/// Writes the rows of a file into a table, and says how many. If it fails, nothing is written.
///
/// # Errors
/// What is wrong with the file, with the place in it, or with a row.
pub async fn read_file(input: FileIn, session: &mut Session) -> Result<CommandTag, Failure> {
    before_long_work().await;
    let FileIn { copy, file, path } = input;
    let file = file.open().map_err(SqlError::from)?;
    match copy.form().kind {
        CopyKind::Parquet => read_parquet(*copy, file, &path, session).await,
        _ => read_text(*copy, file, &path, session).await,
    }
}

async fn read_parquet(
    mut copy: CopyIn,
    file: File,
    path: &str,
    session: &mut Session,
) -> Result<CommandTag, Failure> {
    let mut input = ParquetInput::open(file, path).map_err(SqlError::from)?;
    let schema = input.schema().clone();
    let places = copy.names().map(|name| {
        schema.index_of(name).map_err(|_| {
            Failure::new("42703", format!("column \"{name}\" does not exist in the file \"{path}\""))
        })
    });
    let places = places.collect::<Result<Vec<_>, _>>()?;
    let mut first = 1;
    while let Some(rows) = input.next_rows().map_err(SqlError::from)? {
        let columns: Vec<ArrayRef> = places.iter().map(|place| rows.column(*place).clone()).collect();
        copy.write_columns(&columns, rows.num_rows(), first).await?;
        first += rows.num_rows() as u64;
    }
    let mut nothing = copy.rows()?;
    Ok(copy.finish(session, &mut nothing).await?)
}

async fn read_text(
    mut copy: CopyIn,
    mut file: File,
    path: &str,
    session: &mut Session,
) -> Result<CommandTag, Failure> {
    let mut reader = CopyReader::of(&copy)?;
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let length = file.read(&mut buffer).map_err(FileError::io(path)).map_err(SqlError::from)?;
        let is_end = length == 0;
        reader.push(&buffer[..length])?;
        reader.write_to(&mut copy, is_end).await?;
        if is_end {
            return Ok(copy.finish(session, &mut reader.rows).await?);
        }
    }
}
