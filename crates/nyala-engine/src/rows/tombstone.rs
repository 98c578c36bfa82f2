//! Deleted ranges: rows of a table up to a sequence, by series and time or by key.
//!
//! A tombstone hides the rows of its range that are not newer than its sequence. In a memtable each row has a sequence. A
//! rowset is compared as a whole, by its highest sequence. Flushes and compactions leave hidden rows out for good. A
//! tombstone is dropped when no rowset and no log record is left of which it could hide rows.

use crate::rows::deleted_series::{
    DeletedSeries, is_listed, put_compressed, put_list, take_compressed, take_list,
};
use crate::rows::key::{KeyRange, SeriesKeys};
use crate::rows::wire::{Reader, put_bytes};
use nyala_core::memory::{Charge, Component, MemoryBudget};
use nyala_core::{Error, Result, SeriesId, TimeRange};
use std::sync::{Arc, OnceLock};

/// A deleted range.
#[derive(Debug)]
pub(crate) struct Tombstone {
    /// The last sequence it hides.
    pub(crate) sequence: u64,
    /// What it hides.
    pub(crate) range: DeletedRange,
    /// For its memory, once it belongs to a store.
    charge: OnceLock<Charge>,
}

impl PartialEq for Tombstone {
    fn eq(&self, other: &Self) -> bool {
        self.sequence == other.sequence && self.range == other.range
    }
}

impl Eq for Tombstone {}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DeletedRange {
    /// Rows of a series-keyed table.
    Series { series: DeletedSeries, time: TimeRange },
    /// Rows of a series-keyed table between two keys.
    SeriesKeys(SeriesKeys),
    /// Rows of any other table.
    Keys(KeyRange),
    /// Rows at these times of any table: what remains of dropped partitions while the log has them.
    Times(TimeRange),
}

impl Tombstone {
    pub(crate) fn new(sequence: u64, range: DeletedRange) -> Self {
        Self { sequence, range, charge: OnceLock::new() }
    }

    /// One that belongs to a store.
    pub(crate) fn charged(sequence: u64, range: DeletedRange, budget: &Arc<MemoryBudget>) -> Arc<Self> {
        let tombstone = Self::new(sequence, range);
        tombstone.charge_to(budget);
        Arc::new(tombstone)
    }

    /// Charges its memory, unless that is charged: until nobody has it any more, versions of the past included.
    pub(crate) fn charge_to(&self, budget: &Arc<MemoryBudget>) {
        let bytes = || size_of::<Self>() as u64 + self.range.memory_bytes();
        self.charge.get_or_init(|| budget.charge(Component::RowsetIndex, bytes()));
    }

    /// The times of a series that it hides.
    pub(crate) fn times_of(&self, series: SeriesId) -> Option<TimeRange> {
        match &self.range {
            DeletedRange::Series { series: set, time } => set.contains(series.0).then_some(*time),
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
    fn hides_key(&self, key: &[u8]) -> bool {
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
        Ok(Self::new(reader.u64()?, DeletedRange::decode(reader)?))
    }
}

/// The sequence up to which some deleted ranges hide an encoded key; 0: none does. For few keys: each range is asked
/// (`key_tombstones.rs`).
pub(crate) fn hidden_to(tombstones: &[Arc<Tombstone>], key: &[u8]) -> u64 {
    let hiding = tombstones.iter().filter(|tombstone| tombstone.hides_key(key));
    hiding.map(|tombstone| tombstone.sequence).max().unwrap_or(0)
}

/// The tombstones the manifest has to know: those that the log does not bring back.
pub(crate) fn durable_tombstones(tombstones: &[Arc<Tombstone>], flushed: u64) -> Vec<Arc<Tombstone>> {
    let durable = tombstones.iter().filter(|tombstone| {
        tombstone.sequence <= flushed || matches!(tombstone.range, DeletedRange::Times(_))
    });
    durable.cloned().collect()
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
            DeletedRange::Series { series, .. } => series.memory_bytes(),
            DeletedRange::Keys(keys) => (keys.start.len() + keys.end.as_ref().map_or(0, Vec::len)) as u64,
            DeletedRange::SeriesKeys(_) | DeletedRange::Times(_) => 0,
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            DeletedRange::Series { series: DeletedSeries::All, time } => {
                out.push(0);
                put_time(out, *time);
            }
            DeletedRange::Series { series: DeletedSeries::Some(set), time } => {
                let is_listed = is_listed(set);
                out.push(if is_listed { 1 } else { 6 });
                put_time(out, *time);
                if is_listed { put_list(out, set) } else { put_compressed(out, set) }
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
            0 => DeletedRange::Series { series: DeletedSeries::All, time: take_time(reader)? },
            1 => {
                let time = take_time(reader)?;
                DeletedRange::Series { series: take_list(reader)?, time }
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
            6 => {
                let time = take_time(reader)?;
                DeletedRange::Series { series: take_compressed(reader)?, time }
            }
            other => return Err(Error::invalid(format!("unknown kind of deleted range {other}"))),
        })
    }
}
