//! The search for the parameters of Holt-Winters' model: the method of Nelder and Mead, with InfluxDB's steps to the last
//! digit.
//!
//! All simplexes of a search move side by side ([`simplexes`]). The steps of a model wait for each other and its divisions
//! take long, so sixteen models in lanes cost what one costs alone.

#[cfg(test)]
mod naive;
mod simplexes;

use super::smoothing;
#[cfg(target_arch = "x86_64")]
use nyala_column::Avx512;
use nyala_column::{CpuFeatures, Kernel};
use simplexes::{Ranks, Simplexes};

/// Simplexes of a search.
pub(super) const SIMPLEXES: usize = 16;
/// Simplexes that would take more memory side by side move one after the other.
const SIDE_BY_SIDE_BYTES_MAX: usize = 8 << 20;

/// Simplexes from several starts, and the best parameters that they have found.
pub(super) struct Search {
    values: Vec<f64>,
    simplexes: Width,
    /// The error, and the parameters.
    found: Option<(f64, Vec<f64>)>,
}

enum Width {
    SideBySide(Box<Simplexes<SIMPLEXES>>),
    /// The simplex that moves, and the starts of those that follow it.
    OneByOne(Box<Simplexes<1>>, std::vec::IntoIter<Vec<f64>>),
}

impl Search {
    /// Begins a search for the parameters that fit `values` best. These are at equal distances, at least one, and NaN where
    /// one is missing. Each start gives alpha, beta, gamma, phi, the first level, the first trend, and the first season:
    /// no value, or two at least.
    pub(super) fn new(values: Vec<f64>, starts: [Vec<f64>; SIMPLEXES]) -> Self {
        let (length, count) = (values.len(), starts[0].len());
        let simplexes = if Simplexes::<SIMPLEXES>::bytes(length, count) <= SIDE_BY_SIDE_BYTES_MAX {
            Width::SideBySide(Box::new(Simplexes::new(length, &starts)))
        } else {
            let mut starts = starts.into_iter().collect::<Vec<_>>().into_iter();
            let first = starts.next().expect("a search has starts");
            Width::OneByOne(Box::new(Simplexes::new(length, &[first])), starts)
        };
        Self { values, simplexes, found: None }
    }

    /// About how many bytes of memory a search takes.
    pub(super) fn bytes(length: usize, count: usize) -> usize {
        let of_one = Simplexes::<1>::bytes(length, count);
        of_one.max(Simplexes::<SIMPLEXES>::bytes(length, count).min(SIDE_BY_SIDE_BYTES_MAX))
    }

    /// Goes on with the search for about `points` values of the model. Gives the parameters at the end.
    pub(super) fn advance(&mut self, level: CpuFeatures, points: usize) -> Option<&[f64]> {
        let is_unfinished = match &mut self.simplexes {
            Width::SideBySide(simplexes) => level.run(Advance { simplexes, values: &self.values, points }),
            Width::OneByOne(simplexes, _) => level.run(Advance { simplexes, values: &self.values, points }),
        };
        if is_unfinished {
            return None;
        }
        match &mut self.simplexes {
            Width::SideBySide(simplexes) => keep_best(&mut self.found, simplexes),
            Width::OneByOne(simplexes, starts) => {
                keep_best(&mut self.found, simplexes);
                if let Some(start) = starts.next() {
                    **simplexes = Simplexes::new(self.values.len(), &[start]);
                    return None;
                }
            }
        }
        self.found.as_ref().map(|(_, parameters)| parameters.as_slice())
    }
}

/// Keeps the parameters with the least error, the first of equals.
fn keep_best<const L: usize>(best: &mut Option<(f64, Vec<f64>)>, simplexes: &Simplexes<L>) {
    for (error, parameters) in simplexes.found() {
        if best.as_ref().is_none_or(|(least, _)| error < *least) {
            *best = Some((error, parameters.to_vec()));
        }
    }
}

struct Advance<'a, const L: usize> {
    simplexes: &'a mut Simplexes<L>,
    values: &'a [f64],
    points: usize,
}

impl<const L: usize> Advance<'_, L> {
    /// Says whether there is more to do.
    #[inline(always)]
    fn run_with(
        self,
        errors: impl Fn(&[f64], &mut Simplexes<L>) -> [f64; L],
        ranked: impl Fn(&Simplexes<L>) -> Ranks<L> + Copy,
    ) -> bool {
        for _ in 0..self.points.div_ceil(self.simplexes.points_at_once()) {
            let errors = errors(self.values, self.simplexes);
            if !self.simplexes.advance(&errors, ranked) {
                return false;
            }
        }
        true
    }

    #[inline(always)]
    fn run_portable(self) -> bool {
        self.run_with(
            #[inline(always)]
            |values, simplexes| smoothing::errors(values, &mut simplexes.point, &mut simplexes.damping),
            #[inline(always)]
            |simplexes| simplexes.ranked(),
        )
    }
}

impl Kernel for Advance<'_, 1> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        self.run_portable()
    }
}

impl Kernel for Advance<'_, SIMPLEXES> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        self.run_portable()
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn run_avx512(self, registers: Avx512) -> bool {
        self.run_with(
            #[inline(always)]
            |values, simplexes| {
                smoothing::errors_avx512(registers, values, &mut simplexes.point, &mut simplexes.damping)
            },
            #[inline(always)]
            |simplexes| ranked_avx512(registers, &simplexes.errors),
        )
    }
}

/// What [`Simplexes::ranked`] gives, in registers.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn ranked_avx512(registers: Avx512, errors: &[[f64; SIMPLEXES]]) -> Ranks<SIMPLEXES> {
    // Numbers of vertices are kept as the bits of floats, with which nothing is computed.
    let zero = registers.splat(0.0);
    let (mut high, mut low) = (registers.load(&errors[0]), registers.load(&errors[0]));
    let (mut highest, mut lowest) = (zero, zero);
    for (vertex, error) in (0..).zip(errors) {
        let (vertex, error) = (registers.splat(f64::from_bits(vertex)), registers.load(error));
        let (is_higher, is_lower) = (error.greater(high), error.less(low));
        (high, highest) = (high.replaced(is_higher, error), highest.replaced(is_higher, vertex));
        (low, lowest) = (low.replaced(is_lower, error), lowest.replaced(is_lower, vertex));
    }
    let (mut second, mut middle) = (lowest, low);
    for (vertex, error) in (0..).zip(errors) {
        let (vertex, error) = (registers.splat(f64::from_bits(vertex)), registers.load(error));
        let is_between = error.greater(middle) & error.less(high);
        (middle, second) = (middle.replaced(is_between, error), second.replaced(is_between, vertex));
    }
    let mut ranks = Ranks { highest: [0; SIMPLEXES], second: [0; SIMPLEXES], lowest: [0; SIMPLEXES] };
    highest.store_bits(&mut ranks.highest);
    second.store_bits(&mut ranks.second);
    lowest.store_bits(&mut ranks.lowest);
    ranks
}

#[cfg(test)]
mod tests {
    use super::naive::naive_search;
    use super::*;

    /// Values with a season and noise, some of them missing.
    fn values(seed: u64, length: usize, missing: u64) -> Vec<f64> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let value = |step: usize| {
            let noise = (random() % 1000) as f64 / 100.0;
            let is_missing = step > 0 && missing > 0 && random() % missing == 0;
            if is_missing { f64::NAN } else { 50.0 + 20.0 * (step as f64).sin() + step as f64 / 7.0 + noise }
        };
        (0..length).map(value).collect()
    }

    fn starts(values: &[f64], season: usize) -> [Vec<f64>; SIMPLEXES] {
        std::array::from_fn(|guess| {
            let guesses = (0..4).map(|bit| [0.3, 0.7][guess >> bit & 1]);
            let first = [values[0], (values[values.len() - 1] - values[0]) / values.len() as f64];
            let season = (0..season).map(|place| values[place % values.len()] / values[0]);
            guesses.chain(first).chain(season).collect()
        })
    }

    fn searched(level: CpuFeatures, mut search: Search) -> Vec<u64> {
        loop {
            if let Some(parameters) = search.advance(level, 1 << 10) {
                return bits_of(parameters);
            }
        }
    }

    fn bits_of(parameters: &[f64]) -> Vec<u64> {
        parameters.iter().map(|parameter| if parameter.is_nan() { 0 } else { parameter.to_bits() }).collect()
    }

    fn check(values: &[f64], season: usize) {
        let starts = starts(values, season);
        let expected = bits_of(&naive_search(values, &starts));
        for level in CpuFeatures::available() {
            let search = Search::new(values.to_vec(), starts.clone());
            assert!(matches!(search.simplexes, Width::SideBySide(_)));
            assert_eq!(searched(level, search), expected, "{level:?} {season} {values:?}");
            let mut all = starts.clone().into_iter().collect::<Vec<_>>().into_iter();
            let first = Simplexes::new(values.len(), &[all.next().unwrap()]);
            let simplexes = Width::OneByOne(Box::new(first), all);
            let search = Search { values: values.to_vec(), simplexes, found: None };
            assert_eq!(searched(level, search), expected, "{level:?} {season} {values:?}");
        }
    }

    #[test]
    fn lanes_find_what_one_simplex_after_the_other_finds() {
        let kinds =
            [(24, 4, 0), (24, 0, 5), (7, 2, 0), (2, 0, 0), (13, 3, 5), (20, 9, 0), (5, 8, 3), (260, 2, 0)];
        for (seed, (length, season, missing)) in (1..).zip(kinds) {
            check(&values(seed, length, missing), season);
        }
    }

    #[test]
    fn a_search_ends_when_errors_cannot_be_computed() {
        for value in [0.0, 7.0, 1e308, f64::INFINITY, f64::NAN, 5e-324] {
            check(&[value; 9], 0);
            check(&[value; 9], 3);
            check(&[1.0, value, 2.0, value, -3.0, 0.0], 2);
        }
    }

    #[test]
    fn long_seasons_are_searched_one_by_one() {
        let values = values(1, 40, 0);
        let search = Search::new(values.clone(), starts(&values, 300));
        assert!(matches!(search.simplexes, Width::OneByOne(..)));
        assert!(Search::bytes(40, 306) >= Simplexes::<1>::bytes(40, 306));
    }
}
