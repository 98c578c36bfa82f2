//! The time since the previous point.

use super::number::Output;
use super::{Series, Transform};
use nyala_core::Result;

/// `elapsed`, of values of any type.
pub struct Elapsed {
    unit_ns: i64,
    previous_ns: Option<i64>,
}

impl Elapsed {
    /// The time in whole units.
    pub fn new(unit_ns: i64) -> Self {
        Self { unit_ns, previous_ns: None }
    }
}

impl Transform for Elapsed {
    fn feed(&mut self, series: &Series) -> Result<Series> {
        let mut output = Output::<i64>::with_room_for(series);
        for time_ns in series.times_ns.iter().copied() {
            if let Some(previous_ns) = self.previous_ns.replace(time_ns) {
                output.push(time_ns, time_ns.wrapping_sub(previous_ns).wrapping_div(self.unit_ns));
            }
        }
        Ok(output.into_series())
    }
}
