//! Scans: the builder, and what the readers of all tablets share.

pub(crate) mod columnar;
mod prune;
mod reader;
mod scanner;
mod sorted;
mod tablet_scan;
mod tablet_scanner;
pub(crate) mod token;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use arrow_schema::{DataType as ArrowType, Field, SchemaRef};
use bytes::Bytes;
use tokio::time::Instant;

use crate::clock::Timestamp;
use crate::data_type::DataType;
use crate::error::{Error, Result};
use crate::location_cache::{Lookup, Tablet};
use crate::pb;
use crate::pb::tserver::*;
use crate::predicate::{Filters, Predicate};
use crate::table::{Table, TableInner};
use columnar::ProjectedColumn;
use prune::PartitionPruner;
pub use scanner::Scanner;
pub use tablet_scanner::TabletScanner;
pub use token::ScanToken;

/// The number of the type `IS_DELETED` in Kudu's `DataType`: a virtual column of scans for changes.
const IS_DELETED: i32 = 18;

/// Which state of the table a scan sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// What each replica has applied so far; not repeatable, but without waiting.
    Latest,
    /// One state of the whole table: everything written up to and including this time, or without a time, the state
    /// when the scan begins.
    Snapshot(Option<Timestamp>),
    /// At least everything that this client has written or read. Tablets may be read at different times.
    YourWrites,
}

/// Which replica a scan reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaSelection {
    /// The leader.
    Leader,
    /// A replica at the location that the masters assigned to this client, else any. Masters assign locations by
    /// `--location_mapping_cmd`, and to clients only with `--master_client_location_assignment_enabled`.
    Closest,
}

/// How servers lay out their answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Column by column, as in Arrow; falls back to rows when a server is too old.
    Columnar,
    /// Row by row.
    Rowwise,
}

/// A scan to be opened; from [`Table::scan`].
///
/// ```no_run
/// # async fn example(table: kudu_client::Table) -> kudu_client::Result<()> {
/// use kudu_client::Predicate;
///
/// let mut scanner = table
///     .scan()
///     .project(["host", "value"])
///     .filter(Predicate::ge("time", 1_700_000_000_000_000_i64))
///     .open()
///     .await?;
/// while let Some(batch) = scanner.next_batch().await? {
///     println!("{} rows", batch.num_rows());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ScanBuilder {
    table: Table,
    projection: Option<Vec<String>>,
    predicates: Vec<Predicate>,
    limit: Option<u64>,
    read_mode: ReadMode,
    diff_from: Option<(Timestamp, String)>,
    ordered: bool,
    sorted: bool,
    replica: ReplicaSelection,
    layout: Layout,
    strings_as_binary: bool,
    cache_blocks: bool,
    batch_bytes: u32,
    parallelism: usize,
    prefetch: usize,
    timeout: Duration,
    split_bytes: Option<u64>,
}

impl Table {
    /// Begins a scan.
    pub fn scan(&self) -> ScanBuilder {
        ScanBuilder {
            table: self.clone(),
            projection: None,
            predicates: Vec::new(),
            limit: None,
            read_mode: ReadMode::Latest,
            diff_from: None,
            ordered: false,
            sorted: false,
            replica: ReplicaSelection::Leader,
            layout: Layout::Columnar,
            strings_as_binary: false,
            cache_blocks: true,
            batch_bytes: 1 << 20,
            parallelism: 4,
            prefetch: 2,
            timeout: Duration::from_secs(60),
            split_bytes: None,
        }
    }
}

impl ScanBuilder {
    /// Returns these columns in this order; by default all. With an empty list, batches only have a row count.
    #[must_use]
    pub fn project(mut self, columns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.projection = Some(columns.into_iter().map(Into::into).collect());
        self
    }

    /// Returns only rows that satisfy this predicate and all others.
    #[must_use]
    pub fn filter(mut self, predicate: Predicate) -> Self {
        self.predicates.push(predicate);
        self
    }

    /// Ends after this many rows.
    #[must_use]
    pub fn limit(mut self, rows: u64) -> Self {
        self.limit = Some(rows);
        self
    }

    /// Sets which state of the table the scan sees.
    #[must_use]
    pub fn read_mode(mut self, mode: ReadMode) -> Self {
        self.read_mode = mode;
        self
    }

    /// Reads a snapshot, one tablet after the other, each in the order of the primary key. The scan then survives the
    /// loss of a server between any two batches.
    #[must_use]
    pub fn fault_tolerant(mut self) -> Self {
        self.ordered = true;
        if self.read_mode == ReadMode::Latest {
            self.read_mode = ReadMode::Snapshot(None);
        }
        self
    }

    /// Returns the rows of all tablets in the order of the primary key; implies [`Self::fault_tolerant`].
    ///
    /// The hash buckets of a range partition are read at the same time and merged. Range partitions come one after
    /// the other where their columns begin the primary key, else all tablets are merged at once. Each tablet being
    /// merged holds up to three batches, which are made smaller so that [`Self::prefetch`]'s bound holds for up to a
    /// hundred of them. Key columns that were not projected are fetched too, and dropped after the merge.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.sorted = true;
        self.fault_tolerant()
    }

    /// Returns only rows that changed after `from` and up to `to`, as they are at `to`. A Boolean column of the given
    /// name tells whether the row was deleted.
    #[must_use]
    pub fn changes(mut self, from: Timestamp, to: Timestamp, deleted_column: impl Into<String>) -> Self {
        self.diff_from = Some((from, deleted_column.into()));
        self.ordered = true;
        self.read_mode = ReadMode::Snapshot(Some(to));
        self
    }

    /// Sets which replica is read.
    #[must_use]
    pub fn replica(mut self, selection: ReplicaSelection) -> Self {
        self.replica = selection;
        self
    }

    /// Sets how servers lay out their answers; the result is the same.
    #[must_use]
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    /// Returns text as unchecked bytes, for tables whose writers do not keep to UTF-8.
    #[must_use]
    pub fn strings_as_binary(mut self) -> Self {
        self.strings_as_binary = true;
        self
    }

    /// Bypasses the servers' block caches; for large scans of cold data.
    #[must_use]
    pub fn bypass_cache(mut self) -> Self {
        self.cache_blocks = false;
        self
    }

    /// Sets the approximate size of a batch (1 MiB; servers cap it at 8 MiB).
    #[must_use]
    pub fn batch_bytes(mut self, bytes: u32) -> Self {
        self.batch_bytes = bytes.max(1);
        self
    }

    /// Sets how many tablets are read at the same time (4). Fault-tolerant scans read one, unless they are sorted.
    #[must_use]
    pub fn parallelism(mut self, tablets: usize) -> Self {
        self.parallelism = tablets.max(1);
        self
    }

    /// Sets how many batches are read ahead of the caller (2). The memory of a scan is bounded by
    /// ([`parallelism`](Self::parallelism) + prefetch) batches of [`Self::batch_bytes`].
    #[must_use]
    pub fn prefetch(mut self, batches: usize) -> Self {
        self.prefetch = batches.max(1);
        self
    }

    /// Sets how long one batch may take, retries included (60 s).
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Makes [`Self::into_tokens`] split tablets into key ranges of about this size.
    #[must_use]
    pub fn split_bytes(mut self, bytes: u64) -> Self {
        self.split_bytes = Some(bytes);
        self
    }

    /// Opens the scan.
    ///
    /// # Errors
    /// When a column does not exist, a value does not fit, or the tablets cannot be found.
    pub async fn open(self) -> Result<Scanner> {
        let is_sorted = self.sorted;
        let (mut spec, filters) = self.spec()?;
        let tablets = matching_tablets(&spec.table, &filters, spec.timeout).await?;
        if is_sorted {
            let groups = sorted::groups(&spec.table, tablets);
            spec.batch_bytes = sorted::batch_bytes(&spec, &groups);
            return Ok(Scanner::start_sorted(Arc::new(spec), groups));
        }
        let spec = Arc::new(spec);
        let ranges = tablets.into_iter().map(TabletRange::whole).collect();
        Ok(Scanner::start(spec, ranges))
    }

    /// A scanner of each tablet, for callers that read tablets side by side themselves. A tablet is
    /// asked when its scanner is read. A limit applies to each tablet separately.
    ///
    /// # Errors
    /// As [`Self::open`]; and when the scan is [sorted](Self::sorted), because tablets are read independently.
    pub async fn into_tablets(self) -> Result<Vec<TabletScanner>> {
        if self.sorted {
            return Err(Error::invalid("the tablets of a sorted scan cannot be read independently"));
        }
        let (spec, filters) = self.spec()?;
        let tablets = matching_tablets(&spec.table, &filters, spec.timeout).await?;
        let spec = Arc::new(spec);
        Ok(tablets.into_iter().map(|tablet| TabletScanner::new(spec.clone(), tablet)).collect())
    }

    /// Counts the rows.
    ///
    /// # Errors
    /// As [`Self::open`] and the scan itself.
    pub async fn count(mut self) -> Result<u64> {
        self.projection = Some(Vec::new());
        self.sorted = false;
        let mut scanner = self.open().await?;
        let mut rows = 0;
        while let Some(batch) = scanner.next_batch().await? {
            rows += batch.num_rows() as u64;
        }
        Ok(rows)
    }

    /// Splits the scan into tokens that other processes can run: one per tablet, or more with [`Self::split_bytes`]. A
    /// snapshot scan without a time gets the present time, so that all tokens see the same state.
    ///
    /// # Errors
    /// As [`Self::open`]; and when the scan is [sorted](Self::sorted), because tokens run independently.
    pub async fn into_tokens(mut self) -> Result<Vec<ScanToken>> {
        if self.sorted {
            return Err(Error::invalid(
                "a sorted scan cannot be split into tokens; tokens of a fault-tolerant scan are sorted each",
            ));
        }
        if self.read_mode == ReadMode::Snapshot(None) {
            self.read_mode = ReadMode::Snapshot(Some(token::now(&self.table)));
        }
        let split_bytes = self.split_bytes;
        let (spec, filters) = self.spec()?;
        let tablets = matching_tablets(&spec.table, &filters, spec.timeout).await?;
        token::tokens(&spec, tablets, split_bytes).await
    }

    fn spec(self) -> Result<(ScanSpec, Filters)> {
        let table = self.table.inner.clone();
        let schema = &table.schema;
        let filters = Filters::fold(schema, &self.predicates)?;
        let mut columns = Vec::new();
        let mut wire = Vec::new();
        let mut indices: Vec<usize> = match &self.projection {
            Some(names) => names.iter().map(|name| schema.find(name)).collect::<Result<_>>()?,
            None => (0..schema.columns().len()).collect(),
        };
        let projected_count = indices.len();
        if self.sorted {
            let keys = 0..schema.key_columns().len();
            indices.extend(keys.filter(|key| !indices.contains(key)).collect::<Vec<_>>());
        }
        for &index in &indices {
            let column = &schema.columns()[index];
            if let DataType::Unknown(code) = column.data_type {
                let message = format!("column {:?} is of type {code}; project others", column.name);
                return Err(Error::new(crate::ErrorKind::NotSupported, message));
            }
            columns.push(ProjectedColumn {
                name: column.name.clone(),
                data_type: column.data_type,
                is_nullable: column.is_nullable,
            });
            // Without key flags: servers require key columns to come first and to be complete.
            wire.push(pb::ColumnSchema {
                is_key: Some(false),
                is_auto_incrementing: None,
                ..column.to_plain_pb()
            });
        }
        if let Some((_, name)) = &self.diff_from {
            columns.push(ProjectedColumn {
                name: name.clone(),
                data_type: DataType::Bool,
                is_nullable: false,
            });
            wire.push(pb::ColumnSchema {
                name: name.clone(),
                data_type: IS_DELETED,
                is_key: Some(false),
                is_nullable: Some(false),
                read_default_value: Some(Bytes::from_static(&[0])),
                ..Default::default()
            });
        }
        let (read_mode, snapshot) = match self.read_mode {
            ReadMode::Latest => (READ_LATEST, None),
            // Servers return what lies before the time they are given.
            ReadMode::Snapshot(at) => (READ_AT_SNAPSHOT, at.map(just_after)),
            ReadMode::YourWrites if self.ordered => {
                return Err(Error::invalid("fault-tolerant scans read a snapshot"));
            }
            ReadMode::YourWrites => (READ_YOUR_WRITES, None),
        };
        let mut template = NewScanRequest {
            projected_columns: wire,
            read_mode: Some(read_mode),
            snap_timestamp: snapshot,
            order_mode: Some(if self.ordered { ORDERED } else { UNORDERED }),
            cache_blocks: Some(self.cache_blocks),
            snap_start_timestamp: self.diff_from.as_ref().map(|(from, _)| just_after(*from)),
            column_predicates: filters.to_pb(schema),
            ..Default::default()
        };
        if self.layout == Layout::Columnar {
            template.row_format_flags = Some(COLUMNAR_LAYOUT);
        }
        let arrow_schema = arrow_schema_of(&columns, self.strings_as_binary);
        let hidden = projected_count..indices.len();
        let spec = ScanSpec {
            hidden,
            uses_bloom_filters: filters.use_bloom_filters(),
            template,
            columns,
            arrow_schema,
            limit: self.limit,
            replica: self.replica,
            batch_bytes: self.batch_bytes,
            parallelism: if self.ordered && !self.sorted { 1 } else { self.parallelism },
            prefetch: self.prefetch,
            timeout: self.timeout,
            rowwise: AtomicBool::new(self.layout == Layout::Rowwise),
            snapshot: tokio::sync::Mutex::new(snapshot),
            table,
        };
        Ok((spec, filters))
    }
}

fn just_after(timestamp: Timestamp) -> u64 {
    timestamp.0.saturating_add(1)
}

fn arrow_schema_of(columns: &[ProjectedColumn], strings_as_binary: bool) -> SchemaRef {
    let field = |column: &ProjectedColumn| {
        let arrow = match column.data_type.arrow_type() {
            ArrowType::Utf8 if strings_as_binary => ArrowType::Binary,
            other => other,
        };
        Field::new(&column.name, arrow, column.is_nullable)
    };
    Arc::new(arrow_schema::Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

/// What the scans of all tablets share.
#[derive(Debug)]
struct ScanSpec {
    table: Arc<TableInner>,
    /// The request without tablet, snapshot and token.
    template: NewScanRequest,
    columns: Vec<ProjectedColumn>,
    arrow_schema: SchemaRef,
    limit: Option<u64>,
    /// Columns that are read only to sort by them.
    hidden: std::ops::Range<usize>,
    replica: ReplicaSelection,
    batch_bytes: u32,
    parallelism: usize,
    prefetch: usize,
    timeout: Duration,
    uses_bloom_filters: bool,
    /// Set when a server does not know the columnar layout.
    rowwise: AtomicBool,
    /// The time at which all tablets are read; the first that is opened determines it.
    snapshot: tokio::sync::Mutex<Option<u64>>,
}

impl ScanSpec {
    fn is_ordered(&self) -> bool {
        self.template.order_mode == Some(ORDERED)
    }

    fn needs_common_snapshot(&self) -> bool {
        self.template.read_mode == Some(READ_AT_SNAPSHOT)
    }
}

/// A tablet, or a range of its keys.
#[derive(Clone, Debug)]
struct TabletRange {
    tablet: Arc<Tablet>,
    start_primary_key: Option<Bytes>,
    stop_primary_key: Option<Bytes>,
}

impl TabletRange {
    fn whole(tablet: Arc<Tablet>) -> Self {
        Self { tablet, start_primary_key: None, stop_primary_key: None }
    }
}

/// The tablets that may hold rows which pass the filters.
async fn matching_tablets(
    table: &TableInner,
    filters: &Filters,
    timeout: Duration,
) -> Result<Vec<Arc<Tablet>>> {
    if filters.match_nothing {
        return Ok(Vec::new());
    }
    let (cluster, deadline) = (&table.client.cluster, Instant::now() + timeout);
    let mut pruner = PartitionPruner::new(&table.schema, &table.partitions, filters);
    let mut tablets = Vec::new();
    let mut from = pruner.next_key(Bytes::new());
    while let Some(key) = from {
        let end = match table.locations.find(cluster, &key, deadline).await? {
            Lookup::Tablet(tablet) => {
                let end = tablet.end.clone();
                if pruner.may_match(&tablet) {
                    tablets.push(tablet);
                }
                end
            }
            Lookup::NonCoveredRange { end } => end,
        };
        from = if end.is_empty() { None } else { pruner.next_key(end) };
    }
    Ok(tablets)
}
