//! Keys as bytes that compare as the keys do, and bounds on them.
//!
//! Every key column is encoded so that no encoding is a prefix of another: integers of all widths as
//! eight big-endian bytes with the sign flipped, strings with `00` escaped as `00 ff` and ended by
//! `00 01`. So a key prefix bounds exactly the keys that begin with its bytes.

use crate::rows::column_buffer::{CellSource, Column, Values};
use nyala_core::store::{KeyBound, RowSelection};
use nyala_core::{ColumnType, Error, Result, TableSchema, TimeRange, Value};
use std::borrow::Cow;
use std::ops::Bound;

const SIGN: u64 = 1 << 63;

/// Appends a cell of a key column.
pub(crate) fn encode_cell(key: &mut Vec<u8>, cells: &CellSource<'_>, column_type: ColumnType, row: usize) {
    match column_type {
        ColumnType::String | ColumnType::Binary => encode_bytes(key, cells.bytes(row)),
        ColumnType::Decimal { .. } => encode_wide(key, cells.wide(row)),
        _ => encode_word(key, column_type, cells.word(row)),
    }
}

/// Appends a cell of a decoded key column.
pub(crate) fn encode_decoded(key: &mut Vec<u8>, column: &Column, column_type: ColumnType, row: usize) {
    match &column.values {
        Values::Word(words) => encode_word(key, column_type, words[row]),
        Values::Wide(wides) => encode_wide(key, wides[row]),
        Values::Bytes(bytes) => encode_bytes(key, bytes.get(row)),
    }
}

fn encode_word(key: &mut Vec<u8>, column_type: ColumnType, word: u64) {
    let ordered = match column_type {
        ColumnType::Bool | ColumnType::UInt32 | ColumnType::UInt64 => word,
        _ => word ^ SIGN,
    };
    key.extend_from_slice(&ordered.to_be_bytes());
}

fn encode_wide(key: &mut Vec<u8>, wide: i128) {
    key.extend_from_slice(&((wide as u128) ^ (1 << 127)).to_be_bytes());
}

fn encode_bytes(key: &mut Vec<u8>, bytes: &[u8]) {
    let mut rest = bytes;
    while let Some(position) = rest.iter().position(|byte| *byte == 0) {
        key.extend_from_slice(&rest[..position]);
        key.extend_from_slice(&[0, 0xff]);
        rest = &rest[position + 1..];
    }
    key.extend_from_slice(rest);
    key.extend_from_slice(&[0, 1]);
}

/// Appends the cells of an encoded key to columns, one per key column. Keys are made by this module, so
/// one that does not decode is a broken invariant.
pub(crate) fn decode_into(mut key: &[u8], types: &[ColumnType], columns: &mut [Option<Column>]) {
    for (column_type, column) in types.iter().zip(columns) {
        match column_type {
            ColumnType::String | ColumnType::Binary => {
                let bytes = take_bytes(&mut key);
                if let Some(column) = column {
                    column.push_bytes(&bytes);
                }
            }
            ColumnType::Decimal { .. } => {
                let (head, rest) = key.split_first_chunk::<16>().expect("keys are whole");
                key = rest;
                if let Some(column) = column {
                    column.push_wide((u128::from_be_bytes(*head) ^ (1 << 127)) as i128);
                }
            }
            _ => {
                let (head, rest) = key.split_first_chunk::<8>().expect("keys are whole");
                key = rest;
                let word = u64::from_be_bytes(*head);
                let word = match column_type {
                    ColumnType::Bool | ColumnType::UInt32 | ColumnType::UInt64 => word,
                    _ => word ^ SIGN,
                };
                if let Some(column) = column {
                    column.push_word(word);
                }
            }
        }
    }
}

/// Takes a string off the beginning of a key.
fn take_bytes<'a>(key: &mut &'a [u8]) -> Cow<'a, [u8]> {
    let mut joined = Vec::new();
    loop {
        let position = memchr::memchr(0, key).expect("strings in keys are ended");
        let (part, is_last) = (&key[..position], key[position + 1] == 1);
        *key = &key[position + 2..];
        if is_last && joined.is_empty() {
            return Cow::Borrowed(part);
        }
        joined.extend_from_slice(part);
        if is_last {
            return Cow::Owned(joined);
        }
        joined.push(0);
    }
}

/// Whether bytes are a key with all its columns, not a prefix or made otherwise.
pub(crate) fn is_whole(mut key: &[u8], types: &[ColumnType]) -> bool {
    for column_type in types {
        let length = match column_type {
            ColumnType::String | ColumnType::Binary => match string_bytes(key) {
                Some(length) => length,
                None => return false,
            },
            ColumnType::Decimal { .. } => 16,
            _ => 8,
        };
        match key.get(length..) {
            Some(rest) => key = rest,
            None => return false,
        }
    }
    key.is_empty()
}

/// The encoded length of the string that a key begins with.
fn string_bytes(key: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr::memchr(0, &key[at..])? + 2;
        match key.get(at - 1)? {
            1 => return Some(at),
            0xff => {}
            _ => return None,
        }
    }
}

/// A half-open range of encoded keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyRange {
    /// The first key inside.
    pub(crate) start: Vec<u8>,
    /// The first key past the end; `None`: there is no end.
    pub(crate) end: Option<Vec<u8>>,
}

impl KeyRange {
    pub(crate) fn all() -> Self {
        Self { start: Vec::new(), end: None }
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.start.as_slice() <= key && self.end.as_ref().is_none_or(|end| key < end.as_slice())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }

    /// One whole key: none begins with another.
    pub(crate) fn one(key: Vec<u8>) -> Self {
        let end = [&key[..], &[0]].concat();
        Self { start: key, end: Some(end) }
    }

    /// Whether nothing is inside but the start and what begins with it.
    pub(crate) fn is_one(&self) -> bool {
        let Some(end) = &self.end else { return false };
        end.strip_prefix(&self.start[..]) == Some(&[0]) || successor(self.start.clone()).as_ref() == Some(end)
    }

    /// The keys a selection holds; [`RowSelection::Series`] is not one of keys.
    pub(crate) fn of(selection: &RowSelection, schema: &TableSchema) -> Result<Self> {
        match selection {
            RowSelection::All => Ok(Self::all()),
            RowSelection::Keys { start, end } => {
                let start = match encode_bound(start, schema)? {
                    Bound::Unbounded => Some(Vec::new()),
                    Bound::Included(key) => Some(key),
                    Bound::Excluded(key) => successor(key),
                };
                let end = match encode_bound(end, schema)? {
                    Bound::Unbounded => None,
                    Bound::Included(key) => successor(key),
                    Bound::Excluded(key) => Some(key),
                };
                // Nothing comes after a prefix without a successor.
                Ok(match start {
                    Some(start) => Self { start, end },
                    None => Self { start: Vec::new(), end: Some(Vec::new()) },
                })
            }
            RowSelection::Series { .. } => {
                Err(Error::unsupported(format!("table {} is not keyed by series", schema.shown_name())))
            }
        }
    }
}

/// A half-open range of keys of a series-keyed table, in the order of series, then time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeriesKeys {
    /// The first key inside.
    pub(crate) start: (u32, i64),
    /// The first key past the end.
    pub(crate) end: (u32, i64),
}

impl SeriesKeys {
    /// Every key: no valid time is `i64::MAX`.
    pub(crate) const ALL: Self = Self { start: (0, i64::MIN), end: (u32::MAX, i64::MAX) };
    const NOTHING: Self = Self { start: (0, 0), end: (0, 0) };

    /// The times of a series that are inside.
    pub(crate) fn times_of(&self, series: u32) -> Option<TimeRange> {
        if series < self.start.0 || series > self.end.0 {
            return None;
        }
        let start_ns = if series == self.start.0 { self.start.1 } else { i64::MIN };
        let end_ns = if series == self.end.0 { self.end.1 } else { i64::MAX };
        let range = TimeRange::new(start_ns, end_ns);
        (!range.is_empty()).then_some(range)
    }

    /// The keys between two bounds.
    pub(crate) fn of(start: &KeyBound, end: &KeyBound) -> Result<Self> {
        let Some(start) = (match start {
            Bound::Unbounded => Some(Self::ALL.start),
            Bound::Included(values) => match series_key(values)? {
                SeriesKey::Any => Some(Self::ALL.start),
                SeriesKey::Of(series, time_ns) => Some((series, time_ns.unwrap_or(i64::MIN))),
                SeriesKey::Beyond => None,
            },
            Bound::Excluded(values) => match series_key(values)? {
                SeriesKey::Any | SeriesKey::Beyond => None,
                SeriesKey::Of(series, Some(time_ns)) => Some((series, time_ns.saturating_add(1))),
                SeriesKey::Of(series, None) => series.checked_add(1).map(|series| (series, i64::MIN)),
            },
        }) else {
            return Ok(Self::NOTHING);
        };
        let end = match end {
            Bound::Unbounded => Self::ALL.end,
            Bound::Included(values) => match series_key(values)? {
                SeriesKey::Any | SeriesKey::Beyond => Self::ALL.end,
                SeriesKey::Of(series, None) => (series, i64::MAX),
                SeriesKey::Of(series, Some(time_ns)) => (series, time_ns.saturating_add(1)),
            },
            Bound::Excluded(values) => match series_key(values)? {
                SeriesKey::Any => return Ok(Self::NOTHING),
                SeriesKey::Of(series, time_ns) => (series, time_ns.unwrap_or(i64::MIN)),
                SeriesKey::Beyond => Self::ALL.end,
            },
        };
        Ok(if start < end { Self { start, end } } else { Self::NOTHING })
    }
}

/// A key of a bound.
enum SeriesKey {
    /// The prefix of every key.
    Any,
    /// A series, perhaps at a time.
    Of(u32, Option<i64>),
    /// An id beyond 32 bits, after every series.
    Beyond,
}

fn series_key(values: &[Value]) -> Result<SeriesKey> {
    let key = |id: u64, time_ns| match u32::try_from(id) {
        Ok(series) => SeriesKey::Of(series, time_ns),
        Err(_) => SeriesKey::Beyond,
    };
    match values {
        [] => Ok(SeriesKey::Any),
        [Value::UInt(id)] => Ok(key(*id, None)),
        [Value::UInt(id), Value::Int(time_ns), ..] => Ok(key(*id, Some(*time_ns))),
        other => Err(Error::invalid(format!("{other:?} cannot bound keys of series and time"))),
    }
}

/// The least byte string above all that begin with `prefix`.
fn successor(mut prefix: Vec<u8>) -> Option<Vec<u8>> {
    while let Some(last) = prefix.last_mut() {
        if *last < 0xff {
            *last += 1;
            return Some(prefix);
        }
        prefix.pop();
    }
    None
}

fn encode_bound(bound: &KeyBound, schema: &TableSchema) -> Result<Bound<Vec<u8>>> {
    let (values, included) = match bound {
        Bound::Unbounded => return Ok(Bound::Unbounded),
        Bound::Included(values) => (values, true),
        Bound::Excluded(values) => (values, false),
    };
    let mut key = Vec::new();
    for (id, value) in schema.key.iter().zip(values) {
        let column = schema.column(*id).expect("schemas are validated");
        let column_type = column.column_type;
        match (column_type, value) {
            (ColumnType::String, Value::String(text)) => encode_bytes(&mut key, text.as_bytes()),
            (ColumnType::Binary, Value::Binary(bytes)) => encode_bytes(&mut key, bytes),
            (ColumnType::Decimal { .. }, Value::Decimal(wide)) => encode_wide(&mut key, *wide),
            (ColumnType::Bool, Value::Bool(bool)) => encode_word(&mut key, column_type, (*bool).into()),
            (ColumnType::UInt32 | ColumnType::UInt64, Value::UInt(word)) => {
                encode_word(&mut key, column_type, *word);
            }
            (
                ColumnType::Int8
                | ColumnType::Int16
                | ColumnType::Int32
                | ColumnType::Int64
                | ColumnType::Date
                | ColumnType::Timestamp,
                Value::Int(value),
            ) => encode_word(&mut key, column_type, *value as u64),
            (_, other) => {
                return Err(Error::invalid(format!(
                    "table {}: {other:?} cannot bound key column {:?}",
                    schema.shown_name(),
                    column.name
                )));
            }
        }
    }
    Ok(if included { Bound::Included(key) } else { Bound::Excluded(key) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::column_buffer::Kind;

    #[test]
    fn strings_order_as_bytes_and_decode() {
        let texts: [&[u8]; 6] = [b"", b"\0", b"\0a", b"a", b"a\0", b"b"];
        let keys: Vec<Vec<u8>> = texts
            .iter()
            .map(|text| {
                let mut key = Vec::new();
                encode_bytes(&mut key, text);
                encode_word(&mut key, ColumnType::Int32, -5i64 as u64);
                key
            })
            .collect();
        assert!(keys.is_sorted());
        for (text, key) in texts.iter().zip(&keys) {
            let mut columns = [Kind::Bytes, Kind::Word].map(|kind| Some(Column::new(kind)));
            decode_into(key, &[ColumnType::Binary, ColumnType::Int32], &mut columns);
            let [first, second] = columns.map(|column| column.expect("it is asked for"));
            assert_eq!(first.value(0, ColumnType::Binary), Some(Value::Binary(text.to_vec())));
            assert_eq!(second.value(0, ColumnType::Int32), Some(Value::Int(-5)));
        }
    }

    #[test]
    fn a_prefix_bounds_all_keys_that_begin_with_it() {
        assert_eq!(successor(vec![1, 0xff]), Some(vec![2]));
        assert_eq!(successor(vec![0xff]), None);
    }
}
