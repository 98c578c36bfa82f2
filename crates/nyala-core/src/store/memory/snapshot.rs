//! Reads of the naive store.

use super::State;
use super::table::{Key, Row, Table};
use crate::arrays::array_of_values;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::{ColumnId, Sequence, SeriesId, TableId};
use crate::schema::TableSchema;
use crate::store::{
    AggregateRequest, Batch, Capabilities, Comparison, Direction, Feature, Order, PartialAggregates,
    RowStream, ScanRequest, SeriesRun, Snapshot, aggregate,
};
use crate::time::TimeRange;
use crate::value::Value;
use async_trait::async_trait;
use std::sync::Arc;

pub(super) struct MemorySnapshot {
    pub(super) state: Arc<State>,
    pub(super) capabilities: Capabilities,
}

#[async_trait]
impl Snapshot for MemorySnapshot {
    fn sequence(&self) -> Sequence {
        Sequence(self.state.sequence)
    }

    fn schema(&self, table: TableId) -> Result<Arc<TableSchema>> {
        Ok(self.state.table(table)?.schema.clone())
    }

    async fn scan(&self, request: ScanRequest) -> Result<Box<dyn RowStream>> {
        let table = self.state.table(request.table)?;
        request.validate(&table.schema)?;
        self.check_features(&request)?;
        let mut rows = table.select(&request.rows, &request.predicates);
        if request.skip_empty_rows {
            rows.retain(|(key, row)| {
                request
                    .columns
                    .iter()
                    .any(|id| !table.schema.is_key(*id) && table.cell(key, row, *id).is_some())
            });
        }
        sort(&mut rows, &table.schema, request.order, &request.ties);
        if let Some(limit) = request.limit_per_prefix {
            let mut seen = 0;
            let mut last: Option<&Value> = None;
            rows.retain(|(key, _)| {
                seen = if last == key.first() { seen + 1 } else { 1 };
                last = key.first();
                seen <= limit
            });
        }
        rows.truncate(request.limit.unwrap_or(usize::MAX));
        // Batches are small, so that callers see series and windows that continue in the next batch.
        let batches = rows
            .chunks(5)
            .map(|rows| batch_of(table, rows, &request.columns))
            .collect::<Result<std::collections::VecDeque<_>>>()?;
        Ok(Box::new(MemoryRows { batches }))
    }

    async fn aggregate(&self, request: AggregateRequest) -> Result<PartialAggregates> {
        self.capabilities.need(Feature::Aggregates)?;
        aggregate::aggregate_by_scan(self, &request).await
    }

    async fn time_bounds(&self, table: TableId, within: TimeRange) -> Result<Option<TimeRange>> {
        let table = self.state.table(table)?;
        let times =
            || table.rows.keys().filter_map(|key| table.time_of(key)).filter(|time| within.contains(*time));
        Ok(times()
            .min()
            .zip(times().max())
            .map(|(first, last)| TimeRange::new(first, last.saturating_add(1))))
    }

    async fn estimate_rows(&self, table: TableId, within: TimeRange) -> Result<u64> {
        let table = self.state.table(table)?;
        let inside = |key: &&Key| table.time_of(key).is_some_and(|time| within.contains(time));
        Ok(table.rows.keys().filter(inside).count() as u64)
    }
}

fn sort(rows: &mut [(&Key, &Row)], schema: &TableSchema, order: Order, ties: &[SeriesId]) {
    let series_keyed = schema.is_series_keyed();
    let rank = |key: &Key| {
        let listed = |id: &SeriesId| key[0] == Value::UInt(id.0.into());
        (ties.iter().position(listed).unwrap_or(ties.len()), key[0].clone())
    };
    rows.sort_by(|(a, _), (b, _)| match order {
        Order::Key(Direction::Forward) => a.cmp(b),
        Order::Key(Direction::Backward) if series_keyed => a[0].cmp(&b[0]).then(b[1].cmp(&a[1])),
        Order::Key(Direction::Backward) => b.cmp(a),
        Order::Time(Direction::Forward) => a[1].cmp(&b[1]).then_with(|| rank(a).cmp(&rank(b))),
        Order::Time(Direction::Backward) => b[1].cmp(&a[1]).then_with(|| rank(a).cmp(&rank(b))),
    });
}

fn batch_of(table: &Table, rows: &[(&Key, &Row)], columns: &[ColumnId]) -> Result<Batch> {
    let mut series: Vec<SeriesRun> = Vec::new();
    if table.schema.is_series_keyed() {
        for (key, _) in rows {
            let Value::UInt(id) = key[0] else {
                return Err(Error::new(ErrorKind::Invalid, "a series key is an unsigned integer"));
            };
            match series.last_mut() {
                Some(run) if run.series.0 as u64 == id => run.rows += 1,
                _ => series.push(SeriesRun { series: SeriesId(id as u32), rows: 1 }),
            }
        }
    }
    let columns = columns
        .iter()
        .map(|id| {
            let values: Vec<Option<&Value>> =
                rows.iter().map(|(key, row)| table.cell(key, row, *id)).collect();
            let column = table.schema.column(*id).ok_or_else(|| Error::missing(format!("column {id}")))?;
            array_of_values(column.column_type, &values)
        })
        .collect::<Result<_>>()?;
    Ok(Batch { rows: rows.len(), series, columns })
}

struct MemoryRows {
    batches: std::collections::VecDeque<Batch>,
}

#[async_trait]
impl RowStream for MemoryRows {
    async fn next(&mut self) -> Result<Option<Batch>> {
        Ok(self.batches.pop_front())
    }
}

impl MemorySnapshot {
    /// Refuses requests that need a missing feature.
    fn check_features(&self, request: &ScanRequest) -> Result<()> {
        let is_not_equal = |comparison: &Comparison| matches!(comparison, Comparison::NotEqual(_));
        let needed = [
            (Feature::ReverseScans, request.order == Order::Key(Direction::Backward)),
            (Feature::TimeOrder, matches!(request.order, Order::Time(_))),
            (Feature::PrefixLimits, request.limit_per_prefix.is_some()),
            (Feature::NotEqual, request.predicates.iter().any(|each| is_not_equal(&each.comparison))),
        ];
        needed
            .into_iter()
            .filter(|(_, is_asked)| *is_asked)
            .try_for_each(|(feature, _)| self.capabilities.need(feature))
    }
}
