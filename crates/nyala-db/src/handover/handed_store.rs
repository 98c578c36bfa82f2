//! The store as its users have it: it refuses changes while they are held off, and tells the watch of the others.

use super::{Changed, Handover};
use crate::catalog::{SERIES_TABLE, recorded_table};
use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use async_trait::async_trait;
use nyala_core::schema::TableSchema;
use nyala_core::store::{
    Alteration, Around, Capabilities, ChangeStream, ChangesRequest, Delete, Freshness, MaintenanceTask,
    Moment, Operation, PartitionInfo, RowSelection, SnapshotRef, Stage, Store, StoreRef, TableStorage,
    Update, WriteBatch, WriteOutcome,
};
use nyala_core::{Result, Sequence, TableId, TimeRange};
use std::sync::Arc;

/// Times that are this close are one range: less than what is written while a move takes a breath.
const SLOT_NS: i64 = 1_000_000_000;
/// A change that has not ended yet gets its number when it ends.
const NO_NUMBER: u64 = 0;

pub(super) struct HandedStore {
    handover: Arc<Handover>,
}

struct HandedStage {
    handover: Arc<Handover>,
    stage: Box<dyn Stage>,
    /// What its commit changes.
    staged: Changed,
}

impl HandedStore {
    pub(super) fn new(handover: Arc<Handover>) -> Self {
        Self { handover }
    }

    fn store(&self) -> &StoreRef {
        &self.handover.store
    }

    /// Does a change that changes no more than `what` says.
    async fn change<T>(
        &self,
        what: impl FnOnce() -> Changed + Send,
        change: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let entered = self.handover.enter()?;
        let running = entered.begin(what);
        let changed = change.await;
        if let Some(running) = running {
            running.end();
        }
        changed
    }
}

#[async_trait]
impl Store for HandedStore {
    fn capabilities(&self) -> Capabilities {
        self.store().capabilities()
    }

    fn tables(&self) -> Vec<(TableId, Arc<TableSchema>)> {
        self.store().tables()
    }

    fn tables_version(&self) -> u64 {
        self.store().tables_version()
    }

    fn schema(&self, table: TableId) -> Result<Arc<TableSchema>> {
        self.store().schema(table)
    }

    async fn create_tables(&self, schemas: Vec<TableSchema>) -> Result<Vec<TableId>> {
        // A new table has an id that nobody has read.
        self.change(Changed::default, self.store().create_tables(schemas)).await
    }

    async fn alter_tables(&self, changes: Vec<(TableId, Vec<Alteration>)>) -> Result<Vec<Arc<TableSchema>>> {
        let mut what = Changed::default();
        changes.iter().for_each(|(table, _)| what.add_rows(*table, TimeRange::ALL, NO_NUMBER));
        self.change(|| what, self.store().alter_tables(changes)).await
    }

    async fn drop_tables(&self, tables: Vec<TableId>) -> Result<()> {
        // An id is never used again, and whoever has read the table sees that it is gone.
        self.change(Changed::default, self.store().drop_tables(tables)).await
    }

    async fn partitions(&self, table: TableId) -> Result<Vec<PartitionInfo>> {
        self.store().partitions(table).await
    }

    async fn drop_partitions(&self, table: TableId, range: TimeRange) -> Result<Vec<PartitionInfo>> {
        let what = || {
            let mut changed = Changed::default();
            changed.add_rows(table, range, NO_NUMBER);
            changed
        };
        self.change(what, self.store().drop_partitions(table, range)).await
    }

    async fn write(&self, batch: WriteBatch) -> Result<WriteOutcome> {
        let entered = self.handover.enter()?;
        let running = entered.begin(|| {
            let mut changed = Changed::default();
            add_batch(&mut changed, self.store(), &batch);
            changed
        });
        let outcome = self.store().write(batch).await;
        if let Some(running) = running {
            running.end();
        }
        outcome
    }

    async fn delete(&self, delete: Delete) -> Result<Sequence> {
        let what = selected(delete.table, &delete.rows);
        self.change(|| what, self.store().delete(delete)).await
    }

    async fn update(&self, update: Update) -> Result<WriteOutcome> {
        let what = selected(update.table, &update.rows);
        self.change(|| what, self.store().update(update)).await
    }

    async fn snapshot(&self, freshness: Freshness) -> Result<SnapshotRef> {
        self.store().snapshot(freshness).await
    }

    async fn around(&self, sequence: Sequence) -> Result<Around> {
        self.store().around(sequence).await
    }

    fn past_begin(&self) -> Option<Moment> {
        self.store().past_begin()
    }

    async fn stage(&self) -> Result<Box<dyn Stage>> {
        let (handover, stage) = (self.handover.clone(), self.store().stage().await?);
        Ok(Box::new(HandedStage { handover, stage, staged: Changed::default() }))
    }

    async fn table_storage(&self, table: TableId) -> Result<TableStorage> {
        self.store().table_storage(table).await
    }

    fn maintenance(&self) -> Result<Vec<MaintenanceTask>> {
        self.store().maintenance()
    }

    async fn changes(&self, request: ChangesRequest) -> Result<Box<dyn ChangeStream>> {
        self.store().changes(request).await
    }
}

#[async_trait]
impl Stage for HandedStage {
    async fn write(&mut self, batch: WriteBatch) -> Result<WriteOutcome> {
        // Changes may be watched when it is committed.
        add_batch(&mut self.staged, &self.handover.store, &batch);
        self.stage.write(batch).await
    }

    fn check(&self) -> Result<()> {
        self.stage.check()
    }

    async fn snapshot(&self) -> Result<SnapshotRef> {
        self.stage.snapshot().await
    }

    async fn add_table(&mut self, table: TableId) -> Result<()> {
        self.stage.add_table(table).await
    }

    fn claim_table(&mut self, table: TableId) {
        self.stage.claim_table(table);
    }

    async fn savepoint(&mut self) -> Result<usize> {
        self.stage.savepoint().await
    }

    fn release(&mut self, savepoint: usize) {
        self.stage.release(savepoint);
    }

    // What is taken back stays noted: more may be compared than has changed.
    async fn roll_back_to(&mut self, savepoint: usize) -> Result<()> {
        self.stage.roll_back_to(savepoint).await
    }

    async fn commit(self: Box<Self>) -> Result<Sequence> {
        let Self { handover, stage, staged } = *self;
        let entered = handover.enter()?;
        let running = entered.begin(|| staged);
        let committed = stage.commit().await;
        if let Some(running) = running {
            running.end();
        }
        committed
    }
}

/// What a change of selected rows changes.
fn selected(table: TableId, rows: &RowSelection) -> Changed {
    let mut changed = Changed::default();
    let range = match rows {
        RowSelection::Series { time, .. } => *time,
        RowSelection::All | RowSelection::Keys { .. } => TimeRange::ALL,
    };
    changed.add_rows(table, range, NO_NUMBER);
    changed
}

/// Adds what a batch changes.
fn add_batch(changed: &mut Changed, store: &StoreRef, batch: &WriteBatch) {
    for operation in &batch.operations {
        let table = operation.table();
        let Ok(schema) = store.schema(table) else {
            changed.add_rows(table, TimeRange::ALL, NO_NUMBER);
            continue;
        };
        let key = |place: usize| key_of(operation, &schema, place);
        if schema.is_series_keyed()
            && let Some(times) = key(1).and_then(|array| array.as_primitive_opt::<TimestampNanosecondType>())
        {
            add_times(changed, table, times.values());
            continue;
        }
        if schema.name == SERIES_TABLE
            && let Some(keys) = key(0).and_then(|array| array.as_binary_opt::<i32>())
        {
            let mut tables: Vec<TableId> = keys.iter().flatten().filter_map(recorded_table).collect();
            tables.dedup();
            tables.into_iter().for_each(|table| changed.add_series(table, NO_NUMBER));
        }
        changed.add_rows(table, TimeRange::ALL, NO_NUMBER);
    }
}

/// A column of the key.
fn key_of<'a>(operation: &'a Operation, schema: &TableSchema, place: usize) -> Option<&'a ArrayRef> {
    match operation {
        Operation::Upsert(upsert) => upsert.column(*schema.key.get(place)?).map(|cells| &cells.values),
        Operation::DeleteKeys { keys, .. } => keys.get(place),
    }
}

/// Adds the times of rows.
fn add_times(changed: &mut Changed, table: TableId, times_ns: &[i64]) {
    let mut slots: Vec<i64> = Vec::new();
    for time_ns in times_ns {
        let slot = time_ns.div_euclid(SLOT_NS);
        if slots.last() != Some(&slot) {
            slots.push(slot);
        }
    }
    slots.sort_unstable();
    slots.dedup();
    for slot in slots {
        let start_ns = slot.saturating_mul(SLOT_NS);
        changed.add_rows(table, TimeRange::new(start_ns, start_ns.saturating_add(SLOT_NS)), NO_NUMBER);
    }
}
