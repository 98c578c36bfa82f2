//! What the cluster was at a moment: a timestamp, and the tables as the log knew them then.

use crate::aggregate::{SERIES_ALONE, aggregate, count_reads, newest_suffices};
use crate::cluster::Cluster;
use crate::error::of_read;
use crate::kudu_tables::Physical;
use crate::rows::{CountedReads, NoRows};
use crate::scan::Reader;
use crate::sheets::{self, Sheet};
use crate::state::{State, TableState};
use async_trait::async_trait;
use kudu_client::Timestamp;
use nyala_core::schema::TableSchema;
use nyala_core::store::aggregate::aggregate_by_scan;
use nyala_core::store::newest::NewestRows;
use nyala_core::store::{
    AggregateRequest, PartialAggregates, RowSelection, RowStream, ScanRequest, SeriesSet, ServerReads,
    Snapshot,
};
use nyala_core::{Error, ErrorKind, Result, Sequence, SeriesId, TableId, TimeRange};
use std::sync::Arc;

pub(crate) struct KuduSnapshot {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) state: Arc<State>,
    pub(crate) at: Timestamp,
    /// Tables of fewer replicas may have newer rows.
    pub(crate) least_replicas: usize,
    /// What its readers asked of servers.
    pub(crate) reads: Arc<CountedReads>,
}

impl KuduSnapshot {
    fn reader<'a>(&'a self, physical: &'a Physical, table: &'a TableState) -> Reader<'a> {
        Reader { physical, table, at: self.at, options: &self.cluster.options, reads: &self.reads }
    }

    /// Where the newest rows are, if only these are asked for, and of many series. All others need not be decoded then.
    async fn newest_rows(&self, request: &AggregateRequest) -> Result<Option<NewestRows>> {
        if request.series.len() <= SERIES_ALONE || !newest_suffices(request) {
            return Ok(None);
        }
        let ids: Vec<SeriesId> = request.series.iter().map(|(series, _)| *series).collect();
        let time = request.time.intersect(request.windows.span());
        NewestRows::find(self, request.table, &ids, time).await
    }

    /// A sheet to read; `None`: it was never written to.
    async fn open(&self, sheet: Sheet, table: &TableState) -> Result<Option<Arc<Physical>>> {
        let found = self.cluster.tables.to_read(sheet, table).await?;
        match found.as_ref().is_some_and(|found| found.replicas() < self.least_replicas) {
            // From now on it is taken into account.
            true => Err(Error::new(ErrorKind::Retry, "a table has fewer replicas than others: ask again")),
            false => Ok(found),
        }
    }
}

#[async_trait]
impl Snapshot for KuduSnapshot {
    fn sequence(&self) -> Sequence {
        Sequence(self.at.0)
    }

    fn schema(&self, table: TableId) -> Result<Arc<TableSchema>> {
        Ok(self.state.table(table)?.schema.clone())
    }

    async fn scan(&self, request: ScanRequest) -> Result<Box<dyn RowStream>> {
        let table = self.state.table(request.table)?;
        request.validate(&table.schema)?;
        let mut opened = Vec::new();
        for number in sheets::read_by_scan(&table.schema, &request) {
            let sheet = Sheet { table: request.table, number };
            opened.extend(self.open(sheet, table).await?.map(|physical| (sheet, physical)));
        }
        match &*opened {
            [] => Ok(Box::new(NoRows)),
            [(_, physical)] => self.reader(physical, table).rows(&request).await,
            _ => {
                let readers: Vec<(Sheet, Reader<'_>)> =
                    opened.iter().map(|(sheet, physical)| (*sheet, self.reader(physical, table))).collect();
                Reader::merged(&readers, &request).await
            }
        }
    }

    async fn aggregate(&self, request: AggregateRequest) -> Result<PartialAggregates> {
        let table = self.state.table(request.table)?;
        request.validate(&table.schema)?;
        for predicate in &request.predicates {
            if table.schema.column(predicate.column).is_none() {
                let name = table.schema.shown_name();
                return Err(Error::missing(format!("table {name} has no column {}", predicate.column)));
            }
        }
        let Some(sheets) = sheets::read_by_measures(&table.schema, &request) else {
            return aggregate_by_scan(self, &request).await;
        };
        let mut states = request.empty_states(&table.schema)?;
        let mut numbers = sheets.clone();
        numbers.sort_unstable();
        numbers.dedup();
        for number in numbers {
            let sheet = Sheet { table: request.table, number };
            let Some(physical) = self.open(sheet, table).await? else { continue };
            let places: Vec<usize> = (0..sheets.len()).filter(|place| sheets[*place] == number).collect();
            let measures = places.iter().map(|place| request.measures[*place]).collect();
            let part = Arc::new(AggregateRequest { measures, ..request.clone() });
            let newest = self.newest_rows(&part).await?;
            let found = match aggregate(self.reader(&physical, table), part.clone(), newest).await? {
                Some(found) => found,
                None => aggregate_by_scan(self, &part).await?,
            };
            for (place, state) in places.into_iter().zip(found.measures) {
                states.measures[place] = state;
            }
        }
        Ok(states)
    }

    async fn time_bounds(&self, table: TableId, within: TimeRange) -> Result<Option<TimeRange>> {
        let table = self.state.table(table)?;
        let mut ranges = table.ranges.iter().filter(|range| range.time.overlaps(within));
        let first = ranges.next();
        let last = ranges.next_back().or(first);
        Ok(first.zip(last).map(|(first, last)| TimeRange::new(first.time.start_ns, last.time.end_ns)))
    }

    async fn estimate_rows(&self, id: TableId, within: TimeRange) -> Result<u64> {
        let table = self.state.table(id)?;
        let Some(physical) = self.cluster.tables.to_read(Sheet::first(id), table).await? else {
            return Ok(0);
        };
        let rows = physical.table.statistics().await.map_err(of_read)?.live_rows.unwrap_or(0);
        Ok((rows as f64 * share(table, within)) as u64)
    }

    async fn estimate_reads(&self, scan: &ScanRequest, aggregated: bool) -> Result<Option<ServerReads>> {
        let table = self.state.table(scan.table)?;
        let mut reads = ServerReads::default();
        for number in sheets::read_by_scan(&table.schema, scan) {
            let sheet = Sheet { table: scan.table, number };
            let Some(physical) = self.open(sheet, table).await? else { continue };
            let counted = Arc::default();
            let reader = Reader { reads: &counted, ..self.reader(&physical, table) };
            match &scan.rows {
                RowSelection::Series { series: SeriesSet::Ids(ids), time } if aggregated => {
                    count_reads(reader, scan, ids, *time).await?;
                }
                _ => {
                    let tablets = reader.tablets(scan).await?.len();
                    counted.add(tablets, tablets);
                }
            }
            let asked = counted.so_far();
            let all = physical.table.tablet_count().await.map_err(of_read)?.max(1) as u64;
            let bytes = physical.table.statistics().await.map_err(of_read)?.on_disk_bytes.unwrap_or(0);
            reads.tablets += asked.tablets;
            reads.scans += asked.scans;
            reads.bytes += bytes / all * asked.tablets;
        }
        Ok(Some(reads))
    }

    fn reads(&self) -> Option<ServerReads> {
        Some(self.reads.so_far())
    }
}

/// The share of a table's ranges that lies within a range of times.
fn share(table: &TableState, within: TimeRange) -> f64 {
    let width = |time: TimeRange| time.end_ns.saturating_sub(time.start_ns) as f64;
    let inside: f64 = table.ranges.iter().map(|range| width(range.time.intersect(within)).max(0.0)).sum();
    let all: f64 = table.ranges.iter().map(|range| width(range.time)).sum();
    if all > 0.0 { inside / all } else { 1.0 }
}
