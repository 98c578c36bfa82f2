//! Reads a stream of Arrow IPC. What it declares is checked before anything of it is decoded, and a panic of the decoder is an
//! error of the bytes.

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::{MessageHeader, root_as_message};
use arrow_schema::ArrowError;
use nyala_sql::{SentDictionaries, SqlError, SqlResult, SqlState};
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
    let (mut rest, mut dictionaries) = (body, SentDictionaries::default());
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
            MessageHeader::DictionaryBatch => {
                let own = message.header_as_dictionary_batch();
                let is_usual = own.is_none_or(|own| {
                    dictionaries.note(own.id(), length as u64, own.isDelta(), body.len() as u64)
                });
                if !is_usual {
                    return Err(malformed("its dictionaries are extended too often"));
                }
                own.and_then(|own| own.data())
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::Int32Type;
    use arrow_array::{ArrayRef, DictionaryArray, Int32Array, StringArray};
    use arrow_ipc::writer::{DictionaryHandling, IpcWriteOptions, StreamWriter};
    use std::sync::Arc;

    /// A batch of a column whose dictionary has these texts.
    fn batch(texts: &[&str]) -> RecordBatch {
        let texts = Arc::new(StringArray::from(texts.to_vec()));
        let tags = DictionaryArray::<Int32Type>::new(Int32Array::from(vec![0, 1]), texts);
        RecordBatch::try_from_iter([("tag", Arc::new(tags) as ArrayRef)]).unwrap()
    }

    #[test]
    fn a_long_dictionary_is_not_extended_a_thousand_times() {
        let long = "x".repeat(4 << 20);
        let (first, second) = (batch(&[&long, "a"]), batch(&[&long, "a", "b"]));
        let options = IpcWriteOptions::default().with_dictionary_handling(DictionaryHandling::Delta);
        let mut writer = StreamWriter::try_new_with_options(Vec::new(), &first.schema(), options).unwrap();
        writer.write(&first).unwrap();
        let length = writer.get_ref().len();
        writer.write(&second).unwrap();
        let sent = writer.get_ref();
        let (beginning, extension) = sent.split_at(length);
        assert!(extension.len() < 2000, "only what is new is sent: {} bytes", extension.len());
        let read = |extensions: usize| {
            let bytes = [beginning, &extension.repeat(extensions)].concat();
            let mut stream = ArrowStream::of(&bytes)?;
            let mut batches = 0;
            while stream.next()?.is_some() {
                batches += 1;
            }
            Ok::<_, SqlError>(batches)
        };
        assert_eq!(read(10).unwrap(), 11);
        assert!(read(1100).unwrap_err().message.contains("extended too often"));
    }
}
