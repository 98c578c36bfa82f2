//! Overlapping windows: each starts one step after the one before it and is longer than the step.
//!
//! The windows are computed from panes, which are the intervals between all starts and ends of windows; there are at
//! most two panes per step. The store aggregates panes as it does any windows. The state of a window is the sum of the
//! states of its panes, the first one first, which also defines the order in which floats are added. A NaN that comes
//! first in a pane hides the minimum and maximum of that pane, as it does in any window. Callers that may have NaNs
//! exclude them by a condition (`>= -inf` is false for NaN).

use super::{AggregateRequest, PARTIAL_AGGREGATES_MAX, PartialAggregate, PartialAggregates};
use crate::before_long_work;
use crate::error::{Error, Result};
use crate::store::{Snapshot, WindowRuns, Windows};
use crate::time::TimeRange;

/// The most panes that are added up for the windows of a group: about a second of work.
const PANES_ADDED_MAX: i128 = 1 << 28;
/// Panes of a group that are added up between two checks for waiting work: about a millisecond.
const PANES_AT_ONCE: usize = 1 << 16;

/// Windows at equal steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlidingWindows {
    /// Start of the first, ns.
    pub start_ns: i64,
    /// From the start of each to the next, ns.
    pub step_ns: i64,
    /// Width of each, ns.
    pub range_ns: i64,
    /// How many.
    pub count: usize,
}

/// Panes, and which of them make up each window: window `n` consists of `range` panes from pane `n * step` on.
struct Panes {
    windows: Windows,
    /// Panes from the start of one window to the next.
    step: usize,
    /// Panes of each window.
    range: usize,
}

impl SlidingWindows {
    /// The panes. An error if there are more than `most`.
    fn panes(&self, most: usize) -> Result<Panes> {
        if self.step_ns <= 0 || self.range_ns <= 0 {
            return Err(Error::invalid("steps and widths of windows are positive"));
        }
        if self.count <= 1 {
            let end_ns = self.start_ns.checked_add(self.range_ns).ok_or_else(beyond)?;
            let windows = Windows::single(TimeRange::new(self.start_ns, end_ns));
            return Ok(Panes { windows, step: 1, range: 1 });
        }
        let (whole, rest_ns) = (self.range_ns / self.step_ns, self.range_ns % self.step_ns);
        let steps = self.count as i128 - 1 + i128::from(whole);
        if 2 * (steps + 1) > most as i128 || self.count as i128 * i128::from(whole + 1) > PANES_ADDED_MAX {
            return Err(Error::limit("windows that overlap too often: take longer steps, or fewer"));
        }
        if i128::from(self.start_ns) + (steps + 1) * i128::from(self.step_ns) > i128::from(i64::MAX) {
            return Err(beyond());
        }
        let (whole, steps) = (whole as usize, steps as usize);
        if rest_ns == 0 {
            let windows = Windows::Regular { start_ns: self.start_ns, width_ns: self.step_ns, count: steps };
            return Ok(Panes { windows, step: 1, range: whole });
        }
        let mut runs = WindowRuns::starting_at(self.start_ns);
        for _ in 0..=steps {
            runs.push(rest_ns as u64, 1);
            runs.push((self.step_ns - rest_ns) as u64, 1);
        }
        Ok(Panes { windows: runs.into(), step: 2, range: 2 * whole + 1 })
    }
}

fn beyond() -> Error {
    Error::invalid("windows beyond the end of time")
}

/// Computes a request over overlapping windows, which replace the windows of the request. The state of a group and
/// window is at index `group * windows.count + window`.
///
/// # Errors
/// Limit if there are more states than [`PARTIAL_AGGREGATES_MAX`], or more than some hundred million panes to add up in a group.
pub async fn aggregate_sliding(
    snapshot: &dyn Snapshot,
    request: &AggregateRequest,
    windows: SlidingWindows,
) -> Result<PartialAggregates> {
    let schema = snapshot.schema(request.table)?;
    let panes = windows.panes(PARTIAL_AGGREGATES_MAX / (request.groups * request.measures.len()).max(1))?;
    let request = AggregateRequest { windows: panes.windows, ..request.clone() };
    request.validate(&schema)?;
    let of_panes = snapshot.aggregate(request.clone()).await?;
    let pane_count = request.windows.count();
    let slots = request.groups * windows.count;
    let mut measures = Vec::with_capacity(of_panes.measures.len());
    for (measure, of_panes) in request.measures.iter().zip(&of_panes.measures) {
        let column = schema.column(measure.column).expect("the store has answered");
        let mut state = PartialAggregate::empty(measure.function, column.column_type, slots)?;
        for group in 0..request.groups {
            // Lets the caller cancel.
            if windows.count * panes.range > PANES_AT_ONCE {
                before_long_work().await;
            }
            for window in 0..windows.count {
                let first = group * pane_count + window * panes.step;
                let slot = group * windows.count + window;
                (first..first + panes.range)
                    .for_each(|pane| state.add_slot(slot, measure.function, of_panes, pane));
            }
        }
        measures.push(state);
    }
    Ok(PartialAggregates { measures })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_panes_are_refused_before_memory_is_allocated() {
        let refused = |start_ns, step_ns, range_ns, count| {
            SlidingWindows { start_ns, step_ns, range_ns, count }.panes(PARTIAL_AGGREGATES_MAX).is_err()
        };
        let day_ns = 86_400_000_000_000;
        assert!(refused(0, 2, 3, 10_000_000_000), "more panes than there may be states");
        assert!(refused(0, 1, 1 << 20, 1 << 20), "each pane is in a million windows");
        assert!(refused(i64::MAX - 10, 5, 11, 1), "beyond the end of time");
        assert!(refused(0, 0, 5, 3) && refused(0, 5, 0, 3));
        assert!(refused(i64::MIN, 1, 1, usize::MAX));
        assert!(!refused(0, 1, day_ns, 1) && !refused(1, i64::MAX, 1, 1) && !refused(0, 1, day_ns, 0));
        assert!(!refused(0, 15_000_000_000, 5 * 60_000_000_000, 20_000));
    }
}
