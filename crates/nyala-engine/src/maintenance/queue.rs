//! The flushes and merges that run, how far they are, and the merges that wait, for reports.
//!
//! What waits is what the threads found when they last looked, so a report costs nothing that they would not do anyway.

use super::Maintenance;
use super::compaction::Candidate;
use crate::files::rowset::Rowset;
use crate::memory::version::Version;
use nyala_core::store::{MaintenanceTask, MaintenanceWork};
use nyala_core::{TableId, TimeRange};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// So many merges that wait are reported, the most urgent ones: of a store with 10 000 tables nobody reads all.
const WAITING_MAX: usize = 200;

/// Work that runs, and work that waits.
#[derive(Default)]
pub(crate) struct MaintenanceQueue {
    running: Mutex<Vec<Arc<Running>>>,
    /// Rowsets of a partition that are worth merging.
    waiting: Mutex<Vec<(TableId, u64, Vec<u64>)>>,
}

/// Work that runs.
pub(crate) struct Running {
    /// Without the rows that are written.
    task: MaintenanceTask,
    partition: Option<u64>,
    pub(crate) written_rows: AtomicU64,
}

/// While it is there, the work runs.
pub(crate) struct RunningGuard<'a> {
    queue: &'a MaintenanceQueue,
    running: Arc<Running>,
}

impl Running {
    /// Rows that are read.
    pub(crate) fn rows(&self) -> u64 {
        self.task.rows
    }
}

impl std::ops::Deref for RunningGuard<'_> {
    type Target = Running;

    fn deref(&self) -> &Running {
        &self.running
    }
}

impl Drop for RunningGuard<'_> {
    fn drop(&mut self) {
        self.queue.running.lock().retain(|other| !Arc::ptr_eq(other, &self.running));
    }
}

impl MaintenanceQueue {
    /// Notes a flush of the frozen memtables of a version.
    pub(crate) fn begin_flush(&self, version: &Version) -> RunningGuard<'_> {
        let partitions = version.tables.values().flat_map(|table| &table.partitions);
        let frozen = partitions.flat_map(|partition| &partition.frozen);
        self.begin(None, flush_of(frozen.map(|memtable| (memtable.rows(), memtable.memory_bytes()))))
    }

    /// Notes a merge of rowsets of a partition.
    pub(crate) fn begin_merge(
        &self,
        table: TableId,
        (partition, range): (u64, TimeRange),
        rowsets: &[Arc<Rowset>],
    ) -> RunningGuard<'_> {
        self.begin(Some(partition), merge_of(table, range, rowsets.iter()))
    }

    fn begin(&self, partition: Option<u64>, task: MaintenanceTask) -> RunningGuard<'_> {
        let running = Arc::new(Running { task, partition, written_rows: AtomicU64::new(0) });
        self.running.lock().push(running.clone());
        RunningGuard { queue: self, running }
    }

    /// Notes which merges were found to be worth doing.
    pub(crate) fn set_waiting(&self, candidates: &[Candidate]) {
        let first = candidates.iter().take(WAITING_MAX);
        *self.waiting.lock() = first.map(|each| (each.table, each.partition, each.rowsets.clone())).collect();
    }
}

impl Maintenance {
    /// What runs, then what waits.
    pub(crate) fn tasks(&self) -> Vec<MaintenanceTask> {
        let running = self.queue.running.lock().clone();
        let mut tasks: Vec<MaintenanceTask> = (running.iter())
            .map(|running| MaintenanceTask {
                rows_done: Some(running.written_rows.load(Ordering::Relaxed).min(running.task.rows)),
                ..running.task.clone()
            })
            .collect();
        let version = self.versions.current();
        let partitions = version.tables.values().flat_map(|table| &table.partitions);
        let memtables = partitions.flat_map(|partition| partition.memtables());
        let mut in_memory = flush_of(memtables.map(|memtable| (memtable.rows(), memtable.memory_bytes())));
        // The rows of a flush that runs are in memory until it ends.
        for flush in tasks.iter().filter(|task| task.work == MaintenanceWork::Flush) {
            in_memory.rows = in_memory.rows.saturating_sub(flush.rows);
            in_memory.bytes = in_memory.bytes.saturating_sub(flush.bytes);
        }
        tasks.extend((in_memory.rows > 0).then_some(in_memory));
        for (table, partition, rowsets) in self.queue.waiting.lock().iter() {
            if running.iter().any(|running| running.partition == Some(*partition)) {
                continue;
            }
            // Merged or dropped since.
            let Some(known) = version.tables.get(table) else { continue };
            let Some(place) = known.partitions.iter().find(|other| other.id == *partition) else { continue };
            let merged = || place.rowsets.iter().filter(|rowset| rowsets.contains(&rowset.meta.id));
            if merged().count() == rowsets.len() {
                tasks.push(merge_of(*table, place.range, merged()));
            }
        }
        tasks
    }
}

/// A flush of memtables with so many rows and bytes.
fn flush_of(memtables: impl Iterator<Item = (u64, u64)>) -> MaintenanceTask {
    let (rows, bytes) = memtables.fold((0, 0), |sum, memtable| (sum.0 + memtable.0, sum.1 + memtable.1));
    let (work, files) = (MaintenanceWork::Flush, 0);
    MaintenanceTask { work, table: None, range: None, files, rows, bytes, rows_done: None }
}

fn merge_of<'a>(
    table: TableId,
    range: TimeRange,
    rowsets: impl Iterator<Item = &'a Arc<Rowset>> + Clone,
) -> MaintenanceTask {
    MaintenanceTask {
        work: MaintenanceWork::Merge,
        table: Some(table),
        range: Some(range),
        files: rowsets.clone().count() as u64,
        rows: rowsets.clone().map(|rowset| rowset.meta.rows).sum(),
        bytes: rowsets.map(|rowset| rowset.meta.length_bytes).sum(),
        rows_done: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::fs::SimulatedFs;
    use crate::maintenance::pace::MergePace;
    use crate::{Engine, EngineOptions, single_series};
    use nyala_core::Result;
    use nyala_core::store::Store;

    #[test]
    fn what_waits_and_runs_is_shown_until_it_is_done() -> Result<()> {
        let engine = Engine::open(EngineOptions {
            fs: Arc::new(SimulatedFs::default()),
            maintenance_threads: 0,
            ..EngineOptions::new("/data")
        })?;
        let table = single_series::create(&engine, 1 << 40)?;
        let tasks = || engine.maintenance();
        assert_eq!(tasks()?, []);
        for round in 0..3 {
            single_series::write(&engine, table, round * 100..round * 100 + 50)?;
            let waiting = tasks()?;
            assert_eq!((waiting.len(), waiting[0].work, waiting[0].rows), (1, MaintenanceWork::Flush, 50));
            assert_eq!((waiting[0].table, waiting[0].rows_done), (None, None));
            assert!(engine.flush()?);
        }
        assert_eq!(tasks()?, [], "what was flushed does not wait");

        let maintenance = &engine.maintenance;
        let candidates = maintenance.merges(3);
        maintenance.queue.set_waiting(&candidates);
        let waiting = tasks()?;
        assert_eq!(
            (waiting.len(), waiting[0].work, waiting[0].table),
            (1, MaintenanceWork::Merge, Some(table))
        );
        assert_eq!((waiting[0].files, waiting[0].rows, waiting[0].rows_done), (3, 150, None));
        // Once it runs it does not wait, and counts.
        let version = maintenance.versions.current();
        let partition = &version.table(table)?.partitions[0];
        let place = (partition.id, partition.range);
        let running = maintenance.queue.begin_merge(table, place, &partition.rowsets);
        running.written_rows.fetch_add(60, Ordering::Relaxed);
        let shown = tasks()?;
        assert_eq!((shown.len(), shown[0].rows, shown[0].rows_done), (1, 150, Some(60)));
        drop(running);
        assert_eq!(tasks()?, waiting);
        let pace = MergePace::full(&maintenance.signal);
        assert!(maintenance.compact(&candidates[0], &pace)?);
        assert_eq!(tasks()?, [], "the rowsets are gone that were to be merged");
        Ok(())
    }
}
