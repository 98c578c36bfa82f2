//! Aggregates that the store computes on its own blocks.

use super::{Aggregate, Reduction, check_text_bytes, finished};
use crate::column::Column;
use crate::group_series::GroupSeries;
use crate::memory::{MemoryCharge, QueryMemory};
use nyala_core::store::aggregate::SelectedValues;
use nyala_core::store::{
    AggregateRequest, Measure, PartialAggregate, PartialAggregates, Predicate, SnapshotRef, Windows,
};
use nyala_core::{ColumnId, ColumnType, Result, SeriesId, TableId, TimeRange};
use std::ops::Range;

/// The most slots (windows of measures) of one group in one request.
const SLOTS_AT_ONCE: usize = 1 << 20;
/// The same for several groups. It is smaller, because the first groups are written while the next are computed.
const GROUP_SLOTS_AT_ONCE: usize = 1 << 16;
/// The most groups in one request.
const GROUPS_AT_ONCE: usize = 512;
/// A request takes at most this part of a query's memory: its results take twice as much again until they are sent.
const MEMORY_SHARE: usize = 8;
/// About how many bytes a slot takes.
const SLOT_BYTES: usize = 32;
/// The fewest windows of a slice, if a limit may stop the query before the last slice.
const WINDOWS_AT_ONCE: usize = 16;

/// Aggregates as measures of the store.
pub struct PushDown {
    measures: Vec<Measure>,
    /// Per aggregate its first measure and whether its column is unsigned.
    aggregates: Vec<(Aggregate, usize, bool)>,
}

/// Rows of one table by groups of series.
#[derive(Clone, Copy)]
pub struct StoredGroups<'a> {
    /// The snapshot they are read from.
    pub snapshot: &'a SnapshotRef,
    /// The table.
    pub table: TableId,
    /// The times that are read.
    pub time: TimeRange,
    /// Conditions that all rows must satisfy.
    pub predicates: &'a [Predicate],
    /// The series of each group.
    pub series: &'a GroupSeries,
}

/// The store's accumulators of some groups in all windows.
pub struct ComputedGroups<'a> {
    of: &'a PushDown,
    states: PartialAggregates,
    groups: usize,
    windows: usize,
    _held: MemoryCharge,
}

impl PushDown {
    /// How the store can answer aggregates of columns, if it can.
    pub fn of(aggregates: impl IntoIterator<Item = (Aggregate, ColumnId, ColumnType)>) -> Option<Self> {
        let mut all = Self { measures: Vec::new(), aggregates: Vec::new() };
        for (aggregate, column, column_type) in aggregates {
            for function in aggregate.measures() {
                PartialAggregate::empty(*function, column_type, 0).ok()?;
            }
            all.aggregates.push((aggregate, all.measures.len(), column_type == ColumnType::UInt64));
            let measures = aggregate.measures().iter();
            all.measures.extend(measures.map(|function| Measure { column, function: *function }));
        }
        Some(all)
    }

    /// Whether a query has the memory for a group's slots: there may be far more windows than windows with rows.
    pub fn fits(&self, windows: &Windows, memory: &QueryMemory) -> bool {
        let bytes = windows.count().saturating_mul(self.measures.len()).saturating_mul(SLOT_BYTES);
        bytes <= memory.limit_bytes() / 2
    }

    /// How many groups to compute at once.
    pub fn groups_at_once(&self, windows: &Windows, memory: &QueryMemory) -> usize {
        let slots = GROUP_SLOTS_AT_ONCE.min(memory.limit_bytes() / MEMORY_SHARE / SLOT_BYTES);
        (slots / (windows.count() * self.measures.len()).max(1)).clamp(1, GROUPS_AT_ONCE)
    }

    /// Whether it pays to compute windows slice by slice when `needed` of them are likely to be enough.
    pub fn slices(windows: &Windows, needed: usize) -> bool {
        windows.count() > needed.saturating_mul(4).max(WINDOWS_AT_ONCE)
    }

    /// Computes the aggregates of some groups in all windows. `times`: whether the query shows times of selected values.
    pub async fn compute(
        &self,
        stored: &StoredGroups<'_>,
        groups: Range<usize>,
        windows: &Windows,
        times: bool,
        memory: &QueryMemory,
    ) -> Result<ComputedGroups<'_>> {
        let count = groups.len();
        let request = self.request(stored, groups, windows, times);
        let (states, held) = self.aggregate(stored, request, memory).await?;
        Ok(ComputedGroups { of: self, states, groups: count, windows: windows.count(), _held: held })
    }

    /// Computes the aggregates of some groups slice by slice, from the first window or from the last. The first slice has
    /// `needed` windows, each further one twice as many. Stops when `is_enough` holds for every aggregate of every group
    /// after that many windows. The result is per group, then per aggregate.
    pub async fn compute_until(
        &self,
        stored: &StoredGroups<'_>,
        groups: Range<usize>,
        (windows, ascending): (&Windows, bool),
        needed: usize,
        memory: &QueryMemory,
        is_enough: impl Fn(&Reduction, usize) -> bool,
    ) -> Result<Vec<Vec<Reduction>>> {
        let (all, count) = (windows.count(), groups.len());
        let mut request = self.request(stored, groups, windows, false);
        let mut found: Vec<Vec<Reduction>> = Vec::new();
        // Slices are charged until they are reduced, what they are reduced to until there are enough of them.
        let mut found_held = memory.hold();
        let (mut done, mut slice) = (0, needed);
        while done < all {
            let length = slice.min(all - done);
            let first = if ascending { done } else { all - done - length };
            request.windows = windows.part(first, length);
            let (states, _held) = self.aggregate(stored, request.clone(), memory).await?;
            for group in 0..count {
                let reductions = self.reductions(&states, group * length..(group + 1) * length, first);
                found_held.charge(reductions.iter().map(Reduction::memory_bytes).sum())?;
                let Some(known) = found.get_mut(group) else {
                    found.push(reductions);
                    continue;
                };
                for (known, more) in known.iter_mut().zip(reductions) {
                    check_text_bytes(known.values.text_bytes() + more.values.text_bytes())?;
                    known.append(more, ascending);
                }
            }
            done += length;
            slice = slice.saturating_mul(2).clamp(WINDOWS_AT_ONCE, SLOTS_AT_ONCE);
            if found.iter().flatten().all(|reduction| is_enough(reduction, done)) {
                break;
            }
        }
        Ok(found)
    }

    fn request(
        &self,
        stored: &StoredGroups<'_>,
        groups: Range<usize>,
        windows: &Windows,
        times: bool,
    ) -> AggregateRequest {
        let mut series: Vec<(SeriesId, u32)> = Vec::new();
        for (number, group) in groups.clone().enumerate() {
            series.extend(stored.series[group].iter().map(|id| (*id, number as u32)));
        }
        series.sort_unstable();
        AggregateRequest {
            table: stored.table,
            series: series.into(),
            groups: groups.len(),
            time: stored.time,
            windows: windows.clone(),
            predicates: stored.predicates.to_vec(),
            measures: self.measures.clone(),
            times,
        }
    }

    /// Asks the store, and charges the query's memory with the answer: before it is there, but for its texts, whose lengths
    /// nobody knows before.
    async fn aggregate(
        &self,
        stored: &StoredGroups<'_>,
        request: AggregateRequest,
        memory: &QueryMemory,
    ) -> Result<(PartialAggregates, MemoryCharge)> {
        let bytes = request.slots().saturating_mul(self.measures.len()).saturating_mul(SLOT_BYTES);
        let mut held = memory.hold();
        held.charge(bytes)?;
        let states = stored.snapshot.aggregate(request).await?;
        for state in &states.measures {
            let PartialAggregate::Selected(selected) = state else { continue };
            let SelectedValues::String(texts) = &selected.values else { continue };
            let text_bytes = texts.iter().map(String::len).sum();
            check_text_bytes(text_bytes)?;
            // As they are, and in a column.
            held.charge(2 * text_bytes)?;
        }
        Ok((states, held))
    }

    /// The reductions of some slots; the first slot is that of `first_window`.
    fn reductions(
        &self,
        states: &PartialAggregates,
        slots: Range<usize>,
        first_window: usize,
    ) -> Vec<Reduction> {
        let of_aggregate = |(aggregate, measure, unsigned): &(Aggregate, usize, bool)| {
            let measures = &states.measures[*measure..];
            let present = finished::present(&measures[0], slots.clone(), |slot| *slot);
            let window = |slot: &usize| (slot - slots.start + first_window) as u32;
            Reduction {
                windows: present.iter().map(window).collect(),
                values: finished::values(*aggregate, measures, *unsigned, &present),
                times_ns: finished::times_ns(&measures[0], &present),
            }
        };
        self.aggregates.iter().map(of_aggregate).collect()
    }
}

impl ComputedGroups<'_> {
    /// The columns of the aggregates, group after group, if every group has a value in every window.
    pub fn whole(&self) -> Option<Vec<Column>> {
        let slots = self.groups * self.windows;
        let all = self.of.reductions(&self.states, 0..slots, 0);
        let is_whole = all.iter().all(|reduction| reduction.windows.len() == slots);
        is_whole.then(|| all.into_iter().map(|reduction| reduction.values).collect())
    }

    /// Per group, per aggregate.
    pub fn groups(&self) -> Vec<Vec<Reduction>> {
        let slots = |group: usize| group * self.windows..(group + 1) * self.windows;
        (0..self.groups).map(|group| self.of.reductions(&self.states, slots(group), 0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, Int64Array, StringArray, TimestampNanosecondArray, UInt32Array};
    use nyala_core::memory::MemoryBudget;
    use nyala_core::store::memory::MemoryStore;
    use nyala_core::store::{Alteration, CellColumn, Operation, Store, Upsert, WriteBatch, WriteMode};
    use nyala_core::{Error, ErrorKind, TableSchema};
    use std::sync::Arc;

    #[tokio::test]
    async fn selected_texts_take_the_memory_of_the_query() {
        let store = MemoryStore::default();
        let table = store.create_table(TableSchema::measurement("m", 1_000_000)).await.expect("is new");
        let texts = Alteration::add_column("s", ColumnType::String);
        store.alter_table(table, vec![texts]).await.expect("is new");
        let cells = |id, values: ArrayRef| CellColumn { column: ColumnId(id), values, null_cells: None };
        let text = "x".repeat(10_000);
        let columns = vec![
            cells(0, Arc::new(UInt32Array::from(vec![1_u32; 100]))),
            cells(1, Arc::new(TimestampNanosecondArray::from_iter_values(0..100))),
            cells(2, Arc::new(StringArray::from(vec![text.as_str(); 100]))),
        ];
        let upsert = Upsert { table, mode: WriteMode::Upsert, columns };
        store.write(WriteBatch { operations: vec![Operation::Upsert(upsert)] }).await.expect("is written");
        let snapshot = store.latest();
        let push_down = PushDown::of([(Aggregate::Last, ColumnId(2), ColumnType::String)]).expect("exists");
        let series = GroupSeries::of(1, &[(SeriesId(1), 0)]);
        let stored = StoredGroups {
            snapshot: &snapshot,
            table,
            time: TimeRange::ALL,
            predicates: &[],
            series: &series,
        };
        for (windows, refused) in [(10, None), (100, Some(ErrorKind::Limit))] {
            let windows = Windows::Regular { start_ns: 0, width_ns: 100 / windows, count: windows as usize };
            let memory = QueryMemory::new(1 << 20, &MemoryBudget::new(1 << 30));
            let computed = push_down.compute(&stored, 0..1, &windows, false, &memory).await;
            assert_eq!(computed.as_ref().err().map(Error::kind), refused);
            let never = |_: &Reduction, _: usize| false;
            let sliced = push_down.compute_until(&stored, 0..1, (&windows, true), 2, &memory, never).await;
            assert_eq!(sliced.err().map(|error| error.kind()), refused);
            drop(computed);
            assert_eq!(memory.used_bytes(), 0);
        }
    }

    #[tokio::test]
    async fn windows_of_earlier_slices_take_the_memory_of_the_query() {
        let store = MemoryStore::default();
        let table = store.create_table(TableSchema::measurement("m", 1_000_000)).await.expect("is new");
        let numbers = Alteration::add_column("n", ColumnType::Int64);
        store.alter_table(table, vec![numbers]).await.expect("is new");
        let cells = |id, values: ArrayRef| CellColumn { column: ColumnId(id), values, null_cells: None };
        let columns = vec![
            cells(0, Arc::new(UInt32Array::from(vec![1_u32; 100]))),
            cells(1, Arc::new(TimestampNanosecondArray::from_iter_values(0..100))),
            cells(2, Arc::new(Int64Array::from_iter_values(0..100))),
        ];
        let upsert = Upsert { table, mode: WriteMode::Upsert, columns };
        store.write(WriteBatch { operations: vec![Operation::Upsert(upsert)] }).await.expect("is written");
        let snapshot = store.latest();
        let push_down = PushDown::of([(Aggregate::Last, ColumnId(2), ColumnType::Int64)]).expect("exists");
        let series = GroupSeries::of(1, &[(SeriesId(1), 0)]);
        let (time, predicates) = (TimeRange::ALL, &[][..]);
        let stored = StoredGroups { snapshot: &snapshot, table, time, predicates, series: &series };
        let windows = Windows::Regular { start_ns: 0, width_ns: 1, count: 100 };
        // The last slice, of 50 windows, fits alone, and not beside what is known of the 50 before it.
        let last_slice_bytes = 50 * SLOT_BYTES;
        for (limit_bytes, refused) in [(1 << 20, None), (last_slice_bytes + 500, Some(ErrorKind::Limit))] {
            let memory = QueryMemory::new(limit_bytes, &MemoryBudget::new(1 << 30));
            let never = |_: &Reduction, _: usize| false;
            let sliced = push_down.compute_until(&stored, 0..1, (&windows, true), 2, &memory, never).await;
            assert_eq!(sliced.err().map(|error| error.kind()), refused);
            assert_eq!(memory.used_bytes(), 0);
        }
    }
}
