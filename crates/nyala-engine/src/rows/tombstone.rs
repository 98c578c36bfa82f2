//! Deleted ranges: rows of a table up to a sequence, by series and time or by key.
//!
//! A tombstone hides the rows of its range that are not newer than its sequence. In a memtable each row has a sequence. A
//! rowset is compared as a whole, by its highest sequence. Flushes and compactions leave hidden rows out for good. A
//! tombstone is dropped when no rowset and no log record is left of which it could hide rows.

use crate::rows::key::{KeyRange, SeriesKeys};
use crate::rows::wire::{Reader, put_bytes};
use nyala_core::store::SeriesSet;
use nyala_core::{Error, Result, SeriesId, TimeRange};
use std::sync::Arc;

/// A deleted range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tombstone {
    /// The last sequence it hides.
    pub(crate) sequence: u64,
    /// What it hides.
    pub(crate) range: DeletedRange,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DeletedRange {
    /// Rows of a series-keyed table.
    Series { series: SeriesSet, time: TimeRange },
    /// Rows of a series-keyed table between two keys.
    SeriesKeys(SeriesKeys),
    /// Rows of any other table.
    Keys(KeyRange),
    /// Rows at these times of any table: what remains of dropped partitions while the log has them.
    Times(TimeRange),
}

impl Tombstone {
    /// The times of a series that it hides.
    pub(crate) fn times_of(&self, series: SeriesId) -> Option<TimeRange> {
        match &self.range {
            DeletedRange::Series { series: set, time } => set.contains(series).then_some(*time),
            DeletedRange::SeriesKeys(keys) => keys.times_of(series.0),
            DeletedRange::Times(time) => Some(*time),
            DeletedRange::Keys(_) => None,
        }
    }

    /// The times at which it hides something; `None` if it goes by key.
    pub(crate) fn times(&self) -> Option<TimeRange> {
        match &self.range {
            DeletedRange::Series { time, .. } | DeletedRange::Times(time) => Some(*time),
            DeletedRange::SeriesKeys(_) => Some(TimeRange::ALL),
            DeletedRange::Keys(_) => None,
        }
    }

    /// Whether it hides an encoded key. A range of times never does: memtables of the dropped partitions
    /// are gone, and replay leaves their rows out before keys are encoded.
    pub(crate) fn hides_key(&self, key: &[u8]) -> bool {
        match &self.range {
            DeletedRange::Keys(range) => range.contains(key),
            DeletedRange::Series { .. } | DeletedRange::SeriesKeys(_) | DeletedRange::Times(_) => false,
        }
    }

    /// Whether it may hide an encoded key of a range.
    pub(crate) fn overlaps_keys(&self, range: &KeyRange) -> bool {
        let ends_before =
            |end: &Option<Vec<u8>>, start: &[u8]| end.as_ref().is_some_and(|end| end.as_slice() <= start);
        match &self.range {
            DeletedRange::Keys(keys) => {
                !ends_before(&keys.end, &range.start) && !ends_before(&range.end, &keys.start)
            }
            _ => false,
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.sequence.to_le_bytes());
        self.range.encode(out);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { sequence: reader.u64()?, range: DeletedRange::decode(reader)? })
    }
}

/// The tombstones the manifest has to know: those that the log does not bring back.
pub(crate) fn durable_tombstones(tombstones: &[Arc<Tombstone>], flushed: u64) -> Vec<Tombstone> {
    let durable = tombstones.iter().filter(|tombstone| {
        tombstone.sequence <= flushed || matches!(tombstone.range, DeletedRange::Times(_))
    });
    durable.map(|tombstone| Tombstone::clone(tombstone)).collect()
}

fn put_time(out: &mut Vec<u8>, time: TimeRange) {
    out.extend_from_slice(&time.start_ns.to_le_bytes());
    out.extend_from_slice(&time.end_ns.to_le_bytes());
}

fn take_time(reader: &mut Reader<'_>) -> Result<TimeRange> {
    Ok(TimeRange::new(reader.u64()? as i64, reader.u64()? as i64))
}

impl DeletedRange {
    /// What it takes on the heap, about.
    pub(crate) fn memory_bytes(&self) -> u64 {
        match self {
            DeletedRange::Series { series: SeriesSet::Ids(ids), .. } => size_of_val(&ids[..]) as u64,
            DeletedRange::Keys(_) => {
                let mut encoded = Vec::new();
                self.encode(&mut encoded);
                encoded.len() as u64
            }
            DeletedRange::Series { series: SeriesSet::All, .. }
            | DeletedRange::SeriesKeys(_)
            | DeletedRange::Times(_) => 0,
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            DeletedRange::Series { series: SeriesSet::All, time } => {
                out.push(0);
                put_time(out, *time);
            }
            DeletedRange::Series { series: SeriesSet::Ids(ids), time } => {
                out.push(1);
                put_time(out, *time);
                out.extend_from_slice(&(ids.len() as u32).to_le_bytes());
                ids.iter().for_each(|id| out.extend_from_slice(&id.0.to_le_bytes()));
            }
            DeletedRange::Keys(range) => {
                out.push(if range.end.is_some() { 2 } else { 3 });
                put_bytes(out, &range.start);
                if let Some(end) = &range.end {
                    put_bytes(out, end);
                }
            }
            DeletedRange::Times(time) => {
                out.push(4);
                put_time(out, *time);
            }
            DeletedRange::SeriesKeys(keys) => {
                out.push(5);
                for (series, time_ns) in [keys.start, keys.end] {
                    out.extend_from_slice(&series.to_le_bytes());
                    out.extend_from_slice(&time_ns.to_le_bytes());
                }
            }
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(match reader.u8()? {
            0 => DeletedRange::Series { series: SeriesSet::All, time: take_time(reader)? },
            1 => {
                let time = take_time(reader)?;
                let count = reader.u32()? as usize;
                let bytes =
                    reader.take(count.checked_mul(4).ok_or_else(|| Error::invalid("too many ids"))?)?;
                let ids = bytes.as_chunks::<4>().0.iter().map(|id| SeriesId(u32::from_le_bytes(*id)));
                DeletedRange::Series { series: SeriesSet::Ids(ids.collect()), time }
            }
            2 => {
                let (start, end) = (reader.bytes()?.to_vec(), reader.bytes()?.to_vec());
                DeletedRange::Keys(KeyRange { start, end: Some(end) })
            }
            3 => DeletedRange::Keys(KeyRange { start: reader.bytes()?.to_vec(), end: None }),
            4 => DeletedRange::Times(take_time(reader)?),
            5 => {
                let start = (reader.u32()?, reader.i64()?);
                DeletedRange::SeriesKeys(SeriesKeys { start, end: (reader.u32()?, reader.i64()?) })
            }
            other => return Err(Error::invalid(format!("unknown kind of deleted range {other}"))),
        })
    }
}
