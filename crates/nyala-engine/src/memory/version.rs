//! What readers see: tables, partitions, memtables and rowsets at one moment.
//!
//! A version never changes, except that rows are added to its active memtables; readers leave out rows after their
//! sequence. So a snapshot is a version and a sequence. A snapshot keeps alive exactly what it needs: the file of an
//! obsolete rowset is removed with the last version that names it.

use crate::collections::table_map::TableMap;
use crate::files::rowset::Rowset;
use crate::memory::key_layers::KeyLayers;
use crate::memory::memtable::Memtable;
use crate::rows::tombstone::{DeletedRange, Tombstone};
use nyala_core::memory::MemoryBudget;
use nyala_core::store::PartitionInfo;
use nyala_core::time::partition_time;
use nyala_core::{Error, ErrorKind, Result, TableId, TableSchema, TimeRange};
use std::sync::{Arc, OnceLock};

/// All tables.
#[derive(Clone, Default)]
pub(crate) struct Version {
    pub(crate) tables: TableMap<TableVersion>,
    /// What was before this sequence is not known any more.
    pub(crate) past_from: u64,
}

/// A table.
#[derive(Clone)]
pub(crate) struct TableVersion {
    pub(crate) id: TableId,
    pub(crate) schema: Arc<TableSchema>,
    /// In order of time, not overlapping.
    pub(crate) partitions: Vec<Arc<PartitionVersion>>,
    /// By sequence.
    pub(crate) tombstones: Vec<Arc<Tombstone>>,
    /// Those that hide nothing any more, for reading the past.
    pub(crate) past_tombstones: Vec<Arc<Tombstone>>,
    /// See `writing/table_locks.rs`.
    pub(crate) lock: Arc<tokio::sync::RwLock<()>>,
    /// How many alterations there were since the start of the engine after which staged rows are no longer valid.
    pub(crate) alterations: u64,
}

/// A partition.
pub(crate) struct PartitionVersion {
    pub(crate) id: u64,
    pub(crate) range: TimeRange,
    /// From oldest to newest. Those that have keys in common have disjoint sequences (see
    /// `maintenance/compaction/pick.rs`), so for each key this is the order of sequences.
    pub(crate) rowsets: Vec<Arc<Rowset>>,
    /// The same by key, once they were asked for; versions of the partition with the same rowsets share them.
    key_layers: Arc<OnceLock<Arc<KeyLayers>>>,
    /// Memtables being flushed, from oldest to newest, newer than all rowsets.
    pub(crate) frozen: Vec<Arc<Memtable>>,
    /// The memtable that rows are added to, made with the first row. Versions of the partition share it until it is
    /// frozen: a writer may make it in a version that is replaced at the same moment.
    active: Arc<OnceLock<Arc<Memtable>>>,
    /// What is kept for reading the past.
    pub(crate) past: Arc<PartitionPast>,
}

/// Files that a partition keeps for reading the past.
#[derive(Default, Clone)]
pub(crate) struct PartitionPast {
    /// Rowsets that others were made of, which stand for their rows from the given sequence on.
    pub(crate) retired: Vec<(Arc<Rowset>, u64)>,
    /// See [`RowsetKind::Versions`](crate::files::rowset::RowsetKind).
    pub(crate) versions: Vec<Arc<Rowset>>,
}

impl PartitionVersion {
    pub(crate) fn new(id: u64, range: TimeRange) -> Self {
        let (key_layers, active, past) = Default::default();
        Self { id, range, rowsets: Vec::new(), key_layers, frozen: Vec::new(), active, past }
    }

    /// The rowsets by key. For tables that are not keyed by series.
    pub(crate) fn key_layers(&self) -> Result<&Arc<KeyLayers>> {
        if self.key_layers.get().is_none() {
            // Another thread finds the same.
            let _ = self.key_layers.set(Arc::new(KeyLayers::of(&self.rowsets)?));
        }
        Ok(self.key_layers.get().expect("was set"))
    }

    /// The memtable to add rows to. When one has to be made, `base_sequence` returns a lower bound of all sequences
    /// that are still to be added. It is called that late because a partition may have had no rows for long.
    pub(crate) fn active(
        &self,
        schema: &TableSchema,
        budget: &Arc<MemoryBudget>,
        base_sequence: impl FnOnce() -> u64,
    ) -> &Arc<Memtable> {
        self.active_or(|| Memtable::new(schema, base_sequence(), budget))
    }

    /// The memtable to add rows to, or one that is made now.
    pub(crate) fn active_or(&self, make: impl FnOnce() -> Memtable) -> &Arc<Memtable> {
        self.active.get_or_init(|| Arc::new(make()))
    }

    /// The memtable that rows are added to, if it was made.
    pub(crate) fn active_if_made(&self) -> Option<&Arc<Memtable>> {
        self.active.get()
    }

    /// The partition as a stage sees it that was opened at a sequence: its active memtable is the stage's own.
    pub(crate) fn for_stage(&self, sequence: u64, budget: &Arc<MemoryBudget>) -> Self {
        let Self { id, range, rowsets, key_layers, .. } = self;
        let frozen = self.memtables().map(|memtable| Arc::new(Memtable::up_to(memtable, sequence, budget)));
        let (id, range, frozen) = (*id, *range, frozen.collect());
        let (rowsets, key_layers) = (rowsets.clone(), key_layers.clone());
        Self { id, range, rowsets, key_layers, frozen, active: Arc::default(), past: Arc::default() }
    }

    /// The same without the active memtable: later rows go to a new one.
    fn without_active(&self) -> Self {
        Self { frozen: self.frozen.clone(), ..self.rotated() }
    }

    /// Whether the active memtable has no room for much more: see [`Memtable::is_full`].
    pub(crate) fn is_full(&self, sequence: u64) -> bool {
        self.active.get().is_some_and(|memtable| memtable.is_full(sequence))
    }

    /// All memtables, from oldest to newest.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        self.frozen.iter().chain(self.active.get())
    }

    /// The same with the active memtable frozen; later rows go to a new one.
    pub(crate) fn rotated(&self) -> Self {
        let mut frozen = self.frozen.clone();
        frozen.extend(self.active.get().filter(|memtable| !memtable.is_empty()).cloned());
        let (rowsets, key_layers) = (self.rowsets.clone(), self.key_layers.clone());
        let (active, past) = (Arc::default(), self.past.clone());
        Self { id: self.id, range: self.range, rowsets, key_layers, frozen, active, past }
    }

    /// Whether the active memtable has rows.
    pub(crate) fn has_active_rows(&self) -> bool {
        self.active.get().is_some_and(|memtable| !memtable.is_empty())
    }

    /// The same with other rowsets, and without the frozen memtables that `flushed` names.
    pub(crate) fn with_rowsets(&self, mut rowsets: Vec<Arc<Rowset>>, flushed: &[Arc<Memtable>]) -> Self {
        rowsets.sort_by_key(|rowset| (rowset.meta.min_sequence, rowset.meta.max_sequence, rowset.meta.id));
        let is_flushed = |memtable: &Arc<Memtable>| flushed.iter().any(|other| Arc::ptr_eq(other, memtable));
        Self {
            id: self.id,
            range: self.range,
            rowsets,
            key_layers: Arc::default(),
            frozen: self.frozen.iter().filter(|memtable| !is_flushed(memtable)).cloned().collect(),
            active: self.active.clone(),
            past: self.past.clone(),
        }
    }

    /// The same with these rowsets, and nothing in memory.
    pub(crate) fn on_disk(&self, rowsets: Vec<Arc<Rowset>>) -> Self {
        Self::new(self.id, self.range).with_rowsets(rowsets, &[])
    }

    /// The same with another past.
    pub(crate) fn with_past(mut self, past: PartitionPast) -> Self {
        self.past = Arc::new(past);
        self
    }

    /// Every rowset that has a file.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Arc<Rowset>> {
        let PartitionPast { retired, versions } = &*self.past;
        self.rowsets.iter().chain(retired.iter().map(|(rowset, _)| rowset)).chain(versions)
    }

    /// The rowsets that stood for their rows as a whole after a sequence.
    pub(crate) fn rowsets_at(&self, sequence: u64) -> Vec<Arc<Rowset>> {
        let retired =
            self.past.retired.iter().filter(|(_, until)| sequence < *until).map(|(rowset, _)| rowset);
        let all = self.rowsets.iter().chain(retired);
        all.filter(|rowset| rowset.meta.whole_from() <= sequence).cloned().collect()
    }

    /// The rowsets of flushes, and their versions, of which some rows were written up to a sequence and others after it.
    pub(crate) fn flushed_around(&self, sequence: u64) -> (Vec<Arc<Rowset>>, Vec<Arc<Rowset>>) {
        let is_around = |rowset: &&Arc<Rowset>| {
            let meta = &rowset.meta;
            meta.since_sequence == 0 && meta.min_sequence <= sequence && sequence < meta.max_sequence
        };
        let retired = self.past.retired.iter().map(|(rowset, _)| rowset);
        let rowsets = self.rowsets.iter().chain(retired).filter(is_around).cloned().collect();
        (rowsets, self.past.versions.iter().filter(is_around).cloned().collect())
    }

    /// The partition after a sequence: these rowsets, and in memory `rebuilt` before what is still in memory.
    pub(crate) fn of_past(&self, sequence: u64, rebuilt: Option<Arc<Memtable>>) -> Self {
        let Self { id, range, active, .. } = self;
        let frozen = rebuilt.into_iter().chain(self.frozen.iter().cloned()).collect();
        Self { frozen, active: active.clone(), ..Self::new(*id, *range) }
            .with_rowsets(self.rowsets_at(sequence), &[])
    }

    /// Marks those of some rowsets as unreadable that an error names.
    pub(crate) fn set_unreadable(&self, ids: &[u64], error: &Error) {
        let place = error.place().map(|place| &place.file);
        // A disk that fails is no reason to give all of them up.
        let is_of_file = error.kind() == ErrorKind::Io && place.is_some();
        if !is_of_file && !matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Missing) {
            return;
        }
        let tried = self.rowsets.iter().filter(|rowset| ids.contains(&rowset.meta.id));
        let named = tried.filter(|rowset| place.is_none_or(|file| *file == rowset.path()));
        named.for_each(|rowset| rowset.set_unreadable());
    }

    pub(crate) fn info(&self) -> PartitionInfo {
        let rowsets = || self.rowsets.iter().map(|rowset| &rowset.meta);
        PartitionInfo {
            id: self.id,
            range: self.range,
            keys: None,
            rows: Some(
                rowsets().map(|meta| meta.rows).sum::<u64>()
                    + self.memtables().map(|memtable| memtable.rows()).sum::<u64>(),
            ),
            disk_bytes: rowsets().map(|meta| meta.length_bytes).sum(),
            memory_bytes: self.memtables().map(|memtable| memtable.memory_bytes()).sum(),
        }
    }

    /// Times between which all rows of a series-keyed table lie.
    pub(crate) fn time_bounds(&self) -> Option<TimeRange> {
        let rowsets =
            self.rowsets.iter().filter(|rowset| rowset.meta.rows > 0).map(|rowset| rowset.meta.time());
        let memtables = self.memtables().filter_map(|memtable| memtable.time_bounds());
        rowsets.chain(memtables).reduce(TimeRange::around)
    }
}

impl TableVersion {
    /// A table without rows.
    pub(crate) fn new(id: TableId, schema: Arc<TableSchema>) -> Self {
        let (partitions, tombstones, past_tombstones, lock, alterations) = Default::default();
        Self { id, schema, partitions, tombstones, past_tombstones, lock, alterations }
    }

    /// The table as a stage sees it that was opened at a sequence.
    pub(crate) fn for_stage(&self, sequence: u64, budget: &Arc<MemoryBudget>) -> Self {
        let of_stage = |partition: &Arc<PartitionVersion>| Arc::new(partition.for_stage(sequence, budget));
        // What remains of dropped partitions is for the replay of the log.
        let is_seen = |tombstone: &&Arc<Tombstone>| {
            tombstone.sequence <= sequence && !matches!(tombstone.range, DeletedRange::Times(_))
        };
        Self {
            partitions: self.partitions.iter().map(of_stage).collect(),
            tombstones: self.tombstones.iter().filter(is_seen).cloned().collect(),
            past_tombstones: Vec::new(),
            ..self.clone()
        }
    }

    /// The table without what is in active memtables.
    pub(crate) fn without_active(&self) -> Self {
        let without = |partition: &Arc<PartitionVersion>| match partition.active_if_made() {
            Some(_) => Arc::new(partition.without_active()),
            None => partition.clone(),
        };
        Self { partitions: self.partitions.iter().map(without).collect(), ..self.clone() }
    }

    /// The partition that holds a time, by position.
    pub(crate) fn partition_at(&self, time_ns: i64) -> Option<usize> {
        let time_ns = partition_time(time_ns);
        let after = self.partitions.partition_point(|partition| partition.range.start_ns <= time_ns);
        let position = after.checked_sub(1)?;
        self.partitions[position].range.contains(time_ns).then_some(position)
    }

    /// The range of the partition to make for a time that none holds: as the schema says, without what
    /// its neighbours hold already.
    pub(crate) fn new_partition_range(&self, time_ns: i64) -> TimeRange {
        let time_ns = partition_time(time_ns);
        let after = self.partitions.partition_point(|partition| partition.range.end_ns <= time_ns);
        let range = |position: usize| self.partitions.get(position).map(|partition| partition.range);
        let range =
            self.schema.partition_between(after.checked_sub(1).and_then(range), time_ns, range(after));
        debug_assert!(range.contains(time_ns));
        range
    }

    /// The times of partitions that were dropped after a sequence. What is written now comes after all tombstones, however many
    /// there are.
    pub(crate) fn dropped_after(&self, sequence: u64) -> impl Iterator<Item = TimeRange> {
        let first = self.tombstones.partition_point(|tombstone| tombstone.sequence < sequence);
        self.tombstones[first..].iter().filter_map(|tombstone| match &tombstone.range {
            DeletedRange::Times(range) => Some(*range),
            _ => None,
        })
    }

    /// Whether the partition that held a time was dropped after a sequence.
    pub(crate) fn is_dropped(&self, sequence: u64, time_ns: i64) -> bool {
        self.dropped_after(sequence).any(|range| range.contains(partition_time(time_ns)))
    }

    /// Adds a tombstone.
    pub(crate) fn add_tombstone(&mut self, tombstone: Arc<Tombstone>) {
        // Batches are applied in nearly the order of their sequences.
        let place = self.tombstones.partition_point(|other| other.sequence <= tombstone.sequence);
        self.tombstones.insert(place, tombstone);
    }

    /// How many tombstones there are of which the log has the only record, when everything up to `flushed` is in rowsets.
    pub(crate) fn unflushed_tombstones(&self, flushed: u64) -> usize {
        self.tombstones.len() - self.tombstones.partition_point(|tombstone| tombstone.sequence <= flushed)
    }

    /// All tombstones, by sequence, those for reading the past, too.
    pub(crate) fn all_tombstones(&self) -> Vec<Arc<Tombstone>> {
        let mut all = [&self.past_tombstones[..], &self.tombstones[..]].concat();
        all.sort_by_key(|tombstone| tombstone.sequence);
        all
    }

    /// The partitions that overlap a range of times.
    pub(crate) fn partitions_in(&self, time: TimeRange) -> impl Iterator<Item = &Arc<PartitionVersion>> {
        self.partitions.iter().filter(move |partition| partition.range.overlaps(time))
    }

    /// Makes the partitions that some times need; `make` makes one of a range.
    pub(crate) fn add_partitions(
        &mut self,
        mut times_ns: Vec<i64>,
        mut make: impl FnMut(TimeRange) -> PartitionVersion,
    ) {
        times_ns.sort_unstable();
        let mut made: Vec<Arc<PartitionVersion>> = Vec::new();
        for time_ns in times_ns.into_iter().map(partition_time) {
            let is_made = made.last().is_some_and(|last| last.range.contains(time_ns));
            if is_made || self.partition_at(time_ns).is_some() {
                continue;
            }
            let mut range = self.new_partition_range(time_ns);
            if let Some(last) = made.last() {
                range.start_ns = range.start_ns.max(last.range.end_ns);
            }
            made.push(Arc::new(make(range)));
        }
        self.partitions.append(&mut made);
        self.partitions.sort_by_key(|partition| partition.range.start_ns);
        debug_assert!(self.partitions.is_sorted_by(|a, b| a.range.end_ns <= b.range.start_ns));
    }

    /// The same with one partition replaced, or without it if `changed` says so.
    pub(crate) fn with_partition(&self, id: u64, changed: Option<PartitionVersion>) -> Self {
        let mut table = self.clone();
        let position = table.partitions.iter().position(|partition| partition.id == id);
        match (position, changed) {
            (Some(position), Some(partition)) => table.partitions[position] = Arc::new(partition),
            (Some(position), None) => drop(table.partitions.remove(position)),
            (None, Some(partition)) => {
                let place = table.partitions.partition_point(|p| p.range.start_ns < partition.range.start_ns);
                table.partitions.insert(place, Arc::new(partition));
            }
            (None, None) => {}
        }
        debug_assert!(table.partitions.is_sorted_by(|a, b| a.range.end_ns <= b.range.start_ns));
        table
    }
}

impl Version {
    pub(crate) fn table(&self, id: TableId) -> Result<&Arc<TableVersion>> {
        self.tables.get(&id).ok_or_else(|| Error::missing(format!("table {id}")))
    }

    /// What is said of rowsets that cannot be read, and are therefore not merged, as long as they are there.
    pub(crate) fn set_aside(&self) -> Option<String> {
        let partitions = self.tables.values().flat_map(|table| &table.partitions);
        let mut unreadable =
            partitions.flat_map(|partition| &partition.rowsets).filter(|rowset| rowset.is_unreadable());
        let first = unreadable.next()?.path();
        let first = first.display();
        Some(match unreadable.count() {
            0 => format!("{first}: it cannot be read, and is not merged"),
            more => format!("{first} and {more} other files cannot be read, and are not merged"),
        })
    }

    /// Adds or replaces a table: for changes of many tables.
    pub(crate) fn put_table(&mut self, table: TableVersion) {
        self.tables.insert(table.id, Arc::new(table));
    }

    /// The same with a table replaced.
    pub(crate) fn with_table(&self, table: TableVersion) -> Self {
        let mut version = self.clone();
        version.put_table(table);
        version
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::fs::SimulatedFs;
    use crate::rows::deleted_series::DeletedSeries;
    use crate::{Engine, EngineOptions, block_on};
    use arrow_array::{TimestampNanosecondArray, UInt32Array};
    use nyala_core::ColumnId;
    use nyala_core::store::{
        CellColumn, Operation, RowSelection, ScanRequest, Store, Upsert, WriteBatch, WriteMode,
    };

    fn open(fs: &SimulatedFs) -> Result<Engine> {
        Engine::open(EngineOptions {
            fs: Arc::new(fs.clone()),
            maintenance_threads: 0,
            wal_segment_bytes: 1 << 20,
            ..EngineOptions::new("/data")
        })
    }

    fn write(engine: &Engine, table: TableId, time_ns: i64) -> Result<()> {
        let cells = |id, values| CellColumn { column: ColumnId(id), values, null_cells: None };
        let columns = vec![
            cells(0, Arc::new(UInt32Array::from_iter_values(0..20)) as _),
            cells(1, Arc::new(TimestampNanosecondArray::from(vec![time_ns; 20])) as _),
        ];
        let upsert = Upsert { table, mode: WriteMode::Upsert, columns };
        block_on(engine.write(WriteBatch { operations: vec![Operation::Upsert(upsert)] })).map(drop)
    }

    fn rows(engine: &Engine, table: TableId) -> Result<usize> {
        let request = ScanRequest::by_key(table, RowSelection::All, vec![ColumnId(1)]);
        block_on(async {
            let (mut stream, mut rows) = (engine.latest().scan(request).await?, 0);
            while let Some(batch) = stream.next().await? {
                rows += batch.rows;
            }
            Ok(rows)
        })
    }

    /// Where the rows of a series are in all memtables: first rows cost nothing but themselves.
    fn memory_bytes(engine: &Engine, table: TableId) -> Result<Vec<u64>> {
        let version = engine.versions.current();
        let partitions = version.table(table)?.partitions.iter();
        Ok(partitions.flat_map(|each| each.memtables().map(|memtable| memtable.memory_bytes())).collect())
    }

    #[test]
    fn a_row_is_dropped_with_its_partition_if_it_was_written_before() {
        let mut table = TableVersion::new(TableId(1), Arc::new(TableSchema::measurement("m", 1000)));
        let times = DeletedRange::Times(TimeRange::new(0, 1000));
        let all = DeletedRange::Series { series: DeletedSeries::All, time: TimeRange::ALL };
        // Nearly in the order of their sequences.
        for (sequence, range) in [(3, &all), (7, &times), (5, &all), (7, &all), (9, &all)] {
            table.add_tombstone(Arc::new(Tombstone::new(sequence, range.clone())));
        }
        assert!([1, 5, 7].iter().all(|sequence| table.is_dropped(*sequence, 999)));
        assert!(!table.is_dropped(8, 999), "it was written after that");
        assert!(!table.is_dropped(1, 1000), "it was in another partition");
        assert_eq!([0, 7, 8].map(|sequence| table.dropped_after(sequence).count()), [1, 1, 0]);
    }

    #[test]
    fn a_partition_takes_rows_after_any_number_of_batches_without_a_flush() -> Result<()> {
        let fs = SimulatedFs::new();
        let engine = open(&fs)?;
        let table = block_on(engine.create_table(TableSchema::measurement("m", 1000)))?;
        write(&engine, table, 10)?;
        write(&engine, table, 1010)?;
        let cheap_bytes = memory_bytes(&engine, table)?;
        // One memtable has rows from before, the other is flushed: its partition waits for its next row.
        assert!(engine.flush()?);
        write(&engine, table, 20)?;
        let mut written = 3;
        for (round, skipped) in [1 << 23, 1 << 33, 1 << 45].into_iter().enumerate() {
            let wal = engine.writer.log.wal();
            wal.skip_sequences(skipped, |_| {});
            let next = wal.next_sequence();
            engine.versions.watermark.begin(next)?.finish(Some(next - 1));
            for time_ns in [30, 1030] {
                write(&engine, table, time_ns + round as i64)?;
                write(&engine, table, 500 + time_ns + round as i64)?;
                written += 2;
            }
            assert_eq!(rows(&engine, table)?, 20 * written, "after {skipped} sequences");
        }
        // Each memtable keeps the cheap layout, whatever the sequences of its rows are.
        let found = memory_bytes(&engine, table)?;
        assert!(
            found.iter().all(|bytes| *bytes <= 3 * cheap_bytes[0]),
            "{found:?}, where one row costs {cheap_bytes:?}"
        );
        drop(engine);
        // So does what comes from the log.
        let engine = open(&fs.snapshot())?;
        assert_eq!(rows(&engine, table)?, 20 * written);
        let found = memory_bytes(&engine, table)?;
        assert!(found.iter().all(|bytes| *bytes <= 4 * cheap_bytes[0]), "{found:?}");
        assert!(engine.flush()?);
        assert_eq!(rows(&engine, table)?, 20 * written);
        let newest = block_on(engine.latest().time_bounds(table, TimeRange::ALL))?;
        assert_eq!(newest, Some(TimeRange::new(10, 1533)));
        Ok(())
    }
}
