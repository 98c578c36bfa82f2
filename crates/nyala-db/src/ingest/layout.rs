//! The shape of a row's fields as it is written: names, types, order. Rows of one source share it, so the next
//! row is held against it word by word instead of looking names up.
//!
//! A layout only knows plain names (no escapes, quotes or blanks). For such a row the quick reading here and the
//! careful one agree by construction: each field is matched with the separator before it and the `=` behind it,
//! each value must be followed by the next field's separator, and whatever else comes makes the row not match.

use super::careful::CarefulField;
use super::column::{FieldColumn, FieldValues, unescape_string};
use super::number::{load_word, quick_digits, quick_float, quick_integer};

/// Longest name in a layout; longer ones always go the careful way, which checks the length of keys.
pub(super) const MAX_PLAIN_NAME_BYTES: usize = 1_024;

/// Separator, name and `=` up to this length are compared as words.
const WORDS: usize = 4;

#[derive(Debug)]
struct LayoutField {
    column: usize,
    /// Separator, name, `=`.
    written: Box<[u8]>,
    word_count: usize,
    words: [u64; WORDS],
    masks: [u64; WORDS],
}

impl LayoutField {
    fn new(separator: u8, name: &[u8], column: usize) -> Self {
        let written: Box<[u8]> = [&[separator], name, b"="].concat().into();
        let mut field = Self {
            column,
            word_count: written.len().div_ceil(8).min(WORDS),
            words: [0; WORDS],
            masks: [0; WORDS],
            written,
        };
        let ones = vec![0xff; field.written.len()];
        for index in 0..field.word_count {
            field.words[index] = load_word(&field.written, index * 8);
            field.masks[index] = load_word(&ones, index * 8);
        }
        field
    }

    /// Where the value begins if this field stands at `at`.
    #[inline(always)]
    fn match_name(&self, line: &[u8], at: usize) -> Option<usize> {
        let mut difference = 0;
        for index in 0..self.word_count {
            difference |= (load_word(line, at + index * 8) ^ self.words[index]) & self.masks[index];
        }
        let end = at + self.written.len();
        let matches = difference == 0
            && (self.written.len() <= WORDS * 8
                || line.get(at + WORDS * 8..end) == Some(&self.written[WORDS * 8..]));
        matches.then_some(end)
    }
}

/// Fields of a row in the order in which they are written.
#[derive(Debug)]
pub(super) struct Layout {
    fields: Vec<LayoutField>,
    /// Layout of the row that followed last time.
    pub(super) next: usize,
}

impl Layout {
    /// The layout of a row whose fields are in `columns`; `None` if it is not plain. `next`: see the field.
    pub(super) fn of_row(fields: &[CarefulField<'_>], columns: &[usize], next: usize) -> Option<Self> {
        let mut seen = columns.to_vec();
        seen.sort_unstable();
        let plain = |field: &CarefulField<'_>| {
            field.written_name.len() <= MAX_PLAIN_NAME_BYTES
                && !field.written_name.is_empty()
                && !field.written_name.iter().any(|byte| b"\\\" ,=\n\t\0".contains(byte))
        };
        if seen.windows(2).any(|pair| pair[0] == pair[1]) || !fields.iter().all(plain) {
            return None;
        }
        let fields = fields.iter().zip(columns).enumerate().map(|(index, (field, &column))| {
            LayoutField::new(if index == 0 { b' ' } else { b',' }, field.written_name, column)
        });
        Some(Self { fields: fields.collect(), next })
    }

    /// Number of fields.
    pub(super) fn len(&self) -> usize {
        self.fields.len()
    }

    /// Bytes held.
    pub(super) fn memory_bytes(&self) -> usize {
        let names = self.fields.iter().map(|field| field.written.len()).sum::<usize>();
        size_of::<Self>() + self.fields.capacity() * size_of::<LayoutField>() + names
    }

    /// Whether `other` stands for the same rows.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.fields.len() == other.fields.len()
            && self
                .fields
                .iter()
                .zip(&other.fields)
                .all(|(a, b)| a.column == b.column && a.written == b.written)
    }

    /// Reads the fields that begin at `at` (with the space before them) into `columns` as `row`. Gives the end of
    /// the last value and the number of newlines in strings. On `None` the columns are as before.
    #[inline(always)]
    pub(super) fn append<const SPARSE: bool>(
        &self,
        line: &[u8],
        at: usize,
        columns: &mut [FieldColumn],
        row: usize,
    ) -> Option<(usize, u64)> {
        let mut at = at;
        let mut newlines = 0;
        for (index, field) in self.fields.iter().enumerate() {
            let Some(value) = field.match_name(line, at) else {
                self.take_back(index, columns);
                return None;
            };
            let column = &mut columns[field.column];
            if SPARSE {
                column.catch_up(row);
            }
            match append_value(line, value, &mut column.values, &mut newlines) {
                Some(end) => at = end,
                None => {
                    self.take_back(index, columns);
                    return None;
                }
            }
            if SPARSE {
                columns[field.column].mark_present();
            }
        }
        Some((at, newlines))
    }

    /// Removes the values that the first `count` fields appended.
    #[cold]
    pub(super) fn take_back(&self, count: usize, columns: &mut [FieldColumn]) {
        for field in &self.fields[..count] {
            columns[field.column].pop();
        }
    }
}

/// Appends the value at `at` if it is plainly one of the column's type, and gives its end.
#[inline(always)]
fn append_value(line: &[u8], at: usize, values: &mut FieldValues, newlines: &mut u64) -> Option<usize> {
    match values {
        FieldValues::Integer(values) => {
            let (value, end) = quick_integer(line, at)?;
            if line.get(end) != Some(&b'i') {
                return None;
            }
            values.push(value);
            Some(end + 1)
        }
        FieldValues::Float(values) => {
            let (value, end) = quick_float(line, at)?;
            values.push(value);
            Some(end)
        }
        FieldValues::Unsigned(values) => {
            let (value, end) = quick_digits(line, at)?;
            if line.get(end) != Some(&b'u') {
                return None;
            }
            values.push(value);
            Some(end + 1)
        }
        FieldValues::Boolean(values) => {
            let (value, length) = quick_boolean(line, at)?;
            FieldColumn::push_boolean(values, value);
            Some(at + length)
        }
        FieldValues::String(values) => {
            let (end, lines) = quick_string(line, at)?;
            unescape_string(&line[at + 1..end - 1], &mut values.bytes);
            values.end_string();
            *newlines += lines;
            Some(end)
        }
    }
}

/// The boolean at `at` and its length; what follows decides whether it really is one.
#[inline]
fn quick_boolean(line: &[u8], at: usize) -> Option<(bool, usize)> {
    let rest = line.get(at..)?;
    match rest.first()? {
        b't' => Some((true, if rest.starts_with(b"true") { 4 } else { 1 })),
        b'T' => Some((true, if rest.starts_with(b"True") || rest.starts_with(b"TRUE") { 4 } else { 1 })),
        b'f' => Some((false, if rest.starts_with(b"false") { 5 } else { 1 })),
        b'F' => Some((false, if rest.starts_with(b"False") || rest.starts_with(b"FALSE") { 5 } else { 1 })),
        _ => None,
    }
}

/// End (behind the closing quote) of the string at `at`, and the newlines in it.
#[inline]
fn quick_string(line: &[u8], at: usize) -> Option<(usize, u64)> {
    if line.get(at) != Some(&b'"') {
        return None;
    }
    let mut from = at + 1;
    let mut newlines = 0;
    loop {
        let found = from + memchr::memchr3(b'"', b'\\', b'\n', line.get(from..)?)?;
        from = found + 1;
        match line[found] {
            b'"' => return Some((from, newlines)),
            b'\n' => newlines += 1,
            _ => {
                newlines += u64::from(line.get(from) == Some(&b'\n'));
                from += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::column::FieldValue;
    use std::borrow::Cow;

    fn field<'a>(name: &'a str, value: FieldValue<'a>) -> CarefulField<'a> {
        CarefulField { written_name: name.as_bytes(), name: Cow::Borrowed(name.as_bytes()), value }
    }

    #[test]
    fn a_row_that_does_not_match_leaves_no_trace() {
        let long = "x".repeat(70);
        let fields = [
            field("a", FieldValue::Integer(0)),
            field("usage_guest_nice", FieldValue::Float(0.0)),
            field("t", FieldValue::Boolean(true)),
            field(&long, FieldValue::String(b"")),
            field("u", FieldValue::Unsigned(0)),
        ];
        let layout = Layout::of_row(&fields, &[4, 3, 2, 1, 0], 0).expect("plain");
        let mut columns: Vec<FieldColumn> =
            fields.iter().rev().map(|field| FieldColumn::new(&field.name, field.value.kind())).collect();
        let row = format!(" a=-1i,usage_guest_nice=2.5,t=False,{long}=\"q\\\"\n\",u=7u 5\n");
        let (end, newlines) = layout.append::<false>(row.as_bytes(), 0, &mut columns, 0).expect("matches");
        assert_eq!((&row[end..], newlines), (" 5\n", 1));
        let before: Vec<FieldValues> = columns.iter().map(|column| column.values().clone()).collect();
        for wrong in [
            row.replace("a=", "b="),
            row.replace("-1i", "-1"),
            row.replace("nice", "mice"),
            row.replace("2.5", "x"),
            row.replace("False", "Falsch"),
            row.replace("xx=", "xy="),
            row.replace(long.as_str(), &long[1..]),
            row.replace("\",u", "u"),
            row.replace("7u", "7i"),
            row.replace(",u=7u", ""),
        ] {
            assert!(layout.append::<false>(wrong.as_bytes(), 0, &mut columns, 1).is_none(), "{wrong}");
            let after: Vec<FieldValues> = columns.iter().map(|column| column.values().clone()).collect();
            assert_eq!(before, after, "{wrong}");
        }
    }

    #[test]
    fn names_that_need_a_close_look_have_no_layout() {
        for name in ["", "a b", "a\\", "a\"", "a,b", "a=b", "\ta", &"x".repeat(2_000)] {
            let row = [field(name, FieldValue::Integer(0))];
            assert!(Layout::of_row(&row, &[0], 0).is_none(), "{name}");
        }
        let twice = [field("a", FieldValue::Integer(0)), field("a", FieldValue::Integer(0))];
        assert!(Layout::of_row(&twice, &[0, 0], 0).is_none());
    }
}
