//! Kaufman's efficiency ratio, and the average that is smoothed by it.

use super::Indicator;
use super::momentum::Ring;
use nyala_core::Result;
use nyala_exec::QueryMemory;
use nyala_exec::elementary::pow;

/// How far values went, in parts of the way they took: 1 is straight.
pub struct EfficiencyRatio {
    /// The last values, each with the way from the one before.
    steps: Ring,
    /// The way they took.
    way: f64,
    /// Values so far, up to one more than there are steps.
    count: usize,
}

impl EfficiencyRatio {
    /// Of so many steps.
    pub fn new(period: usize, memory: &QueryMemory) -> Self {
        Self { steps: Ring::new(period, memory), way: 0.0, count: 0 }
    }

    fn add(&mut self, value: f64) -> Result<f64> {
        let oldest = self.steps.oldest()?;
        let distance = (value - oldest.value).abs();
        let step = (value - self.steps.newest().value).abs();
        self.way -= oldest.step;
        self.way += step;
        self.steps.replace_oldest(value, step);
        self.count = (self.count + 1).min(self.steps.length() + 1);
        Ok(if distance == 0.0 || self.way == 0.0 { 0.0 } else { distance / self.way })
    }

    fn is_warm(&self) -> bool {
        self.count == self.steps.length() + 1
    }
}

impl Indicator for EfficiencyRatio {
    fn next(&mut self, value: f64) -> Result<f64> {
        self.add(value)
    }
    fn warm_count(&self) -> u64 {
        self.steps.length() as u64
    }
}

/// An average whose smoothing lies between those of 2 and 30 values.
pub struct AdaptiveAverage {
    ratio: EfficiencyRatio,
    last: f64,
}

impl AdaptiveAverage {
    /// By the efficiency ratio of so many steps.
    pub fn new(period: usize, memory: &QueryMemory) -> Self {
        Self { ratio: EfficiencyRatio::new(period, memory), last: 0.0 }
    }
}

impl Indicator for AdaptiveAverage {
    fn next(&mut self, value: f64) -> Result<f64> {
        const FAST: f64 = 2.0 / 3.0;
        const SLOW: f64 = 2.0 / 31.0;
        /// As it is computed exactly, before it is rounded once.
        const SPAN: f64 = 56.0 / 93.0;
        debug_assert!((SPAN - (FAST - SLOW)).abs() < 1e-15, "the span is between them");
        if !self.ratio.is_warm() {
            self.last = self.ratio.steps.newest().value;
        }
        let weight = pow(self.ratio.add(value)? * SPAN + SLOW, 2.0);
        self.last += weight * (value - self.last);
        Ok(self.last)
    }
    fn warm_count(&self) -> u64 {
        self.ratio.warm_count()
    }
}
