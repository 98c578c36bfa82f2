//! The naive twin of the search: one simplex after the other, one model after the other, every power computed from φ.

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

/// A power by repeated squaring, exponents apart from fractions.
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
    let (mut value, mut reach) = (values[0], phi);
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
            value = (level + reach * trend) * next;
        } else {
            level = alpha * value + (1.0 - alpha) * damped;
            trend = beta * (level - before) + (1.0 - beta) * phi * trend;
            value = level + reach * trend;
        }
        reach += power(phi, step);
        if !known.is_nan() {
            impossible |= value.is_nan();
            error += (value - known) * (value - known);
        }
    }
    if impossible { f64::INFINITY } else { error }
}

/// A simplex: one vertex more than there are parameters.
struct Simplex<'a> {
    values: &'a [f64],
    vertices: Vec<Vec<f64>>,
    errors: Vec<f64>,
    centroid: Vec<f64>,
    reflected: Vec<f64>,
    tried: Vec<f64>,
}

impl<'a> Simplex<'a> {
    /// A regular simplex with sides of one, and one vertex at `start`.
    fn new(start: &[f64], values: &'a [f64]) -> Self {
        let count = start.len();
        let (dimensions, root) = (count as f64, ((count + 1) as f64).sqrt());
        let far = (root - 1.0 + dimensions) / (dimensions * std::f64::consts::SQRT_2);
        let near = (root - 1.0) / (dimensions * std::f64::consts::SQRT_2);
        let mut vertices = vec![start.to_vec()];
        for vertex in 0..count {
            let moved = start.iter().enumerate();
            vertices.push(moved.map(|(place, at)| at + if place == vertex { far } else { near }).collect());
        }
        let errors = vertices.iter_mut().map(|vertex| error(values, vertex)).collect();
        let room = || vec![0.0; count];
        Self { values, vertices, errors, centroid: room(), reflected: room(), tried: room() }
    }

    /// The number of the vertex with the least error, of equal ones the first.
    fn lowest(&self) -> usize {
        (0..self.errors.len())
            .fold(0, |lowest, place| if self.errors[place] < self.errors[lowest] { place } else { lowest })
    }

    /// Reflects the worst vertex, or shrinks the simplex.
    fn step(&mut self) {
        let values = &self.errors;
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
        self.find_centroid(highest);
        between(&mut self.reflected, &self.centroid, 1.0, &self.centroid, &self.vertices[highest]);
        let reflected = error(self.values, &mut self.reflected);
        // If all errors are equal, the highest vertex is the lowest too, which has just changed.
        if reflected < self.errors[second] && reflected >= self.errors[lowest] {
            self.vertices[highest].copy_from_slice(&self.reflected);
            self.errors[highest] = reflected;
        }
        if reflected < self.errors[lowest] {
            between(&mut self.tried, &self.centroid, 2.0, &self.reflected, &self.centroid);
            let expanded = error(self.values, &mut self.tried);
            let (vertex, value) = match expanded < reflected {
                true => (&self.tried, expanded),
                false => (&self.reflected, reflected),
            };
            self.vertices[highest].copy_from_slice(vertex);
            self.errors[highest] = value;
        }
        if reflected >= self.errors[second] {
            let outside = reflected < self.errors[highest];
            match outside {
                true => between(&mut self.tried, &self.centroid, 0.5, &self.reflected, &self.centroid),
                false => {
                    between(&mut self.tried, &self.centroid, -0.5, &self.centroid, &self.vertices[highest]);
                }
            }
            let contracted = error(self.values, &mut self.tried);
            if contracted < self.errors[highest] {
                self.vertices[highest].copy_from_slice(&self.tried);
                self.errors[highest] = contracted;
            } else {
                self.shrink_to(lowest);
                self.errors[highest] = error(self.values, &mut self.vertices[highest]);
                self.errors[second] = error(self.values, &mut self.vertices[second]);
            }
        }
    }

    /// The centroid of all vertices but one.
    fn find_centroid(&mut self, without: usize) {
        let count = self.centroid.len() as f64;
        self.centroid.fill(0.0);
        for (_, vertex) in self.vertices.iter().enumerate().filter(|(place, _)| *place != without) {
            self.centroid.iter_mut().zip(vertex).for_each(|(sum, at)| *sum += at);
        }
        self.centroid.iter_mut().for_each(|sum| *sum /= count);
    }

    /// Halves the distance of all vertices to one.
    fn shrink_to(&mut self, place: usize) {
        let (before, rest) = self.vertices.split_at_mut(place);
        let (vertex, after) = rest.split_first_mut().expect("a place of a vertex");
        for other in before.iter_mut().chain(after) {
            other.iter_mut().zip(&*vertex).for_each(|(at, to)| *at = to + (*at - to) / 2.0);
        }
    }

    /// The standard deviation of the errors at the vertices.
    fn spread(&self) -> f64 {
        let count = self.errors.len() as f64;
        let mean = self.errors.iter().fold(0.0, |sum, value| sum + value) / count;
        let squares = self.errors.iter().map(|value| (value - mean) * (value - mean) / (count - 1.0));
        squares.fold(0.0, |sum, square| sum + square).sqrt()
    }

    /// The vertex with the least error, and its error.
    fn best(mut self) -> (f64, Vec<f64>) {
        let lowest = self.lowest();
        let parameters = self.vertices[lowest].clone();
        (error(self.values, &mut self.vertices[lowest]), parameters)
    }
}

/// The point that lies `part` of the way from `away` to `to` beyond `from`.
fn between(result: &mut [f64], from: &[f64], part: f64, to: &[f64], away: &[f64]) {
    for (place, result) in result.iter_mut().enumerate() {
        *result = from[place] + part * (to[place] - away[place]);
    }
}
