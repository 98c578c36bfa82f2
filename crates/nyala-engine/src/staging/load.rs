//! Large batches go past the memtables: from their columns into the rowsets of a run.
//!
//! In a memtable each row would get a place in an ordered map, and it would be encoded twice, when it leaves memory and
//! again for the commit. So a stage that is too large for the log takes such batches as columns, which wait in memory as
//! long as the order of their keys asks for it (`sorted_load.rs`). A load ends when the stage is read, when something else
//! is written to its table, or when rows come whose place in the run is written already.

use super::sorted_load::SortedLoad;
use super::staged_rows::StagedRows;
use crate::files::rowset::Rowset;
use crate::files::rowset::writer::value_columns;
use crate::maintenance::Maintenance;
use crate::maintenance::loaded_run::LoadedRun;
use crate::maintenance::output::WrittenRowset;
use crate::memory::memtable::{PreparedCells, PreparedKeys, PreparedUpsert};
use crate::memory::version::{PartitionVersion, TableVersion};
use crate::reading::scan::existence::existing;
use crate::rows::byte_vec::ByteVec;
use crate::rows::column_buffer::{ABSENT, Column, Kind, VALUE};
use crate::rows::merge::{RowBatch, collapse};
use nyala_core::store::{Operation, Upsert, WriteBatch, WriteMode};
use nyala_core::{ColumnId, ColumnType, Error, Result, TableId, TableSchema};

/// Tables that a stage loads at once, each with an open file.
const LOADS_MAX: usize = 8;
/// A batch with more bytes is not taken: lengths in it have 32 bits.
const BATCH_BYTES_MAX: u64 = 256 << 20;

/// The upsert that a batch consists of, if its rows can be loaded.
pub(super) fn loadable<'a>(version: &TableVersion, batch: &'a WriteBatch, bytes: u64) -> Option<&'a Upsert> {
    let [Operation::Upsert(upsert)] = &batch.operations[..] else { return None };
    let schema = &version.schema;
    let is_decided = match upsert.mode {
        WriteMode::Insert => true,
        WriteMode::Upsert => !upsert.depends_on_rows(schema),
        _ => false,
    };
    // All rows of such a table are in one partition.
    let has_one_partition = !schema.is_series_keyed() && schema.time_key().is_none();
    (is_decided && has_one_partition && bytes <= BATCH_BYTES_MAX && upsert.rows() > 0).then_some(upsert)
}

/// A batch as its rows are stored: sorted, with one row for each key.
pub(super) struct SortedRows {
    pub(super) rows: RowBatch<ByteVec>,
    /// Which row of the batch each was, if they came in another order.
    order: Option<Vec<u32>>,
}

impl SortedRows {
    /// The rows of a validated upsert. Rows that are inserted get defaults; two of them with one key are a conflict. Of
    /// others the last one with a key wins.
    pub(super) fn of(schema: &TableSchema, upsert: &Upsert) -> Result<Self> {
        let is_insert = upsert.mode == WriteMode::Insert;
        let upsert = match is_insert {
            true => &upsert.clone().with_defaults(schema, |_| true)?,
            false => upsert,
        };
        let prepared = PreparedUpsert::new(upsert, schema);
        let columns = value_columns(schema);
        let kinds: Vec<Kind> = columns.iter().map(|(_, column_type)| Kind::of(*column_type)).collect();
        let column = |((id, _), kind): (&(ColumnId, ColumnType), &Kind)| match prepared
            .cells
            .iter()
            .find(|cells| cells.column == *id)
        {
            Some(cells) => column_of(cells, prepared.keys.rows),
            None => {
                let mut column = Column::new(*kind);
                column.push_state(ABSENT, prepared.keys.rows);
                column
            }
        };
        let columns: Vec<Column> = columns.iter().zip(&kinds).map(column).collect();
        let (keys, ascends) = encoded_keys(&prepared.keys);
        if ascends {
            return Ok(Self { rows: RowBatch { keys, markers: None, columns }, order: None });
        }
        let mut order: Vec<u32> = (0..keys.len() as u32).collect();
        // Of equal keys the later rows come later.
        order.sort_by(|a, b| keys.get(*a as usize).cmp(keys.get(*b as usize)));
        let is_twice = |pair: &&[u32]| keys.get(pair[0] as usize) == keys.get(pair[1] as usize);
        let twice = order.windows(2).find(is_twice).map(|pair| pair[1] as usize);
        if let (Some(row), true) = (twice, is_insert) {
            return Err(taken(schema, row));
        }
        let mut sorted = ByteVec::new();
        order.iter().for_each(|row| sorted.push(keys.get(*row as usize)));
        let columns = columns.iter().map(|column| column.take(&order)).collect();
        let mut rows = RowBatch { keys: sorted, markers: None, columns };
        if twice.is_some() {
            rows = collapse(rows, &kinds);
        }
        Ok(Self { rows, order: Some(order) })
    }

    fn first_key(&self) -> &[u8] {
        self.rows.keys.get(0)
    }

    /// Which row of its batch one was, if no two of them have one key.
    fn place_in_batch(&self, row: usize) -> usize {
        self.order.as_ref().map_or(row, |order| order[row] as usize)
    }
}

/// The keys of a batch, and whether they ascend.
fn encoded_keys(prepared: &PreparedKeys<'_>) -> (ByteVec, bool) {
    let (mut keys, mut key, mut last, mut ascends) = (ByteVec::new(), Vec::new(), Vec::new(), true);
    for row in 0..prepared.rows {
        prepared.encode(row, &mut key);
        ascends &= row == 0 || last < key;
        keys.push(&key);
        std::mem::swap(&mut key, &mut last);
    }
    (keys, ascends)
}

fn taken(schema: &TableSchema, row: usize) -> Error {
    Error::conflict(format!("table {}: a key of row {row} exists", schema.shown_name()))
}

fn column_of(cells: &PreparedCells<'_>, rows: usize) -> Column {
    let (source, kind) = (&cells.source, cells.source.kind());
    if let (true, Kind::Word) = (cells.all_values, kind) {
        return Column::words(match cells.words {
            Some(words) => words.to_vec(),
            None => (0..rows).map(|row| source.word(row)).collect(),
        });
    }
    let mut column = Column::new(kind);
    column.reserve(rows);
    for row in 0..rows {
        match (cells.state(row), kind) {
            (VALUE, Kind::Word) => column.push_word(source.word(row)),
            (VALUE, Kind::Wide) => column.push_wide(source.wide(row)),
            (VALUE, Kind::Bytes) => column.push_bytes(source.bytes(row)),
            (state, _) => column.push_state(state, 1),
        }
    }
    column
}

impl StagedRows {
    /// Fails if a row has the key of one that is to be inserted.
    pub(super) fn check_new(&self, id: TableId, sorted: &SortedRows) -> Result<()> {
        let waiting = self.load_of(id).and_then(|load| load.first_waiting(&sorted.rows.keys));
        let found = match waiting {
            None => self.first_taken(id, &sorted.rows.keys)?,
            waiting => waiting,
        };
        match found {
            None => Ok(()),
            Some(row) => Err(taken(&self.version.table(id)?.schema, sorted.place_in_batch(row))),
        }
    }

    /// The first of some ascending keys that has a row. Rows of loads are not looked at.
    fn first_taken(&self, id: TableId, keys: &ByteVec) -> Result<Option<usize>> {
        let table = self.version.table(id)?;
        let Some(position) = table.partition_at(0) else { return Ok(None) };
        let partition = &table.partitions[position];
        let Some(last) = keys.len().checked_sub(1) else { return Ok(None) };
        let (first, last) = (keys.get(0), keys.get(last));
        let mut is_among = false;
        for memtable in partition.memtables() {
            memtable.check()?;
            is_among |= memtable.keyed().is_some_and(|keyed| keyed.has_between(first, last));
        }
        is_among |= partition.key_layers()?.iter().any(|layer| !layer.between(first, last).is_empty());
        if !is_among {
            return Ok(None);
        }
        let exist = existing(table, self.sequence, (0..keys.len()).map(|row| keys.get(row)))?;
        Ok(exist.into_iter().position(|exists| exists))
    }

    /// The load of a table.
    pub(super) fn load_of(&self, id: TableId) -> Option<&SortedLoad> {
        self.loads.iter().find(|load| load.run.table().id == id)
    }

    /// Ends the load of a table if rows do not find their places in its run any more.
    pub(super) fn end_load_before(
        &mut self,
        maintenance: &Maintenance,
        id: TableId,
        sorted: &SortedRows,
    ) -> Result<()> {
        match self.load_of(id).is_some_and(|load| !load.takes(sorted.first_key())) {
            true => self.end_loads(maintenance, |table| table == id),
            false => Ok(()),
        }
    }

    /// Adds rows to the load of a table, which begins with them if there is none. The memtables of the stage are empty
    /// then. At most so many bytes wait in memory. After an error the stage is of no use.
    pub(super) fn load(
        &mut self,
        maintenance: &Maintenance,
        operation: &Operation,
        sorted: SortedRows,
        waiting_bytes_max: u64,
    ) -> Result<()> {
        // Until it has succeeded.
        self.has_failed = true;
        let id = operation.table();
        self.make_partitions(operation)?;
        if self.load_of(id).is_none() {
            if self.loads.len() >= LOADS_MAX {
                self.end_loads(maintenance, |_| true)?;
            }
            // What is older has to be on the disk, because readers take rowsets to be older than memtables.
            self.spill_opened(maintenance, id)?;
            let table = self.version.table(id)?;
            let partition = &table.partitions[table.partition_at(0).expect("was just made")];
            let run = LoadedRun::new(table, (partition.id, partition.range), &maintenance.output);
            let kinds = value_columns(&table.schema).iter().map(|(_, each)| Kind::of(*each)).collect();
            let bytes_max = maintenance.options.rowset_bytes_max_of(&table.schema);
            self.loads.push(SortedLoad::new(run, kinds, bytes_max));
        }
        self.sequence += 1;
        self.written.insert(id);
        let load = self.loads.iter_mut().find(|load| load.run.table().id == id).expect("was just made");
        load.push(sorted.rows, self.sequence);
        self.write_waiting(maintenance, waiting_bytes_max)?;
        self.has_failed = false;
        Ok(())
    }

    /// What waits in memory to be loaded.
    pub(super) fn waiting_bytes(&self) -> u64 {
        self.loads.iter().map(SortedLoad::waiting_bytes).sum()
    }

    /// Writes rows that wait until they take no more than so many bytes. After an error the stage is of no use.
    pub(super) fn write_waiting(&mut self, maintenance: &Maintenance, bytes_max: u64) -> Result<()> {
        while self.waiting_bytes() > bytes_max {
            let largest = self.loads.iter_mut().max_by_key(|load| load.waiting_bytes());
            let outcome = largest.expect("something waits").write_least(&maintenance.output);
            self.has_failed |= outcome.is_err();
            outcome?;
        }
        Ok(())
    }

    /// Ends the loads of some tables: their rows can be read then. After an error the stage is of no use.
    pub(super) fn end_loads(
        &mut self,
        maintenance: &Maintenance,
        mut is_meant: impl FnMut(TableId) -> bool,
    ) -> Result<()> {
        let meant: Vec<SortedLoad> =
            self.loads.extract_if(.., |load| is_meant(load.run.table().id)).collect();
        for mut load in meant {
            let written = load.write_all(&maintenance.output);
            let outcome = written.and_then(|()| self.seal_run(maintenance, load.run));
            self.has_failed |= outcome.is_err();
            outcome?;
        }
        Ok(())
    }

    fn seal_run(&mut self, maintenance: &Maintenance, run: LoadedRun) -> Result<()> {
        let (id, partition) = (run.table().id, run.partition());
        let sealed = run.seal_for_stage(&maintenance.output)?;
        let mut table = TableVersion::clone(self.version.table(id)?);
        let position = table.partitions.iter().position(|other| other.id == partition);
        let position = position.expect("a stage keeps its partitions");
        let mut rowsets = table.partitions[position].rowsets.clone();
        rowsets.extend(sealed);
        let spilled = self.merged(maintenance, &table, table.partitions[position].on_disk(rowsets))?;
        table.partitions[position] = spilled.into();
        self.version = self.version.with_table(table).into();
        self.spilled_to = self.sequence;
        Ok(())
    }

    /// Finds the rows of files that were sealed for the store, when it is asked which rows are its own.
    pub(super) fn find_in(
        &mut self,
        table: &TableVersion,
        partition: &PartitionVersion,
        maintenance: &Maintenance,
        sealed: &[WrittenRowset],
    ) {
        let source = &maintenance.output.source;
        let sealed = sealed.iter().map(|sealed| Rowset::new(sealed.meta.clone(), source.clone()));
        let rowsets = partition.rowsets.iter().cloned().chain(sealed).collect();
        let table = table.with_partition(partition.id, Some(partition.on_disk(rowsets)));
        self.version = self.version.with_table(table).into();
    }

    /// Fails if rows could not be written: some of their batch may have been, and others not.
    pub(super) fn check(&self) -> Result<()> {
        match self.has_failed {
            false => Ok(()),
            true => {
                Err(Error::retry("rows of the stage could not be written to the disk before, and it is gone"))
            }
        }
    }
}
