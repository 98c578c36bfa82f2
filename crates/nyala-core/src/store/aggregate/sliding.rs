//! Windows that overlap: each begins a step after the one before it, and is longer than that.
//!
//! They are computed of panes, the pieces between all their beginnings and ends, which the store aggregates as it does any
//! windows: at most two panes a step. A window's state is that of its panes, the first one first, which also says in which
//! order floats are added. A NaN that comes first in a pane hides the extremes of that pane, as it does those of any
//! window: who has any leaves them out by a condition (`>= -inf` holds for no NaN).

use super::{AggregateRequest, AggregateStates, MeasureState};
use crate::error::{Error, Result};
use crate::store::{Snapshot, WindowRuns, Windows};

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

/// Panes, and which of them make up each window: `range` of them from pane `step` times its number on.
struct Panes {
    windows: Windows,
    /// Panes from the start of one window to the next.
    step: usize,
    /// Panes of each window.
    range: usize,
}

impl SlidingWindows {
    fn panes(&self) -> Result<Panes> {
        if self.step_ns <= 0 || self.range_ns <= 0 {
            return Err(Error::invalid("steps and widths of windows are positive"));
        }
        let (whole, rest_ns) = ((self.range_ns / self.step_ns) as usize, self.range_ns % self.step_ns);
        let steps = self.count.saturating_sub(1).saturating_add(whole);
        let end_ns = i128::from(self.start_ns) + (steps as i128 + 1) * i128::from(self.step_ns);
        if end_ns > i128::from(i64::MAX) {
            return Err(Error::invalid("windows beyond the end of time"));
        }
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

/// Computes a request for windows that overlap, in place of its own: the state of a group and window stands at
/// `group * windows.count + window`.
pub async fn aggregate_sliding(
    snapshot: &dyn Snapshot,
    request: &AggregateRequest,
    windows: SlidingWindows,
) -> Result<AggregateStates> {
    let schema = snapshot.schema(request.table)?;
    let panes = windows.panes()?;
    let request = AggregateRequest { windows: panes.windows, ..request.clone() };
    request.validate(&schema)?;
    let of_panes = snapshot.aggregate(request.clone()).await?;
    let pane_count = request.windows.count();
    let slots = request.groups * windows.count;
    let mut measures = Vec::with_capacity(of_panes.measures.len());
    for (measure, of_panes) in request.measures.iter().zip(&of_panes.measures) {
        let column = schema.column(measure.column).expect("the store has answered");
        let mut state = MeasureState::empty(measure.function, column.column_type, slots)?;
        for group in 0..request.groups {
            for window in 0..windows.count {
                let first = group * pane_count + window * panes.step;
                let slot = group * windows.count + window;
                (first..first + panes.range)
                    .for_each(|pane| state.add_slot(slot, measure.function, of_panes, pane));
            }
        }
        measures.push(state);
    }
    Ok(AggregateStates { measures })
}
