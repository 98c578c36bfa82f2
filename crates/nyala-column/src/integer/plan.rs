//! How wide to pack, and which few values to leave to patches.

use super::patches::{PATCH_LIMIT, fold_sign, patches_bytes};
use crate::kernels::pack::{is_storable, packed_bytes, storable_width};
use crate::kernels::profile::count_outside;
use crate::level::Level;
use crate::preference::Preference;
use crate::scratch::IntegerScratch;
use crate::wire::bit_width;

/// Values looked at together for patches, which are few.
const CUT_ROWS: usize = 16;
/// Values looked at to guess how all are spread.
const SAMPLE: usize = 64;

/// A width and the window of values it covers; the rest becomes patches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) width: u32,
    pub(super) low: i64,
    /// Bytes of packed residuals and patches, headers apart, and what reading the patches is worth in bytes.
    pub(super) cost: usize,
}

/// What reading one patch is worth, in bits: a patch costs about as much time as unpacking tens of values.
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
pub(super) fn take_sample(values: &[i64], sample: &mut Vec<i64>) {
    sample.clear();
    if values.len() <= SAMPLE {
        sample.extend_from_slice(values);
    } else {
        // The fraction of a stride that is not whole keeps the sample from beating with a period of the data.
        sample.extend((0..SAMPLE).map(|index| values[(index * values.len() + index % 7) / SAMPLE]));
    }
    sample.sort_unstable();
}

/// The cheapest packing of `values`, whose extremes are `min` and `max`, judged by their sorted sample.
pub(super) fn plan(
    level: Level,
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
    // The sample may be off by a little: the guess and its neighbours are counted on all values.
    for width in guess.saturating_sub(1)..=(guess + 1).min(full.saturating_sub(1)) {
        if !is_storable(width) {
            continue;
        }
        let span = Plan::span(width);
        let (from, to, _) = densest_window(sample, span);
        let slack = span - to.wrapping_sub(from) as u64;
        // Centred on what the sample covers, but not beyond the extremes, where nothing is.
        let room_below = from.wrapping_sub(min) as u64;
        let room_above = max.wrapping_sub(to) as u64;
        let below = (slack / 2).max(slack.saturating_sub(room_above)).min(room_below);
        let low = from.wrapping_sub_unsigned(below);
        let outside = count_outside(level, values, low, span);
        let cost = cost(width, outside);
        if outside <= PATCH_LIMIT && cost < best.cost {
            best = Plan { width, low, cost };
        }
    }
    best
}

/// A given width and window, counted out on `values`; `None` if too many would be patches.
pub(super) fn counted(
    level: Level,
    values: &[i64],
    (width, low): (u32, i64),
    range: u64,
    preference: Preference,
) -> Option<Plan> {
    let outside = count_outside(level, values, low, Plan::span(width));
    let penalty = outside * patch_penalty_bits(preference) / 8;
    let rows = values.len();
    let cost = packed_bytes(rows, width) + patches_bytes(outside, rows, patch_bound(range)) + penalty;
    (outside <= PATCH_LIMIT).then_some(Plan { width, low, cost })
}

/// What a folded patch may reach, at most.
fn patch_bound(range: u64) -> u64 {
    range.saturating_mul(2)
}

/// The cheapest width below `full` by the sample.
fn guess_width(rows: usize, full: u32, sample: &[i64], cost: impl Fn(u32, usize) -> usize) -> Option<u32> {
    let mut best = None;
    let mut best_cost = cost(full, 0);
    for width in (0..full).rev().filter(|width| is_storable(*width)) {
        let (_, _, covered) = densest_window(sample, Plan::span(width));
        let outside = (sample.len() - covered) * rows / sample.len();
        if outside > PATCH_LIMIT {
            break;
        }
        let cost = cost(width, outside);
        if cost < best_cost {
            (best, best_cost) = (Some(width), cost);
        }
    }
    best
}

/// The window of `span` that covers most of the sorted sample: first and last value covered, and how many.
fn densest_window(sample: &[i64], span: u64) -> (i64, i64, usize) {
    let (mut start, mut best) = (0, (0, 0));
    for end in 0..sample.len() {
        while sample[end].wrapping_sub(sample[start]) as u64 > span {
            start += 1;
        }
        if end - start > best.1 - best.0 {
            best = (start, end);
        }
    }
    (sample[best.0], sample[best.1], best.1 - best.0 + 1)
}

/// Cuts `values` by a plan into packed residuals and patches.
pub(super) fn cut(values: &[i64], plan: Plan, scratch: &mut CutBuffers<'_>) {
    let span = Plan::span(plan.width);
    scratch.positions.clear();
    scratch.amounts.clear();
    scratch.packed.clear();
    scratch.packed.extend(values.iter().map(|value| value.wrapping_sub(plan.low) as u64));
    for (chunk, residuals) in scratch.packed.chunks_mut(CUT_ROWS).enumerate() {
        if !residuals.iter().fold(false, |any, residual| any | (*residual > span)) {
            continue;
        }
        for (position, residual) in residuals.iter_mut().enumerate().filter(|(_, residual)| **residual > span)
        {
            scratch.positions.push((chunk * CUT_ROWS + position) as u16);
            scratch.amounts.push(fold_sign(*residual));
            *residual = 0;
        }
    }
}

/// Where [`cut`] writes.
pub(super) struct CutBuffers<'a> {
    pub(super) packed: &'a mut Vec<u64>,
    pub(super) positions: &'a mut Vec<u16>,
    pub(super) amounts: &'a mut Vec<u64>,
}

impl IntegerScratch {
    pub(super) fn cut_buffers(&mut self) -> CutBuffers<'_> {
        CutBuffers { packed: &mut self.packed, positions: &mut self.positions, amounts: &mut self.amounts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(values: &[i64]) -> Plan {
        let mut sample = Vec::new();
        take_sample(values, &mut sample);
        let extremes = (*values.iter().min().unwrap(), *values.iter().max().unwrap());
        plan(Level::best(), values, extremes, &sample, Preference::Balanced)
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
        let mut scratch = IntegerScratch::default();
        cut(&values, plan, &mut scratch.cut_buffers());
        assert_eq!(scratch.positions, [77, 500]);
    }

    #[test]
    fn many_outliers_are_not_patched() {
        let values: Vec<i64> = (0..1024).map(|index| if index % 3 == 0 { 1 << 40 } else { 0 }).collect();
        assert_eq!(planned(&values).width, 41);
    }
}
