//! What is known of a table of points: its series and its fields (`shard_types`). The table belongs to one measurement,
//! or to a group (`measurement`).

use super::field::{Field, ShardTypes, fields_of, present_fields};
use super::missed_changes::MissedChanges;
use super::record::{NEXT_ID, Next, ReadRecords, member_key, record_key, record_prefix, tags_record};
use super::shard_starts::ShardStarts;
use super::table_lock::TableLock;
use super::unsaved::{TakenRecords, Unsaved};
use crate::ingest::Generation;
use crate::records::{ChangeLog, DoubtedSeries, Recent, Records};
use crate::series::{Activity, IdleSeries, Presence, SeriesIndex};
use nyala_core::store::{PartitionInfo, RowStream, ScanRequest, SnapshotRef, StoreRef};
use nyala_core::{ColumnId, Error, ErrorKind, Result, SeriesId, TableId, TableSchema, TimeRange};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use roaring::RoaringBitmap;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// A table of points in a retention policy. It belongs to one measurement or to a group.
pub(crate) struct SeriesTable {
    /// Its name in error messages. It changes if its measurement is renamed.
    name: RwLock<Arc<str>>,
    table: TableId,
    store: StoreRef,
    records: Records,
    /// Of a store that other servers use too.
    change_log: Option<Arc<ChangeLog>>,
    table_lock: TableLock,
    /// One per column, including fields that no shard has any more.
    pub(super) columns: RwLock<Vec<Field>>,
    /// The names of columns whose fields were renamed. The store knows them by their old names.
    pub(super) column_names: RwLock<BTreeMap<ColumnId, String>>,
    /// Where its shards begin; `None` until a writer asks.
    shard_starts: RwLock<Option<ShardStarts>>,
    /// The times of shards that are being dropped, or were, and what is known of them is not forgotten yet.
    dropping: Mutex<Option<TimeRange>>,
    /// Loaded when first needed.
    loaded: OnceCell<Loaded>,
    /// What the log of changes said while the series are being loaded (`loading`); `None`: they are not.
    pub(super) missed: Mutex<Option<MissedChanges>>,
    /// Series and shard types that no acknowledged batch holds yet. Every writer writes them with its batch, so they
    /// are durable before the first point that needs them, even if another writer fails.
    unsaved: Mutex<Unsaved>,
}

#[derive(Default)]
pub(super) struct Loaded {
    pub(super) series: RwLock<SeriesIndex>,
    pub(super) idle: Mutex<IdleSeries>,
    /// Locked to reload idle series.
    pub(super) recalling: tokio::sync::Mutex<()>,
    /// The ids that this server has reserved and not given out (`series_directory`). Locked while series are
    /// registered.
    pub(super) reserved_ids: tokio::sync::Mutex<Range<u32>>,
    /// Series of which somebody looks whether they have points. They are registered again when they are written.
    pub(super) doubted: Mutex<DoubtedSeries>,
    /// Series that are hidden, after all entries of the log that were applied.
    pub(super) hidden: Mutex<RoaringBitmap>,
    activity: RwLock<Activity>,
    presence: RwLock<Presence>,
    pub(super) shard_types: RwLock<ShardTypes>,
    /// The same for the fields that only one member of a group has, by member.
    pub(super) own_types: RwLock<HashMap<String, ShardTypes>>,
    /// By shard, a series that has rows in it, if a deletion had to find one.
    pub(super) witnesses: Mutex<BTreeMap<i64, u32>>,
    /// Those of the columns that some shard has.
    pub(super) fields: RwLock<Arc<Vec<Field>>>,
}

impl SeriesTable {
    pub(crate) fn new(
        name: String,
        table: TableId,
        schema: &TableSchema,
        store: StoreRef,
        records: Records,
        change_log: Option<Arc<ChangeLog>>,
    ) -> Self {
        Self {
            name: RwLock::new(name.into()),
            table,
            store,
            records,
            change_log,
            table_lock: TableLock::default(),
            columns: RwLock::new(fields_of(schema, &BTreeMap::new())),
            column_names: RwLock::default(),
            shard_starts: RwLock::default(),
            dropping: Mutex::default(),
            loaded: OnceCell::new(),
            missed: Mutex::default(),
            unsaved: Mutex::default(),
        }
    }

    /// The same table, which was just created, in a store of one's own: there is nothing to load.
    pub(crate) fn just_created(self) -> Self {
        Self { loaded: OnceCell::new_with(Some(Loaded::default())), ..self }
    }

    /// Its name in error messages.
    pub(crate) fn name(&self) -> Arc<str> {
        self.name.read().clone()
    }

    /// Notes that its measurement was renamed. The caller holds the table lock exclusively.
    pub(super) fn set_name(&self, name: &str) {
        *self.name.write() = name.into();
    }

    /// Its table in the store.
    pub(crate) fn table(&self) -> TableId {
        self.table
    }

    pub(super) fn known_shard_starts(&self) -> &RwLock<Option<ShardStarts>> {
        &self.shard_starts
    }

    /// The times of shards that were dropped, or may have been, and are not forgotten yet.
    pub(crate) fn dropping(&self) -> Option<TimeRange> {
        *self.dropping.lock()
    }

    pub(crate) fn set_dropping(&self, range: Option<TimeRange>) {
        *self.dropping.lock() = range;
    }

    /// Notes that shards within a range are dropped. Returns what was noted before.
    pub(crate) fn note_dropping(&self, range: TimeRange) -> Option<TimeRange> {
        let mut dropping = self.dropping.lock();
        let around = dropping.map_or(range, |before| before.around(range));
        dropping.replace(around)
    }

    /// Its range partitions; none if it was dropped.
    pub(crate) async fn partitions(&self) -> Result<Vec<PartitionInfo>> {
        match self.store.partitions(self.table).await {
            Err(error) if error.kind() == ErrorKind::Missing && self.store.schema(self.table).is_err() => {
                Ok(Vec::new())
            }
            found => found,
        }
    }

    /// A scan of some of its rows in a snapshot; `None` if the snapshot lacks the table or a column.
    pub(crate) async fn scan(
        &self,
        snapshot: &SnapshotRef,
        request: ScanRequest,
    ) -> Result<Option<Box<dyn RowStream>>> {
        let Ok(schema) = snapshot.schema(self.table) else { return Ok(None) };
        if request.columns.iter().any(|id| schema.column(*id).is_none()) {
            return Ok(None);
        }
        snapshot.scan(request).await.map(Some)
    }

    /// Its series, which must have been loaded ([`Self::load`]).
    pub(crate) fn series(&self) -> RwLockReadGuard<'_, SeriesIndex> {
        self.loaded().series.read()
    }

    /// Which series may have points in which shard.
    pub(crate) fn presence(&self) -> &RwLock<Presence> {
        &self.loaded().presence
    }

    /// Which series were written lately.
    pub(crate) fn activity(&self) -> &RwLock<Activity> {
        &self.loaded().activity
    }

    /// Notes that rows are about to be written.
    pub(crate) fn note_rows(&self, ids: &[u32], times_ns: &[i64]) {
        let activity = self.activity();
        if !activity.read().has_all(ids) {
            activity.write().note(ids);
        }
        let presence = self.presence();
        if !presence.read().has_all(ids, times_ns) {
            presence.write().note(ids, times_ns);
        }
    }

    /// The shards of a time range, for [`Self::narrow`]; `None` if narrowing would change nothing.
    pub(crate) async fn shards_within(&self, time: TimeRange) -> Option<Vec<TimeRange>> {
        if self.series().len() < NARROWED_SERIES_MIN as usize || self.presence().read().is_empty() {
            return None;
        }
        // A table that was dropped has nothing to find.
        let partitions = self.store.partitions(self.table).await.ok()?;
        let ranges = partitions.iter().map(|partition| partition.range);
        Some(ranges.filter(|range| range.overlaps(time)).collect())
    }

    /// Removes series that have no points in the given shards, if there are so many series that searching rows of all
    /// would cost more than narrowing.
    pub(crate) fn narrow(&self, ids: &mut RoaringBitmap, shards: Option<&[TimeRange]>) {
        if let Some(shards) = shards.filter(|_| ids.len() >= NARROWED_SERIES_MIN) {
            self.presence().read().narrow(ids, shards.iter().copied());
        }
    }

    /// The lock between writers and removals.
    pub(crate) fn table_lock(&self) -> &TableLock {
        &self.table_lock
    }

    /// The generation of its series ids. They are valid while the table lock is held.
    pub(crate) fn generation(&self) -> Generation {
        Generation {
            table: self.table.0,
            removals: self.table_lock.removals(),
            renamed_tags: self.table_lock.renamed_tags(),
        }
    }

    /// The approximate memory of a field: in the schemas of the store, here, and its type per shard.
    pub(crate) const FIELD_BYTES: usize = 512;

    /// The approximate memory of the table with its fields and series, bytes. Series take none before they are loaded.
    pub(crate) fn memory_bytes(&self) -> usize {
        let of_series = |loaded: &Loaded| {
            loaded.series.read().memory_bytes()
                + loaded.idle.lock().memory_bytes()
                + loaded.activity.read().memory_bytes()
                + loaded.presence.read().memory_bytes()
        };
        let series = self.loaded.get().map_or(0, of_series);
        MEASUREMENT_BYTES + self.columns.read().len() * Self::FIELD_BYTES + series
    }

    pub(super) fn loaded(&self) -> &Loaded {
        self.loaded.get().expect("a measurement is handed out only after it was loaded")
    }

    pub(crate) fn is_loaded(&self) -> bool {
        self.loaded.get().is_some()
    }

    pub(super) fn store(&self) -> &StoreRef {
        &self.store
    }

    pub(crate) fn records(&self) -> &Records {
        &self.records
    }

    pub(super) fn unsaved(&self) -> &Mutex<Unsaved> {
        &self.unsaved
    }

    /// Key and value of the record of the next series id.
    pub(super) fn next_id_record(&self) -> (Vec<u8>, [u8; 4]) {
        (record_key(self.table, NEXT_ID, &[]), self.series().next_id().0.to_le_bytes())
    }

    /// Whether other servers give ids to its series too.
    pub(crate) fn is_shared(&self) -> bool {
        self.change_log.is_some()
    }

    /// The log of changes, if other servers use the store too.
    pub(crate) fn change_log(&self) -> Option<&ChangeLog> {
        self.change_log.as_deref()
    }

    /// Reads the series and shard types, unless they are loaded.
    pub(crate) async fn load(&self) -> Result<()> {
        if self.is_loaded() {
            return Ok(());
        }
        let Some(log) = &self.change_log else {
            let read =
                || async { Ok(self.loaded_from(Self::read(&[self]).await?.remove(0), Recent::default())) };
            return self.loaded.get_or_try_init(read).await.map(drop);
        };
        // Held until what was read is in its place: an entry that is applied in between would be lost.
        let mut paused = None;
        // Boxed, so that requests to a store of one's own carry nothing of it.
        let read = Box::pin(self.read_beside(log, &mut paused));
        let loaded = self.loaded.get_or_try_init(|| read).await.map(drop);
        drop(paused);
        loaded
    }

    /// The same for many tables. Tables with consecutive ids are read together.
    pub(crate) async fn load_all(tables: impl Iterator<Item = &Arc<Self>>) -> Result<()> {
        let mut unread: Vec<&Self> = tables.map(|own| &**own).filter(|own| !own.is_loaded()).collect();
        unread.sort_unstable_by_key(|table| table.table);
        unread.dedup_by_key(|table| table.table);
        for run in unread.chunk_by(|a, b| a.table.0 + 1 == b.table.0) {
            if run.len() == 1 || run[0].is_shared() {
                for table in run {
                    table.load().await?;
                }
                continue;
            }
            for (table, read) in run.iter().zip(Self::read(run).await?) {
                // A table that is not loaded does not change. So a concurrent load of the same table reads the same.
                if table.loaded.set(table.loaded_from(read, Recent::default())).is_err() {
                    table.load().await?;
                }
            }
        }
        Ok(())
    }

    /// Reads the records of tables with consecutive ids.
    pub(super) async fn read(run: &[&Self]) -> Result<Vec<ReadRecords>> {
        let (first, last) = (run[0], run[run.len() - 1]);
        let mut read: Vec<ReadRecords> = run.iter().map(|_| ReadRecords::default()).collect();
        let mut broken = None;
        let mut take = |key: &[u8], value: &[u8]| {
            let number = (u32::from_be_bytes(*key.first_chunk()?) - first.table.0) as usize;
            match read[number].take(key, value) {
                Some(Next::Record) => None,
                Some(Next::Key(key)) => Some(key),
                None => {
                    let name = run[number].name();
                    broken = Some(format!("series record {key:?} of measurement {name:?} is malformed"));
                    None
                }
            }
        };
        let (start, end) = (record_prefix(first.table), record_prefix(last.table));
        first.records.visit_some(&start, &end, &mut take).await?;
        if let Some(words) = broken {
            return Err(Error::new(nyala_core::ErrorKind::Corrupt, words));
        }
        Ok(read.into_iter().map(ReadRecords::finish).collect())
    }

    /// `recent`: what the log of changes still says, which comes after the records.
    pub(super) fn loaded_from(&self, read: ReadRecords, recent: Recent) -> Loaded {
        if !read.column_names.is_empty() {
            self.set_column_names(read.column_names);
        }
        let fields = present_fields(&self.columns.read(), read.types.values());
        let (mut series, hidden) = (read.series, read.hidden.hidden(&recent));
        series.remove(&hidden);
        Loaded {
            hidden: Mutex::new(hidden),
            doubted: Mutex::new(recent.doubted),
            series: RwLock::new(series),
            idle: Mutex::new(read.idle),
            shard_types: RwLock::new(read.types),
            own_types: RwLock::new(read.own_types),
            fields: RwLock::new(Arc::new(fields)),
            ..Loaded::default()
        }
    }

    /// The id of a tag set (sorted by key), and the approximate memory that it takes if it is new, bytes; or the reason
    /// why it gets no id. An idle series is reactivated.
    pub(crate) fn new_series_id(
        &self,
        tags: &[(&str, &str)],
    ) -> std::result::Result<(SeriesId, usize), String> {
        let mut series = self.loaded().series.write();
        if self.is_shared() {
            // It was registered (`series_directory`).
            return series.find(tags).map(|id| (id, 0)).ok_or_else(|| HIDDEN_MEANWHILE.to_owned());
        }
        let (id, is_new) = match series.next_id() < LAST_SERIES {
            true => series.insert(tags),
            false => (series.find(tags).ok_or_else(|| NO_MORE_IDS.to_owned())?, false),
        };
        if !is_new {
            self.reactivate(id, &series);
            return Ok((id, 0));
        }
        let record = tags_record(tags);
        let memory_bytes = record.len() + tags.len() * SERIES_TAG_BYTES;
        self.unsaved.lock().add_series(id, record.into());
        Ok((id, memory_bytes))
    }

    /// The records that a batch with points of these series needs, and those that no other batch holds.
    pub(crate) fn unsaved_records(&self, used: impl Iterator<Item = u32>) -> TakenRecords {
        let mut taken = self.unsaved.lock().take(self.table, used);
        if taken.has_removed() {
            taken.keep_next_id(self.next_id_record());
        }
        taken
    }

    /// The records are durable now.
    pub(crate) fn saved(&self, records: &TakenRecords) {
        self.unsaved.lock().saved(records);
    }

    /// Notes a new member of its group. The member's record is written with the next batch.
    pub(super) fn add_member(&self, name: &str) {
        self.unsaved.lock().add_name(member_key(self.table, name), 0);
    }

    /// Forgets a member and the types of its own fields. Their records are removed with the next batch of any writer.
    pub(super) fn forget_member(&self, name: &str) {
        let mut keys = self.take_own_types(|member, _| member == name);
        let key = member_key(self.table, name);
        let mut unsaved = self.unsaved.lock();
        unsaved.names.remove(&key);
        keys.push(key);
        unsaved.remove_keys(&RoaringBitmap::new(), keys);
    }

    /// Whether a series is known that has rows in a shard.
    pub(crate) fn has_witness(&self, shard_start_ns: i64) -> bool {
        self.loaded().witnesses.lock().contains_key(&shard_start_ns)
    }

    /// Forgets witnesses whose rows are about to be deleted.
    pub(crate) fn forget_witnesses(&self, loses_rows: impl Fn(u32) -> bool) {
        self.loaded().witnesses.lock().retain(|_, id| !loses_rows(*id));
    }

    /// Sets a series that has rows in a shard.
    pub(crate) fn set_witness(&self, shard_start_ns: i64, series: Option<u32>) {
        let mut witnesses = self.loaded().witnesses.lock();
        match series {
            Some(series) => drop(witnesses.insert(shard_start_ns, series)),
            None => drop(witnesses.remove(&shard_start_ns)),
        }
    }

    /// Removes series; their ids are not used again. Other removals that were not written yet are written with them.
    /// The caller holds the table lock exclusively.
    pub(crate) async fn remove_series(&self, ids: &RoaringBitmap) -> Result<()> {
        let mut left = ids.iter().peekable();
        loop {
            self.forget_series(&left.by_ref().take(REMOVED_AT_ONCE).collect());
            self.save_removals().await?;
            if left.peek().is_none() {
                return Ok(());
            }
        }
    }

    /// Writes that series, types of fields and other records were removed. If this fails, or the client disconnects,
    /// the next writer writes the removals.
    pub(super) async fn save_removals(&self) -> Result<()> {
        let records = self.unsaved_records(std::iter::empty());
        let operations = records.operations(&self.records);
        if !operations.is_empty() {
            self.records.write(operations).await?;
        }
        self.saved(&records);
        Ok(())
    }

    /// Writes everything that no acknowledged batch holds. The caller holds the table lock exclusively.
    pub(super) async fn save_all(&self) -> Result<()> {
        let all = self.series().all().clone();
        let records = self.unsaved_records(all.iter());
        let operations = records.operations(&self.records);
        if !operations.is_empty() {
            self.records.write(operations).await?;
        }
        self.saved(&records);
        Ok(())
    }

    fn forget_series(&self, ids: &RoaringBitmap) {
        if ids.is_empty() {
            return;
        }
        let (listed, keys) = self.listed_among(ids);
        let mut series = self.loaded().series.write();
        series.remove(ids);
        self.idle().lock().forget(ids);
        drop(series);
        self.loaded().presence.write().remove(ids);
        self.table_lock.note_removal();
        self.unsaved.lock().remove_series(ids, &listed, keys);
    }
}

/// The first id that no series gets. This id and the next one mean "none" elsewhere.
pub(crate) const LAST_SERIES: SeriesId = SeriesId(u32::MAX - 1);
const HIDDEN_MEANWHILE: &str = "it was dropped meanwhile: write it again";
pub(crate) const NO_MORE_IDS: &str =
    "it had 4 294 967 294 in its time, which is all a measurement can have; write to another";
/// A smaller number of series is not narrowed, because there is little to gain.
const NARROWED_SERIES_MIN: u64 = 1 << 6;
/// Series removed per batch. Readers of the index wait some milliseconds for it.
const REMOVED_AT_ONCE: usize = 1 << 14;

/// The most that a tag takes in the index besides its text: numbers, postings, slots of hash tables.
const SERIES_TAG_BYTES: usize = 48;
/// The approximate memory of a measurement besides its fields and series: itself, its table, and its name in both.
const MEASUREMENT_BYTES: usize = 2048;
