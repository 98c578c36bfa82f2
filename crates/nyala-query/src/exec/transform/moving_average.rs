//! The mean of the last values.

use super::number::{Number, Output, points};
use super::{Series, Transform};
use nyala_core::Result;
use nyala_exec::QueryMemory;
use nyala_exec::memory::MemoryCharge;

/// `moving_average`: a sum; each value is added and the oldest is subtracted.
pub struct MovingAverage<T> {
    count: usize,
    held: MemoryCharge,
    /// The last values, as a ring buffer once it is full.
    values: Vec<T>,
    oldest: usize,
    sum: T,
}

impl<T: Number> MovingAverage<T> {
    /// The mean of `count` values. They are charged when they arrive.
    pub fn new(count: usize, memory: &QueryMemory) -> Self {
        Self { count, held: memory.hold(), values: Vec::new(), oldest: 0, sum: T::ZERO }
    }
}

impl<T: Number> Transform for MovingAverage<T> {
    fn feed(&mut self, series: &Series) -> Result<Series> {
        let missing = self.count - self.values.len();
        self.held.charge(2 * size_of::<T>() * missing.min(series.times_ns.len()))?;
        let mut output = Output::<f64>::with_room_for(series);
        for (time_ns, value) in points::<T>(series) {
            if self.values.len() < self.count {
                self.values.push(value);
            } else {
                let oldest = std::mem::replace(&mut self.values[self.oldest], value);
                self.sum = self.sum.minus(oldest);
                self.oldest = (self.oldest + 1) % self.count;
            }
            self.sum = self.sum.plus(value);
            if self.values.len() == self.count {
                output.push(time_ns, self.sum.float() / self.count as f64);
            }
        }
        Ok(output.into_series())
    }
}
