//! Rows that a client sends for a COPY: Arrow IPC's stream, or CSV. The rows of a request are written all or none.

use arrow_array::ArrayRef;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::{MessageHeader, root_as_message};
use arrow_schema::ArrowError;
use nyala_postgres::copy::CopyReader;
use nyala_postgres::error::Failure;
use nyala_sql::{CommandTag, CopyIn, CopyKind, Session, SqlError, SqlResult, SqlState};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Rows of a batch, at most: some columns need no bytes for them.
const BATCH_ROWS_MAX: i64 = 1 << 20;

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
    contained(|| check_stream(body))?;
    let (mut decoder, mut buffer) = (StreamDecoder::new(), Buffer::from(body));
    let mut first = 1;
    while let Some(rows) = contained(|| decoder.decode(&mut buffer))? {
        let columns = copy.names().map(|name| {
            rows.column_by_name(name).cloned().ok_or_else(|| {
                SqlError::new(SqlState::UNKNOWN_COLUMN, format!("the rows have no column \"{name}\""))
            })
        });
        let columns: Vec<ArrayRef> = columns.collect::<SqlResult<_>>()?;
        copy.write_columns(&columns, rows.num_rows(), first).await?;
        first += rows.num_rows() as u64;
    }
    contained(|| decoder.finish())?;
    let mut nothing = copy.rows()?;
    copy.finish(session, &mut nothing).await
}

/// Checks the lengths that a stream declares before anything is decoded: each message is there, and no batch takes more than
/// its bytes. Compressed ones could.
fn check_stream(body: &[u8]) -> Result<(), ArrowError> {
    let malformed = |words: &str| ArrowError::IpcError(words.to_owned());
    let cut_off = || malformed("it was cut off");
    let mut rest = body;
    while !rest.is_empty() {
        let (mut word, mut behind) = rest.split_first_chunk::<4>().ok_or_else(cut_off)?;
        if *word == [0xff; 4] {
            (word, behind) = behind.split_first_chunk::<4>().ok_or_else(cut_off)?;
        }
        let length = u32::from_le_bytes(*word) as usize;
        if length == 0 {
            return Ok(());
        }
        let (metadata, behind) = behind.split_at_checked(length).ok_or_else(cut_off)?;
        let message = root_as_message(metadata).map_err(|error| malformed(&error.to_string()))?;
        let length = usize::try_from(message.bodyLength()).map_err(|_| cut_off())?;
        rest = behind.get(length..).ok_or_else(cut_off)?;
        let batch = match message.header_type() {
            MessageHeader::RecordBatch => message.header_as_record_batch(),
            MessageHeader::DictionaryBatch => message.header_as_dictionary_batch().and_then(|own| own.data()),
            _ => None,
        };
        let Some(batch) = batch else { continue };
        if batch.compression().is_some() {
            return Err(malformed("compressed batches are not supported"));
        }
        if !(0..=BATCH_ROWS_MAX).contains(&batch.length()) {
            return Err(malformed(&format!(
                "a batch of {} rows is longer than {BATCH_ROWS_MAX}",
                batch.length()
            )));
        }
    }
    Ok(())
}

/// What a step of the reader gives; an error or a panic of it is about the bytes.
fn contained<T>(step: impl FnOnce() -> Result<T, ArrowError>) -> SqlResult<T> {
    let malformed = |words: &str| {
        SqlError::new(SqlState::BAD_COPY, format!("the rows are no stream of Arrow IPC: {words}"))
    };
    match catch_unwind(AssertUnwindSafe(step)) {
        Ok(done) => done.map_err(|error| malformed(&error.to_string())),
        Err(_) => Err(malformed("they are damaged")),
    }
}

/// The error that a client of HTTP gets.
pub(super) fn error_of(failure: Failure) -> SqlError {
    let mut error = SqlError::new(SqlState(failure.code), failure.message);
    (error.detail, error.hint, error.context) = (failure.detail, failure.hint, failure.context);
    error
}
