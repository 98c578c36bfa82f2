//! Sorts a few values without branches, which the processor could not predict.

use crate::cpu::{CpuFeatures, dispatched};

/// At most this many values are sorted by rank: each is compared with every other.
const RANKED: usize = 64;
/// Values ranked at once; they fill a register.
const TOGETHER: usize = 32;
/// Bits of a key that tell equal values apart.
const INDEX_BITS: u32 = RANKED.trailing_zeros();

/// Sorts values, fast if they are at most 64 and close together.
pub(crate) fn sort_small(cpu: CpuFeatures, values: &mut [i64]) {
    let bounds = |(least, most): (i64, i64), value: &i64| (least.min(*value), most.max(*value));
    let (least, most) = values.iter().fold((i64::MAX, i64::MIN), bounds);
    let range = most.wrapping_sub(least) as u64;
    if values.len() > RANKED || range >= 1 << (u16::BITS - INDEX_BITS) {
        return values.sort_unstable();
    }
    sort_ranked(cpu, values, least);
}

dispatched! {
    fn sort_ranked(values: &mut [i64], least: i64) -> () = sort_ranked_body;
}

#[inline(always)]
fn sort_ranked_body(values: &mut [i64], least: i64) {
    let mut keys = [u16::MAX; RANKED];
    for (index, (key, value)) in keys.iter_mut().zip(values.iter()).enumerate() {
        *key = (value.wrapping_sub(least) as u16) << INDEX_BITS | index as u16;
    }
    let mut ranks = [0_u16; RANKED];
    let others = &keys[..values.len()];
    for (ranks, keys) in ranks.as_chunks_mut::<TOGETHER>().0.iter_mut().zip(keys.as_chunks::<TOGETHER>().0) {
        let mut smaller = [0; TOGETHER];
        for other in others {
            for (smaller, key) in smaller.iter_mut().zip(keys) {
                *smaller += u16::from(other < key);
            }
        }
        *ranks = smaller;
    }
    for (rank, key) in ranks.iter().zip(&keys).take(values.len()) {
        values[usize::from(*rank)] = least.wrapping_add(i64::from(key >> INDEX_BITS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instruction_set_sorts() {
        let mut state = 1_u64;
        for round in 0..400 {
            let mut values: Vec<i64> = (0..1 + round % 80)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let spread = [5, 1000, 1100, u64::MAX][round % 4];
                    ((state >> 7) % spread).wrapping_sub(round as u64) as i64
                })
                .collect();
            if round % 5 == 0 {
                values[0] = [i64::MIN, i64::MAX][round % 2];
            }
            let mut expected = values.clone();
            expected.sort_unstable();
            for cpu in CpuFeatures::available() {
                let mut sorted = values.clone();
                sort_small(cpu, &mut sorted);
                assert_eq!(sorted, expected);
            }
        }
    }
}
