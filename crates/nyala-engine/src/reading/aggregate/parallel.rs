//! Parallel aggregation: half of the groups of a heavy request are computed on a worker thread.
//!
//! Each group is computed on one thread, so its order of addition does not change. The answer is the first half, then the
//! second.

use super::aggregate_series;
use crate::memory::version::Version;
use crate::runtime::block_on;
use crate::runtime::worker_pool::Worker;
use nyala_core::Result;
use nyala_core::memory::MemoryBudget;
use nyala_core::store::aggregate::{Selected, SelectedValues};
use nyala_core::store::{AggregateRequest, PartialAggregate, PartialAggregates};
use std::sync::Arc;

/// The fewest series × columns of a request that is worth a thread: at 2 µs each some ten times the cost of handing work
/// over.
const WORTH_SERIES_COLUMNS: usize = 512;

/// Computes a request, on two threads when that pays.
pub(crate) async fn aggregate(
    (version, sequence): (&Arc<Version>, u64),
    request: &AggregateRequest,
    budget: &Arc<MemoryBudget>,
) -> Result<PartialAggregates> {
    let worth = request.series.len() * request.measures.len() >= WORTH_SERIES_COLUMNS && request.groups > 1;
    let Some(worker) = worth.then(Worker::take).flatten() else {
        return aggregate_series((version, sequence), request, budget).await;
    };
    let [first, second] = split_groups(request);
    // Dropped when this future ends or is cancelled.
    let wanted = Arc::new(());
    let (shared_version, still_wanted) = (version.clone(), Arc::downgrade(&wanted));
    let shared_budget = budget.clone();
    let mut second = worker.run(move || {
        let half = aggregate_series((&shared_version, sequence), &second, &shared_budget);
        block_on::while_wanted(half, &still_wanted)
    });
    let first = aggregate_series((version, sequence), &first, budget).await?;
    Ok(concatenate(first, second.wait().await??))
}

/// The partial aggregates of both halves.
fn concatenate(mut states: PartialAggregates, second: PartialAggregates) -> PartialAggregates {
    states.measures.iter_mut().zip(second.measures).for_each(|(state, more)| append(state, more));
    states
}

/// Two requests: the lower groups, and the upper ones renumbered from 0.
fn split_groups(request: &AggregateRequest) -> [AggregateRequest; 2] {
    let middle = request.groups / 2;
    let (lower, upper): (Vec<_>, Vec<_>) =
        request.series.iter().partition(|(_, group)| (*group as usize) < middle);
    let upper: Vec<_> = upper.into_iter().map(|(series, group)| (series, group - middle as u32)).collect();
    [
        AggregateRequest { series: lower.into(), groups: middle, ..request.clone() },
        AggregateRequest { series: upper.into(), groups: request.groups - middle, ..request.clone() },
    ]
}

/// Appends the partial aggregates of more groups.
fn append(state: &mut PartialAggregate, more: PartialAggregate) {
    match (state, more) {
        (PartialAggregate::Count(counts), PartialAggregate::Count(more)) => counts.extend(more),
        (
            PartialAggregate::SumInteger { sums, counts },
            PartialAggregate::SumInteger { sums: more_sums, counts: more_counts },
        ) => {
            sums.extend(more_sums);
            counts.extend(more_counts);
        }
        (
            PartialAggregate::SumFloat { sums, counts },
            PartialAggregate::SumFloat { sums: more_sums, counts: more_counts },
        ) => {
            sums.extend(more_sums);
            counts.extend(more_counts);
        }
        (PartialAggregate::Selected(selected), PartialAggregate::Selected(more)) => {
            append_selected(selected, more)
        }
        (PartialAggregate::Increase(increases), PartialAggregate::Increase(more)) => increases.extend(more),
        _ => unreachable!("both halves have the same measures"),
    }
}

fn append_selected(selected: &mut Selected, more: Selected) {
    match (&mut selected.values, more.values) {
        (SelectedValues::Int(values), SelectedValues::Int(more)) => values.extend(more),
        (SelectedValues::UInt(values), SelectedValues::UInt(more)) => values.extend(more),
        (SelectedValues::Float(values), SelectedValues::Float(more)) => values.extend(more),
        (SelectedValues::Bool(values), SelectedValues::Bool(more)) => values.extend(more),
        (SelectedValues::String(values), SelectedValues::String(more)) => values.extend(more),
        _ => unreachable!("both halves read the same columns"),
    }
    selected.times_ns.extend(more.times_ns);
    selected.series.extend(more.series);
}

#[cfg(test)]
mod tests {
    use super::*;
    use nyala_core::store::{AggregateFunction, Measure, Windows};
    use nyala_core::{ColumnId, SeriesId, TableId, TimeRange};

    /// Partial aggregates that show of which series, in which order, they were made.
    fn compute(request: &AggregateRequest) -> PartialAggregates {
        let slots = request.slots();
        let (mut counts, mut sums) = (vec![0; slots], vec![0.0; slots]);
        let mut selected = Selected {
            values: SelectedValues::Int(vec![0; slots]),
            times_ns: vec![0; slots],
            series: vec![None; slots],
        };
        for (series, group) in request.series.iter() {
            let slot = *group as usize * request.windows.count() + series.0 as usize % 3;
            counts[slot] += 1;
            sums[slot] = sums[slot] * 1.5 + f64::from(series.0);
            selected.series[slot] = Some(*series);
        }
        let sums = PartialAggregate::SumFloat { sums, counts: counts.clone() };
        let measures = vec![PartialAggregate::Count(counts), sums, PartialAggregate::Selected(selected)];
        PartialAggregates { measures }
    }

    #[test]
    fn halves_are_the_whole() {
        for (series, groups) in [(1_000, 1_000), (1_000, 7), (600, 2), (600, 1), (3, 3)] {
            let measure = Measure { column: ColumnId(2), function: AggregateFunction::Count };
            let request = AggregateRequest {
                table: TableId(1),
                series: (0..series).map(|id| (SeriesId(id), id * 7919 % groups)).collect(),
                groups: groups as usize,
                time: TimeRange::ALL,
                windows: Windows::Regular { start_ns: 0, width_ns: 10, count: 3 },
                predicates: Vec::new(),
                measures: vec![measure; 3],
                times: false,
            };
            let [first, second] = split_groups(&request);
            assert_eq!(
                concatenate(compute(&first), compute(&second)),
                compute(&request),
                "{series} in {groups}"
            );
        }
    }
}
