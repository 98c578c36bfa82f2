//! The log by which the servers of a shared store follow each other.
//!
//! The records of series, databases and users are in the store, and every server keeps them in memory. A server that has
//! changed such records appends an entry to this log before it acknowledges anything that depends on them. Every server
//! applies all entries in their order, its own among them. So all servers that have applied the same entries know the
//! same, and a server that has read the log to its end knows everything that was acknowledged by anybody.
//!
//! Entries are records under consecutive numbers. Whoever inserts the next number has appended the next entry; whoever
//! finds the number taken applies that entry first. The oldest entries are removed. A server that was stopped for so
//! long that it misses some reads everything again.

use super::{DoubtedSeries, Records};
use async_trait::async_trait;
use nyala_core::store::StoreRef;
use nyala_core::{Error, ErrorKind, Result, Sequence, SharedLook, TableId};
use parking_lot::Mutex;
use roaring::RoaringBitmap;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::sync::MutexGuard;

const TABLE: &str = "nyala.changes";
/// How many entries are kept at least, ...
const KEPT: i64 = if cfg!(test) { 64 } else { 1 << 14 };
/// ... and how many are removed together.
const REMOVED_AT_ONCE: i64 = if cfg!(test) { 16 } else { 1 << 10 };
/// How many entries are read together.
const READ_AT_ONCE: usize = 1 << 10;
/// So long after a look, the entries that it found are surely still there.
const TRUSTED: Duration = if cfg!(test) { Duration::ZERO } else { Duration::from_secs(10) };
/// The most ranges of ids in an entry; a cell has room for 64 KiB.
const RANGES_MAX: usize = 2048;

/// What an entry says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Entry {
    /// A table's series are there: they are new, or they were doubted. `again`: or hidden.
    Series { table: u32, ids: Vec<(u32, u32)>, again: bool },
    /// A table's series are hidden: they have no points, and nobody sees them until they are written again.
    Hidden { table: u32, ids: Vec<(u32, u32)> },
    /// Somebody looks whether a table's series have points. Whoever writes to them says that they are there.
    Doubted { table: u32, ids: Vec<(u32, u32)> },
    /// The types of a table's fields, or the members of a group, have changed.
    Names { table: u32 },
    /// Records of databases have changed.
    Databases,
    /// Records of users have changed.
    Users,
    /// Records of relations have changed.
    Relations,
}

/// The series of a table, as they are applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SeriesChange {
    Shown {
        ids: RoaringBitmap,
        again: bool,
    },
    Hidden(RoaringBitmap),
    Doubted(RoaringBitmap),
    /// Types of fields or members of a group have changed.
    Names,
    /// Entries were missed: read everything again, then apply what the log still says.
    Everything(Recent),
}

/// What the entries that the log still has say of a table's series.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Recent {
    /// Those that hide series, or show hidden ones, with their numbers.
    pub(crate) hiding: Vec<(i64, SeriesChange)>,
    /// The series that were doubted and neither shown nor hidden since.
    pub(crate) doubted: DoubtedSeries,
}

/// The entries that doubted some series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Doubts {
    pub(crate) first: i64,
    pub(crate) last: i64,
}

/// A table whose series follow the log.
#[async_trait]
pub(crate) trait Follower: Send + Sync {
    /// Makes a change that stands in the log. It may be made again.
    async fn apply(&self, number: i64, change: &SeriesChange) -> Result<()>;

    /// Says in the table's records what an entry says that the log is about to lose.
    async fn mark(&self, ids: &RoaringBitmap, number: i64, is_hidden: bool) -> Result<()>;
}

/// What the catalog has to apply. Each number grows with every change.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct News {
    pub(crate) databases: u64,
    pub(crate) users: u64,
    pub(crate) relations: u64,
    /// Tables whose members may have changed since the catalog read them.
    pub(crate) members: BTreeMap<TableId, u64>,
}

/// The log of a shared store.
pub(crate) struct ChangeLog {
    records: Records,
    store: StoreRef,
    look: SharedLook<Sequence>,
    applied: tokio::sync::Mutex<Applied>,
    followers: Mutex<HashMap<TableId, Weak<dyn Follower>>>,
    news: Mutex<News>,
}

/// How far the log was applied.
#[derive(Default)]
pub(crate) struct Applied {
    /// The number of the last entry.
    number: i64,
    /// When it was last seen that this is the end of the log.
    seen: Option<Instant>,
    recent: HashMap<TableId, Recent>,
}

impl Applied {
    /// What the entries that the log still has say of a table's series.
    pub(crate) fn recent(&self, table: TableId) -> Recent {
        self.recent.get(&table).cloned().unwrap_or_default()
    }

    fn note(&mut self, number: i64, table: TableId, change: &SeriesChange) {
        let has_recent = self.recent.contains_key(&table);
        match change {
            SeriesChange::Hidden(ids) | SeriesChange::Shown { ids, again: true } => {
                let recent = self.recent.entry(table).or_default();
                recent.doubted.remove(ids);
                recent.hiding.push((number, change.clone()));
            }
            SeriesChange::Shown { ids, again: false } if has_recent => {
                let recent = self.recent.entry(table).or_default();
                recent.doubted.remove(ids);
            }
            SeriesChange::Doubted(ids) => {
                self.recent.entry(table).or_default().doubted.note(ids, number);
            }
            SeriesChange::Shown { .. } | SeriesChange::Names | SeriesChange::Everything(_) => {}
        }
        if number % REMOVED_AT_ONCE == 0 {
            for recent in self.recent.values_mut() {
                // Whoever removes these entries may still be writing their marks, or fail.
                recent.hiding.retain(|(old, _)| *old > number - 2 * KEPT);
                recent.doubted.forget_until(number - KEPT);
            }
            self.recent.retain(|_, recent| !recent.hiding.is_empty() || !recent.doubted.is_empty());
        }
    }

    /// Whether every server knows of a doubt, also one that has just started.
    pub(crate) fn has_doubt(&self, number: i64) -> bool {
        number > self.number - KEPT
    }
}

impl ChangeLog {
    /// Opens the log of a store, if others use the store too. What is read from the store afterwards contains what the
    /// entries so far say.
    pub(crate) async fn open(store: &StoreRef) -> Result<Option<Arc<Self>>> {
        if !store.capabilities().is_shared {
            return Ok(None);
        }
        let records = Records::open(store.clone(), TABLE).await?;
        let mut applied = Applied::default();
        let mut read = ReadEntries::default();
        records.visit(b"", |key, value| read.take(key, value)).await?;
        for (number, entry) in read.finish()? {
            applied.number = number;
            if let Some((table, change)) = entry.of_series() {
                applied.note(number, table, &change);
            }
        }
        Ok(Some(Arc::new(Self {
            records,
            store: store.clone(),
            look: SharedLook::default(),
            applied: tokio::sync::Mutex::new(applied),
            followers: Mutex::default(),
            news: Mutex::default(),
        })))
    }

    /// Makes a table follow the log from now on. It is read from the store after this call.
    pub(crate) fn add_follower(&self, table: TableId, follower: &Arc<impl Follower + 'static>) {
        let follower: Arc<dyn Follower> = follower.clone();
        let mut followers = self.followers.lock();
        followers.insert(table, Arc::downgrade(&follower));
        // Tables that were dropped.
        if followers.len().is_power_of_two() {
            followers.retain(|_, follower| follower.strong_count() > 0);
        }
    }

    /// Applies all entries that were acknowledged before this call. A snapshot of the returned sequence has everything that
    /// was acknowledged before this call.
    pub(crate) async fn follow(&self) -> Result<Sequence> {
        let look = async || {
            let mut applied = self.applied.lock().await;
            self.read_on(&mut applied).await
        };
        self.look.run(look).await
    }

    /// While the guard is held, no entry is applied.
    pub(crate) async fn pause(&self) -> MutexGuard<'_, Applied> {
        self.applied.lock().await
    }

    /// Appends an entry. All entries before it are applied, then `apply`, which makes the same change here, then those
    /// after it. Returns the number of the entry.
    pub(crate) async fn append(&self, entry: &Entry, apply: impl FnOnce(i64)) -> Result<i64> {
        let appended = self.append_if(|_| Some(entry.clone()), |_, number| apply(number)).await?;
        Ok(appended.expect("it was decided to"))
    }

    /// The same for an entry that is decided on when all entries before it are applied. Returns `None` if there is none.
    pub(crate) async fn append_if(
        &self,
        decide: impl Fn(&Applied) -> Option<Entry>,
        apply: impl FnOnce(&Entry, i64),
    ) -> Result<Option<i64>> {
        let mut applied = self.applied.lock().await;
        loop {
            let Some(entry) = decide(&applied) else { return Ok(None) };
            let text = serde_json::to_vec(&entry).expect("entries are plain data");
            let number = applied.number + 1;
            let record = (&key(number)[..], text.as_slice());
            if !self.records.insert([record]).await?.is_empty() {
                self.read_on(&mut applied).await?;
                continue;
            }
            if self.is_out_of_reach(&applied, number).await? {
                self.records.write(vec![self.records.remove([&key(number)[..]])]).await?;
                self.read_on(&mut applied).await?;
                if applied.number < number {
                    return Err(Error::new(ErrorKind::Corrupt, format!("the end of {TABLE} is missing")));
                }
                continue;
            }
            apply(&entry, number);
            applied.number = number;
            applied.seen = Some(Instant::now());
            if let Some((table, change)) = entry.of_series() {
                applied.note(number, table, &change);
            }
            if number > KEPT && number % REMOVED_AT_ONCE == 0 {
                drop(applied);
                // If this fails, the next one does it.
                let _ = self.remove_until(number - KEPT).await;
            }
            return Ok(Some(number));
        }
    }

    /// Whether an entry that was just inserted stands where nobody reads. That is so if those before it were removed,
    /// because this server has not looked for very long.
    async fn is_out_of_reach(&self, applied: &Applied, number: i64) -> Result<bool> {
        let is_fresh = applied.seen.is_some_and(|seen| seen.elapsed() < TRUSTED);
        Ok(number > 1 && !is_fresh && self.records.find(&key(number - 1)).await?.is_none())
    }

    /// Removes the oldest entries, when what they say of hidden series is marked: whoever appended them may have died
    /// before it did that.
    async fn remove_until(&self, last: i64) -> Result<()> {
        let mut read = ReadEntries::default();
        self.records.visit_between(&key(0), &key(last), |key, value| read.take(key, value)).await?;
        for (number, entry) in read.finish()? {
            let (table, ids, is_hidden) = match entry.of_series() {
                Some((table, SeriesChange::Hidden(ids))) => (table, ids, true),
                Some((table, SeriesChange::Shown { ids, again: true })) => (table, ids, false),
                _ => continue,
            };
            let follower = self.followers.lock().get(&table).and_then(Weak::upgrade);
            match follower {
                Some(follower) => follower.mark(&ids, number, is_hidden).await?,
                None if self.store.schema(table).is_err() => {}
                None => return Err(Error::new(ErrorKind::Retry, "a new table is not followed yet")),
            }
        }
        self.records.remove_between(&key(0), &key(last)).await
    }

    /// What the catalog has to apply.
    pub(crate) fn news(&self) -> News {
        self.news.lock().clone()
    }

    /// Notes that the members of a table may have changed.
    pub(crate) fn doubt_members(&self, table: TableId) {
        *self.news.lock().members.entry(table).or_default() += 1;
    }

    /// The catalog has read the members of a table after it was told so.
    pub(crate) fn members_read(&self, table: TableId, news: u64) {
        let members = &mut self.news.lock().members;
        if members.get(&table) == Some(&news) {
            members.remove(&table);
        }
    }

    /// Notes that records may have been changed without an entry, because their writer died.
    pub(crate) fn doubt_records(&self) {
        let mut news = self.news.lock();
        news.databases += 1;
        news.users += 1;
        news.relations += 1;
    }

    async fn read_on(&self, applied: &mut Applied) -> Result<Sequence> {
        let began = Instant::now();
        loop {
            let (count, sequence) = self.read_some(applied).await?;
            if count < READ_AT_ONCE {
                applied.seen = Some(began);
                return Ok(sequence);
            }
        }
    }

    /// Applies some of the next entries. Returns how many there were, and the sequence of the snapshot that has them.
    async fn read_some(&self, applied: &mut Applied) -> Result<(usize, Sequence)> {
        let mut read = ReadEntries::default();
        let first = key(applied.number + 1);
        let take = |key: &[u8], value: &[u8]| read.take(key, value);
        let sequence = self.records.visit_first(&first, READ_AT_ONCE, take).await?;
        let entries = read.finish()?;
        let count = entries.len();
        if entries.iter().zip(applied.number + 1..).any(|((number, _), expected)| *number != expected) {
            self.read_everything(applied, &entries).await?;
            return Ok((count, sequence));
        }
        for (number, entry) in entries {
            match entry.of_series() {
                Some((table, change)) => {
                    self.apply(table, number, &change).await?;
                    applied.note(number, table, &change);
                }
                None => self.add_news(&entry),
            }
            applied.number = number;
        }
        Ok((count, sequence))
    }

    /// Entries are missing between the last that was applied and these.
    async fn read_everything(&self, applied: &mut Applied, entries: &[(i64, Entry)]) -> Result<()> {
        applied.recent.clear();
        for (number, entry) in entries {
            if let Some((table, change)) = entry.of_series() {
                applied.note(*number, table, &change);
            }
        }
        let number = entries.last().map_or(applied.number, |(number, _)| *number);
        let tables: Vec<TableId> = self.followers.lock().keys().copied().collect();
        for table in tables {
            let everything = SeriesChange::Everything(applied.recent(table));
            self.apply(table, number, &everything).await?;
            self.doubt_members(table);
        }
        self.doubt_records();
        applied.number = number;
        Ok(())
    }

    async fn apply(&self, table: TableId, number: i64, change: &SeriesChange) -> Result<()> {
        let follower = self.followers.lock().get(&table).and_then(Weak::upgrade);
        if let Some(follower) = follower {
            follower.apply(number, change).await?;
        }
        if *change == SeriesChange::Names {
            self.doubt_members(table);
        }
        Ok(())
    }

    fn add_news(&self, entry: &Entry) {
        let mut news = self.news.lock();
        news.databases += u64::from(*entry == Entry::Databases);
        news.users += u64::from(*entry == Entry::Users);
        news.relations += u64::from(*entry == Entry::Relations);
    }

    /// The version of the store's tables.
    pub(crate) fn tables_version(&self) -> u64 {
        self.store.tables_version()
    }
}

impl Entry {
    /// Entries that say that series are there, each of which fits into a record.
    pub(crate) fn series(table: TableId, ids: &RoaringBitmap) -> impl Iterator<Item = (Self, RoaringBitmap)> {
        let entry = move |ids| Self::Series { table: table.0, ids, again: false };
        parts(ids).into_iter().map(move |(ranges, ids)| (entry(ranges), ids))
    }

    /// The same entry for series some of which were hidden.
    pub(crate) fn shown_again(&self) -> Self {
        match self {
            Self::Series { table, ids, .. } => Self::Series { table: *table, ids: ids.clone(), again: true },
            other => other.clone(),
        }
    }

    /// Entries that hide series.
    pub(crate) fn hidden(table: TableId, ids: &RoaringBitmap) -> impl Iterator<Item = (Self, RoaringBitmap)> {
        let entry = move |ids| Self::Hidden { table: table.0, ids };
        parts(ids).into_iter().map(move |(ranges, ids)| (entry(ranges), ids))
    }

    /// Entries that ask whether series have points.
    pub(crate) fn doubted(
        table: TableId,
        ids: &RoaringBitmap,
    ) -> impl Iterator<Item = (Self, RoaringBitmap)> {
        let entry = move |ids| Self::Doubted { table: table.0, ids };
        parts(ids).into_iter().map(move |(ranges, ids)| (entry(ranges), ids))
    }

    /// An entry that says that types of fields or members of a group are others.
    pub(crate) fn names(table: TableId) -> Self {
        Self::Names { table: table.0 }
    }

    /// The series that it hides.
    pub(crate) fn hidden_ids(&self) -> RoaringBitmap {
        match self {
            Self::Hidden { ids, .. } => set_of(ids),
            _ => RoaringBitmap::new(),
        }
    }

    fn of_series(&self) -> Option<(TableId, SeriesChange)> {
        match self {
            Self::Series { table, ids, again } => {
                Some((TableId(*table), SeriesChange::Shown { ids: set_of(ids), again: *again }))
            }
            Self::Hidden { table, ids } => Some((TableId(*table), SeriesChange::Hidden(set_of(ids)))),
            Self::Doubted { table, ids } => Some((TableId(*table), SeriesChange::Doubted(set_of(ids)))),
            Self::Names { table } => Some((TableId(*table), SeriesChange::Names)),
            Self::Databases | Self::Users | Self::Relations => None,
        }
    }
}

/// Ids in ranges, first and last, in parts that each fit into a record.
fn parts(ids: &RoaringBitmap) -> Vec<(Vec<(u32, u32)>, RoaringBitmap)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for id in ids {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(id) => *last = id,
            _ => ranges.push((id, id)),
        }
    }
    ranges.chunks(RANGES_MAX).map(|ranges| (ranges.to_vec(), set_of(ranges))).collect()
}

fn set_of(ranges: &[(u32, u32)]) -> RoaringBitmap {
    let mut ids = RoaringBitmap::new();
    for (first, last) in ranges {
        ids.insert_range(*first..=*last);
    }
    ids
}

/// Entries that are being read.
#[derive(Default)]
struct ReadEntries {
    entries: Vec<(i64, Entry)>,
    broken: Option<Error>,
}

impl ReadEntries {
    fn take(&mut self, key: &[u8], value: &[u8]) {
        match read_entry(key, value) {
            Ok(entry) => self.entries.push(entry),
            Err(error) => self.broken = Some(error),
        }
    }

    fn finish(self) -> Result<Vec<(i64, Entry)>> {
        self.broken.map_or(Ok(self.entries), Err)
    }
}

fn key(number: i64) -> [u8; 8] {
    number.to_be_bytes()
}

fn read_entry(key: &[u8], value: &[u8]) -> Result<(i64, Entry)> {
    let number = key.try_into().map(i64::from_be_bytes);
    let entry = serde_json::from_slice(value);
    match (number, entry) {
        (Ok(number), Ok(entry)) => Ok((number, entry)),
        _ => Err(Error::new(ErrorKind::Corrupt, format!("entry {key:?} of {TABLE} has an unknown form"))),
    }
}

/// Reads bytes as an entry: what a fuzzer calls. It asserts that an entry is read as it is written.
pub(crate) fn read_arbitrary(value: &[u8]) {
    if let Ok((number, entry)) = read_entry(&key(1), value) {
        let _ = (entry.of_series(), entry.hidden_ids());
        let written = serde_json::to_vec(&entry).expect("plain data becomes JSON");
        assert_eq!(read_entry(&key(number), &written).ok(), Some((number, entry)));
    }
}
