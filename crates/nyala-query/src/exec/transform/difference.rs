//! The difference between a value and the previous one.

use super::number::{Number, Output, Previous, points};
use super::{Series, Transform};
use nyala_core::Result;

/// `difference` and `non_negative_difference`. Of points at one time the first counts.
pub struct Difference<T> {
    non_negative: bool,
    previous: Previous<T>,
}

impl<T: Number> Difference<T> {
    /// `non_negative`: whether negative differences are left out.
    pub fn new(non_negative: bool) -> Self {
        Self { non_negative, previous: Previous::none() }
    }
}

impl<T: Number> Transform for Difference<T> {
    fn feed(&mut self, series: &Series) -> Result<Series> {
        let mut output = Output::<T>::with_room_for(series);
        for (time_ns, value) in points::<T>(series) {
            let Some((_, previous)) = self.previous.replaced_by(time_ns, value) else { continue };
            let difference = value.minus(previous);
            if !(self.non_negative && value.less(previous) < 0.0) {
                output.push(time_ns, difference);
            }
        }
        Ok(output.into_series())
    }
}
