//! The twin of the search: one simplex after the other, one model after the other, and every power from its start.

/// The parameters that fit best.
pub(super) fn naive_search(values: &[f64], starts: &[Vec<f64>]) -> Vec<f64> {
    let mut found: Option<(f64, Vec<f64>)> = None;
    for start in starts {
        let mut simplex = Simplex::new(start, values);
        for _ in 0..1000 {
            simplex.step();
            if simplex.spread() < 1e-4 {
                break;
            }
        }
        let (error, parameters) = simplex.best();
        if found.as_ref().is_none_or(|(least, _)| error < *least) {
            found = Some((error, parameters));
        }
    }
    found.unwrap().1
}

/// A power by repeated squaring, powers of two apart.
fn power(base: f64, mut exponent: usize) -> f64 {
    if base == 0.0 || base == 1.0 || base.is_nan() {
        return if exponent == 0 { 1.0 } else { base };
    }
    let split = |x: f64| {
        let (x, shift) = if x < f64::MIN_POSITIVE { (x * 2.0_f64.powi(60), -60) } else { (x, 0) };
        let exponent = (x.to_bits() >> 52) as i64 - 1022;
        (f64::from_bits(x.to_bits() & !(0x7ff << 52) | 1022 << 52), exponent + shift)
    };
    let ((mut square, mut square_exponent), mut value, mut value_exponent) = (split(base), 1.0, 0);
    while exponent > 0 {
        if exponent & 1 == 1 {
            value *= square;
            value_exponent += square_exponent;
        }
        square *= square;
        square_exponent *= 2;
        if square < 0.5 {
            square *= 2.0;
            square_exponent -= 1;
        }
        exponent >>= 1;
    }
    let (value, more) = split(value);
    match value_exponent + more {
        exponent if exponent < -1100 => 0.0,
        exponent => {
            value * 2.0_f64.powi(exponent as i32 / 2) * 2.0_f64.powi(exponent as i32 - exponent as i32 / 2)
        }
    }
}

/// The sum of squared errors. Changes the parameters.
fn error(values: &[f64], parameters: &mut [f64]) -> f64 {
    for parameter in &mut parameters[..4] {
        *parameter = parameter.clamp(0.0, 1.0);
    }
    let [alpha, beta, gamma, phi] = *parameters[..4].as_array().unwrap();
    let (mut level, mut trend) = (parameters[4], parameters[5]);
    let seasons = &mut parameters[6..];
    let season = seasons.len();
    let (mut value, mut ahead) = (values[0], phi);
    let first =
        values.iter().take(1).filter(|known| !known.is_nan()).map(|known| (value - known) * (value - known));
    let (mut error, mut impossible) = (first.sum::<f64>(), false);
    for (step, known) in values.iter().enumerate().skip(1) {
        let (before, damped) = (level, level + phi * trend);
        if season > 0 {
            let place = 2 * (step - 1) % season;
            let (this, next) = (seasons[place], seasons[(place + step % season) % season]);
            level = alpha * (value / this) + (1.0 - alpha) * damped;
            trend = beta * (level - before) + (1.0 - beta) * phi * trend;
            seasons[place] = gamma * (value / damped) + (1.0 - gamma) * this;
            value = (level + ahead * trend) * next;
        } else {
            level = alpha * value + (1.0 - alpha) * damped;
            trend = beta * (level - before) + (1.0 - beta) * phi * trend;
            value = level + ahead * trend;
        }
        ahead += power(phi, step);
        if !known.is_nan() {
            impossible |= value.is_nan();
            error += (value - known) * (value - known);
        }
    }
    if impossible { f64::INFINITY } else { error }
}

/// A simplex: one corner more than there are parameters.
struct Simplex<'a> {
    values: &'a [f64],
    corners: Vec<Vec<f64>>,
    heights: Vec<f64>,
    centre: Vec<f64>,
    reflected: Vec<f64>,
    tried: Vec<f64>,
}

impl<'a> Simplex<'a> {
    /// A regular simplex with sides of one, and one corner at `start`.
    fn new(start: &[f64], values: &'a [f64]) -> Self {
        let count = start.len();
        let (dimensions, root) = (count as f64, ((count + 1) as f64).sqrt());
        let far = (root - 1.0 + dimensions) / (dimensions * std::f64::consts::SQRT_2);
        let near = (root - 1.0) / (dimensions * std::f64::consts::SQRT_2);
        let mut corners = vec![start.to_vec()];
        for corner in 0..count {
            let moved = start.iter().enumerate();
            corners.push(moved.map(|(place, at)| at + if place == corner { far } else { near }).collect());
        }
        let heights = corners.iter_mut().map(|corner| error(values, corner)).collect();
        let room = || vec![0.0; count];
        Self { values, corners, heights, centre: room(), reflected: room(), tried: room() }
    }

    /// The place of the lowest corner, the first of several.
    fn lowest(&self) -> usize {
        (0..self.heights.len())
            .fold(0, |lowest, place| if self.heights[place] < self.heights[lowest] { place } else { lowest })
    }

    /// Turns the worst corner over, or draws the simplex together.
    fn step(&mut self) {
        let values = &self.heights;
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
        between(&mut self.reflected, &self.centre, 1.0, &self.centre, &self.corners[highest]);
        let reflected = error(self.values, &mut self.reflected);
        // Where all corners are at one height, what is the highest is the lowest too, and changes under its name.
        if reflected < self.heights[second] && reflected >= self.heights[lowest] {
            self.corners[highest].copy_from_slice(&self.reflected);
            self.heights[highest] = reflected;
        }
        if reflected < self.heights[lowest] {
            between(&mut self.tried, &self.centre, 2.0, &self.reflected, &self.centre);
            let expanded = error(self.values, &mut self.tried);
            let (corner, value) = match expanded < reflected {
                true => (&self.tried, expanded),
                false => (&self.reflected, reflected),
            };
            self.corners[highest].copy_from_slice(corner);
            self.heights[highest] = value;
        }
        if reflected >= self.heights[second] {
            let outside = reflected < self.heights[highest];
            match outside {
                true => between(&mut self.tried, &self.centre, 0.5, &self.reflected, &self.centre),
                false => {
                    between(&mut self.tried, &self.centre, -0.5, &self.centre, &self.corners[highest]);
                }
            }
            let contracted = error(self.values, &mut self.tried);
            if contracted < self.heights[highest] {
                self.corners[highest].copy_from_slice(&self.tried);
                self.heights[highest] = contracted;
            } else {
                self.shrink_to(lowest);
                self.heights[highest] = error(self.values, &mut self.corners[highest]);
                self.heights[second] = error(self.values, &mut self.corners[second]);
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
    fn spread(&self) -> f64 {
        let count = self.heights.len() as f64;
        let mean = self.heights.iter().fold(0.0, |sum, value| sum + value) / count;
        let squares = self.heights.iter().map(|value| (value - mean) * (value - mean) / (count - 1.0));
        squares.fold(0.0, |sum, square| sum + square).sqrt()
    }

    /// The lowest corner, and its value.
    fn best(mut self) -> (f64, Vec<f64>) {
        let lowest = self.lowest();
        let parameters = self.corners[lowest].clone();
        (error(self.values, &mut self.corners[lowest]), parameters)
    }
}

/// From a point on by a part of the way between two.
fn between(result: &mut [f64], from: &[f64], part: f64, to: &[f64], away: &[f64]) {
    for (place, result) in result.iter_mut().enumerate() {
        *result = from[place] + part * (to[place] - away[place]);
    }
}
