//! What a stage shows: the store at the opening, and in the tables that it writes what was staged.

use crate::reading::snapshot::EngineSnapshot;
use async_trait::async_trait;
use nyala_core::store::{AggregateRequest, PartialAggregates, RowStream, ScanRequest, Snapshot};
use nyala_core::{Result, Sequence, TableId, TableSchema, TimeRange};
use std::sync::Arc;

pub(super) struct StageSnapshot {
    opened: EngineSnapshot,
    /// Of the tables that the stage does not write this shows batches of others.
    staged: EngineSnapshot,
}

impl StageSnapshot {
    pub(super) fn new(opened: EngineSnapshot, staged: EngineSnapshot) -> Self {
        Self { opened, staged }
    }

    fn of_table(&self, id: TableId) -> Result<&EngineSnapshot> {
        let is_opened = Arc::ptr_eq(self.opened.version.table(id)?, self.staged.version.table(id)?);
        Ok(if is_opened { &self.opened } else { &self.staged })
    }
}

#[async_trait]
impl Snapshot for StageSnapshot {
    fn sequence(&self) -> Sequence {
        self.opened.sequence()
    }

    fn schema(&self, table: TableId) -> Result<Arc<TableSchema>> {
        self.opened.schema(table)
    }

    async fn scan(&self, request: ScanRequest) -> Result<Box<dyn RowStream>> {
        self.of_table(request.table)?.scan(request).await
    }

    async fn aggregate(&self, request: AggregateRequest) -> Result<PartialAggregates> {
        self.of_table(request.table)?.aggregate(request).await
    }

    async fn time_bounds(&self, table: TableId, within: TimeRange) -> Result<Option<TimeRange>> {
        self.of_table(table)?.time_bounds(table, within).await
    }

    async fn estimate_rows(&self, table: TableId, within: TimeRange) -> Result<u64> {
        self.of_table(table)?.estimate_rows(table, within).await
    }
}
