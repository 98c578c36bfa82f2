//! The slope between a point and the previous one, per unit of time.

use super::number::{Number, Output, Previous, points};
use super::{Series, Transform};
use nyala_core::Result;

/// `derivative` and `non_negative_derivative`. Of points at one time the first counts.
pub struct Derivative<T> {
    unit_ns: i64,
    non_negative: bool,
    ascending: bool,
    previous: Previous<T>,
}

impl<T: Number> Derivative<T> {
    /// With a unit of time; `non_negative`: whether negative slopes are left out; `ascending`: whether times rise.
    pub fn new(unit_ns: i64, non_negative: bool, ascending: bool) -> Self {
        Self { unit_ns, non_negative, ascending, previous: Previous::none() }
    }
}

impl<T: Number> Transform for Derivative<T> {
    fn feed(&mut self, series: &Series) -> Result<Series> {
        let mut output = Output::<f64>::with_room_for(series);
        for (time_ns, value) in points::<T>(series) {
            let Some((previous_ns, previous)) = self.previous.replaced_by(time_ns, value) else { continue };
            let rise = value.less(previous);
            let elapsed_ns = match self.ascending {
                true => time_ns.wrapping_sub(previous_ns),
                false => previous_ns.wrapping_sub(time_ns),
            };
            if !(self.non_negative && rise < 0.0) {
                output.push(time_ns, rise / (elapsed_ns as f64 / self.unit_ns as f64));
            }
        }
        Ok(output.into_series())
    }
}
