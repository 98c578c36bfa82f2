//! Holt-Winters' model in lanes: level, trend and season, each smoothed by a parameter, the trend damped.
//!
//! Each lane has its own parameters over the same values. It does the operations of the model in their order, so that no
//! result depends on the number of lanes. The model follows InfluxDB where that is peculiar: its season moves on by two,
//! and trying parameters changes them (they are clamped, and the season moves on).

#[cfg(target_arch = "x86_64")]
use nyala_column::{Avx512, Floats, Mask};

/// Positions of the parameters; those of the season follow.
const ALPHA: usize = 0;
const BETA: usize = 1;
const GAMMA: usize = 2;
const PHI: usize = 3;
/// The first level.
pub(super) const LEVEL: usize = 4;
/// The first trend.
pub(super) const TREND: usize = 5;
/// The first value of the season. A season has no value, or two at least.
pub(super) const SEASON: usize = 6;

/// Parameters by position, each of all lanes.
type Point<const L: usize> = [[f64; L]];

/// Powers that are kept; higher ones are computed from these and squares.
const POWERS_KEPT: usize = 256;

/// Powers of φ, by which the trend is damped.
///
/// A power is what repeated squaring gives, each product rounded. Each takes one multiplication: the power of a number
/// without its highest bit, times a square. InfluxDB holds exponents apart from fractions. That makes a difference only
/// below the smallest normal number, and such a power changes no sum that has φ in it.
pub(super) struct Damping<const L: usize> {
    /// φ, φ², φ⁴, …
    squares: Vec<[f64; L]>,
    powers: Vec<[f64; L]>,
}

impl<const L: usize> Damping<L> {
    /// For a model of `length` values, at least one.
    pub(super) fn new(length: usize) -> Self {
        let squares = vec![[0.0; L]; length.ilog2() as usize + 1];
        Self { squares, powers: vec![[1.0; L]; length.min(POWERS_KEPT)] }
    }

    #[inline(always)]
    fn restart(&mut self, phi: &[f64; L]) {
        let mut square = *phi;
        for kept in &mut self.squares {
            *kept = square;
            square.iter_mut().for_each(|square| *square *= *square);
        }
    }

    /// φ to the power of `step`. Callers go through the steps from the first one on.
    #[inline(always)]
    fn power(&mut self, step: usize) -> [f64; L] {
        if step >= POWERS_KEPT {
            let mut power = self.powers[step % POWERS_KEPT];
            for bit in bits(step / POWERS_KEPT * POWERS_KEPT) {
                power.iter_mut().zip(&self.squares[bit]).for_each(|(power, square)| *power *= square);
            }
            return power;
        }
        let highest = step.ilog2() as usize;
        let mut power = self.powers[step - (1 << highest)];
        power.iter_mut().zip(&self.squares[highest]).for_each(|(power, square)| *power *= square);
        self.powers[step] = power;
        power
    }
}

/// The bits of a number that are set, lowest first.
#[inline(always)]
pub(super) fn bits(mut number: usize) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (number != 0).then(|| number.trailing_zeros() as usize)?;
        number &= number - 1;
        Some(lowest)
    })
}

/// A position in the season.
struct SeasonCursor {
    length: usize,
    position: usize,
    phase: usize,
}

impl SeasonCursor {
    fn new(length: usize) -> Self {
        Self { length, position: 0, phase: 0 }
    }

    /// The value of the season that the next step divides by and updates, and the one it multiplies its result with.
    #[inline(always)]
    fn next(&mut self) -> (usize, usize) {
        let wrapped =
            |position: usize| if position >= self.length { position - self.length } else { position };
        let phase = wrapped(self.phase + 1);
        let positions = (self.position, wrapped(self.position + phase));
        // InfluxDB moves on by two.
        (self.position, self.phase) = (wrapped(self.position + 2), phase);
        positions
    }
}

/// Computes each value from the ones before, and gives those of each step after the first to `emit`. The parameters are
/// clamped, and the season moves on.
#[inline(always)]
fn run<const L: usize>(
    first: f64,
    length: usize,
    point: &mut Point<L>,
    damping: &mut Damping<L>,
    mut emit: impl FnMut(usize, &[f64; L]),
) {
    for parameter in &mut point[..LEVEL] {
        parameter.iter_mut().for_each(|value| *value = value.clamp(0.0, 1.0));
    }
    let (alpha, beta, gamma, phi) = (point[ALPHA], point[BETA], point[GAMMA], point[PHI]);
    let (mut level, mut trend, mut value) = (point[LEVEL], point[TREND], [first; L]);
    damping.restart(&phi);
    // φ + φ + φ² + φ³ + … up to the step.
    let mut reach = phi;
    let season = &mut point[SEASON..];
    let mut cursor = SeasonCursor::new(season.len());
    for step in 1..length {
        let damped: [f64; L] = std::array::from_fn(|lane| level[lane] + phi[lane] * trend[lane]);
        let (mut unseasoned, mut factor) = (value, None);
        if !season.is_empty() {
            let (this, next) = cursor.next();
            factor = Some(season[next]);
            let this = &mut season[this];
            for lane in 0..L {
                unseasoned[lane] = value[lane] / this[lane];
                this[lane] = gamma[lane] * (value[lane] / damped[lane]) + (1.0 - gamma[lane]) * this[lane];
            }
        }
        for lane in 0..L {
            let before = level[lane];
            level[lane] = alpha[lane] * unseasoned[lane] + (1.0 - alpha[lane]) * damped[lane];
            trend[lane] = beta[lane] * (level[lane] - before) + (1.0 - beta[lane]) * phi[lane] * trend[lane];
            value[lane] = level[lane] + reach[lane] * trend[lane];
        }
        if let Some(factor) = factor {
            value.iter_mut().zip(&factor).for_each(|(value, factor)| *value *= factor);
        }
        let power = damping.power(step);
        reach.iter_mut().zip(&power).for_each(|(reach, power)| *reach += power);
        emit(step, &value);
    }
}

/// The first `length` values of the model; `parameters` as [`Search`](super::simplex::Search) finds them.
pub(super) fn smoothed(first: f64, length: usize, parameters: &[f64]) -> Vec<f64> {
    let mut point: Vec<[f64; 1]> = parameters.iter().map(|parameter| [*parameter]).collect();
    let mut values = vec![first; length.min(1)];
    run(first, length, &mut point, &mut Damping::new(length.max(1)), |_, [value]| values.push(*value));
    values
}

/// What the first value adds to the sum of squared errors: the model begins with that very value.
fn first_error(values: &[f64]) -> f64 {
    if values[0].is_infinite() { f64::NAN } else { 0.0 }
}

/// The sums of squared errors; infinite where a value cannot be computed.
#[inline(always)]
pub(super) fn errors<const L: usize>(
    values: &[f64],
    point: &mut Point<L>,
    damping: &mut Damping<L>,
) -> [f64; L] {
    let (mut errors, mut impossible) = ([first_error(values); L], [0_u64; L]);
    run(
        values[0],
        values.len(),
        point,
        damping,
        #[inline(always)]
        |step, value| {
            let known = values[step];
            if !known.is_nan() {
                for lane in 0..L {
                    impossible[lane] |= u64::from(value[lane].is_nan());
                    errors[lane] += (value[lane] - known) * (value[lane] - known);
                }
            }
        },
    );
    for lane in 0..L {
        errors[lane] = if impossible[lane] == 0 { errors[lane] } else { f64::INFINITY };
    }
    errors
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn power(registers: Avx512, damping: &mut Damping<16>, step: usize) -> Floats {
    if step >= POWERS_KEPT {
        let mut power = registers.load(&damping.powers[step % POWERS_KEPT]);
        for bit in bits(step / POWERS_KEPT * POWERS_KEPT) {
            power = power * registers.load(&damping.squares[bit]);
        }
        return power;
    }
    let highest = step.ilog2() as usize;
    let power =
        registers.load(&damping.powers[step - (1 << highest)]) * registers.load(&damping.squares[highest]);
    power.store(&mut damping.powers[step]);
    power
}

/// What [`errors`] computes, in registers: the compiler would keep what a step needs of the one before in memory.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn errors_avx512(
    registers: Avx512,
    values: &[f64],
    point: &mut Point<16>,
    damping: &mut Damping<16>,
) -> [f64; 16] {
    for parameter in &mut point[..LEVEL] {
        registers.load(parameter).clamp_to_unit().store(parameter);
    }
    let (alpha, beta) = (registers.load(&point[ALPHA]), registers.load(&point[BETA]));
    let (gamma, phi) = (registers.load(&point[GAMMA]), registers.load(&point[PHI]));
    let (mut level, mut trend) = (registers.load(&point[LEVEL]), registers.load(&point[TREND]));
    let one = registers.splat(1.0);
    let (alpha_rest, beta_rest, gamma_rest) = (one - alpha, (one - beta) * phi, one - gamma);
    let (mut value, mut square, mut reach) = (registers.splat(values[0]), phi, phi);
    for kept in &mut damping.squares {
        square.store(kept);
        square = square * square;
    }
    let season = &mut point[SEASON..];
    let mut cursor = SeasonCursor::new(season.len());
    let (mut error, mut impossible) = (registers.splat(first_error(values)), Mask::default());
    for (step, known) in values.iter().enumerate().skip(1) {
        let (before, damped, shown) = (level, level + phi * trend, value);
        let positions = (!season.is_empty()).then(|| cursor.next());
        let factors =
            positions.map(|(this, next)| (registers.load(&season[this]), registers.load(&season[next])));
        // The division that the rest of the step waits for comes first.
        let unseasoned = if let Some((this, _)) = factors { value / this } else { value };
        level = alpha * unseasoned + alpha_rest * damped;
        trend = beta * (level - before) + beta_rest * trend;
        value = level + reach * trend;
        if let (Some((position, _)), Some((this, next))) = (positions, factors) {
            value = value * next;
            (gamma * (shown / damped) + gamma_rest * this).store(&mut season[position]);
        }
        reach = reach + power(registers, damping, step);
        if !known.is_nan() {
            let difference = value - registers.splat(*known);
            error = error + difference * difference;
            impossible |= value.unordered(value);
        }
    }
    let mut errors = [0.0; 16];
    error.replaced(impossible, registers.splat(f64::INFINITY)).store(&mut errors);
    errors
}
