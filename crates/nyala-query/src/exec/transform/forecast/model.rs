//! The model that is fitted: level, trend and season, each smoothed by a parameter, the trend damped.

use nyala_column::kernels::{Search, WALKS, smoothed};

/// Places of the parameters, before those of the season; the first four smooth and damp.
const LEVEL: usize = 4;
const TREND: usize = 5;
const SEASON: usize = 6;
/// The first guesses of what each of four parameters is.
const GUESSES: [f64; 2] = [0.3, 0.3 + 0.4];
/// What the first level and trend are of the first values where there is no season.
const FIRST: f64 = 0.5;

/// The model of a series.
pub struct Model {
    /// The values at equal distances; those that are missing are not numbers.
    values: Vec<f64>,
    season: usize,
}

impl Model {
    /// A model with seasons of so many values; less than two are none.
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
            for (place, parameter) in start[..LEVEL].iter_mut().enumerate() {
                *parameter = GUESSES[guess >> (3 - place) & 1];
            }
            start
        };
        Search::new(self.values.clone(), std::array::from_fn::<_, WALKS, _>(start))
    }

    /// The parameters to begin with, but for the four that are guessed.
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
            let (trend, mut ahead) = (1.5, phi);
            // Level and trend stay as they begin, but for what of the trend is added at each step.
            let (mut level, mut expected) = (0.0, vec![7.0]);
            let mut here = trend;
            for step in 1..2000 {
                level += phi * here;
                here *= phi;
                expected.push(level + ahead * here);
                ahead += pow(phi, f64::from(step));
            }
            let model = Model::new(vec![7.0], 0);
            assert_eq!(model.forecast(1999, &[0.0, 0.0, 0.0, phi, 0.0, trend]), expected, "{phi}");
        }
    }
}
