//! Line protocol from a file, as `tsbs_generate_data --format influx` writes it, plain or gzipped.

use super::{BatchSize, Workload};
use crate::error::{BenchError, Result};
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Mutex;

/// The longest line accepted.
const LINE_LIMIT_BYTES: u64 = 1 << 20;
/// The longest file that [`read_whole`] accepts.
const WHOLE_LIMIT_BYTES: u64 = 1 << 30;
const BUFFER_BYTES: usize = 1 << 20;

/// The lines of one batch.
#[derive(Debug, Default)]
pub struct FileBatch {
    text: Vec<u8>,
}

/// The workload: a reader behind a lock.
pub struct FileWorkload {
    batch_rows: usize,
    source: Mutex<Source>,
}

struct Source {
    reader: Box<dyn BufRead + Send>,
    failure: Option<io::Error>,
}

impl FileWorkload {
    /// The lines of the file at `path`, in batches of `batch_rows`.
    pub fn open(path: &Path, batch_rows: usize) -> Result<FileWorkload> {
        let reader = open(path).map_err(BenchError::io(format!("reading {}", path.display())))?;
        Ok(FileWorkload { batch_rows, source: Mutex::new(Source { reader, failure: None }) })
    }

    /// The error that ended reading before the end of the file.
    pub fn failure(&self) -> Option<io::Error> {
        self.source.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).failure.take()
    }
}

impl Workload for FileWorkload {
    type Batch = FileBatch;

    fn total_rows(&self) -> Option<u64> {
        None
    }

    fn claim(&self, batch: &mut FileBatch) -> Option<BatchSize> {
        batch.text.clear();
        let mut source = self.source.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if source.failure.is_some() {
            return None;
        }
        let mut size = BatchSize { rows: 0, values: 0 };
        while size.rows < self.batch_rows as u64 {
            match read_line(&mut source.reader, &mut batch.text) {
                Ok(0) => break,
                Ok(length) => {
                    let line = &batch.text[batch.text.len() - length..];
                    size.rows += 1;
                    size.values += fields(line);
                }
                Err(error) => {
                    source.failure = Some(error);
                    return None;
                }
            }
        }
        (size.rows > 0).then_some(size)
    }

    fn write(&self, batch: &FileBatch, body: &mut Vec<u8>) {
        body.clear();
        body.extend_from_slice(&batch.text);
    }
}

/// Reads a whole file, decompressed if it is gzipped.
pub fn read_whole(path: &Path) -> Result<Vec<u8>> {
    let context = || format!("reading {}", path.display());
    let mut bytes = Vec::new();
    let reader = open(path).map_err(BenchError::io(context()))?;
    reader.take(WHOLE_LIMIT_BYTES + 1).read_to_end(&mut bytes).map_err(BenchError::io(context()))?;
    if bytes.len() as u64 > WHOLE_LIMIT_BYTES {
        return Err(BenchError::Invalid(format!("{} is longer than a gibibyte", path.display())));
    }
    Ok(bytes)
}

fn open(path: &Path) -> io::Result<Box<dyn BufRead + Send>> {
    unpacked(File::open(path)?)
}

/// The bytes of a file, decompressed if it is gzipped.
pub fn unpacked(file: impl Read + Send + 'static) -> io::Result<Box<dyn BufRead + Send>> {
    let mut plain = BufReader::with_capacity(BUFFER_BYTES, file);
    if plain.fill_buf()?.starts_with(&[0x1f, 0x8b]) {
        return Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(plain))));
    }
    Ok(Box::new(plain))
}

/// Appends a line with its newline; returns its length, 0 at the end of the file.
fn read_line(reader: &mut dyn BufRead, text: &mut Vec<u8>) -> io::Result<usize> {
    let length = reader.take(LINE_LIMIT_BYTES).read_until(b'\n', text)?;
    if length as u64 == LINE_LIMIT_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a line of more than a mebibyte"));
    }
    Ok(length)
}

/// The number of fields of a line. In the suites, tags and strings contain no spaces or commas.
fn fields(line: &[u8]) -> u64 {
    let parts = line.split(|&byte| byte == b' ').nth(1).unwrap_or_default();
    1 + parts.iter().filter(|&&byte| byte == b',').count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn batches(bytes: &[u8]) -> (Vec<(u64, u64)>, Vec<u8>, bool) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data");
        std::fs::write(&path, bytes).unwrap();
        let workload = FileWorkload::open(&path, 2).unwrap();
        let (mut batch, mut body, mut all, mut sizes) =
            (FileBatch::default(), Vec::new(), Vec::new(), Vec::new());
        while let Some(size) = workload.claim(&mut batch) {
            workload.write(&batch, &mut body);
            all.extend_from_slice(&body);
            sizes.push((size.rows, size.values));
        }
        (sizes, all, workload.failure().is_some())
    }

    #[test]
    fn lines_are_batched_whether_gzipped_or_not() {
        let text = b"cpu,a=b x=1i,y=2i 1\ncpu,a=b x=1i 2\ncpu,a=c x=1i,y=2i,z=3i 3";
        let expected = (vec![(2, 3), (1, 3)], text.to_vec(), false);
        assert_eq!(batches(text), expected);
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        let zipped = encoder.finish().unwrap();
        assert_eq!(batches(&zipped), expected);
        assert!(batches(&zipped[..zipped.len() - 9]).2, "a truncated file is an error");
        assert!(batches(&vec![b'x'; 2 << 20]).2, "a line without end");
        assert_eq!(batches(b""), (vec![], vec![], false));
    }
}
