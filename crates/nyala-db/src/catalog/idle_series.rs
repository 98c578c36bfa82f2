//! Idle series and their records: eviction, reloading, reactivation and removal.
//!
//! Queries find an idle series by its set, whose record has the tags. Writers find it by a record whose key is a hash
//! of the tags. When a series is reactivated, its first point brings two records: the series' own one, and one that
//! says that it is no longer idle, so that a start reads it with the active series. A series that is removed gets the
//! latter record too.
//!
//! Order of locks: series, idle series, presence, unsaved records.

use super::Catalog;
use super::record::{
    idle_set_key, idle_set_record, idle_tags_key, idle_tags_record, not_idle_key, read_idle_set,
    read_idle_tags, read_tags, series_key, tag_set_key, tag_set_prefix, tags_record,
};
use super::series_table::SeriesTable;
use crate::series::{IdleSeries, IdleSet, SeriesIndex, SeriesPin, TagFilter, Tags};
use nyala_core::{Error, ErrorKind, Result, SeriesId, TimeRange, before_long_work};
use parking_lot::Mutex;
use roaring::RoaringBitmap;
use std::collections::HashMap;
use std::sync::Arc;

/// The number of series that are reloaded or evicted under one lock of the index.
const MOVED_AT_ONCE: usize = 1 << 12;
/// The approximate size of a set's tags, which are one record.
const SET_TAGS_BYTES: usize = 4 << 20;
/// The number of records that can be read in the time of one look-up.
const READ_PER_LOOKUP: usize = 64;

impl SeriesTable {
    /// Its idle series.
    pub(crate) fn idle(&self) -> &Mutex<IdleSeries> {
        &self.loaded().idle
    }

    /// Whether some of its series are or were idle.
    pub(crate) fn has_idle_sets(&self) -> bool {
        self.idle().lock().has_sets()
    }

    /// Whether some of its series are not in memory.
    pub(crate) fn has_evicted(&self) -> bool {
        !self.idle().lock().evicted().is_empty()
    }

    /// The number of its series, in memory or not.
    pub(crate) fn count_series(&self) -> usize {
        self.series().len() + self.idle().lock().evicted().len() as usize
    }

    /// The tag keys of its series, sorted.
    pub(crate) fn tag_keys(&self) -> Vec<String> {
        let series = self.series();
        let mut keys: Vec<String> = series.keys_of(series.all()).into_iter().map(str::to_owned).collect();
        drop(series);
        let idle = self.idle().lock();
        let before = keys.len();
        keys.extend(idle.keys().map(str::to_owned));
        if keys.len() > before {
            keys.sort_unstable();
            keys.dedup();
        }
        keys
    }

    /// Returns a function that says whether a writer may keep using a cached series id: the series exists and is not
    /// idle.
    pub(crate) fn ids_in_use(&self) -> impl Fn(u32) -> bool + use<'_> {
        let (series, idle, doubted) = (self.series(), self.idle().lock(), self.loaded().doubted.lock());
        move |id| series.contains(SeriesId(id)) && !idle.is_resident(id) && !doubted.contains(id)
    }

    /// Reloads the idle series that may have points in a time range. None of them is evicted while the pin is held. If
    /// there is not enough memory for all of them, only those that a filter selects are reloaded.
    pub(crate) async fn reload(
        &self,
        time: TimeRange,
        filter: &TagFilter,
        memory: &Catalog,
    ) -> Result<SeriesPin> {
        self.reload_sets(time, &|_| true, filter, Some(memory)).await
    }

    /// The same for those sets whose times are wanted.
    async fn reload_sets(
        &self,
        time: TimeRange,
        is_wanted: &(dyn Fn(TimeRange) -> bool + Sync),
        filter: &TagFilter,
        memory: Option<&Catalog>,
    ) -> Result<SeriesPin> {
        let (pin, lacking) = self.idle().lock().pin(time, is_wanted);
        if lacking.is_empty() {
            return Ok(pin);
        }
        before_long_work().await;
        let _recalling = self.loaded().recalling.lock().await;
        // Another task may have reloaded them meanwhile.
        let (pin, lacking) = self.idle().lock().pin(time, is_wanted);
        let bytes_left = memory.map_or(usize::MAX, Catalog::idle_bytes_left);
        let mut read = Vec::with_capacity(lacking.len());
        let mut evicted = RoaringBitmap::new();
        for set in lacking {
            let series = self.read_idle_set(&set).await?;
            evicted |= self.idle().lock().hold(&set, series.clone());
            read.push((set, series));
        }
        let series_bytes = self.bytes_of_series();
        let are_all_wanted = series_bytes.saturating_mul(evicted.len() as usize) <= bytes_left;
        if !are_all_wanted && matches!(filter, TagFilter::All) {
            return Err(self.no_room(evicted.len(), bytes_left));
        }
        let filter = if are_all_wanted { &TagFilter::All } else { filter };
        let mut entered = 0;
        for (set, series) in read {
            let records = self.read_idle_tags(&set).await?;
            let of_set = self.tags_by_series(&series, &records)?;
            for some in of_set.chunks(MOVED_AT_ONCE) {
                let came = self.enter(some, filter, set.time)?;
                entered += came;
                if let Some(memory) = memory {
                    memory.add_series_memory(series_bytes.saturating_mul(came));
                }
                if series_bytes.saturating_mul(entered) > bytes_left {
                    return Err(self.no_room(evicted.len(), bytes_left));
                }
                before_long_work().await;
            }
            if are_all_wanted {
                self.idle().lock().loaded(&set);
            }
        }
        Ok(pin)
    }

    /// While this is held, no idle series comes back into memory for a query.
    pub(super) async fn reloading(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.loaded().recalling.lock().await
    }

    fn no_room(&self, series: u64, bytes_left: usize) -> Error {
        Error::limit(format!(
            "measurement \"{}\" has {series} series in these times that got no points lately and are not in memory, and \
             those that are asked for do not fit into the {} MiB there are for them: ask for a shorter range of times or \
             for fewer series, or raise memory-limit",
            self.name(),
            bytes_left >> 20,
        ))
    }

    /// Puts evicted series into memory if a filter selects them. Their points lie within a time range. Returns the
    /// number of these series.
    fn enter(&self, tags: &[(u32, &[u8])], filter: &TagFilter, time: TimeRange) -> Result<usize> {
        let mut entered = 0;
        let (mut of_set, mut of_several) = (RoaringBitmap::new(), RoaringBitmap::new());
        let mut series = self.loaded().series.write();
        let mut idle = self.idle().lock();
        // All records are parsed before the first series is inserted, so that a malformed record cannot leave a series
        // inserted but unnoted.
        let evicted = tags
            .iter()
            .filter(|(id, _)| idle.is_evicted(*id))
            .map(|(id, record)| Some((*id, read_tags(record)?)));
        let evicted: Vec<_> = evicted.collect::<Option<_>>().ok_or_else(|| self.malformed("tags"))?;
        for (id, tags) in evicted.into_iter().filter(|(_, tags)| filter.holds(tags)) {
            series.insert_with_id(SeriesId(id), &tags);
            idle.mark_resident(id);
            entered += 1;
            // A series in several sets may have points in the times of each.
            if idle.is_in_several(id) { &mut of_several } else { &mut of_set }.insert(id);
        }
        // Under the same lock: a series in the index without presence would look as if it had no points.
        let mut presence = self.presence().write();
        presence.note_range(&of_set, time);
        presence.note_range(&of_several, TimeRange::ALL);
        Ok(entered)
    }

    /// The approximate number of bytes that a series takes in the index.
    fn bytes_of_series(&self) -> usize {
        let series = self.series();
        let bytes = if series.len() < MOVED_AT_ONCE { 0 } else { series.memory_bytes() / series.len() };
        bytes.clamp(SERIES_BYTES_MIN, SERIES_BYTES_MAX)
    }

    /// The id of a tag set (sorted by key) that is in memory. The series is reactivated. The caller holds the table
    /// lock shared.
    pub(crate) fn find_and_reactivate(
        &self,
        tags: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)],
    ) -> Option<SeriesId> {
        let series = self.series();
        let id = series.find(tags)?;
        self.reactivate(id, &series);
        Some(id)
    }

    /// Makes sure that a series in memory is no longer idle. The caller has locked the series.
    pub(super) fn reactivate(&self, id: SeriesId, series: &SeriesIndex) {
        if self.idle().lock().reactivate(id.0) {
            self.unsaved().lock().add_reactivated(id, tags_record(&series.tags_of(id)).into());
        }
    }

    /// Reloads those series of the tag sets (sorted by key) that are evicted, and reactivates all that are idle. The
    /// caller holds the table lock shared.
    pub(crate) async fn reload_evicted(&self, tag_sets: Vec<Tags>) -> Result<()> {
        if !self.has_idle_sets() {
            return Ok(());
        }
        let unknown = tag_sets.into_iter().filter(|tags| self.find_and_reactivate(tags).is_none());
        let by_key: HashMap<Vec<u8>, Tags> =
            unknown.map(|tags| (tag_set_key(self.table(), &tags_record(&tags)), tags)).collect();
        let evicted = self.idle().lock().evicted().len() as usize;
        if by_key.len().saturating_mul(READ_PER_LOOKUP) > evicted {
            let mut found = Vec::new();
            let note = |key: &[u8], id: &[u8]| {
                if let Some((key, _)) = by_key.get_key_value(key) {
                    found.push((key, id.to_vec()));
                }
            };
            self.records().visit(&tag_set_prefix(self.table()), note).await?;
            return found.into_iter().try_for_each(|(key, id)| self.reload_and_reactivate(&by_key[key], &id));
        }
        for (key, tags) in &by_key {
            if let Some(id) = self.records().find(key).await? {
                self.reload_and_reactivate(tags, &id)?;
            }
        }
        Ok(())
    }

    /// Reloads the series that a record gives for a tag set, if it is evicted, and reactivates it.
    fn reload_and_reactivate(&self, tags: &Tags, id: &[u8]) -> Result<()> {
        let id = u32::from_le_bytes(id.try_into().map_err(|_| self.malformed("a tag set"))?);
        let mut series = self.loaded().series.write();
        let is_evicted = self.idle().lock().is_evicted(id);
        if is_evicted {
            series.insert_with_id(SeriesId(id), tags);
            // Which shards have its points is unknown without reading its sets.
            self.presence().write().note_range(&[id].into(), TimeRange::ALL);
        }
        if is_evicted || series.contains(SeriesId(id)) {
            self.reactivate(SeriesId(id), &series);
        }
        Ok(())
    }

    /// Makes series idle whose points lie within a time range. The caller holds the table lock exclusively.
    pub(crate) async fn make_idle(&self, ids: &RoaringBitmap, time: TimeRange) -> Result<()> {
        let mut left = ids.iter().peekable();
        while left.peek().is_some() {
            let (set, some) = {
                let series = self.series();
                let (mut some, mut tags_bytes) = (RoaringBitmap::new(), 0);
                while let Some(id) = left.next_if(|_| tags_bytes < SET_TAGS_BYTES) {
                    tags_bytes += tags_record(&series.tags_of(SeriesId(id))).len();
                    some.insert(id);
                }
                (self.idle().lock().make_idle(time, &series.keys_of(&some), &some), some)
            };
            // From here on writers reactivate the series that they have cached, whatever happens to the records.
            self.table_lock().note_removal();
            self.save_idle_set(&set, &some).await?;
        }
        Ok(())
    }

    /// Those of some series that are in memory, have not been written lately, and may become idle.
    pub(crate) fn inactive_among(&self, ids: RoaringBitmap) -> RoaringBitmap {
        let mut inactive = ids & self.series().all();
        self.activity().read().keep_inactive(&mut inactive);
        inactive -= self.idle().lock().resident();
        let unsaved = self.unsaved().lock();
        inactive.iter().filter(|id| !unsaved.has_series(*id)).collect()
    }

    /// The idle sets that have no points left, given the ranges of time that may have points.
    pub(crate) fn expired_idle_sets(&self, left: &[TimeRange]) -> Vec<Arc<IdleSet>> {
        self.idle().lock().expired(left)
    }

    /// Reloads the series that may lose their last points with a dropped range, given the ranges that may still have
    /// points. The caller of a drop only looks at series in memory.
    pub(crate) async fn reload_for_drop(&self, dropped: TimeRange, left: &[TimeRange]) -> Result<SeriesPin> {
        let loses_its_end = |time: TimeRange| {
            dropped.contains(time.end_ns.saturating_sub(1)) && left.iter().any(|range| range.overlaps(time))
        };
        self.reload_sets(dropped, &loses_its_end, &TagFilter::All, None).await
    }

    /// Reloads the idle series that may have points both inside and outside of a time range.
    pub(crate) async fn reload_cut(&self, time: TimeRange, memory: &Catalog) -> Result<SeriesPin> {
        self.reload_sets(time, &|of_set| !time.covers(of_set), &TagFilter::All, Some(memory)).await
    }

    /// The idle sets whose points lie wholly within a time range.
    pub(crate) fn idle_sets_within(&self, time: TimeRange) -> Vec<Arc<IdleSet>> {
        self.idle().lock().within(time)
    }

    /// Whether there is a set that may not have been saved.
    pub(crate) fn has_unsaved_idle_set(&self) -> bool {
        self.idle().lock().unsaved().is_some()
    }

    /// Saves such a set again. The caller holds the table lock exclusively.
    pub(crate) async fn save_unsaved_idle_set(&self) -> Result<()> {
        let Some((set, ids)) = self.idle().lock().unsaved() else { return Ok(()) };
        self.save_idle_set(&set, &ids).await
    }

    /// Writes the records of a set before any of its series is evicted. Removes the series' own records if they are
    /// idle.
    async fn save_idle_set(&self, set: &IdleSet, ids: &RoaringBitmap) -> Result<()> {
        let table = self.table();
        let (tags, now_idle) = {
            let series = self.series();
            let there = ids & series.all();
            let tags: Vec<(u32, Vec<u8>)> =
                there.iter().map(|id| (id, tags_record(&series.tags_of(SeriesId(id))))).collect();
            (tags, ids & self.idle().lock().resident())
        };
        let ids: RoaringBitmap = tags.iter().map(|(id, _)| *id).collect();
        let mut tag_sets: Vec<(Vec<u8>, [u8; 4])> =
            tags.iter().map(|(id, record)| (tag_set_key(table, record), id.to_le_bytes())).collect();
        tag_sets.sort_unstable();
        let put = self.records().put(
            [
                (&*idle_set_key(table, set.number), &*idle_set_record(set.time, &set.keys(), &ids)),
                (
                    &*idle_tags_key(table, set.number),
                    &*idle_tags_record(tags.iter().map(|(_, record)| &**record)),
                ),
            ]
            .into_iter()
            .chain(tag_sets.iter().map(|(key, id)| (&**key, id.as_slice()))),
        );
        let own = now_idle.iter().map(|id| series_key(table, SeriesId(id)).to_vec());
        let removed: Vec<Vec<u8>> = own.chain(now_idle.iter().map(|id| not_idle_key(table, id))).collect();
        let remove = self.records().remove(removed.iter().map(Vec::as_slice));
        self.unsaved().lock().make_idle(&now_idle, tag_sets.iter().map(|(key, _)| key));
        self.records().write(vec![put, remove]).await?;
        self.idle().lock().saved(set);
        Ok(())
    }

    /// Evicts idle series that nobody needs. Returns how many. It holds the table lock exclusively, so nothing is
    /// evicted while somebody removes series, or checks that a tag set is unknown before giving it an id.
    pub(crate) async fn evict(&self) -> usize {
        self.idle().lock().begin_round();
        let mut count = 0;
        loop {
            let _lock = self.table_lock().lock_exclusive().await;
            let mut series = self.loaded().series.write();
            let gone = self.idle().lock().evict(MOVED_AT_ONCE);
            if gone.is_empty() {
                break;
            }
            series.remove(&gone);
            self.presence().write().remove(&gone);
            count += gone.len() as usize;
        }
        self.idle().lock().end_round();
        count
    }

    /// Removes an idle set that has no points left, with its series that are in no other set and have no other points.
    /// The caller holds the table lock exclusively. `tag_sets`: see [`Self::tag_sets_of`].
    pub(crate) async fn remove_idle_set(&self, set: &IdleSet, tag_sets: Vec<(u32, Vec<u8>)>) -> Result<()> {
        let table = self.table();
        let all: RoaringBitmap = tag_sets.iter().map(|(id, _)| *id).collect();
        let (known, not_idle) = {
            let mut series = self.loaded().series.write();
            let mut idle = self.idle().lock();
            let only = idle.only_in(&all);
            let resident = &only & idle.resident();
            let is_idle = &only & (&resident | idle.evicted());
            let known = &is_idle | (&only & idle.reactivated());
            idle.forget(&only);
            idle.remove_set(set, &all);
            if !resident.is_empty() {
                series.remove(&resident);
                self.presence().write().remove(&resident);
                self.table_lock().note_removal();
            }
            (known, only - is_idle)
        };
        let mut keys: Vec<Vec<u8>> = not_idle.iter().map(|id| not_idle_key(table, id)).collect();
        // If a series was removed, another series may have its tags by now.
        keys.extend(tag_sets.into_iter().filter(|(id, _)| known.contains(*id)).map(|(_, key)| key));
        keys.extend([idle_set_key(table, set.number), idle_tags_key(table, set.number)]);
        self.unsaved().lock().remove_keys(&not_idle, keys);
        self.save_removals().await
    }

    /// The series of a set, each with the key of the record that finds it by its tags.
    pub(crate) async fn tag_sets_of(&self, set: &IdleSet) -> Result<Vec<(u32, Vec<u8>)>> {
        let (series, records) = (self.read_idle_set(set).await?, self.read_idle_tags(set).await?);
        let of_set = self.tags_by_series(&series, &records)?;
        Ok(of_set.into_iter().map(|(id, record)| (id, tag_set_key(self.table(), record))).collect())
    }

    /// The series of a set with their tags; none if the set was removed meanwhile.
    fn tags_by_series<'a>(&self, series: &RoaringBitmap, records: &'a [u8]) -> Result<Vec<(u32, &'a [u8])>> {
        let tags =
            read_idle_tags(records).filter(|tags| tags.is_empty() || tags.len() as u64 == series.len());
        let tags = tags.ok_or_else(|| self.malformed("idle tags"))?;
        Ok(series.iter().zip(tags).collect())
    }

    /// Those of some series in memory that are in idle sets, with the keys of the records that find series by their
    /// tags.
    pub(super) fn listed_among(&self, ids: &RoaringBitmap) -> (RoaringBitmap, Vec<Vec<u8>>) {
        let series = self.series();
        let idle = self.idle().lock();
        let listed = ids & (idle.resident() | idle.reactivated());
        let key = |id| tag_set_key(self.table(), &tags_record(&series.tags_of(SeriesId(id))));
        let keys = listed.iter().map(key).collect();
        (listed, keys)
    }

    /// The series of a set; none if the set no longer exists.
    async fn read_idle_set(&self, set: &IdleSet) -> Result<RoaringBitmap> {
        let Some(value) = self.records().find(&idle_set_key(self.table(), set.number)).await? else {
            return Ok(RoaringBitmap::new());
        };
        read_idle_set(&value).map(|(_, _, series)| series).ok_or_else(|| self.malformed("an idle set"))
    }

    /// The record with the tags of a set's series; empty if the set no longer exists.
    async fn read_idle_tags(&self, set: &IdleSet) -> Result<Vec<u8>> {
        let found = self.records().find(&idle_tags_key(self.table(), set.number)).await?;
        Ok(found.unwrap_or_default())
    }

    pub(super) fn malformed(&self, what: &str) -> Error {
        Error::new(
            ErrorKind::Corrupt,
            format!("the record of {what} of measurement \"{}\" is malformed", self.name()),
        )
    }
}

/// Bounds for the size of a series in the index, used when there are too few series to tell.
const SERIES_BYTES_MIN: usize = 128;
const SERIES_BYTES_MAX: usize = 4096;
