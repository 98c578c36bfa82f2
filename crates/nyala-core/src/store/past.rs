//! A store as it was at a moment of the past, for users that read a whole store.

use super::{
    Alteration, Capabilities, Delete, Freshness, PartitionInfo, SnapshotRef, Store, StoreRef, Update,
    WriteBatch, WriteOutcome,
};
use crate::error::{Error, Result};
use crate::ids::{Sequence, TableId};
use crate::schema::TableSchema;
use crate::time::TimeRange;
use async_trait::async_trait;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A store just before and just after a change.
#[derive(Clone)]
pub struct Around {
    /// Everything up to the change.
    pub before: SnapshotRef,
    /// The same, and the change.
    pub after: SnapshotRef,
}

/// A moment of the past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The last sequence that belongs to it.
    pub sequence: Sequence,
    /// Its time, ns.
    pub time_ns: i64,
}

/// The tables that a store has now, with the rows of a moment of the past. Nothing can be changed.
pub struct PastStore {
    present: StoreRef,
    past: SnapshotRef,
    /// Names that tables had then, where they have others now.
    names: HashMap<TableId, String>,
}

impl PastStore {
    /// A store at a time, ns. Fails as its snapshots of the past do.
    pub async fn open(present: StoreRef, time_ns: i64) -> Result<Self> {
        let past = present.snapshot(Freshness::Past(time_ns)).await?;
        Ok(Self::of(present, past))
    }

    /// A store as a snapshot of its past shows it.
    pub fn of(present: StoreRef, past: SnapshotRef) -> Self {
        Self { present, past, names: HashMap::new() }
    }

    /// The same with names that tables had then. A table that was created since under such a name is left out.
    #[must_use]
    pub fn with_names(self, names: HashMap<TableId, String>) -> Self {
        Self { names, ..self }
    }

    /// A schema with the name that the table had then.
    fn named(&self, table: TableId, schema: Arc<TableSchema>) -> Arc<TableSchema> {
        match self.names.get(&table) {
            Some(name) => Arc::new(TableSchema { name: name.clone(), ..TableSchema::clone(&schema) }),
            None => schema,
        }
    }
}

fn refused<T>() -> Result<T> {
    Err(Error::unsupported("the past cannot be changed"))
}

#[async_trait]
impl Store for PastStore {
    fn capabilities(&self) -> Capabilities {
        self.present.capabilities()
    }

    fn tables(&self) -> Vec<(TableId, Arc<TableSchema>)> {
        let has = |table: &(TableId, Arc<TableSchema>)| self.past.schema(table.0).is_ok();
        let mut tables = self.present.tables();
        tables.retain(has);
        if self.names.is_empty() {
            return tables;
        }
        // Ids ascend: of two tables of one name the later one did not exist then.
        tables.sort_by_key(|(table, _)| *table);
        let mut taken: HashSet<String> = HashSet::new();
        let named = tables.into_iter().map(|(table, schema)| (table, self.named(table, schema)));
        named.filter(|(_, schema)| taken.insert(schema.name.clone())).collect()
    }

    fn schema(&self, table: TableId) -> Result<Arc<TableSchema>> {
        self.past.schema(table).map(|schema| self.named(table, schema))
    }

    async fn create_tables(&self, _: Vec<TableSchema>) -> Result<Vec<TableId>> {
        refused()
    }

    async fn alter_tables(&self, _: Vec<(TableId, Vec<Alteration>)>) -> Result<Vec<Arc<TableSchema>>> {
        refused()
    }

    async fn drop_tables(&self, _: Vec<TableId>) -> Result<()> {
        refused()
    }

    async fn partitions(&self, table: TableId) -> Result<Vec<PartitionInfo>> {
        self.present.partitions(table).await
    }

    async fn drop_partitions(&self, _: TableId, _: TimeRange) -> Result<Vec<PartitionInfo>> {
        refused()
    }

    async fn write(&self, _: WriteBatch) -> Result<WriteOutcome> {
        refused()
    }

    async fn delete(&self, _: Delete) -> Result<Sequence> {
        refused()
    }

    async fn update(&self, _: Update) -> Result<WriteOutcome> {
        refused()
    }

    async fn snapshot(&self, _: Freshness) -> Result<SnapshotRef> {
        Ok(self.past.clone())
    }
}
