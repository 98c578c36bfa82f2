//! Splits text and CSV into lines, as PostgreSQL does: all lines end as the first one does, `\.` ends the rows, and a line of
//! CSV goes on within quotes.

use crate::error::Failure;
use memchr::{memchr2, memchr3};
use nyala_sql::{CopyForm, CopyKind};
use std::ops::Range;

/// How lines end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineEnd {
    Unknown,
    Newline,
    Return,
    Both,
}

/// Bytes of lines that were not read yet.
pub(super) struct Lines {
    is_csv: bool,
    quote: u8,
    /// `None` if quotes escape themselves.
    escape: Option<u8>,
    pub(super) buffer: Vec<u8>,
    /// Where the line begins that is being read.
    begin: usize,
    /// Up to where it was looked at.
    looked: usize,
    end: LineEnd,
    is_in_quotes: bool,
    was_escape: bool,
    /// Whether a line was begun.
    is_begun: bool,
    /// Whether `\.` was read: what follows is not looked at.
    has_ended: bool,
    /// The number of the line.
    pub(super) number: u64,
}

/// What a look at the next bytes has found.
enum Found {
    /// The text of a line ends here, and the next one begins there.
    Line(usize, usize),
    /// The rows end: what is before is the last line, if there is anything.
    End(usize),
    /// It is a part of the line; look on from there.
    Text(usize),
    /// More bytes are needed.
    Nothing,
}

impl Lines {
    pub(super) fn of(form: &CopyForm) -> Self {
        Self {
            is_csv: form.kind == CopyKind::Csv,
            quote: form.quote,
            escape: Some(form.escape).filter(|escape| *escape != form.quote),
            buffer: Vec::new(),
            begin: 0,
            looked: 0,
            end: LineEnd::Unknown,
            is_in_quotes: false,
            was_escape: false,
            is_begun: false,
            has_ended: false,
            number: 0,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.begin);
        self.looked -= self.begin;
        self.begin = 0;
        if !self.has_ended {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// The next line, as a part of the buffer; `None` if there is no whole one. At the end of the rows the last line needs no
    /// end.
    pub(super) fn next(&mut self, is_end: bool) -> Result<Option<Range<usize>>, Failure> {
        if self.has_ended || self.begin == self.buffer.len() {
            return Ok(None);
        }
        if !self.is_begun {
            self.is_begun = true;
            self.number += 1;
        }
        loop {
            match self.look(is_end)? {
                Found::Text(next) => self.looked = next,
                Found::Line(end, next) => return Ok(Some(self.take(end, next))),
                Found::End(end) => {
                    self.has_ended = true;
                    let line = self.take(end, self.buffer.len());
                    return Ok(Some(line).filter(|line| !line.is_empty()));
                }
                Found::Nothing if is_end => {
                    let end = self.buffer.len();
                    return Ok(Some(self.take(end, end)));
                }
                Found::Nothing => return Ok(None),
            }
        }
    }

    fn take(&mut self, end: usize, next: usize) -> Range<usize> {
        let line = self.begin..end;
        (self.begin, self.looked) = (next, next);
        (self.is_begun, self.is_in_quotes, self.was_escape) = (false, false, false);
        line
    }

    /// Looks for the next byte that means something.
    fn look(&mut self, is_end: bool) -> Result<Found, Failure> {
        let from = self.looked;
        if self.is_csv && self.is_in_quotes {
            return Ok(self.look_in_quotes());
        }
        let rest = &self.buffer[from..];
        let is_first_backslash =
            self.is_csv && from == self.begin && rest.first() == Some(&b'\\') && self.quote != b'\\';
        let found = match self.is_csv {
            true if is_first_backslash => Some(0),
            true => memchr3(self.quote, b'\n', b'\r', rest),
            false => memchr3(b'\\', b'\n', b'\r', rest),
        };
        let Some(at) = found.map(|at| from + at) else {
            self.looked = self.buffer.len();
            return Ok(Found::Nothing);
        };
        self.looked = at;
        match self.buffer[at] {
            b'\r' => self.look_at_return(at, is_end),
            b'\n' => match self.end {
                LineEnd::Unknown | LineEnd::Newline => {
                    self.end = LineEnd::Newline;
                    Ok(Found::Line(at, at + 1))
                }
                _ => Err(self.stray("newline", "\\n")),
            },
            b'\\' if is_first_backslash || !self.is_csv => self.look_at_backslash(at, is_end),
            _ => {
                self.is_in_quotes = true;
                Ok(Found::Text(at + 1))
            }
        }
    }

    fn look_in_quotes(&mut self) -> Found {
        let from = self.looked;
        let rest = &self.buffer[from..];
        let found = memchr2(self.quote, self.escape.unwrap_or(self.quote), rest);
        // Lines within quotes count, too.
        let counted = if self.end == LineEnd::Newline { b'\n' } else { b'\r' };
        let skipped = &rest[..found.unwrap_or(rest.len())];
        self.number += memchr::memchr_iter(counted, skipped).count() as u64;
        if !skipped.is_empty() {
            self.was_escape = false;
        }
        let Some(at) = found.map(|at| from + at) else {
            self.looked = self.buffer.len();
            return Found::Nothing;
        };
        if Some(self.buffer[at]) == self.escape {
            self.was_escape = !self.was_escape;
        } else {
            self.is_in_quotes = self.was_escape;
            self.was_escape = false;
        }
        Found::Text(at + 1)
    }

    fn look_at_return(&mut self, at: usize, is_end: bool) -> Result<Found, Failure> {
        match self.end {
            LineEnd::Return => Ok(Found::Line(at, at + 1)),
            LineEnd::Newline => Err(self.stray("carriage return", "\\r")),
            LineEnd::Unknown | LineEnd::Both => match self.buffer.get(at + 1) {
                Some(b'\n') => {
                    self.end = LineEnd::Both;
                    Ok(Found::Line(at, at + 2))
                }
                None if !is_end => Ok(Found::Nothing),
                _ if self.end == LineEnd::Both => Err(self.stray("carriage return", "\\r")),
                _ => {
                    self.end = LineEnd::Return;
                    Ok(Found::Line(at, at + 1))
                }
            },
        }
    }

    fn look_at_backslash(&mut self, at: usize, is_end: bool) -> Result<Found, Failure> {
        let text = if self.is_csv { at + 1 } else { at + 2 };
        match self.buffer.get(at + 1) {
            None => return Ok(Found::Nothing),
            Some(b'.') => {}
            Some(_) => return Ok(Found::Text(text)),
        }
        let other_style = || bad("end-of-copy marker does not match previous newline style");
        let corrupt = || bad("end-of-copy marker corrupt");
        let mut behind = at + 2;
        if self.end == LineEnd::Both {
            match (self.buffer.get(behind), self.is_csv) {
                (None, _) if !is_end => return Ok(Found::Nothing),
                (Some(b'\r'), _) => behind += 1,
                (_, true) => return Ok(Found::Text(text)),
                (Some(b'\n'), false) => return Err(other_style()),
                (_, false) => return Err(corrupt()),
            }
        }
        match (self.buffer.get(behind), self.end) {
            (None, _) if !is_end => Ok(Found::Nothing),
            (Some(b'\n'), LineEnd::Unknown | LineEnd::Newline | LineEnd::Both)
            | (Some(b'\r'), LineEnd::Unknown | LineEnd::Return) => Ok(Found::End(at)),
            (Some(b'\n' | b'\r'), _) => Err(other_style()),
            _ if self.is_csv => Ok(Found::Text(text)),
            _ => Err(corrupt()),
        }
    }

    /// The error of an end of line that other lines do not have.
    fn stray(&self, name: &str, escaped: &str) -> Failure {
        match self.is_csv {
            true => bad(format!("unquoted {name} found in data"))
                .with_hint(format!("Use quoted CSV field to represent {name}.")),
            false => bad(format!("literal {name} found in data"))
                .with_hint(format!("Use \"{escaped}\" to represent {name}.")),
        }
    }
}

/// The error of rows that are not in their form.
pub(super) fn bad(message: impl Into<String>) -> Failure {
    Failure::new("22P04", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(kind: CopyKind) -> CopyForm {
        CopyForm { kind, delimiter: b',', quote: b'"', escape: b'"', ..CopyForm::default() }
    }

    /// The lines of bytes that come in pieces of a length, and the number of the last line.
    fn lines(form: &CopyForm, bytes: &[u8], length: usize) -> Result<(Vec<String>, u64), String> {
        let (mut lines, mut found) = (Lines::of(form), Vec::new());
        let mut add = |lines: &mut Lines, is_end| {
            while let Some(line) = lines.next(is_end).map_err(|failure| failure.message)? {
                found.push(String::from_utf8_lossy(&lines.buffer[line]).into_owned());
            }
            Ok::<_, String>(())
        };
        for piece in bytes.chunks(length) {
            lines.push(piece);
            add(&mut lines, false)?;
        }
        add(&mut lines, true)?;
        Ok((found, lines.number))
    }

    #[test]
    fn lines_are_the_same_however_bytes_come() {
        let escaping = CopyForm { escape: b'\\', ..form(CopyKind::Csv) };
        let (text, csv) = (form(CopyKind::Text), form(CopyKind::Csv));
        type Case<'a> = (&'a CopyForm, &'a str, Result<&'a [&'a str], &'a str>);
        let cases: [Case<'_>; 17] = [
            (&text, "a\nb\n", Ok(&["a", "b"])),
            (&text, "a\r\n\r\nb", Ok(&["a", "", "b"])),
            (&text, "a\rb\r", Ok(&["a", "b"])),
            (&text, "a\\\nb\nc\n", Ok(&["a\\\nb", "c"])),
            (&text, "a\nb\rc\n", Err("literal carriage return found in data")),
            (&text, "a\r\nb\nc\n", Err("literal newline found in data")),
            (&text, "a\n\\.\nrubbish\r\r\n", Ok(&["a"])),
            (&text, "a\nb\\.\n", Ok(&["a", "b"])),
            (&text, "a\n\\.b\n", Err("end-of-copy marker corrupt")),
            (&text, "a\r\n\\.\n", Err("end-of-copy marker does not match previous newline style")),
            (&text, "a\\", Ok(&["a\\"])),
            (&csv, "\"a\nb\",c\n\"\"\"\n\"\nd", Ok(&["\"a\nb\",c", "\"\"\"\n\"", "d"])),
            (&csv, "a\n\\.\nb\n", Ok(&["a"])),
            (&csv, "a\n\\.b\nx\\.\n", Ok(&["a", "\\.b", "x\\."])),
            (&csv, "a\r\nb\n", Err("unquoted newline found in data")),
            (&csv, "a\n\"b\nc\n", Ok(&["a", "\"b\nc\n"])),
            (&escaping, "\"a\\\"\n\\\\\"\nb\"\"\n", Ok(&["\"a\\\"\n\\\\\"", "b\"\""])),
        ];
        for (form, bytes, expected) in cases {
            let whole = lines(form, bytes.as_bytes(), bytes.len());
            let found = whole.as_ref().map(|(found, _)| found.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(found.as_deref().map_err(|error| error.as_str()), expected, "{bytes:?}");
            for length in 1..bytes.len() {
                assert_eq!(lines(form, bytes.as_bytes(), length), whole, "{bytes:?} {length}");
            }
        }
        assert_eq!(lines(&csv, b"a\n\"b\nc\"\nd\n", 99).map(|(_, last)| last), Ok(4));
    }
}
