//! Windows of time for aggregates, in ascending order and without gaps.
//!
//! There may be billions of windows. So only the places where the width changes are stored, and the bounds of a window
//! are computed when needed.

use crate::time::TimeRange;
use std::ops::Range;
use std::sync::Arc;

/// Windows of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Windows {
    /// Windows of equal width.
    Regular {
        /// Start of the first, ns.
        start_ns: i64,
        /// Width of each, ns.
        width_ns: i64,
        /// How many.
        count: usize,
    },
    /// Windows of several widths.
    Runs(Arc<WindowRuns>),
}

/// Runs of windows of equal width, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowRuns {
    runs: Vec<Run>,
    /// The number of windows in all runs.
    count: usize,
    /// The end of the last window, ns.
    end_ns: i64,
}

/// A run lasts until the next run, or until the last window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    /// The number of its first window.
    first: usize,
    /// The start of its first window, ns.
    start_ns: i64,
    /// The width of each, ns.
    width_ns: u64,
}

impl Windows {
    /// One window.
    pub fn single(range: TimeRange) -> Self {
        if let Some(width_ns @ 1..) = range.end_ns.checked_sub(range.start_ns) {
            return Windows::Regular { start_ns: range.start_ns, width_ns, count: 1 };
        }
        let mut runs = WindowRuns::starting_at(range.start_ns);
        runs.push_to(range.end_ns);
        runs.into()
    }

    /// How many windows.
    pub fn count(&self) -> usize {
        match self {
            Windows::Regular { count, .. } => *count,
            Windows::Runs(runs) => runs.count,
        }
    }

    /// The times of window `index`.
    pub fn range(&self, index: usize) -> TimeRange {
        match self {
            Windows::Regular { start_ns, width_ns, .. } => {
                let start_ns = start_of(*start_ns, *width_ns as u64, index);
                TimeRange::new(start_ns, start_ns.saturating_add(*width_ns))
            }
            Windows::Runs(runs) => {
                let run = runs.run_of(index);
                let start_ns = start_of(run.start_ns, run.width_ns, index - run.first);
                TimeRange::new(start_ns, start_ns.saturating_add_unsigned(run.width_ns))
            }
        }
    }

    /// Appends the starts of some of the windows to a list.
    pub fn push_starts(&self, windows: Range<usize>, starts_ns: &mut Vec<i64>) {
        let last = windows.end.saturating_sub(1);
        match self {
            Windows::Regular { start_ns, width_ns, .. }
                if start_of(*start_ns, *width_ns as u64, last) < i64::MAX =>
            {
                // No window lies beyond the end of time, so there is no check per window.
                starts_ns
                    .extend(windows.map(|index| start_ns.wrapping_add(width_ns.wrapping_mul(index as i64))));
            }
            _ => starts_ns.extend(windows.map(|index| self.range(index).start_ns)),
        }
    }

    /// `length` windows, beginning with window `first`.
    #[must_use]
    pub fn part(&self, first: usize, length: usize) -> Self {
        match self {
            Windows::Regular { width_ns, .. } => {
                Windows::Regular { start_ns: self.range(first).start_ns, width_ns: *width_ns, count: length }
            }
            Windows::Runs(runs) => runs.part(first, length).into(),
        }
    }

    /// The range of times from the first window to the last.
    pub fn span(&self) -> TimeRange {
        match self.count() {
            0 => TimeRange::new(0, 0),
            count => TimeRange::new(self.range(0).start_ns, self.range(count - 1).end_ns),
        }
    }

    /// The window that holds a time.
    pub fn index_of(&self, time_ns: i64) -> Option<usize> {
        match self {
            Windows::Regular { start_ns, width_ns, count } => {
                let index = index_of(*start_ns, *width_ns as u64, time_ns)?;
                (index < *count).then_some(index)
            }
            Windows::Runs(runs) => runs.index_of(time_ns),
        }
    }
}

impl From<WindowRuns> for Windows {
    fn from(runs: WindowRuns) -> Self {
        Windows::Runs(Arc::new(runs))
    }
}

impl WindowRuns {
    /// No windows yet; the first one will start at this time.
    pub fn starting_at(start_ns: i64) -> Self {
        Self { runs: Vec::new(), count: 0, end_ns: start_ns }
    }

    /// Adds a window that ends at this time.
    pub fn push_to(&mut self, end_ns: i64) {
        let width_ns = if end_ns < self.end_ns { 0 } else { end_ns.wrapping_sub(self.end_ns) as u64 };
        self.push(width_ns, 1);
    }

    /// Adds windows of equal width, ns.
    pub fn push(&mut self, width_ns: u64, count: usize) {
        if self.runs.last().is_none_or(|last| last.width_ns != width_ns) {
            self.runs.push(Run { first: self.count, start_ns: self.end_ns, width_ns });
        }
        self.count += count;
        self.end_ns = start_of(self.end_ns, width_ns, count);
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The memory that they take, bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.runs.capacity() * size_of::<Run>()
    }

    /// The end of the last window, ns.
    pub fn end_ns(&self) -> i64 {
        self.end_ns
    }

    fn run_of(&self, index: usize) -> Run {
        let after = self.runs.partition_point(|run| run.first <= index);
        self.runs[after - 1]
    }

    fn index_of(&self, time_ns: i64) -> Option<usize> {
        if time_ns >= self.end_ns {
            return None;
        }
        let after = self.runs.partition_point(|run| run.start_ns <= time_ns);
        let run = self.runs[..after].last()?;
        Some(run.first + index_of(run.start_ns, run.width_ns, time_ns)?)
    }

    fn part(&self, first: usize, length: usize) -> Self {
        let from = self.runs.partition_point(|run| run.first <= first).saturating_sub(1);
        let mut part: Option<Self> = None;
        let end = first + length;
        for (number, run) in self.runs.iter().enumerate().skip(from).take_while(|(_, run)| run.first < end) {
            let next = self.runs.get(number + 1).map_or(self.count, |next| next.first);
            let here = run.first.max(first);
            let start_ns = start_of(run.start_ns, run.width_ns, here - run.first);
            part.get_or_insert_with(|| Self::starting_at(start_ns)).push(run.width_ns, next.min(end) - here);
        }
        part.unwrap_or_else(|| Self::starting_at(0))
    }
}

/// The start of a window, or the end of time if the start lies beyond it.
fn start_of(start_ns: i64, width_ns: u64, index: usize) -> i64 {
    start_ns.saturating_add_unsigned(width_ns.saturating_mul(index as u64))
}

/// The window that contains a time, if it does not start later.
fn index_of(start_ns: i64, width_ns: u64, time_ns: i64) -> Option<usize> {
    (time_ns >= start_ns).then(|| (time_ns.wrapping_sub(start_ns) as u64 / width_ns) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{MAX_TIME_NS, MIN_TIME_NS};

    /// Checks each window against its bounds.
    fn check(windows: &Windows, bounds: &[i64]) {
        assert_eq!(windows.count(), bounds.len() - 1);
        for (index, pair) in bounds.windows(2).enumerate() {
            assert_eq!(windows.range(index), TimeRange::new(pair[0], pair[1]), "{index}");
            assert_eq!(windows.index_of(pair[0]), Some(index));
            assert_eq!(windows.index_of(pair[1] - 1), Some(index));
        }
        assert_eq!(windows.index_of(bounds[0].wrapping_sub(1)), None);
        assert_eq!(windows.index_of(bounds[bounds.len() - 1]), None);
        assert_eq!(windows.span(), TimeRange::new(bounds[0], bounds[bounds.len() - 1]));
        for first in 0..windows.count() {
            let mut starts_ns = vec![-1];
            windows.push_starts(first..windows.count(), &mut starts_ns);
            assert_eq!(starts_ns[1..], bounds[first..bounds.len() - 1]);
        }
    }

    #[test]
    fn windows_may_cover_all_times() {
        let day_ns = 86_400_000_000_000;
        let first_ns = MIN_TIME_NS / day_ns * day_ns;
        let count = ((i128::from(MAX_TIME_NS) - i128::from(first_ns)) / i128::from(day_ns)) as usize + 1;
        let windows = Windows::Regular { start_ns: first_ns, width_ns: day_ns, count };
        for time_ns in [first_ns, -1, 0, 1, 80_000_000_000_000, day_ns, MAX_TIME_NS] {
            let index = windows.index_of(time_ns).unwrap();
            let range = windows.range(index);
            assert!(range.contains(time_ns), "{time_ns}");
            assert_eq!(range.start_ns % day_ns, 0, "{time_ns}");
        }
        assert_eq!(windows.index_of(MIN_TIME_NS), None);
    }

    #[test]
    fn runs_are_windows_of_several_widths() {
        let mut runs = WindowRuns::starting_at(-5);
        for end_ns in [0, 10, 20, 27, 30, 33, 36, 100] {
            runs.push_to(end_ns);
        }
        runs.push(10, 2);
        assert_eq!(runs.runs.len(), 6, "windows of a width side by side are a run");
        let bounds = [-5, 0, 10, 20, 27, 30, 33, 36, 100, 110, 120];
        let windows = Windows::from(runs);
        check(&windows, &bounds);
        for first in 0..10 {
            for length in 1..=10 - first {
                check(&windows.part(first, length), &bounds[first..=first + length]);
            }
        }
    }

    #[test]
    fn one_window_may_hold_every_time() {
        let all = Windows::single(TimeRange::ALL);
        assert_eq!((all.count(), all.range(0)), (1, TimeRange::ALL));
        for time_ns in [i64::MIN, MIN_TIME_NS, 0, MAX_TIME_NS] {
            assert_eq!(all.index_of(time_ns), Some(0));
        }
        check(&Windows::single(TimeRange::new(-3, 5)), &[-3, 5]);
        let none = Windows::single(TimeRange::new(5, 3));
        assert_eq!((none.count(), none.index_of(4)), (1, None));
    }
}
