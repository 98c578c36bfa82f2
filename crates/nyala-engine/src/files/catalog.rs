//! The catalog: tables, partitions, rowsets and tombstones of the store, and how changes of them become durable.
//!
//! The state is changed by edits; an edit is in the manifest, synced, before the store acts on it. A
//! checkpoint is the whole state written as edits, so there is one encoding. The bytes are drawn in
//! `docs/format/manifest.md` and here:
//! ```text
//! edits: kind (8 bits) | members in the order of their declaration, little-endian, texts and lists with
//! their length (32 bits) in front
//! ```

mod edit;
mod times;

pub(crate) use edit::{Edit, put_rowset};
pub(crate) use times::{TimeStep, TimeSteps};

use crate::collections::id_map::IdMap;
use crate::collections::table_map::TableMap;
use crate::failure::LastFailure;
use crate::files::fs::FsRef;
use crate::files::manifest_log::{self, LoadedManifest, ManifestLog};
use crate::files::rowset::{RowsetKind, RowsetMeta};
use crate::files::wal::Progress;
use crate::rows::tombstone::Tombstone;
use crate::rows::wire::Reader;
use nyala_core::{ColumnId, Error, Result, TableId, TableSchema, TimeRange};
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A table in the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CatalogTable {
    pub(crate) schema: Arc<TableSchema>,
    /// Columns that were dropped: rowsets may still hold cells of theirs.
    pub(crate) dropped_columns: Vec<ColumnId>,
    pub(crate) partitions: IdMap<TimeRange>,
    pub(crate) rowsets: IdMap<RowsetMeta>,
    /// By sequence.
    pub(crate) tombstones: Vec<Arc<Tombstone>>,
    /// Rowsets that others were made of, which are kept for reading the past.
    pub(crate) retired: IdMap<RetiredMeta>,
    /// Versions of rows, for reading the past.
    pub(crate) versions: IdMap<RowsetMeta>,
}

impl CatalogTable {
    /// The files that are kept for reading the past.
    pub(crate) fn past_metas(&self) -> impl Iterator<Item = &RowsetMeta> {
        self.retired.values().map(|retired| &retired.meta).chain(self.versions.values())
    }
}

/// A rowset that others were made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RetiredMeta {
    pub(crate) meta: RowsetMeta,
    /// From this sequence on the others stand for its rows.
    pub(crate) until_sequence: u64,
}

/// Everything the manifest says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct CatalogState {
    pub(crate) next_table: u32,
    pub(crate) next_partition: u64,
    pub(crate) next_rowset: u64,
    /// Batches up to here are in rowsets: the log is replayed from the next.
    pub(crate) flushed_sequence: u64,
    /// The newest segment of the log, and the last record known to be synced, when this was written: they must be
    /// there.
    pub(crate) log_segment: u64,
    pub(crate) log_sequence: u64,
    /// Acknowledged data that is lost, until an operator accepts it.
    pub(crate) losses: Vec<String>,
    /// What was before this sequence is not known any more.
    pub(crate) past_from: u64,
    /// When batches up to the flushed sequence were written; none if the past is not kept.
    pub(crate) times: TimeSteps,
    pub(crate) tables: TableMap<CatalogTable>,
}

impl CatalogState {
    fn table_mut(&mut self, id: TableId) -> Result<&mut CatalogTable> {
        self.tables.get_mut(&id).ok_or_else(|| Error::missing(format!("table {id}")))
    }

    pub(crate) fn apply(&mut self, edit: Edit) -> Result<()> {
        match edit {
            Edit::Counters { next_table, next_partition, next_rowset } => {
                self.next_table = self.next_table.max(next_table);
                self.next_partition = self.next_partition.max(next_partition);
                self.next_rowset = self.next_rowset.max(next_rowset);
            }
            Edit::PutTable { id, schema, dropped_columns } => {
                self.next_table = self.next_table.max(id.0.saturating_add(1));
                match self.tables.get_mut(&id) {
                    Some(table) => (table.schema, table.dropped_columns) = (schema, dropped_columns),
                    None => {
                        let table = CatalogTable {
                            schema,
                            dropped_columns,
                            partitions: IdMap::default(),
                            rowsets: IdMap::default(),
                            tombstones: Vec::new(),
                            retired: IdMap::default(),
                            versions: IdMap::default(),
                        };
                        self.tables.insert(id, Arc::new(table));
                    }
                }
            }
            Edit::DropTable(id) => drop(self.tables.remove(&id)),
            Edit::PutPartition { table, id, range } => {
                self.next_partition = self.next_partition.max(id.saturating_add(1));
                self.table_mut(table)?.partitions.insert(id, range);
            }
            Edit::DropPartition { table, id } => {
                let table = self.table_mut(table)?;
                table.partitions.remove(id);
                table.rowsets.retain(|rowset| rowset.partition != id);
                table.retired.retain(|retired| retired.meta.partition != id);
                table.versions.retain(|versions| versions.partition != id);
            }
            Edit::PutRowset(meta) | Edit::PutCompacted(meta) | Edit::PutVersions(meta) => {
                self.next_rowset = self.next_rowset.max(meta.id.saturating_add(1));
                let table = self.table_mut(meta.table)?;
                if !table.partitions.contains(meta.partition) {
                    return Err(Error::missing(format!("partition {}", meta.partition)));
                }
                match meta.kind {
                    RowsetKind::Rows => table.rowsets.insert(meta.id, meta),
                    RowsetKind::Versions => table.versions.insert(meta.id, meta),
                    RowsetKind::Staged => return Err(Error::invalid("a file of a stage in the manifest")),
                }
            }
            Edit::Retire { table, id, until_sequence } => {
                let table = self.table_mut(table)?;
                let meta = table.rowsets.get(id).cloned();
                let meta = meta.ok_or_else(|| Error::missing(format!("rowset {id}")))?;
                table.rowsets.remove(id);
                table.retired.insert(id, RetiredMeta { meta, until_sequence });
            }
            Edit::ForgetRowset { table, id } => {
                let table = self.table_mut(table)?;
                table.retired.remove(id);
                table.versions.remove(id);
            }
            Edit::AddTimes(steps) => self.times.append(&steps),
            Edit::ForgetPast(sequence) => {
                self.past_from = sequence;
                self.times.forget_before(if sequence == 0 { u64::MAX } else { sequence });
            }
            Edit::DropRowset { table, id } => self.table_mut(table)?.rowsets.remove(id),
            Edit::SetTombstones { table, mut tombstones } => {
                tombstones.sort_by_key(|tombstone| tombstone.sequence);
                self.table_mut(table)?.tombstones = tombstones;
            }
            Edit::AddTombstones { table, tombstones } => {
                let all = &mut self.table_mut(table)?.tombstones;
                all.extend(tombstones);
                all.sort_by_key(|tombstone| tombstone.sequence);
            }
            Edit::DropTombstones { table, mut sequences } => {
                sequences.sort_unstable();
                let is_kept =
                    |tombstone: &Arc<Tombstone>| sequences.binary_search(&tombstone.sequence).is_err();
                self.table_mut(table)?.tombstones.retain(is_kept);
            }
            Edit::Flushed(sequence) => self.flushed_sequence = self.flushed_sequence.max(sequence),
            Edit::Log { segment, sequence } => (self.log_segment, self.log_sequence) = (segment, sequence),
            Edit::SetLosses(losses) => self.losses = losses,
        }
        Ok(())
    }

    /// The edits after which a table has these tombstones, which are by sequence. What does not change is not written again.
    pub(crate) fn tombstone_edits(&self, table: TableId, mut wanted: &[Arc<Tombstone>]) -> Vec<Edit> {
        let Some(known) = self.tables.get(&table) else { return Vec::new() };
        let mut known = &known.tombstones[..];
        let (mut sequences, mut tombstones) = (Vec::new(), Vec::new());
        while let Some(next) = known.first().into_iter().chain(wanted.first()).map(|each| each.sequence).min()
        {
            // Mostly one has it. What was dropped at once has the same.
            let of_next = |all: &[Arc<Tombstone>]| all.partition_point(|each| each.sequence <= next);
            let ((old, later), (new, wanted_later)) =
                (known.split_at(of_next(known)), wanted.split_at(of_next(wanted)));
            if old != new {
                sequences.extend(old.first().map(|_| next));
                tombstones.extend(new.iter().cloned());
            }
            (known, wanted) = (later, wanted_later);
        }
        let mut edits = Vec::new();
        if !sequences.is_empty() {
            edits.push(Edit::DropTombstones { table, sequences });
        }
        if !tombstones.is_empty() {
            edits.push(Edit::AddTombstones { table, tombstones });
        }
        edits
    }

    /// The largest sequence that anything here speaks of. The log may have lost records up to it (synced rarely, or
    /// damaged), and what is written from now on must not be taken for them.
    pub(crate) fn last_sequence(&self) -> u64 {
        let tombstones = self.tables.values().flat_map(|table| &table.tombstones);
        let rowsets = self.tables.values().flat_map(|table| table.rowsets.values());
        let retired = self.tables.values().flat_map(|table| table.retired.values());
        let sequences = tombstones
            .map(|tombstone| tombstone.sequence)
            .chain(rowsets.map(RowsetMeta::whole_from))
            .chain(retired.map(|retired| retired.until_sequence));
        sequences.max().unwrap_or(0).max(self.flushed_sequence).max(self.log_sequence).max(self.past_from)
    }

    /// The state as edits of an empty one.
    fn edits(&self) -> Vec<Edit> {
        let mut edits = vec![
            Edit::Counters {
                next_table: self.next_table,
                next_partition: self.next_partition,
                next_rowset: self.next_rowset,
            },
            Edit::Flushed(self.flushed_sequence),
            Edit::Log { segment: self.log_segment, sequence: self.log_sequence },
        ];
        if !self.losses.is_empty() {
            edits.push(Edit::SetLosses(self.losses.clone()));
        }
        if !self.times.is_empty() || self.past_from > 0 {
            edits.push(Edit::ForgetPast(self.past_from));
            edits.push(Edit::AddTimes(self.times.iter().collect()));
        }
        for (id, table) in self.tables.iter() {
            edits.push(Edit::PutTable {
                id: *id,
                schema: table.schema.clone(),
                dropped_columns: table.dropped_columns.clone(),
            });
            edits.extend(table.partitions.iter().map(|(partition, range)| Edit::PutPartition {
                table: *id,
                id: partition,
                range: *range,
            }));
            edits.extend(table.rowsets.values().cloned().map(put_rowset));
            for RetiredMeta { meta, until_sequence } in table.retired.values() {
                edits.push(put_rowset(meta.clone()));
                edits.push(Edit::Retire { table: *id, id: meta.id, until_sequence: *until_sequence });
            }
            edits.extend(table.versions.values().cloned().map(Edit::PutVersions));
            if !table.tombstones.is_empty() {
                edits.push(Edit::SetTombstones { table: *id, tombstones: table.tombstones.clone() });
            }
        }
        edits
    }
}

/// The state and its manifest.
pub(crate) struct Catalog {
    pub(crate) state: CatalogState,
    /// The names of all tables.
    names: HashSet<String>,
    pub(crate) log: ManifestLog,
    progress: Arc<Progress>,
    /// For those who do not wait for the lock.
    pub(crate) health: Arc<ManifestHealth>,
}

/// Whether the manifest can be written.
#[derive(Debug, Default)]
pub(crate) struct ManifestHealth {
    pub(crate) failures: AtomicU64,
    pub(crate) last_failure: LastFailure,
}

impl ManifestHealth {
    fn note<T>(&self, outcome: &Result<T>) {
        if outcome.is_err() {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        self.last_failure.note(outcome);
    }
}

/// Reads the state of a directory and its revision; nothing if there is no store in it.
pub(crate) fn load(fs: &FsRef, dir: &Path) -> Result<Option<(CatalogState, u64)>> {
    let Some(loaded) = manifest_log::load(fs, dir)? else { return Ok(None) };
    match decode(&loaded) {
        (state, None) => Ok(Some((state, loaded.revision))),
        (_, Some(error)) => Err(Error::corrupt(dir, 0, format!("the manifest: {error}"))),
    }
}

/// The state that a manifest tells, and why not all of it can be read.
pub(crate) fn decode(manifest: &LoadedManifest) -> (CatalogState, Option<Error>) {
    let mut state = CatalogState::default();
    for bytes in [&manifest.checkpoint].into_iter().chain(&manifest.edits) {
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            if let Err(error) = Edit::decode(&mut reader).and_then(|edit| state.apply(edit)) {
                return (state, Some(error));
            }
        }
    }
    (state, None)
}

impl Catalog {
    /// Begins a generation of the manifest with a state that was read at a revision. `progress` is shared with the log.
    pub(crate) fn begin(
        fs: FsRef,
        dir: &Path,
        state: CatalogState,
        revision: u64,
        progress: Arc<Progress>,
    ) -> Result<Self> {
        let log = ManifestLog::begin(fs, dir, &encode(&state.edits()), revision)?;
        progress.set_revision(log.revision);
        let names = state.tables.values().map(|table| table.schema.name.clone()).collect();
        Ok(Self { state, names, log, progress, health: Arc::default() })
    }

    /// Whether a table has this name.
    pub(crate) fn is_taken(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Whether it is known which edits are durable. If it is not, this tries to make it known.
    pub(crate) fn settle(&mut self) -> bool {
        self.log.usable || self.checkpoint(0).is_ok()
    }

    fn checkpoint(&mut self, edit_bytes: u64) -> Result<()> {
        let written = self.log.checkpoint(&encode(&self.state.edits()), edit_bytes);
        self.health.note(&written);
        written?;
        self.progress.set_revision(self.log.revision);
        Ok(())
    }

    /// Whether the log has begun a segment that the manifest does not know.
    pub(crate) fn is_behind_log(&self) -> bool {
        self.state.log_segment < self.progress.of_log().0
    }

    /// Makes edits durable together, then applies them. After an error none is applied.
    pub(crate) fn commit(&mut self, mut edits: Vec<Edit>) -> Result<()> {
        let (segment, sequence) = self.progress.of_log();
        // Replay opens the log only after it; until then what is known of it stays.
        if segment > 0 && (segment, sequence) != (self.state.log_segment, self.state.log_sequence) {
            edits.push(Edit::Log { segment, sequence });
        }
        // Numbers given out are not given out again, whatever fails.
        let refused = |error: Error| {
            Error::retry(format!("the manifest cannot be written now, nothing was changed: {error}"))
        };
        let bytes = encode(&edits);
        if self.log.wants_checkpoint(bytes.len() as u64) {
            self.checkpoint(bytes.len() as u64).map_err(refused)?;
        }
        let mut changed = self.state.clone();
        let (given_up, given) = self.changed_names(&edits);
        edits.into_iter().try_for_each(|edit| changed.apply(edit))?;
        let appended = self.log.append(&bytes);
        self.health.note(&appended);
        if let Err(error) = appended {
            // Only a checkpoint says for sure that the edit is not there. If it fails too the next commit begins
            // with one; a crash before that may bring the edit back, which is as if the answer had been lost.
            self.settle();
            return Err(refused(error));
        }
        self.progress.set_revision(self.log.revision);
        self.state = changed;
        for name in given_up {
            self.names.remove(&name);
        }
        self.names.extend(given);
        Ok(())
    }

    /// Which names tables do not have any more after some edits, and which they have then.
    fn changed_names(&self, edits: &[Edit]) -> (Vec<String>, Vec<String>) {
        let (mut given_up, mut given) = (Vec::new(), Vec::new());
        let name = |id| self.state.tables.get(id).map(|table| &table.schema.name);
        for edit in edits {
            match edit {
                Edit::PutTable { id, schema, .. } if name(id) != Some(&schema.name) => {
                    given_up.extend(name(id).cloned());
                    given.push(schema.name.clone());
                }
                Edit::DropTable(id) => given_up.extend(name(id).cloned()),
                _ => {}
            }
        }
        (given_up, given)
    }
}

fn encode(edits: &[Edit]) -> Vec<u8> {
    let mut out = Vec::new();
    edits.iter().for_each(|edit| edit.encode(&mut out));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::tombstone::DeletedRange;
    use proptest::prelude::*;

    /// One that hides times up to its number.
    fn tombstone((sequence, number): (u64, i64)) -> Arc<Tombstone> {
        Arc::new(Tombstone::new(sequence, DeletedRange::Times(TimeRange::new(0, number))))
    }

    fn state_with(tombstones: Vec<Arc<Tombstone>>) -> CatalogState {
        let (table, mut state) = (TableId(7), CatalogState::default());
        let schema = Arc::new(TableSchema::measurement("cpu", 1000));
        for edit in [
            Edit::PutTable { id: table, schema, dropped_columns: Vec::new() },
            Edit::SetTombstones { table, tombstones },
        ] {
            state.apply(edit).expect("applies");
        }
        state
    }

    #[test]
    fn edits_name_only_the_tombstones_that_change() {
        let table = TableId(7);
        let all: Vec<_> = (1..100).map(|sequence| tombstone((sequence, 5))).collect();
        let mut state = state_with(all.clone());
        assert_eq!(state.tombstone_edits(table, &all), []);
        assert_eq!(state.tombstone_edits(TableId(8), &all), [], "it was dropped");
        let mut wanted = all.clone();
        wanted.remove(49);
        wanted.push(tombstone((100, 6)));
        let edits = state.tombstone_edits(table, &wanted);
        let expected = [
            Edit::DropTombstones { table, sequences: vec![50] },
            Edit::AddTombstones { table, tombstones: vec![tombstone((100, 6))] },
        ];
        assert_eq!(edits, expected);
        // As they are read from the manifest.
        let bytes = encode(&edits);
        let mut reader = Reader::new(&bytes);
        while !reader.is_empty() {
            state.apply(Edit::decode(&mut reader).expect("decodes")).expect("applies");
        }
        assert_eq!(state.tables.get(&table).map(|table| &table.tombstones), Some(&wanted));
        for length in 0..bytes.len() {
            let mut reader = Reader::new(&bytes[..length]);
            while !reader.is_empty() && Edit::decode(&mut reader).is_ok() {}
        }
        let of_none = Edit::AddTombstones { table: TableId(8), tombstones: Vec::new() };
        assert!(state.apply(of_none).is_err(), "there is no such table");
    }

    proptest! {
        #[test]
        fn edits_make_some_tombstones_others(
            before in prop::collection::vec((0_u64..6, 0_i64..4), 0..12),
            after in prop::collection::vec((0_u64..6, 0_i64..4), 0..12),
        ) {
            let sorted = |mut all: Vec<(u64, i64)>| -> Vec<Arc<Tombstone>> {
                all.sort_by_key(|each| each.0);
                all.into_iter().map(tombstone).collect()
            };
            let (mut state, after) = (state_with(sorted(before)), sorted(after));
            for edit in state.tombstone_edits(TableId(7), &after) {
                state.apply(edit).expect("applies");
            }
            prop_assert_eq!(&state.tables.get(&TableId(7)).expect("is there").tombstones, &after);
        }
    }

    #[test]
    fn a_state_survives_its_encoding() {
        let mut state = CatalogState::default();
        let mut schema = TableSchema::measurement("cpu", 1000);
        schema.partitioning.hash = vec![(vec![ColumnId(0)], 4)];
        schema.next_column = ColumnId(10);
        let table = TableId(7);
        let edits = [
            Edit::PutTable { id: table, schema: Arc::new(schema), dropped_columns: vec![ColumnId(9)] },
            Edit::PutPartition { table, id: 3, range: TimeRange::new(-5, 5) },
            Edit::PutRowset(RowsetMeta {
                id: 11,
                table,
                partition: 3,
                kind: RowsetKind::Rows,
                since_sequence: 0,
                min_sequence: 1,
                max_sequence: 9,
                rows: 5,
                length_bytes: 100,
                min_time_ns: -5,
                max_time_ns: 4,
            }),
            Edit::SetTombstones {
                table,
                tombstones: vec![Arc::new(Tombstone::new(4, DeletedRange::Times(TimeRange::ALL)))],
            },
            Edit::Flushed(9),
            Edit::Log { segment: 3, sequence: 12 },
            Edit::SetLosses(vec!["record 11".to_owned()]),
        ];
        for edit in edits {
            state.apply(edit).expect("applies");
        }
        let bytes = encode(&state.edits());
        let (mut reader, mut copy) = (Reader::new(&bytes), CatalogState::default());
        while !reader.is_empty() {
            copy.apply(Edit::decode(&mut reader).expect("decodes")).expect("applies");
        }
        assert_eq!(copy, state);
        assert_eq!((copy.next_table, copy.next_partition, copy.next_rowset), (8, 4, 12));
        for length in 0..bytes.len() {
            let mut reader = Reader::new(&bytes[..length]);
            while !reader.is_empty() && Edit::decode(&mut reader).is_ok() {}
        }
    }
}
