//! The durable records of a measurement: its series, the types of its fields in shards, the id of its next series.
//!
//! Records: table u32 big-endian, kind byte, then
//!   series:     id u32 big-endian        → per tag: key length u32, key, value length u32, value
//!   shard type: start i64 big-endian ^ sign, field name → type code
//!   next id:    nothing                  → u32

use super::FieldType;
use super::measurement::ShardTypes;
use crate::series::SeriesIndex;
use nyala_core::{SeriesId, TableId};

const SERIES: u8 = b's';
const SHARD_TYPE: u8 = b't';
pub(super) const NEXT_ID: u8 = b'n';

pub(super) fn record_prefix(table: TableId) -> [u8; 4] {
    table.0.to_be_bytes()
}

pub(super) fn record_key(table: TableId, kind: u8, rest: &[u8]) -> Vec<u8> {
    [&record_prefix(table)[..], &[kind], rest].concat()
}

pub(super) fn tags_record(tags: &[(&str, &str)]) -> Vec<u8> {
    let mut record = Vec::new();
    for text in tags.iter().flat_map(|(key, value)| [key, value]) {
        record.extend_from_slice(&(text.len() as u32).to_le_bytes());
        record.extend_from_slice(text.as_bytes());
    }
    record
}

/// Table, kind, id.
pub(super) const SERIES_KEY_BYTES: usize = 9;

pub(super) fn series_key(table: TableId, id: SeriesId) -> [u8; SERIES_KEY_BYTES] {
    let mut key = [SERIES; SERIES_KEY_BYTES];
    key[..4].copy_from_slice(&record_prefix(table));
    key[5..].copy_from_slice(&id.0.to_be_bytes());
    key
}

pub(super) fn shard_type_key(table: TableId, shard_start_ns: i64, field: &str) -> Vec<u8> {
    let start = (shard_start_ns ^ i64::MIN).to_be_bytes();
    record_key(table, SHARD_TYPE, &[&start[..], field.as_bytes()].concat())
}

pub(super) fn read_record(
    key: &[u8],
    value: &[u8],
    series: &mut SeriesIndex,
    types: &mut ShardTypes,
) -> Option<()> {
    let (kind, rest) = key.get(4..)?.split_first()?;
    match *kind {
        SERIES => {
            let id = SeriesId(u32::from_be_bytes(rest.try_into().ok()?));
            series.insert_with_id(id, &read_tags(value)?);
        }
        SHARD_TYPE => {
            let (start, field) = rest.split_first_chunk::<8>()?;
            let start_ns = i64::from_be_bytes(*start) ^ i64::MIN;
            let field = String::from_utf8(field.to_vec()).ok()?;
            types.entry(start_ns).or_default().insert(field, FieldType::of_code(*value.first()?)?);
        }
        NEXT_ID => series.reserve_ids(SeriesId(u32::from_le_bytes(value.try_into().ok()?))),
        _ => return None,
    }
    Some(())
}

fn read_tags(mut bytes: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let mut tags = Vec::new();
    while !bytes.is_empty() {
        let (key, rest) = split_text(bytes)?;
        let (value, rest) = split_text(rest)?;
        tags.push((key, value));
        bytes = rest;
    }
    Some(tags)
}

fn split_text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}
