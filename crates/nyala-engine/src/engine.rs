//! The engine: opening and closing, tables, and the store contract.

use crate::files::catalog::{self, Catalog, CatalogState, Edit, RetiredMeta};
use crate::files::directory::{self, ROWSET_DIR, WAL_DIR};
use crate::files::framed_log::Damage;
use crate::files::fs::FsRef;
use crate::files::reserve::Reserve;
use crate::files::rowset::{Rowset, RowsetSource};
use crate::files::wal::{Progress, ReplayReport, Wal, WalOptions};
use crate::maintenance::orphans::Orphans;
use crate::maintenance::output::RowsetOutput;
use crate::maintenance::past::past_bytes;
use crate::maintenance::{Maintenance, MaintenanceThreads};
use crate::memory::history::History;
use crate::memory::publisher::VersionPublisher;
use crate::memory::version::{PartitionPast, PartitionVersion, TableVersion, Version};
use crate::options::EngineOptions;
use crate::reading::past::PastSnapshot;
use crate::reading::snapshot::EngineSnapshot;
use crate::reading::table_storage::table_storage;
use crate::rows::tombstone::{DeletedRange, Tombstone, durable_tombstones};
use crate::runtime::signal::WorkSignal;
use crate::staging::EngineStage;
use crate::stats::{Counters, EngineStats};
use crate::writing::Writer;
use crate::writing::table_locks::LockMode;
use crate::writing::write::STRING_BYTES_MAX;
use async_trait::async_trait;
use nyala_core::memory::MemoryBudget;
use nyala_core::store::{
    Alteration, Around, Atomicity, Capabilities, Comparison, Delete, Feature, Features, Freshness,
    MaintenanceTask, Moment, PartitionInfo, Predicate, RowSelection, ScanRequest, SnapshotRef, Stage, Store,
    TableStorage, Update, WriteBatch, WriteOutcome,
};
use nyala_core::{ColumnId, Error, Result, Sequence, TableId, TableSchema, TimeRange};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Shorter segments of the log would be started too often.
const SEGMENT_BYTES_MIN: u64 = 1 << 20;
/// Losses that are kept until they are accepted: an operator reads no more.
const LOSSES_MAX: usize = 100;

/// Up to so many files are unlinked by the thread that drops their tables. More are unlinked by a thread of their own,
/// because some disks take milliseconds for each, and others may wait for the dropping thread.
const UNLINKED_AT_ONCE: usize = 64;

/// The embedded store.
pub struct Engine {
    pub(crate) versions: Arc<VersionPublisher>,
    pub(crate) writer: Arc<Writer>,
    pub(crate) maintenance: Arc<Maintenance>,
    threads: Mutex<MaintenanceThreads>,
    budget: Arc<MemoryBudget>,
    counters: Arc<Counters>,
    /// What the replay of the log found when the engine was opened, and which files of rowsets are missing.
    pub recovery: ReplayReport,
    /// Files of rowsets.
    missing: Vec<String>,
}

impl Engine {
    /// Opens the store of a directory, or makes one; replays what the log has beyond the rowsets. Blocks
    /// until it is ready.
    pub fn open(options: EngineOptions) -> Result<Self> {
        Self::open_watched(options, &mut |_| {})
    }

    /// Like [`Engine::open`]; calls `watch` with the bytes of records replayed so far.
    pub fn open_watched(options: EngineOptions, watch: &mut dyn FnMut(u64)) -> Result<Self> {
        let (fs, dir) = (options.fs.clone(), options.data_dir.clone());
        directory::check_manifest(&fs, &dir)?;
        fs.create_dirs(&dir)?;
        let lock = fs.lock_dir(&dir)?;
        let (state, revision) = catalog::load(&fs, &dir)?.unwrap_or_default();
        directory::check_parts(&fs, &dir, &state, revision)?;
        for part in [ROWSET_DIR, WAL_DIR] {
            fs.create_dir(&dir.join(part))?;
        }
        let (rowset_dir, orphans) =
            (dir.join(ROWSET_DIR), Orphans::new(fs.clone(), &dir, options.clock.clone()));
        let (next_rowset, missing) = match_files(&fs, &rowset_dir, &orphans, &state)?;
        let budget = options.memory.clone();
        let source = RowsetSource::new(fs.clone(), rowset_dir, budget.clone());
        let cached = Arc::downgrade(&source);
        budget.reclaim_by(move |bytes| {
            if let Some(source) = cached.upgrade() {
                source.cache.give_back(bytes);
            }
        });
        let version = version_of(&state, &source);
        let (flushed, known) = (state.flushed_sequence, state.last_sequence());
        let progress = Arc::new(Progress::default());
        let reserve = Reserve::open(fs.clone(), &dir);
        // Names the parts of the directory durably, too.
        let catalog = Catalog::begin(fs.clone(), &dir, state, revision, progress.clone())?;
        reserve.refill(catalog.log.length);
        let wal_options = WalOptions {
            sync: options.wal_sync,
            // Segments are given up whole.
            segment_bytes: options.wal_segment_bytes.min((options.wal_bytes_max / 4).max(SEGMENT_BYTES_MIN)),
            kept_bytes: options.wal_bytes_max,
            queue_bytes: budget.limit_bytes() / 8,
            first_sequence: known + 1,
            progress,
        };
        let (signal, counters) = (Arc::<WorkSignal>::default(), Arc::<Counters>::default());
        let (clock, times) = (options.clock.clone(), &catalog.state.times);
        let history = match options.leaves_past {
            true => (!times.is_empty()).then(|| History::left(clock, times.iter(), &budget)),
            false => (!options.history.is_zero())
                .then(|| History::new(clock, options.history, times.iter(), &budget)),
        };
        let history = history.map(Arc::new);
        let versions = Arc::new(VersionPublisher::new(catalog, version, &budget, options.write_hook.clone()));
        // Replay needs a writer that applies records, and the writer needs the log that replay opens: it gets the log
        // right after.
        let writer = Arc::new(Writer::new(&options, &versions, reserve, &signal, &counters, lock, history)?);
        let output = RowsetOutput::new(source, versions.clone(), next_rowset, &options);
        let maintenance = Arc::new(Maintenance::new(options, &writer, output, orphans, &counters, &signal));
        let mut last_sequence = flushed;
        let (wal, mut recovery) =
            Wal::open(fs, &dir.join(WAL_DIR), wal_options, flushed + 1, &mut |record| {
                last_sequence = last_sequence.max(record.sequence);
                let length = record.payload.len() as u64;
                watch(writer.log.add_replayed(length));
                let context = |error: Error| error.context(format!("log record {}", record.sequence));
                writer.replay(record.sequence, &record.payload).map_err(context)
            })?;
        let cut_off = directory::missing_end(&dir, &versions.catalog.lock().state, recovery.last_sequence);
        cut_off.into_iter().for_each(|damage| recovery.add_damage(damage));
        remember(&versions.catalog, &recovery.damage);
        let words = missing.iter().take(LOSSES_MAX).map(Damage::to_string).collect();
        missing.into_iter().for_each(|damage| recovery.add_damage(damage));
        let entry = versions.watermark.begin(last_sequence)?;
        entry.finish(Some(last_sequence.max(wal.next_sequence() - 1)));
        writer.log.set_wal(wal);
        maintenance.begin_past()?;
        let threads = Mutex::new(MaintenanceThreads::start(&maintenance)?);
        Ok(Self { versions, writer, maintenance, threads, budget, counters, recovery, missing: words })
    }

    /// Acknowledged data that is lost and not accepted as lost, from this and from earlier starts.
    pub fn losses(&self) -> Vec<String> {
        let mut losses = self.versions.catalog.lock().state.losses.clone();
        losses.extend(self.missing.iter().cloned());
        losses
    }

    /// Starts a new log. Everything that was in the old one is in rowsets.
    pub(crate) fn renew_log(&self) -> Result<()> {
        let wal = self.writer.log.wal();
        wal.reopen()?;
        wal.truncate_before(self.versions.flushed_sequence() + 1)?;
        self.versions.catalog.lock().commit(vec![Edit::SetLosses(Vec::new())])
    }

    /// Writes everything in memory to rowsets; false if there was nothing. Blocks: not for a thread that
    /// runs futures of writers.
    pub fn flush(&self) -> Result<bool> {
        self.maintenance.flush()
    }

    /// Merges the rowsets of every partition into one; false if there was nothing to merge. Blocks.
    pub fn compact(&self) -> Result<bool> {
        self.maintenance.compact_all()
    }

    /// Forgets what lies further in the past than is kept. The background threads do it, too. Blocks.
    pub fn forget_past(&self) -> Result<()> {
        self.maintenance.forget_past()
    }

    /// Flushes and ends the background threads. Writes after this are accepted, but not flushed.
    pub fn close(&self) -> Result<()> {
        self.threads.lock().stop();
        self.maintenance.flush()?;
        self.writer.log.wal().sync()
    }

    /// Work that failed when it was last tried, by its name, and why.
    pub fn failures(&self) -> Vec<(&'static str, String)> {
        let wal = self.writer.log.wal();
        let failures = [
            ("writes", self.check_writable().err().map(|error| error.to_string())),
            ("log", wal.failure().or_else(|| Some(self.writer.reserve.check().err()?.to_string()))),
            ("flush", self.counters.flush_failure.get()),
            ("catalog", self.versions.manifest_health.last_failure.get()),
            (
                "compaction",
                self.counters.compaction_failure.get().or_else(|| self.versions.current().set_aside()),
            ),
        ];
        failures.into_iter().filter_map(|(name, failure)| Some((name, failure?))).collect()
    }

    /// Retries the log and the manifest after a failure, so that health is known before the next write. Flushes and
    /// compactions are retried by themselves. Blocks.
    pub fn retry_failed(&self) {
        let wal = self.writer.log.wal();
        // The outcome is recorded by the log and the catalog.
        if wal.failure().is_some() {
            let _ = wal.reopen();
        }
        if self.versions.manifest_health.last_failure.get().is_some() {
            self.versions.catalog.lock().settle();
        }
    }

    /// A snapshot of everything that was acknowledged.
    pub fn latest(&self) -> SnapshotRef {
        Arc::new(EngineSnapshot::latest(&self.versions, &self.budget))
    }

    /// Counters and sizes, for metrics.
    pub fn stats(&self) -> EngineStats {
        let version = self.versions.current();
        let partitions = || version.tables.values().flat_map(|table| &table.partitions);
        let metas = || partitions().flat_map(|partition| &partition.rowsets).map(|rowset| &rowset.meta);
        let memtables = || partitions().flat_map(|partition| partition.memtables());
        let cache = &self.maintenance.output.source.cache;
        let (cache_hits, cache_misses) = cache.counts();
        let (filter_lookups, filter_rejections) = cache.filter_counts();
        EngineStats {
            cache_hits,
            cache_misses,
            filter_lookups,
            filter_rejections,
            rowsets: metas().count() as u64,
            rowset_bytes: metas().map(|meta| meta.length_bytes).sum(),
            past_bytes: past_bytes(&version),
            rowset_rows: metas().map(|meta| meta.rows).sum(),
            tombstones: version.tables.values().map(|table| table.tombstones.len() as u64).sum(),
            memtable_rows: memtables().map(|memtable| memtable.rows()).sum(),
            watermark: self.versions.watermark.get(),
            flushed_sequence: self.versions.flushed_sequence(),
            catalog_failures: self.versions.manifest_health.failures.load(Ordering::Relaxed),
            wal: Some(self.writer.log.wal().stats()),
            ..self.counters.snapshot()
        }
    }

    /// Whether batches are accepted, as far as it is known before one comes: an error says why not.
    pub fn check_writable(&self) -> Result<()> {
        self.versions.watermark.check()
    }

    /// Waits until readers see a sequence. Invalid if nothing was written under it.
    async fn reached(&self, sequence: Sequence) -> Result<()> {
        let next = self.writer.log.wal().next_sequence();
        if sequence.0 >= next {
            return Err(Error::invalid(format!(
                "nothing was written under sequence {sequence} yet, {next} is next"
            )));
        }
        self.versions.watermark.reached(sequence.0).await
    }

    /// Refuses to forbid NULL in a column that has one. The caller holds the table exclusively.
    async fn check_no_nulls(&self, table: TableId, alterations: &[Alteration]) -> Result<()> {
        for alteration in alterations {
            let Alteration::SetNullable(id, false) = alteration else { continue };
            let mut request = ScanRequest::by_key(table, RowSelection::All, Vec::new());
            // One that the same call adds is NULL in every row.
            if self.schema(table)?.column(*id).is_some() {
                request.predicates = vec![Predicate { column: *id, comparison: Comparison::IsNull }];
            }
            request.limit = Some(1);
            if self.latest().scan(request).await?.next().await?.is_some() {
                let name = self.schema(table)?.shown_name();
                return Err(Error::conflict(format!("table {name}: rows of column {id} are NULL")));
            }
        }
        Ok(())
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.threads.lock().stop();
    }
}

/// Compares the files of rowsets with what the manifest names: the next number for a rowset, and what is missing.
fn match_files(
    fs: &FsRef,
    rowset_dir: &Path,
    orphans: &Orphans,
    state: &CatalogState,
) -> Result<(u64, Vec<Damage>)> {
    let present: HashSet<String> = fs.list(rowset_dir)?.into_iter().map(|entry| entry.name).collect();
    let (mut named, mut missing) = (HashSet::new(), Vec::new());
    for table in state.tables.values() {
        for meta in table.rowsets.values() {
            if !present.contains(&meta.file_name()) {
                let (file, name) = (rowset_dir.join(meta.file_name()), table.schema.shown_name());
                let message = format!("the file is missing, with {} rows of table {name}", meta.rows);
                missing.push(Damage { file, offset: 0, message });
            }
            named.insert(meta.file_name());
        }
        for meta in table.past_metas() {
            if !present.contains(&meta.file_name()) {
                let file = rowset_dir.join(meta.file_name());
                let message =
                    format!("the file is missing, with the past of table {}", table.schema.shown_name());
                missing.push(Damage { file, offset: 0, message });
            }
            named.insert(meta.file_name());
        }
    }
    Ok((orphans.set_aside(rowset_dir, &named)?.max(state.next_rowset), missing))
}

/// Writes down what the log has lost: the segment that shows it is given up before long.
fn remember(catalog: &Mutex<Catalog>, damage: &[Damage]) {
    let mut catalog = catalog.lock();
    let mut losses = catalog.state.losses.clone();
    for loss in damage.iter().map(Damage::to_string) {
        if losses.len() < LOSSES_MAX && !losses.contains(&loss) {
            losses.push(loss);
        }
    }
    if losses == catalog.state.losses {
        return;
    }
    if let Err(error) = catalog.commit(vec![Edit::SetLosses(losses.clone())]) {
        // It is in the next checkpoint.
        tracing::error!(%error, "what the log has lost is not written down yet");
        catalog.state.losses = losses;
    }
}

fn version_of(state: &CatalogState, source: &Arc<RowsetSource>) -> Version {
    let mut version = Version { past_from: state.past_from, ..Version::default() };
    for (id, table) in state.tables.iter() {
        let mut rowsets_of: HashMap<u64, Vec<Arc<Rowset>>> = HashMap::new();
        for meta in table.rowsets.values() {
            let rowset = Rowset::new(meta.clone(), source.clone());
            rowsets_of.entry(meta.partition).or_default().push(rowset);
        }
        let mut pasts: HashMap<u64, PartitionPast> = HashMap::new();
        for RetiredMeta { meta, until_sequence } in table.retired.values() {
            let rowset = Rowset::new(meta.clone(), source.clone());
            pasts.entry(meta.partition).or_default().retired.push((rowset, *until_sequence));
        }
        for meta in table.versions.values() {
            let rowset = Rowset::new(meta.clone(), source.clone());
            pasts.entry(meta.partition).or_default().versions.push(rowset);
        }
        let mut partitions: Vec<_> = table
            .partitions
            .iter()
            .map(|(partition, range)| {
                let rowsets = rowsets_of.remove(&partition).unwrap_or_default();
                let past = pasts.remove(&partition).unwrap_or_default();
                Arc::new(PartitionVersion::new(partition, *range).with_rowsets(rowsets, &[]).with_past(past))
            })
            .collect();
        partitions.sort_by_key(|partition| partition.range.start_ns);
        let tombstones = table.tombstones.clone();
        tombstones.iter().for_each(|tombstone| tombstone.charge_to(&source.budget));
        let empty = TableVersion::new(*id, table.schema.clone());
        version.put_table(TableVersion { partitions, tombstones, ..empty });
    }
    version
}

/// The edits and the version after schemas of tables were changed, and the schemas then.
fn altered(
    catalog: &Catalog,
    version: &Version,
    changes: Vec<(TableId, Vec<Alteration>)>,
) -> Result<(Vec<Edit>, Version, Vec<Arc<TableSchema>>)> {
    let (mut edits, mut altered, mut answers) = (Vec::new(), version.clone(), Vec::new());
    let mut dropped: BTreeMap<TableId, Vec<ColumnId>> = BTreeMap::new();
    // Names that these changes release (false) and take (true).
    let mut names: HashMap<String, bool> = HashMap::new();
    for (id, alterations) in changes {
        let mut table = TableVersion::clone(altered.table(id)?);
        let mut schema = TableSchema::clone(&table.schema);
        let unsuited = alterations.iter().filter(|each| !each.suits_staged_rows()).count();
        table.alterations += unsuited as u64;
        let known = || catalog.state.tables.get(&id).map(|table| table.dropped_columns.clone());
        let dropped_columns = dropped.entry(id).or_insert_with(|| known().unwrap_or_default());
        for alteration in &alterations {
            if let Alteration::DropColumn(id) = alteration {
                dropped_columns.push(*id);
            }
        }
        if alterations.iter().any(|each| matches!(each, Alteration::Rename(_))) {
            // Each name is free as soon as it was given up.
            for alteration in alterations {
                let old = schema.name.clone();
                schema
                    .alter([alteration], |name| names.get(name).copied().unwrap_or(catalog.is_taken(name)))?;
                names.insert(old, false);
                names.insert(schema.name.clone(), true);
            }
        } else {
            schema.alter(alterations, |name| catalog.is_taken(name))?;
        }
        table.schema = Arc::new(schema);
        answers.push(table.schema.clone());
        let (schema, dropped_columns) = (table.schema.clone(), dropped_columns.clone());
        edits.push(Edit::PutTable { id, schema, dropped_columns });
        altered.put_table(table);
    }
    Ok((edits, altered, answers))
}

#[async_trait]
impl Store for Engine {
    fn capabilities(&self) -> Capabilities {
        let missing = [Feature::KeyRanges, Feature::AddedDefaults, Feature::WiderTypes, Feature::ChangeFeed];
        let features = missing.into_iter().fold(Features::ALL, Features::without);
        Capabilities {
            atomicity: Atomicity::Batch,
            features: match &self.writer.history {
                Some(_) => features,
                None => features.without(Feature::History),
            },
            is_shared: false,
            columns_max: 1 << 16,
            cell_bytes_max: STRING_BYTES_MAX,
            key_bytes_max: STRING_BYTES_MAX,
        }
    }

    fn tables(&self) -> Vec<(TableId, Arc<TableSchema>)> {
        let version = self.versions.current();
        version.tables.values().map(|table| (table.id, table.schema.clone())).collect()
    }

    fn schema(&self, table: TableId) -> Result<Arc<TableSchema>> {
        Ok(self.versions.current().table(table)?.schema.clone())
    }

    async fn create_tables(&self, schemas: Vec<TableSchema>) -> Result<Vec<TableId>> {
        schemas.iter().try_for_each(TableSchema::validate)?;
        schemas.iter().try_for_each(|schema| self.capabilities().need_for(schema))?;
        self.writer.reserve.make_room(0);
        self.versions.change_tables(|catalog, version| {
            let (mut edits, mut changed, mut ids) = (Vec::new(), version.clone(), Vec::new());
            let mut given: HashSet<String> = HashSet::new();
            for (id, schema) in (catalog.state.next_table..).map(TableId).zip(schemas) {
                if catalog.is_taken(&schema.name) || !given.insert(schema.name.clone()) {
                    return Err(Error::conflict(format!("table {} exists", schema.shown_name())));
                }
                let schema = Arc::new(schema);
                edits.push(Edit::PutTable { id, schema: schema.clone(), dropped_columns: Vec::new() });
                changed.put_table(TableVersion::new(id, schema));
                ids.push(id);
            }
            Ok((edits, changed, ids))
        })
    }

    async fn alter_tables(&self, changes: Vec<(TableId, Vec<Alteration>)>) -> Result<Vec<Arc<TableSchema>>> {
        let mut needed =
            changes.iter().flat_map(|(_, alterations)| alterations).filter_map(Alteration::feature);
        needed.try_for_each(|feature| self.capabilities().need(feature))?;
        let is_added = |alteration: &Alteration| {
            matches!(alteration, Alteration::AddColumn(_) | Alteration::EnsureColumn(..))
        };
        let only_adds = changes.iter().flat_map(|(_, alterations)| alterations).all(is_added);
        let alone = || changes.iter().map(|(table, _)| (*table, LockMode::Exclusive)).collect();
        let _alone = match only_adds {
            true => None,
            false => Some(self.writer.lock_tables(alone()).await?),
        };
        let forbids_null = |alteration: &Alteration| matches!(alteration, Alteration::SetNullable(_, false));
        if changes.iter().flat_map(|(_, alterations)| alterations).any(forbids_null) {
            altered(&self.versions.catalog.lock(), &self.versions.current(), changes.clone())?;
            for (table, alterations) in &changes {
                self.check_no_nulls(*table, alterations).await?;
            }
            // The rows that were looked at must not be lost when the change is not.
            self.writer.log.wal().sync()?;
        }
        self.writer.reserve.make_room(0);
        self.versions.change_tables(|catalog, version| altered(catalog, version, changes))
    }

    async fn drop_tables(&self, tables: Vec<TableId>) -> Result<()> {
        self.versions.watermark.check()?;
        self.writer.reserve.make_room(0);
        let dropped = self.versions.change_tables(|_, version| {
            let mut changed = version.clone();
            let remove =
                |id: &TableId| changed.tables.remove(id).ok_or_else(|| Error::missing(format!("table {id}")));
            let dropped = tables.iter().map(remove).collect::<Result<Vec<_>>>()?;
            Ok((tables.iter().copied().map(Edit::DropTable).collect(), changed, dropped))
        })?;
        let rowsets = || {
            let partitions = dropped.iter().flat_map(|table| &table.partitions);
            partitions.flat_map(|partition| partition.files())
        };
        rowsets().for_each(|rowset| rowset.set_obsolete());
        if rowsets().count() > UNLINKED_AT_ONCE {
            // If no thread can be started, they are unlinked here.
            let _ = std::thread::Builder::new().name("nyala-unlink".to_owned()).spawn(move || drop(dropped));
        }
        Ok(())
    }

    async fn partitions(&self, table: TableId) -> Result<Vec<PartitionInfo>> {
        let version = self.versions.current();
        Ok(version.table(table)?.partitions.iter().map(|partition| partition.info()).collect())
    }

    async fn drop_partitions(&self, table: TableId, range: TimeRange) -> Result<Vec<PartitionInfo>> {
        let _alone = self.writer.lock_tables(vec![(table, LockMode::Exclusive)]).await?;
        self.writer.reserve.make_room(0);
        let dropped = self.versions.change_tables(|catalog, version| {
            let mut changed = TableVersion::clone(version.table(table)?);
            let (dropped, kept): (Vec<_>, Vec<_>) =
                changed.partitions.into_iter().partition(|partition| range.covers(partition.range));
            changed.partitions = kept;
            if dropped.is_empty() {
                return Ok((Vec::new(), version.clone(), dropped));
            }
            let mut edits: Vec<_> =
                dropped.iter().map(|partition| Edit::DropPartition { table, id: partition.id }).collect();
            // The log may still have their rows; replay must not bring them back.
            let gone = dropped.iter().map(|partition| {
                let range = DeletedRange::Times(partition.range);
                Tombstone::charged(self.versions.watermark.get(), range, &self.budget)
            });
            changed.tombstones.extend(gone);
            changed.tombstones.sort_by_key(|tombstone| tombstone.sequence);
            let flushed = catalog.state.flushed_sequence;
            let tombstones = durable_tombstones(&changed.all_tombstones(), flushed);
            edits.extend(catalog.state.tombstone_edits(table, &tombstones));
            Ok((edits, version.with_table(changed), dropped))
        })?;
        dropped.iter().flat_map(|partition| partition.files()).for_each(|rowset| rowset.set_obsolete());
        Ok(dropped.iter().map(|partition| partition.info()).collect())
    }

    async fn write(&self, batch: WriteBatch) -> Result<WriteOutcome> {
        self.writer.write(batch).await
    }

    async fn delete(&self, delete: Delete) -> Result<Sequence> {
        self.writer.delete(delete).await
    }

    async fn update(&self, update: Update) -> Result<WriteOutcome> {
        self.writer.update(update).await
    }

    async fn table_storage(&self, table: TableId) -> Result<TableStorage> {
        table_storage(self.versions.current().table(table)?)
    }

    fn maintenance(&self) -> Result<Vec<MaintenanceTask>> {
        Ok(self.maintenance.tasks())
    }

    async fn around(&self, sequence: Sequence) -> Result<Around> {
        if self.writer.history.is_none() {
            return Err(Feature::History.refused());
        }
        self.reached(sequence).await?;
        let (before, after) = PastSnapshot::around(self.versions.current(), sequence.0, &self.budget)?;
        Ok(Around { before: Arc::new(before), after: Arc::new(after) })
    }

    fn past_begin(&self) -> Option<Moment> {
        let time_ns = self.writer.history.as_ref()?.first_ns()?;
        Some(Moment { sequence: Sequence(self.versions.current().past_from), time_ns })
    }

    async fn stage(&self) -> Result<Box<dyn Stage>> {
        self.versions.watermark.check()?;
        Ok(Box::new(EngineStage::open(&self.maintenance)))
    }

    async fn snapshot(&self, freshness: Freshness) -> Result<SnapshotRef> {
        match freshness {
            Freshness::Latest => {}
            Freshness::AtLeast(sequence) => self.reached(sequence).await?,
            Freshness::Past(time_ns) => {
                let history = self.writer.history.as_ref().ok_or_else(History::not_kept)?;
                let sequence = history.sequence_at(time_ns)?;
                self.versions.watermark.reached(sequence).await?;
                return Ok(Arc::new(PastSnapshot::new(self.versions.current(), sequence, &self.budget)?));
            }
        }
        Ok(self.latest())
    }
}
