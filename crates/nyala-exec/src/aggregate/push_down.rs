//! Aggregates that the store computes on its own blocks.

use super::{Aggregate, Reduction, states};
use crate::column::Column;
use crate::group_series::GroupSeries;
use crate::memory::QueryMemory;
use nyala_core::store::{
    AggregateRequest, AggregateStates, Measure, MeasureState, Predicate, SnapshotRef, Windows,
};
use nyala_core::{ColumnId, ColumnType, Result, SeriesId, TableId, TimeRange};
use std::ops::Range;

/// The most states asked for at once of one group.
const STATES_AT_ONCE: usize = 1 << 20;
/// As many of several groups: the first are written while the next are computed.
const GROUP_STATES_AT_ONCE: usize = 1 << 16;
/// The most groups, likewise.
const GROUPS_AT_ONCE: usize = 512;
/// They take at most this part of a query's memory: what is made of them until it is sent takes as much again, twice.
const STATES_SHARE: usize = 8;
/// What a state takes, about.
const STATE_BYTES: usize = 32;
/// The fewest windows computed at once where a limit may make the rest needless.
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
    /// Where they are read.
    pub snapshot: &'a SnapshotRef,
    /// The table.
    pub table: TableId,
    /// The times that are read.
    pub time: TimeRange,
    /// What all rows must satisfy.
    pub predicates: &'a [Predicate],
    /// The series of each group.
    pub series: &'a GroupSeries,
}

/// What was computed of some groups in all windows.
pub struct StatesOfGroups<'a> {
    of: &'a PushDown,
    states: AggregateStates,
    groups: usize,
    windows: usize,
}

impl PushDown {
    /// How the store can answer aggregates of columns, if it can.
    pub fn of(aggregates: impl IntoIterator<Item = (Aggregate, ColumnId, ColumnType)>) -> Option<Self> {
        let mut all = Self { measures: Vec::new(), aggregates: Vec::new() };
        for (aggregate, column, column_type) in aggregates {
            for function in aggregate.measures() {
                MeasureState::empty(*function, column_type, 0).ok()?;
            }
            all.aggregates.push((aggregate, all.measures.len(), column_type == ColumnType::UInt64));
            let measures = aggregate.measures().iter();
            all.measures.extend(measures.map(|function| Measure { column, function: *function }));
        }
        Some(all)
    }

    /// Whether a query has the memory for the states of a group, whose windows may be far more than those with rows.
    pub fn fits(&self, windows: &Windows, memory: &QueryMemory) -> bool {
        let bytes = windows.count().saturating_mul(self.measures.len()).saturating_mul(STATE_BYTES);
        bytes <= memory.limit_bytes() / 2
    }

    /// How many groups to compute at once.
    pub fn groups_at_once(&self, windows: &Windows, memory: &QueryMemory) -> usize {
        let states = GROUP_STATES_AT_ONCE.min(memory.limit_bytes() / STATES_SHARE / STATE_BYTES);
        (states / (windows.count() * self.measures.len()).max(1)).clamp(1, GROUPS_AT_ONCE)
    }

    /// Whether windows are worth computing slice by slice where so many are likely to be enough.
    pub fn slices(windows: &Windows, needed: usize) -> bool {
        windows.count() > needed.saturating_mul(4).max(WINDOWS_AT_ONCE)
    }

    /// Computes the aggregates of some groups in all windows. `times`: whether anybody asks for those of selected values.
    pub async fn compute(
        &self,
        stored: &StoredGroups<'_>,
        groups: Range<usize>,
        windows: &Windows,
        times: bool,
        memory: &QueryMemory,
    ) -> Result<StatesOfGroups<'_>> {
        let count = groups.len();
        let states = self.aggregate(stored, self.request(stored, groups, windows, times), memory).await?;
        Ok(StatesOfGroups { of: self, states, groups: count, windows: windows.count() })
    }

    /// Computes the aggregates of some groups, per group, per aggregate, in windows from one end: slice by slice, the
    /// first of `needed` windows and each twice as long, until all groups have enough of each after so many windows.
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
        let (mut done, mut slice) = (0, needed);
        while done < all {
            let length = slice.min(all - done);
            let first = if ascending { done } else { all - done - length };
            request.windows = windows.part(first, length);
            let states = self.aggregate(stored, request.clone(), memory).await?;
            for group in 0..count {
                let reductions = self.reductions(&states, group * length..(group + 1) * length, first);
                match found.get_mut(group) {
                    None => found.push(reductions),
                    Some(known) => {
                        let pairs = known.iter_mut().zip(reductions);
                        pairs.for_each(|(known, more)| known.append(more, ascending));
                    }
                }
            }
            done += length;
            slice = slice.saturating_mul(2).clamp(WINDOWS_AT_ONCE, STATES_AT_ONCE);
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

    /// Asks the store, while the query's memory is charged with what it answers.
    async fn aggregate(
        &self,
        stored: &StoredGroups<'_>,
        request: AggregateRequest,
        memory: &QueryMemory,
    ) -> Result<AggregateStates> {
        let bytes = request.slots().saturating_mul(self.measures.len()).saturating_mul(STATE_BYTES);
        let mut held = memory.hold();
        held.charge(bytes)?;
        stored.snapshot.aggregate(request).await
    }

    /// Of some slots, the first of which is that of a window.
    fn reductions(
        &self,
        states: &AggregateStates,
        slots: Range<usize>,
        first_window: usize,
    ) -> Vec<Reduction> {
        let of_aggregate = |(aggregate, measure, unsigned): &(Aggregate, usize, bool)| {
            let measures = &states.measures[*measure..];
            let present = states::present(&measures[0], slots.clone(), |slot| *slot);
            let window = |slot: &usize| (slot - slots.start + first_window) as u32;
            Reduction {
                windows: present.iter().map(window).collect(),
                values: states::values(*aggregate, measures, *unsigned, &present),
                times_ns: states::times_ns(&measures[0], &present),
            }
        };
        self.aggregates.iter().map(of_aggregate).collect()
    }
}

impl StatesOfGroups<'_> {
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
