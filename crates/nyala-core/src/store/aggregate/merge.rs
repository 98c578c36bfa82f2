//! Combining states of the same measures: of consecutive times, or of several tables.

use super::{
    AggregateFunction, AggregateRequest, Increases, PartialAggregate, PartialAggregates, Selected,
    SelectedValues,
};
use crate::error::{Error, Result};
use crate::store::Snapshot;

impl PartialAggregate {
    /// Whether two states have the same kind and type.
    fn is_like(&self, other: &PartialAggregate) -> bool {
        match (self, other) {
            (PartialAggregate::Selected(own), PartialAggregate::Selected(other)) => {
                std::mem::discriminant(&own.values) == std::mem::discriminant(&other.values)
            }
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }

    /// Adds the state of a slot of `other`, whose values come after those of this slot. A selected NaN of `other` hides
    /// the values behind it.
    pub fn add_slot(
        &mut self,
        slot: usize,
        function: AggregateFunction,
        other: &PartialAggregate,
        from: usize,
    ) {
        match (self, other) {
            (PartialAggregate::Count(counts), PartialAggregate::Count(more)) => counts[slot] += more[from],
            (
                PartialAggregate::SumInteger { sums, counts },
                PartialAggregate::SumInteger { sums: more_sums, counts: more_counts },
            ) => {
                sums[slot] += more_sums[from];
                counts[slot] += more_counts[from];
            }
            (
                PartialAggregate::SumFloat { sums, counts },
                PartialAggregate::SumFloat { sums: more_sums, counts: more_counts },
            ) if more_counts[from] > 0 => {
                let is_first = counts[slot] == 0;
                sums[slot] = if is_first { more_sums[from] } else { sums[slot] + more_sums[from] };
                counts[slot] += more_counts[from];
            }
            (PartialAggregate::Selected(selected), PartialAggregate::Selected(more)) => {
                selected.offer(slot, function, more, from);
            }
            (PartialAggregate::Increase(increases), PartialAggregate::Increase(more)) => {
                increases.append_slot(slot, more, from);
            }
            // The sum of no floats: nothing to add.
            _ => {}
        }
    }

    /// Appends a slot without values.
    pub fn push_slot(&mut self) {
        match self {
            PartialAggregate::Count(counts) => counts.push(0),
            PartialAggregate::SumInteger { sums, counts } => {
                sums.push(0);
                counts.push(0);
            }
            PartialAggregate::SumFloat { sums, counts } => {
                sums.push(0.0);
                counts.push(0);
            }
            PartialAggregate::Selected(Selected { values, times_ns, series }) => {
                match values {
                    SelectedValues::Int(values) => values.push(0),
                    SelectedValues::UInt(values) => values.push(0),
                    SelectedValues::Float(values) => values.push(0.0),
                    SelectedValues::Bool(values) => values.push(false),
                    SelectedValues::String(values) => values.push(String::new()),
                }
                times_ns.push(0);
                series.push(None);
            }
            PartialAggregate::Increase(increases) => increases.extend(Increases::empty(1)),
        }
    }
}

impl Selected {
    /// Takes a value of `other` if it is preferred.
    fn offer(&mut self, slot: usize, function: AggregateFunction, other: &Selected, from: usize) {
        let Some(series) = other.series[from] else { return };
        let (time_ns, old_time_ns) = (other.times_ns[from], self.times_ns[slot]);
        let selected = self.series[slot];
        macro_rules! offer {
            ($values:expr, $more:expr) => {{
                let is_preferred = selected.is_none_or(|old_series| {
                    let candidate = (&$more[from], time_ns, series);
                    function.prefers(candidate, (&$values[slot], old_time_ns, old_series))
                });
                if !is_preferred {
                    return;
                }
                $values[slot].clone_from(&$more[from]);
            }};
        }
        match (&mut self.values, &other.values) {
            (SelectedValues::Int(values), SelectedValues::Int(more)) => offer!(values, more),
            (SelectedValues::UInt(values), SelectedValues::UInt(more)) => offer!(values, more),
            (SelectedValues::Float(values), SelectedValues::Float(more)) => offer!(values, more),
            (SelectedValues::Bool(values), SelectedValues::Bool(more)) => offer!(values, more),
            (SelectedValues::String(values), SelectedValues::String(more)) => offer!(values, more),
            _ => unreachable!("states of one measure have one type"),
        }
        (self.times_ns[slot], self.series[slot]) = (time_ns, Some(series));
    }
}

/// Computes the same measures over several tables together, one table after the other. Groups, windows and functions of
/// the requests must be equal; series, columns and conditions belong to each table. A selected value names its series
/// within its own table. If a group has series of several tables, the answer does not say which table that is.
pub async fn aggregate_tables(
    snapshot: &dyn Snapshot,
    requests: &[AggregateRequest],
) -> Result<PartialAggregates> {
    let [first, others @ ..] = requests else { return Err(Error::invalid("an aggregate of no table")) };
    if first.measures.iter().any(|measure| measure.function == AggregateFunction::Increase) {
        let mut groups: Vec<u32> =
            requests.iter().flat_map(|request| request.series.iter().map(|(_, group)| *group)).collect();
        groups.sort_unstable();
        if groups.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Error::invalid("the increase of a group of several series"));
        }
    }
    let mut states = snapshot.aggregate(first.clone()).await?;
    for request in others {
        let functions = |request: &AggregateRequest| -> Vec<_> {
            request.measures.iter().map(|measure| measure.function).collect()
        };
        if (request.groups, &request.windows, functions(request))
            != (first.groups, &first.windows, functions(first))
        {
            return Err(Error::invalid("aggregates of tables that differ in groups, windows or functions"));
        }
        let more = snapshot.aggregate(request.clone()).await?;
        for ((state, more), measure) in states.measures.iter_mut().zip(&more.measures).zip(&first.measures) {
            if !state.is_like(more) {
                return Err(Error::invalid("aggregates of tables that differ in the types of their columns"));
            }
            (0..first.slots()).for_each(|slot| state.add_slot(slot, measure.function, more, slot));
        }
    }
    Ok(states)
}
