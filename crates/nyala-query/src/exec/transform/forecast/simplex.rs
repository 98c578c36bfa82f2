//! The simplex of Nelder and Mead: it walks downhill on any function, by turning its worst corner over.

/// A function of parameters, which it may change.
pub type Function<'a> = &'a mut dyn FnMut(&mut [f64]) -> f64;

/// How far the worst corner is turned over, drawn out, or drawn in.
const REFLECTION: f64 = 1.0;
const EXPANSION: f64 = 2.0;
const CONTRACTION: f64 = 0.5;

/// A simplex: one corner more than there are parameters.
pub struct Simplex {
    corners: Vec<Vec<f64>>,
    values: Vec<f64>,
    centre: Vec<f64>,
    reflected: Vec<f64>,
    tried: Vec<f64>,
}

impl Simplex {
    /// A regular simplex with sides of one, and one corner at `start`.
    pub fn new(start: &[f64], function: Function<'_>) -> Self {
        let count = start.len();
        let (dimensions, root) = (count as f64, ((count + 1) as f64).sqrt());
        let far = (root - 1.0 + dimensions) / (dimensions * std::f64::consts::SQRT_2);
        let near = (root - 1.0) / (dimensions * std::f64::consts::SQRT_2);
        let mut corners = vec![start.to_vec()];
        for corner in 0..count {
            let moved = start.iter().enumerate();
            corners.push(moved.map(|(place, at)| at + if place == corner { far } else { near }).collect());
        }
        let values = corners.iter_mut().map(|corner| function(corner)).collect();
        let room = || vec![0.0; count];
        Self { corners, values, centre: room(), reflected: room(), tried: room() }
    }

    /// The place of the lowest corner, the first of several.
    fn lowest(&self) -> usize {
        (0..self.values.len()).fold(
            0,
            |lowest, place| {
                if self.values[place] < self.values[lowest] { place } else { lowest }
            },
        )
    }

    /// Turns the worst corner over, or draws the simplex together.
    pub fn step(&mut self, function: Function<'_>) {
        let values = &self.values;
        let places = 0..values.len();
        let highest = places.clone().fold(
            0,
            |highest, place| {
                if values[place] > values[highest] { place } else { highest }
            },
        );
        let lowest = self.lowest();
        let second = places.fold(lowest, |second, place| {
            let is_between = values[place] > values[second] && values[place] < values[highest];
            if is_between { place } else { second }
        });
        self.find_centre(highest);
        between(&mut self.reflected, &self.centre, REFLECTION, &self.centre, &self.corners[highest]);
        let reflected = function(&mut self.reflected);
        // Where all corners are at one height, what is the highest is the lowest too, and changes under its name.
        if reflected < self.values[second] && reflected >= self.values[lowest] {
            self.corners[highest].copy_from_slice(&self.reflected);
            self.values[highest] = reflected;
        }
        if reflected < self.values[lowest] {
            between(&mut self.tried, &self.centre, EXPANSION, &self.reflected, &self.centre);
            let expanded = function(&mut self.tried);
            let (corner, value) = match expanded < reflected {
                true => (&self.tried, expanded),
                false => (&self.reflected, reflected),
            };
            self.corners[highest].copy_from_slice(corner);
            self.values[highest] = value;
        }
        if reflected >= self.values[second] {
            let outside = reflected < self.values[highest];
            match outside {
                true => between(&mut self.tried, &self.centre, CONTRACTION, &self.reflected, &self.centre),
                false => {
                    between(
                        &mut self.tried,
                        &self.centre,
                        -CONTRACTION,
                        &self.centre,
                        &self.corners[highest],
                    );
                }
            }
            let contracted = function(&mut self.tried);
            if contracted < self.values[highest] {
                self.corners[highest].copy_from_slice(&self.tried);
                self.values[highest] = contracted;
            } else {
                self.shrink_to(lowest);
                self.values[highest] = function(&mut self.corners[highest]);
                self.values[second] = function(&mut self.corners[second]);
            }
        }
    }

    /// The centre of all corners but one.
    fn find_centre(&mut self, without: usize) {
        let count = self.centre.len() as f64;
        self.centre.fill(0.0);
        for (_, corner) in self.corners.iter().enumerate().filter(|(place, _)| *place != without) {
            self.centre.iter_mut().zip(corner).for_each(|(sum, at)| *sum += at);
        }
        self.centre.iter_mut().for_each(|sum| *sum /= count);
    }

    /// Halves the distance of all corners to one.
    fn shrink_to(&mut self, place: usize) {
        let (before, rest) = self.corners.split_at_mut(place);
        let (corner, after) = rest.split_first_mut().expect("a place of a corner");
        for other in before.iter_mut().chain(after) {
            other.iter_mut().zip(&*corner).for_each(|(at, to)| *at = to + (*at - to) / 2.0);
        }
    }

    /// How much the values at the corners differ.
    pub fn spread(&self) -> f64 {
        let count = self.values.len() as f64;
        let mean = self.values.iter().fold(0.0, |sum, value| sum + value) / count;
        let squares = self.values.iter().map(|value| (value - mean) * (value - mean) / (count - 1.0));
        squares.fold(0.0, |sum, square| sum + square).sqrt()
    }

    /// The lowest corner, and its value.
    pub fn best(mut self, function: Function<'_>) -> (f64, Vec<f64>) {
        let lowest = self.lowest();
        let parameters = self.corners[lowest].clone();
        (function(&mut self.corners[lowest]), parameters)
    }
}

/// From a point on by a part of the way between two.
fn between(result: &mut [f64], from: &[f64], part: f64, to: &[f64], away: &[f64]) {
    for (place, result) in result.iter_mut().enumerate() {
        *result = from[place] + part * (to[place] - away[place]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_finds_the_bottom_of_a_valley() {
        let mut valley = |at: &mut [f64]| {
            let (x, y) = (at[0], at[1]);
            100.0 * (y - x * x).powi(2) + (1.0 - x).powi(2)
        };
        let mut simplex = Simplex::new(&[-1.2, 1.0], &mut valley);
        for _ in 0..1000 {
            simplex.step(&mut valley);
            if simplex.spread() < 1e-9 {
                break;
            }
        }
        let (value, parameters) = simplex.best(&mut valley);
        assert!(value < 1e-6 && (parameters[0] - 1.0).abs() < 1e-3 && (parameters[1] - 1.0).abs() < 1e-3);
    }
}
