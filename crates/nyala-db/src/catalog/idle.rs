//! Idle series and their records: leaving memory, coming back, waking, and going for good.
//!
//! A series that is away has three records: its own, as always; its idle set, by which queries find it; and one under the
//! hash of its tags, by which writers do. The last two are written before it leaves. One that wakes gets a record that
//! says so with its first point, so that a start reads it with those that never were idle.
//!
//! Order of locks: series, idle series, presence, records that are not saved.

use super::measurement::Measurement;
use super::record::{
    awake_key, idle_set_key, idle_set_record, read_idle_set, read_tags, series_key, tag_set_key, tags_record,
};
use crate::series::{IdleSeries, IdleSet, Stay, Tags};
use nyala_core::{Error, ErrorKind, Result, SeriesId, TimeRange};
use parking_lot::Mutex;
use roaring::RoaringBitmap;
use std::collections::HashMap;
use std::sync::Arc;

/// Series that come or leave while the index is locked once.
const MOVED_AT_ONCE: usize = 1 << 12;
/// Records between two that are wanted, which are read rather than left out.
const SKIPPED_MAX: u32 = 128;

impl Measurement {
    /// Its idle series.
    pub(crate) fn idle(&self) -> &Mutex<IdleSeries> {
        &self.loaded().idle
    }

    /// Whether some of its series are not in memory.
    pub(crate) fn has_away(&self) -> bool {
        !self.idle().lock().away().is_empty()
    }

    /// How many series it has, in memory or not.
    pub fn count_series(&self) -> usize {
        self.series().len() + self.idle().lock().away().len() as usize
    }

    /// Whether a series of it has a tag key.
    pub fn has_tag_key(&self, key: &str) -> bool {
        self.series().has_key(key) || self.idle().lock().has_key(key)
    }

    /// The tag keys of its series, sorted.
    pub fn tag_keys(&self) -> Vec<String> {
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

    /// Tells whether a writer may go on using the id of a series it remembers: it is there, and not idle.
    pub(crate) fn ids_in_use(&self) -> impl Fn(u32) -> bool + use<'_> {
        let (series, idle) = (self.series(), self.idle().lock());
        move |id| series.contains(SeriesId(id)) && !idle.is_visiting(id)
    }

    /// Reads the idle series that may have points in a range of times, unless they are in memory; none of them leaves as
    /// long as the stay is held. `room_bytes`: what they may take.
    pub(crate) async fn recall(&self, time: TimeRange, room_bytes: usize) -> Result<(Stay, usize)> {
        let (stay, lacking) = self.idle().lock().stay(time);
        if lacking.is_empty() {
            return Ok((stay, 0));
        }
        let _recalling = self.loaded().recalling.lock().await;
        // Another may have read them meanwhile.
        let (stay, lacking) = self.idle().lock().stay(time);
        let mut away = RoaringBitmap::new();
        let mut span: Option<TimeRange> = None;
        for set in &lacking {
            let series = self.read_idle_set(set).await?;
            away |= self.idle().lock().hold(set, series);
            span = Some(span.map_or(set.time, |span| {
                TimeRange::new(span.start_ns.min(set.time.start_ns), span.end_ns.max(set.time.end_ns))
            }));
        }
        let series_bytes = self.bytes_of_series();
        let wanted_bytes = series_bytes.saturating_mul(away.len() as usize);
        if wanted_bytes > room_bytes {
            return Err(Error::limit(format!(
                "{} series of measurement \"{}\" without recent points would take {} MiB of memory, and there are {}: ask \
                 for a shorter range of times, or raise memory-limit",
                away.len(),
                self.name(),
                wanted_bytes >> 20,
                room_bytes >> 20,
            )));
        }
        let mut found = RoaringBitmap::new();
        let mut come: Vec<(u32, Vec<u8>)> = Vec::new();
        let span = span.unwrap_or(time);
        let enter = |come: &mut Vec<(u32, Vec<u8>)>| -> Result<()> {
            let mut series = self.loaded().series.write();
            let mut idle = self.idle().lock();
            let ids: RoaringBitmap = come.iter().map(|(id, _)| *id).collect();
            for (id, record) in come.drain(..) {
                if !idle.is_away(id) {
                    continue;
                }
                let tags = read_tags(&record).ok_or_else(|| self.malformed("a series"))?;
                series.insert_with_id(SeriesId(id), &tags);
                idle.come(id);
            }
            drop((series, idle));
            self.presence().write().note_range(&ids, span);
            Ok(())
        };
        let mut result = Ok(());
        self.visit_series(&away, |id, record| {
            found.insert(id);
            come.push((id, record.to_vec()));
            if come.len() >= MOVED_AT_ONCE && result.is_ok() {
                result = enter(&mut come);
            }
        })
        .await?;
        result.and_then(|()| enter(&mut come))?;
        let mut idle = self.idle().lock();
        // They were removed, which their set does not know.
        let missing = (&away - &found) & idle.away();
        idle.forget(&missing);
        lacking.iter().for_each(|set| idle.loaded(set));
        drop(idle);
        Ok((stay, wanted_bytes))
    }

    /// About how many bytes a series takes in the index.
    fn bytes_of_series(&self) -> usize {
        let series = self.series();
        let bytes = if series.len() < MOVED_AT_ONCE { 0 } else { series.memory_bytes() / series.len() };
        bytes.clamp(SERIES_BYTES_MIN, SERIES_BYTES_MAX)
    }

    /// The id of a tag set (sorted by key) that is known, and awake from now on. The caller shares the membership.
    pub(crate) fn wake_known(&self, tags: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)]) -> Option<SeriesId> {
        let series = self.series();
        let id = series.find(tags)?;
        self.wake(id);
        Some(id)
    }

    /// Makes sure that a series is not idle any more. The caller has locked the series it is among.
    pub(super) fn wake(&self, id: SeriesId) {
        if self.idle().lock().wake(id.0) {
            self.unsaved().lock().add_awake(id);
        }
    }

    /// Brings back the series of a tag set (sorted by key) if it is away, and wakes it. The caller shares the membership.
    pub(crate) async fn find_away(&self, tags: &Tags) -> Result<()> {
        if !self.has_away() || self.wake_known(tags).is_some() {
            return Ok(());
        }
        let key = tag_set_key(self.table(), &tags_record(tags));
        let Some(value) = self.records().find(&key).await? else { return Ok(()) };
        let id = u32::from_le_bytes(value.try_into().map_err(|_| self.malformed("a tag set"))?);
        let mut series = self.loaded().series.write();
        let is_away = self.idle().lock().is_away(id);
        if is_away {
            series.insert_with_id(SeriesId(id), tags);
            // Where it has points is not known without its sets.
            self.presence().write().note_range(&[id].into(), TimeRange::ALL);
        }
        if is_away || series.contains(SeriesId(id)) {
            self.wake(SeriesId(id));
        }
        Ok(())
    }

    /// Makes series idle whose points lie within a range of times. The caller owns the membership.
    pub(crate) async fn rest(&self, ids: &RoaringBitmap, time: TimeRange) -> Result<()> {
        let (set, were_awake) = {
            let series = self.series();
            let mut idle = self.idle().lock();
            let were_awake = ids & idle.awake();
            (idle.rest(time, &series.keys_of(ids), ids), were_awake)
        };
        self.unsaved().lock().remove_awake(ids);
        // From here on writers wake what they remember, whatever becomes of the records.
        self.membership().note_removal();
        self.save_idle_set(&set, ids, &were_awake).await
    }

    /// The series in memory that got no points lately, and may rest.
    pub(crate) fn silent_series(&self) -> RoaringBitmap {
        let mut silent = self.series().all().clone();
        self.activity().read().keep_silent(&mut silent);
        silent -= self.idle().lock().visiting();
        let unsaved = self.unsaved().lock();
        silent.iter().filter(|id| !unsaved.has_series(*id)).collect()
    }

    /// The idle sets of which no point is left, given the ranges of time that may have points.
    pub(crate) fn expired_idle_sets(&self, left: &[TimeRange]) -> Vec<Arc<IdleSet>> {
        self.idle().lock().expired(left)
    }

    /// Reads back the series that may have no points left without those of a range that was dropped, given the ranges that
    /// may have points: whoever drops looks at those in memory.
    pub(crate) async fn recall_for_drop(&self, dropped: TimeRange, left: &[TimeRange]) -> Result<Vec<Stay>> {
        let mut stays = Vec::new();
        let times = self.idle().lock().losing_their_end(dropped, left);
        for time in times {
            stays.push(self.recall(time, usize::MAX).await?.0);
        }
        Ok(stays)
    }

    /// Whether there is a set of which it is not known whether it was saved.
    pub(crate) fn has_unsaved_idle_set(&self) -> bool {
        self.idle().lock().unsaved().is_some()
    }

    /// Saves a set again of which it is not known whether it was saved. The caller owns the membership.
    pub(crate) async fn save_unsaved_idle_set(&self) -> Result<()> {
        let Some((set, ids)) = self.idle().lock().unsaved() else { return Ok(()) };
        self.save_idle_set(&set, &ids, &RoaringBitmap::new()).await
    }

    async fn save_idle_set(&self, set: &IdleSet, ids: &RoaringBitmap, awake: &RoaringBitmap) -> Result<()> {
        let table = self.table();
        let mut tag_sets: Vec<(Vec<u8>, [u8; 4])> = {
            let series = self.series();
            let there = ids & series.all();
            let key = |id| tag_set_key(table, &tags_record(&series.tags_of(SeriesId(id))));
            there.iter().map(|id| (key(id), id.to_le_bytes())).collect()
        };
        tag_sets.sort_unstable();
        let record = (idle_set_key(table, set.number), idle_set_record(set.time, &set.keys, ids));
        let records = std::iter::once((&*record.0, &*record.1));
        let put = self.records().put(records.chain(tag_sets.iter().map(|(key, id)| (&**key, id.as_slice()))));
        let awake: Vec<_> = awake.iter().map(|id| awake_key(table, id)).collect();
        let mut operations = vec![put];
        if !awake.is_empty() {
            operations.push(self.records().remove(awake.iter().map(Vec::as_slice)));
        }
        self.unsaved().lock().keep(tag_sets.iter().map(|(key, _)| key));
        self.records().write(operations).await?;
        self.idle().lock().saved(set);
        Ok(())
    }

    /// Lets idle series leave memory that nobody needs; returns how many did.
    pub(crate) fn leave(&self) -> usize {
        self.idle().lock().begin_round();
        let mut count = 0;
        loop {
            let mut series = self.loaded().series.write();
            let gone = self.idle().lock().leave(MOVED_AT_ONCE);
            if gone.is_empty() {
                break;
            }
            series.remove(&gone);
            drop(series);
            self.presence().write().remove(&gone);
            count += gone.len() as usize;
        }
        self.idle().lock().end_round();
        count
    }

    /// Removes an idle set of which no point is left, and its series that are in no other and have no other points.
    /// The caller owns the membership; `tag_sets`: see [`Self::tag_sets_of`].
    pub(crate) async fn remove_idle_set(
        &self,
        set: &IdleSet,
        tag_sets: &HashMap<u32, Vec<u8>>,
    ) -> Result<()> {
        let table = self.table();
        let all: RoaringBitmap = self.read_idle_set(set).await?;
        let (only, awake) = {
            let mut series = self.loaded().series.write();
            let mut idle = self.idle().lock();
            let only = idle.only_in(&all);
            let awake = &only & idle.awake();
            let visiting = &only & idle.visiting();
            idle.forget(&only);
            idle.remove_set(set, &all);
            if !visiting.is_empty() {
                series.remove(&visiting);
                self.presence().write().remove(&visiting);
                self.membership().note_removal();
            }
            (only, awake)
        };
        let mut keys: Vec<Vec<u8>> = only.iter().filter_map(|id| tag_sets.get(&id).cloned()).collect();
        keys.extend(awake.iter().map(|id| awake_key(table, id)));
        keys.push(idle_set_key(table, set.number));
        self.unsaved().lock().remove_awake(&awake);
        self.unsaved().lock().remove_series(&(&only - &awake), keys);
        self.save_removals(None).await
    }

    /// The keys of the records that find the series of a set by their tags.
    pub(crate) async fn tag_sets_of(&self, set: &IdleSet) -> Result<HashMap<u32, Vec<u8>>> {
        let all = self.read_idle_set(set).await?;
        let mut tag_sets = HashMap::new();
        let table = self.table();
        self.visit_series(&all, |id, record| drop(tag_sets.insert(id, tag_set_key(table, record)))).await?;
        Ok(tag_sets)
    }

    /// The keys of records that go with series that are removed while they are in memory.
    pub(super) fn idle_records_of(&self, ids: &RoaringBitmap) -> Vec<Vec<u8>> {
        let series = self.series();
        let idle = self.idle().lock();
        let listed = ids & (idle.visiting() | idle.awake());
        let mut keys = Vec::new();
        for id in &listed {
            keys.push(tag_set_key(self.table(), &tags_record(&series.tags_of(SeriesId(id)))));
            keys.push(awake_key(self.table(), id));
        }
        keys
    }

    /// The series of a set; none if it is no more.
    async fn read_idle_set(&self, set: &IdleSet) -> Result<RoaringBitmap> {
        let Some(value) = self.records().find(&idle_set_key(self.table(), set.number)).await? else {
            return Ok(RoaringBitmap::new());
        };
        read_idle_set(&value).map(|(_, _, series)| series).ok_or_else(|| self.malformed("an idle set"))
    }

    /// Visits the records of series.
    async fn visit_series(&self, ids: &RoaringBitmap, mut visit: impl FnMut(u32, &[u8])) -> Result<()> {
        let mut left = ids.iter().peekable();
        while let Some(first) = left.next() {
            let mut last = first;
            while let Some(next) = left.next_if(|next| next - last <= SKIPPED_MAX) {
                last = next;
            }
            let key = |id| series_key(self.table(), SeriesId(id));
            let take = |key: &[u8], record: &[u8]| {
                if let Some(id) =
                    key.last_chunk().map(|id| u32::from_be_bytes(*id)).filter(|id| ids.contains(*id))
                {
                    visit(id, record);
                }
            };
            self.records().visit_between(&key(first), &key(last), take).await?;
        }
        Ok(())
    }

    fn malformed(&self, what: &str) -> Error {
        Error::new(
            ErrorKind::Corrupt,
            format!("the record of {what} of measurement \"{}\" is malformed", self.name()),
        )
    }
}

/// What a series takes in the index, at least and at most, where there are too few to tell.
const SERIES_BYTES_MIN: usize = 128;
const SERIES_BYTES_MAX: usize = 4096;
