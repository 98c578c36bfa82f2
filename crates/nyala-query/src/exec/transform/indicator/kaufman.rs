//! Kaufman's efficiency ratio, and the average that is smoothed by it.

use super::Indicator;
use super::momentum::Ring;
use nyala_core::Result;
use nyala_exec::QueryMemory;
use nyala_exec::elementary::pow;

/// The distance between the first and the last value, divided by the length of the way between them: 1 is straight.
pub struct EfficiencyRatio {
    /// The last values, each with the distance from the previous one.
    steps: Ring,
    /// The sum of these distances.
    way: f64,
    /// The number of values so far, at most one more than the steps.
    count: usize,
}

impl EfficiencyRatio {
    /// Over that many steps.
    pub fn new(period: usize, memory: &QueryMemory) -> Self {
        Self { steps: Ring::new(period, memory), way: 0.0, count: 0 }
    }

    fn is_warm(&self) -> bool {
        self.count == self.steps.length + 1
    }
}

impl Indicator for EfficiencyRatio {
    fn next(&mut self, value: f64) -> Result<f64> {
        let oldest = self.steps.oldest()?;
        let distance = (value - oldest.value).abs();
        let step = (value - self.steps.newest().value).abs();
        self.way -= oldest.step;
        self.way += step;
        self.steps.replace_oldest(value, step);
        self.count = (self.count + 1).min(self.steps.length + 1);
        Ok(if distance == 0.0 || self.way == 0.0 { 0.0 } else { distance / self.way })
    }
    fn warm_count(&self) -> u64 {
        self.steps.length as u64
    }
}

/// An average whose smoothing lies between those of 2 and 30 values.
pub struct AdaptiveAverage {
    ratio: EfficiencyRatio,
    last: f64,
}

impl AdaptiveAverage {
    /// By the efficiency ratio over that many steps.
    pub fn new(period: usize, memory: &QueryMemory) -> Self {
        Self { ratio: EfficiencyRatio::new(period, memory), last: 0.0 }
    }
}

impl Indicator for AdaptiveAverage {
    fn next(&mut self, value: f64) -> Result<f64> {
        const FAST: f64 = 2.0 / 3.0;
        const SLOW: f64 = 2.0 / 31.0;
        /// Computed exactly, and then rounded once.
        const SPAN: f64 = 56.0 / 93.0;
        debug_assert!((SPAN - (FAST - SLOW)).abs() < 1e-15, "the span is between them");
        if !self.ratio.is_warm() {
            self.last = self.ratio.steps.newest().value;
        }
        let weight = pow(self.ratio.next(value)? * SPAN + SLOW, 2.0);
        self.last += weight * (value - self.last);
        Ok(self.last)
    }
    fn warm_count(&self) -> u64 {
        self.ratio.warm_count()
    }
}
