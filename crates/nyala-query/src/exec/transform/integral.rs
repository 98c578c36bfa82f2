//! The area between the values and zero.

use super::number::{Number, Output, points};
use super::{Finish, Series, Transform, at_once};
use crate::plan::Plan;
use nyala_core::Result;
use nyala_exec::WindowRule;
use std::marker::PhantomData;

/// `integral`: trapezia between points, cut at the ends of windows.
///
/// A window without points belongs to the next window that has points. A last window with a single point at its start is
/// left out, because it has no area.
pub struct Integral<T> {
    unit_ns: f64,
    windows: Option<WindowRule>,
    ascending: bool,
    previous: Option<(i64, f64)>,
    /// The start and end of the window in the order of the answer, ns.
    window_ns: (i64, i64),
    sum: f64,
    of: PhantomData<T>,
}

impl<T: Number> Integral<T> {
    /// With a unit of time.
    pub fn new(unit_ns: i64, plan: &Plan) -> Self {
        // Without windows an area is shown at the beginning of 1970, but InfluxDB shows that of integers at the first time
        // of the query.
        let begin_ns = match plan.ascending {
            true if T::IS_WHOLE => plan.aggregate_time_ns(),
            false if T::IS_WHOLE => plan.times.last_ns.saturating_add(1),
            _ => 0,
        };
        Self {
            unit_ns: unit_ns as f64,
            windows: plan.groups.windows,
            ascending: plan.ascending,
            previous: None,
            window_ns: (begin_ns, i64::MAX),
            sum: 0.0,
            of: PhantomData,
        }
    }

    fn enter_window_of(&mut self, time_ns: i64) {
        if let Some(rule) = self.windows {
            let (start_ns, end_ns) = rule.window_of(time_ns);
            self.window_ns = if self.ascending { (start_ns, end_ns) } else { (end_ns, start_ns) };
        }
    }

    fn is_beyond_window(&self, time_ns: i64) -> bool {
        let (_, end_ns) = self.window_ns;
        self.windows.is_some() && (if self.ascending { time_ns >= end_ns } else { time_ns <= end_ns })
    }

    fn add(&mut self, from: (i64, f64), to: (i64, f64)) {
        let elapsed = to.0.wrapping_sub(from.0) as f64 / self.unit_ns;
        self.sum += 0.5 * (to.1 + from.1) * elapsed;
    }
}

impl<T: Number> Transform for Integral<T> {
    fn feed(&mut self, series: &Series) -> Result<Series> {
        let mut output = Output::<f64>::with_room_for(&Series::empty());
        for (time_ns, value) in points::<T>(series) {
            let point = (time_ns, value.float());
            let Some(mut previous) = self.previous.replace(point) else {
                self.enter_window_of(time_ns);
                continue;
            };
            if previous.0 == time_ns {
                continue;
            }
            if self.is_beyond_window(time_ns) {
                let (start_ns, end_ns) = self.window_ns;
                if previous.0 != end_ns {
                    let slope = (point.1 - previous.1) / time_ns.wrapping_sub(previous.0) as f64;
                    let at_end = slope * end_ns.wrapping_sub(previous.0) as f64 + previous.1;
                    self.add(previous, (end_ns, at_end));
                    previous = (end_ns, at_end);
                }
                output.push(start_ns, std::mem::take(&mut self.sum));
                self.enter_window_of(time_ns);
            }
            self.add(previous, point);
        }
        Ok(output.into_series())
    }

    fn finish(&mut self) -> Finish<'_> {
        let mut output = Output::<f64>::with_room_for(&Series::empty());
        if self.previous.is_some_and(|(time_ns, _)| time_ns != self.window_ns.0) {
            output.push(self.window_ns.0, self.sum);
        }
        at_once(output.into_series())
    }
}
