//! A flush: memtables become rowsets, and the log gives up what is in them.
//!
//! The cut is a sequence: with the gate held alone for a moment every batch up to it is applied, and later
//! ones go to new memtables. Writing happens beside readers and writers. The files are synced, then the
//! manifest edit that names them, then readers see them, then the log is cut. A crash in between leaves
//! files that no manifest names, and a log that still has everything.

use crate::block_on::block_on;
use crate::catalog::Edit;
use crate::key::KeyRange;
use crate::maintenance::Signal;
use crate::memtable::{Memtable, Wanted};
use crate::merge::{self, Piece};
use crate::rowset::writer::{RowsetWriter, Written, value_columns};
use crate::rowset::{Rowset, RowsetMeta};
use crate::scan::keyed::KeyedMerge;
use crate::scan::partition::PartitionReader;
use crate::shared::Shared;
use crate::stats::add;
use crate::sweep::{Sweep, Swept};
use crate::tombstone::{DeletedRange, Tombstone};
use crate::version::{TableVersion, Version};
use nyala_core::{Result, TableId, TimeRange};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A rowset written by a flush, not published yet.
struct Flushed {
    table: TableId,
    partition: u64,
    memtables: Vec<Arc<Memtable>>,
    /// `None`: every row was hidden.
    written: Option<(RowsetMeta, Written)>,
}

/// Which rows a rowset is made of.
pub(crate) struct Sources<'a> {
    pub(crate) rowsets: &'a [Arc<Rowset>],
    pub(crate) memtables: &'a [Arc<Memtable>],
    /// Nothing older is in the partition: deletes can go.
    pub(crate) oldest: bool,
    pub(crate) sequence: u64,
    /// Given up when the engine closes: a compaction, which may take minutes.
    pub(crate) cancelled_by: Option<&'a Signal>,
}

impl Sources<'_> {
    fn check_running(&self) -> Result<()> {
        self.cancelled_by.map_or(Ok(()), Signal::check_running)
    }
}

impl Shared {
    /// Flushes everything applied so far; false if there was nothing. Blocks.
    pub(crate) fn flush(&self) -> Result<bool> {
        let _one = self.flushing.lock();
        let (doubtful, logged_bytes) = (self.wal().doubtful_records(), self.logged_bytes());
        let (cut, version) = self.rotate();
        let has_rows = version
            .tables
            .values()
            .any(|table| table.partitions.iter().any(|partition| !partition.frozen.is_empty()));
        if !has_rows && cut == self.catalog.lock().state.flushed_sequence {
            self.flushed_log_bytes.store(logged_bytes, Ordering::Relaxed);
            return Ok(false);
        }
        self.remove_abandoned();
        let mut flushed = Vec::new();
        let outcome =
            self.write_rowsets(&version, cut, &mut flushed).and_then(|()| self.publish_flush(cut, &flushed));
        match &outcome {
            Ok(()) => add(&self.counters.flushes, 1),
            Err(error) => {
                add(&self.counters.flush_failures, 1);
                tracing::error!(%error, "a flush failed; its rows stay in memory and in the log");
                self.abandon(flushed.iter().filter_map(|each| each.written.as_ref()).map(|(meta, _)| meta));
            }
        }
        outcome?;
        self.flushed_doubtful.store(doubtful, Ordering::Relaxed);
        self.flushed_log_bytes.store(logged_bytes, Ordering::Relaxed);
        self.wal().truncate_before(cut + 1)?;
        Ok(true)
    }

    /// Freezes the active memtables; every batch up to the returned sequence is in them.
    fn rotate(&self) -> (u64, Arc<Version>) {
        let _alone = block_on(self.gate.clone().write_owned());
        let _catalog = self.catalog.lock();
        let cut = self.watermark.get();
        let version = self.version();
        let mut rotated = Version::clone(&version);
        for table in version.tables.values() {
            if table.partitions.iter().any(|partition| partition.has_active_rows()) {
                let mut table = TableVersion::clone(table);
                for partition in &mut table.partitions {
                    if partition.has_active_rows() {
                        *partition = Arc::new(partition.rotated(cut));
                    }
                }
                rotated = rotated.with_table(table);
            }
        }
        self.publish(rotated);
        (cut, self.version())
    }

    fn write_rowsets(&self, version: &Version, cut: u64, flushed: &mut Vec<Flushed>) -> Result<()> {
        let min_sequence = self.catalog.lock().state.flushed_sequence + 1;
        for table in version.tables.values() {
            for partition in &table.partitions {
                if partition.frozen.is_empty() {
                    continue;
                }
                let sources = Sources {
                    rowsets: &[],
                    memtables: &partition.frozen,
                    oldest: partition.rowsets.is_empty(),
                    sequence: cut,
                    cancelled_by: None,
                };
                let written = self.write_rowset(table, partition.id, &sources, (min_sequence, cut))?;
                flushed.push(Flushed {
                    table: table.id,
                    partition: partition.id,
                    memtables: partition.frozen.clone(),
                    written,
                });
            }
        }
        Ok(())
    }

    /// Writes the rows of some sources as one rowset, synced; nothing if there are none.
    pub(crate) fn write_rowset(
        &self,
        table: &TableVersion,
        partition: u64,
        sources: &Sources<'_>,
        sequences: (u64, u64),
    ) -> Result<Option<(RowsetMeta, Written)>> {
        let mut meta = RowsetMeta {
            id: self.next_rowset.fetch_add(1, Ordering::Relaxed),
            table: table.id,
            partition,
            min_sequence: sequences.0,
            max_sequence: sequences.1,
            rows: 0,
            length_bytes: 0,
            min_time_ns: 0,
            max_time_ns: 0,
        };
        let path = self.rowset_dir().join(meta.file_name());
        let fs = &self.options.fs;
        let write = || -> Result<Written> {
            let mut writer = RowsetWriter::create(
                &**fs,
                &path,
                &table.schema,
                self.options.encoding,
                self.options.last_rows_from,
            )?;
            let wanted = Wanted::new(value_columns(&table.schema));
            if table.schema.is_series_keyed() {
                write_series(&mut writer, table, sources, wanted)?;
            } else {
                write_keyed(&mut writer, table, sources, wanted)?;
            }
            let written = writer.finish()?;
            if written.rows > 0 {
                written.file.sync_all()?;
            }
            Ok(written)
        };
        match write() {
            Ok(written) if written.rows > 0 => {
                meta.rows = written.rows;
                meta.length_bytes = written.length_bytes;
                (meta.min_time_ns, meta.max_time_ns) = (written.min_time_ns, written.max_time_ns);
                Ok(Some((meta, written)))
            }
            outcome => {
                // A file that stays is an orphan that the next start removes.
                let _ = fs.remove(&path);
                outcome.map(|_| None)
            }
        }
    }

    fn publish_flush(&self, cut: u64, flushed: &[Flushed]) -> Result<()> {
        self.options.fs.sync_dir(&self.rowset_dir())?;
        let mut catalog = self.catalog.lock();
        let version = self.version();
        let mut changed = Version::clone(&version);
        let mut edits = Vec::new();
        let mut unwanted = Vec::new();
        for Flushed { table, partition, memtables, written } in flushed {
            let found = changed.table(*table).ok().cloned();
            let found = found.and_then(|table| {
                let position = table.partitions.iter().position(|p| p.id == *partition)?;
                Some((table.partitions[position].clone(), table))
            });
            // Table or partition may have been dropped meanwhile.
            let Some((partition, table)) = found else {
                unwanted.extend(written.as_ref().map(|(meta, _)| meta.file_name()));
                continue;
            };
            let mut rowsets = partition.rowsets.clone();
            if let Some((meta, written)) = written {
                edits.push(Edit::PutRowset(meta.clone()));
                rowsets.push(Rowset::new(meta.clone(), self.source.clone()));
                add(&self.counters.flushed_rows, written.rows);
                add(&self.counters.flushed_bytes, written.length_bytes);
            }
            let partition = partition.with_rowsets(rowsets, memtables);
            changed = changed.with_table(table.with_partition(partition.id, Some(partition)));
        }
        let tombstones: BTreeMap<TableId, Vec<Arc<Tombstone>>> = changed
            .tables
            .values()
            .filter(|table| !table.tombstones.is_empty() || has_tombstones(&catalog.state, table.id))
            .map(|table| (table.id, needed_tombstones(table, cut)))
            .collect();
        for (id, tombstones) in tombstones {
            let durable = durable_tombstones(&tombstones, cut);
            if catalog.state.tables.get(&id).is_some_and(|table| table.tombstones != durable) {
                edits.push(Edit::SetTombstones { table: id, tombstones: durable });
            }
            let mut table = TableVersion::clone(changed.table(id)?);
            table.tombstones = tombstones;
            changed = changed.with_table(table);
        }
        edits.push(Edit::Flushed(cut));
        catalog.commit(edits)?;
        self.publish(changed);
        for name in unwanted {
            let _ = self.options.fs.remove(&self.rowset_dir().join(name));
        }
        Ok(())
    }
}

fn has_tombstones(state: &crate::catalog::CatalogState, id: TableId) -> bool {
    state.tables.get(&id).is_some_and(|table| !table.tombstones.is_empty())
}

/// The tombstones the manifest has to know: those that the log does not bring back.
pub(crate) fn durable_tombstones(tombstones: &[Arc<Tombstone>], flushed: u64) -> Vec<Tombstone> {
    let durable = tombstones.iter().filter(|tombstone| {
        tombstone.sequence <= flushed || matches!(tombstone.range, DeletedRange::Times(_))
    });
    durable.map(|tombstone| Tombstone::clone(tombstone)).collect()
}

/// The tombstones that still hide something, when everything up to `flushed` is in rowsets.
pub(crate) fn needed_tombstones(table: &TableVersion, flushed: u64) -> Vec<Arc<Tombstone>> {
    let needed = |tombstone: &Tombstone| {
        if tombstone.sequence > flushed {
            return true;
        }
        let by_time = match &tombstone.range {
            // Rowsets of dropped partitions are gone.
            DeletedRange::Times(_) => return false,
            _ => tombstone.times(),
        };
        table.partitions.iter().flat_map(|partition| &partition.rowsets).any(|rowset| {
            rowset.meta.max_sequence <= tombstone.sequence
                && by_time.is_none_or(|time| time.overlaps(rowset.meta.time()))
        })
    };
    table.tombstones.iter().filter(|tombstone| needed(tombstone)).cloned().collect()
}

fn write_series(
    writer: &mut RowsetWriter,
    table: &TableVersion,
    sources: &Sources<'_>,
    wanted: Wanted,
) -> Result<()> {
    let mut reader = PartitionReader::of(
        sources.rowsets,
        sources.memtables.iter(),
        &table.tombstones,
        sources.sequence,
        TimeRange::ALL,
        wanted.clone(),
    )?;
    reader.read_once();
    let finish = |mut piece: Piece<Vec<i64>>| {
        if sources.oldest {
            piece = merge::finish(piece, &wanted.kinds);
            piece.markers = None;
        }
        piece
    };
    let mut sweep = Sweep::new(sources, &wanted, !table.tombstones.is_empty())?;
    while let Some((series, rows)) = sweep.next()? {
        match rows {
            Swept::Rows(piece) if piece.markers.is_none() => writer.push_series(series, piece)?,
            Swept::Rows(piece) => writer.push_series(series, &finish(piece.clone()))?,
            Swept::Unread => {
                for segment in reader.segments(series, TimeRange::ALL)? {
                    let piece = reader.read_with_deletes(series, segment)?;
                    writer.push_series(series, &finish(piece))?;
                }
            }
        }
        sources.check_running()?;
    }
    Ok(())
}

fn write_keyed(
    writer: &mut RowsetWriter,
    table: &TableVersion,
    sources: &Sources<'_>,
    wanted: Wanted,
) -> Result<()> {
    let kinds = wanted.kinds.clone();
    let mut merged = KeyedMerge::new(table, sources.sequence, wanted, false);
    merged.add(&table.schema, sources.rowsets, sources.memtables.iter(), &KeyRange::all(), usize::MAX)?;
    while let Some(mut piece) = merged.next_piece()? {
        if sources.oldest {
            piece = merge::finish(piece, &kinds);
            piece.markers = None;
        }
        writer.push_keyed(&piece)?;
        sources.check_running()?;
    }
    Ok(())
}
