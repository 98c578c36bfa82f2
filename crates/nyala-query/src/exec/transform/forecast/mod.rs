//! Holt-Winters: a damped trend and a season, fitted to a series and drawn into the future.
//!
//! The results are InfluxDB's to the last digit, so every step is taken in its order: the guesses that are tried, how
//! the simplex moves, which powers are added up, and that trying parameters changes them (they are kept within bounds,
//! and the season moves on).

mod damping;
mod model;
mod simplex;

use super::number::{Number, Output, points};
use super::{Finish, Series, Transform};
use crate::exec::memory::{Held, QueryMemory};
use model::Model;
use nyala_core::{Result, before_long_work};
use simplex::Simplex;
use std::marker::PhantomData;

/// The first guesses of what each of four parameters is.
const GUESSES: [f64; 2] = [0.3, 0.3 + 0.4];
/// How close the corners of a simplex are in the end.
const CLOSE: f64 = 1.0e-4;
/// The most steps of a simplex.
const STEPS_MAX: usize = 1000;
/// Points that are computed before others may go on.
const POINTS_AT_ONCE: usize = 1 << 20;

/// `holt_winters` and `holt_winters_with_fit`.
pub struct HoltWinters<T> {
    /// Points to forecast.
    horizon: usize,
    /// Points of a season; less than two are none.
    season: usize,
    /// Whether the fitted points are shown too.
    with_fit: bool,
    interval_ns: i64,
    times_ns: Vec<i64>,
    values: Vec<f64>,
    held: Held,
    of: PhantomData<T>,
}

impl<T: Number> HoltWinters<T> {
    /// What is asked for, and the width of the windows.
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

    /// The values at equal distances, not a number where there is none; of several at one the first.
    fn evenly(&mut self) -> Result<Vec<f64>> {
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
        let mut even = vec![f64::NAN; count];
        let mut last = None;
        for (time_ns, value) in self.times_ns.iter().zip(&self.values) {
            let place = self.rounded(*time_ns).saturating_sub(start_ns) / self.interval_ns;
            if last.is_none_or(|last| place > last) {
                even[place as usize] = *value;
                last = Some(place);
            }
        }
        Ok(even)
    }

    async fn forecast(&mut self) -> Result<Series> {
        let empty = Output::<f64>::with_room_for(&Series::empty());
        let values = self.evenly()?;
        if values.is_empty() || self.horizon == 0 {
            return Ok(empty.into_series());
        }
        let length = values.len().saturating_add(self.horizon);
        self.held.charge(length.saturating_mul(5 * size_of::<f64>()))?;
        let mut model = Model::new(values, self.season);
        let start = model.first_parameters();
        self.held
            .charge((start.len() + 8).saturating_mul(start.len() + 8).saturating_mul(size_of::<f64>()))?;
        let parameters = best(&mut model, start).await;
        let forecast = model.forecast(self.horizon, parameters);
        let mut output = empty;
        let (from, begin_ns) = match self.with_fit {
            true => (0, self.times_ns[0]),
            // The next after the last.
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

/// The parameters that fit best, of those that are found from all guesses.
async fn best(model: &mut Model, mut start: Vec<f64>) -> Vec<f64> {
    let mut found: Option<(f64, Vec<f64>)> = None;
    let mut computed = 0;
    for guess in 0..1_usize << 4 {
        for (place, parameter) in start[..4].iter_mut().enumerate() {
            *parameter = GUESSES[guess >> (3 - place) & 1];
        }
        let mut simplex = Simplex::new(&start, &mut |parameters| model.error(parameters));
        for _ in 0..STEPS_MAX {
            computed += model.length() * 2 + start.len() * start.len();
            if computed > POINTS_AT_ONCE {
                computed = 0;
                before_long_work().await;
            }
            simplex.step(&mut |parameters| model.error(parameters));
            if simplex.spread() < CLOSE {
                break;
            }
        }
        let (error, parameters) = simplex.best(&mut |parameters| model.error(parameters));
        if found.as_ref().is_none_or(|(least, _)| error < *least) {
            found = Some((error, parameters));
        }
    }
    found.expect("there are guesses").1
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
