//! What a change works with while it is executed, and the rows that it has written so far.

use super::assignments::CompiledUpdate;
use super::met_keys::MetKeys;
use super::returning::ReturnedRows;
use super::sink::{Sink, WAIT_MAX};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::relation::entries::RowIndex;
use crate::relation::rules::{Rules, batch_of};
use crate::session::Run;
use arrow_array::{Array, ArrayRef, RecordBatch};
use datafusion::common::ScalarValue;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use nyala_core::TableId;
use nyala_core::store::{CellColumn, DeleteMode, Operation, Upsert, WriteBatch, WriteMode};
use nyala_db::catalog::Catalog;
use nyala_db::relations::{Key, TableDefinition};
use nyala_exec::memory::MemoryCharge;
use std::sync::Arc;
use std::time::Duration;

/// Rows are written when so many are collected, …
const CHUNK_ROWS: usize = 1 << 15;
/// … or when they take so many bytes.
pub(super) const CHUNK_BYTES: usize = 8 << 20;

/// A change that is being executed.
pub(super) struct Work<'a> {
    pub(super) catalog: &'a Arc<Catalog>,
    pub(super) table: &'a TableDefinition,
    pub(super) rules: &'a Rules,
    pub(super) parameters: &'a [ScalarValue],
    pub(super) run: &'a Run,
    pub(super) returning: Option<ReturnedRows>,
    /// What ON CONFLICT DO UPDATE does.
    pub(super) conflict: Option<CompiledUpdate>,
    pub(super) sink: &'a mut Sink,
    /// The indexes of the table.
    pub(super) indexes: Arc<[RowIndex<'a>]>,
    /// How many rows were changed.
    pub(super) changed: u64,
    /// What it keeps of the rows that it has met.
    pub(super) held: MemoryCharge,
    /// The keys that ON CONFLICT has met.
    pub(super) met: MetKeys,
}

/// The indexes of a table, with the columns that rules are about.
pub(super) fn indexes_of<'a>(table: &'a TableDefinition, rules: &Rules) -> Arc<[RowIndex<'a>]> {
    table.indexes.iter().map(|index| RowIndex::of_index(index, rules.columns())).collect()
}

impl<'a> Work<'a> {
    /// The table of the store.
    pub(super) fn table_id(&self) -> TableId {
        self.table.table
    }

    /// The primary key.
    pub(super) fn primary(&self) -> RowIndex<'a> {
        let name = match &self.table.key {
            Key::Declared { name, .. } => name,
            Key::Hidden { .. } => "row",
        };
        RowIndex::of_key(name, self.table_id(), self.rules.columns())
    }

    /// The positions of the columns of the key.
    pub(super) fn key(&self) -> Vec<usize> {
        self.rules.columns().key_positions().expect("a change knows all columns")
    }

    /// Notes whole rows that were changed.
    pub(super) fn note(&mut self, rows: &[ArrayRef]) -> SqlResult<()> {
        let returned = self.returned_of(rows)?;
        self.note_returned(rows.first().map_or(0, |values| values.len()), returned);
        Ok(())
    }

    /// What is returned of whole rows that are about to be written. A statement whose rows are visible as soon as they are
    /// written must not fail behind that: it would begin anew, or be begun anew by its client.
    pub(super) fn returned_of(&mut self, rows: &[ArrayRef]) -> SqlResult<Option<RecordBatch>> {
        let has_rows = rows.first().is_some_and(|values| !values.is_empty());
        match self.returning.as_mut().filter(|_| has_rows) {
            Some(returning) => returning.computed(&batch_of(self.rules.columns(), rows)?).map(Some),
            None => Ok(None),
        }
    }

    /// Notes rows that were changed, and what is returned of them.
    pub(super) fn note_returned(&mut self, count: usize, returned: Option<RecordBatch>) {
        self.changed += count as u64;
        if let (Some(returning), Some(returned)) = (self.returning.as_mut(), returned) {
            returning.push(returned);
        }
    }

    /// The operation that writes cells of rows: columns by their positions.
    pub(super) fn upsert(&self, mode: WriteMode, cells: Vec<(usize, ArrayRef)>) -> Operation {
        let cell = |(position, values): (usize, ArrayRef)| {
            CellColumn::whole(self.rules.columns().columns[position].id, values)
        };
        let mut columns: Vec<CellColumn> = cells.into_iter().map(cell).collect();
        columns.sort_by_key(|cells| cells.column);
        Operation::Upsert(Upsert { table: self.table_id(), mode, columns })
    }

    /// The operation that deletes rows by their keys.
    pub(super) fn delete(&self, keys: Vec<ArrayRef>) -> Operation {
        Operation::DeleteKeys { table: self.table_id(), mode: DeleteMode::Delete, keys }
    }

    /// Writes operations as one batch, which must not meet rows that it does not know of.
    pub(super) async fn write(&mut self, operations: Vec<Operation>) -> SqlResult<()> {
        self.sink.write(WriteBatch { operations }).await.map(drop).map_err(SqlError::from)
    }

    /// Fails if the statement was stopped.
    pub(super) fn check_running(&self) -> SqlResult<()> {
        Ok(self.run.execution.context().check_running()?)
    }
}

/// Collects rows of a query until they are many enough to be written.
pub(super) struct Chunks<'a> {
    stream: SendableRecordBatchStream,
    run: &'a Run,
    held: MemoryCharge,
    /// Whether all rows are collected together, however many they are.
    is_whole: bool,
    wait_max: Duration,
    ended: bool,
}

impl<'a> Chunks<'a> {
    pub(super) fn of(stream: SendableRecordBatchStream, run: &'a Run, is_whole: bool) -> Self {
        Self { stream, run, held: run.memory().hold(), is_whole, wait_max: WAIT_MAX, ended: false }
    }

    /// The same, which wait for memory as long as what they are written to may.
    pub(super) fn within(self, wait_max: Duration) -> Self {
        Self { wait_max, ..self }
    }

    /// The next rows, as few batches of the query; empty at the end.
    pub(super) async fn next(&mut self) -> SqlResult<Vec<RecordBatch>> {
        self.held.shrink_to(0);
        let (mut batches, mut rows) = (Vec::new(), 0);
        while !self.ended && (self.is_whole || (rows < CHUNK_ROWS && self.held.bytes() < CHUNK_BYTES)) {
            let stream = &mut self.stream;
            let next = async { stream.next().await.transpose() };
            match self.run.running.unless_stopped(next).await? {
                Some(batch) if batch.num_rows() > 0 => {
                    let bytes = batch.get_array_memory_size();
                    let charging = self.held.charge_within(self.wait_max, bytes);
                    self.run.running.unless_stopped(charging).await.map_err(too_many)?;
                    rows += batch.num_rows();
                    batches.push(batch);
                }
                Some(_) => {}
                None => self.ended = true,
            }
        }
        Ok(batches)
    }

    /// Whether there is nothing more.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }
}

fn too_many(error: SqlError) -> SqlError {
    match error.code {
        SqlState::OUT_OF_MEMORY => error.with_hint("Change fewer rows at once."),
        _ => error,
    }
}
