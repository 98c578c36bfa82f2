//! The accumulator of a request: partial aggregates, to which one series after the other is added.

use super::MeasureSource;
use nyala_column::{from_unsigned, to_unsigned};
use nyala_core::memory::{Charge, Component, MemoryBudget};
use nyala_core::store::aggregate::{FloatSum, Selected, SelectedValues};
use nyala_core::store::{AggregateFunction, AggregateRequest, PartialAggregate, PartialAggregates};
use nyala_core::{Result, SeriesId};
use std::ops::Range;
use std::sync::Arc;

/// A value that a selecting function (first, last, min, max) may select.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum SelectedValue<'a> {
    Int(i64),
    UInt(u64),
    Float(f64),
    Bool(bool),
    Text(&'a [u8]),
}

/// The most windows of a request for which pruning pays.
const PRUNED_WINDOWS_MAX: usize = 64;
/// The fewest series in a group for which pruning pays.
const PRUNED_SERIES_MIN: usize = 4;

/// The partial aggregates of a request, and the series that is being added.
pub(super) struct Accumulator<'a> {
    pub(super) request: &'a AggregateRequest,
    pub(super) sources: Vec<MeasureSource>,
    /// Whether the index is first used to skip series that cannot change an extreme.
    pub(super) prunes: bool,
    partial: PartialAggregates,
    pub(super) series: SeriesId,
    /// The slot of window 0 of the series' group.
    first_slot: usize,
    /// The unfinished float sum of each measure, and its window.
    float_sums: Vec<(usize, FloatSum)>,
    /// The bytes of the texts that are selected, and what of them is charged.
    text_bytes: u64,
    texts: Charge,
}

impl<'a> Accumulator<'a> {
    pub(super) fn new(
        request: &'a AggregateRequest,
        partial: PartialAggregates,
        sources: Vec<MeasureSource>,
        budget: &Arc<MemoryBudget>,
    ) -> Self {
        let float_sums = vec![(0, FloatSum::default()); request.measures.len()];
        let extreme = |function| matches!(function, AggregateFunction::Min | AggregateFunction::Max);
        let prunes = !request.times
            && request.windows.count() <= PRUNED_WINDOWS_MAX
            && request.series.len() >= PRUNED_SERIES_MIN * request.groups
            && request.measures.iter().all(|measure| extreme(measure.function));
        let (series, texts) = (SeriesId(0), budget.charge(Component::Query, 0));
        Self { request, sources, prunes, partial, series, first_slot: 0, float_sums, text_bytes: 0, texts }
    }

    /// The extreme that is easiest to replace, among those of some windows of the series' group: an `i64` as on disk, for
    /// unsigned integers too. `None` if a window has no extreme yet, or if values are no integers.
    pub(super) fn weakest_extreme(&self, measure: usize, windows: Range<usize>) -> Option<i64> {
        let slots = self.first_slot + windows.start..self.first_slot + windows.end;
        let PartialAggregate::Selected(selected) = &self.partial.measures[measure] else { return None };
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

    /// Sets `out` to the (least, greatest) value that each window has so far, as integers are stored. The one that the
    /// function does not need is unbounded, so that kernels skip all values between the two. Windows without values have
    /// `(i64::MAX, i64::MIN)`.
    pub(super) fn extremes_so_far(&self, measure: usize, windows: Range<usize>, out: &mut Vec<(i64, i64)>) {
        let slots = self.first_slot + windows.start..self.first_slot + windows.end;
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
        self.first_slot = group as usize * self.request.windows.count();
    }

    /// Adds the float sums that are not finished when the series ends.
    pub(super) fn end_series(&mut self) {
        for measure in 0..self.float_sums.len() {
            self.end_float_sum(measure);
        }
    }

    /// Charges the texts that were selected since; an error if they do not fit into memory. What is selected at once is what
    /// was decoded at once.
    pub(super) fn charge_texts(&mut self) -> Result<()> {
        self.texts.try_grow(self.text_bytes.saturating_sub(self.texts.bytes()))
    }

    /// The answer. From here on its texts are the caller's to charge.
    pub(super) fn finish(self) -> PartialAggregates {
        self.partial
    }

    pub(super) fn function(&self, measure: usize) -> AggregateFunction {
        self.request.measures[measure].function
    }

    pub(super) fn add_count(&mut self, measure: usize, window: usize, count: u64) {
        match &mut self.partial.measures[measure] {
            PartialAggregate::Count(counts) => counts[self.first_slot + window] += count,
            _ => unreachable!("not a count"),
        }
    }

    pub(super) fn add_sum(&mut self, measure: usize, window: usize, sum: i128, count: u64) {
        match &mut self.partial.measures[measure] {
            PartialAggregate::SumInteger { sums, counts } => {
                sums[self.first_slot + window] += sum;
                counts[self.first_slot + window] += count;
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
        match &mut self.partial.measures[measure] {
            PartialAggregate::Increase(increases) => {
                values.for_each(|(time_ns, value)| increases.add(self.first_slot + window, time_ns, value));
            }
            _ => unreachable!("not an increase"),
        }
    }

    /// Adds to the counts of windows from `first` on.
    pub(super) fn add_counts(&mut self, measure: usize, first: usize, counts: impl Iterator<Item = u64>) {
        match &mut self.partial.measures[measure] {
            PartialAggregate::Count(sums) => {
                sums[self.first_slot + first..].iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            }
            _ => unreachable!("not a count"),
        }
    }

    /// The sums and counts of windows from `first` on, for the caller to add to.
    pub(super) fn integer_sums(
        &mut self,
        measure: usize,
        first: usize,
        windows: usize,
    ) -> (&mut [i128], &mut [u64]) {
        let slots = self.first_slot + first..self.first_slot + first + windows;
        match &mut self.partial.measures[measure] {
            PartialAggregate::SumInteger { sums, counts } => (&mut sums[slots.clone()], &mut counts[slots]),
            _ => unreachable!("not a sum of integers"),
        }
    }

    /// Adds the least and greatest integers (as stored) of windows from `first` on. `bounds` says which windows have rows.
    /// Times are not recorded: the request needs none.
    pub(super) fn add_extremes(
        &mut self,
        measure: usize,
        first: usize,
        bounds: &[u32],
        extremes: &[(i64, i64)],
        unsigned: bool,
    ) {
        let least = self.function(measure) == AggregateFunction::Min;
        let slots = self.first_slot + first..self.first_slot + first + extremes.len();
        let own_series = self.series;
        let PartialAggregate::Selected(selected) = &mut self.partial.measures[measure] else {
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
        let slot = self.first_slot + window;
        match &mut self.partial.measures[measure] {
            PartialAggregate::SumFloat { sums, counts } => {
                sums[slot] = if counts[slot] == 0 { pending.sum() } else { sums[slot] + pending.sum() };
                counts[slot] += pending.count();
            }
            _ => unreachable!("not a sum of floats"),
        }
    }

    fn selected(&self, measure: usize) -> &Selected {
        match &self.partial.measures[measure] {
            PartialAggregate::Selected(selected) => selected,
            _ => unreachable!("not a selecting function"),
        }
    }

    /// Whether nothing was selected in a window yet.
    pub(super) fn is_vacant(&self, measure: usize, window: usize) -> bool {
        self.selected(measure).series[self.first_slot + window].is_none()
    }

    /// Whether a value at a time would replace the selected one.
    pub(super) fn prefers(
        &self,
        measure: usize,
        window: usize,
        value: SelectedValue<'_>,
        time_ns: i64,
    ) -> bool {
        let slot = self.first_slot + window;
        let selected = self.selected(measure);
        let Some(series) = selected.series[slot] else { return true };
        let function = self.function(measure);
        let old_time_ns = selected.times_ns[slot];
        macro_rules! prefers {
            ($new:expr, $old:expr) => {
                function.prefers(($new, time_ns, self.series), ($old, old_time_ns, series))
            };
        }
        match (value, &selected.values) {
            (SelectedValue::Int(new), SelectedValues::Int(old)) => prefers!(new, old[slot]),
            (SelectedValue::UInt(new), SelectedValues::UInt(old)) => prefers!(new, old[slot]),
            (SelectedValue::Float(new), SelectedValues::Float(old)) => prefers!(new, old[slot]),
            (SelectedValue::Bool(new), SelectedValues::Bool(old)) => prefers!(new, old[slot]),
            (SelectedValue::Text(new), SelectedValues::String(old)) => prefers!(new, old[slot].as_bytes()),
            _ => unreachable!("a value of another type"),
        }
    }

    /// Replaces the selected value if this one is preferred.
    pub(super) fn offer(&mut self, measure: usize, window: usize, value: SelectedValue<'_>, time_ns: i64) {
        if !self.prefers(measure, window, value, time_ns) {
            return;
        }
        let (slot, series) = (self.first_slot + window, self.series);
        let PartialAggregate::Selected(selected) = &mut self.partial.measures[measure] else {
            unreachable!("not a selecting function")
        };
        match (value, &mut selected.values) {
            (SelectedValue::Int(new), SelectedValues::Int(values)) => values[slot] = new,
            (SelectedValue::UInt(new), SelectedValues::UInt(values)) => values[slot] = new,
            (SelectedValue::Float(new), SelectedValues::Float(values)) => values[slot] = new,
            (SelectedValue::Bool(new), SelectedValues::Bool(values)) => values[slot] = new,
            (SelectedValue::Text(new), SelectedValues::String(values)) => {
                let replaced =
                    std::mem::replace(&mut values[slot], String::from_utf8_lossy(new).into_owned());
                self.text_bytes += values[slot].len() as u64;
                self.text_bytes -= replaced.len() as u64;
            }
            _ => unreachable!("a value of another type"),
        }
        selected.times_ns[slot] = time_ns;
        selected.series[slot] = Some(series);
    }
}
