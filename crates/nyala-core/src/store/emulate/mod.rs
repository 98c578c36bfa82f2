//! Emulation of features that a store lacks, written once for all stores.
//!
//! [`complete`] wraps a store. Requests that the store can answer are passed through unchanged. The others are answered
//! with what every store can do: forward scans in key order, and writes by key.
//!
//! | missing | made of |
//! |---|---|
//! | not-equal conditions | a scan with the other conditions, filtered |
//! | limits per first key column | a scan of all rows, counted |
//! | backward scans of a few rows of each series | scans of slices of time, the newest first |
//! | other backward scans | a scan of the keys, which finds chunks of bounded size; then a scan of each chunk, the last one
//! first |
//! | order of time | a scan of the times, which finds time ranges of bounded size; then a scan of each range, sorted |
//! | aggregates | a scan, [`aggregate_by_scan`] |
//! | deletions and updates by condition | a scan of the keys, then writes by key |
//!
//! Memory is bounded by the number of rows in a chunk, not by the size of the scan. The only exception: all rows that
//! have the same time are held together, however many they are.

mod changes;
mod filter;
mod newest;
mod read_all;
mod reverse;
mod time_order;

use super::aggregate::aggregate_by_scan;
use super::*;
use crate::schema::ColumnType;
use crate::value::Value;
use filter::Filter;
use newest::NewestRowsScan;

/// The default number of rows that are held at once to sort them.
const PIECE_ROWS: usize = 1 << 13;
/// The bytes for which there is room for each of them. Rows of a known width may be more, because each chunk costs a look
/// at all keys.
const ROW_BYTES: usize = 1 << 11;

/// Wraps a store so that it lacks nothing that can be emulated. Returns the store itself if nothing is missing.
pub fn complete(store: StoreRef) -> StoreRef {
    complete_by_chunks(store, PIECE_ROWS)
}

/// The same, with about this many rows held at once.
pub fn complete_by_chunks(store: StoreRef, chunk_rows: usize) -> StoreRef {
    let features = store.capabilities().features;
    match Feature::all().all(|feature| features.has(feature) || !feature.is_emulated()) {
        true => store,
        false => Arc::new(Emulated { store, chunk_rows }),
    }
}

struct Emulated {
    store: StoreRef,
    chunk_rows: usize,
}

struct EmulatedStage {
    stage: Box<dyn Stage>,
    features: Features,
    chunk_rows: usize,
}

struct EmulatedSnapshot {
    snapshot: SnapshotRef,
    features: Features,
    chunk_rows: usize,
}

impl Emulated {
    fn features(&self) -> Features {
        self.store.capabilities().features
    }

    async fn snapshot_of(&self, freshness: Freshness) -> Result<EmulatedSnapshot> {
        let snapshot = self.store.snapshot(freshness).await?;
        Ok(EmulatedSnapshot { snapshot, features: self.features(), chunk_rows: self.chunk_rows })
    }
}

#[async_trait]
impl Store for Emulated {
    fn capabilities(&self) -> Capabilities {
        let capabilities = self.store.capabilities();
        let emulated = Feature::all().filter(|feature| feature.is_emulated());
        Capabilities { features: emulated.fold(capabilities.features, Features::with), ..capabilities }
    }

    fn tables(&self) -> Vec<(TableId, Arc<TableSchema>)> {
        self.store.tables()
    }

    fn tables_version(&self) -> u64 {
        self.store.tables_version()
    }

    fn schema(&self, table: TableId) -> Result<Arc<TableSchema>> {
        self.store.schema(table)
    }

    async fn create_tables(&self, schemas: Vec<TableSchema>) -> Result<Vec<TableId>> {
        self.store.create_tables(schemas).await
    }

    async fn alter_tables(&self, changes: Vec<(TableId, Vec<Alteration>)>) -> Result<Vec<Arc<TableSchema>>> {
        self.store.alter_tables(changes).await
    }

    async fn drop_tables(&self, tables: Vec<TableId>) -> Result<()> {
        self.store.drop_tables(tables).await
    }

    async fn partitions(&self, table: TableId) -> Result<Vec<PartitionInfo>> {
        self.store.partitions(table).await
    }

    async fn drop_partitions(&self, table: TableId, range: TimeRange) -> Result<Vec<PartitionInfo>> {
        self.store.drop_partitions(table, range).await
    }

    async fn drop_judged_partitions(
        &self,
        table: TableId,
        range: TimeRange,
        tables_version: u64,
    ) -> Result<Option<Vec<PartitionInfo>>> {
        self.store.drop_judged_partitions(table, range, tables_version).await
    }

    async fn write(&self, batch: WriteBatch) -> Result<WriteOutcome> {
        self.store.write(batch).await
    }

    async fn delete(&self, delete: Delete) -> Result<Sequence> {
        match self.features().has(Feature::ChangesByPredicate) {
            true => self.store.delete(delete).await,
            false => {
                let snapshot = self.snapshot_of(Freshness::Latest).await?;
                changes::delete(&*self.store, &snapshot, delete).await
            }
        }
    }

    async fn update(&self, update: Update) -> Result<WriteOutcome> {
        match self.features().has(Feature::ChangesByPredicate) {
            true => self.store.update(update).await,
            false => {
                let snapshot = self.snapshot_of(Freshness::Latest).await?;
                changes::update(&*self.store, &snapshot, update).await
            }
        }
    }

    async fn snapshot(&self, freshness: Freshness) -> Result<SnapshotRef> {
        Ok(Arc::new(self.snapshot_of(freshness).await?))
    }

    async fn around(&self, sequence: Sequence) -> Result<Around> {
        let Around { before, after } = self.store.around(sequence).await?;
        let (features, chunk_rows) = (self.features(), self.chunk_rows);
        let emulated = |snapshot| Arc::new(EmulatedSnapshot { snapshot, features, chunk_rows });
        Ok(Around { before: emulated(before), after: emulated(after) })
    }

    fn past_begin(&self) -> Option<Moment> {
        self.store.past_begin()
    }

    async fn stage(&self) -> Result<Box<dyn Stage>> {
        let stage = self.store.stage().await?;
        Ok(Box::new(EmulatedStage { stage, features: self.features(), chunk_rows: self.chunk_rows }))
    }

    async fn table_storage(&self, table: TableId) -> Result<TableStorage> {
        self.store.table_storage(table).await
    }

    fn maintenance(&self) -> Result<Vec<MaintenanceTask>> {
        self.store.maintenance()
    }

    async fn changes(&self, request: ChangesRequest) -> Result<Box<dyn ChangeStream>> {
        self.store.changes(request).await
    }
}

#[async_trait]
impl Stage for EmulatedStage {
    async fn write(&mut self, batch: WriteBatch) -> Result<WriteOutcome> {
        self.stage.write(batch).await
    }

    fn check(&self) -> Result<()> {
        self.stage.check()
    }

    async fn snapshot(&self) -> Result<SnapshotRef> {
        let (features, chunk_rows) = (self.features, self.chunk_rows);
        Ok(Arc::new(EmulatedSnapshot { snapshot: self.stage.snapshot().await?, features, chunk_rows }))
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

    async fn roll_back_to(&mut self, savepoint: usize) -> Result<()> {
        self.stage.roll_back_to(savepoint).await
    }

    async fn commit(self: Box<Self>) -> Result<Sequence> {
        self.stage.commit().await
    }
}

#[async_trait]
impl Snapshot for EmulatedSnapshot {
    fn sequence(&self) -> Sequence {
        self.snapshot.sequence()
    }

    fn schema(&self, table: TableId) -> Result<Arc<TableSchema>> {
        self.snapshot.schema(table)
    }

    async fn scan(&self, request: ScanRequest) -> Result<Box<dyn RowStream>> {
        let schema = self.snapshot.schema(request.table)?;
        request.validate(&schema)?;
        let snapshot = self.snapshot.clone();
        let missing = |feature| !self.features.has(feature);
        match request.order {
            Order::Key(Direction::Backward) if missing(Feature::ReverseScans) => {
                let (forward, outer) = self.split(&request, &schema);
                if let Some(scan) = self.newest_rows(&request, &schema) {
                    return Ok(Box::new(outer.over(Box::new(scan))));
                }
                let chunk_rows = self.rows_at_once(&forward, &schema);
                let scan = reverse::ReverseScan::begin(snapshot, schema, forward, chunk_rows).await?;
                Ok(Box::new(outer.over(Box::new(scan))))
            }
            Order::Time(direction) if missing(Feature::TimeOrder) => {
                let (forward, outer) = self.split(&request, &schema);
                let order = time_order::TimeOrder { direction, ties: request.ties.clone() };
                let chunk_rows = self.rows_at_once(&forward, &schema);
                let scan = time_order::TimeOrderScan::begin(snapshot, forward, order, chunk_rows).await?;
                Ok(Box::new(outer.over(Box::new(scan))))
            }
            _ if self.needs_filter(&request) => {
                let (forward, outer) = self.split(&request, &schema);
                let forward = ScanRequest { order: request.order, ties: request.ties.clone(), ..forward };
                Ok(Box::new(outer.over(snapshot.scan(forward).await?)))
            }
            _ => snapshot.scan(request).await,
        }
    }

    async fn aggregate(&self, request: AggregateRequest) -> Result<PartialAggregates> {
        match self.features.has(Feature::Aggregates) {
            // Without this feature the store would have to filter the rows itself.
            true if self.features.has(Feature::NotEqual) || !has_inequality(&request.predicates) => {
                self.snapshot.aggregate(request).await
            }
            _ => aggregate_by_scan(self, &request).await,
        }
    }

    async fn time_bounds(&self, table: TableId, within: TimeRange) -> Result<Option<TimeRange>> {
        self.snapshot.time_bounds(table, within).await
    }

    async fn estimate_rows(&self, table: TableId, within: TimeRange) -> Result<u64> {
        self.snapshot.estimate_rows(table, within).await
    }

    async fn estimate_reads(&self, scan: &ScanRequest, aggregated: bool) -> Result<Option<ServerReads>> {
        self.snapshot.estimate_reads(scan, aggregated).await
    }

    async fn split_keys(
        &self,
        table: TableId,
        between: (&KeyBound, &KeyBound),
        parts: usize,
    ) -> Result<Vec<Vec<Value>>> {
        self.snapshot.split_keys(table, between, parts).await
    }

    fn reads(&self) -> Option<ServerReads> {
        self.snapshot.reads()
    }
}

fn is_inequality(predicate: &Predicate) -> bool {
    matches!(predicate.comparison, Comparison::NotEqual(_))
}

fn has_inequality(predicates: &[Predicate]) -> bool {
    predicates.iter().any(is_inequality)
}

impl EmulatedSnapshot {
    fn needs_filter(&self, request: &ScanRequest) -> bool {
        (!self.features.has(Feature::NotEqual) && has_inequality(&request.predicates))
            || (!self.features.has(Feature::PrefixLimits) && request.limit_per_prefix.is_some())
    }

    /// How many rows of a scan are held at once.
    fn rows_at_once(&self, request: &ScanRequest, schema: &TableSchema) -> usize {
        let is_wide =
            |column_type: ColumnType| matches!(column_type, ColumnType::String | ColumnType::Binary);
        let mut types =
            request.columns.iter().filter_map(|id| schema.column(*id)).map(|column| column.column_type);
        if types.any(is_wide) {
            return self.chunk_rows;
        }
        // No other cell takes more than 16 bytes.
        (self.chunk_rows * ROW_BYTES / (16 * request.columns.len().max(1))).max(self.chunk_rows)
    }

    /// A backward scan of a few rows of each series, if it is one.
    fn newest_rows(&self, request: &ScanRequest, schema: &TableSchema) -> Option<NewestRowsScan> {
        let rows = request.limit_per_prefix?;
        let unlimited = ScanRequest { limit: None, limit_per_prefix: None, ..request.clone() };
        let (forward, filter) = self.split(&unlimited, schema);
        NewestRowsScan::begin(self.snapshot.clone(), schema, forward, filter, rows, self.chunk_rows)
    }

    /// A forward scan in key order that the store can do, and the filter for its rows.
    fn split(&self, request: &ScanRequest, schema: &TableSchema) -> (ScanRequest, Filter) {
        let left_out: Vec<Predicate> = match self.features.has(Feature::NotEqual) {
            true => Vec::new(),
            false => request.predicates.iter().filter(|each| is_inequality(each)).cloned().collect(),
        };
        let outer = Filter::new(request, schema, left_out.clone());
        let mut forward = ScanRequest::by_key(request.table, request.rows.clone(), outer.columns_read());
        forward.predicates =
            request.predicates.iter().filter(|each| !left_out.contains(each)).cloned().collect();
        (forward, outer)
    }
}
