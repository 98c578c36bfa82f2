//! Comparing the answers of two stores.

use super::super::aggregate::{PartialAggregate, SelectedValues, SlidingWindows, aggregate_sliding};
use super::super::{
    AggregateFunction, AggregateRequest, Direction, Freshness, Measure, Order, PartialAggregates,
    PartitionInfo, RowSelection, ScanRequest, Snapshot, Store, Windows,
};
use crate::arrays::value_at;
use crate::error::Result;
use crate::ids::{ColumnId, SeriesId, TableId};
use crate::time::TimeRange;
use crate::value::Value;
use std::collections::BTreeMap;

pub(super) type Row = Vec<Option<Value>>;
pub(super) type Contents = BTreeMap<Vec<Value>, BTreeMap<ColumnId, Value>>;
pub(super) type Outcome = std::result::Result<(), String>;

/// The rows of a scan. In a table of series, each row starts with its series.
pub(super) async fn rows_of(snapshot: &dyn Snapshot, request: &ScanRequest) -> Result<Vec<Row>> {
    let mut stream = snapshot.scan(request.clone()).await?;
    let mut rows = Vec::new();
    while let Some(batch) = stream.next().await? {
        assert!(batch.rows > 0, "a batch of a stream has rows");
        assert_eq!(batch.columns.len(), request.columns.len());
        let runs = batch.series.iter().flat_map(|run| std::iter::repeat_n(run.series.0, run.rows as usize));
        let mut series: Vec<Option<Value>> = runs.map(|id| Some(Value::UInt(id.into()))).collect();
        assert!(series.is_empty() || series.len() == batch.rows, "runs cover the rows");
        for row in 0..batch.rows {
            let mut cells: Row = series.get_mut(row).map(Option::take).into_iter().collect();
            cells.extend(batch.columns.iter().map(|column| value_at(column, row)));
            rows.push(cells);
        }
    }
    Ok(rows)
}

/// The rows of a table by key, each with its cells that are not NULL. A table that does not exist has no rows.
pub(super) async fn contents(snapshot: &dyn Snapshot, table: TableId) -> Result<Contents> {
    let Ok(schema) = snapshot.schema(table) else { return Ok(Contents::new()) };
    let mut columns: Vec<_> = schema.columns.iter().map(|column| column.id).collect();
    let requested = match schema.is_series_keyed() {
        true => columns.iter().copied().filter(|id| *id != schema.key[0]).collect(),
        false => columns.clone(),
    };
    // The series column is first.
    columns.sort_by_key(|id| schema.is_series_keyed() && *id != schema.key[0]);
    let request = ScanRequest::by_key(table, RowSelection::All, requested);
    let rows = rows_of(snapshot, &request).await?.into_iter();
    Ok(rows
        .map(|row| {
            let cells = columns.iter().copied().zip(row);
            let cells: BTreeMap<_, _> = cells.filter_map(|(id, cell)| Some((id, cell?))).collect();
            (schema.key.iter().map(|id| cells[id].clone()).collect(), cells)
        })
        .collect())
}

pub(super) fn compare_outcomes<T: PartialEq>(
    subject: Result<T>,
    model: Result<T>,
    differ: impl Fn(&T, &T) -> String,
) -> Outcome {
    match (subject, model) {
        (Ok(subject), Ok(model)) if subject == model => Ok(()),
        (Ok(subject), Ok(model)) => Err(differ(&subject, &model)),
        (Err(subject), Err(model)) if subject.kind() == model.kind() => Ok(()),
        (subject, model) => {
            Err(format!("outcomes differ: {:?}, not {:?}", subject.map(drop), model.map(drop)))
        }
    }
}

/// Compares a scan of both stores. `request` names the subject's table.
pub async fn compare_scan(
    subject: &dyn Snapshot,
    model: &dyn Snapshot,
    model_table: TableId,
    request: &ScanRequest,
) -> Outcome {
    let model_request = ScanRequest { table: model_table, ..request.clone() };
    let found = rows_of(subject, request).await;
    let expected = rows_of(model, &model_request).await;
    compare_outcomes(found, expected, |found, expected| {
        let first = (0..).find(|row| found.get(*row) != expected.get(*row)).unwrap_or(0);
        format!(
            "{} rows, not {}; row {first} is {:?}, not {:?}; of {request:?}",
            found.len(),
            expected.len(),
            found.get(first),
            expected.get(first)
        )
    })
}

/// States as text. Floats are shown by value, all NaNs are equal, and slots without a selected value, or parts that
/// were not requested, are left out.
fn describe(states: PartialAggregates, request: &AggregateRequest) -> Vec<String> {
    let describe = |(state, measure): (PartialAggregate, &Measure)| match state {
        PartialAggregate::Selected(selected) => {
            let value = |slot: usize| match &selected.values {
                SelectedValues::Int(values) => format!("{:?}", values[slot]),
                SelectedValues::UInt(values) => format!("{:?}", values[slot]),
                SelectedValues::Float(values) => format!("{:?}", values[slot]),
                SelectedValues::Bool(values) => format!("{:?}", values[slot]),
                SelectedValues::String(values) => format!("{:?}", values[slot]),
            };
            let extreme = matches!(measure.function, AggregateFunction::Min | AggregateFunction::Max);
            let row = |slot: usize, series: SeriesId| {
                (request.times || !extreme).then_some((series.0, selected.times_ns[slot]))
            };
            let slots = selected.series.iter().enumerate();
            let slots = slots.map(|(slot, series)| series.map(|series| (row(slot, series), value(slot))));
            format!("{:?}", slots.collect::<Vec<_>>())
        }
        other => format!("{other:?}"),
    };
    states.measures.into_iter().zip(&request.measures).map(describe).collect()
}

/// Compares an aggregate of both stores. `request` names the subject's table.
pub async fn compare_aggregate(
    subject: &dyn Snapshot,
    model: &dyn Snapshot,
    model_table: TableId,
    request: &AggregateRequest,
) -> Outcome {
    let model_request = AggregateRequest { table: model_table, ..request.clone() };
    let found = subject.aggregate(request.clone()).await.map(|states| describe(states, request));
    let expected = model.aggregate(model_request).await.map(|states| describe(states, request));
    compare_outcomes(found, expected, |found, expected| {
        let first = (0..).find(|at| found.get(*at) != expected.get(*at)).unwrap_or(0);
        format!("{:?}, not {:?}; measure {first} of {request:?}", found.get(first), expected.get(first))
    })
}

/// Compares an aggregate over overlapping windows of both stores, and each window with an aggregate of its own.
/// `request` names the subject's table.
pub(super) async fn compare_sliding(
    subject: &dyn Snapshot,
    model: &dyn Snapshot,
    model_table: TableId,
    request: &AggregateRequest,
    windows: SlidingWindows,
) -> Outcome {
    let model_request = AggregateRequest { table: model_table, ..request.clone() };
    let found = aggregate_sliding(subject, request, windows).await;
    let expected = aggregate_sliding(model, &model_request, windows).await;
    let together = expected.as_ref().ok().cloned();
    let shown = |states| describe(states, request);
    compare_outcomes(found.map(shown), expected.map(shown), |found, expected| {
        format!("{found:?}, not {expected:?}; in {windows:?} of {request:?}")
    })?;
    let Some(together) = together else { return Ok(()) };
    for window in 0..windows.count {
        let start_ns = windows.start_ns + windows.step_ns * window as i64;
        let range = TimeRange::new(start_ns, start_ns + windows.range_ns);
        let alone = AggregateRequest { windows: Windows::single(range), ..model_request.clone() };
        let alone = model.aggregate(alone).await.map_err(|error| error.to_string())?;
        for (measure, (alone, together)) in alone.measures.iter().zip(&together.measures).enumerate() {
            for group in 0..request.groups {
                let function = request.measures[measure].function;
                let alone = exact_slot(alone, function, group);
                let together = exact_slot(together, function, group * windows.count + window);
                if alone != together {
                    return Err(format!(
                        "{together:?}, not {alone:?}; measure {measure} of window {window} in {windows:?} of {request:?}"
                    ));
                }
            }
        }
    }
    Ok(())
}

/// The part of a slot that depends neither on the order of addition nor on where a NaN is.
fn exact_slot(state: &PartialAggregate, function: AggregateFunction, slot: usize) -> Option<String> {
    let is_extreme = matches!(function, AggregateFunction::Min | AggregateFunction::Max);
    match state {
        PartialAggregate::Count(counts) => Some(counts[slot].to_string()),
        PartialAggregate::SumInteger { sums, counts } => Some(format!("{} of {}", sums[slot], counts[slot])),
        PartialAggregate::SumFloat { counts, .. } => Some(counts[slot].to_string()),
        PartialAggregate::Increase(increases) => {
            let ends = (increases.first_ns[slot], increases.last_ns[slot]);
            let values = (increases.first[slot], increases.last[slot]);
            (increases.counts[slot] > 0).then(|| format!("{ends:?} {values:?} of {}", increases.counts[slot]))
        }
        PartialAggregate::Selected(selected) => {
            selected.series[slot]?;
            match &selected.values {
                SelectedValues::Float(_) if is_extreme => None,
                SelectedValues::Int(values) => Some(values[slot].to_string()),
                SelectedValues::UInt(values) => Some(values[slot].to_string()),
                SelectedValues::Float(values) => Some(values[slot].to_string()),
                SelectedValues::Bool(values) => Some(values[slot].to_string()),
                SelectedValues::String(values) => Some(values[slot].clone()),
            }
        }
    }
}

/// Compares the times between which rows lie. The subject's range may be wider.
pub(super) async fn compare_bounds(
    subject: &dyn Snapshot,
    subject_table: TableId,
    model: &dyn Snapshot,
    model_table: TableId,
    within: TimeRange,
) -> Outcome {
    let error = |error: crate::Error| error.to_string();
    let found = subject.time_bounds(subject_table, within).await.map_err(error)?;
    let expected = model.time_bounds(model_table, within).await.map_err(error)?;
    subject.estimate_rows(subject_table, within).await.map_err(error)?;
    match (found, expected) {
        (_, None) => Ok(()),
        (Some(found), Some(expected)) if found.covers(expected) => Ok(()),
        (found, Some(expected)) => Err(format!("times in {found:?} do not cover {expected:?}")),
    }
}

/// Compares all rows and columns of a table, in both directions.
pub(super) async fn compare_tables(
    subject: &dyn Snapshot,
    subject_table: TableId,
    model: &dyn Snapshot,
    model_table: TableId,
) -> Outcome {
    let (schema, expected) = match (subject.schema(subject_table), model.schema(model_table)) {
        (Ok(schema), Ok(expected)) => (schema, expected),
        (Err(_), Err(_)) => return Ok(()),
        (found, expected) => return Err(format!("schema {found:?}, not {expected:?}")),
    };
    if schema != expected {
        return Err(format!("schema {schema:?}, not {expected:?}"));
    }
    let mut columns: Vec<_> = schema.columns.iter().map(|column| column.id).collect();
    if schema.is_series_keyed() {
        columns.retain(|id| *id != schema.key[0]);
    }
    for direction in [Direction::Forward, Direction::Backward] {
        let by_key = ScanRequest::by_key(subject_table, RowSelection::All, columns.clone());
        let request = ScanRequest { order: Order::Key(direction), ..by_key };
        compare_scan(subject, model, model_table, &request).await?;
    }
    Ok(())
}

/// Compares all tables of two snapshots. `tables` pairs their ids.
pub async fn compare_snapshots(
    subject: &dyn Snapshot,
    model: &dyn Snapshot,
    tables: &[(TableId, TableId)],
) -> Outcome {
    for (subject_table, model_table) in tables {
        compare_tables(subject, *subject_table, model, *model_table).await?;
    }
    Ok(())
}

/// Compares the range partitions of a table whose width never changed. The partitions that have rows must exist, in
/// order and without overlap. Partitions without rows may exist or not.
pub(super) async fn compare_partitions(
    subject: &dyn Store,
    subject_table: TableId,
    model: &dyn Store,
    model_table: TableId,
) -> Outcome {
    let answers = (subject.partitions(subject_table).await, model.partitions(model_table).await);
    let (found, expected) = match answers {
        (Ok(found), Ok(expected)) => (found, expected),
        (Err(_), Err(_)) => return Ok(()),
        (found, expected) => return Err(format!("partitions {found:?}, not {expected:?}")),
    };
    if expected.iter().any(|partition| partition.keys.is_some()) {
        let bounds = |partitions: &[PartitionInfo]| -> Vec<_> {
            partitions.iter().map(|partition| partition.keys.clone()).collect()
        };
        let has_rows = found.iter().zip(&expected).all(|(found, expected)| !has_fewer_rows(found, expected));
        return match bounds(&found) == bounds(&expected) && has_rows {
            true => Ok(()),
            false => Err(format!("partitions {found:?}, not {expected:?}")),
        };
    }
    if !found.is_sorted_by(|a, b| a.range.end_ns <= b.range.start_ns) {
        return Err(format!("partitions that are not in order, or overlap: {found:?}"));
    }
    for partition in &expected {
        let same = found.iter().find(|other| other.range == partition.range);
        if same.is_none_or(|other| has_fewer_rows(other, partition)) {
            return Err(format!("partitions {found:?}, where {partition:?} is one"));
        }
    }
    Ok(())
}

fn has_fewer_rows(found: &PartitionInfo, expected: &PartitionInfo) -> bool {
    found.rows.is_some_and(|rows| Some(rows) < expected.rows)
}

/// Compares all tables of two stores. `tables` pairs their ids.
pub async fn compare_stores(
    subject: &dyn Store,
    model: &dyn Store,
    tables: &[(TableId, TableId)],
) -> Outcome {
    if subject.tables().len() != model.tables().len() {
        return Err(format!("{} tables, not {}", subject.tables().len(), model.tables().len()));
    }
    let error = |error: crate::Error| error.to_string();
    let found = subject.snapshot(Freshness::Latest).await.map_err(error)?;
    let expected = model.snapshot(Freshness::Latest).await.map_err(error)?;
    compare_snapshots(&*found, &*expected, tables).await
}
