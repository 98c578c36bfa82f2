//! Technical analysis: indicators that follow a value with every value.

mod average;
mod kaufman;
mod momentum;

use super::number::{Number, Output, points};
use super::{Series, Transform};
use crate::plan::{self, IndicatorKind};
use average::{Average, DoubleAverage, RateOfChange, TripleAverage};
use kaufman::{AdaptiveAverage, EfficiencyRatio};
use momentum::{MomentumOscillator, Movement, RelativeStrength, SmoothedOscillator};
use nyala_core::Result;
use nyala_exec::QueryMemory;
use std::marker::PhantomData;

/// Something that is computed anew with every value.
trait Indicator: Send {
    /// What it is after one more value.
    fn next(&mut self, value: f64) -> Result<f64>;
    /// After how many values it means something.
    fn warm_count(&self) -> u64;
}

/// An indicator of numbers of a type.
pub struct Followed<T> {
    indicator: Box<dyn Indicator>,
    /// Values that pass before the first result.
    hold: u64,
    /// Values so far.
    count: u64,
    shows_infinite: bool,
    of: PhantomData<T>,
}

impl<T: Number> Followed<T> {
    /// As it was asked for.
    pub fn new(asked: plan::Indicator, memory: &QueryMemory) -> Self {
        let warm_up = asked.warm_up.unwrap_or(plan::WarmUp::Exponential);
        let average = Average::new(asked.period, warm_up);
        let movement = || Movement::new(asked.period, warm_up);
        let indicator: Box<dyn Indicator> = match asked.kind {
            IndicatorKind::Exponential => Box::new(average),
            IndicatorKind::DoubleExponential => Box::new(DoubleAverage::new(average)),
            IndicatorKind::TripleExponential => Box::new(TripleAverage::new(average)),
            IndicatorKind::TripleExponentialDerivative => Box::new(RateOfChange::new(average)),
            IndicatorKind::RelativeStrength => Box::new(RelativeStrength(movement())),
            IndicatorKind::EfficiencyRatio => Box::new(EfficiencyRatio::new(asked.period, memory)),
            IndicatorKind::AdaptiveAverage => Box::new(AdaptiveAverage::new(asked.period, memory)),
            IndicatorKind::MomentumOscillator if asked.warm_up.is_none() => {
                Box::new(MomentumOscillator::new(asked.period, memory))
            }
            IndicatorKind::MomentumOscillator => Box::new(SmoothedOscillator(movement())),
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
