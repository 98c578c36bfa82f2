//! The store contract: what the database asks of storage. This page and the types that it names are enough to write a
//! store.
//!
//! Two real stores implement the contract: the embedded engine and an Apache Kudu cluster. A naive store in memory
//! ([`memory::MemoryStore`]) is their reference. Where this page leaves something open, the naive store decides, except
//! for the numbers of partitions, sequences, sizes, and the ranges that remain after a partition width has changed. The
//! contract knows tables, keys, versions and scans. It does not know logs or compaction. The catalog and the series index
//! are ordinary tables of the same store.
//!
//! # Tables
//! A [`TableSchema`] has typed columns. Some of them are the primary key. No two rows have the same key. Rows are sorted
//! by key, column by column: integers as numbers, text and bytes by their bytes, `false` before `true`. A cell is a value,
//! NULL, or absent; an absent cell reads as NULL. A key column holds every value of its type, with one exception: in a
//! table of series the time is less than `i64::MAX`. What only one [`TableKind`](crate::TableKind) can do is documented
//! where it applies.
//!
//! The store chooses the ids of tables and never uses an id again. Whoever creates a table chooses the ids of its columns.
//! A column that is added later gets [`TableSchema::next_column`], which never decreases. Names of tables are unique;
//! names of columns need not be. A row exists because its key exists, even if it has no other cell. A deleted row leaves
//! nothing behind: what is written under its key later is a new row.
//!
//! A column that is not [`nullable`](ColumnSchema::nullable) never holds NULL. Every row of a write whose mode can create
//! rows must give a value for such a column, whether the row exists or not, unless the column has a default. A default
//! applies only to a row that is *created* by a write that does not name the column. Existing rows keep what they have.
//!
//! # Writing
//! A [`WriteBatch`] is a list of operations. The result is as if the operations were done one after the other, row by row,
//! so the later one wins. An absent cell leaves the stored value as it is. Each operation has a mode that says on which
//! condition its keys are written or deleted ([`WriteMode`], [`DeleteMode`]). When a call returns, the batch is durable,
//! and it is in every snapshot that is taken afterwards by anyone who was told of the return. Concurrent batches have some
//! order, and each batch sees all batches before it. A key may occur several times in a batch: each occurrence sees what
//! the earlier ones did, and each is counted. A batch without rows succeeds, but it is checked like any other. If the
//! future of a call is dropped, the batch may have been written or not, as after an unknown outcome; it is still written
//! as a whole or not at all.
//!
//! With [`Atomicity::Batch`], either all of a batch survives a crash or nothing of it, either all of it is in a snapshot or
//! nothing of it, and a condition that does not hold rejects the whole batch, unless its mode ignores such rows. With
//! [`Atomicity::Row`] the same is true of each row, and only the rows whose condition does not hold are left out. Changes of tables ([`Store::create_tables`],
//! [`Store::alter_tables`], [`Store::drop_tables`]) are all or nothing in both cases; only the schema after a table's last
//! alteration has to be valid.
//!
//! A [`Stage`] collects batches that nobody else sees. It starts from the store as it was when the stage was opened. Its
//! batches become durable and visible all at once, or not at all if somebody else was first to change one of its rows.
//! This is snapshot isolation: it protects what the stage writes, not what it reads. A stage may be larger than memory.
//! Tables cannot be changed in a stage.
//!
//! A [`Sequence`] says how far a store has come. It never decreases, not even over a restart. Two calls may return the same
//! sequence. A call that changes nothing may return any sequence that was reached before.
//!
//! # Reading
//! A [`Snapshot`] never changes while it is held: no later write, flush, alteration or drop shows in it. [`Freshness`] says
//! what it must contain. A request is resolved with the schemas of the snapshot: a column that was added later is unknown
//! to it, a column that was dropped later is still there in full. Scans return rows in the requested order, in batches of
//! at most some tens of thousands of rows. Work that takes long announces it ([`crate::before_long_work`]), and stops when
//! its future is dropped. Sums of floats have one order of addition, which is defined in [`aggregate`].
//!
//! # Following
//! [`Store::changes`] returns what changed since a position, so that a copy can become equal to the store. A follower
//! begins with a snapshot of the tables that it knows. It continues from the sequence of that snapshot, then from each
//! [`Change::Position`] that it receives; a position is as good a starting point as a snapshot. The states between two
//! positions may never have existed: a store may keep a list of its changes, or compare two snapshots. A store never
//! returns a change that a crash could still undo. Each store decides how long it knows the past, but it always knows the
//! present. A position that is too old is reported as missing; the follower then begins again.
//!
//! # Errors
//! [`ErrorKind`](crate::ErrorKind) says what the caller can do:
//!
//! - `Invalid`: the request contradicts the schema or itself.
//! - `Missing`: a table, column, partition or range does not exist, or a moment of the past is no longer known.
//! - `Conflict`: the request contradicts what is stored, or somebody else was first.
//! - `Unsupported`: names a [`Feature`] that the store lacks.
//! - `Limit`: something is larger than [`Capabilities`] allow, or than there is room for.
//! - `Retry`: nothing was stored; the same request may succeed later.
//! - `Unknown`: the request may have been stored.
//! - `Cancelled`, `Io` and `Corrupt` mean what their names say.
//!
//! A missing feature is reported before all other errors, except by scans. Next come errors of the request itself, those
//! of schemas before those of rows. Last come conflicts with what is stored. After any error but `Unknown`, nothing was
//! changed, if batches are atomic.
//!
//! # What may be missing
//! [`Capabilities`] say what a store can do. Users of a store take it from [`emulate::complete`], which emulates a missing
//! feature where the other features allow it. Any other missing feature is refused by name.
//!
//! # How a store is tested
//! By the conformance battery (feature `battery`): it applies the same random steps to the store and to the naive store and
//! compares the answers, with disturbances of the store's own kind between the steps. It uses what the store says it can
//! do, and checks that the store refuses the rest.

pub mod aggregate;
#[cfg(feature = "battery")]
pub mod battery;
pub mod capabilities;
pub mod changes;
pub mod emulate;
pub mod memory;
pub mod newest;
pub mod past;
pub mod predicate;
pub mod report;
pub mod scan;
pub mod stage;
pub mod windows;
pub mod write;

pub use crate::schema::Alteration;
pub use aggregate::{
    AggregateFunction, AggregateRequest, Measure, PartialAggregate, PartialAggregates, SlidingWindows,
};
pub use capabilities::{Atomicity, Capabilities, Feature, Features};
pub use changes::{Change, ChangeStream, ChangesRequest};
pub use past::{Around, Moment};
pub use predicate::{Comparison, Predicate};
pub use report::{MaintenanceTask, MaintenanceWork, PartStorage, TablePart, TableStorage};
pub use scan::{
    Batch, Direction, KeyBound, Order, Prefilter, RowSelection, RowStream, ScanRequest, SeriesRun, SeriesSet,
};
pub use stage::Stage;
pub use windows::{WindowRuns, Windows};
pub use write::{
    CellColumn, Delete, DeleteMode, KeyCondition, Operation, RowPosition, Update, Upsert, WriteBatch,
    WriteMode, WriteOutcome, validate_keys,
};

use crate::error::Result;
use crate::ids::{Sequence, TableId};
use crate::schema::{KeySpan, TableSchema};

use crate::time::TimeRange;
use crate::value::Value;
use async_trait::async_trait;
use std::sync::Arc;

/// A shared store.
pub type StoreRef = Arc<dyn Store>;
/// A shared snapshot.
pub type SnapshotRef = Arc<dyn Snapshot>;

/// What a snapshot must contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// Everything that was acknowledged to anybody before the snapshot was requested.
    Latest,
    /// At least what was acknowledged with this sequence or before it. This is enough to read one's own writes. Invalid if
    /// the store has not reached the sequence.
    AtLeast(Sequence),
    /// The store as it was at a moment of the past, ns, including what was written at that very moment. Missing if the
    /// moment is no longer known. Tables, columns and partitions that were dropped since may be missing, and tables may have
    /// the columns that were added since, without values. Needs [`Feature::History`].
    Past(i64),
}

/// A range partition as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionInfo {
    /// A number that no other partition of any table has or will ever get.
    pub id: u64,
    /// The times it holds.
    pub range: TimeRange,
    /// The keys it holds, if the table is partitioned by ranges of keys.
    pub keys: Option<KeySpan>,
    /// The number of rows; `None`: they would have to be counted. Versions that are not merged yet are counted separately,
    /// so it is never too small.
    pub rows: Option<u64>,
    /// Approximate bytes on disk.
    pub disk_bytes: u64,
    /// Approximate bytes in memory.
    pub memory_bytes: u64,
}

/// A store of tables.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// What the store can do.
    fn capabilities(&self) -> Capabilities;

    /// The tables that exist now.
    fn tables(&self) -> Vec<(TableId, Arc<TableSchema>)>;

    /// A number that has grown whenever [`Self::tables`] would return something else than before. Only stores that others
    /// change too need to count. They learn of others' changes at the latest when a snapshot is taken.
    fn tables_version(&self) -> u64 {
        0
    }

    /// The schema of a table, or missing.
    fn schema(&self, table: TableId) -> Result<Arc<TableSchema>>;

    /// Creates tables, all or none. Conflict if a name is taken. The tables are durable when this returns. Writers are not
    /// blocked.
    async fn create_tables(&self, schemas: Vec<TableSchema>) -> Result<Vec<TableId>>;

    /// Changes the schemas of tables, all or none, and returns the new schemas. They are durable when this returns. Adding
    /// columns does not block writers.
    async fn alter_tables(&self, changes: Vec<(TableId, Vec<Alteration>)>) -> Result<Vec<Arc<TableSchema>>>;

    /// Drops tables with all their rows at once, all or none. Missing if a table does not exist or is named twice.
    async fn drop_tables(&self, tables: Vec<TableId>) -> Result<()>;

    /// [`Store::create_tables`] for one table.
    async fn create_table(&self, schema: TableSchema) -> Result<TableId> {
        Ok(self.create_tables(vec![schema]).await?[0])
    }

    /// [`Store::alter_tables`] for one table.
    async fn alter_table(&self, table: TableId, alterations: Vec<Alteration>) -> Result<Arc<TableSchema>> {
        Ok(self.alter_tables(vec![(table, alterations)]).await?.swap_remove(0))
    }

    /// [`Store::drop_tables`] for one table.
    async fn drop_table(&self, table: TableId) -> Result<()> {
        self.drop_tables(vec![table]).await
    }

    /// The range partitions of a table in order of time, or of keys. Partitions without rows may be left out.
    async fn partitions(&self, table: TableId) -> Result<Vec<PartitionInfo>>;

    /// Drops the partitions that lie wholly within `range`, without looking at their rows, and returns them as they were. A
    /// table that is not partitioned by time counts as one partition of all times. Ranges of keys lose their rows but stay.
    async fn drop_partitions(&self, table: TableId, range: TimeRange) -> Result<Vec<PartitionInfo>>;

    /// The same for who has judged by what others may change. They alter a partition width after their change, be it to the
    /// same width. `None`, and nothing is dropped, if the table was altered since the tables had a version: the caller judges
    /// again. When such an alteration returns, nothing is being dropped that was judged before it. A store that only one
    /// server uses need not do this.
    async fn drop_judged_partitions(
        &self,
        table: TableId,
        range: TimeRange,
        _tables_version: u64,
    ) -> Result<Option<Vec<PartitionInfo>>> {
        self.drop_partitions(table, range).await.map(Some)
    }

    /// Writes a batch. When this returns, the batch is durable and visible. See [`WriteBatch`].
    async fn write(&self, batch: WriteBatch) -> Result<WriteOutcome>;

    /// Deletes the rows that match a selection and predicates. It is as atomic as a batch.
    async fn delete(&self, delete: Delete) -> Result<Sequence>;

    /// Sets columns of the rows that matched a selection and predicates before the update. The outcome counts these rows.
    /// It is as atomic as a batch.
    async fn update(&self, update: Update) -> Result<WriteOutcome>;

    /// A snapshot that is as new as `freshness` requires.
    async fn snapshot(&self, freshness: Freshness) -> Result<SnapshotRef>;

    /// The store just before and just after a change, by the sequence that its call returned. Between the two lies that
    /// change and nothing else, if it changed something and batches are atomic. Missing if what was before is no longer
    /// known; invalid if the store has not reached the sequence. Tables and columns are as in [`Freshness::Past`]. Needs
    /// [`Feature::History`].
    async fn around(&self, _: Sequence) -> Result<Around> {
        Err(Feature::History.refused())
    }

    /// The first moment of the past that is still known. `None` if no past is kept.
    fn past_begin(&self) -> Option<Moment> {
        None
    }

    /// Opens a stage that starts from everything acknowledged so far. Needs [`Feature::StagedWrites`].
    async fn stage(&self) -> Result<Box<dyn Stage>> {
        Err(Feature::StagedWrites.refused())
    }

    /// What a table takes on disk, column by column. Unsupported if the store does not keep files itself.
    async fn table_storage(&self, _: TableId) -> Result<TableStorage> {
        report::unreported()
    }

    /// What maintenance does now, and some of what waits for it. Unsupported as above.
    fn maintenance(&self) -> Result<Vec<MaintenanceTask>> {
        report::unreported()
    }

    /// What changed since a position, at least up to now; a follower calls this again and again. Missing if the store no
    /// longer knows the position: the follower then begins with a new snapshot. Invalid if the store has not reached the
    /// position. Needs [`Feature::ChangeFeed`].
    async fn changes(&self, _: ChangesRequest) -> Result<Box<dyn ChangeStream>> {
        Err(Feature::ChangeFeed.refused())
    }
}

/// A consistent view of a store that never changes. Work that takes long calls [`crate::before_long_work`] first.
#[async_trait]
pub trait Snapshot: Send + Sync + 'static {
    /// The sequence of the last write in it.
    fn sequence(&self) -> Sequence;

    /// The schema that a table has in the snapshot, or missing.
    fn schema(&self, table: TableId) -> Result<Arc<TableSchema>>;

    /// Opens a scan.
    async fn scan(&self, request: ScanRequest) -> Result<Box<dyn RowStream>>;

    /// Computes partial aggregates. Only for tables of series.
    async fn aggregate(&self, request: AggregateRequest) -> Result<PartialAggregates>;

    /// A range of times that contains all rows of a table of series that lie `within` a range, from statistics. It may be
    /// wider than the rows and than `within`, never narrower. `None` only if there is no row.
    async fn time_bounds(&self, table: TableId, within: TimeRange) -> Result<Option<TimeRange>>;

    /// Approximately how many rows a table of series has `within` a range of times, from statistics.
    async fn estimate_rows(&self, table: TableId, within: TimeRange) -> Result<u64>;

    /// Approximately what servers are asked for the rows of a scan, or for aggregates of them. `None` if the store asks no
    /// servers.
    async fn estimate_reads(&self, _scan: &ScanRequest, _aggregated: bool) -> Result<Option<ServerReads>> {
        Ok(None)
    }

    /// Whole keys that divide the rows of a table which is not one of series, between two keys, into about so many equal
    /// parts: each begins a part, ascending. Fewer, or none, if there is nothing to divide or the store cannot tell without
    /// reading rows. The same snapshot always says the same.
    async fn split_keys(
        &self,
        _table: TableId,
        (_start, _end): (&KeyBound, &KeyBound),
        _parts: usize,
    ) -> Result<Vec<Vec<Value>>> {
        Ok(Vec::new())
    }

    /// What servers were asked for rows of this snapshot so far. `None` if the store asks no servers.
    fn reads(&self) -> Option<ServerReads> {
        None
    }
}

/// What a store that keeps its rows on servers asks of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServerReads {
    /// Parts of a table, each on a server of its own at a time, that are read. Each is counted once for each scan of the
    /// store.
    pub tablets: u64,
    /// Scans of single tablets.
    pub scans: u64,
    /// Of an estimate: the encoded bytes of these tablets; servers read a part of them. Else the decoded bytes that were
    /// received.
    pub bytes: u64,
}
