//! Which calls the store computes on its own blocks, and when a limit lets it stop. `nyala_exec::aggregate` does the rest.

use super::measurement::MeasurementRows;
use crate::plan::condition::only_column;
use crate::plan::{CallPlan, Fill, MINIMUM_TIME_NS, Plan, Transformation};
use nyala_core::store::Windows;
use nyala_core::{ColumnType, Result};
use nyala_exec::aggregate::{self, Aggregate, Reduction};
use nyala_exec::{Column, QueryMemory};
use std::ops::Range;

/// The calls of a plan as aggregates of the store.
pub struct PushDown(aggregate::PushDown);

/// The computed calls of some groups.
pub enum Computed {
    /// Every group has a value in every window: the columns of the calls, group after group.
    Whole(Vec<Column>),
    /// By group, then by call.
    Groups(Vec<Vec<Reduction>>),
}

impl Plan {
    /// Whether the windows are shown unchanged if all of them have values.
    fn shows_all_windows(&self) -> bool {
        let plain = |call: &CallPlan| call.transformations.is_empty();
        let uncut = self.rows.limit == 0 && self.rows.offset == 0;
        self.groups.windows.is_some() && self.ascending && uncut && self.calls.iter().all(plain)
    }
}

/// Whether the last digit of its input decides its result.
fn searches(transformation: &Transformation) -> bool {
    matches!(transformation, Transformation::HoltWinters { .. })
}

impl PushDown {
    /// How the store can answer all calls of a plan, if it can.
    pub fn of(plan: &Plan, rows: &MeasurementRows) -> Option<Self> {
        if !plan.references.is_empty() {
            return None;
        }
        let stored = rows.pushed_down()?;
        let schema = stored.snapshot.schema(stored.table).ok()?;
        let mut aggregates = Vec::with_capacity(plan.calls.len());
        for call in &plan.calls {
            let (column, _) = only_column(&rows.measurement, &call.argument)?;
            let column_type = schema.column(column)?.column_type;
            // A call with a time range of its own is computed from rows.
            if call.times != plan.times {
                return None;
            }
            let aggregate = call.function?.aggregate()?;
            let is_sum = matches!(aggregate, Aggregate::Sum | Aggregate::Mean);
            // InfluxDB adds floats in the order of time, the store in lanes. A search depends on the last digit.
            if is_sum && column_type == ColumnType::Float64 && call.transformations.iter().any(searches) {
                return None;
            }
            // Of several booleans at one time the store takes true, InfluxDB false.
            if aggregate == Aggregate::First && column_type == ColumnType::Bool {
                return None;
            }
            aggregates.push((aggregate, column, column_type));
        }
        aggregate::PushDown::of(aggregates).map(Self)
    }

    /// Whether a query has the memory for a group's slots: there may be far more windows than windows with rows.
    pub fn fits(&self, windows: &Windows, memory: &QueryMemory) -> bool {
        self.0.fits(windows, memory)
    }

    /// How many groups to compute at once.
    pub fn groups_at_once(&self, windows: &Windows, memory: &QueryMemory) -> usize {
        self.0.groups_at_once(windows, memory)
    }

    /// Computes the calls of some groups.
    pub async fn compute(
        &self,
        plan: &Plan,
        rows: &MeasurementRows,
        groups: Range<usize>,
        windows: &Windows,
        memory: &QueryMemory,
    ) -> Result<Computed> {
        let stored = rows.pushed_down().expect("it was pushed down");
        let slices_from =
            |needed: &usize| plan.groups.windows.is_some() && aggregate::PushDown::slices(windows, *needed);
        // The limit may be reached long before the last window.
        if let Some(needed) = plan.windows_needed().filter(slices_from) {
            let all = windows.count();
            let is_enough =
                |reduction: &Reduction, done: usize| limit_reached(plan, reduction, all, done, needed);
            let direction = (windows, plan.ascending);
            let found = self.0.compute_until(&stored, groups, direction, needed, memory, is_enough).await?;
            return Ok(Computed::Groups(found));
        }
        // Windows are shown at their starts.
        let computed =
            self.0.compute(&stored, groups, windows, plan.groups.windows.is_none(), memory).await?;
        let whole = if plan.shows_all_windows() { computed.whole() } else { None };
        Ok(whole.map_or_else(|| Computed::Groups(computed.groups()), Computed::Whole))
    }
}

/// Whether the windows that were not computed cannot change which windows are within the limit.
fn limit_reached(plan: &Plan, reduction: &Reduction, all: usize, done: usize, needed: usize) -> bool {
    let Some(first) = (if plan.ascending { reduction.windows.first() } else { reduction.windows.last() })
    else {
        return false;
    };
    if plan.fill == Fill::None {
        return reduction.windows.len() >= needed;
    }
    if plan.fill == Fill::Linear {
        return false;
    }
    let from_start = if plan.ascending { *first as usize } else { all - 1 - *first as usize };
    let skipped = if plan.times.first_ns > MINIMUM_TIME_NS { 0 } else { from_start };
    done - skipped.min(done) >= needed
}
