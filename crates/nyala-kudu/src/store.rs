//! The store: the verbs of the contract.

use crate::clock::ClusterClock;
use crate::cluster::Cluster;
use crate::entry::{Change, Scalar, Table as TableEntry};
use crate::error::of_read;
use crate::kudu_tables::PhysicalTables;
use crate::options::{KuduLogin, KuduOptions};
use crate::schema_log::SchemaLog;
use crate::seen_marks::SeenMarks;
use crate::sheets::{self, Sheet};
use crate::snapshot::KuduSnapshot;
use crate::state::{RangeState, State, TableState};
use crate::write::{CELL_BYTES_MAX, COLUMNS_MAX, KEY_BYTES_MAX};
use async_trait::async_trait;
use kudu_client::{Client, MetricsSnapshot};
use nyala_core::schema::TableSchema;
use nyala_core::store::{
    Alteration, Atomicity, Capabilities, Delete, Feature, Features, Freshness, MaintenanceTask,
    PartitionInfo, RowSelection, SnapshotRef, Store, StoreRef, TableStorage, Update, WriteBatch,
    WriteOutcome, emulate,
};
use nyala_core::{ColumnId, Error, Result, Sequence, TableId, TimeRange, Value};
use std::sync::Arc;

/// What the store cannot do, or leaves to [`nyala_core::store::emulate`].
const MISSING: [Feature; 12] = [
    Feature::ReverseScans,
    Feature::TimeOrder,
    Feature::PrefixLimits,
    Feature::ChangesByPredicate,
    Feature::KeyRanges,
    Feature::SeriesDefaults,
    Feature::WiderTypes,
    Feature::History,
    Feature::StagedWrites,
    Feature::ChangeFeed,
    Feature::PinnedPartitions,
    Feature::LaterRequirements,
];

/// A store over a cluster. Several, of one process or many, may use one cluster.
pub struct KuduStore {
    cluster: Arc<Cluster>,
}

impl KuduStore {
    /// Connects to the cluster of these masters (`host:port`) and opens its store.
    ///
    /// # Errors
    /// See [`Self::open`]; and when no master answers, or the log-in is refused.
    pub async fn connect(masters: Vec<String>, login: KuduLogin, options: KuduOptions) -> Result<Self> {
        let client = login.apply(Client::builder(masters)).connect().await.map_err(of_read)?;
        Self::open(client, options).await
    }

    /// Asks all tablet servers for their time.
    ///
    /// # Errors
    /// When one of them, or the masters, do not answer.
    pub async fn is_reachable(&self) -> Result<()> {
        self.cluster.clock.now().await.map(drop)
    }

    /// The counters of the client.
    pub fn client_metrics(&self) -> MetricsSnapshot {
        self.cluster.client.metrics()
    }

    /// Opens the store of a cluster; it is made if there is none under the prefix.
    ///
    /// # Errors
    /// When the cluster cannot be asked, or its schema log cannot be read.
    pub async fn open(client: Client, options: KuduOptions) -> Result<Self> {
        let clock = Arc::new(ClusterClock::new(client.clone(), options.replicas));
        let log = SchemaLog::open(&client, &options, clock.clone()).await?;
        let (of_tables, state) = (options.clone(), log.state());
        let tables = PhysicalTables::of(client.clone(), of_tables, clock.clone(), &state).await?;
        let marks = SeenMarks::default();
        Ok(Self { cluster: Arc::new(Cluster { client, options, clock, log, tables, marks }) })
    }
}

/// Numbers of tables that are not divided, among those of ranges.
const UNDIVIDED: u64 = 1 << 63;

#[async_trait]
impl Store for KuduStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            atomicity: Atomicity::Row,
            features: MISSING.into_iter().fold(Features::ALL, Features::without),
            is_shared: true,
            columns_max: sheets::COLUMNS_OF_SERIES_MAX,
            cell_bytes_max: CELL_BYTES_MAX,
            key_bytes_max: KEY_BYTES_MAX,
        }
    }

    fn tables(&self) -> Vec<(TableId, Arc<TableSchema>)> {
        let state = self.cluster.log.state();
        state.tables.iter().map(|(id, table)| (*id, table.schema.clone())).collect()
    }

    fn tables_version(&self) -> u64 {
        self.cluster.log.state().version as u64
    }

    fn schema(&self, table: TableId) -> Result<Arc<TableSchema>> {
        Ok(self.cluster.log.state().table(table)?.schema.clone())
    }

    async fn create_tables(&self, schemas: Vec<TableSchema>) -> Result<Vec<TableId>> {
        for schema in &schemas {
            self.capabilities().need_for(schema)?;
            schema.validate()?;
            check_columns(schema)?;
        }
        self.cluster.log.refresh().await?;
        let decide = |state: &State| {
            let mut changes = Vec::new();
            for (number, schema) in schemas.iter().enumerate() {
                let name = &schema.name;
                if state.is_taken(name) || schemas[..number].iter().any(|other| other.name == *name) {
                    return Err(Error::conflict(format!("table {} exists", schema.shown_name())));
                }
                let table = state.next_table + number as u32;
                changes.push(Change::Create { table, schema: TableEntry::from(schema) });
            }
            let first = state.next_table;
            Ok((changes, (0..schemas.len() as u32).map(|number| TableId(first + number)).collect::<Vec<_>>()))
        };
        let (state, ids) = self.cluster.log.change(decide).await?;
        for (id, schema) in ids.iter().zip(&schemas) {
            if schema.partitioning.time_width_ns().is_none()
                && let Ok(table) = state.table(*id)
            {
                self.cluster.tables.to_write(Sheet::first(*id), table, &[]).await?;
            }
        }
        Ok(ids)
    }

    async fn alter_tables(&self, changes: Vec<(TableId, Vec<Alteration>)>) -> Result<Vec<Arc<TableSchema>>> {
        let capabilities = self.capabilities();
        let mut needed = changes.iter().flat_map(|(_, each)| each).filter_map(Alteration::feature);
        needed.try_for_each(|feature| capabilities.need(feature))?;
        self.cluster.log.refresh().await?;
        let decide = |state: &State| {
            let schemas = altered(state, &changes)?;
            schemas.iter().try_for_each(|changed| capabilities.need_for(&changed.schema))?;
            let entry = |altered: &Altered| Change::Alter {
                table: altered.table.0,
                schema: TableEntry::from(&*altered.schema),
                added: altered.added.iter().map(|(id, value)| (id.0, Scalar::from(value))).collect(),
            };
            Ok((schemas.iter().map(entry).collect(), schemas))
        };
        let (state, schemas) = self.cluster.log.change(decide).await?;
        for Altered { table, .. } in &schemas {
            if let Ok(known) = state.table(*table) {
                self.cluster.tables.follow(*table, known).await?;
            }
        }
        let sets_width = |alteration: &Alteration| matches!(alteration, Alteration::SetPartitionWidth(_));
        let judged = changes.iter().filter(|(_, alterations)| alterations.iter().any(sets_width));
        let judged: Vec<TableId> = judged.map(|(table, _)| *table).collect();
        self.cluster.wait_for_drops(&judged, &state).await?;
        Ok(schemas.into_iter().map(|altered| altered.schema).collect())
    }

    async fn drop_tables(&self, tables: Vec<TableId>) -> Result<()> {
        self.cluster.log.refresh().await?;
        let decide = |state: &State| {
            for (number, table) in tables.iter().enumerate() {
                state.table(*table)?;
                if tables[..number].contains(table) {
                    return Err(Error::missing(format!("table {table}")));
                }
            }
            Ok((tables.iter().map(|table| Change::Drop { table: table.0 }).collect(), ()))
        };
        self.cluster.log.change(decide).await.map(drop)
    }

    async fn partitions(&self, table: TableId) -> Result<Vec<PartitionInfo>> {
        let state = self.cluster.log.refresh().await?;
        Ok(partitions_within(table, state.table(table)?, TimeRange::ALL))
    }

    async fn drop_partitions(&self, table: TableId, range: TimeRange) -> Result<Vec<PartitionInfo>> {
        let state = self.cluster.log.refresh().await?;
        let table_state = state.table(table)?;
        if table_state.schema.partitioning.time_width_ns().is_some() {
            let dropped = self.cluster.drop_within(table, range, i64::MAX).await?;
            return Ok(dropped.into_iter().flatten().map(partition_of).collect());
        }
        // The rows of an undivided table go one by one.
        let dropped = partitions_within(table, table_state, range);
        if !dropped.is_empty() {
            let store: StoreRef = Arc::new(Self { cluster: self.cluster.clone() });
            let delete = Delete { table, rows: RowSelection::All, predicates: Vec::new() };
            emulate::complete(store).delete(delete).await?;
        }
        Ok(dropped)
    }

    async fn drop_judged_partitions(
        &self,
        table: TableId,
        range: TimeRange,
        tables_version: u64,
    ) -> Result<Option<Vec<PartitionInfo>>> {
        if self.schema(table)?.partitioning.time_width_ns().is_none() {
            return self.drop_partitions(table, range).await.map(Some);
        }
        let dropped = self.cluster.drop_within(table, range, tables_version as i64).await?;
        Ok(dropped.map(|dropped| dropped.into_iter().map(partition_of).collect()))
    }

    async fn write(&self, batch: WriteBatch) -> Result<WriteOutcome> {
        self.cluster.write(batch).await
    }

    async fn delete(&self, _: Delete) -> Result<Sequence> {
        Err(Feature::ChangesByPredicate.refused())
    }

    async fn update(&self, _: Update) -> Result<WriteOutcome> {
        Err(Feature::ChangesByPredicate.refused())
    }

    async fn table_storage(&self, _: TableId) -> Result<TableStorage> {
        Err(reported_by_cluster())
    }

    fn maintenance(&self) -> Result<Vec<MaintenanceTask>> {
        Err(reported_by_cluster())
    }

    async fn snapshot(&self, freshness: Freshness) -> Result<SnapshotRef> {
        let least_replicas = self.cluster.clock.least_replicas();
        let (at, state) = match freshness {
            Freshness::Past(_) => return Err(Feature::History.refused()),
            Freshness::Latest => self.cluster.log.look().await?,
            Freshness::AtLeast(sequence) => {
                let seen = self.cluster.client.last_timestamp().filter(|seen| seen.0 >= sequence.0);
                let at = match seen {
                    Some(seen) => seen,
                    None => self.cluster.clock.now().await?,
                };
                if at.0 < sequence.0 {
                    return Err(Error::invalid(format!("nothing was written under sequence {sequence} yet")));
                }
                (at, self.cluster.log.state())
            }
        };
        self.cluster.tables.forget_dropped(&state);
        let (cluster, reads) = (self.cluster.clone(), Arc::default());
        Ok(Arc::new(KuduSnapshot { cluster, state, at, least_replicas, reads }))
    }
}

/// The partitions that lie wholly within a range of times.
fn partitions_within(table: TableId, state: &TableState, within: TimeRange) -> Vec<PartitionInfo> {
    let undivided = partition(UNDIVIDED | u64::from(table.0), TimeRange::ALL);
    let is_divided = state.schema.partitioning.time_width_ns().is_some();
    let ranges = state.ranges.iter().copied().map(partition_of);
    let all = (!is_divided).then_some(undivided).into_iter().chain(ranges);
    all.filter(|partition| within.covers(partition.range)).collect()
}

fn partition_of(range: RangeState) -> PartitionInfo {
    partition(range.number.into(), range.time)
}

fn partition(id: u64, range: TimeRange) -> PartitionInfo {
    PartitionInfo { id, range, keys: None, rows: None, disk_bytes: 0, memory_bytes: 0 }
}

/// What alterations make of a table.
struct Altered {
    table: TableId,
    schema: Arc<TableSchema>,
    /// What rows that are there have of new columns.
    added: Vec<(ColumnId, Value)>,
}

/// The schemas of tables after each of some alterations, in their order.
fn altered(state: &State, changes: &[(TableId, Vec<Alteration>)]) -> Result<Vec<Altered>> {
    let mut done: Vec<Altered> = Vec::new();
    for (table, alterations) in changes {
        let known = done.iter().rev().find(|altered| altered.table == *table);
        let mut schema = TableSchema::clone(match known {
            Some(known) => &known.schema,
            None => &state.table(*table)?.schema,
        });
        let others = state.tables.iter().filter(|(id, _)| !done.iter().any(|altered| altered.table == **id));
        let names: Vec<&str> = others
            .map(|(_, table)| table.schema.name.as_str())
            .chain(done.iter().map(|altered| altered.schema.name.as_str()))
            .collect();
        let mut added = Vec::new();
        for alteration in alterations {
            if let Alteration::AddColumn(column) = alteration {
                added.extend(column.default.clone().map(|value| (schema.next_column, value)));
            }
            schema.apply(alteration.clone(), &|name| names.contains(&name))?;
        }
        schema.validate()?;
        check_columns(&schema)?;
        done.push(Altered { table: *table, schema: Arc::new(schema), added });
    }
    Ok(done)
}

fn reported_by_cluster() -> Error {
    Error::unsupported(
        "the Kudu cluster keeps encodings, bytes of columns and maintenance itself: look at the pages of its tablet \
         servers, /tablets and /maintenance-manager",
    )
}

fn check_columns(schema: &TableSchema) -> Result<()> {
    if schema.is_series_keyed() {
        return sheets::check(schema);
    }
    match schema.columns.len() > COLUMNS_MAX {
        true => Err(Error::limit(format!(
            "table {}: more than {COLUMNS_MAX} columns, the most that a table of Kudu has",
            schema.shown_name()
        ))),
        false => Ok(()),
    }
}
