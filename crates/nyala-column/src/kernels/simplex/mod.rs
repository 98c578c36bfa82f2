//! The search for the parameters of Holt-Winters' model: simplexes of Nelder and Mead that walk downhill on its errors,
//! by turning their worst corners over. How they walk is InfluxDB's way to the last digit.
//!
//! All simplexes of a search walk side by side ([`walks`]), because a model's steps wait for each other and its divisions
//! take long: in lanes they cost what one costs alone.

#[cfg(test)]
mod naive;
mod walks;

use super::smoothing;
use crate::level::{Feature, Level, dispatched};
use walks::{Rank, Walks};

/// Simplexes of a search.
pub const WALKS: usize = 16;
/// Beyond this they walk one after the other.
const BYTES_MAX: usize = 8 << 20;

/// Simplexes from several starts, and the lowest place that they have found.
pub struct Search {
    values: Vec<f64>,
    walks: Width,
    /// The error, and the parameters.
    found: Option<(f64, Vec<f64>)>,
}

enum Width {
    SideBySide(Box<Walks<WALKS>>),
    /// The one that walks, and where those begin that follow.
    OneByOne(Box<Walks<1>>, std::vec::IntoIter<Vec<f64>>),
}

impl Search {
    /// Begins a search for the parameters that fit values at equal distances, at least one of them, best; those that are
    /// missing are not numbers. Each start gives alpha, beta, gamma, phi, the first level, the first trend, and the
    /// first season: no value, or two at least.
    pub fn new(values: Vec<f64>, starts: [Vec<f64>; WALKS]) -> Self {
        let (length, count) = (values.len(), starts[0].len());
        let walks = if Walks::<WALKS>::bytes(length, count) <= BYTES_MAX {
            Width::SideBySide(Box::new(Walks::new(length, &starts)))
        } else {
            let mut starts = starts.into_iter().collect::<Vec<_>>().into_iter();
            let first = starts.next().expect("a search has starts");
            Width::OneByOne(Box::new(Walks::new(length, &[first])), starts)
        };
        Self { values, walks, found: None }
    }

    /// What a search takes in memory, bytes, about.
    pub fn bytes(length: usize, count: usize) -> usize {
        let of_one = Walks::<1>::bytes(length, count);
        of_one.max(Walks::<WALKS>::bytes(length, count).min(BYTES_MAX))
    }

    /// Searches on, for about so many values of the model, and gives what was found in the end: the parameters.
    pub fn advance(&mut self, level: Level, points: usize) -> Option<&[f64]> {
        let goes_on = match &mut self.walks {
            Width::SideBySide(walks) => advance_side_by_side(level, walks, &self.values, points),
            Width::OneByOne(walks, _) => advance_one(level, walks, &self.values, points),
        };
        if goes_on {
            return None;
        }
        match &mut self.walks {
            Width::SideBySide(walks) => keep_lowest(&mut self.found, walks),
            Width::OneByOne(walks, starts) => {
                keep_lowest(&mut self.found, walks);
                if let Some(start) = starts.next() {
                    **walks = Walks::new(self.values.len(), &[start]);
                    return None;
                }
            }
        }
        self.found.as_ref().map(|(_, parameters)| parameters.as_slice())
    }
}

/// The first of the lowest is kept.
fn keep_lowest<const L: usize>(lowest: &mut Option<(f64, Vec<f64>)>, walks: &Walks<L>) {
    for (error, parameters) in walks.found() {
        if lowest.as_ref().is_none_or(|(least, _)| error < *least) {
            *lowest = Some((error, parameters.to_vec()));
        }
    }
}

dispatched! {
    fn advance_one(walks: &mut Walks<1>, values: &[f64], points: usize) -> bool = advance_body::<1>;

    fn advance_by_level(walks: &mut Walks<WALKS>, values: &[f64], points: usize) -> bool = advance_body::<WALKS>;
}

#[allow(unsafe_code, reason = "calls of the per-level copies, see SAFETY")]
fn advance_side_by_side(level: Level, walks: &mut Walks<WALKS>, values: &[f64], points: usize) -> bool {
    match level.feature() {
        // SAFETY: level; it is only handed out where the processor has these instructions.
        #[cfg(target_arch = "x86_64")]
        Feature::Avx512 => unsafe { x86::advance(walks, values, points) },
        _ => advance_by_level(level, walks, values, points),
    }
}

#[inline(always)]
fn advance_body<const L: usize>(walks: &mut Walks<L>, values: &[f64], points: usize) -> bool {
    let errors = |walks: &mut Walks<L>| smoothing::errors(values, &mut walks.point, &mut walks.damping);
    advance_with(walks, points, errors, Walks::ranked)
}

/// Says whether there is more to do.
#[inline(always)]
fn advance_with<const L: usize>(
    walks: &mut Walks<L>,
    points: usize,
    errors: impl Fn(&mut Walks<L>) -> [f64; L],
    ranked: impl Fn(&Walks<L>) -> Rank<L>,
) -> bool {
    let at_once = walks.points_at_once();
    for _ in 0..points.div_ceil(at_once) {
        let errors = errors(walks);
        if !walks.go_on(&errors, &ranked) {
            return false;
        }
    }
    true
}

/// By hand because the compiler keeps what these go through in memory.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "loads and stores of arrays, see SAFETY")]
mod x86 {
    use std::arch::x86_64::*;

    use super::walks::{Rank, Walks};
    use super::{WALKS, advance_with, smoothing};

    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi")]
    pub(super) fn advance(walks: &mut Walks<WALKS>, values: &[f64], points: usize) -> bool {
        let errors =
            |walks: &mut Walks<WALKS>| smoothing::x86::errors(values, &mut walks.point, &mut walks.damping);
        advance_with(walks, points, errors, |walks| ranked(&walks.heights))
    }

    /// What [`Walks::ranked`] does.
    #[target_feature(enable = "avx512f")]
    fn ranked(heights: &[[f64; WALKS]]) -> Rank<WALKS> {
        let mut rank = Rank { highest: [0; WALKS], second: [0; WALKS], lowest: [0; WALKS] };
        for half in 0..WALKS / 8 {
            // SAFETY: eight floats of the half.
            let load = |heights: &[f64; WALKS]| unsafe { _mm512_loadu_pd(heights.as_ptr().add(8 * half)) };
            let numbered = || (0_i64..).map(|corner| _mm512_set1_epi64(corner)).zip(heights);
            let (mut high, mut low) = (load(&heights[0]), load(&heights[0]));
            let (mut highest, mut lowest) = (_mm512_setzero_si512(), _mm512_setzero_si512());
            for (corner, height) in numbered() {
                let height = load(height);
                let is_higher = _mm512_cmp_pd_mask::<_CMP_GT_OQ>(height, high);
                high = _mm512_mask_mov_pd(high, is_higher, height);
                highest = _mm512_mask_mov_epi64(highest, is_higher, corner);
                let is_lower = _mm512_cmp_pd_mask::<_CMP_LT_OQ>(height, low);
                low = _mm512_mask_mov_pd(low, is_lower, height);
                lowest = _mm512_mask_mov_epi64(lowest, is_lower, corner);
            }
            let (mut second, mut middle) = (lowest, low);
            for (corner, height) in numbered() {
                let height = load(height);
                let is_above = _mm512_cmp_pd_mask::<_CMP_GT_OQ>(height, middle);
                let is_between = _mm512_mask_cmp_pd_mask::<_CMP_LT_OQ>(is_above, height, high);
                middle = _mm512_mask_mov_pd(middle, is_between, height);
                second = _mm512_mask_mov_epi64(second, is_between, corner);
            }
            let corners =
                [(&mut rank.highest, highest), (&mut rank.second, second), (&mut rank.lowest, lowest)];
            for (to, corners) in corners {
                // SAFETY: eight integers of the half.
                unsafe { _mm512_storeu_epi64(to.as_mut_ptr().add(8 * half).cast(), corners) };
            }
        }
        rank
    }
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

    fn starts(values: &[f64], season: usize) -> [Vec<f64>; WALKS] {
        std::array::from_fn(|guess| {
            let guesses = (0..4).map(|bit| [0.3, 0.7][guess >> bit & 1]);
            let first = [values[0], (values[values.len() - 1] - values[0]) / values.len() as f64];
            let season = (0..season).map(|place| values[place % values.len()] / values[0]);
            guesses.chain(first).chain(season).collect()
        })
    }

    fn searched(level: Level, mut search: Search) -> Vec<u64> {
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
        for level in Level::available() {
            let search = Search::new(values.to_vec(), starts.clone());
            assert!(matches!(search.walks, Width::SideBySide(_)));
            assert_eq!(searched(level, search), expected, "{level:?} {season} {values:?}");
            let mut all = starts.clone().into_iter().collect::<Vec<_>>().into_iter();
            let first = Walks::new(values.len(), &[all.next().unwrap()]);
            let walks = Width::OneByOne(Box::new(first), all);
            let search = Search { values: values.to_vec(), walks, found: None };
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
    fn what_cannot_be_computed_ends_too() {
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
        assert!(matches!(search.walks, Width::OneByOne(..)));
        assert!(Search::bytes(40, 306) >= Walks::<1>::bytes(40, 306));
    }
}
