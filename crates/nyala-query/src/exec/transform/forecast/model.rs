//! The model that is fitted: level, trend and season, each smoothed by a parameter, the trend damped.

use super::simplex::{SIMPLEXES, Search};
use super::smoothing::{LEVEL, SEASON, TREND, smoothed};

/// The guesses for each of the four parameters before the level.
const GUESSES: [f64; 2] = [0.3, 0.3 + 0.4];
/// Without a season the first level and trend are this part of the first value and difference.
const FIRST: f64 = 0.5;

/// The model of a series.
pub struct Model {
    /// The values at equal distances, NaN where one is missing.
    values: Vec<f64>,
    season: usize,
}

impl Model {
    /// A model with seasons of `season` values; fewer than two mean no season.
    pub fn new(values: Vec<f64>, season: usize) -> Self {
        Self { values, season: if season > 1 { season } else { 0 } }
    }

    /// How many values there are, missing ones included.
    pub fn length(&self) -> usize {
        self.values.len()
    }

    /// How many parameters there are.
    pub fn parameters(&self) -> usize {
        SEASON + self.season
    }

    /// The search for the parameters that fit best, from all guesses.
    pub fn search(&self) -> Search {
        let first = self.first_parameters();
        let start = |guess: usize| {
            let mut start = first.clone();
            for (position, parameter) in start[..LEVEL].iter_mut().enumerate() {
                *parameter = GUESSES[guess >> (3 - position) & 1];
            }
            start
        };
        Search::new(self.values.clone(), std::array::from_fn::<_, SIMPLEXES, _>(start))
    }

    /// The parameters to begin with; the four that are guessed are 0.
    fn first_parameters(&self) -> Vec<f64> {
        let (values, season) = (&self.values, self.season);
        let mut parameters = vec![0.0; self.parameters()];
        if season == 0 {
            parameters[LEVEL] = FIRST * values[0];
            if !values[1].is_nan() {
                parameters[TREND] = FIRST * (values[1] - values[0]);
            }
            return parameters;
        }
        let length = season as f64;
        // A season may be longer than the values; those after the end count as missing.
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
        for (index, factor) in parameters[SEASON..].iter_mut().enumerate() {
            *factor = if value(index).is_nan() { 0.0 } else { value(index) / level };
        }
        parameters
    }

    /// The fitted values and those of the horizon.
    pub fn forecast(&self, horizon: usize, parameters: &[f64]) -> Vec<f64> {
        smoothed(self.values[0], self.length() + horizon, parameters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nyala_exec::elementary::pow;

    #[test]
    fn trends_are_damped_by_powers() {
        for phi in [0.0, 1.0, 0.3, 0.7, 0.999_999, 1e-9, 1e-160, 5e-324, 0.5, 1.0 - f64::EPSILON] {
            let (trend, mut reach) = (1.5, phi);
            // CpuFeatures and trend stay as they begin, except that each step adds a part of the trend.
            let (mut level, mut expected) = (0.0, vec![7.0]);
            let mut here = trend;
            for step in 1..2000 {
                level += phi * here;
                here *= phi;
                expected.push(level + reach * here);
                reach += pow(phi, f64::from(step));
            }
            let model = Model::new(vec![7.0], 0);
            assert_eq!(model.forecast(1999, &[0.0, 0.0, 0.0, phi, 0.0, trend]), expected, "{phi}");
        }
    }
}
