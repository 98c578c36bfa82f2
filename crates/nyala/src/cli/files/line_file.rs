//! The lines of a file of line protocol, which may be gzipped.

use super::inputs::Input;
use nyala_bench::workload::file::unpacked;
use nyala_db::ingest::line_end;
use std::fs::File;
use std::io::{self, BufRead, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Read at once.
const READ_BYTES: usize = 1 << 20;
/// A line that is longer than a server takes by default (`max-body-size`) ends at its first newline: a quotation mark is
/// missing.
const LINE_BYTES_MAX: usize = 25_000_000;

/// A file that is being read.
pub(super) struct LineFile {
    shown: String,
    text: Box<dyn BufRead + Send>,
    read_bytes: Arc<AtomicU64>,
    buffer: Vec<u8>,
    at: usize,
    is_end: bool,
    /// The bytes of text before those in the buffer.
    before_bytes: u64,
    number: u64,
}

/// A line with its newline, if it has one. There may be newlines in its strings.
pub(super) struct Line<'a> {
    pub(super) text: &'a [u8],
    /// The number of its first line of text, from 1.
    pub(super) number: u64,
    /// The bytes of text up to its end.
    pub(super) until: u64,
    /// Whether it was cut, so that what is behind it must not be parsed with it.
    pub(super) is_cut: bool,
}

impl LineFile {
    pub(super) fn open(input: &Input) -> Result<Self, String> {
        let read_bytes = Arc::new(AtomicU64::new(0));
        let file = Counted { file: input.open()?, bytes: read_bytes.clone() };
        let text = unpacked(file).map_err(|error| format!("{}: {error}", input.shown))?;
        Ok(Self {
            shown: input.shown.clone(),
            text,
            read_bytes,
            buffer: Vec::new(),
            at: 0,
            is_end: false,
            before_bytes: 0,
            number: 1,
        })
    }

    /// How much of the file was read, as it is stored.
    pub(super) fn read_bytes(&self) -> u64 {
        self.read_bytes.load(Ordering::Relaxed)
    }

    /// The next line.
    pub(super) fn next(&mut self) -> Result<Option<Line<'_>>, String> {
        let (mut end, mut is_cut) = (line_end(&self.buffer, self.at), false);
        while end.is_none() {
            let rest = &self.buffer[self.at..];
            if rest.len() >= LINE_BYTES_MAX {
                let newline = memchr::memchr(b'\n', rest).map_or(rest.len(), |offset| offset + 1);
                (end, is_cut) = (Some(self.at + newline), true);
                break;
            }
            if self.is_end {
                break;
            }
            self.fill()?;
            end = line_end(&self.buffer, self.at);
        }
        let end = end.unwrap_or(self.buffer.len());
        let (start, number) = (self.at, self.number);
        let text = &self.buffer[start..end];
        if text.is_empty() {
            return Ok(None);
        }
        self.at = end;
        self.number += memchr::memchr_iter(b'\n', text).count() as u64;
        Ok(Some(Line { text, number, until: self.before_bytes + end as u64, is_cut }))
    }

    /// Reads as much again as is waiting, so that a long line is not looked at too often.
    fn fill(&mut self) -> Result<(), String> {
        self.buffer.drain(..self.at);
        self.before_bytes += self.at as u64;
        self.at = 0;
        let wanted = self.buffer.len().max(READ_BYTES) as u64;
        let read = self.text.by_ref().take(wanted).read_to_end(&mut self.buffer);
        let read = read.map_err(|error| format!("{}: {error}", self.shown))?;
        self.is_end = (read as u64) < wanted;
        Ok(())
    }
}

/// Counts what is read of a file.
struct Counted {
    file: File,
    bytes: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(into)?;
        self.bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::super::inputs::inputs_of;
    use super::*;
    use std::io::Write;

    fn lines(bytes: &[u8]) -> Vec<(u64, u64, usize, bool)> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.lp");
        std::fs::write(&path, bytes).expect("it is written");
        let input = inputs_of(&[path], &["lp"]).expect("a file").remove(0);
        let mut file = LineFile::open(&input).expect("it opens");
        let mut found = Vec::new();
        while let Some(line) = file.next().expect("it is read") {
            found.push((line.number, line.until, line.text.len(), line.is_cut));
        }
        assert_eq!(file.read_bytes(), bytes.len() as u64);
        found
    }

    #[test]
    fn strings_have_newlines_and_files_are_gzipped() {
        let text = b"# x\nm s=\"a\nb\" 1\nm v=1 2\r\n\nm v=2";
        let wanted =
            [(1, 4, 4, false), (2, 16, 12, false), (4, 25, 9, false), (5, 26, 1, false), (6, 31, 5, false)];
        assert_eq!(lines(text), wanted);
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(text).expect("memory grows");
        assert_eq!(lines(&packed.finish().expect("memory grows")), wanted);
        assert_eq!(lines(b""), []);
        assert_eq!(lines(b"m v=1 1\nm s=\"x\\\"\n\" 2\n").len(), 2);
    }

    #[test]
    fn a_line_is_longer_than_what_is_read_at_once() {
        let long = format!("m s=\"{}\" 1\n", "x\n".repeat(3 << 20));
        let text = format!("m v=1 1\n{long}m v=2 2\n");
        let found = lines(text.as_bytes());
        let sizes: Vec<usize> = found.iter().map(|(_, _, bytes, _)| *bytes).collect();
        assert_eq!(sizes, [8, long.len(), 8]);
        assert_eq!(found[2].0, 2 + (3 << 20) + 1);
    }

    #[test]
    fn a_quotation_mark_that_is_missing_costs_a_line() {
        let rest = "m v=1 1\n".repeat(LINE_BYTES_MAX / 8 + 1);
        let found = lines(format!("m s=\"x 1\n{rest}").as_bytes());
        assert_eq!((found.len(), found[0], found[1].3), (2 + LINE_BYTES_MAX / 8, (1, 9, 9, true), false));
    }
}
