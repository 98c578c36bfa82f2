//! What a Parquet file declares, checked before anything is decoded.
//!
//! The footer must be no longer than the file, and its lists no longer than the footer. Then the headers of all pages are
//! read, which are few bytes each: a page says how much memory it takes decompressed, and how many values it has. What is
//! more than accepted is an error that names the place.

use super::footer::{Footer, Refusal};
use super::thrift::{Kind, Malformed, Walker};
use crate::error::{FileError, FileErrorKind, FileResult};
use parquet::basic::Type as PhysicalType;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The longest footer. One row group of 1000 columns takes about 100 KiB.
const FOOTER_MAX_BYTES: u64 = 64 << 20;
/// The longest page, decompressed. Writers begin a new one after 1 MiB, but a single text may be longer.
const PAGE_MAX_BYTES: i64 = 256 << 20;
/// The longest header of a page. It holds the least and the greatest value, which writers cut off.
const PAGE_HEADER_MAX_BYTES: usize = 1 << 20;
/// What is read at once to find a header.
const PAGE_HEADER_BYTES: usize = 4 << 10;
/// The longest value of a column of values of one length.
const FIXED_MAX_BYTES: i32 = 64 << 10;
/// Rows of a batch, unless values may be long.
const BATCH_ROWS: u64 = 8192;
/// What the values of a batch may take, if they are as long as the file allows …
const BATCH_BYTES: u64 = 128 << 20;
/// … with at least so many rows, as long as there is room.
const BATCH_ROWS_MIN: u64 = 16;
/// What the dictionaries, a page of each column and the values of a batch may take. Writers end a dictionary and a page after 1 MiB, so
/// that is room for hundreds of columns of texts.
pub(super) const HELD_BYTES_MAX: u64 = 1 << 30;

/// Numbers of encodings whose values can be longer than what is stored of each.
const DICTIONARY: [i64; 2] = [2, 8];
const DELTA_BYTE_ARRAY: i64 = 7;

/// The file, for reading and for messages.
pub(super) struct Checked<'a> {
    pub(super) file: &'a File,
    pub(super) path: &'a str,
    pub(super) bytes: u64,
    /// [`HELD_BYTES_MAX`], in tests less.
    pub(super) held_bytes_max: u64,
}

/// What reading a column takes.
#[derive(Default)]
struct ColumnBytes {
    /// Its dictionary and its longest page.
    held: u64,
    /// How long a value can be beyond what is stored of it.
    longest: u64,
}

/// What the header of a page says.
#[derive(Default)]
struct PageHeader {
    uncompressed_bytes: i64,
    compressed_bytes: i64,
    values: i64,
    encoding: i64,
    header_bytes: u64,
}

impl PageHeader {
    /// Takes a value. The `parquet` crate reads fields by their numbers, whatever type they have: one that has another would be read
    /// otherwise there than here.
    fn note(&mut self, way: &[i16], kind: Kind, number: i64) -> Result<(), Malformed> {
        let wanted = match way {
            [1..=4] | [5, 1..=4] | [7, 1 | 2] | [8, 1..=6] => Kind::Number,
            [7, 3] | [8, 7] => Kind::Bool,
            [5..=8] => Kind::Structure,
            _ => return Ok(()),
        };
        if kind != wanted {
            return Err(Malformed);
        }
        match way {
            [2] => self.uncompressed_bytes = number,
            [3] => self.compressed_bytes = number,
            [5 | 7 | 8, 1] => self.values = number,
            [5, 2] | [8, 4] => self.encoding = number,
            _ => {}
        }
        Ok(())
    }
}

impl Checked<'_> {
    fn corrupt(&self, place: &str, words: &str) -> FileError {
        FileError::new(FileErrorKind::Corrupt, format!("\"{}\", {place}: {words}", self.path))
    }

    fn too_large(&self, place: &str, words: &str) -> FileError {
        FileError::new(FileErrorKind::TooLarge, format!("\"{}\", {place}: {words}", self.path))
    }

    fn read(&self, at: u64, length: usize, place: &str) -> FileResult<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, at).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => self.corrupt(place, "the file ends there"),
            _ => FileError::io(self.path)(error),
        })?;
        Ok(bytes)
    }

    /// Checks the footer's form.
    pub(super) fn footer(&self) -> FileResult<()> {
        let place = "footer";
        if self.bytes < 12 {
            return Err(self.corrupt(place, "the file is too short for a Parquet file"));
        }
        if self.read(0, 4, "first bytes")? != b"PAR1" {
            return Err(self.corrupt("first bytes", "this is no Parquet file"));
        }
        let tail = self.read(self.bytes - 8, 8, place)?;
        let (length, magic) = tail.split_at(4);
        if magic == b"PARE" {
            let message = format!("\"{}\": encrypted Parquet files are not supported", self.path);
            return Err(FileError::new(FileErrorKind::Unsupported, message));
        }
        if magic != b"PAR1" {
            return Err(self.corrupt(place, "the file does not end as a Parquet file does: it was cut off"));
        }
        let length = u64::from(u32::from_le_bytes(length.try_into().expect("it is four bytes")));
        if length > self.bytes - 12 {
            return Err(self.corrupt(place, &format!("{length} bytes are longer than the file")));
        }
        if length > FOOTER_MAX_BYTES {
            let words = format!("{length} bytes are more than {FOOTER_MAX_BYTES}");
            return Err(self.too_large(place, &words));
        }
        let bytes = self.read(self.bytes - 8 - length, length as usize, place)?;
        let mut footer = Footer::default();
        let walked = Walker::new(&bytes).structure(&mut |way, kind, number| footer.note(way, kind, number));
        match (walked, footer.refusal()) {
            (Ok(()), None) => Ok(()),
            (_, Some(Refusal::TooLarge(words))) => Err(self.too_large(place, &words)),
            (_, Some(Refusal::Corrupt(words))) => Err(self.corrupt(place, words)),
            (Err(Malformed), None) => Err(self.corrupt(place, "it is damaged")),
        }
    }

    /// Checks all pages of a row group. Returns how many rows fit into a batch.
    pub(super) fn row_group(&self, metadata: &ParquetMetaData, number: usize) -> FileResult<usize> {
        let group = metadata.row_group(number);
        let mut sum = ColumnBytes::default();
        for (column, chunk) in group.columns().iter().enumerate() {
            let place = format!("row group {number}, column \"{}\"", chunk.column_path().string());
            if chunk.column_descr().max_rep_level() > 0 {
                let message = format!("\"{}\", {place}: lists and maps are not supported", self.path);
                return Err(FileError::new(FileErrorKind::Unsupported, message));
            }
            let own = self.column(group, column, &place)?;
            sum.held += own.held;
            sum.longest += own.longest;
        }
        let rows = u64::try_from(group.num_rows()).unwrap_or(0).max(1);
        match batch_rows(&sum, rows, self.held_bytes_max) {
            0 => {
                let words = format!(
                    "its dictionaries, pages and longest values take {} bytes, more than {}",
                    sum.held + sum.longest,
                    self.held_bytes_max
                );
                Err(self.too_large(&format!("row group {number}"), &words))
            }
            rows => Ok(rows as usize),
        }
    }

    /// Checks the pages of a column.
    fn column(&self, group: &RowGroupMetaData, column: usize, place: &str) -> FileResult<ColumnBytes> {
        let chunk = group.column(column);
        let (mut at, end) = self.range(chunk, place)?;
        let is_fixed = chunk.column_type() == PhysicalType::FIXED_LEN_BYTE_ARRAY;
        let is_text = chunk.column_type() == PhysicalType::BYTE_ARRAY;
        if is_fixed && !(0..=FIXED_MAX_BYTES).contains(&chunk.column_descr().type_length()) {
            return Err(self.too_large(place, "its values are too long"));
        }
        let rows = group.num_rows();
        if rows < 0 {
            return Err(self.corrupt(place, "its row group has a negative number of rows"));
        }
        let (mut values, mut dictionary_bytes, mut page_bytes, mut longest_bytes) = (0, 0, 0, 0);
        while at < end && values < rows {
            let header = self.page(at, end, place)?;
            let place = || format!("{place}, page at byte {at}");
            let sizes = [header.uncompressed_bytes, header.compressed_bytes];
            if sizes.iter().any(|bytes| *bytes > PAGE_MAX_BYTES) {
                let words =
                    format!("a page of {} bytes is longer than {PAGE_MAX_BYTES}", sizes[0].max(sizes[1]));
                return Err(self.too_large(&place(), &words));
            }
            if sizes.iter().any(|bytes| *bytes < 0) || header.values < 0 {
                return Err(self.corrupt(&place(), "it has a negative size"));
            }
            let next = at + header.header_bytes + header.compressed_bytes as u64;
            if next > end {
                return Err(self.corrupt(&place(), "it is longer than its column"));
            }
            match header.encoding {
                // The dictionary itself, whose values are stored whole.
                -1 => {
                    dictionary_bytes = header.uncompressed_bytes as u64;
                    if header.values > header.uncompressed_bytes.max(1) {
                        return Err(self.corrupt(&place(), "it declares more values than it has bytes"));
                    }
                }
                encoding => {
                    if header.values > rows - values {
                        return Err(self.corrupt(&place(), "it has more values than its row group has rows"));
                    }
                    values += header.values;
                    page_bytes = page_bytes.max(header.uncompressed_bytes as u64);
                    if DICTIONARY.contains(&encoding) {
                        longest_bytes = longest_bytes.max(dictionary_bytes);
                    } else if encoding == DELTA_BYTE_ARRAY {
                        longest_bytes = longest_bytes.max(header.uncompressed_bytes as u64);
                    } else {
                        // They are stored whole: on average they are so long.
                        let each = header.uncompressed_bytes / header.values.max(1);
                        longest_bytes = longest_bytes.max(each as u64);
                    }
                }
            }
            at = next;
        }
        if values != rows {
            return Err(self.corrupt(place, &format!("it has {values} values for {rows} rows")));
        }
        let longest = match (is_text, is_fixed) {
            (true, _) => longest_bytes,
            (false, true) => chunk.column_descr().type_length().unsigned_abs().into(),
            (false, false) => 16,
        };
        Ok(ColumnBytes { held: dictionary_bytes + page_bytes, longest })
    }

    fn range(&self, chunk: &ColumnChunkMetaData, place: &str) -> FileResult<(u64, u64)> {
        let begin = chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset());
        let begin = begin.min(chunk.data_page_offset());
        let range = u64::try_from(begin).ok().zip(u64::try_from(chunk.compressed_size()).ok());
        let end = range.and_then(|(begin, length)| begin.checked_add(length));
        match (range, end) {
            (Some((begin, _)), Some(end)) if end <= self.bytes => Ok((begin, end)),
            _ => Err(self.corrupt(place, "it lies beyond the end of the file")),
        }
    }

    fn page(&self, at: u64, end: u64, place: &str) -> FileResult<PageHeader> {
        let mut length = PAGE_HEADER_BYTES;
        loop {
            let available = (end - at).min(length as u64) as usize;
            let bytes = self.read(at, available, place)?;
            let mut header = PageHeader { encoding: -1, ..PageHeader::default() };
            let mut walker = Walker::new(&bytes);
            let walked = walker.structure(&mut |way, kind, number| header.note(way, kind, number));
            if walked.is_ok() {
                header.header_bytes = walker.walked() as u64;
                return Ok(header);
            }
            if available < length || length >= PAGE_HEADER_MAX_BYTES {
                let place = format!("{place}, page at byte {at}");
                return Err(self.corrupt(&place, "its header is damaged"));
            }
            length = PAGE_HEADER_MAX_BYTES;
        }
    }
}

/// How many rows fit into a batch; 0 if not even one does.
fn batch_rows(sum: &ColumnBytes, rows: u64, held_bytes_max: u64) -> u64 {
    let fitting = BATCH_BYTES.checked_div(sum.longest).unwrap_or(BATCH_ROWS);
    let fitting = fitting.clamp(BATCH_ROWS_MIN, BATCH_ROWS).min(rows);
    match held_bytes_max.checked_sub(sum.held) {
        Some(room) => fitting.min(room.checked_div(sum.longest).unwrap_or(fitting)),
        None => 0,
    }
}
