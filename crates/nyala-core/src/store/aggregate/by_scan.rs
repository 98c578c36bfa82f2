//! Aggregates computed from scanned rows: for stores that cannot aggregate, and as the reference for stores that can.

use super::{
    AggregateFunction, AggregateRequest, FloatSum, PartialAggregate, PartialAggregates, Selected,
    SelectedValues,
};
use crate::error::Result;
use crate::ids::SeriesId;
use crate::schema::TIME_COLUMN;
use crate::store::{Batch, RowSelection, ScanRequest, SeriesSet, Snapshot};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampNanosecondType, UInt64Type};
use arrow_array::{Array, ArrayRef};

/// Computes the same as [`Snapshot::aggregate`] from a scan.
pub async fn aggregate_by_scan(
    snapshot: &dyn Snapshot,
    request: &AggregateRequest,
) -> Result<PartialAggregates> {
    let schema = snapshot.schema(request.table)?;
    request.validate(&schema)?;
    let mut states = request.empty_states(&schema)?;
    let ids: Vec<SeriesId> = request.series.iter().map(|(series, _)| *series).collect();
    let mut columns = vec![TIME_COLUMN];
    columns.extend(request.measures.iter().map(|measure| measure.column));
    let rows = RowSelection::Series { series: SeriesSet::Ids(ids.into()), time: request.time };
    let predicates = request.predicates.clone();
    let scan = ScanRequest { predicates, ..ScanRequest::by_key(request.table, rows, columns) };
    let mut stream = snapshot.scan(scan).await?;
    let mut float_sums = PendingFloatSums::default();
    while let Some(batch) = stream.next().await? {
        accumulate(request, &batch, &mut states, &mut float_sums);
    }
    float_sums.finish(&mut states);
    Ok(states)
}

/// The unfinished float sums of the current series and window, one per measure. A window may continue in the next
/// batch.
#[derive(Default)]
struct PendingFloatSums {
    series: Option<SeriesId>,
    window: usize,
    slot: usize,
    sums: Vec<FloatSum>,
}

impl PendingFloatSums {
    fn move_to(&mut self, series: SeriesId, window: usize, slot: usize, states: &mut PartialAggregates) {
        if self.series != Some(series) || self.window != window {
            self.finish(states);
            *self = Self {
                series: Some(series),
                window,
                slot,
                sums: vec![FloatSum::default(); states.measures.len()],
            };
        }
    }

    fn finish(&mut self, states: &mut PartialAggregates) {
        for (pending, state) in self.sums.drain(..).zip(&mut states.measures) {
            if let (PartialAggregate::SumFloat { sums, counts }, true) = (state, pending.count() > 0) {
                let first = counts[self.slot] == 0;
                sums[self.slot] = if first { pending.sum() } else { sums[self.slot] + pending.sum() };
                counts[self.slot] += pending.count();
            }
        }
    }
}

fn accumulate(
    request: &AggregateRequest,
    batch: &Batch,
    states: &mut PartialAggregates,
    float_sums: &mut PendingFloatSums,
) {
    let times = batch.columns[0].as_primitive::<TimestampNanosecondType>().values();
    let windows = request.windows.count();
    let mut row = 0;
    for run in &batch.series {
        let position = request.series.binary_search_by_key(&run.series, |(series, _)| *series);
        let group = request.series[position.expect("the scan yields only what was asked")].1 as usize;
        for row in row..row + run.rows as usize {
            let Some(window) = request.windows.index_of(times[row]) else { continue };
            let slot = group * windows + window;
            float_sums.move_to(run.series, window, slot, states);
            for (index, measure) in request.measures.iter().enumerate() {
                let column = &batch.columns[index + 1];
                if column.is_valid(row) {
                    let cell = Cell {
                        function: measure.function,
                        column,
                        row,
                        time_ns: times[row],
                        series: run.series,
                    };
                    cell.add_to(&mut states.measures[index], &mut float_sums.sums[index], slot);
                }
            }
        }
        row += run.rows as usize;
    }
}

struct Cell<'a> {
    function: AggregateFunction,
    column: &'a ArrayRef,
    row: usize,
    time_ns: i64,
    series: SeriesId,
}

impl Cell<'_> {
    fn add_to(&self, state: &mut PartialAggregate, float_sum: &mut FloatSum, slot: usize) {
        let (column, row) = (self.column, self.row);
        match state {
            PartialAggregate::Count(counts) => counts[slot] += 1,
            PartialAggregate::SumInteger { sums, counts } => {
                sums[slot] += match column.as_primitive_opt::<Int64Type>() {
                    Some(array) => i128::from(array.value(row)),
                    None => i128::from(column.as_primitive::<UInt64Type>().value(row)),
                };
                counts[slot] += 1;
            }
            PartialAggregate::SumFloat { .. } => {
                float_sum.add(column.as_primitive::<Float64Type>().value(row))
            }
            PartialAggregate::Increase(increases) => increases.add(slot, self.time_ns, self.number()),
            PartialAggregate::Selected(selected) => {
                let Selected { values, times_ns, series } = selected;
                let place = (times_ns[slot], series[slot]);
                let replaced = match values {
                    SelectedValues::Int(values) => {
                        let value = match column.as_primitive_opt::<Int64Type>() {
                            Some(array) => array.value(row),
                            None => column.as_primitive::<TimestampNanosecondType>().value(row),
                        };
                        self.select(value, &mut values[slot], place)
                    }
                    SelectedValues::UInt(values) => {
                        self.select(column.as_primitive::<UInt64Type>().value(row), &mut values[slot], place)
                    }
                    SelectedValues::Float(values) => {
                        self.select(column.as_primitive::<Float64Type>().value(row), &mut values[slot], place)
                    }
                    SelectedValues::Bool(values) => {
                        self.select(column.as_boolean().value(row), &mut values[slot], place)
                    }
                    SelectedValues::String(values) => {
                        self.select(column.as_string::<i32>().value(row).to_owned(), &mut values[slot], place)
                    }
                };
                if replaced {
                    times_ns[slot] = self.time_ns;
                    series[slot] = Some(self.series);
                }
            }
        }
    }

    fn number(&self) -> f64 {
        let (column, row) = (self.column, self.row);
        if let Some(array) = column.as_primitive_opt::<Float64Type>() {
            return array.value(row);
        }
        match column.as_primitive_opt::<Int64Type>() {
            Some(array) => array.value(row) as f64,
            None => column.as_primitive::<UInt64Type>().value(row) as f64,
        }
    }

    fn select<T: PartialOrd + Clone>(
        &self,
        value: T,
        selected: &mut T,
        place: (i64, Option<SeriesId>),
    ) -> bool {
        let preferred = match place {
            (_, None) => true,
            (time_ns, Some(series)) => self
                .function
                .prefers((value.clone(), self.time_ns, self.series), (selected.clone(), time_ns, series)),
        };
        if preferred {
            *selected = value;
        }
        preferred
    }
}
