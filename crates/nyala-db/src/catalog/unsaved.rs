//! Records of a table that are not durable yet: new series, types of fields in shards, members of a group, removed
//! series, and idle series that were reactivated.
//!
//! Every writer writes the records that no acknowledged batch holds, whoever made them. So a batch that fails, or whose
//! client disconnects, cannot leave later points without the records that they need.

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
    /// Removed series whose records still exist.
    removed: RoaringBitmap,
    /// The keys of other records to remove.
    removed_keys: BTreeSet<Vec<u8>>,
    /// Series of idle sets that were reactivated or removed.
    not_idle: RoaringBitmap,
}

struct UnsavedSeries {
    record: Arc<[u8]>,
    /// Whether an unfinished batch holds it. Other batches skip it, unless they have points of the series, because the
    /// first batch may fail.
    taken: bool,
}

/// The records that a batch writes.
pub(crate) struct TakenRecords {
    names: Vec<(Vec<u8>, u8)>,
    pub(crate) series: Vec<(u32, [u8; SERIES_KEY_BYTES], Arc<[u8]>)>,
    removed: RoaringBitmap,
    removed_keys: BTreeSet<Vec<u8>>,
    not_idle: RoaringBitmap,
    /// Key and value of the record of the next series id, if series were removed.
    next_id: Option<(Vec<u8>, [u8; 4])>,
    table: TableId,
}

impl Unsaved {
    /// Adds the type of a field in a shard, or a member. If it was there before, its record is overwritten instead
    /// of removed.
    pub(super) fn add_name(&mut self, key: Vec<u8>, code: u8) {
        self.removed_keys.remove(&key);
        self.names.insert(key, code);
    }

    /// Adds a new series.
    pub(super) fn add_series(&mut self, id: SeriesId, record: Arc<[u8]>) {
        self.series.insert(id.0, UnsavedSeries { record, taken: false });
    }

    /// Removes series. Those listed in idle sets are no longer idle, and their tags no longer find them.
    pub(super) fn remove_series(&mut self, ids: &RoaringBitmap, listed: &RoaringBitmap, keys: Vec<Vec<u8>>) {
        ids.iter().for_each(|id| drop(self.series.remove(&id)));
        self.removed |= ids;
        self.not_idle |= listed;
        self.removed_keys.extend(keys);
    }

    /// Series are in no idle set any more, and some records are no longer needed.
    pub(super) fn remove_keys(&mut self, unlisted: &RoaringBitmap, keys: Vec<Vec<u8>>) {
        self.not_idle -= unlisted;
        self.removed_keys.extend(keys);
    }

    /// Whether no acknowledged batch holds the record of a series.
    pub(super) fn has_series(&self, id: u32) -> bool {
        self.series.contains_key(&id)
    }

    /// An idle series is written to.
    pub(super) fn add_reactivated(&mut self, id: SeriesId, record: Arc<[u8]>) {
        self.add_series(id, record);
        self.not_idle.insert(id.0);
    }

    /// Series become idle, and are about to be found by their tags.
    pub(super) fn make_idle<'a>(&mut self, ids: &RoaringBitmap, tag_sets: impl Iterator<Item = &'a Vec<u8>>) {
        self.not_idle -= ids;
        if !self.removed_keys.is_empty() {
            let found: HashSet<&Vec<u8>> = tag_sets.collect();
            self.removed_keys.retain(|key| !found.contains(key));
        }
    }

    /// The records that a batch with points of these series needs, and those that no other batch holds.
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
        // A reactivated series is no longer idle once it has a record of its own. Both records must be in one batch, or
        // the series would be lost.
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

    /// The records are durable now.
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
    /// Whether they remove records.
    pub(super) fn has_removed(&self) -> bool {
        !self.removed.is_empty() || !self.removed_keys.is_empty()
    }

    /// Adds the record of the next series id, so that the ids of removed series are not used again.
    pub(super) fn keep_next_id(&mut self, record: (Vec<u8>, [u8; 4])) {
        self.next_id = Some(record);
    }

    /// The operations that write them.
    pub(crate) fn operations(&self, records: &Records) -> Vec<Operation> {
        let mut operations = Vec::new();
        if self.has_removed() {
            let keys: Vec<_> = self.removed.iter().map(|id| series_key(self.table, SeriesId(id))).collect();
            let of_series = keys.iter().map(<[u8; SERIES_KEY_BYTES]>::as_slice);
            operations.push(records.remove(of_series.chain(self.removed_keys.iter().map(Vec::as_slice))));
        }
        // They are sorted by series id.
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
