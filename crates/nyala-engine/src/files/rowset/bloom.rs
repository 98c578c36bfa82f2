//! Bloom filters of keys: whether a rowset can have a key, in one cache line per question.
//!
//! Blocked filters: a hash picks a block of 512 bits, then eight bits in it. About 12 bits per key give
//! one false answer in 200. Bytes: the blocks, one after the other.

use nyala_core::{Error, Result};

const BLOCK_BYTES: usize = 64;
const BITS_PER_KEY: usize = 12;
const PROBES: u32 = 8;

/// Part of the format: changing it needs a new version.
const SEED: u64 = 0x6e79_616c_6120_6266;

/// The hash of a key: a folded multiplication per eight bytes, written out because it is stored.
pub(crate) fn hash(key: &[u8]) -> u64 {
    let mut state = SEED ^ (key.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (words, rest) = key.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    for word in words.iter().chain([&last]) {
        state ^= u64::from_le_bytes(*word);
        let product = u128::from(state) * 0xd6e8_feb8_6659_fd93;
        state = (product as u64) ^ ((product >> 64) as u64);
    }
    state ^ (state >> 29)
}

/// The filter of these hashes.
pub(crate) fn build(hashes: &[u64]) -> Vec<u8> {
    let blocks = (hashes.len() * BITS_PER_KEY).div_ceil(BLOCK_BYTES * 8).max(1);
    let mut filter = vec![0; blocks * BLOCK_BYTES];
    for hash in hashes {
        let (begin, bits) = place(*hash, blocks);
        bits.for_each(|bit| filter[begin + bit / 8] |= 1 << (bit % 8));
    }
    filter
}

/// Whether a key with this hash may be among those the filter was built of.
pub(crate) fn may_contain(filter: &[u8], hash: u64) -> bool {
    let blocks = filter.len() / BLOCK_BYTES;
    if blocks == 0 {
        return true;
    }
    let (begin, bits) = place(hash, blocks);
    let block: &[u8; BLOCK_BYTES] = filter[begin..].first_chunk().expect("a whole block");
    // All of them, though the first may tell: without a branch, questions for several keys wait for memory together.
    bits.fold(true, |all, bit| all & (block[bit / 8] >> (bit % 8) & 1 != 0))
}

/// Checks what readers rely on.
pub(crate) fn check(filter: &[u8]) -> Result<()> {
    if filter.len().is_multiple_of(BLOCK_BYTES) { Ok(()) } else { Err(Error::invalid("a filter is cut off")) }
}

fn place(hash: u64, blocks: usize) -> (usize, impl Iterator<Item = usize>) {
    let block = ((u128::from(hash) * blocks as u128) >> 64) as usize;
    let mut state = hash.wrapping_mul(0xa076_1d64_78bd_642f) | 1;
    let bits = (0..PROBES).map(move |_| {
        state = state.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
        (state >> 40) as usize % (BLOCK_BYTES * 8)
    });
    (block * BLOCK_BYTES, bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_its_keys_and_few_others() {
        let hashes: Vec<u64> = (0..10_000_u64).map(|key| hash(&key.to_be_bytes())).collect();
        let filter = build(&hashes);
        check(&filter).expect("whole blocks");
        assert!(hashes.iter().all(|hash| may_contain(&filter, *hash)));
        let others = (10_000..110_000_u64).filter(|key| may_contain(&filter, hash(&key.to_be_bytes())));
        assert!(others.count() < 1500, "one in 67 at most");
    }
}
