//! Bloom filters that tablet servers evaluate.
//!
//! A filter is split into buckets of 32 bytes. A value sets one bit in each of the eight words of its bucket, so a
//! look-up touches one cache line. Sizes are powers of two.

use bytes::Bytes;

use crate::data_type::DataType;
use crate::error::Result;
use crate::key::fast_hash32;
use crate::pb::tserver::BlockBloomFilter;
use crate::value::Cell;

const WORDS: usize = 8;
const BUCKET_BYTES: usize = WORDS * 4;
const FAST_HASH: i32 = 3;

/// One odd multiplier per word.
const REHASH: [u32; WORDS] =
    [0x47b6_137b, 0x4497_4d91, 0x8824_ad5b, 0xa2b7_289d, 0x7054_95c7, 0x2df1_424b, 0x9efc_4947, 0x5c6b_fb31];

/// A set of values of one type, with false positives.
///
/// ```
/// use kudu_client::{BloomFilter, DataType};
///
/// let mut wanted = BloomFilter::new(DataType::Int64, 1000, 0.01);
/// wanted.insert(42_i64)?;
/// assert!(wanted.may_contain(42_i64)?);
/// # Ok::<(), kudu_client::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct BloomFilter {
    pub(crate) data_type: DataType,
    buckets: Vec<[u32; WORDS]>,
    seed: u32,
    is_empty: bool,
}

impl BloomFilter {
    /// A filter for about `values` values. `false_share` is its rate of false positives (0.01: one in a hundred). It
    /// is clamped to 1e-6…0.5. The size is at most 16 MiB; a filter that would need more exceeds the rate.
    pub fn new(data_type: DataType, values: usize, false_share: f64) -> Self {
        // Each value sets 8 bits; with b bits per value another value finds all of them set with
        // probability (1 - e^(-8/b))^8.
        let share = false_share.clamp(1e-6, 0.5);
        let bits_per_value = -8.0 / (1.0 - share.powf(1.0 / 8.0)).ln();
        let bytes = (values.max(1) as f64 * bits_per_value / 8.0).min((16 << 20) as f64) as usize;
        let buckets = bytes.div_ceil(BUCKET_BYTES).next_power_of_two().clamp(2, (16 << 20) / BUCKET_BYTES);
        Self { data_type, buckets: vec![[0; WORDS]; buckets], seed: 0, is_empty: true }
    }

    /// Adds a value.
    ///
    /// # Errors
    /// When the value is not of the filter's type.
    pub fn insert<'a>(&mut self, value: impl Into<Cell<'a>>) -> Result<()> {
        let (bucket, bits) = self.bucket_and_bits(value.into())?;
        for (word, bit) in self.buckets[bucket].iter_mut().zip(bits) {
            *word |= bit;
        }
        self.is_empty = false;
        Ok(())
    }

    /// Whether the value was added, or is a false positive.
    ///
    /// # Errors
    /// When the value is not of the filter's type.
    pub fn may_contain<'a>(&self, value: impl Into<Cell<'a>>) -> Result<bool> {
        let (bucket, bits) = self.bucket_and_bits(value.into())?;
        Ok(self.buckets[bucket].iter().zip(bits).all(|(word, bit)| word & bit != 0))
    }

    fn bucket_and_bits(&self, value: Cell<'_>) -> Result<(usize, [u32; WORDS])> {
        let hash = fast_hash32(value.to_bytes(self.data_type)?.as_slice(), self.seed);
        let spread = u64::from(hash).wrapping_mul(0x7850_f11e_c6d1_4889).wrapping_add(0x6773_6105_97ca_4c63);
        let bucket = (spread >> 32) as usize & (self.buckets.len() - 1);
        Ok((bucket, REHASH.map(|factor| 1 << (factor.wrapping_mul(hash) >> 27))))
    }

    pub(crate) fn to_pb(&self) -> BlockBloomFilter {
        let mut data = Vec::with_capacity(self.buckets.len() * BUCKET_BYTES);
        for word in self.buckets.iter().flatten() {
            data.extend_from_slice(&word.to_le_bytes());
        }
        BlockBloomFilter {
            log_space_bytes: Some(data.len().trailing_zeros() as i32),
            bloom_data: Some(Bytes::from(data)),
            always_false: Some(self.is_empty),
            hash_algorithm: Some(FAST_HASH),
            hash_seed: Some(self.seed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_no_false_negatives_and_few_false_positives() {
        for share in [0.1, 0.01, 0.001] {
            let mut filter = BloomFilter::new(DataType::Int64, 10_000, share);
            for value in 0..10_000_i64 {
                filter.insert(value * 7).unwrap();
            }
            assert!((0..10_000_i64).all(|value| filter.may_contain(value * 7).unwrap()));
            let false_positives =
                (0..10_000_i64).filter(|value| filter.may_contain(value * 7 + 1).unwrap()).count();
            assert!((false_positives as f64) < 20_000.0 * share, "{false_positives} at {share}");
        }
    }

    #[test]
    fn its_size_is_a_power_of_two_and_bounded() {
        let filter = BloomFilter::new(DataType::String, usize::MAX, 0.01).to_pb();
        assert_eq!(filter.bloom_data.unwrap().len(), 16 << 20);
        assert_eq!(filter.log_space_bytes, Some(24));
        assert_eq!(BloomFilter::new(DataType::String, 0, 0.9).to_pb().log_space_bytes, Some(6));
    }
}
