//! States of each series and window of a part, from its rows.
//!
//! Rows come by range of time, then by series, then by time. A window that reaches into the next range goes on there:
//! its float sums and increases are carried over, because the order of their additions goes on with the next value.

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float64Type, Int64Type, TimestampNanosecondType, UInt64Type};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use nyala_core::SeriesId;
use nyala_core::store::aggregate::{FloatSum, Increases, Selected, SelectedValues};
use nyala_core::store::{AggregateFunction, AggregateRequest, Batch, PartialAggregate, PartialAggregates};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// States of a chunk, after which it is given away.
const CHUNK_SLOTS: usize = 4096;

/// States of some series and windows.
pub(super) struct Chunk {
    /// By series, then by window. A window of a series may have several, one after the other.
    pub(super) slots: Vec<(SeriesId, usize)>,
    pub(super) states: PartialAggregates,
    /// Whether no more states of its range follow.
    pub(super) ends_range: bool,
}

/// A value that is not a number, among floats of which an extreme is wanted.
pub(super) struct NanFound;

/// What is unfinished of a window of a series.
struct Pending {
    window: usize,
    /// One for each measure.
    sums: Vec<FloatSum>,
    /// A slot for each measure.
    increases: Increases,
}

/// What a part has added up so far.
pub(super) struct Accumulator {
    request: Arc<AggregateRequest>,
    /// States without slots.
    empty: PartialAggregates,
    /// Whether the result of a measure depends on the order of its additions.
    has_order: bool,
    /// The start of the next range, if there is one.
    next_start_ns: Option<i64>,
    /// The series and window of the newest slot, while rows may follow.
    current: Option<(SeriesId, usize)>,
    sums: Vec<FloatSum>,
    /// What comes from the ranges before, of series that have not come yet in this one.
    carried: BTreeMap<SeriesId, Pending>,
    /// What goes on in the next range.
    carried_on: BTreeMap<SeriesId, Pending>,
    chunk: Chunk,
    full: VecDeque<Chunk>,
}

impl Accumulator {
    /// `empty`: states of the request without slots.
    pub(super) fn new(request: Arc<AggregateRequest>, empty: PartialAggregates) -> Self {
        let depends = |state: &PartialAggregate| {
            matches!(state, PartialAggregate::SumFloat { .. } | PartialAggregate::Increase(_))
        };
        let has_order = empty.measures.iter().any(depends);
        let sums = vec![FloatSum::default(); request.measures.len()];
        let chunk = Chunk { slots: Vec::new(), states: empty.clone(), ends_range: false };
        Self {
            request,
            empty,
            has_order,
            next_start_ns: None,
            current: None,
            sums,
            carried: BTreeMap::new(),
            carried_on: BTreeMap::new(),
            chunk,
            full: VecDeque::new(),
        }
    }

    pub(super) fn begin_range(&mut self, next_start_ns: Option<i64>) {
        self.next_start_ns = next_start_ns;
        self.carried = std::mem::take(&mut self.carried_on);
    }

    /// A chunk that is full.
    pub(super) fn full_chunk(&mut self) -> Option<Chunk> {
        self.full.pop_front()
    }

    /// The last states, after all ranges, if there are any.
    pub(super) fn finish(&mut self) -> Option<Chunk> {
        if self.carried_on.is_empty() {
            return None;
        }
        self.begin_range(None);
        Some(self.end_range())
    }

    /// The last states of the range.
    pub(super) fn end_range(&mut self) -> Chunk {
        self.leave();
        self.finish_carried(None);
        let mut last = self.new_chunk();
        last.ends_range = true;
        last
    }

    /// Adds rows: the times, then a column for each measure.
    pub(super) fn add(&mut self, batch: &Batch) -> Result<(), NanFound> {
        let request = self.request.clone();
        let times = batch.columns[0].as_primitive::<TimestampNanosecondType>().values();
        let mut begin = 0;
        for run in &batch.series {
            let end = begin + run.rows as usize;
            while begin < end {
                let Some(window) = request.windows.index_of(times[begin]) else {
                    begin += 1;
                    continue;
                };
                let end_ns = request.windows.range(window).end_ns;
                let rows =
                    begin..begin + times[begin..end].partition_point(|time_ns| *time_ns < end_ns).max(1);
                begin = rows.end;
                self.enter(run.series, window);
                let slot = self.chunk.slots.len() - 1;
                for (number, measure) in request.measures.iter().enumerate() {
                    let window_rows = WindowRows {
                        function: measure.function,
                        series: run.series,
                        column: &batch.columns[number + 1],
                        times,
                        rows: rows.clone(),
                    };
                    window_rows.add_to(
                        &mut self.chunk.states.measures[number],
                        slot,
                        &mut self.sums[number],
                    )?;
                }
            }
        }
        Ok(())
    }

    /// Makes this window of this series the current one.
    fn enter(&mut self, series: SeriesId, window: usize) {
        if self.current == Some((series, window)) {
            return;
        }
        self.leave();
        let mut resumed = None;
        if !self.carried.is_empty() {
            self.finish_carried(Some(series));
            resumed = self.carried.remove(&series);
        }
        if let Some(pending) = resumed.take_if(|pending| pending.window != window) {
            self.push_pending(series, &pending);
        }
        if self.chunk.slots.len() >= CHUNK_SLOTS {
            let full = self.new_chunk();
            self.full.push_back(full);
        }
        self.push_slot(series, window);
        if let Some(pending) = resumed {
            self.write_increases(&pending.increases);
            self.sums = pending.sums;
        }
        self.current = Some((series, window));
    }

    /// Finishes the current window, or carries it into the next range.
    fn leave(&mut self) {
        let Some((series, window)) = self.current.take().filter(|_| self.has_order) else { return };
        let sums = std::mem::replace(&mut self.sums, vec![FloatSum::default(); self.request.measures.len()]);
        if self.goes_on(window) {
            let increases = self.take_increases();
            self.carried_on.insert(series, Pending { window, sums, increases });
        } else {
            self.write_sums(&sums);
        }
    }

    /// Whether a window reaches into the next range.
    fn goes_on(&self, window: usize) -> bool {
        self.next_start_ns.is_some_and(|start_ns| self.request.windows.range(window).end_ns > start_ns)
    }

    /// Finishes what was carried of series before this one, or of all.
    fn finish_carried(&mut self, before: Option<SeriesId>) {
        let is_before = |series: &SeriesId| before.is_none_or(|before| *series < before);
        while let Some(entry) = self.carried.first_entry()
            && is_before(entry.key())
        {
            let (series, pending) = entry.remove_entry();
            match self.goes_on(pending.window) {
                true => drop(self.carried_on.insert(series, pending)),
                false => self.push_pending(series, &pending),
            }
        }
    }

    fn push_pending(&mut self, series: SeriesId, pending: &Pending) {
        self.push_slot(series, pending.window);
        self.write_sums(&pending.sums);
        self.write_increases(&pending.increases);
    }

    /// Writes sums into the newest slot.
    fn write_sums(&mut self, pending: &[FloatSum]) {
        let slot = self.chunk.slots.len() - 1;
        for (state, sum) in self.chunk.states.measures.iter_mut().zip(pending) {
            if let PartialAggregate::SumFloat { sums, counts } = state {
                (sums[slot], counts[slot]) = (sum.sum(), sum.count());
            }
        }
    }

    /// Writes increases into the newest slot, which has none.
    fn write_increases(&mut self, pending: &Increases) {
        let slot = self.chunk.slots.len() - 1;
        for (measure, state) in self.chunk.states.measures.iter_mut().enumerate() {
            if let PartialAggregate::Increase(increases) = state {
                increases.append_slot(slot, pending, measure);
            }
        }
    }

    /// Takes the increases out of the newest slot.
    fn take_increases(&mut self) -> Increases {
        let slot = self.chunk.slots.len() - 1;
        let mut taken = Increases::empty(self.request.measures.len());
        for (measure, state) in self.chunk.states.measures.iter_mut().enumerate() {
            if let PartialAggregate::Increase(increases) = state {
                taken.append_slot(measure, increases, slot);
                increases.counts[slot] = 0;
            }
        }
        taken
    }

    fn push_slot(&mut self, series: SeriesId, window: usize) {
        self.chunk.slots.push((series, window));
        self.chunk.states.measures.iter_mut().for_each(PartialAggregate::push_slot);
    }

    /// Begins a new chunk; returns the one before.
    fn new_chunk(&mut self) -> Chunk {
        let empty = Chunk { slots: Vec::new(), states: self.empty.clone(), ends_range: false };
        std::mem::replace(&mut self.chunk, empty)
    }
}

/// Rows of one window of a series, and a column of them.
struct WindowRows<'a> {
    function: AggregateFunction,
    series: SeriesId,
    column: &'a ArrayRef,
    times: &'a [i64],
    rows: Range<usize>,
}

impl WindowRows<'_> {
    fn add_to(
        &self,
        state: &mut PartialAggregate,
        slot: usize,
        float_sum: &mut FloatSum,
    ) -> Result<(), NanFound> {
        match state {
            PartialAggregate::Count(counts) => counts[slot] += self.count(),
            PartialAggregate::SumInteger { sums, counts } => {
                sums[slot] += match self.column.as_primitive_opt::<Int64Type>() {
                    Some(array) => self.integer_sum(array.values()),
                    None => self.unsigned_sum(self.column.as_primitive::<UInt64Type>().values()),
                };
                counts[slot] += self.count();
            }
            PartialAggregate::SumFloat { .. } => {
                let values = self.column.as_primitive::<Float64Type>().values();
                match self.nulls() {
                    None => float_sum.add_slice(&values[self.rows.clone()]),
                    Some(_) => self.valid_rows().for_each(|row| float_sum.add(values[row])),
                }
            }
            PartialAggregate::Increase(increases) => {
                let floats = self.column.as_primitive_opt::<Float64Type>();
                let integers = self.column.as_primitive_opt::<Int64Type>();
                let unsigned = self.column.as_primitive_opt::<UInt64Type>();
                let number = |row: usize| match (floats, integers, unsigned) {
                    (Some(array), ..) => array.value(row),
                    (_, Some(array), _) => array.value(row) as f64,
                    (.., Some(array)) => array.value(row) as f64,
                    _ => unreachable!("requests are validated"),
                };
                self.valid_rows().for_each(|row| increases.add(slot, self.times[row], number(row)));
            }
            PartialAggregate::Selected(selected) => self.select(selected, slot)?,
        }
        Ok(())
    }

    fn nulls(&self) -> Option<&NullBuffer> {
        self.column.nulls().filter(|nulls| nulls.null_count() > 0)
    }

    fn valid_rows(&self) -> impl DoubleEndedIterator<Item = usize> + Clone {
        let nulls = self.nulls();
        self.rows.clone().filter(move |row| nulls.is_none_or(|nulls| nulls.is_valid(*row)))
    }

    fn count(&self) -> u64 {
        match self.nulls() {
            None => self.rows.len() as u64,
            Some(nulls) => {
                let rows = nulls.slice(self.rows.start, self.rows.len());
                (rows.len() - rows.null_count()) as u64
            }
        }
    }

    fn integer_sum(&self, values: &[i64]) -> i128 {
        if self.nulls().is_some() {
            return self.valid_rows().map(|row| i128::from(values[row])).sum();
        }
        // Halves add up in 64 bits, of which an addition is one instruction.
        let (mut high, mut low) = (0_i64, 0_u64);
        for value in &values[self.rows.clone()] {
            high += *value >> 32;
            low += u64::from(*value as u32);
        }
        (i128::from(high) << 32) + i128::from(low)
    }

    fn unsigned_sum(&self, values: &[u64]) -> i128 {
        self.valid_rows().map(|row| i128::from(values[row])).sum()
    }

    fn select(&self, selected: &mut Selected, slot: usize) -> Result<(), NanFound> {
        let Selected { values, times_ns, series } = selected;
        let known = series[slot].map(|_| times_ns[slot]);
        let row = match values {
            SelectedValues::Int(values) => match self.column.as_primitive_opt::<Int64Type>() {
                Some(array) => self.select_among(array.values(), &mut values[slot], known),
                None => {
                    let times = self.column.as_primitive::<TimestampNanosecondType>().values();
                    self.select_among(times, &mut values[slot], known)
                }
            },
            SelectedValues::UInt(values) => {
                self.select_among(self.values::<UInt64Type>(), &mut values[slot], known)
            }
            SelectedValues::Float(values) => {
                let floats = self.values::<Float64Type>();
                let is_extreme = matches!(self.function, AggregateFunction::Min | AggregateFunction::Max);
                if is_extreme && self.valid_rows().any(|row| floats[row].is_nan()) {
                    return Err(NanFound);
                }
                self.select_among(floats, &mut values[slot], known)
            }
            SelectedValues::Bool(values) => {
                let booleans = self.column.as_boolean();
                let row = self.chosen(|row| booleans.value(row), values[slot], known);
                row.inspect(|row| values[slot] = booleans.value(*row))
            }
            SelectedValues::String(values) => {
                let texts = self.column.as_string::<i32>();
                let row = self.chosen(|row| texts.value(row), &*values[slot], known);
                row.inspect(|row| texts.value(*row).clone_into(&mut values[slot]))
            }
        };
        if let Some(row) = row {
            (times_ns[slot], series[slot]) = (self.times[row], Some(self.series));
        }
        Ok(())
    }

    fn values<T: ArrowPrimitiveType>(&self) -> &[T::Native] {
        self.column.as_primitive::<T>().values()
    }

    fn select_among<T: PartialOrd + Copy>(
        &self,
        values: &[T],
        selected: &mut T,
        known: Option<i64>,
    ) -> Option<usize> {
        let row = self.chosen(|row| values[row], *selected, known);
        row.inspect(|row| *selected = values[*row])
    }

    /// The row whose value replaces the selected one, of the time `known` if there is one. Rows ascend by time, and come
    /// after those that were selected from.
    fn chosen<T: PartialOrd>(
        &self,
        value: impl Fn(usize) -> T,
        selected: T,
        known: Option<i64>,
    ) -> Option<usize> {
        let mut rows = self.valid_rows();
        match self.function {
            AggregateFunction::First => rows.next().filter(|_| known.is_none()),
            AggregateFunction::Last => rows.next_back(),
            function => {
                let is_better = |new: &T, old: &T| match function {
                    AggregateFunction::Min => new < old,
                    _ => new > old,
                };
                let first = rows.next()?;
                let best = rows.fold((first, value(first)), |best, row| {
                    let new = value(row);
                    if is_better(&new, &best.1) { (row, new) } else { best }
                });
                (known.is_none() || is_better(&best.1, &selected)).then_some(best.0)
            }
        }
    }
}
