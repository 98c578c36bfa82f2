//! Indicators of technical analysis: each value gives a result.

mod average;
mod kaufman;
mod momentum;

use super::number::{Number, Output, points};
use super::{Series, Transform};
use crate::plan::{self, IndicatorKind};
use average::{Average, DoubleAverage, RateOfChange, TripleAverage};
use kaufman::{AdaptiveAverage, EfficiencyRatio};
use momentum::{MomentumOscillator, Movement, relative_strength, smoothed_oscillator};
use nyala_core::Result;
use nyala_exec::QueryMemory;
use std::marker::PhantomData;

/// An indicator that is updated with every value.
trait Indicator: Send {
    /// The indicator after one more value.
    fn next(&mut self, value: f64) -> Result<f64>;
    /// After how many values it has a meaning.
    fn warm_count(&self) -> u64;
}

/// An indicator of numbers of a type.
pub struct Followed<T> {
    indicator: Box<dyn Indicator>,
    /// How many values have no result at the beginning.
    hold: u64,
    /// The number of values so far.
    count: u64,
    shows_infinite: bool,
    of: PhantomData<T>,
}

impl<T: Number> Followed<T> {
    /// The indicator with these settings.
    pub fn new(asked: plan::Indicator, memory: &QueryMemory) -> Self {
        let warm_up = asked.warm_up.unwrap_or(plan::WarmUp::Exponential);
        let average = Average::new(asked.period, warm_up);
        let movement = |compute| Box::new(Movement::new(asked.period, warm_up, compute));
        let indicator: Box<dyn Indicator> = match asked.kind {
            IndicatorKind::Exponential => Box::new(average),
            IndicatorKind::DoubleExponential => Box::new(DoubleAverage::new(average)),
            IndicatorKind::TripleExponential => Box::new(TripleAverage::new(average)),
            IndicatorKind::TripleExponentialDerivative => Box::new(RateOfChange::new(average)),
            IndicatorKind::RelativeStrength => movement(relative_strength),
            IndicatorKind::EfficiencyRatio => Box::new(EfficiencyRatio::new(asked.period, memory)),
            IndicatorKind::AdaptiveAverage => Box::new(AdaptiveAverage::new(asked.period, memory)),
            IndicatorKind::MomentumOscillator if asked.warm_up.is_none() => {
                Box::new(MomentumOscillator::new(asked.period, memory))
            }
            IndicatorKind::MomentumOscillator => movement(smoothed_oscillator),
        };
        let shows_infinite = !matches!(
            asked.kind,
            IndicatorKind::TripleExponentialDerivative
                | IndicatorKind::EfficiencyRatio
                | IndicatorKind::AdaptiveAverage
        );
        let hold = asked.hold.unwrap_or_else(|| indicator.warm_count());
        Self { indicator, hold, count: 0, shows_infinite, of: PhantomData }
    }
}

impl<T: Number> Transform for Followed<T> {
    fn feed(&mut self, series: &Series) -> Result<Series> {
        let mut output = Output::<f64>::with_room_for(series);
        for (time_ns, value) in points::<T>(series) {
            let result = self.indicator.next(value.float())?;
            self.count += 1;
            if self.count > self.hold && (self.shows_infinite || !result.is_infinite()) {
                output.push(time_ns, result);
            }
        }
        Ok(output.into_series())
    }
}
