//! The records of changes, as bytes. Numbers in keys are big-endian, others little-endian.
//!
//! | key | value |
//! |---|---|
//! | `c`, id u64 | JSON: `time_ns`, `user`, `database`, `statement`, `points`, `first` (the lowest sequence) |
//! | `p`, id u64, number of the part u32 | table u32, sequence u64, start and end of the times i64, flags u8; if bit 0 is set: the number of columns u32 and each column u32; length of the name u32, name; if bit 1 is set: the set of series, as roaring bitmaps are serialized |

use super::{Change, ChangeId, ChangedPart};
use nyala_core::{ColumnId, Error, ErrorKind, Result, Sequence, TableId, TimeRange};
use roaring::RoaringBitmap;
use serde::{Deserialize, Serialize};

pub(super) const CHANGE: u8 = b'c';
pub(super) const PART: u8 = b'p';

const HAS_COLUMNS: u8 = 1;
const HAS_SERIES: u8 = 2;
/// A set of series that takes more is not written: all series are looked at.
const SERIES_BYTES_MAX: usize = 4 << 20;

#[derive(Serialize, Deserialize)]
struct Head {
    time_ns: i64,
    user: Option<String>,
    database: String,
    statement: String,
    points: Option<u64>,
    first: u64,
}

/// The key of a change, or the prefix of those of its parts.
pub(super) fn key(kind: u8, id: ChangeId) -> Vec<u8> {
    [&[kind][..], &id.0.to_be_bytes()].concat()
}

fn malformed(key: &[u8]) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the record {key:?} of changes is malformed"))
}

fn id_of(key: &[u8]) -> Option<ChangeId> {
    Some(ChangeId(u64::from_be_bytes(*key.get(1..)?.first_chunk()?)))
}

impl Change {
    pub(super) fn record(&self) -> (Vec<u8>, Vec<u8>) {
        let Self { id, time_ns, points, first, .. } = *self;
        let head = Head {
            time_ns,
            user: self.user.clone(),
            database: self.database.clone(),
            statement: self.statement.clone(),
            points,
            first: first.0,
        };
        (key(CHANGE, id), serde_json::to_vec(&head).expect("texts and numbers become JSON"))
    }

    pub(super) fn read(key: &[u8], value: &[u8]) -> Result<Self> {
        let id = id_of(key).ok_or_else(|| malformed(key))?;
        let Head { time_ns, user, database, statement, points, first } =
            serde_json::from_slice(value).map_err(|_| malformed(key))?;
        Ok(Self { id, time_ns, user, database, statement, points, first: Sequence(first) })
    }
}

impl ChangedPart {
    pub(super) fn record(&self, id: ChangeId, number: u32) -> (Vec<u8>, Vec<u8>) {
        let mut value = Vec::new();
        value.extend_from_slice(&self.table.0.to_le_bytes());
        value.extend_from_slice(&self.sequence.0.to_le_bytes());
        value.extend_from_slice(&self.time.start_ns.to_le_bytes());
        value.extend_from_slice(&self.time.end_ns.to_le_bytes());
        let series = self.series.as_ref().filter(|series| series.serialized_size() <= SERIES_BYTES_MAX);
        let flags = if self.columns.is_some() { HAS_COLUMNS } else { 0 };
        value.push(if series.is_some() { flags | HAS_SERIES } else { flags });
        if let Some(columns) = &self.columns {
            value.extend_from_slice(&(columns.len() as u32).to_le_bytes());
            columns.iter().for_each(|column| value.extend_from_slice(&column.0.to_le_bytes()));
        }
        value.extend_from_slice(&(self.measurement.len() as u32).to_le_bytes());
        value.extend_from_slice(self.measurement.as_bytes());
        if let Some(series) = series {
            series.serialize_into(&mut value).expect("memory takes what is written to it");
        }
        ([key(PART, id), number.to_be_bytes().to_vec()].concat(), value)
    }
}

pub(super) fn read_part(key: &[u8], value: &[u8]) -> Result<ChangedPart> {
    part_of(value).ok_or_else(|| malformed(key))
}

fn part_of(bytes: &[u8]) -> Option<ChangedPart> {
    let (table, bytes) = take_u32(bytes)?;
    let (sequence, bytes) = bytes.split_first_chunk()?;
    let (start_ns, bytes) = bytes.split_first_chunk()?;
    let (end_ns, bytes) = bytes.split_first_chunk()?;
    let (flags, mut bytes) = bytes.split_first()?;
    let mut columns = None;
    if flags & HAS_COLUMNS != 0 {
        let (count, mut rest) = take_u32(bytes)?;
        let mut read = Vec::new();
        for _ in 0..count {
            let (column, after) = take_u32(rest)?;
            read.push(ColumnId(column));
            rest = after;
        }
        (columns, bytes) = (Some(read), rest);
    }
    let (length, bytes) = take_u32(bytes)?;
    let (name, bytes) = bytes.split_at_checked(length as usize)?;
    let series = match flags & HAS_SERIES != 0 {
        true => Some(RoaringBitmap::deserialize_from(bytes).ok()?),
        false => None,
    };
    Some(ChangedPart {
        table: TableId(table),
        measurement: std::str::from_utf8(name).ok()?.to_owned(),
        sequence: Sequence(u64::from_le_bytes(*sequence)),
        time: TimeRange::new(i64::from_le_bytes(*start_ns), i64::from_le_bytes(*end_ns)),
        series,
        columns,
    })
}

fn take_u32(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u32::from_le_bytes(*number), rest))
}

/// Reads bytes as a record: what a fuzzer calls. It asserts that a record is read as it is written.
pub(crate) fn read_arbitrary(key: &[u8], value: &[u8]) {
    let _ = Change::read(key, value);
    if let Ok(part) = read_part(key, value) {
        let (key, written) = part.record(ChangeId(1), 1);
        assert_eq!(read_part(&key, &written).ok(), Some(part));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(series: Option<RoaringBitmap>, columns: Option<Vec<ColumnId>>) -> ChangedPart {
        let time = TimeRange::new(-5, i64::MAX);
        let (table, sequence) = (TableId(7), Sequence(1 << 40));
        ChangedPart { table, measurement: "µ".to_owned(), sequence, time, series, columns }
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        for series in [None, Some([1, 70_000].into())] {
            for columns in [None, Some(vec![]), Some(vec![ColumnId(2), ColumnId(9)])] {
                let part = part(series.clone(), columns);
                let (key, value) = part.record(ChangeId(3), 4);
                assert_eq!(read_part(&key, &value).unwrap(), part);
                for end in 0..value.len() {
                    // Cut off, it is refused, or read as something else.
                    let _ = read_part(&key, &value[..end]);
                }
            }
        }
        let change = Change {
            id: ChangeId(9),
            time_ns: -1,
            user: Some("\"u\"".to_owned()),
            database: "d".to_owned(),
            statement: "DELETE".to_owned(),
            points: None,
            first: Sequence(u64::MAX),
        };
        let (key, value) = change.record();
        assert_eq!(Change::read(&key, &value).unwrap(), change);
        assert!(Change::read(&key[..5], &value).is_err());
        assert!(Change::read(&key, b"{}").is_err());
    }
}
