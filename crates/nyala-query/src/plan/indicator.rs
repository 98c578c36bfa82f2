//! Indicators of technical analysis, and their settings.

use crate::influxql::{Call, Expr};
use nyala_core::{Error, Result};

/// The indicators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndicatorKind {
    /// A smoothed average.
    Exponential,
    /// A smoothed average that corrects the lag of smoothing.
    DoubleExponential,
    /// A smoothed average that corrects the lag twice.
    TripleExponential,
    /// By how much a triple smoothed average grows, per cent.
    TripleExponentialDerivative,
    /// How much of the movement was upwards, per cent.
    RelativeStrength,
    /// How straight the values moved.
    EfficiencyRatio,
    /// An average that is smoothed less if values move straighter.
    AdaptiveAverage,
    /// Upward minus downward movement, in per cent of both.
    MomentumOscillator,
}

/// How an average begins, before a full period of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarmUp {
    /// As a smoothed average of a shorter period.
    Exponential,
    /// As a mean.
    Simple,
}

/// An indicator and its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Indicator {
    /// The indicator.
    pub kind: IndicatorKind,
    /// The period: how many values.
    pub period: usize,
    /// How many values pass before results are shown; `None`: as many as it needs.
    pub hold: Option<u64>,
    /// How averages begin; `None`: values are summed up and not smoothed.
    pub warm_up: Option<WarmUp>,
}

impl Indicator {
    /// The indicator that a call names, if any.
    pub fn of(call: &Call) -> Result<Option<Self>> {
        let kind = match call.name.as_str() {
            "exponential_moving_average" => IndicatorKind::Exponential,
            "double_exponential_moving_average" => IndicatorKind::DoubleExponential,
            "triple_exponential_moving_average" => IndicatorKind::TripleExponential,
            "triple_exponential_derivative" => IndicatorKind::TripleExponentialDerivative,
            "relative_strength_index" => IndicatorKind::RelativeStrength,
            "kaufmans_efficiency_ratio" => IndicatorKind::EfficiencyRatio,
            "kaufmans_adaptive_moving_average" => IndicatorKind::AdaptiveAverage,
            "chande_momentum_oscillator" => IndicatorKind::MomentumOscillator,
            _ => return Ok(None),
        };
        let number = |position: usize| match call.args.get(position) {
            Some(Expr::Integer(number)) => Some(*number),
            _ => None,
        };
        let period = number(1).and_then(|period| usize::try_from(period).ok()).unwrap_or(1);
        let hold = number(2).and_then(|hold| u64::try_from(hold).ok());
        let warm_up = match call.args.get(3) {
            Some(Expr::String(name)) if name == "simple" => Some(WarmUp::Simple),
            Some(Expr::String(name)) if name == "none" => None,
            None if kind == IndicatorKind::MomentumOscillator => None,
            _ => Some(WarmUp::Exponential),
        };
        let indicator = Self { kind, period, hold, warm_up };
        if kind == IndicatorKind::MomentumOscillator && period < 2 && warm_up.is_none() {
            return Err(Error::invalid(format!("{} period must be greater than or equal to 2", call.name)));
        }
        Ok(Some(indicator))
    }

    /// Its name in InfluxDB's errors.
    pub fn name(self) -> &'static str {
        match self.kind {
            IndicatorKind::Exponential => "exponential moving average",
            IndicatorKind::DoubleExponential => "double exponential moving average",
            IndicatorKind::TripleExponential => "triple exponential moving average",
            IndicatorKind::TripleExponentialDerivative => "triple exponential derivative",
            IndicatorKind::RelativeStrength => "relative strength index",
            IndicatorKind::EfficiencyRatio => "kaufmans efficiency ratio",
            IndicatorKind::AdaptiveAverage => "kaufmans adaptive moving average",
            IndicatorKind::MomentumOscillator => "chande momentum oscillator",
        }
    }
}
