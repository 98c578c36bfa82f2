//! How wide to pack, and which few values to leave to patches.

use super::patches::{PATCH_LIMIT, patches_bytes, push_patches};
use crate::cpu::CpuFeatures;
use crate::kernels::pack::{is_storable, pack, packed_bytes, storable_width};
use crate::kernels::profile::count_outside;
use crate::kernels::residuals::{SplitInto, split_residuals};
use crate::kernels::sort::sort_small;
use crate::little_endian::bit_width;
use crate::preference::Preference;

/// Values in a sample.
const SAMPLE: usize = 64;

/// A width and the window of values it covers; the rest becomes patches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) width: u32,
    pub(super) low: i64,
    /// Bytes of packed residuals and patches without headers, plus the penalty for reading patches.
    pub(super) cost: usize,
}

/// The penalty for a patch, in bits: reading one takes about as long as unpacking tens of values.
pub(super) fn patch_penalty_bits(preference: Preference) -> usize {
    match preference {
        Preference::Speed => 40,
        Preference::Balanced | Preference::Size => 0,
    }
}

impl Plan {
    fn span(width: u32) -> u64 {
        if width == 0 { 0 } else { u64::MAX >> (64 - width) }
    }
}

/// Sorts a spread sample of `values` into `sample`.
pub(super) fn take_sample(cpu: CpuFeatures, values: &[i64], sample: &mut Vec<i64>) {
    sample.clear();
    if values.len() <= SAMPLE {
        sample.extend_from_slice(values);
    } else {
        // The stride varies, so that the sample does not follow a period of the data.
        sample.extend((0..SAMPLE).map(|index| values[(index * values.len() + index % 7) / SAMPLE]));
    }
    sort_small(cpu, sample);
}

/// The cheapest packing of `values`, whose extremes are `min` and `max`, judged by their sorted sample.
pub(super) fn plan(
    cpu: CpuFeatures,
    values: &[i64],
    (min, max): (i64, i64),
    sample: &[i64],
    preference: Preference,
) -> Plan {
    let rows = values.len();
    let range = max.wrapping_sub(min) as u64;
    let full = storable_width(bit_width(range));
    let mut best = Plan { width: full, low: min, cost: packed_bytes(rows, full) };
    let cost = |width, outside| {
        let penalty = outside * patch_penalty_bits(preference) / 8;
        packed_bytes(rows, width) + patches_bytes(outside, rows, patch_bound(range)) + penalty
    };
    let Some(guess) = guess_width(rows, full, sample, cost) else { return best };
    // The sample may be slightly wrong, so the guess and its neighbours are counted on all values.
    let mut windows = Windows::new(sample);
    let widths = guess.saturating_sub(1)..(guess + 2).min(full);
    let mut densest = [(0, 0); 3];
    for (width, window) in widths.clone().zip(&mut densest).rev() {
        *window = windows.densest(Plan::span(width));
    }
    for (width, (from, to)) in widths.zip(densest).filter(|(width, _)| is_storable(*width)) {
        let span = Plan::span(width);
        let slack = span - to.wrapping_sub(from) as u64;
        // Centred on what the sample covers, but not beyond the extremes, where nothing is.
        let room_below = from.wrapping_sub(min) as u64;
        let room_above = max.wrapping_sub(to) as u64;
        let below = (slack / 2).max(slack.saturating_sub(room_above)).min(room_below);
        let low = from.wrapping_sub_unsigned(below);
        let outside = count_outside(cpu, values, low, span);
        let cost = cost(width, outside);
        if outside <= PATCH_LIMIT && cost < best.cost {
            best = Plan { width, low, cost };
        }
    }
    best
}

/// The plan of a given width and window, counted on `values`; `None` if too many would be patches.
pub(super) fn counted(
    cpu: CpuFeatures,
    values: &[i64],
    (width, low): (u32, i64),
    range: u64,
    preference: Preference,
) -> Option<Plan> {
    let outside = count_outside(cpu, values, low, Plan::span(width));
    let penalty = outside * patch_penalty_bits(preference) / 8;
    let rows = values.len();
    let cost = packed_bytes(rows, width) + patches_bytes(outside, rows, patch_bound(range)) + penalty;
    (outside <= PATCH_LIMIT).then_some(Plan { width, low, cost })
}

/// The largest possible folded patch.
fn patch_bound(range: u64) -> u64 {
    range.saturating_mul(2)
}

/// The cheapest width below `full` by the sample.
fn guess_width(rows: usize, full: u32, sample: &[i64], cost: impl Fn(u32, usize) -> usize) -> Option<u32> {
    let mut best = None;
    let mut best_cost = cost(full, 0);
    let mut windows = Windows::new(sample);
    for width in (0..full).rev().filter(|width| is_storable(*width)) {
        windows.densest(Plan::span(width));
        let outside = (sample.len() - windows.covered) * rows / sample.len();
        // Narrower ones leave no fewer outside.
        if outside > PATCH_LIMIT || cost(0, outside) >= best_cost {
            break;
        }
        let cost = cost(width, outside);
        if cost < best_cost {
            (best, best_cost) = (Some(width), cost);
        }
    }
    best
}

/// Windows of falling span on a sorted sample: each covers no more of it than the one before.
struct Windows<'a> {
    sample: &'a [i64],
    /// How much of the sample the last one covers.
    covered: usize,
}

impl<'a> Windows<'a> {
    fn new(sample: &'a [i64]) -> Self {
        Self { sample, covered: sample.len() }
    }

    /// The first window of `span` that covers most of the sample: first and last value covered.
    fn densest(&mut self, span: u64) -> (i64, i64) {
        loop {
            let (firsts, lasts) = (self.sample, &self.sample[self.covered - 1..]);
            let mut windows = firsts.iter().zip(lasts);
            // A single value fits any span.
            if let Some((first, last)) =
                windows.find(|(first, last)| last.wrapping_sub(**first) as u64 <= span)
            {
                return (*first, *last);
            }
            self.covered -= 1;
        }
    }
}

/// Values split by a plan into residuals to pack, and patches.
pub(super) struct PatchedResiduals<'a> {
    pub(super) width: u32,
    residuals: Residuals<'a>,
    positions: &'a [u16],
    amounts: &'a [u64],
}

/// Most plans are narrow, and bytes are packed faster.
enum Residuals<'a> {
    Bytes(&'a [u8]),
    Words(&'a [u64]),
}

impl PatchedResiduals<'_> {
    pub(super) fn patch_count(&self) -> usize {
        self.positions.len()
    }

    /// Appends packed residuals and patches.
    pub(super) fn push(&self, out: &mut Vec<u8>) {
        let rows = match self.residuals {
            Residuals::Bytes(bytes) => {
                pack(bytes, self.width, out);
                bytes.len()
            }
            Residuals::Words(words) => {
                pack(words, self.width, out);
                words.len()
            }
        };
        push_patches(self.positions, self.amounts, rows, out);
    }
}

/// Buffers for residuals of one width and for the values that do not fit it.
#[derive(Debug, Clone, Default)]
pub(super) struct PatchedScratch {
    bytes: Vec<u8>,
    words: Vec<u64>,
    positions: Vec<u16>,
    amounts: Vec<u64>,
}

impl PatchedScratch {
    /// Splits `values` by a plan.
    pub(super) fn split(&mut self, cpu: CpuFeatures, values: &[i64], plan: Plan) -> PatchedResiduals<'_> {
        let Self { bytes, words, positions, amounts } = self;
        positions.clear();
        amounts.clear();
        let span = Plan::span(plan.width);
        let residuals = if plan.width <= u8::BITS {
            bytes.resize(values.len(), 0);
            split_residuals(cpu, values, plan.low, span, SplitInto { residuals: bytes, positions, amounts });
            Residuals::Bytes(bytes)
        } else {
            words.resize(values.len(), 0);
            split_residuals(cpu, values, plan.low, span, SplitInto { residuals: words, positions, amounts });
            Residuals::Words(words)
        };
        PatchedResiduals { width: plan.width, residuals, positions, amounts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(values: &[i64]) -> Plan {
        let mut sample = Vec::new();
        take_sample(CpuFeatures::best(), values, &mut sample);
        let extremes = (*values.iter().min().unwrap(), *values.iter().max().unwrap());
        plan(CpuFeatures::best(), values, extremes, &sample, Preference::Balanced)
    }

    #[test]
    fn an_even_spread_is_packed_whole() {
        let values: Vec<i64> = (0..1024).map(|index| index * 37 % 100).collect();
        assert_eq!(planned(&values), Plan { width: 7, low: 0, cost: 896 });
    }

    #[test]
    fn rare_outliers_on_both_sides_become_patches() {
        let mut values: Vec<i64> = (0..1024).map(|index| index * 37 % 14).collect();
        (values[77], values[500]) = (i64::MIN, i64::MAX);
        let plan = planned(&values);
        assert_eq!(plan.width, 4);
        assert!((-2..=0).contains(&plan.low));
        let mut scratch = PatchedScratch::default();
        assert_eq!(scratch.split(CpuFeatures::best(), &values, plan).positions, [77, 500]);
    }

    #[test]
    fn many_outliers_are_not_patched() {
        let values: Vec<i64> = (0..1024).map(|index| if index % 3 == 0 { 1 << 40 } else { 0 }).collect();
        assert_eq!(planned(&values).width, 41);
    }
}
