//! Splits the binary form into rows: a signature, rows of values with their lengths, and −1 at the end.

use super::lines::bad;
use crate::error::Failure;
use std::ops::Range;

/// What the form begins with.
pub(super) const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";
/// Flags that a reader must understand.
const CRITICAL: u32 = 0xffff_0000;
/// Rows have numbers of their own, as they had before PostgreSQL 12.
const WITH_OIDS: u32 = 1 << 16;

/// Bytes of rows that were not read yet.
#[derive(Default)]
pub(super) struct Tuples {
    pub(super) buffer: Vec<u8>,
    begin: usize,
    has_header: bool,
    /// Whether the end was read.
    has_ended: bool,
    /// The number of the row.
    pub(super) number: u64,
    /// Where the values of the row are; `None`: NULL.
    pub(super) values: Vec<Option<Range<usize>>>,
}

/// What is wrong, and with which column if it is one of them.
pub(super) type Wrong = (Failure, Option<usize>);

impl Tuples {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.begin);
        self.begin = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Reads a row of so many values into `values`; false if there is no whole one.
    pub(super) fn next(&mut self, columns: usize, is_end: bool) -> Result<bool, Wrong> {
        if !self.has_header && !self.read_header(is_end).map_err(|failure| (failure, None))? {
            return Ok(false);
        }
        let mut rest = Rest { bytes: &self.buffer, at: self.begin };
        if self.has_ended {
            return match rest.bytes.len() > rest.at {
                true => Err((bad("received copy data after EOF marker"), None)),
                false => Ok(false),
            };
        }
        let Some(count) = rest.number::<2>().map(i16::from_be_bytes) else { return Ok(false) };
        if count == -1 {
            self.has_ended = true;
            self.begin = rest.at;
            self.number += 1;
            return self.next(columns, is_end);
        }
        if usize::try_from(count) != Ok(columns) {
            self.number += 1;
            return Err((bad(format!("row field count is {count}, expected {columns}")), None));
        }
        self.values.clear();
        for column in 0..columns {
            let value = rest.value().map_err(|failure| (failure, Some(column)));
            let value = match value.inspect_err(|_| self.number += 1)? {
                Some(value) => value,
                None if is_end => {
                    self.number += 1;
                    return Err((bad("unexpected EOF in COPY data"), Some(column)));
                }
                None => return Ok(false),
            };
            self.values.push(value);
        }
        self.begin = rest.at;
        self.number += 1;
        Ok(true)
    }

    /// Reads what stands before the rows; false if not all of it is there.
    fn read_header(&mut self, is_end: bool) -> Result<bool, Failure> {
        let mut rest = Rest { bytes: &self.buffer, at: 0 };
        let incomplete = |message: &str| if is_end { Err(bad(message)) } else { Ok(false) };
        match rest.number::<11>() {
            Some(signature) if signature == *SIGNATURE => {}
            None if !is_end && SIGNATURE.starts_with(&self.buffer) => return Ok(false),
            _ => return Err(bad("COPY file signature not recognized")),
        }
        let Some(flags) = rest.number().map(u32::from_be_bytes) else {
            return incomplete("invalid COPY file header (missing flags)");
        };
        if flags & WITH_OIDS > 0 {
            return Err(bad("invalid COPY file header (WITH OIDS)"));
        }
        if flags & CRITICAL > 0 {
            return Err(bad("unrecognized critical flags in COPY file header"));
        }
        let length = rest.number().map(i32::from_be_bytes);
        let length = match length.map(usize::try_from) {
            Some(Ok(length)) => length,
            Some(Err(_)) => return Err(bad("invalid COPY file header (missing length)")),
            None => return incomplete("invalid COPY file header (missing length)"),
        };
        if rest.bytes.len() - rest.at < length {
            return incomplete("invalid COPY file header (wrong length)");
        }
        self.begin = rest.at + length;
        self.has_header = true;
        Ok(true)
    }
}

/// What is left of the buffer.
struct Rest<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Rest<'_> {
    fn number<const N: usize>(&mut self) -> Option<[u8; N]> {
        let number = *self.bytes[self.at..].first_chunk()?;
        self.at += N;
        Some(number)
    }

    /// A value, with its length before it; `None` if it is not all there.
    fn value(&mut self) -> Result<Option<Option<Range<usize>>>, Failure> {
        let Some(length) = self.number().map(i32::from_be_bytes) else { return Ok(None) };
        if length == -1 {
            return Ok(Some(None));
        }
        let length = usize::try_from(length).map_err(|_| bad("invalid field size"))?;
        if self.bytes.len() - self.at < length {
            return Ok(None);
        }
        let value = self.at..self.at + length;
        self.at = value.end;
        Ok(Some(Some(value)))
    }
}
