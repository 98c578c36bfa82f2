//! Rows that a client sends for a COPY: Arrow IPC's stream, or CSV. The rows of a request are written all or none.

use super::arrow_stream::ArrowStream;
use arrow_array::ArrayRef;
use nyala_postgres::copy::CopyReader;
use nyala_postgres::error::Failure;
use nyala_sql::{CommandTag, CopyIn, CopyKind, Session, SqlError, SqlResult, SqlState};

/// Whether a body of a type is rows.
pub(super) fn is_rows(content_type: &str) -> bool {
    let media_type = content_type.split(';').next().unwrap_or("").trim();
    ["application/vnd.apache.arrow.stream", "text/csv"].iter().any(|own| own.eq_ignore_ascii_case(media_type))
}

/// Writes the rows of a body.
pub(super) async fn copy_rows(mut copy: CopyIn, session: &mut Session, body: &[u8]) -> SqlResult<CommandTag> {
    match copy.form().kind {
        CopyKind::Arrow => copy_arrow(copy, session, body).await,
        CopyKind::Csv | CopyKind::Text => {
            let mut reader = CopyReader::of(&copy).map_err(error_of)?;
            reader.push(body).map_err(error_of)?;
            reader.write_to(&mut copy, true).await.map_err(error_of)?;
            copy.finish(session, &mut reader.rows).await
        }
        CopyKind::Binary | CopyKind::Parquet => Err(SqlError::unsupported("this format of COPY over HTTP")
            .with_hint("Send CSV (FORMAT csv) or Arrow IPC (FORMAT arrow).")),
    }
}

async fn copy_arrow(mut copy: CopyIn, session: &mut Session, body: &[u8]) -> SqlResult<CommandTag> {
    let mut stream = ArrowStream::of(body)?;
    let mut first = 1;
    while let Some(rows) = stream.next()? {
        let columns = copy.names().map(|name| {
            rows.column_by_name(name).cloned().ok_or_else(|| {
                SqlError::new(SqlState::UNKNOWN_COLUMN, format!("the rows have no column \"{name}\""))
            })
        });
        let columns: Vec<ArrayRef> = columns.collect::<SqlResult<_>>()?;
        copy.write_columns(&columns, rows.num_rows(), first).await?;
        first += rows.num_rows() as u64;
    }
    let mut nothing = copy.rows()?;
    copy.finish(session, &mut nothing).await
}

/// The error that a client of HTTP gets.
pub(super) fn error_of(failure: Failure) -> SqlError {
    let mut error = SqlError::new(SqlState(failure.code), failure.message);
    (error.detail, error.hint, error.context) = (failure.detail, failure.hint, failure.context);
    error
}
