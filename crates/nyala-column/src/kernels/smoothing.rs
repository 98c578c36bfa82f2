//! Holt-Winters' model in lanes: level, trend and season, each smoothed by a parameter, the trend damped.
//!
//! Each lane has parameters of its own over the same values and does the very operations of the model in their order, so
//! that no result depends on how many lanes there are. The model is InfluxDB's where that is peculiar: its season moves
//! on by two, and trying parameters changes them (they are brought within bounds, and the season moves on).

/// Places of the parameters, before those of the season.
const ALPHA: usize = 0;
const BETA: usize = 1;
const GAMMA: usize = 2;
const PHI: usize = 3;
/// The first level.
pub(crate) const LEVEL: usize = 4;
const TREND: usize = 5;
/// The first value of the season; there are as many as it has, none or two at least.
pub(crate) const SEASON: usize = 6;

/// Parameters by place, each of all lanes.
pub(crate) type Point<const L: usize> = [[f64; L]];

/// Powers that are kept; those beyond are made from them and squares.
const KEPT: usize = 256;

/// How far a damped trend reaches: φ + φ + φ² + φ³ + … up to a step.
///
/// A power is what repeated squaring gives, each product rounded. All of them are made of squares with one
/// multiplication each, because that of a number is that of the number without its highest bit, times a square. InfluxDB
/// keeps powers of two apart, which makes a difference only below the smallest normal number, and such a power changes no
/// sum that has φ in it.
pub(crate) struct Damping<const L: usize> {
    /// φ, φ², φ⁴, …
    squares: Vec<[f64; L]>,
    powers: Vec<[f64; L]>,
}

impl<const L: usize> Damping<L> {
    /// For so many values, of which there are some.
    pub(crate) fn new(length: usize) -> Self {
        let squares = vec![[0.0; L]; length.ilog2() as usize + 1];
        Self { squares, powers: vec![[1.0; L]; length.min(KEPT)] }
    }

    #[inline(always)]
    fn restart(&mut self, phi: &[f64; L]) {
        let mut square = *phi;
        for kept in &mut self.squares {
            *kept = square;
            square.iter_mut().for_each(|square| *square *= *square);
        }
    }

    /// φ to the power of a step; they are asked for one after the other from the first on.
    #[inline(always)]
    fn power(&mut self, step: usize) -> [f64; L] {
        if step >= KEPT {
            let mut power = self.powers[step % KEPT];
            for bit in bits(step / KEPT * KEPT) {
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

/// Which values of the season a step takes and leaves, and which it is shown with.
struct Places {
    season: usize,
    place: usize,
    phase: usize,
}

impl Places {
    #[inline(always)]
    fn next(&mut self) -> (usize, usize) {
        let within = |place: usize| if place >= self.season { place - self.season } else { place };
        let phase = within(self.phase + 1);
        let taken = (self.place, within(self.place + phase));
        // InfluxDB moves on by two.
        (self.place, self.phase) = (within(self.place + 2), phase);
        taken
    }
}

/// Computes value after value, each from the ones before, and shows those of each step after the first. The parameters
/// are brought within bounds, and the season moves on.
#[inline(always)]
fn run<const L: usize>(
    first: f64,
    length: usize,
    point: &mut Point<L>,
    damping: &mut Damping<L>,
    mut show: impl FnMut(usize, &[f64; L]),
) {
    for parameter in &mut point[..LEVEL] {
        parameter.iter_mut().for_each(|value| *value = value.clamp(0.0, 1.0));
    }
    let (alpha, beta, gamma, phi) = (point[ALPHA], point[BETA], point[GAMMA], point[PHI]);
    let (mut level, mut trend, mut value) = (point[LEVEL], point[TREND], [first; L]);
    damping.restart(&phi);
    let mut ahead = phi;
    let seasons = &mut point[SEASON..];
    let mut places = Places { season: seasons.len(), place: 0, phase: 0 };
    for step in 1..length {
        let taken = (!seasons.is_empty()).then(|| places.next());
        let next = taken.map(|(_, next)| seasons[next]);
        let mut this = taken.map(|(place, _)| &mut seasons[place]);
        for lane in 0..L {
            let (before, damped) = (level[lane], level[lane] + phi[lane] * trend[lane]);
            let mut known = value[lane];
            if let Some(this) = &mut this {
                known = value[lane] / this[lane];
                this[lane] = gamma[lane] * (value[lane] / damped) + (1.0 - gamma[lane]) * this[lane];
            }
            level[lane] = alpha[lane] * known + (1.0 - alpha[lane]) * damped;
            trend[lane] = beta[lane] * (level[lane] - before) + (1.0 - beta[lane]) * phi[lane] * trend[lane];
            value[lane] = level[lane] + ahead[lane] * trend[lane];
            if let Some(next) = &next {
                value[lane] *= next[lane];
            }
        }
        let power = damping.power(step);
        ahead.iter_mut().zip(&power).for_each(|(ahead, power)| *ahead += power);
        show(step, &value);
    }
}

/// The values of the model for some steps from the first value on; `parameters` as [`super::Search`] finds them.
pub fn smoothed(first: f64, length: usize, parameters: &[f64]) -> Vec<f64> {
    let mut point: Vec<[f64; 1]> = parameters.iter().map(|parameter| [*parameter]).collect();
    let mut values = vec![first; length.min(1)];
    run(first, length, &mut point, &mut Damping::new(length.max(1)), |_, [value]| values.push(*value));
    values
}

/// What the first value adds to the sum of squared errors: it is what the model begins with.
fn first_error(values: &[f64]) -> f64 {
    if values[0].is_infinite() { f64::NAN } else { 0.0 }
}

/// The sums of squared errors; infinite where some value cannot be computed.
#[inline(always)]
pub(crate) fn errors<const L: usize>(
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

/// Two registers by hand: what a step needs of the one before stays in them, and one waits while the other divides.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "loads and stores of arrays, see SAFETY")]
pub(crate) mod x86 {
    use std::arch::x86_64::*;

    use super::{
        ALPHA, BETA, Damping, GAMMA, KEPT, LEVEL, PHI, Places, Point, SEASON, TREND, bits, first_error,
    };

    /// Sixteen lanes.
    #[derive(Clone, Copy)]
    struct Lanes(__m512d, __m512d);

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn load(from: &[f64; 16]) -> Lanes {
        // SAFETY: sixteen floats.
        unsafe { Lanes(_mm512_loadu_pd(from.as_ptr()), _mm512_loadu_pd(from.as_ptr().add(8))) }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn store(Lanes(low, high): Lanes, to: &mut [f64; 16]) {
        // SAFETY: sixteen floats.
        unsafe {
            _mm512_storeu_pd(to.as_mut_ptr(), low);
            _mm512_storeu_pd(to.as_mut_ptr().add(8), high);
        }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn all(value: f64) -> Lanes {
        Lanes(_mm512_set1_pd(value), _mm512_set1_pd(value))
    }

    macro_rules! operations {
        ($($name:ident = $operation:ident;)*) => {$(
            #[target_feature(enable = "avx512f")]
            #[inline]
            fn $name(a: Lanes, b: Lanes) -> Lanes {
                Lanes($operation(a.0, b.0), $operation(a.1, b.1))
            }
        )*};
    }

    operations! {
        plus = _mm512_add_pd;
        minus = _mm512_sub_pd;
        times = _mm512_mul_pd;
        over = _mm512_div_pd;
        // Of something that is no number, and of two zeros, these give the second.
        least = _mm512_min_pd;
        most = _mm512_max_pd;
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn power(damping: &mut Damping<16>, step: usize) -> Lanes {
        if step >= KEPT {
            let mut power = load(&damping.powers[step % KEPT]);
            for bit in bits(step / KEPT * KEPT) {
                power = times(power, load(&damping.squares[bit]));
            }
            return power;
        }
        let highest = step.ilog2() as usize;
        let power = times(load(&damping.powers[step - (1 << highest)]), load(&damping.squares[highest]));
        store(power, &mut damping.powers[step]);
        power
    }

    /// What [`super::errors`] does.
    #[target_feature(enable = "avx512f")]
    pub(crate) fn errors(values: &[f64], point: &mut Point<16>, damping: &mut Damping<16>) -> [f64; 16] {
        let one = all(1.0);
        for parameter in &mut point[..LEVEL] {
            store(least(one, most(all(0.0), load(parameter))), parameter);
        }
        let (alpha, beta, gamma) = (load(&point[ALPHA]), load(&point[BETA]), load(&point[GAMMA]));
        let phi = load(&point[PHI]);
        let (alpha_rest, beta_rest, gamma_rest) =
            (minus(one, alpha), times(minus(one, beta), phi), minus(one, gamma));
        let (mut level, mut trend, mut value) = (load(&point[LEVEL]), load(&point[TREND]), all(values[0]));
        let mut square = phi;
        for kept in &mut damping.squares {
            store(square, kept);
            square = times(square, square);
        }
        let mut ahead = phi;
        let seasons = &mut point[SEASON..];
        let mut places = Places { season: seasons.len(), place: 0, phase: 0 };
        let (mut error, mut impossible) = (all(first_error(values)), (0, 0));
        for (step, known) in values.iter().enumerate().skip(1) {
            let (before, damped) = (level, plus(level, times(phi, trend)));
            let step_on = |value: Lanes| {
                let level = plus(times(alpha, value), times(alpha_rest, damped));
                let trend = plus(times(beta, minus(level, before)), times(beta_rest, trend));
                (level, trend, plus(level, times(ahead, trend)))
            };
            if seasons.is_empty() {
                (level, trend, value) = step_on(value);
            } else {
                let (place, next) = places.next();
                let (this, next) = (load(&seasons[place]), load(&seasons[next]));
                // The division that the next step waits for comes first.
                let (of_season, shown) = (over(value, this), value);
                (level, trend, value) = step_on(of_season);
                value = times(value, next);
                let moved = plus(times(gamma, over(shown, damped)), times(gamma_rest, this));
                store(moved, &mut seasons[place]);
            }
            ahead = plus(ahead, power(damping, step));
            if !known.is_nan() {
                let away = minus(value, all(*known));
                error = plus(error, times(away, away));
                impossible.0 |= _mm512_cmp_pd_mask::<_CMP_UNORD_Q>(value.0, value.0);
                impossible.1 |= _mm512_cmp_pd_mask::<_CMP_UNORD_Q>(value.1, value.1);
            }
        }
        let infinite = _mm512_set1_pd(f64::INFINITY);
        let low = _mm512_mask_mov_pd(error.0, impossible.0, infinite);
        let high = _mm512_mask_mov_pd(error.1, impossible.1, infinite);
        let mut errors = [0.0; 16];
        store(Lanes(low, high), &mut errors);
        errors
    }
}
