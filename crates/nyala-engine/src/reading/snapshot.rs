//! A snapshot: a version and the last sequence that is visible in it.

use crate::memory::publisher::VersionPublisher;
use crate::memory::version::{TableVersion, Version};
use crate::reading::aggregate::aggregate;
use crate::reading::background::BackgroundScan;
use crate::reading::key_splits::split_keys;
use crate::reading::query_cost::{estimate_rows, is_light_aggregate, is_light_scan};
use crate::reading::scan::keyed::KeyedScan;
use crate::reading::scan::keyed_rows::key_types;
use crate::reading::scan::lookup::Lookup;
use crate::reading::scan::scan_spec::ScanSpec;
use crate::reading::scan::series::{SeriesRequest, SeriesScan};
use crate::reading::scan::time_order::TimeScan;
use crate::rows::key::{self, KeyRange, SeriesKeys};
use async_trait::async_trait;
use nyala_core::memory::MemoryBudget;
use nyala_core::span::{Instrument, Span, field};
use nyala_core::store::{
    AggregateRequest, Batch, Direction, KeyBound, Order, PartialAggregates, RowSelection, RowStream,
    ScanRequest, SeriesSet, Snapshot,
};
use nyala_core::{Result, Sequence, TableId, TableSchema, TimeRange, Value, before_long_work, span};
use std::pin::pin;
use std::sync::Arc;

/// A view of an engine.
#[derive(Clone)]
pub(crate) struct EngineSnapshot {
    pub(crate) version: Arc<Version>,
    pub(crate) sequence: u64,
    /// For the memory that its scans take.
    pub(crate) budget: Arc<MemoryBudget>,
}

/// A selection of rows of a series-keyed table.
pub(crate) fn series_selection(rows: &RowSelection) -> Result<(SeriesSet, SeriesKeys, TimeRange)> {
    Ok(match rows {
        RowSelection::All => (SeriesSet::All, SeriesKeys::ALL, TimeRange::ALL),
        RowSelection::Keys { start, end } => (SeriesSet::All, SeriesKeys::of(start, end)?, TimeRange::ALL),
        RowSelection::Series { series, time } => (series.clone(), SeriesKeys::ALL, *time),
    })
}

fn direction_of(order: Order) -> Direction {
    match order {
        Order::Key(direction) | Order::Time(direction) => direction,
    }
}

impl EngineSnapshot {
    /// A view of everything acknowledged.
    pub(crate) fn latest(versions: &VersionPublisher, budget: &Arc<MemoryBudget>) -> Self {
        let (version, sequence) = versions.visible();
        Self { version, sequence, budget: budget.clone() }
    }

    /// A scan of a series-keyed table, resolved.
    pub(crate) fn series_request(
        &self,
        table: &Arc<TableVersion>,
        request: &ScanRequest,
    ) -> Result<SeriesRequest> {
        let (series, keys, time) = series_selection(&request.rows)?;
        let (columns, predicates) = (&request.columns, &request.predicates);
        let spec = ScanSpec::new(&table.schema, columns, predicates, request.skip_empty_rows, None);
        Ok(SeriesRequest {
            table: table.clone(),
            sequence: self.sequence,
            budget: self.budget.clone(),
            series,
            keys,
            time,
            spec: Arc::new(spec),
            direction: direction_of(request.order),
            limit: request.limit,
            limit_per_series: request.limit_per_prefix,
        })
    }

    /// A scan of a table with another key.
    async fn scan_keys(&self, table: &TableVersion, request: &ScanRequest) -> Result<Box<dyn RowStream>> {
        let range = KeyRange::of(&request.rows, &table.schema)?;
        let (columns, predicates) = (&request.columns, &request.predicates);
        let prefilter = request.prefilter.as_ref();
        let spec = ScanSpec::new(&table.schema, columns, predicates, request.skip_empty_rows, prefilter);
        let at_least_one = |limit: Option<usize>| limit != Some(0);
        if range.is_one()
            && key::is_whole(&range.start, &key_types(&table.schema))
            && at_least_one(request.limit)
            && at_least_one(request.limit_per_prefix)
        {
            return Ok(Box::new(Lookup::new(table, self.sequence, spec, range.start)?));
        }
        if !is_light_scan(table, request) {
            before_long_work().await;
        }
        Ok(Box::new(KeyedScan::new(
            table,
            (self.sequence, &self.budget),
            spec,
            &range,
            direction_of(request.order),
            request.limit,
            request.limit_per_prefix,
        )?))
    }

    async fn open_scan(&self, request: ScanRequest) -> Result<Box<dyn RowStream>> {
        let table = self.version.table(request.table)?;
        request.validate(&table.schema)?;
        if !table.schema.is_series_keyed() {
            return self.scan_keys(table, &request).await;
        }
        if !is_light_scan(table, &request) {
            before_long_work().await;
        }
        let resolved = self.series_request(table, &request)?;
        Ok(match request.order {
            Order::Key(_) => Box::new(SeriesScan::new(resolved)),
            Order::Time(_) => Box::new(TimeScan::new(resolved, &request.ties)),
        })
    }
}

#[async_trait]
impl Snapshot for EngineSnapshot {
    fn sequence(&self) -> Sequence {
        Sequence(self.sequence)
    }

    fn schema(&self, table: TableId) -> Result<Arc<TableSchema>> {
        Ok(self.version.table(table)?.schema.clone())
    }

    async fn scan(&self, request: ScanRequest) -> Result<Box<dyn RowStream>> {
        let (span, in_background) = (span!("scan", rows = field::Empty), request.in_background);
        let mut scan = pin!(self.open_scan(request)).instrument(span.clone()).await?;
        if in_background {
            scan = Box::new(BackgroundScan::of(scan));
        }
        match span.is_disabled() {
            true => Ok(scan),
            false => Ok(Box::new(TracedRows { scan, span, rows: 0 })),
        }
    }

    async fn aggregate(&self, request: AggregateRequest) -> Result<PartialAggregates> {
        let computed = async {
            if !is_light_aggregate(self.version.table(request.table)?, &request) {
                before_long_work().await;
            }
            aggregate((&self.version, self.sequence), &request, &self.budget).await
        };
        pin!(computed).instrument(span!("aggregate")).await
    }

    async fn time_bounds(&self, table: TableId, within: TimeRange) -> Result<Option<TimeRange>> {
        let table = self.version.table(table)?;
        let bounds = table.partitions_in(within).filter_map(|partition| partition.time_bounds());
        let bounds = bounds.map(|bounds| bounds.intersect(within)).filter(|bounds| !bounds.is_empty());
        Ok(bounds.reduce(TimeRange::around))
    }

    async fn split_keys(
        &self,
        table: TableId,
        (start, end): (&KeyBound, &KeyBound),
        parts: usize,
    ) -> Result<Vec<Vec<Value>>> {
        let table = self.version.table(table)?;
        let rows = RowSelection::Keys { start: start.clone(), end: end.clone() };
        split_keys(table, &KeyRange::of(&rows, &table.schema)?, parts)
    }

    async fn estimate_rows(&self, table: TableId, within: TimeRange) -> Result<u64> {
        Ok(estimate_rows(&**self.version.table(table)?, within))
    }
}

/// The rows of a scan whose time and number are recorded in a trace.
struct TracedRows {
    scan: Box<dyn RowStream>,
    span: Span,
    rows: usize,
}

#[async_trait]
impl RowStream for TracedRows {
    async fn next(&mut self) -> Result<Option<Batch>> {
        let batch = self.scan.next().instrument(self.span.clone()).await?;
        self.rows += batch.as_ref().map_or(0, |batch| batch.rows);
        Ok(batch)
    }
}

impl Drop for TracedRows {
    fn drop(&mut self) {
        self.span.record("rows", self.rows);
    }
}
