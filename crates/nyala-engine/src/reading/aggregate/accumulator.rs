//! The accumulator of a request: aggregate states to which one series after the other is added.

use super::MeasureSource;
use nyala_column::{from_unsigned, to_unsigned};
use nyala_core::SeriesId;
use nyala_core::store::aggregate::{FloatSum, Selected, SelectedValues};
use nyala_core::store::{AggregateFunction, AggregateRequest, PartialAggregate, PartialAggregates};
use std::ops::Range;

/// A selected_value of a selecting function.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum SelectedValue<'a> {
    Int(i64),
    UInt(u64),
    Float(f64),
    Bool(bool),
    Text(&'a [u8]),
}

/// The most windows of a request for which pruning pays.
const PRUNED_WINDOWS: usize = 64;
/// The fewest series in a group for which pruning pays.
const PRUNED_SERIES: usize = 4;

/// States under way.
pub(super) struct Accumulator<'a> {
    pub(super) request: &'a AggregateRequest,
    pub(super) sources: Vec<MeasureSource>,
    /// Whether the index is asked first if a series can change an extreme.
    pub(super) prunes: bool,
    states: PartialAggregates,
    series: SeriesId,
    /// The slot of window 0 of the series' group.
    base: usize,
    /// The unfinished float sum of each measure, and its window.
    float_sums: Vec<(usize, FloatSum)>,
}

impl<'a> Accumulator<'a> {
    pub(super) fn new(
        request: &'a AggregateRequest,
        states: PartialAggregates,
        sources: Vec<MeasureSource>,
    ) -> Self {
        let float_sums = vec![(0, FloatSum::default()); request.measures.len()];
        let extreme = |function| matches!(function, AggregateFunction::Min | AggregateFunction::Max);
        let prunes = !request.times
            && request.windows.count() <= PRUNED_WINDOWS
            && request.series.len() >= PRUNED_SERIES * request.groups
            && request.measures.iter().all(|measure| extreme(measure.function));
        Self { request, sources, prunes, states, series: SeriesId(0), base: 0, float_sums }
    }

    /// Of the extremes in some windows of the series' group, the one that is easiest to replace, as integers are
    /// stored; `None` if a window has none yet, or values are no integers.
    pub(super) fn weakest_extreme(&self, measure: usize, windows: Range<usize>) -> Option<i64> {
        let slots = self.base + windows.start..self.base + windows.end;
        let PartialAggregate::Selected(selected) = &self.states.measures[measure] else { return None };
        if selected.series[slots.clone()].iter().any(Option::is_none) {
            return None;
        }
        let least = self.function(measure) == AggregateFunction::Min;
        match &selected.values {
            SelectedValues::Int(values) if least => values[slots].iter().max().copied(),
            SelectedValues::Int(values) => values[slots].iter().min().copied(),
            SelectedValues::UInt(values) if least => values[slots].iter().max().copied().map(from_unsigned),
            SelectedValues::UInt(values) => values[slots].iter().min().copied().map(from_unsigned),
            _ => None,
        }
    }

    /// Sets the extremes that windows have so far, as integers are stored. The side that is not asked for is unbounded,
    /// so that kernels skip values inside. `(i64::MAX, i64::MIN)` for windows without values.
    pub(super) fn extremes_so_far(&self, measure: usize, windows: Range<usize>, out: &mut Vec<(i64, i64)>) {
        let slots = self.base + windows.start..self.base + windows.end;
        let least = self.function(measure) == AggregateFunction::Min;
        let selected = self.selected(measure);
        out.clear();
        out.extend(slots.map(|slot| {
            let found = match &selected.values {
                SelectedValues::Int(values) => values[slot],
                SelectedValues::UInt(values) => from_unsigned(values[slot]),
                _ => unreachable!("extremes of another type"),
            };
            match selected.series[slot] {
                None => (i64::MAX, i64::MIN),
                Some(_) if least => (found, i64::MAX),
                Some(_) => (i64::MIN, found),
            }
        }));
    }

    pub(super) fn begin_series(&mut self, series: SeriesId, group: u32) {
        self.series = series;
        self.base = group as usize * self.request.windows.count();
    }

    pub(super) fn series(&self) -> SeriesId {
        self.series
    }

    /// Adds the float sums that are not finished when the series ends.
    pub(super) fn end_series(&mut self) {
        for measure in 0..self.float_sums.len() {
            self.end_float_sum(measure);
        }
    }

    pub(super) fn finish(self) -> PartialAggregates {
        self.states
    }

    pub(super) fn function(&self, measure: usize) -> AggregateFunction {
        self.request.measures[measure].function
    }

    pub(super) fn add_count(&mut self, measure: usize, window: usize, count: u64) {
        match &mut self.states.measures[measure] {
            PartialAggregate::Count(counts) => counts[self.base + window] += count,
            _ => unreachable!("not a count"),
        }
    }

    pub(super) fn add_sum(&mut self, measure: usize, window: usize, sum: i128, count: u64) {
        match &mut self.states.measures[measure] {
            PartialAggregate::SumInteger { sums, counts } => {
                sums[self.base + window] += sum;
                counts[self.base + window] += count;
            }
            _ => unreachable!("not a sum of integers"),
        }
    }

    /// Adds the next values of a counter in a window, with their times.
    pub(super) fn add_increase(
        &mut self,
        measure: usize,
        window: usize,
        values: impl Iterator<Item = (i64, f64)>,
    ) {
        match &mut self.states.measures[measure] {
            PartialAggregate::Increase(increases) => {
                values.for_each(|(time_ns, value)| increases.add(self.base + window, time_ns, value));
            }
            _ => unreachable!("not an increase"),
        }
    }

    /// Adds to the counts of windows from `first` on.
    pub(super) fn add_counts(&mut self, measure: usize, first: usize, counts: impl Iterator<Item = u64>) {
        match &mut self.states.measures[measure] {
            PartialAggregate::Count(sums) => {
                sums[self.base + first..].iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            }
            _ => unreachable!("not a count"),
        }
    }

    /// The sums and counts of windows, to be added to.
    pub(super) fn integer_sums(
        &mut self,
        measure: usize,
        first: usize,
        windows: usize,
    ) -> (&mut [i128], &mut [u64]) {
        let slots = self.base + first..self.base + first + windows;
        match &mut self.states.measures[measure] {
            PartialAggregate::SumInteger { sums, counts } => (&mut sums[slots.clone()], &mut counts[slots]),
            _ => unreachable!("not a sum of integers"),
        }
    }

    /// Adds least and greatest integers (as stored) of windows with values, whose times nobody asks for.
    pub(super) fn add_extremes(
        &mut self,
        measure: usize,
        first: usize,
        bounds: &[u32],
        extremes: &[(i64, i64)],
        unsigned: bool,
    ) {
        let least = self.function(measure) == AggregateFunction::Min;
        let slots = self.base + first..self.base + first + extremes.len();
        let own_series = self.series;
        let PartialAggregate::Selected(selected) = &mut self.states.measures[measure] else {
            unreachable!("not a selecting function")
        };
        let series = &mut selected.series[slots.clone()];
        macro_rules! merge {
            ($values:expr, $convert:expr) => {{
                let values = $values[slots].iter_mut().zip(series);
                for (((value, series), (min, max)), pair) in values.zip(extremes).zip(bounds.windows(2)) {
                    if pair[0] == pair[1] {
                        continue;
                    }
                    let found = $convert(if least { *min } else { *max });
                    if series.is_none() || (if least { found < *value } else { found > *value }) {
                        (*value, *series) = (found, Some(own_series));
                    }
                }
            }};
        }
        match &mut selected.values {
            SelectedValues::Int(values) => merge!(values, |value: i64| value),
            SelectedValues::UInt(values) if unsigned => merge!(values, to_unsigned),
            _ => unreachable!("extremes of another type"),
        }
    }

    /// Adds the next values of a window; windows of a series come in order.
    pub(super) fn add_floats(&mut self, measure: usize, window: usize, values: &[f64]) {
        if values.is_empty() {
            return;
        }
        if self.float_sums[measure].0 != window {
            self.end_float_sum(measure);
            self.float_sums[measure].0 = window;
        }
        self.float_sums[measure].1.add_slice(values);
    }

    fn end_float_sum(&mut self, measure: usize) {
        let (window, pending) = std::mem::take(&mut self.float_sums[measure]);
        if pending.count() == 0 {
            return;
        }
        let slot = self.base + window;
        match &mut self.states.measures[measure] {
            PartialAggregate::SumFloat { sums, counts } => {
                sums[slot] = if counts[slot] == 0 { pending.sum() } else { sums[slot] + pending.sum() };
                counts[slot] += pending.count();
            }
            _ => unreachable!("not a sum of floats"),
        }
    }

    fn selected(&self, measure: usize) -> &Selected {
        match &self.states.measures[measure] {
            PartialAggregate::Selected(selected) => selected,
            _ => unreachable!("not a selecting function"),
        }
    }

    /// Whether nothing was selected in a window yet.
    pub(super) fn is_vacant(&self, measure: usize, window: usize) -> bool {
        self.selected(measure).series[self.base + window].is_none()
    }

    /// Whether a value at a time would replace the selected one.
    pub(super) fn prefers(
        &self,
        measure: usize,
        window: usize,
        selected_value: SelectedValue<'_>,
        time_ns: i64,
    ) -> bool {
        let slot = self.base + window;
        let selected = self.selected(measure);
        let Some(series) = selected.series[slot] else { return true };
        let function = self.function(measure);
        let old_time_ns = selected.times_ns[slot];
        macro_rules! prefers {
            ($new:expr, $old:expr) => {
                function.prefers(($new, time_ns, self.series), ($old, old_time_ns, series))
            };
        }
        match (selected_value, &selected.values) {
            (SelectedValue::Int(new), SelectedValues::Int(old)) => prefers!(new, old[slot]),
            (SelectedValue::UInt(new), SelectedValues::UInt(old)) => prefers!(new, old[slot]),
            (SelectedValue::Float(new), SelectedValues::Float(old)) => prefers!(new, old[slot]),
            (SelectedValue::Bool(new), SelectedValues::Bool(old)) => prefers!(new, old[slot]),
            (SelectedValue::Text(new), SelectedValues::String(old)) => prefers!(new, old[slot].as_bytes()),
            _ => unreachable!("a selected_value of another type"),
        }
    }

    /// Replaces the selected value if this one is preferred.
    pub(super) fn offer(
        &mut self,
        measure: usize,
        window: usize,
        selected_value: SelectedValue<'_>,
        time_ns: i64,
    ) {
        if !self.prefers(measure, window, selected_value, time_ns) {
            return;
        }
        let (slot, series) = (self.base + window, self.series);
        let PartialAggregate::Selected(selected) = &mut self.states.measures[measure] else {
            unreachable!("not a selecting function")
        };
        match (selected_value, &mut selected.values) {
            (SelectedValue::Int(new), SelectedValues::Int(values)) => values[slot] = new,
            (SelectedValue::UInt(new), SelectedValues::UInt(values)) => values[slot] = new,
            (SelectedValue::Float(new), SelectedValues::Float(values)) => values[slot] = new,
            (SelectedValue::Bool(new), SelectedValues::Bool(values)) => values[slot] = new,
            (SelectedValue::Text(new), SelectedValues::String(values)) => {
                values[slot] = String::from_utf8_lossy(new).into_owned();
            }
            _ => unreachable!("a selected_value of another type"),
        }
        selected.times_ns[slot] = time_ns;
        selected.series[slot] = Some(series);
    }
}
