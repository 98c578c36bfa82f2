//! The naive store with hooks, for tests.

use async_trait::async_trait;
use nyala_core::store::memory::MemoryStore;
use nyala_core::store::{
    Alteration, Capabilities, Delete, Freshness, PartitionInfo, SnapshotRef, Stage, Store, Update,
    WriteBatch, WriteOutcome,
};
use nyala_core::{Result, Sequence, TableId, TableSchema, TimeRange};
use std::sync::Arc;

/// The hooks around calls.
#[async_trait]
pub trait Hooks: Default + Send + Sync + 'static {
    /// Before a batch is stored. An error becomes the answer, and nothing is stored.
    async fn before_write(&self, _: &WriteBatch) -> Result<()> {
        Ok(())
    }

    /// After a batch was stored. An error becomes the answer all the same.
    async fn after_write(&self) -> Result<()> {
        Ok(())
    }

    /// Before partitions are told. An error becomes the answer.
    fn before_partitions(&self) -> Result<()> {
        Ok(())
    }

    /// After partitions were dropped. An error becomes the answer all the same.
    fn after_drop_partitions(&self) -> Result<()> {
        Ok(())
    }

    /// Before rows are deleted.
    async fn before_delete(&self) {}

    /// After rows were deleted. An error becomes the answer all the same.
    async fn after_delete(&self) -> Result<()> {
        Ok(())
    }

    /// Before tables are dropped.
    async fn before_drop(&self) {}

    /// Before a snapshot is taken.
    async fn before_snapshot(&self) {}
}

/// The store.
#[derive(Default)]
pub struct HookedStore<H> {
    pub inner: MemoryStore,
    pub hooks: H,
}

#[async_trait]
impl<H: Hooks> Store for HookedStore<H> {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn tables(&self) -> Vec<(TableId, Arc<TableSchema>)> {
        self.inner.tables()
    }

    fn tables_version(&self) -> u64 {
        self.inner.tables_version()
    }

    fn schema(&self, table: TableId) -> Result<Arc<TableSchema>> {
        self.inner.schema(table)
    }

    async fn create_tables(&self, schemas: Vec<TableSchema>) -> Result<Vec<TableId>> {
        self.inner.create_tables(schemas).await
    }

    async fn alter_tables(&self, changes: Vec<(TableId, Vec<Alteration>)>) -> Result<Vec<Arc<TableSchema>>> {
        self.inner.alter_tables(changes).await
    }

    async fn drop_tables(&self, tables: Vec<TableId>) -> Result<()> {
        self.hooks.before_drop().await;
        self.inner.drop_tables(tables).await
    }

    async fn partitions(&self, table: TableId) -> Result<Vec<PartitionInfo>> {
        self.hooks.before_partitions()?;
        self.inner.partitions(table).await
    }

    async fn drop_partitions(&self, table: TableId, range: TimeRange) -> Result<Vec<PartitionInfo>> {
        let dropped = self.inner.drop_partitions(table, range).await;
        self.hooks.after_drop_partitions()?;
        dropped
    }

    async fn write(&self, batch: WriteBatch) -> Result<WriteOutcome> {
        self.hooks.before_write(&batch).await?;
        let written = self.inner.write(batch).await;
        self.hooks.after_write().await?;
        written
    }

    async fn delete(&self, delete: Delete) -> Result<Sequence> {
        self.hooks.before_delete().await;
        let deleted = self.inner.delete(delete).await;
        self.hooks.after_delete().await?;
        deleted
    }

    async fn update(&self, update: Update) -> Result<WriteOutcome> {
        self.inner.update(update).await
    }

    async fn snapshot(&self, freshness: Freshness) -> Result<SnapshotRef> {
        self.hooks.before_snapshot().await;
        self.inner.snapshot(freshness).await
    }

    async fn stage(&self) -> Result<Box<dyn Stage>> {
        self.inner.stage().await
    }
}
