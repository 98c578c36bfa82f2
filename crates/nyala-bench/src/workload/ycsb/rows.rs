//! Keys and values of rows.

use crate::random::{Random, hash};

/// Streams of randomness that no client uses.
const VALUES: u64 = 1 << 40;
/// Printable characters, so that values are text for every store.
const FIRST_CHARACTER: u8 = b' ';
const CHARACTERS: u64 = 95;

/// What rows look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowShape {
    /// Fields of a row.
    pub fields: u32,
    /// Bytes of a field.
    pub field_bytes: usize,
    /// Whether keys are in the order of insertion; otherwise they are hashed.
    pub ordered: bool,
    /// Of the values.
    pub seed: u64,
}

impl RowShape {
    /// The key of a row: `user` and twenty digits, so that keys are in the order of their numbers.
    pub fn key(&self, row: u64) -> String {
        format!("user{:020}", if self.ordered { row } else { fnv_64(row) })
    }

    /// Bytes of a key.
    pub fn key_bytes(&self) -> usize {
        "user".len() + 20
    }

    /// Bytes of a row, without what a store adds.
    pub fn row_bytes(&self) -> u64 {
        (self.key_bytes() + self.fields as usize * self.field_bytes) as u64
    }

    /// A value of a field: random text, which does not compress. `version` tells values of the same cell apart.
    pub fn value(&self, row: u64, field: u32, version: u64) -> String {
        let mut random = Random::new(hash(self.seed, row, version), VALUES + u64::from(field));
        let mut value = String::with_capacity(self.field_bytes);
        while value.len() < self.field_bytes {
            // Eight characters of seven bits or less out of each draw.
            let mut bits = random.bits();
            for _ in 0..8.min(self.field_bytes - value.len()) {
                value.push((FIRST_CHARACTER + (((bits & 0xff) * CHARACTERS) >> 8) as u8) as char);
                bits >>= 8;
            }
        }
        value
    }
}

/// YCSB's hash of numbers: FNV-1a over their bytes.
pub fn fnv_64(number: u64) -> u64 {
    let fold = |state: u64, byte: u8| (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    number.to_le_bytes().into_iter().fold(0xcbf2_9ce4_8422_2325, fold)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_have_their_lengths_and_are_drawn_again() {
        let shape = RowShape { fields: 2, field_bytes: 100, ordered: false, seed: 7 };
        assert_eq!(shape.key(5).len(), shape.key_bytes());
        assert_eq!(shape.row_bytes(), 224);
        let value = shape.value(5, 1, 0);
        assert_eq!((value.len(), &value), (100, &shape.value(5, 1, 0)));
        assert_ne!(value, shape.value(5, 0, 0));
        assert_ne!(value, shape.value(5, 1, 1));
        assert!(value.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        let ordered = RowShape { ordered: true, ..shape };
        assert!(ordered.key(9) < ordered.key(10));
    }
}
