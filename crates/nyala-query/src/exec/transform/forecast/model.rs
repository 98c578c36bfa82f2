//! The model that is fitted: level, trend and season, each smoothed by a parameter, the trend damped.

use super::damping::Damping;

/// Places of the parameters, before those of the season.
const ALPHA: usize = 0;
const BETA: usize = 1;
const GAMMA: usize = 2;
const PHI: usize = 3;
const LEVEL: usize = 4;
const TREND: usize = 5;
const SEASON: usize = 6;
/// What the first level and trend are of the first values where there is no season.
const FIRST: f64 = 0.5;

/// The model of a series.
pub struct Model {
    /// The values at equal distances; those that are missing are not numbers.
    values: Vec<f64>,
    season: usize,
    damping: Damping,
}

impl Model {
    /// A model with seasons of so many values; less than two are none.
    pub fn new(values: Vec<f64>, season: usize) -> Self {
        Self { values, season: if season > 1 { season } else { 0 }, damping: Damping::default() }
    }

    /// How many values there are, missing ones included.
    pub fn length(&self) -> usize {
        self.values.len()
    }

    /// The parameters to begin with, but for the four that are guessed.
    pub fn first_parameters(&self) -> Vec<f64> {
        let (values, season) = (&self.values, self.season);
        let mut parameters = vec![0.0; SEASON + season];
        if season == 0 {
            parameters[LEVEL] = FIRST * values[0];
            if !values[1].is_nan() {
                parameters[TREND] = FIRST * (values[1] - values[0]);
            }
            return parameters;
        }
        let length = season as f64;
        // A season may be longer than what is there; values of seasons yet to come are missing.
        let value = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
        let level = (0..season).map(value).filter(|value| !value.is_nan());
        let level = level.fold(0.0, |level, value| level + (1.0 / length) * value);
        let mut trend = 0.0;
        for index in 0..season {
            let (this, next) = (value(index), value(season + index));
            if !this.is_nan() && !next.is_nan() {
                trend += 1.0 / ((season * season) as f64) * (next - this);
            }
        }
        (parameters[LEVEL], parameters[TREND]) = (level, trend);
        for (index, place) in parameters[SEASON..].iter_mut().enumerate() {
            *place = if value(index).is_nan() { 0.0 } else { value(index) / level };
        }
        parameters
    }

    /// The sum of squared errors. The parameters are brought within bounds, and the season moves on.
    pub fn error(&mut self, parameters: &mut [f64]) -> f64 {
        let length = self.length();
        self.damping.begin(parameters);
        let (mut error, mut impossible) = (0.0, false);
        run(&self.values, self.season, &mut self.damping, length, parameters, |step, value, of_series| {
            let Some(known) = of_series.filter(|known| !known.is_nan()) else { return };
            impossible |= value.is_nan() && step > 0;
            error += (value - known) * (value - known);
        });
        if impossible { f64::INFINITY } else { error }
    }

    /// The fitted values and those of the horizon.
    pub fn forecast(&mut self, horizon: usize, mut parameters: Vec<f64>) -> Vec<f64> {
        let length = self.length() + horizon;
        self.damping.begin(&mut parameters);
        let mut forecast = Vec::with_capacity(length);
        run(&self.values, self.season, &mut self.damping, length, &mut parameters, |_, value, _| {
            forecast.push(value);
        });
        forecast
    }
}

/// Computes value after value, each from the ones before, and shows it beside that of the series.
fn run(
    values: &[f64],
    season: usize,
    damping: &mut Damping,
    length: usize,
    parameters: &mut [f64],
    mut show: impl FnMut(usize, f64, Option<f64>),
) {
    let (alpha, beta, gamma, phi) = (parameters[ALPHA], parameters[BETA], parameters[GAMMA], parameters[PHI]);
    let (mut level, mut trend) = (parameters[LEVEL], parameters[TREND]);
    let seasons = &mut parameters[SEASON..];
    let mut value = values[0];
    show(0, value, values.first().copied());
    let (mut place, mut phase) = (0, 0);
    for step in 1..length {
        let ahead = damping.ahead();
        let damped = level + phi * trend;
        let (before, seasonal) = (level, season > 0);
        if seasonal {
            phase = if phase + 1 == season { 0 } else { phase + 1 };
            let (this, next) = (seasons[place], seasons[(place + phase) % season]);
            level = alpha * (value / this) + (1.0 - alpha) * damped;
            trend = beta * (level - before) + (1.0 - beta) * phi * trend;
            seasons[place] = gamma * (value / damped) + (1.0 - gamma) * this;
            value = (level + ahead * trend) * next;
            // InfluxDB moves on by two.
            place = (place + 2) % season;
        } else {
            level = alpha * value + (1.0 - alpha) * damped;
            trend = beta * (level - before) + (1.0 - beta) * phi * trend;
            value = level + ahead * trend;
        }
        show(step, value, values.get(step).copied());
    }
}

impl Damping {
    /// Brings the smoothing parameters within bounds, and begins with the last of them.
    fn begin(&mut self, parameters: &mut [f64]) {
        for parameter in &mut parameters[..LEVEL] {
            *parameter = parameter.clamp(0.0, 1.0);
        }
        self.restart(parameters[PHI]);
    }
}
