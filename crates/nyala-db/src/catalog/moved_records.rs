//! The records of a table of points, for a move to another store.
//!
//! They are the records of the source (`record`) under the id that the table has in the target, with three differences. Idle
//! series, which a store of one's own has packed together, become records like others. A store that several servers use needs a
//! record for each tag set (`series_directory`), and a store of one's own must not have any. A hidden series has no points, and
//! is left behind.
//!
//! All come in the order of their keys, so that they can be compared with what the target has. Held in memory are those of which
//! there are few, what idle series are called, and for a target that several servers use the keys of all tag sets, about 70 bytes
//! for a series.

use super::record::{
    BLOCK_IDS, COLUMN_NAME, HIDDEN, ID_BLOCK, IDLE_SET, IDLE_TAGS, MEMBER, NEXT_ID, NOT_IDLE, OWN_TYPE,
    SERIES, SHARD_TYPE, TAG_SET, read_idle_set, read_idle_tags, record_key, series_key, tag_set_key,
};
use super::series_table::SeriesTable;
use crate::records::Records;
use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, BinaryArray};
use async_trait::async_trait;
use nyala_core::store::{Batch, RowStream, SnapshotRef};
use nyala_core::{Error, ErrorKind, Result, SeriesId, TableId};
use parking_lot::Mutex;
use roaring::RoaringBitmap;
use std::collections::{BTreeMap, HashMap, btree_map};
use std::iter::Peekable;
use std::sync::Arc;

/// Records that are handed out together, …
const AT_ONCE: usize = 1 << 13;
/// … if they do not have more bytes before.
const BYTES_AT_ONCE: usize = 4 << 20;

/// Which shards of the target hold the points of a shard of the source, by the starts of shards.
pub(crate) type ShardsOf<'a> = dyn Fn(i64) -> Vec<i64> + Sync + 'a;

/// Records by their keys.
type Sorted = BTreeMap<Vec<u8>, Vec<u8>>;

/// The key of the record of a tag set, and the number of its series.
type TagSet = (Vec<u8>, u32);

/// The first and the last key, or the beginning of keys, of the records of a table, without those of its tag sets.
pub(crate) fn record_range(table: TableId) -> (Vec<u8>, Vec<u8>) {
    (record_key(table, NOT_IDLE, &[]), record_key(table, TAG_SET - 1, &[]))
}

/// The beginning of the keys of the records of the tag sets of a table.
pub(crate) fn tag_set_range(table: TableId) -> Vec<u8> {
    record_key(table, TAG_SET, &[])
}

/// What a table's records are in the target.
pub(crate) struct MovedRecords {
    target: TableId,
    before: Sorted,
    after: Sorted,
    idle: BTreeMap<u32, Vec<u8>>,
    hidden: RoaringBitmap,
    source: Box<dyn RowStream>,
    tag_sets: Option<Vec<TagSet>>,
}

impl MovedRecords {
    /// Reads those of which there are few. `has_tag_sets`: several servers use the target.
    pub(crate) async fn of(
        table: &SeriesTable,
        snapshot: &SnapshotRef,
        target: TableId,
        shards_of: &ShardsOf<'_>,
        has_tag_sets: bool,
    ) -> Result<Self> {
        let records = table.records();
        let hidden = match table.is_shared() {
            true => {
                table.load().await?;
                table.loaded().hidden.lock().clone()
            }
            false => RoaringBitmap::new(),
        };
        let mut few = Few::new(table.table(), target);
        let key = |kind: u8| record_key(table.table(), kind, &[]);
        few.read(records, snapshot, &key(NOT_IDLE), &key(SERIES - 1)).await?;
        few.read(records, snapshot, &key(SERIES + 1), &key(TAG_SET - 1)).await?;
        if few.has_idle_sets() {
            few.read(records, snapshot, &key(IDLE_TAGS), &key(IDLE_TAGS)).await?;
        }
        let after = few.types(shards_of, &table.name())?;
        let source = records.scan_in(snapshot, &key(SERIES), &key(SERIES)).await?;
        let before = few.finish(hidden.max());
        let tag_sets = has_tag_sets.then(Vec::new);
        Ok(Self { target, before, after, idle: few.idle, hidden, source, tag_sets })
    }

    /// The records without those of tag sets, and then those.
    pub(crate) fn streams(self) -> (Box<dyn RowStream>, TagSets) {
        let Self { target, before, after, idle, hidden, source, tag_sets } = self;
        let tag_sets = tag_sets.map(|own| Arc::new(Mutex::new(own)));
        let stream = Stream {
            target,
            before: before.into_iter(),
            series: Some(source),
            rows: None,
            idle: idle.into_iter().peekable(),
            hidden,
            tag_sets: tag_sets.clone(),
            after: after.into_iter(),
        };
        (Box::new(stream), TagSets { collected: tag_sets })
    }
}

/// The tag sets of the series that a stream has handed out.
pub(crate) struct TagSets {
    collected: Option<Arc<Mutex<Vec<TagSet>>>>,
}

impl TagSets {
    /// Their records, if the target needs them.
    pub(crate) fn records(self) -> Box<dyn RowStream> {
        let mut all = self.collected.map_or_else(Vec::new, |own| std::mem::take(&mut *own.lock()));
        all.sort_unstable();
        Box::new(Pairs(all.into_iter().map(|(key, id)| (key, id.to_le_bytes().to_vec()))))
    }
}

/// Records of which there are few, and idle series.
struct Few {
    source: TableId,
    target: TableId,
    kept: Sorted,
    types: Vec<TypeRecord>,
    next_id: u32,
    sets: HashMap<u64, RoaringBitmap>,
    not_idle: RoaringBitmap,
    idle: BTreeMap<u32, Vec<u8>>,
}

/// The type of a field in a shard.
struct TypeRecord {
    kind: u8,
    shard_start_ns: i64,
    /// What follows the start of the shard in the key.
    rest: Vec<u8>,
    code: Vec<u8>,
}

impl Few {
    fn new(source: TableId, target: TableId) -> Self {
        let (kept, types, sets, not_idle, idle) = Default::default();
        Self { source, target, kept, types, next_id: 0, sets, not_idle, idle }
    }

    /// Reads the records of a snapshot from the first key that starts with `first` to the last that starts with `last`.
    async fn read(
        &mut self,
        records: &Records,
        snapshot: &SnapshotRef,
        first: &[u8],
        last: &[u8],
    ) -> Result<()> {
        let mut rows = records.scan_in(snapshot, first, last).await?;
        while let Some(batch) = rows.next().await? {
            let (keys, values) = (batch.columns[0].as_binary::<i32>(), batch.columns[1].as_binary::<i32>());
            for row in 0..batch.rows {
                let key = keys.value(row);
                let malformed = || format!("the series record {key:?} is malformed");
                let taken = self.take(key, values.value(row));
                taken.ok_or_else(|| Error::new(ErrorKind::Corrupt, malformed()))?;
            }
        }
        Ok(())
    }

    fn has_idle_sets(&self) -> bool {
        !self.sets.is_empty()
    }

    /// Takes a record; `None` if it is malformed.
    fn take(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        let (table, rest) = key.split_first_chunk::<4>()?;
        let (kind, rest) = rest.split_first()?;
        debug_assert_eq!(u32::from_be_bytes(*table), self.source.0);
        let id = || Some(u32::from_be_bytes(rest.try_into().ok()?));
        let number = || Some(u64::from_be_bytes(rest.try_into().ok()?));
        match *kind {
            NOT_IDLE => drop(self.not_idle.insert(id()?)),
            ID_BLOCK => self.reserve(id()?.saturating_add(1).saturating_mul(BLOCK_IDS)),
            NEXT_ID => self.reserve(u32::from_le_bytes(value.try_into().ok()?)),
            // Known from the index.
            HIDDEN => {}
            COLUMN_NAME | MEMBER => {
                self.kept.insert(record_key(self.target, *kind, rest), value.to_vec());
            }
            SHARD_TYPE | OWN_TYPE => {
                let (start, rest) = rest.split_first_chunk::<8>()?;
                let shard_start_ns = i64::from_be_bytes(*start) ^ i64::MIN;
                let (rest, code) = (rest.to_vec(), value.to_vec());
                self.types.push(TypeRecord { kind: *kind, shard_start_ns, rest, code });
            }
            IDLE_SET => {
                let (_, _, series) = read_idle_set(value)?;
                self.reserve(series.max().map_or(0, |last| last.saturating_add(1)));
                self.sets.insert(number()?, series);
            }
            IDLE_TAGS => {
                let (series, tags) = (self.sets.get(&number()?)?, read_idle_tags(value)?);
                if series.len() != tags.len() as u64 {
                    return None;
                }
                let own = series.iter().zip(tags).filter(|(id, _)| !self.not_idle.contains(*id));
                self.idle.extend(own.map(|(id, tags)| (id, tags.to_vec())));
            }
            _ => return None,
        }
        Some(())
    }

    fn reserve(&mut self, next_id: u32) {
        self.next_id = self.next_id.max(next_id);
    }

    /// The types of fields by the shards of the target.
    fn types(&self, shards_of: &ShardsOf<'_>, name: &str) -> Result<Sorted> {
        let mut all = Sorted::new();
        for TypeRecord { kind, shard_start_ns, rest, code } in &self.types {
            for start_ns in shards_of(*shard_start_ns) {
                let start = (start_ns ^ i64::MIN).to_be_bytes();
                let key = record_key(self.target, *kind, &[&start[..], rest].concat());
                if all.insert(key, code.clone()).is_some_and(|known| known != *code) {
                    let field = String::from_utf8_lossy(rest);
                    return Err(Error::conflict(format!(
                        "measurement {name:?}: field {field:?} has two types in shards that become one, because shards were \
                         shorter once"
                    )));
                }
            }
        }
        Ok(all)
    }

    /// What comes before the series.
    fn finish(&mut self, last_hidden: Option<u32>) -> Sorted {
        self.reserve(last_hidden.map_or(0, |last| last.saturating_add(1)));
        let mut before = std::mem::take(&mut self.kept);
        if self.next_id > 0 {
            before.insert(record_key(self.target, NEXT_ID, &[]), self.next_id.to_le_bytes().to_vec());
        }
        before
    }
}

/// The records, without those of tag sets.
struct Stream {
    target: TableId,
    before: btree_map::IntoIter<Vec<u8>, Vec<u8>>,
    /// Those of the source.
    series: Option<Box<dyn RowStream>>,
    /// The rows of `series` that came last, and the first of them that is not handed out.
    rows: Option<(Batch, usize)>,
    idle: Peekable<btree_map::IntoIter<u32, Vec<u8>>>,
    hidden: RoaringBitmap,
    tag_sets: Option<Arc<Mutex<Vec<TagSet>>>>,
    after: btree_map::IntoIter<Vec<u8>, Vec<u8>>,
}

#[async_trait]
impl RowStream for Stream {
    async fn next(&mut self) -> Result<Option<Batch>> {
        if let Some(batch) = batch_of(&mut self.before.by_ref().take(AT_ONCE)) {
            return Ok(Some(batch));
        }
        let series = self.next_series().await?;
        if !series.is_empty() {
            if let Some(tag_sets) = &self.tag_sets {
                let key = |(id, tags): &(u32, Vec<u8>)| (tag_set_key(self.target, tags), *id);
                tag_sets.lock().extend(series.iter().map(key));
            }
            let record = |(id, tags): (u32, Vec<u8>)| (series_key(self.target, SeriesId(id)).to_vec(), tags);
            return Ok(batch_of(&mut series.into_iter().map(record)));
        }
        Ok(batch_of(&mut self.after.by_ref().take(AT_ONCE)))
    }
}

impl Stream {
    /// Series that come next, with their tags; none at the end.
    async fn next_series(&mut self) -> Result<Vec<(u32, Vec<u8>)>> {
        let (mut series, mut bytes) = (Vec::new(), 0);
        while series.len() < AT_ONCE && bytes < BYTES_AT_ONCE {
            let stored = self.stored_id().await?;
            let next = match self.idle.next_if(|(idle, _)| stored.is_none_or(|id| *idle < id)) {
                Some(idle) => idle,
                None => {
                    let (Some(id), Some((batch, row))) = (stored, &mut self.rows) else { break };
                    let tags = batch.columns[1].as_binary::<i32>().value(*row).to_vec();
                    *row += 1;
                    // A series that came back is in its old set, too.
                    self.idle.next_if(|(idle, _)| *idle == id);
                    if self.hidden.contains(id) {
                        continue;
                    }
                    (id, tags)
                }
            };
            bytes += next.1.len();
            series.push(next);
        }
        Ok(series)
    }

    /// The next series of the source.
    async fn stored_id(&mut self) -> Result<Option<u32>> {
        while let Some(stream) = &mut self.series {
            if let Some((batch, row)) = self.rows.as_ref().filter(|(batch, row)| *row < batch.rows) {
                let key = batch.columns[0].as_binary::<i32>().value(*row);
                let too_short = || Error::new(ErrorKind::Corrupt, "the key of a series is too short");
                let id = key.last_chunk::<4>().map(|id| u32::from_be_bytes(*id));
                return id.ok_or_else(too_short).map(Some);
            }
            match stream.next().await? {
                Some(batch) => self.rows = Some((batch, 0)),
                None => (self.series, self.rows) = (None, None),
            }
        }
        Ok(None)
    }
}

/// Records as a stream.
struct Pairs<I>(I);

#[async_trait]
impl<I: Iterator<Item = (Vec<u8>, Vec<u8>)> + Send> RowStream for Pairs<I> {
    async fn next(&mut self) -> Result<Option<Batch>> {
        Ok(batch_of(&mut self.0.by_ref().take(AT_ONCE)))
    }
}

/// Records as rows; `None`: there are none.
fn batch_of(records: &mut dyn Iterator<Item = (Vec<u8>, Vec<u8>)>) -> Option<Batch> {
    let (keys, values): (Vec<_>, Vec<_>) = records.unzip();
    let array = |all: &[Vec<u8>]| -> ArrayRef { Arc::new(BinaryArray::from_iter_values(all)) };
    let columns = vec![array(&keys), array(&values)];
    (!keys.is_empty()).then(|| Batch { rows: keys.len(), series: Vec::new(), columns })
}
