//! Parsing the fields of a row into known columns without looking up names. The columns of the previous row are tried
//! in order, and names are compared word by word. So a row of the same shape costs one comparison per field. A row that
//! omits or reorders fields costs a few more. Only new names need the slow path.
//!
//! It agrees with the slow path by construction. A name matches as it is written, between its separator and its `=`,
//! and only if all passes parse it alike ([`is_plain_name`]). A value must clearly have the column's type and be
//! followed by the next separator. In any other case the row does not match, and nothing is changed.

use super::column::{FieldColumn, FieldValues, unescape_string};
use super::number::{fast_float, fast_integer, fast_unsigned, load_words};

/// The longest name that is matched. Longer names always take the slow path, which checks the length of keys.
pub(super) const MAX_PLAIN_NAME_BYTES: usize = 1_024;

/// Names up to this length, including their `=`, are compared as words.
const WORDS: usize = 4;

/// The number of columns that are tried for a name.
const MAX_TRIED_COLUMNS: usize = 32;

/// How the name of a column is written.
#[derive(Debug)]
pub(super) struct NameMatcher {
    /// The name and `=`; empty if the name cannot be matched.
    written: Box<[u8]>,
    words: [u64; WORDS],
    masks: [u64; WORDS],
}

impl NameMatcher {
    /// The spelling of a name that the slow path found in a line.
    pub(super) fn new(written_name: &[u8]) -> Self {
        let written: Box<[u8]> =
            if is_plain_name(written_name) { [written_name, b"="].concat().into() } else { Box::default() };
        Self { words: load_words(&written, 0), masks: load_words(&vec![0xff; written.len()], 0), written }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.written.len()
    }

    /// The position of the value, if this name is at `at`.
    #[inline(always)]
    fn value_at(&self, line: &[u8], at: usize) -> Option<usize> {
        let words = load_words(line, at);
        let difference = |index: usize| (words[index] ^ self.words[index]) & self.masks[index];
        let difference = difference(0) | difference(1) | difference(2) | difference(3);
        if difference != 0 {
            return None;
        }
        let end = at + self.written.len();
        let matches = match self.written.len() {
            0 => false,
            length if length <= WORDS * 8 => true,
            _ => line.get(at + WORDS * 8..end) == Some(&self.written[WORDS * 8..]),
        };
        matches.then_some(end)
    }
}

/// Whether all passes of the slow path parse this name alike: a backslash and the next byte are pairs, and there are no
/// special characters outside of pairs.
fn is_plain_name(written: &[u8]) -> bool {
    let mut at = 0;
    while at < written.len() {
        match written[at] {
            b'\\' if !matches!(written.get(at + 1), None | Some(b'\n' | b'"' | b'\\')) => at += 1,
            b'\\' | b'"' | b' ' | b',' | b'=' | b'\n' | b'\t' | 0 => return false,
            _ => {}
        }
        at += 1;
    }
    (1..=MAX_PLAIN_NAME_BYTES).contains(&written.len())
}

/// The result of parsing a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MatchedFields {
    /// The position after the last value.
    pub(super) end: usize,
    /// Number of fields.
    pub(super) count: usize,
    /// The number of newlines in strings.
    pub(super) newlines: u64,
}

/// Parses the fields from `at`, where the space before them is, into `columns` as row `row`. If it returns `None`, the
/// columns are as before (short columns may have been padded). What follows the last value is not looked at: the caller checks the
/// byte at `end`, and takes the row back if it ends no value.
#[inline(always)]
pub(super) fn append_fields(
    line: &[u8],
    at: usize,
    matchers: &[NameMatcher],
    columns: &mut [FieldColumn],
    row: usize,
) -> Option<MatchedFields> {
    let mut matched = MatchedFields { end: at, count: 0, newlines: 0 };
    let mut expected = 0;
    loop {
        let appended = find_column(line, matched.end + 1, matchers, expected).and_then(|(index, value)| {
            expected = index + 1;
            append_value(line, value, &mut columns[index], row, &mut matched.newlines)
        });
        let Some(end) = appended else {
            take_back(columns, row);
            return None;
        };
        matched.end = end;
        matched.count += 1;
        if line.get(end) != Some(&b',') {
            return Some(matched);
        }
    }
}

/// The column whose name is at `at`, tried from `expected` on, and the position of its value.
#[inline(always)]
fn find_column(line: &[u8], at: usize, matchers: &[NameMatcher], expected: usize) -> Option<(usize, usize)> {
    if let Some(value) = matchers.get(expected).and_then(|matcher| matcher.value_at(line, at)) {
        return Some((expected, value));
    }
    find_other_column(line, at, matchers, expected)
}

#[inline(never)]
fn find_other_column(
    line: &[u8],
    at: usize,
    matchers: &[NameMatcher],
    expected: usize,
) -> Option<(usize, usize)> {
    let expected = expected.min(matchers.len());
    let (before, behind) = (0..expected, expected..matchers.len());
    let mut order = behind.skip(1).chain(before).take(MAX_TRIED_COLUMNS);
    order.find_map(|index| matchers[index].value_at(line, at).map(|value| (index, value)))
}

/// Removes the values of the unfinished `row`.
#[cold]
pub(super) fn take_back(columns: &mut [FieldColumn], row: usize) {
    for column in columns {
        if column.values.len() > row {
            column.pop();
        }
    }
}

/// Appends the value at `at` if it clearly has the column's type. Returns its end.
#[inline(always)]
fn append_value(
    line: &[u8],
    at: usize,
    column: &mut FieldColumn,
    row: usize,
    newlines: &mut u64,
) -> Option<usize> {
    if column.needs_care(row) {
        if column.values.len() > row {
            // The line names the field twice.
            return None;
        }
        column.catch_up(row);
        let end = append_dense(line, at, &mut column.values, newlines)?;
        column.mark_present();
        return Some(end);
    }
    append_dense(line, at, &mut column.values, newlines)
}

#[inline(always)]
fn append_dense(line: &[u8], at: usize, values: &mut FieldValues, newlines: &mut u64) -> Option<usize> {
    match values {
        FieldValues::Integer(values) => {
            let (value, end) = fast_integer(line, at)?;
            values.push(value);
            Some(end)
        }
        FieldValues::Float(values) => {
            let (value, end) = fast_float(line, at)?;
            values.push(value);
            Some(end)
        }
        FieldValues::Unsigned(values) => {
            let (value, end) = fast_unsigned(line, at, b'u')?;
            values.push(value);
            Some(end)
        }
        FieldValues::Boolean(values) => {
            let (value, length) = fast_boolean(line, at)?;
            values.push(value);
            Some(at + length)
        }
        FieldValues::String(values) => {
            let (end, lines) = fast_string(line, at)?;
            unescape_string(&line[at + 1..end - 1], &mut values.bytes);
            values.end_string();
            *newlines += lines;
            Some(end)
        }
    }
}

/// The boolean at `at` and its length. The next byte decides whether it really is a boolean.
#[inline]
fn fast_boolean(line: &[u8], at: usize) -> Option<(bool, usize)> {
    let rest = line.get(at..)?;
    match rest.first()? {
        b't' => Some((true, if rest.starts_with(b"true") { 4 } else { 1 })),
        b'T' => Some((true, if rest.starts_with(b"True") || rest.starts_with(b"TRUE") { 4 } else { 1 })),
        b'f' => Some((false, if rest.starts_with(b"false") { 5 } else { 1 })),
        b'F' => Some((false, if rest.starts_with(b"False") || rest.starts_with(b"FALSE") { 5 } else { 1 })),
        _ => None,
    }
}

/// The end of the string at `at` (after the closing quote), and the number of newlines in it.
#[inline]
fn fast_string(line: &[u8], at: usize) -> Option<(usize, u64)> {
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
    use crate::ingest::column::FieldKind;

    fn table(fields: &[(&str, FieldKind)]) -> (Vec<NameMatcher>, Vec<FieldColumn>) {
        let column = |(name, kind): &(&str, FieldKind)| FieldColumn::new(name.as_bytes(), *kind);
        let matcher = |(name, _): &(&str, FieldKind)| NameMatcher::new(name.as_bytes());
        (fields.iter().map(matcher).collect(), fields.iter().map(column).collect())
    }

    #[test]
    fn a_row_that_does_not_match_changes_nothing() {
        let long = "x".repeat(70);
        let (matchers, mut columns) = table(&[
            ("a", FieldKind::Integer),
            ("usage_guest_nice", FieldKind::Float),
            ("t", FieldKind::Boolean),
            (&long, FieldKind::String),
            ("u", FieldKind::Unsigned),
        ]);
        let row = format!(" a=-1i,usage_guest_nice=2.5,t=False,{long}=\"q\\\"\n\",u=7u 5\n");
        let matched = append_fields(row.as_bytes(), 0, &matchers, &mut columns, 0).expect("matches");
        assert_eq!(matched, MatchedFields { end: row.len() - 3, count: 5, newlines: 1 });
        let before: Vec<FieldValues> = columns.iter().map(|column| column.values().clone()).collect();
        for wrong in [
            row.replace("a=", "b="),
            row.replace("-1i", "-1"),
            row.replace("nice", "mice"),
            row.replace("2.5", "x"),
            row.replace("t=", "a="),
            row.replace("False", "Ralsch"),
            row.replace("xx=", "xy="),
            row.replace(long.as_str(), &long[1..]),
            row.replace("7u", "7i"),
            row.replace("u=", "t="),
        ] {
            assert!(append_fields(wrong.as_bytes(), 0, &matchers, &mut columns, 1).is_none(), "{wrong}");
            let after: Vec<FieldValues> = columns.iter().map(|column| column.values().clone()).collect();
            assert_eq!(before, after, "{wrong}");
        }
    }

    #[test]
    fn fields_are_found_in_any_order_and_may_be_missing() {
        let (matchers, mut columns) =
            table(&[("a", FieldKind::Integer), ("b", FieldKind::Integer), ("c", FieldKind::Integer)]);
        for (row, line) in [" c=3i,a=1i", " b=2i", " b=5i,c=6i,a=4i 1"].iter().enumerate() {
            assert!(append_fields(line.as_bytes(), 0, &matchers, &mut columns, row).is_some(), "{line}");
        }
        let values: Vec<&FieldValues> = columns.iter().map(FieldColumn::values).collect();
        assert_eq!(values[0], &FieldValues::Integer(vec![1, 0, 4]));
        assert_eq!(values[1], &FieldValues::Integer(vec![0, 2, 5]));
        assert_eq!(values[2], &FieldValues::Integer(vec![3, 0, 6]));
        assert!(columns[1].is_present(1) && !columns[1].is_present(0));
    }

    #[test]
    fn names_that_need_a_close_look_are_not_matched() {
        for name in ["", "a b", "a\\", "a\\\\b", "a\"", "a,b", "a=b", "\ta", "a\\\nb", &"x".repeat(2_000)] {
            assert!(!is_plain_name(name.as_bytes()), "{name}");
        }
        for name in ["a", "a\\ b", "a\\,b\\=c", "é"] {
            assert!(is_plain_name(name.as_bytes()), "{name}");
        }
        assert!(NameMatcher::new(b"a b").value_at(b"=1", 0).is_none());
    }
}
