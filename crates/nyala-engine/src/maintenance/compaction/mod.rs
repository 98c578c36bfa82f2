//! Compaction: rowsets of a partition become one, or a few that lie one behind the other by key.
//!
//! `pick.rs` says which may be merged and which are worth it, `hidden.rs` which are worth rewriting because rows of
//! theirs are deleted. Rows that tombstones hide, versions that newer ones replace, and (where nothing older
//! is left in the partition) deletes are left out. Readers keep the old rowsets until they are done.

mod cuts;
mod hidden_rows;
mod pick;

pub(crate) use hidden_rows::pick_hidden;
pub(crate) use pick::{Candidate, FAN_IN_BUSY, FAN_IN_QUIET, pick};

use super::inputs::MergeInputs;
use super::output::{SplitPoints, WrittenRowset};
use super::pace::MergePace;
use super::{Maintenance, contained};
use crate::files::catalog::{Edit, put_rowset};
use crate::files::rowset::writer::{group_string_bytes, value_columns};
use crate::files::rowset::{
    GROUP_ROWS, KEYED_COLUMN_BYTES, KEYED_GROUP_BYTES, KEYED_GROUP_ROWS, Rowset, RowsetKind, RowsetMeta,
};
use crate::memory::version::{PartitionPast, PartitionVersion, TableVersion};
use crate::rows::column_buffer::Kind;
use crate::rows::tombstone::{Tombstone, durable_tombstones};
use crate::stats::add;
use nyala_core::memory::Component;
use nyala_core::{Error, ErrorKind, Result, TimeRange, span};
use parking_lot::Mutex;
use std::sync::Arc;

/// What a compaction reads.
struct Inputs {
    /// Without its partitions: a version held for as long as a compaction takes would hold memtables that were flushed
    /// meanwhile.
    table: TableVersion,
    /// Of the partition.
    range: TimeRange,
    rowsets: Vec<Arc<Rowset>>,
    /// Nothing older is in the partition.
    oldest: bool,
    /// Rows that tombstones up to this sequence hide are left out.
    clean_to: u64,
}

impl Inputs {
    /// From this sequence on what is made of them stands for their rows: all of them do then.
    fn since_sequence(&self) -> u64 {
        let whole_from = self.rowsets.iter().map(|rowset| RowsetMeta::whole_from(&rowset.meta));
        whole_from.fold(self.clean_to, u64::max)
    }
}

/// A partition that is being compacted, until this is dropped, by a panic, too.
struct Busy<'a> {
    compacting: &'a Mutex<Vec<u64>>,
    partition: u64,
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.compacting.lock().retain(|id| *id != self.partition);
    }
}

impl Maintenance {
    /// Merges every partition's rowsets; false if there was nothing to merge. Blocks.
    pub(crate) fn compact_all(&self) -> Result<bool> {
        let mut candidates = Vec::new();
        for table in self.versions.current().tables.values() {
            for partition in table.partitions.iter().filter(|partition| partition.rowsets.len() > 1) {
                let rowsets = partition.rowsets.iter().map(|rowset| rowset.meta.id).collect();
                let (table, partition) = (table.id, partition.id);
                candidates.push(Candidate {
                    table,
                    partition,
                    rowsets,
                    cuts: Vec::new(),
                    score: 0.0,
                    runs: 0,
                });
            }
        }
        let mut any = false;
        for candidate in candidates {
            any |= self.compact(&candidate, &MergePace::full(&self.signal))?;
        }
        Ok(any)
    }

    /// Does one compaction; false if its partition changed or another thread compacts it.
    pub(crate) fn compact(&self, candidate: &Candidate, pace: &MergePace<'_>) -> Result<bool> {
        {
            let mut busy = self.compacting.lock();
            if busy.contains(&candidate.partition) {
                return Ok(false);
            }
            busy.push(candidate.partition);
        }
        let busy = Busy { compacting: &self.compacting, partition: candidate.partition };
        let outcome = self.compact_partition(candidate, pace);
        drop(busy);
        if !matches!(&outcome, Err(error) if error.kind() == ErrorKind::Cancelled) {
            self.counters.compaction_failure.note(&outcome);
        }
        if let Err(error) = &outcome
            && error.kind() != ErrorKind::Cancelled
        {
            add(&self.counters.compaction_failures, 1);
            tracing::error!(%error, "a compaction failed; its rowsets stay as they are");
            self.set_aside(candidate, error);
        }
        outcome
    }

    /// Marks a rowset that cannot be read, so that it is not tried again and again; its neighbours are still compacted.
    fn set_aside(&self, candidate: &Candidate, error: &Error) {
        let version = self.versions.current();
        if let Some((_, partition)) = find(version.tables.get(&candidate.table), candidate.partition) {
            partition.set_unreadable(&candidate.rowsets, error);
        }
    }

    fn compact_partition(&self, candidate: &Candidate, pace: &MergePace<'_>) -> Result<bool> {
        let Some(inputs) = self.inputs(candidate) else { return Ok(false) };
        // If it is held from now on, nothing of these was written after that.
        if self.held.lock().contains(&candidate.partition) {
            return Ok(false);
        }
        let metas = || inputs.rowsets.iter().map(|rowset| &rowset.meta);
        let least = metas().map(|meta| meta.min_sequence).min().expect("there are inputs");
        let greatest = metas().map(|meta| meta.max_sequence).max().expect("there are inputs");
        let place = (candidate.partition, inputs.range);
        let running = self.queue.begin_merge(candidate.table, place, &inputs.rowsets);
        let table = inputs.table.schema.shown_name();
        let _traced = span!("merge", table, rows = running.rows(), files = inputs.rowsets.len()).entered();
        let merge_inputs = MergeInputs {
            kind: RowsetKind::Rows,
            rowsets: &inputs.rowsets,
            memtables: &[],
            tombstones: &inputs.table.tombstones,
            sequences: (least, greatest),
            oldest: inputs.oldest,
            keeps_sequences: false,
            // What it leaves out was deleted by then.
            since_sequence: if self.keeps_past() { inputs.since_sequence() } else { 0 },
            sequence: u64::MAX,
            written_rows: Some(&running.written_rows),
            pace: Some(pace),
        };
        let decoded_bytes = self.decoded_bytes(&inputs);
        let _decoded = self.budget.charge(Component::Maintenance, decoded_bytes);
        self.output.remove_abandoned();
        let bytes: u64 = metas().map(|meta| meta.length_bytes).sum();
        let bytes_max = equal_parts(bytes, self.options.rowset_bytes_max_of(&inputs.table.schema));
        let splits = SplitPoints { keys: &candidate.cuts, bytes_max };
        let mut written = Vec::new();
        let merged = contained(|| {
            self.output.write(&inputs.table, place, &merge_inputs, splits, &mut written)?;
            self.output.sync(written.iter_mut())?;
            self.output.sync_names()
        });
        let outcome = merged.and_then(|()| self.publish_compaction(candidate, &inputs, &written));
        if outcome.is_err() {
            self.output.abandon(written.iter().map(|written| &written.meta));
        }
        outcome
    }

    /// What the rows of inputs take: one row group of each rowset is decoded at a time, with all columns. Of texts it is known
    /// what they take in the file, and how many may be in a group.
    fn decoded_bytes(&self, inputs: &Inputs) -> u64 {
        let columns = value_columns(&inputs.table.schema);
        let words = (columns.len() as u64 + 2) * 8;
        let is_text = |(_, column_type): &&(_, _)| Kind::of(*column_type) == Kind::Bytes;
        let texts = columns.iter().filter(is_text).count();
        let (rows_max, text_bytes_max) = match inputs.table.schema.is_series_keyed() {
            true => (GROUP_ROWS, texts * group_string_bytes(&self.budget)),
            false => (KEYED_GROUP_ROWS, KEYED_GROUP_BYTES.max(texts * KEYED_COLUMN_BYTES)),
        };
        let of_rowset = |rowset: &Arc<Rowset>| {
            let RowsetMeta { rows, length_bytes, .. } = rowset.meta;
            let decoded = rows.min(rows_max as u64);
            let text_bytes = if texts > 0 { decoded * (length_bytes / rows.max(1)) } else { 0 };
            decoded * words + text_bytes.min(text_bytes_max as u64)
        };
        inputs.rowsets.iter().map(of_rowset).sum()
    }

    fn publish_compaction(
        &self,
        candidate: &Candidate,
        inputs: &Inputs,
        written: &[WrittenRowset],
    ) -> Result<bool> {
        let mut catalog = self.versions.catalog.lock();
        let version = self.versions.current();
        let Some((table, partition)) = find(version.tables.get(&candidate.table), candidate.partition) else {
            written.iter().for_each(|written| self.output.remove(&written.meta));
            return Ok(false);
        };
        let until_sequence = self.keeps_past().then(|| inputs.since_sequence());
        let retire = |rowset: &Arc<Rowset>| match until_sequence {
            Some(until_sequence) => Edit::Retire { table: table.id, id: rowset.meta.id, until_sequence },
            None => Edit::DropRowset { table: table.id, id: rowset.meta.id },
        };
        let mut edits: Vec<Edit> = inputs.rowsets.iter().map(retire).collect();
        let mut past = PartitionPast::clone(&partition.past);
        if let Some(until_sequence) = until_sequence {
            past.retired.extend(inputs.rowsets.iter().map(|rowset| (rowset.clone(), until_sequence)));
        }
        // Flushes only add, and no other compaction works on the partition.
        let is_input = |rowset: &Arc<Rowset>| inputs.rowsets.iter().any(|input| Arc::ptr_eq(input, rowset));
        let mut rowsets: Vec<Arc<Rowset>> = partition.rowsets.clone();
        rowsets.retain(|rowset| !is_input(rowset));
        for WrittenRowset { meta, .. } in written {
            edits.push(put_rowset(meta.clone()));
            let rowset = Rowset::new(meta.clone(), self.output.source.clone());
            rowset.set_clean_to(inputs.clean_to);
            rowsets.push(rowset);
            add(&self.counters.compacted_bytes_written, meta.length_bytes);
        }
        let partition = partition.with_rowsets(rowsets, &[]).with_past(past);
        let mut table = table.with_partition(partition.id, Some(partition));
        let flushed = catalog.state.flushed_sequence;
        // The others may hide rows of the same rowsets as before.
        let was_read =
            |tombstone: &Tombstone| inputs.rowsets.iter().any(|rowset| rowset.may_be_hidden_by(tombstone));
        table.retire_tombstones(flushed, self.keeps_past(), was_read);
        let durable = durable_tombstones(&table.all_tombstones(), flushed);
        edits.extend(catalog.state.tombstone_edits(table.id, &durable));
        self.writer.reserve.make_room(0);
        let changed = version.with_table(table);
        self.versions.commit(&mut catalog, edits, || self.versions.publish(changed))?;
        if until_sequence.is_none() {
            inputs.rowsets.iter().for_each(|rowset| rowset.set_obsolete());
        }
        add(&self.counters.compactions, 1);
        let read: u64 = inputs.rowsets.iter().map(|rowset| rowset.meta.length_bytes).sum();
        add(&self.counters.compacted_bytes_read, read);
        Ok(true)
    }

    /// The rowsets of a candidate; nothing if they are not all there any more.
    fn inputs(&self, candidate: &Candidate) -> Option<Inputs> {
        // Before the version: every tombstone up to it is there.
        let clean_to = self.durable_sequence();
        let version = self.versions.current();
        let (table, partition) = find(version.tables.get(&candidate.table), candidate.partition)?;
        let is_wanted = |rowset: &&Arc<Rowset>| candidate.rowsets.contains(&rowset.meta.id);
        let rowsets: Vec<_> = partition.rowsets.iter().filter(is_wanted).cloned().collect();
        if rowsets.len() != candidate.rowsets.len() {
            return None;
        }
        let first = rowsets.iter().map(|rowset| rowset.meta.min_sequence).min()?;
        let may_hide = |tombstone: &&Arc<Tombstone>| {
            tombstone.sequence <= clean_to && rowsets.iter().any(|rowset| rowset.may_be_hidden_by(tombstone))
        };
        let tombstones = table.tombstones.iter().filter(may_hide).cloned().collect();
        let table = TableVersion { tombstones, ..TableVersion::new(table.id, table.schema.clone()) };
        let oldest = !partition.rowsets.iter().any(|rowset| rowset.meta.max_sequence < first);
        Some(Inputs { table, range: partition.range, rowsets, oldest, clean_to })
    }
}

/// The length of the rowsets that so many bytes become, each of a greatest length: about the same, so that the last is no
/// sliver.
fn equal_parts(bytes: u64, bytes_max: u64) -> u64 {
    let parts = bytes.div_ceil(bytes_max);
    if parts < 2 {
        return bytes_max;
    }
    // What is written may be somewhat longer than what it was made of.
    let each = bytes.div_ceil(parts);
    bytes_max.min(each + each / 16)
}

fn find(
    table: Option<&Arc<TableVersion>>,
    partition: u64,
) -> Option<(&Arc<TableVersion>, &Arc<PartitionVersion>)> {
    let table = table?;
    let partition = table.partitions.iter().find(|other| other.id == partition)?;
    Some((table, partition))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::fs::SimulatedFs;
    use crate::{Engine, EngineOptions, block_on};
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Int64Type, TimestampNanosecondType, UInt64Type};
    use arrow_array::{Int64Array, TimestampNanosecondArray, UInt32Array, UInt64Array};
    use nyala_core::store::{
        Alteration, CellColumn, Operation, RowSelection, ScanRequest, Store, Upsert, WriteBatch, WriteMode,
    };
    use nyala_core::{ColumnId, ColumnSchema, ColumnType, TableId, TableSchema};
    use std::collections::BTreeMap;

    const ROWSET_BYTES: u64 = 64 << 10;

    fn engine(fs: &SimulatedFs) -> Result<Engine> {
        Engine::open(EngineOptions {
            fs: Arc::new(fs.clone()),
            maintenance_threads: 0,
            rowset_bytes_max: ROWSET_BYTES,
            ..EngineOptions::new("/data")
        })
    }

    fn write(engine: &Engine, table: TableId, rows: &[(u32, i64, i64)]) -> Result<()> {
        let cells = |id, values| CellColumn { column: ColumnId(id), values, null_cells: None };
        let columns = vec![
            cells(0, Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.0))) as _),
            cells(1, Arc::new(TimestampNanosecondArray::from_iter_values(rows.iter().map(|row| row.1))) as _),
            cells(2, Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.2))) as _),
        ];
        let upsert = Upsert { table, mode: WriteMode::Upsert, columns };
        block_on(engine.write(WriteBatch { operations: vec![Operation::Upsert(upsert)] })).map(drop)
    }

    fn rows(engine: &Engine, table: TableId) -> Result<BTreeMap<(u32, i64), i64>> {
        block_on(async {
            let request = ScanRequest::by_key(table, RowSelection::All, vec![ColumnId(1), ColumnId(2)]);
            let mut stream = engine.latest().scan(request).await?;
            let mut rows = BTreeMap::new();
            while let Some(batch) = stream.next().await? {
                let times = batch.columns[0].as_primitive::<TimestampNanosecondType>().values().iter();
                let values = batch.columns[1].as_primitive::<Int64Type>().values().iter();
                let runs = batch.series.iter();
                let series = runs.flat_map(|run| std::iter::repeat_n(run.series.0, run.rows as usize));
                for ((series, time_ns), value) in series.zip(times).zip(values) {
                    assert_eq!(rows.insert((series, *time_ns), *value), None, "a row comes once");
                }
            }
            Ok(rows)
        })
    }

    /// Rows of a batch, a different part of the keys each time, and values that do not shrink.
    fn batch(number: u64) -> Vec<(u32, i64, i64)> {
        let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        // Newer batches have series that older ones had not.
        let least = (number * 7 % 150) as u32;
        let mut keys: Vec<_> =
            (0..4000).map(|_| (least + (random() % 150) as u32, (random() % 250) as i64)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.into_iter().map(|(series, time_ns)| (series, time_ns, random() as i64)).collect()
    }

    fn table(engine: &Engine, width_ns: i64) -> Result<TableId> {
        let table = block_on(engine.create_table(TableSchema::measurement("cpu", width_ns)))?;
        let field = Alteration::add_column("v", ColumnType::Int64);
        block_on(engine.alter_table(table, vec![field]))?;
        Ok(table)
    }

    #[test]
    fn a_partition_of_any_size_is_merged_by_steps_of_bounded_size() -> Result<()> {
        let fs = SimulatedFs::new();
        let mut engine = engine(&fs)?;
        let table = table(&engine, 1000)?;
        let mut expected = BTreeMap::new();
        let (mut steps, mut largest) = (0, 0);
        for number in 0..120 {
            let rows_of_batch = batch(number);
            write(&engine, table, &rows_of_batch)?;
            expected.extend(rows_of_batch.into_iter().map(|(series, time, value)| ((series, time), value)));
            assert!(engine.flush()?);
            // Now and then there is time for a step, and at times for all there is to do.
            let most = if number % 30 == 29 { usize::MAX } else { 1 };
            for _ in 0..most {
                let Some(candidate) = engine.maintenance.merges(FAN_IN_QUIET).into_iter().next() else {
                    break;
                };
                let before = engine.stats().compacted_bytes_read;
                let pace = MergePace::full(&engine.maintenance.signal);
                assert!(engine.maintenance.compact(&candidate, &pace)?, "a candidate is found again");
                largest = largest.max(engine.stats().compacted_bytes_read - before);
                steps += 1;
                assert!(steps < 2000, "it ends");
            }
            if number % 30 == 17 {
                assert_eq!(rows(&engine, table)?, expected);
                drop(engine);
                engine = self::engine(&fs.snapshot())?;
                assert_eq!(rows(&engine, table)?, expected);
                drop(engine);
                engine = self::engine(&fs)?;
            }
        }
        assert_eq!(rows(&engine, table)?, expected);
        let stats = engine.stats();
        assert!(stats.rowset_bytes > 8 * ROWSET_BYTES, "{} bytes are more than a step", stats.rowset_bytes);
        assert!(largest < 16 * ROWSET_BYTES, "{largest} bytes in a step");
        // What is left of overwritten versions is in what is too little to be merged.
        let versions = stats.rowset_rows as f64 / expected.len() as f64;
        assert!(versions < 2.5, "{versions:.2} versions of a row, of 6 that were written");
        drop(engine);
        let report = crate::check(
            &(Arc::new(fs) as crate::files::fs::FsRef),
            std::path::Path::new("/data"),
            &mut |_| {},
        )?;
        assert!(report.damage.is_empty(), "{:?}", report.damage);
        Ok(())
    }

    /// Rows with random keys, in a table that is keyed by them.
    fn write_keyed(engine: &Engine, table: TableId, keys: impl Iterator<Item = u64> + Clone) -> Result<()> {
        let cells = |id, values| CellColumn { column: ColumnId(id), values, null_cells: None };
        let values = keys.clone().map(|key| (key >> 7) as i64);
        let columns = vec![
            cells(0, Arc::new(UInt64Array::from_iter_values(keys)) as _),
            cells(1, Arc::new(Int64Array::from_iter_values(values)) as _),
        ];
        let upsert = Upsert { table, mode: WriteMode::Upsert, columns };
        block_on(engine.write(WriteBatch { operations: vec![Operation::Upsert(upsert)] })).map(drop)
    }

    #[test]
    fn a_table_of_random_keys_stays_in_few_rowsets() -> Result<()> {
        let fs = SimulatedFs::new();
        let engine = engine(&fs)?;
        let columns = vec![
            ColumnSchema::new(ColumnId(0), "key", ColumnType::UInt64).required(),
            ColumnSchema::new(ColumnId(1), "v", ColumnType::Int64),
        ];
        let table = block_on(engine.create_table(TableSchema::keyed("t", columns, vec![ColumnId(0)])))?;
        let step = |fan_in| {
            let Some(candidate) = engine.maintenance.merges(fan_in).into_iter().next() else {
                return Ok(false);
            };
            engine.maintenance.compact(&candidate, &MergePace::full(&engine.maintenance.signal))
        };
        let mut most = 0;
        for number in 0..150_u64 {
            let keys =
                (number * 3000..(number + 1) * 3000).map(|row| row.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            write_keyed(&engine, table, keys)?;
            assert!(engine.flush()?);
            // Steps while rows come in, now and then fewer than there are to do.
            for _ in 0..number % 4 {
                step(FAN_IN_BUSY)?;
            }
            most = most.max(engine.stats().rowsets);
        }
        let mut steps = 0;
        while step(FAN_IN_QUIET)? {
            steps += 1;
            assert!(steps < 2000, "it ends");
        }
        let stats = engine.stats();
        let full = stats.rowset_bytes / ROWSET_BYTES;
        assert!(full > 50, "{full} rowsets of the greatest length");
        assert!(stats.rowsets <= 3 * full, "{} rowsets for what {full} can hold", stats.rowsets);
        assert!(most <= 8 * full, "{most} rowsets at one moment, where {full} could hold all rows");
        let mut stream = block_on(engine.latest().scan(ScanRequest::by_key(
            table,
            RowSelection::All,
            vec![ColumnId(0), ColumnId(1)],
        )))?;
        let mut keys: Vec<u64> = Vec::new();
        while let Some(batch) = block_on(stream.next())? {
            keys.extend(batch.columns[0].as_primitive::<UInt64Type>().values());
        }
        assert_eq!(keys.len(), 450_000);
        assert!(keys.is_sorted());
        Ok(())
    }
}
