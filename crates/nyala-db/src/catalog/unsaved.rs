//! Records of a table that are not durable yet: new series, types of fields in shards, members of a group, series that were
//! removed, or idle and are awake.
//!
//! Every writer takes along what no acknowledged batch holds, whoever made it: so a batch that fails, or whose client
//! leaves, cannot leave later points without the records they need.

use super::record::{SERIES_KEY_BYTES, not_idle_key, series_key};
use crate::records::Records;
use foldhash::fast::FixedState;
use nyala_core::store::Operation;
use nyala_core::{SeriesId, TableId};
use roaring::RoaringBitmap;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// Records of a table that no acknowledged batch holds.
#[derive(Default)]
pub(super) struct Unsaved {
    /// Types of fields in shards, and members.
    pub(super) names: HashMap<Vec<u8>, u8>,
    series: hashbrown::HashMap<u32, UnsavedSeries, FixedState>,
    /// Series that were removed, whose records are still there.
    removed: RoaringBitmap,
    /// The keys of other records of theirs.
    removed_keys: BTreeSet<Vec<u8>>,
    /// Series of idle sets that are awake, or gone.
    not_idle: RoaringBitmap,
}

struct UnsavedSeries {
    record: Arc<[u8]>,
    /// A batch on its way holds it. Others need not, but for those that have points of the series: the batch may fail.
    taken: bool,
}

/// Records that a batch takes along.
pub(crate) struct TakenRecords {
    names: Vec<(Vec<u8>, u8)>,
    pub(crate) series: Vec<(u32, [u8; SERIES_KEY_BYTES], Arc<[u8]>)>,
    removed: RoaringBitmap,
    removed_keys: BTreeSet<Vec<u8>>,
    not_idle: RoaringBitmap,
    /// Key and value of the id that the next series gets, if series were removed.
    next_id: Option<(Vec<u8>, [u8; 4])>,
    table: TableId,
}

impl Unsaved {
    /// A series is new.
    pub(super) fn add_series(&mut self, id: SeriesId, record: Arc<[u8]>) {
        self.series.insert(id.0, UnsavedSeries { record, taken: false });
    }

    /// Series were removed; those that are listed in idle sets will not be idle again, and no tags find them.
    pub(super) fn remove_series(&mut self, ids: &RoaringBitmap, listed: &RoaringBitmap, keys: Vec<Vec<u8>>) {
        ids.iter().for_each(|id| drop(self.series.remove(&id)));
        self.removed |= ids;
        self.not_idle |= listed;
        self.removed_keys.extend(keys);
    }

    /// Series are in no idle set any more, and some records are not needed.
    pub(super) fn remove_keys(&mut self, unlisted: &RoaringBitmap, keys: Vec<Vec<u8>>) {
        self.not_idle -= unlisted;
        self.removed_keys.extend(keys);
    }

    /// Whether no acknowledged batch holds the record of a series.
    pub(super) fn has_series(&self, id: u32) -> bool {
        self.series.contains_key(&id)
    }

    /// A series that was idle gets points.
    pub(super) fn add_awake(&mut self, id: SeriesId, record: Arc<[u8]>) {
        self.add_series(id, record);
        self.not_idle.insert(id.0);
    }

    /// Series are idle, and about to be found by tags.
    pub(super) fn rest<'a>(&mut self, ids: &RoaringBitmap, tag_sets: impl Iterator<Item = &'a Vec<u8>>) {
        self.not_idle -= ids;
        if !self.removed_keys.is_empty() {
            let found: HashSet<&Vec<u8>> = tag_sets.collect();
            self.removed_keys.retain(|key| !found.contains(key));
        }
    }

    /// All that a batch with points of these series needs, and all that no other has on its way.
    pub(super) fn take(&mut self, table: TableId, used: impl Iterator<Item = u32>) -> TakenRecords {
        let names = self.names.iter().map(|(key, code)| (key.clone(), *code)).collect();
        let mut series = Vec::new();
        if !self.series.is_empty() {
            let mut ids: Vec<u32> = used.filter(|id| self.series.contains_key(id)).collect();
            ids.extend(self.series.iter().filter(|(_, unsaved)| !unsaved.taken).map(|(id, _)| *id));
            ids.sort_unstable();
            ids.dedup();
            series.reserve(ids.len());
            for id in ids {
                if let Some(unsaved) = self.series.get_mut(&id) {
                    unsaved.taken = true;
                    series.push((id, series_key(table, SeriesId(id)), unsaved.record.clone()));
                }
            }
        }
        // One that is awake is not idle any more once the record of its own is there: both go together, or it would be gone.
        let goes_along = |id: &u32| series.binary_search_by_key(id, |(own, ..)| *own).is_ok();
        let goes = |id: &u32| !self.series.contains_key(id) || goes_along(id);
        TakenRecords {
            table,
            names,
            not_idle: self.not_idle.iter().filter(goes).collect(),
            series,
            removed: self.removed.clone(),
            removed_keys: self.removed_keys.clone(),
            next_id: None,
        }
    }

    /// Records are durable now.
    pub(super) fn saved(&mut self, records: &TakenRecords) {
        for (key, _) in &records.names {
            self.names.remove(key);
        }
        records.series.iter().for_each(|(id, ..)| drop(self.series.remove(id)));
        self.removed -= &records.removed;
        self.removed_keys.retain(|key| !records.removed_keys.contains(key));
        self.not_idle -= &records.not_idle;
    }
}

impl TakenRecords {
    /// Whether they remove those of series.
    pub(super) fn has_removed(&self) -> bool {
        !self.removed.is_empty() || !self.removed_keys.is_empty()
    }

    /// The id that the next series gets is kept with them, so that those that were removed are not used again.
    pub(super) fn keep_next_id(&mut self, record: (Vec<u8>, [u8; 4])) {
        self.next_id = Some(record);
    }

    /// What writes them.
    pub(crate) fn operations(&self, records: &Records) -> Vec<Operation> {
        let mut operations = Vec::new();
        if self.has_removed() {
            let keys: Vec<_> = self.removed.iter().map(|id| series_key(self.table, SeriesId(id))).collect();
            let of_series = keys.iter().map(<[u8; SERIES_KEY_BYTES]>::as_slice);
            operations.push(records.remove(of_series.chain(self.removed_keys.iter().map(Vec::as_slice))));
        }
        // Sorted by key of series.
        let names = self.names.iter().map(|(key, code)| (key.as_slice(), std::slice::from_ref(code)));
        let next_id = self.next_id.iter().map(|(key, id)| (key.as_slice(), id.as_slice()));
        let series = self.series.iter().map(|(_, key, record)| (key.as_slice(), &**record));
        let not_idle: Vec<_> = self.not_idle.iter().map(|id| not_idle_key(self.table, id)).collect();
        let not_idle = not_idle.iter().map(|key| (key.as_slice(), [].as_slice()));
        let mut put = names.chain(next_id).chain(not_idle).chain(series).peekable();
        if put.peek().is_some() {
            operations.push(records.put(put));
        }
        operations
    }
}
