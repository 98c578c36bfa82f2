//! The version that readers get, and every way to replace it.
//!
//! The catalog is locked for every change of the version, because a change is in the manifest before readers see it.

use super::version::{PartitionVersion, TableVersion, Version};
use super::watermark::{TakenSequences, Watermark};
use crate::files::catalog::{Catalog, Edit, ManifestHealth};
use crate::rows::tombstone::{DeletedRange, Tombstone};
use crate::write_hook::{WriteHook, WriteStep};
use nyala_core::memory::MemoryBudget;
use nyala_core::{Result, TableId};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// With so many deleted ranges in a table that no flush has seen, a flush is due: every reader of rows in memory looks at all of
/// them, every further delete copies their list, and only what was flushed can be dropped. A thousand deletes take longer
/// than the flush.
pub(crate) const UNFLUSHED_TOMBSTONES_MAX: usize = 1000;

/// The current version, the catalog it is made of, and the watermark up to which its memtables may be read.
pub(crate) struct VersionPublisher {
    /// Locked for every change of the manifest and of the version. The order of locks is in `writing/table_locks.rs`.
    pub(crate) catalog: Mutex<Catalog>,
    /// Whether the manifest can be written, for those who do not wait for the lock of the catalog.
    pub(crate) manifest_health: Arc<ManifestHealth>,
    version: RwLock<Arc<Version>>,
    pub(crate) watermark: Arc<Watermark>,
    /// Changed with the catalog locked.
    unflushed_tombstones: AtomicUsize,
    budget: Arc<MemoryBudget>,
    hook: WriteHook,
}

/// Closes the store unless it is forgotten: the manifest has what readers do not see.
struct Unpublished<'a>(&'a Arc<Watermark>);

impl Drop for Unpublished<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl VersionPublisher {
    /// Deleted ranges are charged to the budget.
    pub(crate) fn new(
        catalog: Catalog,
        version: Version,
        budget: &Arc<MemoryBudget>,
        hook: WriteHook,
    ) -> Self {
        Self {
            manifest_health: catalog.health.clone(),
            watermark: Watermark::new(catalog.state.flushed_sequence),
            catalog: Mutex::new(catalog),
            version: RwLock::new(Arc::new(version)),
            unflushed_tombstones: AtomicUsize::new(0),
            budget: budget.clone(),
            hook,
        }
    }

    /// The current version.
    pub(crate) fn current(&self) -> Arc<Version> {
        self.version.read().clone()
    }

    /// The current version and the last sequence that readers may see in it.
    pub(crate) fn visible(&self) -> (Arc<Version>, u64) {
        // The sequence is read while the version cannot change: rowsets hold rows up to the watermark at
        // their publication, so a version with an older watermark could show rows after it.
        let version = self.version.read();
        (version.clone(), self.watermark.get())
    }

    /// Batches up to this sequence are in rowsets.
    pub(crate) fn flushed_sequence(&self) -> u64 {
        self.catalog.lock().state.flushed_sequence
    }

    /// Makes edits durable, then calls what publishes the version after them. The caller holds the lock of the catalog.
    ///
    /// After a panic in between the store is closed: a version without these edits must not be built on. It would flush again
    /// what the manifest has in files, and drop deleted ranges that these files still need after the next start.
    pub(crate) fn commit(
        &self,
        catalog: &mut Catalog,
        edits: Vec<Edit>,
        publish: impl FnOnce(),
    ) -> Result<()> {
        self.watermark.check()?;
        catalog.commit(edits)?;
        let unpublished = Unpublished(&self.watermark);
        self.hook.call(WriteStep::Committed);
        publish();
        std::mem::forget(unpublished);
        Ok(())
    }

    /// Replaces the version. The caller holds the lock of the catalog.
    pub(crate) fn publish(&self, version: Version) {
        let replaced = std::mem::replace(&mut *self.version.write(), Arc::new(version));
        // It may be much, and readers need not wait for that.
        drop(replaced);
    }

    /// The same for a version that has what belongs to a sequence. Nobody gets one without the other.
    pub(crate) fn publish_at(&self, version: Version, sequence: TakenSequences) {
        let mut current = self.version.write();
        let replaced = std::mem::replace(&mut *current, Arc::new(version));
        drop(sequence);
        drop(current);
        drop(replaced);
    }

    /// Changes tables while batches are under way. That does not disturb them: they do not know tables that are new,
    /// they do not name columns that are added, and the rows of a dropped table go with it. `change` returns the edits
    /// and the version after them.
    pub(crate) fn change_tables<T>(
        &self,
        change: impl FnOnce(&Catalog, &Version) -> Result<(Vec<Edit>, Version, T)>,
    ) -> Result<T> {
        let mut catalog = self.catalog.lock();
        let (edits, version, answer) = change(&catalog, &self.current())?;
        if !edits.is_empty() {
            self.commit(&mut catalog, edits, || self.publish(version))?;
        }
        Ok(answer)
    }

    /// Makes the partitions of some times, durably, where there are none.
    pub(crate) fn make_partitions(&self, missing: BTreeMap<TableId, Vec<i64>>) -> Result<()> {
        if missing.is_empty() {
            return Ok(());
        }
        let mut catalog = self.catalog.lock();
        let mut version = Version::clone(&self.current());
        let mut edits = Vec::new();
        let mut next_partition = catalog.state.next_partition;
        for (table, times_ns) in missing {
            let mut changed = TableVersion::clone(version.table(table)?);
            changed.add_partitions(times_ns, |range| {
                let id = next_partition;
                edits.push(Edit::PutPartition { table, id, range });
                next_partition += 1;
                PartitionVersion::new(id, range)
            });
            version.put_table(changed);
        }
        if !edits.is_empty() {
            self.commit(&mut catalog, edits, || self.publish(version))?;
        }
        Ok(())
    }

    /// Makes a deleted range visible. Returns how many its table has that no flush has seen.
    pub(crate) fn add_tombstone(&self, table: TableId, range: DeletedRange, sequence: u64) -> usize {
        let catalog = self.catalog.lock();
        let version = self.current();
        let Ok(found) = version.table(table) else { return 0 };
        let mut changed = TableVersion::clone(found);
        changed.add_tombstone(Tombstone::charged(sequence, range, &self.budget));
        let unflushed = changed.unflushed_tombstones(catalog.state.flushed_sequence);
        self.unflushed_tombstones.fetch_max(unflushed, Ordering::Relaxed);
        self.publish(version.with_table(changed));
        unflushed
    }

    /// The most deleted ranges of a table that no flush has seen.
    pub(crate) fn unflushed_tombstones(&self) -> usize {
        self.unflushed_tombstones.load(Ordering::Relaxed)
    }

    /// Publishes a version after a flush of everything up to a sequence. The caller holds the lock of the catalog.
    pub(crate) fn publish_flushed(&self, version: Version, flushed: u64) {
        let unflushed = version.tables.values().map(|table| table.unflushed_tombstones(flushed)).max();
        self.unflushed_tombstones.store(unflushed.unwrap_or(0), Ordering::Relaxed);
        self.publish(version);
    }

    /// Freezes all active memtables that have rows; returns the last sequence in them, and the version. No batch is
    /// under way.
    pub(crate) fn freeze_all(&self) -> (u64, Arc<Version>) {
        let _catalog = self.catalog.lock();
        let sequence = self.watermark.get();
        self.freeze(PartitionVersion::has_active_rows);
        (sequence, self.current())
    }

    /// Freezes the active memtables that are full. No batch is under way.
    pub(crate) fn freeze_full(&self) {
        let _catalog = self.catalog.lock();
        let sequence = self.watermark.get();
        self.freeze(|partition| partition.is_full(sequence));
    }

    fn freeze(&self, is_chosen: impl Fn(&PartitionVersion) -> bool) {
        let version = self.current();
        let mut changed = Version::clone(&version);
        for table in version.tables.values() {
            if table.partitions.iter().any(|partition| is_chosen(partition)) {
                let mut table = TableVersion::clone(table);
                for partition in table.partitions.iter_mut().filter(|partition| is_chosen(partition)) {
                    *partition = Arc::new(partition.rotated());
                }
                changed.put_table(table);
            }
        }
        self.publish(changed);
    }
}
