//! The series of a deleted range, compressed: a statement may delete a million of them, and a deleted range is kept for as long
//! as a file has rows that it may hide.

use crate::rows::wire::{Reader, put_u32};
use nyala_core::store::SeriesSet;
use nyala_core::{Error, Result};
use roaring::RoaringBitmap;
use std::sync::Arc;

/// What a part of a set takes beside its series, about. There is a part for each 65 536 ids of which the set has some.
const PART_BYTES: u64 = 64;

/// Series of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DeletedSeries {
    All,
    Some(Arc<RoaringBitmap>),
}

impl DeletedSeries {
    pub(crate) fn of(series: &SeriesSet) -> Self {
        match series {
            SeriesSet::All => Self::All,
            SeriesSet::Ids(ids) => Self::compressed(ids.iter().map(|id| id.0).collect()),
        }
    }

    fn compressed(mut set: RoaringBitmap) -> Self {
        set.optimize();
        // A copy has no room to grow.
        Self::Some(Arc::new(set.clone()))
    }

    pub(crate) fn contains(&self, series: u32) -> bool {
        match self {
            Self::All => true,
            Self::Some(set) => set.contains(series),
        }
    }

    /// What it takes on the heap, about.
    pub(crate) fn memory_bytes(&self) -> u64 {
        match self {
            Self::All => 0,
            Self::Some(set) => {
                let parts = u64::from(set.statistics().n_containers);
                (size_of::<RoaringBitmap>() + set.serialized_size()) as u64 + parts * PART_BYTES
            }
        }
    }
}

/// Whether the ids of a set are listed one by one in a file: few are shorter then.
pub(super) fn is_listed(set: &RoaringBitmap) -> bool {
    4 * set.len() <= set.serialized_size() as u64
}

/// Appends the number of ids, and these.
pub(super) fn put_list(out: &mut Vec<u8>, set: &RoaringBitmap) {
    put_u32(out, set.len() as u32);
    set.iter().for_each(|id| put_u32(out, id));
}

pub(super) fn take_list(reader: &mut Reader<'_>) -> Result<DeletedSeries> {
    let count = reader.u32()? as usize;
    let bytes = reader.take(count.checked_mul(4).ok_or_else(|| Error::invalid("too many ids"))?)?;
    let ids = bytes.as_chunks::<4>().0.iter().map(|id| u32::from_le_bytes(*id));
    Ok(DeletedSeries::compressed(ids.collect()))
}

/// Appends a length and a set in the portable form of roaring bitmaps.
pub(super) fn put_compressed(out: &mut Vec<u8>, set: &RoaringBitmap) {
    put_u32(out, set.serialized_size() as u32);
    set.serialize_into(&mut *out).expect("a vector takes all bytes");
}

pub(super) fn take_compressed(reader: &mut Reader<'_>) -> Result<DeletedSeries> {
    let mut bytes = reader.bytes()?;
    let set = RoaringBitmap::deserialize_from(&mut bytes)
        .map_err(|error| Error::invalid(format!("a set of series cannot be read: {error}")))?;
    match bytes.is_empty() {
        true => Ok(DeletedSeries::Some(Arc::new(set))),
        false => Err(Error::invalid("bytes follow a set of series")),
    }
}
