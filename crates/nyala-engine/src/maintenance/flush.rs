//! A flush: memtables become rowsets, and the log gives up what is in them. `maintenance/mod.rs` decides when.
//!
//! The cut is a sequence. The lock of the store is held exclusively for a moment: every batch up to the cut is applied
//! then, and later ones go to new memtables. Readers and writers go on while rowsets are written. The files are synced,
//! then the manifest edit that names them, then readers see them, then the log is cut. A crash in between leaves files
//! that no manifest names, and a log that still has everything.

use super::inputs::MergeInputs;
use super::output::{SplitPoints, WrittenRowset};
use super::{Maintenance, contained};
use crate::files::catalog::{Edit, put_rowset};
use crate::files::rowset::{Rowset, RowsetKind};
use crate::memory::memtable::Memtable;
use crate::memory::version::{PartitionPast, TableVersion, Version};
use crate::rows::tombstone::durable_tombstones;
use crate::runtime::block_on::block_on;
use crate::stats::add;
use nyala_core::{Result, TableId, span};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// A partition written by a flush, not published yet.
struct Flushed {
    table: TableId,
    partition: u64,
    memtables: Vec<Arc<Memtable>>,
    /// Mostly one; none if every row was hidden.
    written: Vec<WrittenRowset>,
}

impl Maintenance {
    /// Flushes everything applied so far, and drops deleted ranges that hide nothing; false if there was nothing to do.
    /// Blocks.
    pub(crate) fn flush(&self) -> Result<bool> {
        Ok(self.flush_before(0)?.is_some())
    }

    /// The same, and gives out some sequences behind the last one that is flushed. No batch has them, and rowsets that
    /// get them are older than everything that is in memory then. Returns the last of them; nothing if nothing was done.
    pub(crate) fn flush_before(&self, reserved: u64) -> Result<Option<u64>> {
        let flushed = self.flush_alone(reserved)?;
        self.writer.admission.flush_ended();
        // Who was told of the next one meanwhile could not begin it.
        if flushed.is_some() && self.flush_score() >= 1.0 {
            self.signal.wake();
        }
        Ok(flushed)
    }

    fn flush_alone(&self, reserved: u64) -> Result<Option<u64>> {
        let _one = self.flushing.lock();
        self.refill_reserve();
        let log = &self.writer.log;
        let (doubtful, logged_bytes) = (log.wal().doubtful_records(), log.logged_bytes());
        let Some((cut, version)) = self.freeze(reserved) else { return Ok(None) };
        let has_rows = version
            .tables
            .values()
            .any(|table| table.partitions.iter().any(|partition| !partition.frozen.is_empty()));
        let is_flushed = !has_rows && cut == self.versions.flushed_sequence();
        // Some were needed until their partitions were dropped, or until it was found out that they hide nothing.
        if is_flushed && !version.tables.values().any(|table| table.has_unneeded_tombstones(cut)) {
            log.set_flushed_bytes(logged_bytes);
            return Ok(None);
        }
        self.output.remove_abandoned();
        let mut flushed = Vec::new();
        let running = self.queue.begin_flush(&version);
        let _traced = span!("flush", rows = running.rows()).entered();
        let written = contained(|| {
            self.write_partitions(&version, cut - reserved, &running.written_rows, &mut flushed)
        });
        let outcome = written.and_then(|()| self.publish_flush(cut, &flushed));
        self.counters.flush_failure.note(&outcome);
        match &outcome {
            Ok(()) => add(&self.counters.flushes, 1),
            Err(error) => {
                add(&self.counters.flush_failures, 1);
                tracing::error!(%error, "a flush failed; its rows stay in memory and in the log");
                self.output
                    .abandon(flushed.iter().flat_map(|each| &each.written).map(|written| &written.meta));
            }
        }
        outcome?;
        log.set_flushed_doubtful(doubtful);
        log.set_flushed_bytes(logged_bytes);
        log.wal().truncate_before(cut + 1)?;
        Ok(Some(cut))
    }

    /// Freezes the active memtables; every batch up to the returned sequence is in them, the `reserved` ones before it
    /// belong to none. Nothing if a batch broke off
    /// among them: the log has what was acknowledged, and nothing may take its place.
    fn freeze(&self, reserved: u64) -> Option<(u64, Arc<Version>)> {
        let _alone = block_on(self.writer.store_lock.clone().write_owned());
        self.versions.watermark.check().ok()?;
        if reserved > 0 {
            drop(self.writer.take_sequences(reserved).ok()?);
        }
        Some(self.versions.freeze_all())
    }

    /// Writes rowsets for each partition with frozen memtables, and syncs many files together, because they then share
    /// the wait.
    fn write_partitions(
        &self,
        version: &Version,
        cut: u64,
        written_rows: &AtomicU64,
        flushed: &mut Vec<Flushed>,
    ) -> Result<()> {
        let min_sequence = self.versions.flushed_sequence() + 1;
        let (mut synced, mut unsynced) = (0, 0);
        for table in version.tables.values() {
            let splits =
                SplitPoints { keys: &[], bytes_max: self.options.rowset_bytes_max_of(&table.schema) };
            for partition in table.partitions.iter().filter(|partition| !partition.frozen.is_empty()) {
                if self.versions.current().table(table.id).is_err() {
                    // The table was dropped meanwhile, perhaps with thousands of others.
                    break;
                }
                // A store that was repaired has rowsets with later sequences than were flushed in all partitions.
                let rowsets = partition.rowsets.iter();
                let newest = rowsets.map(|rowset| rowset.meta.max_sequence).max().unwrap_or(0);
                let inputs = MergeInputs {
                    kind: RowsetKind::Rows,
                    rowsets: &[],
                    memtables: &partition.frozen,
                    tombstones: &table.tombstones,
                    sequences: (min_sequence.max(newest + 1), cut),
                    // What a deleted row hides is still there in the past.
                    oldest: partition.rowsets.is_empty() && !self.keeps_past(),
                    keeps_sequences: self.keeps_past(),
                    since_sequence: 0,
                    sequence: cut,
                    written_rows: Some(written_rows),
                    pace: None,
                };
                flushed.push(Flushed {
                    table: table.id,
                    partition: partition.id,
                    memtables: partition.frozen.clone(),
                    written: Vec::new(),
                });
                let written = &mut flushed.last_mut().expect("was just put in").written;
                let place = (partition.id, partition.range);
                self.output.write(table, place, &inputs, splits, written)?;
                if self.keeps_past() {
                    self.output.write_versions(table, place, &inputs, written)?;
                }
                unsynced += written.len();
                if unsynced >= self.output.source.unsynced_max {
                    self.output.sync(flushed[synced..].iter_mut().flat_map(|each| &mut each.written))?;
                    (synced, unsynced) = (flushed.len(), 0);
                }
            }
        }
        self.output.sync(flushed[synced..].iter_mut().flat_map(|each| &mut each.written))?;
        self.output.sync_names()
    }

    /// Puts what was flushed into manifest and version. The cost depends on what was flushed and on the number of
    /// tables, not on the number of their partitions.
    fn publish_flush(&self, cut: u64, flushed: &[Flushed]) -> Result<()> {
        let mut catalog = self.versions.catalog.lock();
        let mut changed = Version::clone(&self.versions.current());
        let mut edits = Vec::new();
        let mut unwanted = Vec::new();
        for of_table in flushed.chunk_by(|a, b| a.table == b.table) {
            let mut of_table: HashMap<u64, &Flushed> =
                of_table.iter().map(|each| (each.partition, each)).collect();
            if let Ok(table) = changed.table(of_table.values().next().expect("a chunk has some").table) {
                let mut table = TableVersion::clone(table);
                for partition in &mut table.partitions {
                    let Some(Flushed { memtables, written, .. }) = of_table.remove(&partition.id) else {
                        continue;
                    };
                    let (mut rowsets, mut past) =
                        (partition.rowsets.clone(), PartitionPast::clone(&partition.past));
                    for WrittenRowset { meta, .. } in written {
                        let rowset = Rowset::new(meta.clone(), self.output.source.clone());
                        if meta.kind == RowsetKind::Versions {
                            edits.push(Edit::PutVersions(meta.clone()));
                            past.versions.push(rowset);
                            continue;
                        }
                        edits.push(put_rowset(meta.clone()));
                        rowset.set_clean_to(cut);
                        rowsets.push(rowset);
                        add(&self.counters.flushed_rows, meta.rows);
                        add(&self.counters.flushed_bytes, meta.length_bytes);
                    }
                    *partition = Arc::new(partition.with_rowsets(rowsets, memtables).with_past(past));
                }
                changed.put_table(table);
            }
            // Table or partition may have been dropped meanwhile.
            let dropped = of_table.values().flat_map(|each| &each.written);
            unwanted.extend(dropped.map(|written| &written.meta));
        }
        let with_tombstones: Vec<TableId> = changed
            .tables
            .values()
            .filter(|table| !table.tombstones.is_empty() || has_tombstones(&catalog.state, table.id))
            .map(|table| table.id)
            .collect();
        for id in with_tombstones {
            let mut table = TableVersion::clone(changed.table(id)?);
            table.retire_tombstones(cut, self.keeps_past(), |_| true);
            let durable = durable_tombstones(&table.all_tombstones(), cut);
            edits.extend(catalog.state.tombstone_edits(id, &durable));
            changed.put_table(table);
        }
        if let Some(history) = &self.writer.history {
            edits.push(Edit::AddTimes(history.between(catalog.state.flushed_sequence, cut)));
        }
        edits.push(Edit::Flushed(cut));
        // The space that the edit takes comes back when the log is cut.
        self.writer.reserve.make_room(0);
        self.versions.commit(&mut catalog, edits, || self.versions.publish_flushed(changed, cut))?;
        flushed.iter().flat_map(|each| &each.memtables).for_each(|memtable| memtable.set_flushed());
        unwanted.into_iter().for_each(|meta| self.output.remove(meta));
        Ok(())
    }
}

fn has_tombstones(state: &crate::files::catalog::CatalogState, id: TableId) -> bool {
    state.tables.get(&id).is_some_and(|table| !table.tombstones.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::fs::SimulatedFs;
    use crate::{Engine, EngineOptions, single_series};
    use nyala_core::store::{Delete, RowSelection, SeriesSet, Store};
    use nyala_core::{SeriesId, TimeRange};

    #[test]
    fn a_flush_does_not_write_again_what_was_deleted_before() -> Result<()> {
        let fs = Arc::new(SimulatedFs::new());
        let options = EngineOptions { fs, maintenance_threads: 0, ..EngineOptions::new("/data") };
        let engine = Engine::open(options.clone())?;
        let table = single_series::create(&engine, 1000)?;
        let delete = |ids: Vec<u32>| -> Result<()> {
            let series = SeriesSet::Ids(ids.into_iter().map(SeriesId).collect());
            let rows = RowSelection::Series { series, time: TimeRange::ALL };
            block_on(engine.delete(Delete { table, rows, predicates: Vec::new() })).map(drop)
        };
        single_series::write(&engine, table, 0..10)?;
        assert!(engine.flush()?);
        // Compressed, too, they take some 30 KB. Series 1, which has the rows, is not among them.
        delete((2..200_000).step_by(2).collect())?;
        assert!(engine.flush()?);
        for round in 0..5 {
            delete(vec![2 + round])?;
            single_series::write(&engine, table, 10..11)?;
            let before = engine.versions.catalog.lock().log.length;
            assert!(engine.flush()?);
            let length = engine.versions.catalog.lock().log.length;
            assert!(length > before && length < before + 2000, "from {before} to {length} bytes");
        }
        let of = |engine: &Engine| engine.versions.catalog.lock().state.tables.get(&table).cloned();
        let known = of(&engine).expect("is there");
        assert_eq!(known.tombstones.len(), 6);
        drop(engine);
        let again = Engine::open(options)?;
        assert_eq!(of(&again).map(|table| table.tombstones.clone()), Some(known.tombstones.clone()));
        // Dropped with what they hide.
        block_on(again.drop_partitions(table, TimeRange::ALL))?;
        single_series::write(&again, table, 20..21)?;
        assert!(again.flush()?);
        assert_eq!(of(&again).map(|table| table.tombstones.len()), Some(0));
        Ok(())
    }
}
