//! Tombstone files: which points of a TSM file were deleted since it was written.
//!
//! ```text
//! version 1: a key a line; all of its points are deleted
//! version 2: 0x1502 │ key length (4) · key · first time (8) · last time (8) │ …
//! version 3: 0x1503 │ the same, compressed by gzip
//! version 4: 0x1504 │ the same, any number of times: one for each deletion
//! ```

use crate::damage::Damage;
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Keys are shorter: the index of a TSM file counts their bytes with 16 bits.
const KEY_BYTES_MAX: usize = 0xFFFF;
/// The most bytes of tombstones of a file. Each takes its key and some 30 bytes.
const TOMBSTONE_BYTES_MAX: usize = 256 << 20;

/// What was deleted from a TSM file.
#[derive(Debug, Default)]
pub struct Tombstones {
    keys: Vec<u8>,
    /// Sorted by key.
    ranges: Vec<Deleted>,
}

/// Points of a key between two times, which are deleted.
#[derive(Debug, Clone, Copy)]
struct Deleted {
    key_start: usize,
    key_bytes: usize,
    first_ns: i64,
    last_ns: i64,
}

impl Tombstones {
    /// Reads a file. If it does not exist, nothing is deleted. If it is damaged, what was read is returned with what is
    /// wrong: without its end, points that were deleted come back.
    pub fn open(path: &Path) -> (Self, Option<Damage>) {
        let mut tombstones = Self::default();
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return (tombstones, None),
            Err(error) => {
                return (tombstones, Some(Damage::new(path, 0, format!("cannot be read: {error}"))));
            }
        };
        let damage = tombstones.read(BufReader::new(file)).err().map(|(offset, message)| {
            Damage::new(path, offset, format!("{message}: points that were deleted may come back"))
        });
        (tombstones, damage)
    }

    /// Reads tombstones. An error has the place (for compressed ones: in what is compressed) and what is wrong there.
    pub fn read(&mut self, mut input: impl BufRead) -> Result<(), (u64, String)> {
        let unreadable = |error: io::Error| (0, format!("cannot be read: {error}"));
        let head = input.fill_buf().map_err(unreadable)?;
        let read = match head.first_chunk::<4>().map(|head| u32::from_be_bytes(*head)) {
            Some(0x1502) => {
                input.consume(4);
                self.read_entries(input, 4)
            }
            Some(0x1503 | 0x1504) => {
                input.consume(4);
                match input.fill_buf().map_err(unreadable)?.is_empty() {
                    true => Ok(()),
                    false => self.read_entries(BufReader::new(MultiGzDecoder::new(input)), 0),
                }
            }
            _ => self.read_lines(input),
        };
        self.sort();
        read
    }

    /// Sorts what was added, before it is asked for.
    pub(crate) fn sort(&mut self) {
        let keys = &self.keys;
        self.ranges.sort_by_key(|range| &keys[range.key_start..range.key_start + range.key_bytes]);
    }

    fn read_lines(&mut self, mut input: impl BufRead) -> Result<(), (u64, String)> {
        let (mut line, mut at) = (Vec::new(), 0);
        loop {
            line.clear();
            let read = input.by_ref().take(KEY_BYTES_MAX as u64 + 2).read_until(b'\n', &mut line);
            let length = read.map_err(|error| (at, format!("cannot be read: {error}")))?;
            if length == 0 {
                return Ok(());
            }
            let key = line.strip_suffix(b"\n").unwrap_or(&line);
            let key = key.strip_suffix(b"\r").unwrap_or(key);
            if key.len() > KEY_BYTES_MAX {
                return Err((at, "a key is too long: this is not a tombstone file".to_owned()));
            }
            if !key.is_empty() {
                self.add(key, i64::MIN, i64::MAX).map_err(|message| (at, message))?;
            }
            at += length as u64;
        }
    }

    fn read_entries(&mut self, mut input: impl BufRead, mut at: u64) -> Result<(), (u64, String)> {
        let mut key = Vec::new();
        loop {
            match input.fill_buf() {
                Ok([]) => return Ok(()),
                Ok(_) => {}
                Err(error) => return Err((at, format!("cannot be read: {error}"))),
            }
            let mut entry = || -> io::Result<Result<(i64, i64), String>> {
                let (mut length, mut times) = ([0; 4], [0; 16]);
                input.read_exact(&mut length)?;
                let length = u32::from_be_bytes(length) as usize;
                if length > KEY_BYTES_MAX {
                    return Ok(Err(format!("a key of {length} bytes, which cannot be")));
                }
                key.resize(length, 0);
                input.read_exact(&mut key)?;
                input.read_exact(&mut times)?;
                let time = |at: usize| i64::from_be_bytes(*times[at..].first_chunk().expect("16 bytes"));
                Ok(Ok((time(0), time(8))))
            };
            let read = entry().map_err(|error| (at, format!("cannot be read: {error}")))?;
            let (first_ns, last_ns) = read.map_err(|message| (at, message))?;
            self.add(&key, first_ns, last_ns).map_err(|message| (at, message))?;
            at += 20 + key.len() as u64;
        }
    }

    /// Adds a range of times of a key.
    pub(crate) fn add(&mut self, key: &[u8], first_ns: i64, last_ns: i64) -> Result<(), String> {
        if self.keys.len() + self.ranges.len() * size_of::<Deleted>() > TOMBSTONE_BYTES_MAX {
            return Err(format!(
                "more tombstones than {} MiB: the others are not read",
                TOMBSTONE_BYTES_MAX >> 20
            ));
        }
        let key_start = self.keys.len();
        self.keys.extend_from_slice(key);
        self.ranges.push(Deleted { key_start, key_bytes: key.len(), first_ns, last_ns });
        Ok(())
    }

    /// Whether nothing is deleted.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The first and last times between which points of a key are deleted: ascending, and with times between them that are not.
    pub fn of_key(&self, key: &[u8]) -> Vec<(i64, i64)> {
        let key_of = |range: &Deleted| &self.keys[range.key_start..range.key_start + range.key_bytes];
        let start = self.ranges.partition_point(|range| key_of(range) < key);
        let same = self.ranges[start..].iter().take_while(|range| key_of(range) == key);
        let mut ranges: Vec<(i64, i64)> = same.map(|range| (range.first_ns, range.last_ns)).collect();
        ranges.retain(|(first_ns, last_ns)| first_ns <= last_ns);
        ranges.sort_unstable();
        // A key may have very many, which are compared with each of its points.
        ranges.dedup_by(|next, kept| {
            let is_beside = next.0 <= kept.1.saturating_add(1);
            kept.1 = if is_beside { kept.1.max(next.1) } else { kept.1 };
            is_beside
        });
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deletions_of_a_key_that_touch_are_one() {
        let mut tombstones = Tombstones::default();
        for (key, first_ns, last_ns) in [
            ("a", 20, 30),
            ("b", 0, 99),
            ("a", 5, 9),
            ("a", 10, 12),
            ("a", 8, 7),
            ("a", 6, 7),
            ("a", i64::MAX, i64::MAX),
            ("a", 31, i64::MAX - 1),
            ("a", i64::MIN, 0),
        ] {
            tombstones.add(key.as_bytes(), first_ns, last_ns).unwrap();
        }
        tombstones.sort();
        assert_eq!(tombstones.of_key(b"a"), [(i64::MIN, 0), (5, 12), (20, i64::MAX)]);
        assert_eq!(tombstones.of_key(b"b"), [(0, 99)]);
        assert_eq!(tombstones.of_key(b"c"), []);
    }
}
