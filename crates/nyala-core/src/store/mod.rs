//! The store contract: what the database asks of storage. A store can be written from this page and the types it names.
//!
//! Two real stores implement it, the embedded engine and an Apache Kudu cluster, and a naive one in
//! memory ([`memory::MemoryStore`]) judges both: where these words leave something open, it decides, except of numbers of
//! partitions and sequences, sizes, and the ranges that are left after a width has changed. The contract knows
//! tables, keys, versions and scans, never logs or compaction. Catalog and series index are ordinary tables of the same
//! store.
//!
//! # Tables
//! A [`TableSchema`] has typed columns, some of which are the key. Rows are unique by their keys and kept in their order,
//! column by column of the key: integers as numbers, text and bytes by their bytes, `false` before `true`. A cell is a
//! value, NULL, or absent, which reads as NULL. Keys hold every value of their columns' types, except that the time of a
//! table of series ends before `i64::MAX`. What only one [`TableKind`](crate::TableKind) can do says so.
//!
//! The store gives ids to tables and never uses one again; columns get theirs from who creates the table, later ones from
//! [`TableSchema::next_column`], which never goes back. Names of tables are unique, those of columns need not be. A row
//! exists by its key, also without any cell; a row that was deleted leaves nothing, so that what is written under its key
//! later is a new one.
//!
//! A column that rows must have ([`ColumnSchema::nullable`]) is never NULL. Modes that may make rows name it in each row,
//! whether that exists or not, unless it has a default. A default is what a row gets that *comes into being* without a word
//! of the column; rows that are there keep what they have.
//!
//! # Writing
//! A [`WriteBatch`] is a list of operations, as if they were done one after the other, row by row: the later one wins.
//! Absent cells leave what was stored. Each operation says what it demands of its keys ([`WriteMode`], [`DeleteMode`]).
//! When a call returns, the batch is durable, and in every snapshot taken from then on by whoever is told of it.
//! Concurrent batches have some order, in which each sees all before it. Keys may repeat: each occurrence meets what those
//! before it made, and counts by itself. Batches without rows are done, and checked all the same. A call whose future is
//! dropped may be done or not, as after an unknown outcome; a batch is still whole.
//!
//! With [`Atomicity::Batch`] all of a batch is there after a crash, and for every snapshot, or nothing of it; a demand
//! that does not hold keeps all of it out. With [`Atomicity::Row`] that is so for each row, and what does not meet its
//! demand is left out alone. Changes of tables ([`Store::alter_tables`] and its like) are all or none in either case; only
//! the schema after the last alteration of a table has to be a valid one.
//!
//! A [`Stage`] gathers batches out of everybody's sight, on the store as it was when it was opened. They become durable and
//! visible all at once, or not at all where somebody else came first to one of its rows: that is snapshot isolation, which
//! sees to what is written, and not to what was read. A stage may be larger than memory. Tables are not changed in it.
//!
//! A [`Sequence`] says how far a store has come: it never goes back, also not over a restart. Calls need not have
//! different ones, and one that changes nothing may return any that was reached.
//!
//! # Reading
//! A [`Snapshot`] never changes while it is held: no write, flush, alteration or drop shows in it. [`Freshness`] says what
//! it has to show. What a request names is looked up in the snapshot's schemas: of a column that came later nothing is
//! known, of one that was dropped all. Scans come in the order that is asked for, in batches of some tens of thousands of
//! rows at most; work that takes long says so ([`crate::before_long_work`]) and stops when its future is dropped. Sums of
//! floats have one order of addition, defined in [`aggregate`].
//!
//! # Following
//! [`Store::changes`] gives what changed since a position, for a copy to become what the store is. Who follows begins with a
//! snapshot, of those tables that it knows, and goes on from its sequence, then from each [`Change::Position`], which is as
//! good as a snapshot. What lies between two of them may never have been: a store may keep a list of its changes, or compare
//! two snapshots. Nothing is given that a crash may still take back. How long the past is known is the store's own affair,
//! but the present is; what was too long ago is missing, and a follower begins again.
//!
//! # Errors
//! [`ErrorKind`](crate::ErrorKind) says what the caller can do. `Invalid`: the request contradicts the schema or itself.
//! `Missing`: a table, column, partition or range does not exist, or a moment is not known any more. `Conflict`: it
//! contradicts what is stored, or somebody else came first. `Unsupported` names a [`Feature`] the store lacks. `Limit`:
//! something is larger than [`Capabilities`] allow, or than there is room for. `Retry`: nothing was stored, later it may be.
//! `Unknown`: it may have been stored. `Cancelled`, `Io` and `Corrupt` are what their words say. Features that are missing
//! are said before all else, but of scans; then what is wrong with the request itself, with schemas before with rows; then
//! what it meets. After an error other than `Unknown` nothing was changed, where batches are atomic.
//!
//! # What may be missing
//! [`Capabilities`] say it. Whoever uses a store takes it from [`emulate::complete`], which makes what can be made of what
//! there is; the rest is refused by name.
//!
//! # How a store is proved
//! By the conformance battery (feature `battery`): random steps on it and on the naive store, side by side, with
//! disturbances of its own kind between them. It asks for what the store says it can do, and that the rest is refused.

pub mod aggregate;
#[cfg(feature = "battery")]
pub mod battery;
pub mod capabilities;
pub mod changes;
pub mod convert;
pub mod emulate;
pub mod memory;
pub mod predicate;
pub mod scan;
pub mod stage;
pub mod windows;
pub mod write;

pub use aggregate::{
    AggregateFunction, AggregateRequest, AggregateStates, Measure, MeasureState, SlidingWindows,
};
pub use capabilities::{Atomicity, Capabilities, Feature, Features};
pub use changes::{Change, ChangeStream, ChangesRequest};
pub use predicate::{Comparison, Predicate};
pub use scan::{
    Batch, Direction, KeyBound, Order, RowSelection, RowStream, ScanRequest, SeriesRun, SeriesSet,
};
pub use stage::Stage;
pub use windows::{WindowRuns, Windows};
pub use write::{
    CellColumn, Delete, DeleteMode, Demand, Operation, RowPlace, Update, Upsert, WriteBatch, WriteMode,
    WriteOutcome, validate_keys,
};

use crate::error::Result;
use crate::ids::{ColumnId, Sequence, TableId};
use crate::schema::{ColumnSchema, ColumnType, Encoding, KeySpan, TableSchema};
use crate::time::TimeRange;
use crate::value::Value;
use async_trait::async_trait;
use std::sync::Arc;

/// A shared store.
pub type StoreRef = Arc<dyn Store>;
/// A shared snapshot.
pub type SnapshotRef = Arc<dyn Snapshot>;

/// What a snapshot has to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// Everything that was acknowledged, to whomever, before the snapshot was asked for.
    Latest,
    /// At least what was acknowledged under this sequence, and before it: enough for who wants to read what they wrote.
    /// Invalid if the store has not come so far.
    AtLeast(Sequence),
    /// What there was at a moment of the past, ns, with what came to be at that very moment; missing if that is not known
    /// any more. Needs [`Feature::History`].
    Past(i64),
}

/// A change of a table's schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Alteration {
    /// Adds a column. The store chooses its id ([`TableSchema::next_column`]), whatever this one says. Rows that are there
    /// have its default; one that they must not lack needs one.
    AddColumn(ColumnSchema),
    /// Drops a column and what it holds.
    DropColumn(ColumnId),
    /// Renames a column.
    RenameColumn(ColumnId, String),
    /// Sets the default of rows to come.
    SetDefault(ColumnId, Option<Value>),
    /// Sets whether a row may lack a column; conflict if one does that must not.
    SetNullable(ColumnId, bool),
    /// Sets how what is written from now on is stored.
    SetEncoding(ColumnId, Encoding),
    /// Sets whether people see a column.
    SetHidden(ColumnId, bool),
    /// Gives a column a type that holds every value of the one it has ([`ColumnType::widens_to`]).
    Widen(ColumnId, ColumnType),
    /// Renames the table.
    Rename(String),
    /// Sets the width of range partitions of time made from now on, ns: [`TableSchema::partition_of`], cut where they would
    /// overlap one that is there. Invalid for tables that are not divided by time.
    SetPartitionWidth(i64),
    /// Adds a range partition of keys; conflict where it meets another.
    AddRange(KeySpan),
    /// Drops a range partition of keys, of exactly these bounds, with its rows.
    DropRange(KeySpan),
}

impl Alteration {
    /// What a store must be able to do for it.
    pub fn feature(&self) -> Option<Feature> {
        match self {
            Alteration::AddColumn(column) if column.default.is_some() => Some(Feature::AddedDefaults),
            Alteration::AddRange(_) | Alteration::DropRange(_) => Some(Feature::KeyRanges),
            Alteration::Widen(..) => Some(Feature::WiderTypes),
            _ => None,
        }
    }

    /// Whether rows that were staged before it are good rows after it; see [`Stage`].
    pub fn suits_staged_rows(&self) -> bool {
        matches!(self, Alteration::AddColumn(column) if column.nullable && column.default.is_none())
    }

    /// Adds a column that a row may lack, without a default.
    pub fn add_column(name: impl Into<String>, column_type: ColumnType) -> Self {
        Self::AddColumn(ColumnSchema::new(ColumnId::default(), name, column_type))
    }
}

/// A range partition as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionInfo {
    /// A number that no other partition of any table has, nor gets, as long as this one is there and after it.
    pub id: u64,
    /// The times it holds.
    pub range: TimeRange,
    /// The keys it holds, where the table is divided by ranges of keys.
    pub keys: Option<KeySpan>,
    /// Rows, versions that were not merged yet counted apart: never less than there are.
    pub rows: u64,
    /// Bytes on disk, about.
    pub disk_bytes: u64,
    /// Bytes in memory, about.
    pub memory_bytes: u64,
}

/// A store of tables.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// Its tables as of now.
    fn tables(&self) -> Vec<(TableId, Arc<TableSchema>)>;

    /// The schema of a table, or missing.
    fn schema(&self, table: TableId) -> Result<Arc<TableSchema>>;

    /// Creates tables, all or none; conflict if a name is taken. Durable when it returns. Writers go on meanwhile.
    async fn create_tables(&self, schemas: Vec<TableSchema>) -> Result<Vec<TableId>>;

    /// Changes the schemas of tables, all or none, and returns the new ones. Durable when it returns. Writers go on
    /// while columns are added.
    async fn alter_tables(&self, changes: Vec<(TableId, Vec<Alteration>)>) -> Result<Vec<Arc<TableSchema>>>;

    /// Drops tables and all their rows at once, all or none; missing if one does not exist, or is named twice.
    async fn drop_tables(&self, tables: Vec<TableId>) -> Result<()>;

    /// [`Store::create_tables`] of one.
    async fn create_table(&self, schema: TableSchema) -> Result<TableId> {
        Ok(self.create_tables(vec![schema]).await?[0])
    }

    /// [`Store::alter_tables`] of one.
    async fn alter_table(&self, table: TableId, alterations: Vec<Alteration>) -> Result<Arc<TableSchema>> {
        Ok(self.alter_tables(vec![(table, alterations)]).await?.swap_remove(0))
    }

    /// [`Store::drop_tables`] of one.
    async fn drop_table(&self, table: TableId) -> Result<()> {
        self.drop_tables(vec![table]).await
    }

    /// The range partitions of a table in order of time, or of keys; those without rows may be left out.
    async fn partitions(&self, table: TableId) -> Result<Vec<PartitionInfo>>;

    /// Drops the partitions that lie wholly within `range`, without looking at their rows; returns them as they were. A
    /// table that is not divided by time is one of all times; of ranges of keys only the rows go.
    async fn drop_partitions(&self, table: TableId, range: TimeRange) -> Result<Vec<PartitionInfo>>;

    /// Writes a batch; when it returns the batch is durable and visible. See [`WriteBatch`].
    async fn write(&self, batch: WriteBatch) -> Result<WriteOutcome>;

    /// Deletes the rows that a selection and predicates hold. Atomic as a batch is.
    async fn delete(&self, delete: Delete) -> Result<Sequence>;

    /// Sets columns of the rows that a selection and predicates hold, as they were before; returns how many rows those are.
    /// Atomic as a batch is.
    async fn update(&self, update: Update) -> Result<u64>;

    /// A snapshot that is as new as asked.
    async fn snapshot(&self, freshness: Freshness) -> Result<SnapshotRef>;

    /// Opens a stage on everything that was acknowledged so far. Needs [`Feature::StagedWrites`].
    async fn stage(&self) -> Result<Box<dyn Stage>> {
        Err(Feature::StagedWrites.refused())
    }

    /// What changed since a position, up to now at least; whoever follows asks again. Missing if the store does not know it
    /// any more: then a follower begins with a new snapshot. Invalid if it has not come so far. Needs
    /// [`Feature::ChangeFeed`].
    async fn changes(&self, _: ChangesRequest) -> Result<Box<dyn ChangeStream>> {
        Err(Feature::ChangeFeed.refused())
    }
}

/// A consistent, unchanging view of a store. Work that takes long says so first: see [`crate::before_long_work`].
#[async_trait]
pub trait Snapshot: Send + Sync + 'static {
    /// The last write in it.
    fn sequence(&self) -> Sequence;

    /// The schema of a table as of the snapshot, or missing.
    fn schema(&self, table: TableId) -> Result<Arc<TableSchema>>;

    /// Opens a scan.
    async fn scan(&self, request: ScanRequest) -> Result<Box<dyn RowStream>>;

    /// Computes partial aggregates; only of tables of series.
    async fn aggregate(&self, request: AggregateRequest) -> Result<AggregateStates>;

    /// Times between which all rows of a series-keyed table lie, from statistics: it may be wider than
    /// the rows and than `within`, never narrower. `None` only when there is no row.
    async fn time_bounds(&self, table: TableId, within: TimeRange) -> Result<Option<TimeRange>>;

    /// About how many rows a series-keyed table has `within` a range of times, from statistics.
    async fn estimate_rows(&self, table: TableId, within: TimeRange) -> Result<u64>;
}
