//! Which part of the movement of values was upward.

use super::Indicator;
use super::average::Average;
use crate::plan::WarmUp;
use nyala_core::Result;
use nyala_exec::QueryMemory;
use nyala_exec::memory::MemoryCharge;

/// A value and its difference to the previous one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Step {
    pub value: f64,
    pub step: f64,
}

/// The last steps, zeros before there were any. Memory is taken and charged when steps arrive.
pub struct Ring {
    pub length: usize,
    steps: Vec<Step>,
    newest: usize,
    held: MemoryCharge,
}

impl Ring {
    /// That many steps, at least one.
    pub fn new(length: usize, memory: &QueryMemory) -> Self {
        Self { length, steps: vec![Step::default()], newest: 0, held: memory.hold() }
    }

    pub fn newest(&self) -> Step {
        self.steps[self.newest]
    }

    fn position_of_oldest(&self) -> usize {
        if self.newest + 1 >= self.length { 0 } else { self.newest + 1 }
    }

    /// The step that the next one replaces.
    pub fn oldest(&mut self) -> Result<Step> {
        let place = self.position_of_oldest();
        if place == self.steps.len() {
            self.held.charge(2 * size_of::<Step>())?;
            self.steps.push(Step::default());
        }
        Ok(self.steps[place])
    }

    /// Replaces the oldest step, which was read before.
    pub fn replace_oldest(&mut self, value: f64, step: f64) {
        self.newest = self.position_of_oldest();
        self.steps[self.newest] = Step { value, step };
    }
}

/// Chande's oscillator of plain sums.
pub struct MomentumOscillator {
    steps: Ring,
    up: f64,
    down: f64,
    begun: bool,
}

impl MomentumOscillator {
    /// Over that many values, at least two.
    pub fn new(period: usize, memory: &QueryMemory) -> Self {
        Self { steps: Ring::new(period - 1, memory), up: 0.0, down: 0.0, begun: false }
    }
}

impl Indicator for MomentumOscillator {
    fn next(&mut self, value: f64) -> Result<f64> {
        let step = if self.begun { value - self.steps.newest().value } else { 0.0 };
        self.begun = true;
        if step > 0.0 {
            self.up += step;
        } else if step < 0.0 {
            self.down -= step;
        }
        let result = match self.up != 0.0 || self.down != 0.0 {
            true => 100.0 * ((self.up - self.down) / (self.up + self.down)),
            false => 0.0,
        };
        let oldest = self.steps.oldest()?.step;
        if oldest > 0.0 {
            self.up -= oldest;
        } else if oldest < 0.0 {
            self.down += oldest;
        }
        self.steps.replace_oldest(value, step);
        Ok(result)
    }
    fn warm_count(&self) -> u64 {
        self.steps.length as u64
    }
}

/// Computed from smoothed averages of the upward and of the downward steps.
pub struct Movement {
    up: Average,
    down: Average,
    last: f64,
    compute: fn(f64, f64) -> f64,
}

impl Movement {
    /// Over that many values.
    pub fn new(period: usize, warm_up: WarmUp, compute: fn(f64, f64) -> f64) -> Self {
        let average = Average::with_weight(period.saturating_add(1), 1.0 / period as f64, warm_up);
        Self { up: average, down: average, last: 0.0, compute }
    }
}

impl Indicator for Movement {
    fn next(&mut self, value: f64) -> Result<f64> {
        let last = std::mem::replace(&mut self.last, value);
        let up = self.up.add(if value > last { value - last } else { 0.0 });
        let down = self.down.add(if value < last { last - value } else { 0.0 });
        Ok((self.compute)(up, down))
    }
    fn warm_count(&self) -> u64 {
        self.up.warm_count()
    }
}

/// Which part of the smoothed movement was upward, per cent.
pub fn relative_strength(up: f64, down: f64) -> f64 {
    100.0 - (100.0 / (1.0 + up / down))
}

/// Chande's oscillator of smoothed averages.
pub fn smoothed_oscillator(up: f64, down: f64) -> f64 {
    100.0 * ((up - down) / (up + down))
}
