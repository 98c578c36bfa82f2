//! The durable records of a table of points: its series, the types of its fields by shard, the id of its next series,
//! its idle series, the members of a group.
//!
//! Records: table u32 big-endian, kind byte, then
//!   not idle:   id u32 big-endian        → nothing: the series is in an idle set, but reactivated or removed
//!   column:     number of a column of the store u32 big-endian → the name of its field, which was renamed
//!   hidden:     id u32 big-endian, number of the entry of the log i64 big-endian → 1: hidden since this entry, or 0: shown
//!   id block:   number u32 big-endian    → nothing: ids from number × 4096 on are a server's to give out
//!   idle set:   number u64 big-endian    → start i64, end i64, number of keys u32, each: length u32, key; then the ids
//!                                          as a Roaring bitmap
//!   member:     name                     → a zero byte: a measurement of the group that the table holds
//!   next id:    nothing                  → u32
//!   series:     id u32 big-endian        → its tags; per tag: key length u32, key, value length u32, value
//!   shard type: start i64 big-endian ^ sign, field name → type code
//!   own type:   start i64 as there, length u32 big-endian and name of a member of a group, name of a field that only it
//!               has → type code
//!   tag set:    16 bytes of the SHA-256 of the tags of an idle series, or where several servers give ids of any → id u32
//!   idle tags:  number u64 big-endian of a set → in order of id the tags of its series: length u32, tags
//!
//! An idle series has no record of its own: its tags are in the record of its set. The last two kinds are many and
//! large; a start does not read them.

use super::field::{FieldType, ShardTypes};
use crate::records::{Recent, SeriesChange};
use crate::series::{IdleSeries, SeriesIndex};
use nyala_core::{ColumnId, SeriesId, TableId, TimeRange};
use ring::digest::{SHA256, digest};
use roaring::RoaringBitmap;
use std::collections::{BTreeMap, HashMap};

pub(super) const NOT_IDLE: u8 = b'a';
pub(super) const ID_BLOCK: u8 = b'b';
pub(super) const COLUMN_NAME: u8 = b'f';
pub(super) const HIDDEN: u8 = b'h';
pub(super) const IDLE_SET: u8 = b'i';
pub(super) const TAG_SET: u8 = b'x';
pub(super) const IDLE_TAGS: u8 = b'y';
pub(super) const MEMBER: u8 = b'm';
pub(super) const SERIES: u8 = b's';
pub(super) const SHARD_TYPE: u8 = b't';
pub(super) const OWN_TYPE: u8 = b'u';
pub(super) const NEXT_ID: u8 = b'n';

/// Ids that a server reserves at once. When a server stops, the ids that it has not given out are lost.
pub(super) const BLOCK_IDS: u32 = 1 << 12;

/// The largest number is not the id of any series, because no id could follow it.
const NO_SERIES: u32 = u32::MAX;

pub(super) fn record_prefix(table: TableId) -> [u8; 4] {
    table.0.to_be_bytes()
}

/// The table whose points a record is about.
pub(crate) fn recorded_table(key: &[u8]) -> Option<TableId> {
    key.first_chunk::<4>().map(|table| TableId(u32::from_be_bytes(*table)))
}

pub(super) fn record_key(table: TableId, kind: u8, rest: &[u8]) -> Vec<u8> {
    [&record_prefix(table)[..], &[kind], rest].concat()
}

pub(super) fn tags_record(tags: &[(impl AsRef<str>, impl AsRef<str>)]) -> Vec<u8> {
    let mut record = Vec::new();
    for (key, value) in tags {
        push_text(&mut record, key.as_ref());
        push_text(&mut record, value.as_ref());
    }
    record
}

fn push_text(record: &mut Vec<u8>, text: &str) {
    record.extend_from_slice(&(text.len() as u32).to_le_bytes());
    record.extend_from_slice(text.as_bytes());
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

pub(super) fn own_type_key(table: TableId, shard_start_ns: i64, member: &str, field: &str) -> Vec<u8> {
    let start = (shard_start_ns ^ i64::MIN).to_be_bytes();
    let length = (member.len() as u32).to_be_bytes();
    record_key(table, OWN_TYPE, &[&start[..], &length, member.as_bytes(), field.as_bytes()].concat())
}

/// The key of the record with the name of a renamed field.
pub(super) fn column_name_key(table: TableId, column: ColumnId) -> Vec<u8> {
    record_key(table, COLUMN_NAME, &column.0.to_be_bytes())
}

/// The prefixes of the keys of all types of fields.
pub(super) fn type_prefixes(table: TableId) -> [Vec<u8>; 2] {
    [SHARD_TYPE, OWN_TYPE].map(|kind| record_key(table, kind, &[]))
}

/// Whether a key is of the record of a type.
pub(super) fn is_type_key(key: &[u8]) -> bool {
    matches!(key.get(4), Some(&(SHARD_TYPE | OWN_TYPE)))
}

/// The key of the record of a member of a group. The key for the empty name is the prefix of all of them.
pub(super) fn member_key(table: TableId, name: &str) -> Vec<u8> {
    record_key(table, MEMBER, name.as_bytes())
}

/// The name of a member, given the key of its record.
pub(super) fn member_of(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key.get(5..)?).ok()
}

/// The key of the record that says that a series is hidden, or shown again, since an entry of the log.
pub(super) fn hidden_key(table: TableId, id: u32, number: i64) -> Vec<u8> {
    record_key(table, HIDDEN, &[&id.to_be_bytes()[..], &number.to_be_bytes()].concat())
}

/// Series by the entries of the log since which they are hidden (true), or shown again. An entry may name any number of ids in a
/// few bytes, so they are sets.
#[derive(Debug, Default)]
pub(super) struct HiddenMarks(BTreeMap<(i64, bool), RoaringBitmap>);

impl HiddenMarks {
    /// Reads a record; `None` if it is malformed.
    pub(super) fn take(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        let (id, number) = key.get(5..)?.split_first_chunk::<4>()?;
        let number = i64::from_be_bytes(number.try_into().ok()?);
        self.0.entry((number, *value.first()? == 1)).or_default().insert(u32::from_be_bytes(*id));
        Some(())
    }

    /// The hidden series, after what the log still says.
    pub(super) fn hidden(mut self, recent: &Recent) -> RoaringBitmap {
        for (number, change) in &recent.hiding {
            let (ids, is_hidden) = match change {
                SeriesChange::Hidden(ids) => (ids, true),
                SeriesChange::Shown { ids, .. } => (ids, false),
                SeriesChange::Doubted(_) | SeriesChange::Names | SeriesChange::Everything(_) => continue,
            };
            *self.0.entry((*number, is_hidden)).or_default() |= ids;
        }
        // The last entry about a series counts.
        let mut hidden = RoaringBitmap::new();
        for ((_, is_hidden), ids) in self.0 {
            match is_hidden {
                true => hidden |= ids,
                false => hidden -= ids,
            }
        }
        hidden
    }
}

/// The key of the record that reserves a block of ids.
pub(super) fn id_block_key(table: TableId, block: u32) -> Vec<u8> {
    record_key(table, ID_BLOCK, &block.to_be_bytes())
}

/// The key of the record that finds the id of an idle series by its tags. `record`: the tags as in a series record.
pub(super) fn tag_set_key(table: TableId, record: &[u8]) -> Vec<u8> {
    record_key(table, TAG_SET, &digest(&SHA256, record).as_ref()[..16])
}

/// The prefix of the keys of records that find ids of idle series by their tags.
pub(super) fn tag_set_prefix(table: TableId) -> Vec<u8> {
    record_key(table, TAG_SET, &[])
}

pub(super) fn not_idle_key(table: TableId, id: u32) -> Vec<u8> {
    record_key(table, NOT_IDLE, &id.to_be_bytes())
}

pub(super) fn idle_tags_key(table: TableId, number: u64) -> Vec<u8> {
    record_key(table, IDLE_TAGS, &number.to_be_bytes())
}

/// The tags of the series of an idle set, in order of ids.
pub(super) fn idle_tags_record<'a>(records: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut all = Vec::new();
    for record in records {
        all.extend_from_slice(&(record.len() as u32).to_le_bytes());
        all.extend_from_slice(record);
    }
    all
}

/// The tags of each series of an idle set, each as in a series record.
pub(super) fn read_idle_tags(mut bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let (record, rest) = split_text(bytes)?;
        records.push(record);
        bytes = rest;
    }
    Some(records)
}

pub(super) fn idle_set_key(table: TableId, number: u64) -> Vec<u8> {
    record_key(table, IDLE_SET, &number.to_be_bytes())
}

pub(super) fn idle_set_record(time: TimeRange, keys: &[String], series: &RoaringBitmap) -> Vec<u8> {
    let mut record = Vec::with_capacity(series.serialized_size() + 64);
    record.extend_from_slice(&time.start_ns.to_le_bytes());
    record.extend_from_slice(&time.end_ns.to_le_bytes());
    record.extend_from_slice(&(keys.len() as u32).to_le_bytes());
    keys.iter().for_each(|key| push_text(&mut record, key));
    series.serialize_into(&mut record).expect("memory takes what is written to it");
    record
}

/// The time range, tag keys and series of an idle set.
pub(super) fn read_idle_set(bytes: &[u8]) -> Option<(TimeRange, Vec<&str>, RoaringBitmap)> {
    let (start_ns, rest) = bytes.split_first_chunk::<8>()?;
    let (end_ns, rest) = rest.split_first_chunk::<8>()?;
    let (count, mut rest) = rest.split_first_chunk::<4>()?;
    let mut keys = Vec::new();
    for _ in 0..u32::from_le_bytes(*count) {
        let (key, after) = split_text(rest)?;
        keys.push(std::str::from_utf8(key).ok()?);
        rest = after;
    }
    let time = TimeRange::new(i64::from_le_bytes(*start_ns), i64::from_le_bytes(*end_ns));
    let series = RoaringBitmap::deserialize_from(rest).ok()?;
    (!series.contains(NO_SERIES)).then_some((time, keys, series))
}

/// The content of a table's records.
#[derive(Default)]
pub(super) struct ReadRecords {
    pub(super) series: SeriesIndex,
    pub(super) types: ShardTypes,
    pub(super) own_types: HashMap<String, ShardTypes>,
    pub(super) column_names: BTreeMap<ColumnId, String>,
    pub(super) idle: IdleSeries,
    pub(super) hidden: HiddenMarks,
    not_idle: RoaringBitmap,
}

/// Where the reader of records continues.
pub(super) enum Next {
    /// At the next record.
    Record,
    /// At the first record from a key on.
    Key(Vec<u8>),
}

impl ReadRecords {
    /// Reads a record; `None` if it is malformed. Records come in key order.
    pub(super) fn take(&mut self, key: &[u8], value: &[u8]) -> Option<Next> {
        let (prefix, rest) = key.split_first_chunk::<4>()?;
        let (kind, rest) = rest.split_first()?;
        let table = TableId(u32::from_be_bytes(*prefix));
        match *kind {
            NOT_IDLE => {
                self.not_idle.insert(u32::from_be_bytes(rest.try_into().ok()?));
            }
            ID_BLOCK => {
                // Other servers may give out the ids of this block.
                let next = u32::from_be_bytes(rest.try_into().ok()?).saturating_add(1);
                self.series.reserve_ids(SeriesId(next.saturating_mul(BLOCK_IDS)));
            }
            COLUMN_NAME => {
                let column = ColumnId(u32::from_be_bytes(rest.try_into().ok()?));
                self.column_names.insert(column, String::from_utf8(value.to_vec()).ok()?);
            }
            HIDDEN => self.hidden.take(key, value)?,
            IDLE_SET => {
                let (time, keys, series) = read_idle_set(value)?;
                self.idle.restore(u64::from_be_bytes(rest.try_into().ok()?), time, &keys, &series);
            }
            SERIES => {
                let id = u32::from_be_bytes(rest.try_into().ok()?);
                if id == NO_SERIES {
                    return None;
                }
                self.series.insert_with_id(SeriesId(id), &read_tags(value)?);
            }
            SHARD_TYPE => {
                let (start, field) = rest.split_first_chunk::<8>()?;
                let start_ns = i64::from_be_bytes(*start) ^ i64::MIN;
                let field = String::from_utf8(field.to_vec()).ok()?;
                self.types.entry(start_ns).or_default().insert(field, FieldType::of_code(*value.first()?)?);
            }
            OWN_TYPE => {
                let (start, rest) = rest.split_first_chunk::<8>()?;
                let (length, rest) = rest.split_first_chunk::<4>()?;
                let (member, field) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
                let start_ns = i64::from_be_bytes(*start) ^ i64::MIN;
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
                let own = self.own_types.entry(text(member)?).or_default().entry(start_ns).or_default();
                own.insert(text(field)?, FieldType::of_code(*value.first()?)?);
            }
            // These are looked up one by one, if ever.
            TAG_SET | IDLE_TAGS => return Some(Next::Key(record_key(table, IDLE_TAGS + 1, &[]))),
            // These are read when the catalog is opened.
            MEMBER => {}
            NEXT_ID => self.series.reserve_ids(SeriesId(u32::from_le_bytes(value.try_into().ok()?))),
            _ => return None,
        }
        Some(Next::Record)
    }

    /// All records were read.
    pub(super) fn finish(mut self) -> Self {
        let Self { series, idle, not_idle, .. } = &mut self;
        idle.finish_restore(not_idle, series.all());
        if let Some(last) = idle.evicted().max() {
            series.reserve_ids(SeriesId(last.saturating_add(1)));
        }
        self
    }
}

pub(super) fn read_tags(mut bytes: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
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

/// Reads bytes as a record of every kind: what a fuzzer calls. It asserts that an idle set is read as it is written.
pub(crate) fn read_arbitrary(key: &[u8], value: &[u8]) {
    let mut read = ReadRecords::default();
    let _ = read.take(key, value);
    read.finish();
    let _ = read_idle_tags(value).map(|tags| tags.into_iter().map(read_tags).count());
    if let Some((time, keys, series)) = read_idle_set(value) {
        let owned: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        let written = idle_set_record(time, &owned, &series);
        assert_eq!(read_idle_set(&written), Some((time, keys, series)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tags() -> impl Strategy<Value = Vec<(String, String)>> {
        prop::collection::vec(("[a-c]{0,3}", "\\PC{0,8}"), 0..4)
    }

    #[test]
    fn the_largest_id_is_refused() {
        let mut read = ReadRecords::default();
        let key = series_key(TableId(7), SeriesId(NO_SERIES));
        assert!(read.take(&key, &tags_record(&[("host", "a")])).is_none());
        let set = idle_set_record(TimeRange::ALL, &[], &RoaringBitmap::from_iter([NO_SERIES]));
        assert!(read_idle_set(&set).is_none());
    }

    #[test]
    fn the_last_entry_about_a_series_says_whether_it_is_hidden() {
        let mut marks = HiddenMarks::default();
        for (id, number, is_hidden) in
            [(1, 5, true), (2, 5, true), (2, 9, false), (3, 5, false), (4, 7, true)]
        {
            marks.take(&hidden_key(TableId(7), id, number), &[u8::from(is_hidden)]).expect("it is a mark");
        }
        let shown = |ids: &[u32]| SeriesChange::Shown { ids: ids.iter().collect(), again: true };
        let recent = |hiding| Recent { hiding, ..Recent::default() };
        let known = marks.hidden(&recent(vec![(6, shown(&[1])), (6, shown(&[4]))]));
        assert_eq!(known, RoaringBitmap::from_iter([4_u32]));
        // An entry of a few bytes is about all ids that there are.
        let all = SeriesChange::Hidden(RoaringBitmap::full());
        let known = HiddenMarks::default().hidden(&recent(vec![(8, all), (9, shown(&[u32::MAX]))]));
        assert_eq!((known.len(), known.contains(u32::MAX)), (u64::from(u32::MAX), false));
    }

    proptest! {
        /// What was written is read again.
        #[test]
        fn idle_sets_are_read_as_they_were_written(
            ids in prop::collection::btree_set(0..NO_SERIES, 0..50),
            sets in prop::collection::vec(tags(), 0..20),
            keys in prop::collection::vec("\\PC{0,5}", 0..4),
            (start_ns, end_ns) in any::<(i64, i64)>(),
        ) {
            let (time, series) = (TimeRange::new(start_ns, end_ns), ids.into_iter().collect());
            let record = idle_set_record(time, &keys, &series);
            let (read_time, read_keys, read_series) = read_idle_set(&record).unwrap();
            prop_assert_eq!((read_time, read_series), (time, series));
            prop_assert!(read_keys.iter().eq(&keys));
            let records: Vec<Vec<u8>> = sets.iter().map(|tags| tags_record(tags)).collect();
            let all = idle_tags_record(records.iter().map(Vec::as_slice));
            let read = read_idle_tags(&all).unwrap();
            prop_assert!(read.iter().eq(&records));
            for (record, tags) in read.into_iter().zip(&sets) {
                let read = read_tags(record).unwrap();
                prop_assert!(read.into_iter().eq(tags.iter().map(|(key, value)| (key.as_bytes(), value.as_bytes()))));
            }
        }

        /// Damaged records are refused, or read as something else, but never panic.
        #[test]
        fn damaged_records_are_read_or_refused(
            ids in prop::collection::btree_set(prop_oneof![0_u32..200_000, Just(u32::MAX)], 0..50),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            cut in any::<prop::sample::Index>(),
            kind in prop::sample::select(vec![NOT_IDLE, COLUMN_NAME, IDLE_SET, NEXT_ID, SERIES, SHARD_TYPE, TAG_SET, IDLE_TAGS, b'?']),
            rest in prop::collection::vec(prop_oneof![any::<u8>(), Just(0xff)], 0..12),
        ) {
            let series = ids.into_iter().collect();
            let mut record = idle_set_record(TimeRange::ALL, &["key".to_owned()], &series);
            for (place, byte) in changes {
                let place = place.index(record.len());
                record[place] = byte;
            }
            record.truncate(cut.index(record.len() + 1));
            let _ = read_idle_set(&record);
            let _ = read_idle_tags(&record).map(|tags| tags.into_iter().map(read_tags).count());
            let mut read = ReadRecords::default();
            let _ = read.take(&record_key(TableId(7), kind, &rest), &record);
            read.finish();
        }
    }
}
