//! The values of a line of text or CSV.

use super::lines::bad;
use crate::error::Failure;
use crate::value::parameter::utf8;
use memchr::memchr2;
use nyala_sql::{CopyForm, CopyKind};
use std::ops::Range;

/// The values of one line after the other.
pub(super) struct Fields {
    is_csv: bool,
    delimiter: u8,
    null: String,
    quote: u8,
    escape: u8,
    places: Vec<Place>,
    /// Texts that differ from what stands in the line.
    texts: Vec<u8>,
}

/// Where the text of a value is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Null,
    Line(Range<usize>),
    Texts(Range<usize>),
}

impl Fields {
    pub(super) fn of(form: &CopyForm) -> Self {
        Self {
            is_csv: form.kind == CopyKind::Csv,
            delimiter: form.delimiter,
            null: form.null.clone(),
            quote: form.quote,
            escape: form.escape,
            places: Vec::new(),
            texts: Vec::new(),
        }
    }

    /// Splits a line into `most` values. If it has more, one of these is kept, so that they count as too many; the others are only
    /// read, because what is wrong with them is said first.
    pub(super) fn split(&mut self, line: &str, most: usize) -> Result<(), Failure> {
        self.places.clear();
        self.texts.clear();
        let mut next = Some(0);
        while let Some(begin) = next {
            let texts_bytes = self.texts.len();
            next = match self.is_csv {
                true => self.csv_field(line.as_bytes(), begin)?,
                false => self.text_field(line.as_bytes(), begin)?,
            };
            if self.places.len() > most + 1 {
                self.places.truncate(most + 1);
                self.texts.truncate(texts_bytes);
            }
        }
        Ok(())
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.places.len()
    }

    /// A value of the line that was split; `None`: NULL.
    pub(super) fn get<'a>(&'a self, line: &'a str, number: usize) -> Option<&'a str> {
        match &self.places[number] {
            Place::Null => None,
            Place::Line(place) => Some(&line[place.clone()]),
            Place::Texts(place) => Some(
                std::str::from_utf8(&self.texts[place.clone()]).expect("it was checked when it was read"),
            ),
        }
    }

    /// Reads a value of the text form, and returns where the next one begins.
    fn text_field(&mut self, line: &[u8], begin: usize) -> Result<Option<usize>, Failure> {
        let rest = &line[begin..];
        let at = memchr2(self.delimiter, b'\\', rest);
        if at.is_none_or(|at| rest[at] != b'\\') {
            let end = begin + at.unwrap_or(rest.len());
            self.places.push(match &line[begin..end] == self.null.as_bytes() {
                true => Place::Null,
                false => Place::Line(begin..end),
            });
            return Ok(at.map(|at| begin + at + 1));
        }
        let from = self.texts.len();
        let (mut position, mut is_checked) = (begin, true);
        let mut end = line.len();
        let mut next = None;
        while position < line.len() {
            let byte = line[position];
            position += 1;
            if byte == self.delimiter {
                (end, next) = (position - 1, Some(position));
                break;
            }
            if byte != b'\\' {
                self.texts.push(byte);
                continue;
            }
            let Some(escaped) = line.get(position) else { break };
            position += 1;
            let is_octal = |byte: &&u8| matches!(byte, b'0'..=b'7');
            let value = match escaped {
                b'b' => 0x08,
                b'f' => 0x0c,
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'v' => 0x0b,
                b'0'..=b'7' => {
                    let more = line[position..].iter().take(2).take_while(is_octal).count();
                    let digits = &line[position - 1..position + more];
                    position += more;
                    let value = digits.iter().fold(0_u32, |value, digit| value * 8 + u32::from(digit - b'0'));
                    is_checked &= (1..128).contains(&(value & 0xff));
                    (value & 0xff) as u8
                }
                b'x' if line.get(position).is_some_and(u8::is_ascii_hexdigit) => {
                    let more = line[position..].iter().take(2).take_while(|byte| byte.is_ascii_hexdigit());
                    let digits = &line[position..position + more.count()];
                    position += digits.len();
                    let digit = |digit: &u8| char::from(*digit).to_digit(16).unwrap_or(0);
                    let value = digits.iter().fold(0, |value, own| value * 16 + digit(own));
                    is_checked &= (1..128).contains(&value);
                    value as u8
                }
                other => *other,
            };
            self.texts.push(value);
        }
        self.places.push(match &line[begin..end] == self.null.as_bytes() {
            true => {
                self.texts.truncate(from);
                Place::Null
            }
            false => Place::Texts(from..self.texts.len()),
        });
        if !is_checked {
            utf8(&self.texts[from..])?;
        }
        Ok(next)
    }

    /// Reads a value of CSV, and returns where the next one begins.
    fn csv_field(&mut self, line: &[u8], begin: usize) -> Result<Option<usize>, Failure> {
        let rest = &line[begin..];
        let at = memchr2(self.delimiter, self.quote, rest);
        if at.is_none_or(|at| rest[at] != self.quote) {
            let end = begin + at.unwrap_or(rest.len());
            self.places.push(match &line[begin..end] == self.null.as_bytes() {
                true => Place::Null,
                false => Place::Line(begin..end),
            });
            return Ok(at.map(|at| begin + at + 1));
        }
        if at == Some(0)
            && let Some(quoted) = memchr2(self.quote, self.escape, &rest[1..])
            && rest[quoted + 1] == self.quote
            && rest.get(quoted + 2).is_none_or(|next| *next == self.delimiter)
        {
            // Nothing in it is escaped.
            self.places.push(Place::Line(begin + 1..begin + 1 + quoted));
            return Ok(rest.get(quoted + 2).map(|_| begin + quoted + 3));
        }
        self.quoted_field(line, begin)
    }

    /// The same for a value that has quotes anywhere.
    fn quoted_field(&mut self, line: &[u8], begin: usize) -> Result<Option<usize>, Failure> {
        let from = self.texts.len();
        let (mut position, mut is_in_quotes) = (begin, false);
        let mut next = None;
        while position < line.len() {
            let byte = line[position];
            position += 1;
            match (is_in_quotes, byte) {
                (false, byte) if byte == self.delimiter => {
                    next = Some(position);
                    break;
                }
                (true, byte)
                    if byte == self.escape
                        && line.get(position).is_some_and(|n| *n == self.escape || *n == self.quote) =>
                {
                    self.texts.push(line[position]);
                    position += 1;
                }
                (_, byte) if byte == self.quote => is_in_quotes = !is_in_quotes,
                (_, byte) => self.texts.push(byte),
            }
        }
        if is_in_quotes {
            return Err(bad("unterminated CSV quoted field"));
        }
        self.places.push(Place::Texts(from..self.texts.len()));
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(form: &CopyForm, line: &str) -> Result<Vec<Option<String>>, String> {
        let mut fields = Fields::of(form);
        fields.split(line, 10).map_err(|failure| failure.message)?;
        Ok((0..fields.count()).map(|number| fields.get(line, number).map(str::to_owned)).collect())
    }

    fn found(values: &[Option<&str>]) -> Result<Vec<Option<String>>, String> {
        Ok(values.iter().map(|value| value.map(str::to_owned)).collect())
    }

    #[test]
    fn escapes_of_text_are_resolved() {
        let form = CopyForm { delimiter: b'\t', null: "\\N".to_owned(), ..CopyForm::default() };
        assert_eq!(split(&form, ""), found(&[Some("")]));
        assert_eq!(split(&form, "a\t\\N\t"), found(&[Some("a"), None, Some("")]));
        assert_eq!(split(&form, "\\\\N\tx\\Ny"), found(&[Some("\\N"), Some("xNy")]));
        assert_eq!(split(&form, "\\b\\f\\n\\r\\t\\v\\\t\\q"), found(&[Some("\x08\x0c\n\r\t\x0b\tq")]));
        assert_eq!(split(&form, "\\1018\\x41g\\xg\\"), found(&[Some("A8Agxg")]));
        assert_eq!(split(&form, "\\303\\244\\xc3\\xa4"), found(&[Some("ää")]));
        let invalid = "invalid byte sequence for encoding \"UTF8\": ";
        assert_eq!(split(&form, "a\\000"), Err(format!("{invalid}0x00")));
        assert_eq!(split(&form, "a\\303b"), Err(format!("{invalid}0xc3 0x62")));
        let form = CopyForm { delimiter: b'|', null: "nil".to_owned(), ..CopyForm::default() };
        assert_eq!(split(&form, "nil|\\nil|ni\\l"), found(&[None, Some("\nil"), Some("nil")]));
    }

    #[test]
    fn quotes_of_csv_tell_a_text_from_null() {
        let csv = CopyForm {
            kind: CopyKind::Csv,
            delimiter: b',',
            quote: b'"',
            escape: b'"',
            ..CopyForm::default()
        };
        assert_eq!(split(&csv, ",\"\",a, b"), found(&[None, Some(""), Some("a"), Some(" b")]));
        assert_eq!(split(&csv, "\"a,\"\"b\",c\"d,e\"f"), found(&[Some("a,\"b"), Some("cd,ef")]));
        assert_eq!(split(&csv, "\"a\nb\",\"\"\"\""), found(&[Some("a\nb"), Some("\"")]));
        assert_eq!(split(&csv, "\"a"), Err("unterminated CSV quoted field".to_owned()));
        assert_eq!(split(&csv, &",".repeat(100)), found(&[None; 11]));
        assert_eq!(
            split(&csv, &format!("{}\"", ",".repeat(100))),
            Err("unterminated CSV quoted field".to_owned())
        );
        let other = CopyForm { quote: b'\'', escape: b'\\', null: "NULL".to_owned(), ..csv };
        assert_eq!(split(&other, "NULL,'NULL'"), found(&[None, Some("NULL")]));
        assert_eq!(split(&other, "'a\\'b\\\\c\\d',\\'x'"), found(&[Some("a'b\\c\\d"), Some("\\x")]));
    }
}
