//! Reads a stream of Arrow IPC. What it declares is checked before anything of it is decoded, and a panic of the decoder is an
//! error of the bytes.

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::{MessageHeader, root_as_message};
use arrow_schema::ArrowError;
use nyala_sql::{SqlError, SqlResult, SqlState};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Rows of a batch, at most: some columns need no bytes for them.
const BATCH_ROWS_MAX: i64 = 1 << 20;

/// The batches of a stream.
pub(super) struct ArrowStream {
    decoder: StreamDecoder,
    rest: Buffer,
}

impl ArrowStream {
    pub(super) fn of(bytes: &[u8]) -> SqlResult<Self> {
        contained(|| check_stream(bytes))?;
        Ok(Self { decoder: StreamDecoder::new(), rest: Buffer::from(bytes) })
    }

    /// The next batch; `None` at the end.
    pub(super) fn next(&mut self) -> SqlResult<Option<RecordBatch>> {
        let found = contained(|| self.decoder.decode(&mut self.rest))?;
        if found.is_none() {
            contained(|| self.decoder.finish())?;
        }
        Ok(found)
    }
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
