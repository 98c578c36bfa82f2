//! Smoothed averages.

use super::Indicator;
use crate::plan::WarmUp;
use nyala_core::Result;

/// An average in which the weight of older values fades.
#[derive(Debug, Clone, Copy)]
pub struct Average {
    period: usize,
    /// The weight of a new value once the average is warm.
    weight: f64,
    warm_up: WarmUp,
    /// The number of values so far, up to the period.
    count: usize,
    last: f64,
}

impl Average {
    /// Over a period of that many values.
    pub fn new(period: usize, warm_up: WarmUp) -> Self {
        Self::with_weight(period, 2.0 / (period as f64 + 1.0), warm_up)
    }

    /// Warm after that many values, with a given weight of new values.
    pub fn with_weight(period: usize, weight: f64, warm_up: WarmUp) -> Self {
        Self { period, weight, warm_up, count: 0, last: 0.0 }
    }

    /// The average after one more value.
    pub fn add(&mut self, value: f64) -> f64 {
        let (count, last) = (self.count as f64, self.last);
        self.last = match self.warm_up {
            _ if self.count == 0 => value,
            _ if self.is_warm() => (value - last) * self.weight + last,
            WarmUp::Simple => (last * count + value) / (count + 1.0),
            WarmUp::Exponential => (value - last) * (2.0 / (count + 2.0)) + last,
        };
        self.count = (self.count + 1).min(self.period);
        self.last
    }

    fn is_warm(&self) -> bool {
        self.count == self.period
    }

    /// Whether its results may be smoothed again.
    fn can_be_followed(&self) -> bool {
        self.is_warm() || self.warm_up == WarmUp::Exponential
    }

    /// The number of values until several averages in a row are warm.
    fn warm_count_in_row(&self, averages: u64) -> u64 {
        match self.warm_up {
            WarmUp::Exponential => self.warm_count(),
            WarmUp::Simple => self.warm_count().saturating_mul(averages),
        }
    }
}

impl Indicator for Average {
    fn next(&mut self, value: f64) -> Result<f64> {
        Ok(self.add(value))
    }
    fn warm_count(&self) -> u64 {
        self.period as u64 - 1
    }
}

/// Smoothed twice, with a correction of the lag.
pub struct DoubleAverage([Average; 2]);

impl DoubleAverage {
    pub fn new(average: Average) -> Self {
        Self([average; 2])
    }
}

impl Indicator for DoubleAverage {
    fn next(&mut self, value: f64) -> Result<f64> {
        let [first, second] = &mut self.0;
        let once = first.add(value);
        let twice = if first.can_be_followed() { second.add(once) } else { once };
        Ok(2.0 * once - twice)
    }
    fn warm_count(&self) -> u64 {
        self.0[0].warm_count_in_row(2)
    }
}

/// Smoothed three times, with a correction of the lag.
pub struct TripleAverage([Average; 3]);

impl TripleAverage {
    pub fn new(average: Average) -> Self {
        Self([average; 3])
    }
}

impl Indicator for TripleAverage {
    fn next(&mut self, value: f64) -> Result<f64> {
        let [first, second, third] = &mut self.0;
        let once = first.add(value);
        let twice = if first.can_be_followed() { second.add(once) } else { once };
        let thrice = if second.can_be_followed() { third.add(twice) } else { twice };
        Ok(3.0 * once - 3.0 * twice + thrice)
    }
    fn warm_count(&self) -> u64 {
        self.0[0].warm_count_in_row(3)
    }
}

/// By how much a triple smoothed average grows, per cent.
pub struct RateOfChange {
    averages: [Average; 3],
    last: f64,
}

impl RateOfChange {
    pub fn new(average: Average) -> Self {
        Self { averages: [average; 3], last: 0.0 }
    }
}

impl Indicator for RateOfChange {
    fn next(&mut self, value: f64) -> Result<f64> {
        let mut smoothed = value;
        for average in &mut self.averages {
            smoothed = average.add(smoothed);
            if !average.can_be_followed() {
                break;
            }
        }
        let before = std::mem::replace(&mut self.last, smoothed);
        Ok((smoothed / before - 1.0) * 100.0)
    }
    fn warm_count(&self) -> u64 {
        self.averages[0].warm_count_in_row(3).saturating_add(1)
    }
}
