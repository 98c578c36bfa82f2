//! States of the same measures put together: of times that follow each other, of several tables.

use super::{AggregateFunction, AggregateRequest, AggregateStates, MeasureState, Selected, SelectedValues};
use crate::error::{Error, Result};
use crate::store::Snapshot;

impl MeasureState {
    /// Whether states are of the same kind and type.
    fn is_like(&self, other: &MeasureState) -> bool {
        match (self, other) {
            (MeasureState::Selected(own), MeasureState::Selected(other)) => {
                std::mem::discriminant(&own.values) == std::mem::discriminant(&other.values)
            }
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }

    /// Adds the state of a slot of `other` to a slot: what comes after it.
    pub(super) fn add_slot(
        &mut self,
        slot: usize,
        function: AggregateFunction,
        other: &MeasureState,
        from: usize,
    ) {
        match (self, other) {
            (MeasureState::Count(counts), MeasureState::Count(more)) => counts[slot] += more[from],
            (
                MeasureState::SumInteger { sums, counts },
                MeasureState::SumInteger { sums: more_sums, counts: more_counts },
            ) => {
                sums[slot] += more_sums[from];
                counts[slot] += more_counts[from];
            }
            (
                MeasureState::SumFloat { sums, counts },
                MeasureState::SumFloat { sums: more_sums, counts: more_counts },
            ) if more_counts[from] > 0 => {
                let is_first = counts[slot] == 0;
                sums[slot] = if is_first { more_sums[from] } else { sums[slot] + more_sums[from] };
                counts[slot] += more_counts[from];
            }
            (MeasureState::Selected(selected), MeasureState::Selected(more)) => {
                selected.offer(slot, function, more, from);
            }
            (MeasureState::Increase(increases), MeasureState::Increase(more)) => {
                increases.append_slot(slot, more, from);
            }
            // A float sum of nothing.
            _ => {}
        }
    }
}

impl Selected {
    /// Takes a value of `other` where it is preferred.
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

/// Computes the same measures of several tables together, one table after the other: groups, windows and functions of the
/// requests are equal, columns, series and conditions are those of each. Selected values say which series of their table
/// they are from; a group that has series of several tables is not told which table that is.
pub async fn aggregate_tables(
    snapshot: &dyn Snapshot,
    requests: &[AggregateRequest],
) -> Result<AggregateStates> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{ColumnId, SeriesId, TableId};
    use crate::schema::{ColumnType, TableSchema};
    use crate::store::memory::MemoryStore;
    use crate::store::{
        Alteration, CellColumn, Measure, Operation, Store, Upsert, Windows, WriteBatch, WriteMode,
    };
    use crate::time::TimeRange;
    use arrow_array::{ArrayRef, Int64Array, TimestampNanosecondArray, UInt32Array};
    use std::sync::Arc;

    async fn table(store: &MemoryStore, name: &str, rows: &[(u32, i64, i64)]) -> Result<TableId> {
        let table = store.create_table(TableSchema::measurement(name, 100)).await?;
        store.alter_table(table, vec![Alteration::add_column("v", ColumnType::Int64)]).await?;
        let cells = |id, values: ArrayRef| CellColumn { column: ColumnId(id), values, null_cells: None };
        let columns = vec![
            cells(0, Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.0)))),
            cells(1, Arc::new(TimestampNanosecondArray::from_iter_values(rows.iter().map(|row| row.1)))),
            cells(2, Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.2)))),
        ];
        let upsert = Upsert { table, mode: WriteMode::Upsert, columns };
        store.write(WriteBatch { operations: vec![Operation::Upsert(upsert)] }).await?;
        Ok(table)
    }

    #[tokio::test]
    async fn tables_are_aggregated_as_if_they_were_one() -> Result<()> {
        use AggregateFunction::{Count, First, Increase, Max, Sum};
        let store = MemoryStore::default();
        let first = table(&store, "first", &[(1, 5, 3), (1, 15, 4), (2, 5, 9)]).await?;
        let second = table(&store, "second", &[(7, 3, 1), (7, 16, 8)]).await?;
        let measure = |function| Measure { column: ColumnId(2), function };
        let request = |table, series: &[(u32, u32)]| AggregateRequest {
            table,
            series: series.iter().map(|(id, group)| (SeriesId(*id), *group)).collect(),
            groups: 2,
            time: TimeRange::ALL,
            windows: Windows::Regular { start_ns: 0, width_ns: 10, count: 2 },
            predicates: Vec::new(),
            measures: [Count, Sum, Max, First].map(measure).to_vec(),
            times: true,
        };
        let snapshot = store.latest();
        let both = [request(first, &[(1, 0), (2, 1)]), request(second, &[(7, 0)])];
        let states = aggregate_tables(&*snapshot, &both).await?;
        assert_eq!(states.measures[0], MeasureState::Count(vec![2, 2, 1, 0]));
        let sums = MeasureState::SumInteger { sums: vec![4, 12, 9, 0], counts: vec![2, 2, 1, 0] };
        assert_eq!(states.measures[1], sums);
        let selected = |at: usize| match &states.measures[at] {
            MeasureState::Selected(Selected { values: SelectedValues::Int(values), times_ns, .. }) => {
                (values[..3].to_vec(), times_ns[..3].to_vec())
            }
            other => unreachable!("{other:?}"),
        };
        assert_eq!(selected(2), (vec![3, 8, 9], vec![5, 16, 5]));
        assert_eq!(selected(3), (vec![1, 4, 9], vec![3, 15, 5]));
        let narrow = Windows::Regular { start_ns: 0, width_ns: 9, count: 2 };
        let other = AggregateRequest { windows: narrow, ..request(second, &[(7, 0)]) };
        assert!(aggregate_tables(&*snapshot, &[both[0].clone(), other]).await.is_err());
        let third = store.create_table(TableSchema::measurement("third", 100)).await?;
        store.alter_table(third, vec![Alteration::add_column("v", ColumnType::Float64)]).await?;
        let snapshot = store.latest();
        let of_floats = [both[0].clone(), request(third, &[(1, 0)])];
        assert!(aggregate_tables(&*snapshot, &of_floats).await.is_err(), "other types");
        let grown = both.map(|both| AggregateRequest { measures: vec![measure(Increase)], ..both });
        assert!(aggregate_tables(&*snapshot, &grown).await.is_err(), "two series of group 0");
        let [alone, other] = grown;
        let apart = AggregateRequest { series: [(SeriesId(2), 1)].into(), ..alone };
        assert!(aggregate_tables(&*snapshot, &[apart, other]).await.is_ok());
        Ok(())
    }
}
