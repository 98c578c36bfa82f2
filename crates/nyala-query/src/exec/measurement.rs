//! The series of a measurement by groups, and the scans that read their rows ([`MeasurementReader`]).

use super::order::{SeriesOrder, TimeOrder};
use super::reader::{ColumnSource, MeasurementReader, ScanColumns, Tags};
use super::row_batch::{Projection, RowBatch};
use crate::plan::{MeasurementPlan, Plan, PointLimit, Reference, RowCondition};
use nyala_core::schema::TIME_COLUMN;
use nyala_core::store::{
    Direction, Order, Predicate, RowSelection, ScanRequest, SeriesSet, ServerReads, SnapshotRef,
};
use nyala_core::{Error, Result, SeriesId, TableSchema, TimeRange};
use nyala_db::catalog::Measurement;
use nyala_db::series::GroupValues;
use nyala_exec::aggregate::StoredGroups;
use nyala_exec::{GroupSeries, QueryMemory, SeriesNumbers};
use roaring::RoaringBitmap;
use std::ops::Range;
use std::sync::Arc;

/// About how many bytes a series takes while series are sorted: its key, and its position.
const SERIES_BYTES: usize = 128;
/// The most series of which a query looks up its tags once, rather than row by row.
const TAGS_BY_SERIES_MAX: usize = 1 << 16;

/// The series of a measurement that a query selects, and how to read them.
pub struct MeasurementRows {
    /// The measurement.
    pub measurement: Arc<Measurement>,
    snapshot: SnapshotRef,
    time: TimeRange,
    /// The part of the condition that is evaluated row by row.
    rows_condition: Option<RowCondition>,
    predicates: Vec<Predicate>,
    /// Counts the rows that are read, if their number is limited.
    pub points: Option<Arc<PointLimit>>,
    /// The tag values of each group, sorted.
    pub group_values: Arc<GroupValues>,
    /// The series of each group.
    pub group_series: GroupSeries,
    /// The table in the snapshot; `None` if it was dropped after the plan was made.
    schema: Option<Arc<TableSchema>>,
}

impl MeasurementRows {
    /// Finds the series and groups of a plan in one of its measurements.
    pub async fn find(plan: &Plan, source: &MeasurementPlan, snapshot: SnapshotRef) -> Self {
        let schema = snapshot.schema(source.measurement.table()).ok();
        // A limit on groups also counts groups without rows at these times.
        let shards = match plan.groups.limit {
            None => source.measurement.shards_within(plan.time_range()).await,
            Some(_) => None,
        };
        let series = source.measurement.series();
        let mut ids = match schema {
            Some(_) => series.select(&source.tags),
            None => RoaringBitmap::new(),
        };
        source.measurement.narrow(&mut ids, shards.as_deref());
        let mut groups = series.group(&ids, &plan.groups.tags);
        drop(series);
        let mut group_series = GroupSeries::of(groups.values.len(), &groups.members);
        if let Some(limit) = plan.groups.limit {
            let kept = limited_groups(&groups.values, &plan.groups.tags, plan.groups.offset, limit);
            group_series = group_series.only(&kept);
            groups.values = groups.values.only(&kept);
        }
        Self {
            measurement: source.measurement.clone(),
            snapshot,
            time: plan.time_range(),
            rows_condition: source.rows.clone(),
            predicates: source.predicates.clone(),
            points: source.points.clone(),
            group_values: Arc::new(groups.values),
            group_series,
            schema,
        }
    }

    /// The range of times of its rows, if it has any.
    pub async fn time_bounds(&self) -> Result<Option<TimeRange>> {
        match self.schema {
            Some(_) => self.snapshot.time_bounds(self.measurement.table(), self.time).await,
            None => Ok(None),
        }
    }

    /// Its groups for the store to aggregate; `None` if a condition is left to be evaluated row by row, or rows are
    /// counted.
    pub fn pushed_down(&self) -> Option<StoredGroups<'_>> {
        (self.rows_condition.is_none() && self.points.is_none()).then_some(StoredGroups {
            snapshot: &self.snapshot,
            table: self.measurement.table(),
            time: self.time,
            predicates: &self.predicates,
            series: &self.group_series,
        })
    }

    /// Reads the rows of a group in a time range. The order of time is expensive with very many series, because each slice of
    /// time visits all of them; with one series it is the order of the key.
    pub async fn read(
        &self,
        group: usize,
        projection: &Projection,
        order: Order,
        time: TimeRange,
    ) -> Result<MeasurementReader> {
        let mut members = self.group_series[group].to_vec();
        members.sort_unstable();
        let order = match order {
            Order::Time(direction) if members.len() == 1 => Order::Key(direction),
            order => order,
        };
        self.open(members, projection, (order, &[]), time, None).await
    }

    /// Reads the rows of a group in order of time, and rows at one time in the order of [`TimeOrder`]. `rows_needed`: the
    /// most rows that the query may use.
    pub async fn read_ordered(
        &self,
        group: usize,
        projection: &Projection,
        ascending: bool,
        rows_needed: usize,
        memory: &QueryMemory,
    ) -> Result<TimeOrder> {
        let direction = if ascending { Direction::Forward } else { Direction::Backward };
        let series = &self.group_series[group];
        if series.len() < 2 {
            let reader = self.read(group, projection, Order::Time(direction), self.time).await?;
            return Ok(TimeOrder::new(reader, None, rows_needed, memory.clone()));
        }
        let schema = self.schema.clone().ok_or_else(|| Error::missing("a measurement that was dropped"))?;
        memory.charge(series.len() * SERIES_BYTES)?;
        let order = SeriesOrder::new(&self.measurement, series, &projection.references, ascending, schema);
        let mut members = series.to_vec();
        members.sort_unstable();
        let by_time = (Order::Time(direction), order.total().unwrap_or_default());
        let reader = self.open(members, projection, by_time, self.time, None).await?;
        Ok(TimeOrder::new(reader, Some(order), rows_needed, memory.clone()))
    }

    /// Reads the first rows, in order of time, of groups of one series each. Gives all rows, and the span of each group.
    pub async fn read_limited(
        &self,
        groups: &[usize],
        projection: &Projection,
        ascending: bool,
        limit: usize,
    ) -> Result<(RowBatch, Vec<Range<usize>>)> {
        let mut members: Vec<SeriesId> = groups.iter().map(|group| self.group_series[*group][0]).collect();
        let positions = SeriesNumbers::numbered(members.iter().copied());
        members.sort_unstable();
        let direction = if ascending { Direction::Forward } else { Direction::Backward };
        let mut spans = vec![0..0; groups.len()];
        let mut reader =
            self.open(members, projection, (Order::Key(direction), &[]), self.time, Some(limit)).await?;
        let (mut parts, mut before) = (Vec::new(), 0);
        while let Some((rows, runs)) = reader.next_runs().await? {
            let mut start = 0;
            let mut kept: Vec<u32> = Vec::with_capacity(rows.times_ns.len());
            for run in runs {
                let span: &mut Range<usize> = &mut spans[positions.number(run.series) as usize];
                if span.start == span.end {
                    *span = before + kept.len()..before + kept.len();
                }
                let more = run.rows.min(u32::try_from(limit - span.len()).unwrap_or(u32::MAX));
                span.end += more as usize;
                kept.extend(start..start + more);
                start += run.rows;
            }
            before += kept.len();
            parts.push(if kept.len() == rows.times_ns.len() { rows } else { rows.take(&kept) });
        }
        let nothing = || RowBatch { times_ns: Vec::new().into(), columns: Vec::new() };
        Ok((if parts.is_empty() { nothing() } else { RowBatch::concatenate(&parts) }, spans))
    }

    /// Approximately what servers are asked for these references of all groups, or for aggregates of them; `None` if the
    /// store asks no servers.
    pub async fn estimate_reads(
        &self,
        references: &[Reference],
        aggregated: bool,
    ) -> Result<Option<ServerReads>> {
        let Some(schema) = self.schema.as_deref() else { return Ok(None) };
        let mut scan_columns = ScanColumns::of(&self.measurement, Some(schema));
        let condition = self.rows_condition.iter().flat_map(|condition| &condition.references);
        references.iter().chain(condition).for_each(|reference| drop(scan_columns.source(reference)));
        let mut columns = vec![TIME_COLUMN];
        columns.extend(scan_columns.columns.into_list());
        let mut members: Vec<SeriesId> =
            (0..self.group_values.len()).flat_map(|group| self.group_series[group].to_vec()).collect();
        members.sort_unstable();
        let rows = RowSelection::Series { series: SeriesSet::Ids(members.into()), time: self.time };
        let scan = ScanRequest {
            predicates: self.predicates.clone(),
            skip_empty_rows: true,
            ..ScanRequest::by_key(self.measurement.table(), rows, columns)
        };
        self.snapshot.estimate_reads(&scan, aggregated).await
    }

    async fn open(
        &self,
        members: Vec<SeriesId>,
        projection: &Projection,
        (order, ties): (Order, &[SeriesId]),
        time: TimeRange,
        limit_per_series: Option<usize>,
    ) -> Result<MeasurementReader> {
        let mut scan_columns = ScanColumns::of(&self.measurement, self.schema.as_deref());
        let mut sources: Vec<ColumnSource> =
            projection.references.iter().map(|reference| scan_columns.source(reference)).collect();
        let condition = self.rows_condition.as_ref();
        for reference in condition.iter().flat_map(|condition| &condition.references) {
            sources.push(scan_columns.source(reference));
        }
        let by_series = projection.tags_by_series && members.len() <= TAGS_BY_SERIES_MAX;
        let tags =
            by_series.then(|| Tags::of(&self.measurement, &members, &sources[..projection.references.len()]));
        let shows_all_references = projection.shown == projection.references.len();
        let mut columns = vec![TIME_COLUMN];
        columns.extend(scan_columns.columns.into_list());
        let rows =
            RowSelection::Series { series: SeriesSet::Ids(members.into()), time: self.time.intersect(time) };
        let request = ScanRequest {
            predicates: self.predicates.clone(),
            skip_empty_rows: true,
            order,
            ties: ties.into(),
            // Rows that are dropped after the scan must not use up the limit.
            limit_per_prefix: limit_per_series.filter(|_| condition.is_none() && shows_all_references),
            ..ScanRequest::by_key(self.measurement.table(), rows, columns)
        };
        Ok(MeasurementReader {
            stream: self.snapshot.scan(request).await?,
            begun: false,
            points: self.points.clone(),
            measurement: self.measurement.clone(),
            sources,
            tags,
            condition: condition.map(|condition| condition.expression.clone()),
            outputs: projection.references.len(),
            shown: projection.shown,
        })
    }
}

/// The groups within a limit, in rising order. The limit counts them in the order of the keys of their tags and then of
/// the values, which is not the order in which they are shown.
fn limited_groups(values: &GroupValues, tags: &[String], offset: usize, limit: usize) -> Vec<usize> {
    let key = |group: &usize| {
        let present = || tags.iter().zip(values.of(*group)).filter(|(_, value)| !value.is_empty());
        let names = present().map(|(name, _)| name.as_str());
        names.chain(present().map(|(_, value)| value)).collect::<Vec<_>>().join("|")
    };
    let mut groups: Vec<usize> = (0..values.len()).collect();
    groups.sort_by_cached_key(key);
    let mut kept: Vec<usize> = groups.into_iter().skip(offset).take(limit).collect();
    kept.sort_unstable();
    kept
}
