//! Sums of values that are stored as differences, without the values.
//!
//! In a sum over rows, each difference counts as often as rows follow it. So the sum is made of one product per
//! difference, and no product waits for another, as in running sums.

use std::ops::Range;

use super::pack::unpack;
use crate::cpu::CpuFeatures;
#[cfg(target_arch = "x86_64")]
use crate::cpu::Feature;

/// Rows from one stored base to the next.
pub(crate) const GROUP_ROWS: usize = 128;
/// The widest differences: twice the product of two such numbers fits 16 bits.
pub(crate) const WIDTH_MAX: u32 = 7;

/// Packed differences in groups. Each group has a base.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeltaGroups<'a> {
    pub(crate) packed: &'a [u8],
    pub(crate) width: u32,
    /// The value of each group's first row. The difference of that row is ignored.
    pub(crate) bases: &'a [u64],
    /// Added to each difference.
    pub(crate) step: u64,
}

impl DeltaGroups<'_> {
    /// The sum of some rows of a group as if all their differences were 0.
    #[inline(always)]
    fn sum_without_differences(&self, first: usize, rows: &Range<usize>) -> u64 {
        let count = rows.len() as u64;
        // The sum of whole numbers from the first row's to the last's.
        let steps = (rows.start + rows.end - 1) as u64 * count / 2;
        let base = self.bases[first / GROUP_ROWS];
        base.wrapping_mul(count).wrapping_add(self.step.wrapping_mul(steps))
    }
}

/// Whether [`sum_deltas`] is faster than decoding.
#[inline]
pub(crate) fn is_faster(cpu: CpuFeatures) -> bool {
    match cpu.feature() {
        #[cfg(target_arch = "x86_64")]
        Feature::Avx512 => true,
        _ => false,
    }
}

/// Sets the sum of rows `bounds[i]..bounds[i + 1]`, wrapping.
#[allow(unsafe_code, reason = "calls of the per-instruction-set copies, see SAFETY")]
pub(crate) fn sum_deltas(cpu: CpuFeatures, deltas: DeltaGroups<'_>, bounds: &[u32], out: &mut [u64]) {
    assert!(deltas.width <= WIDTH_MAX);
    match cpu.feature() {
        // SAFETY: a CpuFeatures exists only for instructions that the processor has.
        #[cfg(target_arch = "x86_64")]
        Feature::Avx512 => unsafe { x86::sum_deltas_avx512(deltas, bounds, out) },
        _ => sum_deltas_portable(cpu, deltas, bounds, out),
    }
}

fn sum_deltas_portable(cpu: CpuFeatures, deltas: DeltaGroups<'_>, bounds: &[u32], out: &mut [u64]) {
    for (pair, out) in bounds.windows(2).zip(out) {
        *out = 0;
        for_each_group(pair[0] as usize..pair[1] as usize, |first, rows| {
            let mut differences = [0; GROUP_ROWS];
            let differences: &mut [u8] = &mut differences[..rows.end];
            unpack(cpu, deltas.packed, deltas.width, first, differences);
            let weighted = differences.iter().enumerate().skip(1);
            let climbed = weighted
                .map(|(row, difference)| u64::from(*difference) * (rows.end - row.max(rows.start)) as u64);
            *out = out.wrapping_add(deltas.sum_without_differences(first, &rows)).wrapping_add(climbed.sum());
        });
    }
}

/// Calls `visit` with the first row of each group that `rows` touch, and with the rows of the group, from 0 on.
#[inline(always)]
fn for_each_group(rows: Range<usize>, mut visit: impl FnMut(usize, Range<usize>)) {
    let mut start = rows.start;
    while start < rows.end {
        let first = start / GROUP_ROWS * GROUP_ROWS;
        let end = rows.end.min(first + GROUP_ROWS);
        visit(first, start - first..end - first);
        start = end;
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "loads of whole arrays, see SAFETY")]
mod x86 {
    use std::arch::x86_64::*;

    use super::super::pack::x86::ByteStream;
    use super::{DeltaGroups, GROUP_ROWS, for_each_group};

    #[repr(C, align(64))]
    struct Positions([u8; GROUP_ROWS]);

    /// Rows of a group; the first is far beyond the last, so that its difference counts for nothing.
    static POSITIONS: Positions = {
        let mut positions = [u8::MAX; GROUP_ROWS];
        let mut row = 1;
        while row < GROUP_ROWS {
            positions[row] = row as u8;
            row += 1;
        }
        Positions(positions)
    };

    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub(super) fn sum_deltas_avx512(deltas: DeltaGroups<'_>, bounds: &[u32], out: &mut [u64]) {
        let stream = ByteStream::new(deltas.packed, deltas.width);
        // SAFETY: the array is 128 bytes long and aligned to 64.
        let (low, high) = unsafe {
            let positions: *const __m512i = POSITIONS.0.as_ptr().cast();
            (_mm512_load_si512(positions), _mm512_load_si512(positions.add(1)))
        };
        let ones = _mm512_set1_epi16(1);
        for (pair, out) in bounds.windows(2).zip(out) {
            let mut sums = _mm512_setzero_si512();
            let mut without = 0_u64;
            for_each_group(pair[0] as usize..pair[1] as usize, |first, rows| {
                without = without.wrapping_add(deltas.sum_without_differences(first, &rows));
                let end = _mm512_set1_epi8(rows.end as i8);
                let most = _mm512_set1_epi8(rows.len() as i8);
                // How many of the rows do not come before each, times how much that one adds.
                let add = |positions: __m512i, first: usize| {
                    let weights = _mm512_min_epu8(_mm512_subs_epu8(end, positions), most);
                    _mm512_madd_epi16(_mm512_maddubs_epi16(stream.values(first), weights), ones)
                };
                let both = _mm512_add_epi32(add(low, first), add(high, first + 64));
                sums = _mm512_add_epi32(sums, both);
            });
            *out = without.wrapping_add(u64::from(_mm512_reduce_add_epi32(sums) as u32));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::pack::{get, pack};

    #[test]
    fn every_instruction_set_agrees_with_row_by_row() {
        for width in 0..=WIDTH_MAX {
            for count in [1_u32, 2, 63, 64, 65, 128, 129, 700, 1024] {
                // Also with the widest differences everywhere, whose sums are the largest.
                for noise in [0x9e37_79b9_7f4a_7c15_u64, 0] {
                    let mask = (1_u64 << width) - 1;
                    let difference = |row: u64| (row + 1).wrapping_mul(noise) >> 40;
                    let differences: Vec<u64> = (0..count.into())
                        .map(|row| if noise == 0 { mask } else { difference(row) & mask })
                        .collect();
                    let mut packed = Vec::new();
                    pack(&differences, width, &mut packed);
                    let bases: Vec<u64> = (0..8_u64).map(|group| noise.wrapping_mul(group + 1)).collect();
                    let step = noise.wrapping_neg();
                    let deltas = DeltaGroups { packed: &packed, width, bases: &bases, step };
                    let mut bounds = vec![1, 1, 2, 60, 64, 65, 127, 130, 300, 640, 641, 1000, 1024];
                    bounds.iter_mut().for_each(|bound| *bound = count.min(*bound));
                    for bounds in [&bounds, &vec![0, count], &vec![0, 0]] {
                        let value = |row: usize| {
                            let first = row / GROUP_ROWS * GROUP_ROWS;
                            (first + 1..=row).fold(bases[first / GROUP_ROWS], |value, row| {
                                value.wrapping_add(get(&packed, width, row)).wrapping_add(step)
                            })
                        };
                        let sum = |pair: &[u32]| {
                            let rows = pair[0] as usize..pair[1] as usize;
                            rows.fold(0_u64, |sum, row| sum.wrapping_add(value(row)))
                        };
                        let expected: Vec<u64> = bounds.windows(2).map(sum).collect();
                        for cpu in CpuFeatures::available() {
                            let mut sums = vec![7; expected.len()];
                            sum_deltas(cpu, deltas, bounds, &mut sums);
                            assert_eq!(sums, expected, "{cpu:?} {width} {count} {bounds:?}");
                        }
                    }
                }
            }
        }
    }
}
