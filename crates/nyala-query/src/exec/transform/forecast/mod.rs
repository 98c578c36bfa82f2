//! Holt-Winters: a damped trend and a season, fitted to a series and drawn into the future.
//!
//! The results are InfluxDB's to the last digit. Therefore the guesses that are tried ([`model`]), the search that starts
//! from them ([`simplex`], all guesses side by side) and the arithmetic ([`smoothing`]) follow InfluxDB step by step.

mod model;
mod simplex;
mod smoothing;

use super::number::{Number, Output, points};
use super::{Finish, Series, Transform};
use model::Model;
use nyala_column::CpuFeatures;
use nyala_core::{Result, before_long_work};
use nyala_exec::QueryMemory;
use nyala_exec::memory::MemoryCharge;
use simplex::Search;
use std::marker::PhantomData;

/// Values that are computed before other queries get their turn.
const POINTS_AT_ONCE: usize = 1 << 20;

/// `holt_winters` and `holt_winters_with_fit`.
pub struct HoltWinters<T> {
    /// Points to forecast.
    horizon: usize,
    /// Points of a season; fewer than two mean no season.
    season: usize,
    /// Whether the fitted points are shown too.
    with_fit: bool,
    interval_ns: i64,
    times_ns: Vec<i64>,
    values: Vec<f64>,
    held: MemoryCharge,
    of: PhantomData<T>,
}

impl<T: Number> HoltWinters<T> {
    /// The arguments of the call, and the width of the windows.
    pub fn new(
        (horizon, season, with_fit): (usize, usize, bool),
        interval_ns: i64,
        memory: &QueryMemory,
    ) -> Self {
        let (times_ns, values, held) = (Vec::new(), Vec::new(), memory.hold());
        Self { horizon, season, with_fit, interval_ns, times_ns, values, held, of: PhantomData }
    }

    fn rounded(&self, time_ns: i64) -> i64 {
        let rest_ns = time_ns % self.interval_ns;
        let down_ns = time_ns - rest_ns;
        if rest_ns > self.interval_ns / 2 { down_ns.saturating_add(self.interval_ns) } else { down_ns }
    }

    /// The values at equal distances, NaN where one is missing. Of several at one position the first counts.
    fn resampled(&mut self) -> Result<Vec<f64>> {
        let (Some(first_ns), Some(last_ns)) = (self.times_ns.first(), self.times_ns.last()) else {
            return Ok(Vec::new());
        };
        let start_ns = self.rounded(*first_ns);
        let count = self.rounded(*last_ns).saturating_sub(start_ns) / self.interval_ns;
        if count <= 0 || self.times_ns.len() < 2 || (self.season > 1 && self.times_ns.len() < self.season) {
            return Ok(Vec::new());
        }
        let count = count as usize + 1;
        self.held.charge(count.saturating_mul(size_of::<f64>()))?;
        let mut values = vec![f64::NAN; count];
        let mut last = None;
        for (time_ns, value) in self.times_ns.iter().zip(&self.values) {
            let position = self.rounded(*time_ns).saturating_sub(start_ns) / self.interval_ns;
            if last.is_none_or(|last| position > last) {
                values[position as usize] = *value;
                last = Some(position);
            }
        }
        Ok(values)
    }

    async fn forecast(&mut self) -> Result<Series> {
        let empty = Output::<f64>::with_room_for(&Series::empty());
        let values = self.resampled()?;
        if values.is_empty() || self.horizon == 0 {
            return Ok(empty.into_series());
        }
        let length = values.len().saturating_add(self.horizon);
        self.held.charge(length.saturating_mul(3 * size_of::<f64>()))?;
        let model = Model::new(values, self.season);
        self.held.charge(Search::bytes(model.length(), model.parameters()))?;
        let forecast = model.forecast(self.horizon, &best(model.search()).await);
        let mut output = empty;
        let (from, begin_ns) = match self.with_fit {
            true => (0, self.times_ns[0]),
            // One interval after the last point.
            false => (model.length(), self.times_ns[self.times_ns.len() - 1].wrapping_add(self.interval_ns)),
        };
        for (step, value) in (0_i64..).zip(&forecast[from..]) {
            if !value.is_nan() {
                output.push(begin_ns.wrapping_add(self.interval_ns.wrapping_mul(step)), *value);
            }
        }
        Ok(output.into_series())
    }
}

/// The parameters that fit best.
async fn best(mut search: Search) -> Vec<f64> {
    loop {
        if let Some(parameters) = search.advance(CpuFeatures::best(), POINTS_AT_ONCE) {
            return parameters.to_vec();
        }
        before_long_work().await;
    }
}

impl<T: Number> Transform for HoltWinters<T> {
    fn feed(&mut self, series: &Series) -> Result<Series> {
        self.held.charge(2 * 16 * series.times_ns.len())?;
        for (time_ns, value) in points::<T>(series) {
            self.times_ns.push(time_ns);
            self.values.push(value.float());
        }
        Ok(Series::empty())
    }

    fn finish(&mut self) -> Finish<'_> {
        Box::pin(self.forecast())
    }
}
