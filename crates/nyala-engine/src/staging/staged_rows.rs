//! The rows of a stage, in a version that is its own: what was there at the opening, and memtables that only it writes.
//!
//! Its batches have the sequences after that of the opening, which the store gives to batches of others. The two never
//! meet: of the store's memtables a stage sees only what was there at the opening. So its rows are read, and its
//! snapshots stay as they are, like those of any version.

use super::own_rows::OwnRows;
use super::sorted_load::SortedLoad;
use crate::memory::memtable::{Memtable, PreparedKeys, PreparedUpsert};
use crate::memory::version::{PartitionVersion, TableVersion, Version};
use crate::reading::snapshot::EngineSnapshot;
use crate::writing::claims::ClaimedKey;
use crate::writing::conditional_write::keys_of;
use crate::writing::table_locks::LockMode;
use crate::writing::write::{by_partition, for_each_partition_time};
use nyala_core::memory::Component;
use nyala_core::store::{Operation, WriteBatch};
use nyala_core::{Result, TableId};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;

pub(super) struct StagedRows {
    /// The store at the opening.
    pub(super) opened: EngineSnapshot,
    /// The same with what was staged, in the tables that the stage may have written to.
    pub(super) version: Arc<Version>,
    /// The sequence of the last batch.
    pub(super) sequence: u64,
    /// The sequence of the last batch that is on the disk.
    pub(super) spilled_to: u64,
    /// The tables of its rows.
    pub(super) written: BTreeSet<TableId>,
    /// The tables that are being replaced as the stage sees them: nobody else may have changed a row of theirs.
    pub(super) claimed: BTreeSet<TableId>,
    /// The tables that the version has in a form of the stage's own, or had before a savepoint was gone back to.
    added: BTreeSet<TableId>,
    /// Tables that were created since the opening.
    created: Vec<Arc<TableVersion>>,
    /// Numbers of its own partitions, descending: they meet no others.
    next_partition: u64,
    /// Its own memtables that have rows.
    pub(super) memtables: Mutex<Vec<Arc<Memtable>>>,
    /// What is being loaded: the newest rows of their tables, which the version does not have yet.
    pub(super) loads: Vec<SortedLoad>,
    /// Some rows of a batch may have been written, and others not.
    pub(super) has_failed: bool,
}

/// How a stage was when it had nothing in memory.
pub(super) struct StagedBase {
    opened: Arc<Version>,
    version: Arc<Version>,
    sequence: u64,
    spilled_to: u64,
    written: BTreeSet<TableId>,
}

impl StagedRows {
    pub(super) fn new(opened: EngineSnapshot) -> Self {
        Self {
            version: opened.version.clone(),
            sequence: opened.sequence,
            spilled_to: opened.sequence,
            written: BTreeSet::new(),
            claimed: BTreeSet::new(),
            added: BTreeSet::new(),
            created: Vec::new(),
            next_partition: u64::MAX,
            memtables: Mutex::default(),
            loads: Vec::new(),
            has_failed: false,
            opened,
        }
    }

    /// The tables that a commit locks: those of its rows in this mode, and those that nobody may have changed.
    pub(super) fn locked_with(&self, mode: LockMode) -> Vec<(TableId, LockMode)> {
        let written = self.written.iter().map(|table| (*table, mode));
        written.chain(self.claimed.iter().map(|table| (*table, LockMode::Exclusive))).collect()
    }

    /// What the stage sees of the tables that it has added.
    pub(super) fn snapshot(&self) -> EngineSnapshot {
        EngineSnapshot { version: self.version.clone(), sequence: self.sequence, ..self.opened.clone() }
    }

    /// How it is, if it has nothing in memory.
    pub(super) fn base(&self) -> StagedBase {
        StagedBase {
            opened: self.opened.version.clone(),
            version: self.version.clone(),
            sequence: self.sequence,
            spilled_to: self.spilled_to,
            written: self.written.clone(),
        }
    }

    /// Forgets what was staged since. Snapshots that were taken still show it.
    pub(super) fn begin_again(&mut self, base: &StagedBase) -> Result<()> {
        (self.opened.version, self.version) = (base.opened.clone(), base.version.clone());
        self.put_created();
        let mut version = Version::clone(&self.version);
        for id in &self.added {
            let (opened, staged) = (self.opened.version.table(*id)?, self.version.table(*id)?);
            // The memtables of other tables are the store's.
            if !Arc::ptr_eq(opened, staged) {
                version.put_table(staged.without_active());
            }
        }
        self.version = Arc::new(version);
        (self.sequence, self.spilled_to) = (base.sequence, base.spilled_to);
        self.written = base.written.clone();
        self.memtables.lock().clear();
        self.loads.clear();
        Ok(())
    }

    /// Adds a table that was created since the opening.
    pub(super) fn add_created(&mut self, table: Arc<TableVersion>) {
        self.created.push(table);
        self.put_created();
    }

    fn put_created(&mut self) {
        for table in &self.created {
            if self.opened.version.table(table.id).is_ok() {
                continue;
            }
            // The same in both: the stage has nothing in it yet.
            for version in [&mut self.opened.version, &mut self.version] {
                let mut next = Version::clone(version);
                next.tables.insert(table.id, table.clone());
                *version = Arc::new(next);
            }
        }
    }

    /// Adds the tables of operations, as they were at the opening.
    pub(super) fn add_tables(&mut self, operations: &[Operation]) -> Result<()> {
        for id in operations.iter().map(Operation::table) {
            let (opened, staged) = (self.opened.version.table(id)?, self.version.table(id)?);
            if Arc::ptr_eq(opened, staged) {
                let table = opened.for_stage(self.opened.sequence, &self.opened.budget);
                self.version = Arc::new(self.version.with_table(table));
                self.added.insert(id);
            }
        }
        Ok(())
    }

    /// Adds the rows of operations.
    pub(super) fn add(&mut self, operations: &[Operation]) -> Result<()> {
        for operation in operations {
            self.make_partitions(operation)?;
        }
        self.sequence += 1;
        for operation in operations.iter().filter(|operation| operation.rows() > 0) {
            let table = self.version.table(operation.table())?;
            self.written.insert(table.id);
            match operation {
                Operation::Upsert(upsert) => {
                    let prepared = PreparedUpsert::new(upsert, &table.schema);
                    by_partition(table, &prepared.keys, self.sequence, |partition, rows| {
                        self.memtable(table, partition).upsert(&prepared, rows, self.sequence);
                    });
                }
                Operation::DeleteKeys { keys, .. } => {
                    let prepared = PreparedKeys::of_delete(keys, &table.schema);
                    by_partition(table, &prepared, self.sequence, |partition, rows| {
                        self.memtable(table, partition).delete(&prepared, rows, self.sequence);
                    });
                }
            }
        }
        Ok(())
    }

    /// Makes the partitions of the keys of an operation: also where they are deleted, because somebody else may write
    /// them.
    pub(super) fn make_partitions(&mut self, operation: &Operation) -> Result<()> {
        // The stage may have gone back to a base without the table since it was added.
        self.add_tables(std::slice::from_ref(operation))?;
        let table = self.version.table(operation.table())?;
        let mut missing = Vec::new();
        for_each_partition_time(table, &keys_of(table, operation), |time_ns| {
            missing.extend(table.partition_at(time_ns).is_none().then_some(time_ns));
        });
        if !missing.is_empty() {
            let mut table = TableVersion::clone(table);
            table.add_partitions(missing, |range| {
                self.next_partition -= 1;
                PartitionVersion::new(self.next_partition, range)
            });
            self.version = Arc::new(self.version.with_table(table));
        }
        Ok(())
    }

    /// The stage's own memtable of a partition.
    fn memtable<'a>(&self, table: &TableVersion, partition: &'a PartitionVersion) -> &'a Arc<Memtable> {
        let is_new = partition.active_if_made().is_none();
        let memtable = partition.active_or(|| {
            Memtable::charged_to(Component::Query, &table.schema, self.sequence, &self.opened.budget)
        });
        if is_new {
            self.memtables.lock().push(memtable.clone());
        }
        memtable
    }

    /// Forgets what was staged in a table, all of which is in memory. Snapshots that were taken still show it.
    pub(super) fn forget_staged(&mut self, id: TableId) -> Result<()> {
        let table = self.version.table(id)?;
        let active: Vec<_> = table.partitions.iter().filter_map(|each| each.active_if_made()).collect();
        self.memtables.lock().retain(|memtable| !active.iter().any(|other| Arc::ptr_eq(other, memtable)));
        let opened = self.opened.version.table(id)?;
        let table = opened.for_stage(self.opened.sequence, &self.opened.budget);
        self.version = Arc::new(self.version.with_table(table));
        Ok(())
    }

    /// What its rows take in memory.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.memtables.lock().iter().map(|memtable| memtable.memory_bytes()).sum()
    }

    /// Whether rows of it are on the disk.
    pub(super) fn is_spilled(&self) -> bool {
        self.spilled_to > self.opened.sequence || !self.loads.is_empty()
    }

    /// The rows that were staged in a table.
    pub(super) fn own_rows(&self, id: TableId) -> Result<OwnRows<'_>> {
        Ok(OwnRows::new(self.version.table(id)?, (self.opened.sequence, self.sequence)))
    }

    /// The keys of a batch.
    pub(super) fn keys(&self, batch: &WriteBatch) -> Result<Vec<ClaimedKey>> {
        let mut all = Vec::new();
        for operation in &batch.operations {
            let keys = keys_of(self.version.table(operation.table())?, operation);
            for row in 0..keys.rows {
                let mut key = Vec::new();
                keys.encode(row, &mut key);
                all.push((operation.table(), key));
            }
        }
        Ok(all)
    }
}
