//! What readers see: tables, partitions, memtables and rowsets at one moment.
//!
//! A version never changes, except that rows are added to its active memtables; readers leave out rows
//! after their sequence. So a snapshot is a version and a sequence, and holding it keeps alive exactly
//! what it needs: files of rowsets are removed with the last version that names them.

use crate::memtable::Memtable;
use crate::rowset::Rowset;
use crate::tombstone::Tombstone;
use nyala_core::memory::MemoryBudget;
use nyala_core::store::PartitionInfo;
use nyala_core::{ColumnType, Error, Result, TableId, TableSchema, TimeRange};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// All tables.
#[derive(Clone, Default)]
pub(crate) struct Version {
    pub(crate) tables: BTreeMap<TableId, Arc<TableVersion>>,
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
}

/// A partition.
pub(crate) struct PartitionVersion {
    pub(crate) id: u64,
    pub(crate) range: TimeRange,
    /// From oldest to newest, sequence ranges disjoint.
    pub(crate) rowsets: Vec<Arc<Rowset>>,
    /// Memtables being flushed, from oldest to newest, newer than all rowsets.
    pub(crate) frozen: Vec<Arc<Memtable>>,
    /// The memtable rows are added to, made with the first row. Versions of the partition share it until it is
    /// frozen: a writer may make it in a version that another one replaces at the same moment.
    active: Arc<OnceLock<Arc<Memtable>>>,
    /// The first sequence the active memtable may hold.
    base_sequence: u64,
}

impl PartitionVersion {
    pub(crate) fn new(id: u64, range: TimeRange, base_sequence: u64) -> Self {
        Self { id, range, rowsets: Vec::new(), frozen: Vec::new(), active: Arc::default(), base_sequence }
    }

    /// The memtable to add rows to.
    pub(crate) fn active(&self, schema: &TableSchema, budget: &Arc<MemoryBudget>) -> &Arc<Memtable> {
        self.active.get_or_init(|| Arc::new(Memtable::new(schema, self.base_sequence, budget)))
    }

    /// All memtables, from oldest to newest.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        self.frozen.iter().chain(self.active.get())
    }

    /// The same with the active memtable frozen; sequences after `cut` go to a new one.
    pub(crate) fn rotated(&self, cut: u64) -> Self {
        let mut frozen = self.frozen.clone();
        frozen.extend(self.active.get().filter(|memtable| !memtable.is_empty()).cloned());
        Self {
            id: self.id,
            range: self.range,
            rowsets: self.rowsets.clone(),
            frozen,
            active: Arc::default(),
            base_sequence: cut + 1,
        }
    }

    /// Whether the active memtable has rows.
    pub(crate) fn has_active_rows(&self) -> bool {
        self.active.get().is_some_and(|memtable| !memtable.is_empty())
    }

    /// The same with other rowsets, and without the frozen memtables that `flushed` names.
    pub(crate) fn with_rowsets(&self, rowsets: Vec<Arc<Rowset>>, flushed: &[Arc<Memtable>]) -> Self {
        assert!(
            rowsets.is_sorted_by(|a, b| a.meta.max_sequence < b.meta.min_sequence),
            "rowsets of a partition have disjoint sequences"
        );
        let is_flushed = |memtable: &Arc<Memtable>| flushed.iter().any(|other| Arc::ptr_eq(other, memtable));
        Self {
            id: self.id,
            range: self.range,
            rowsets,
            frozen: self.frozen.iter().filter(|memtable| !is_flushed(memtable)).cloned().collect(),
            active: self.active.clone(),
            base_sequence: self.base_sequence,
        }
    }

    pub(crate) fn info(&self) -> PartitionInfo {
        let rowsets = || self.rowsets.iter().map(|rowset| &rowset.meta);
        PartitionInfo {
            id: self.id,
            range: self.range,
            rows: rowsets().map(|meta| meta.rows).sum::<u64>()
                + self.memtables().map(|memtable| memtable.rows()).sum::<u64>(),
            disk_bytes: rowsets().map(|meta| meta.length_bytes).sum(),
            memory_bytes: self.memtables().map(|memtable| memtable.memory_bytes()).sum(),
        }
    }

    /// Times between which all rows of a series-keyed table lie.
    pub(crate) fn time_bounds(&self) -> Option<TimeRange> {
        let rowsets =
            self.rowsets.iter().filter(|rowset| rowset.meta.rows > 0).map(|rowset| rowset.meta.time());
        let memtables = self.memtables().filter_map(|memtable| memtable.time_bounds());
        rowsets
            .chain(memtables)
            .reduce(|a, b| TimeRange::new(a.start_ns.min(b.start_ns), a.end_ns.max(b.end_ns)))
    }
}

impl TableVersion {
    /// The key column whose ranges divide the table.
    pub(crate) fn time_key(&self) -> Option<usize> {
        let is_time = |id| self.schema.column(id).is_some_and(|c| c.column_type == ColumnType::Timestamp);
        self.schema.key.iter().position(|id| is_time(*id))
    }

    /// The partition that holds a time, by position.
    pub(crate) fn partition_at(&self, time_ns: i64) -> Option<usize> {
        let after = self.partitions.partition_point(|partition| partition.range.start_ns <= time_ns);
        let position = after.checked_sub(1)?;
        self.partitions[position].range.contains(time_ns).then_some(position)
    }

    /// The range of the partition to make for a time that none holds: as the schema says, without what
    /// its neighbours hold already.
    pub(crate) fn new_partition_range(&self, time_ns: i64) -> TimeRange {
        let mut range = match self.time_key() {
            Some(_) => self.schema.partition_of(time_ns),
            None => TimeRange::ALL,
        };
        for partition in &self.partitions {
            if partition.range.end_ns <= time_ns {
                range.start_ns = range.start_ns.max(partition.range.end_ns);
            } else {
                range.end_ns = range.end_ns.min(partition.range.start_ns);
            }
        }
        debug_assert!(range.contains(time_ns));
        range
    }

    /// The partitions that overlap a range of times.
    pub(crate) fn partitions_in(&self, time: TimeRange) -> impl Iterator<Item = &Arc<PartitionVersion>> {
        self.partitions.iter().filter(move |partition| partition.range.overlaps(time))
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

    /// Puts in a table, or replaces it: for who changes many.
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
