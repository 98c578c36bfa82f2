//! The windows of a plan.

use super::group::Inputs;
use crate::plan::{Fill, MINIMUM_TIME_NS, Plan, PlanSource};
use nyala_core::store::Windows;
use nyala_core::{Result, TimeRange};
use nyala_exec::WindowRule;
use nyala_exec::window::WINDOWS_MAX;

/// The windows of a plan; `None` when there cannot be any point in them.
pub async fn windows_of(plan: &Plan, inputs: &Inputs) -> Result<Option<Windows>> {
    let Some(rule) = plan.groups.windows else { return Ok(Some(Windows::single(plan.time_range()))) };
    let mut bounds: Option<TimeRange> = None;
    for input in &inputs.inputs {
        if let Some(here) = input.time_bounds().await? {
            bounds = Some(match bounds {
                None => here,
                Some(all) => all.around(here),
            });
        }
    }
    let Some(bounds) = bounds else { return Ok(None) };
    let of_inner_rows = inputs.only_measurement().is_none();
    let first_ns = match plan.times.first_ns {
        MINIMUM_TIME_NS => bounds.start_ns,
        // Windows of an inner query that begin before the range have their times there.
        first_ns if of_inner_rows => first_ns.min(bounds.start_ns),
        first_ns => first_ns,
    };
    // Without fill the windows after the last point need not be looked at.
    let last_ns =
        if plan.fill == Fill::None { plan.times.last_ns.min(bounds.end_ns) } else { plan.times.last_ns };
    windows_between(plan, rule, first_ns, last_ns)
}

/// The windows of a plan between two times; `None` when there are none.
pub fn windows_between(
    plan: &Plan,
    rule: WindowRule,
    first_ns: i64,
    last_ns: i64,
) -> Result<Option<Windows>> {
    if last_ns < first_ns {
        return Ok(None);
    }
    let windows = rule.windows(first_ns, last_ns)?;
    // Empty windows are shown, unless a limit comes before them.
    let shown = plan.windows_needed().unwrap_or(usize::MAX).min(windows.count());
    if shown > WINDOWS_MAX && plan.fill != Fill::None {
        return Err(WindowRule::too_many());
    }
    Ok(Some(windows))
}

/// The time before which an inner query gives no rows, ns: rows of windows have the times at which these
/// begin.
pub fn first_row_ns(plan: &Plan) -> i64 {
    let of_inner = plan.sources.iter().filter_map(|source| match source {
        PlanSource::Subquery(inner) => Some(first_row_ns(inner)),
        PlanSource::Measurement(_) => None,
    });
    let first_ns = of_inner.fold(plan.times.first_ns, i64::min);
    match plan.groups.windows {
        Some(rule) if !plan.calls.is_empty() => rule.window_of(first_ns).0,
        _ => first_ns,
    }
}
