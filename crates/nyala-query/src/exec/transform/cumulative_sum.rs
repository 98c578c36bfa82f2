//! The sum of all values so far.

use super::number::{Number, Output, points};
use super::{Series, Transform};
use nyala_core::Result;

/// `cumulative_sum`.
pub struct CumulativeSum<T> {
    sum: T,
}

impl<T: Number> CumulativeSum<T> {
    /// A sum without values yet.
    pub fn new() -> Self {
        Self { sum: T::ZERO }
    }
}

impl<T: Number> Transform for CumulativeSum<T> {
    fn feed(&mut self, series: &Series) -> Result<Series> {
        let mut output = Output::<T>::with_room_for(series);
        for (time_ns, value) in points::<T>(series) {
            self.sum = self.sum.plus(value);
            output.push(time_ns, self.sum);
        }
        Ok(output.into_series())
    }
}
