//! The order-preserving encoding of keys, and Kudu's hashes: Murmur for hash partitions, FastHash for Bloom filters.
//!
//! Integers, and types that are stored as integers, are written big-endian with the sign bit flipped. Text and bytes
//! are written as they are when they come last; elsewhere every zero byte becomes `00 01`, and `00 00` ends them.
//! Encoded keys therefore compare byte by byte as their rows do.

use crate::data_type::DataType;
use crate::error::{Error, Result};
use crate::row::Row;
use crate::schema::Schema;

/// Appends the encoded key of these columns.
pub(crate) fn encode_columns(
    schema: &Schema,
    columns: &[usize],
    row: &Row,
    into: &mut Vec<u8>,
) -> Result<()> {
    for (index, &column) in columns.iter().enumerate() {
        let spec = &schema.columns()[column];
        let cell = row
            .cell(column)
            .ok_or_else(|| Error::invalid(format!("the key column {:?} is not set", spec.name)))?;
        encode_cell(spec.data_type, cell, index + 1 == columns.len(), into);
    }
    Ok(())
}

/// Like [`encode_columns`], but columns that are not set have their smallest value, as in partition bounds.
pub(crate) fn encode_bound(schema: &Schema, columns: &[usize], row: &Row, into: &mut Vec<u8>) {
    for (index, &column) in columns.iter().enumerate() {
        let data_type = schema.columns()[column].data_type;
        let is_last = index + 1 == columns.len();
        match (row.cell(column), data_type.fixed_bytes()) {
            (Some(cell), _) => encode_cell(data_type, cell, is_last, into),
            (None, Some(length)) => into.extend(std::iter::repeat_n(0, length)),
            (None, None) => encode_cell(data_type, &[], is_last, into),
        }
    }
}

pub(crate) fn encode_cell(data_type: DataType, cell: &[u8], is_last: bool, into: &mut Vec<u8>) {
    if data_type.fixed_bytes().is_some() {
        let start = into.len();
        into.extend(cell.iter().rev());
        if let Some(first) = into.get_mut(start) {
            *first ^= 0x80;
        }
    } else if is_last {
        into.extend_from_slice(cell);
    } else {
        for &byte in cell {
            into.push(byte);
            if byte == 0 {
                into.push(1);
            }
        }
        into.extend_from_slice(&[0, 0]);
    }
}

/// MurmurHash2, the 64-bit variant A, with Kudu's seeds.
pub(crate) fn murmur2_64(bytes: &[u8], seed: u64) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    const R: u32 = 47;
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(M);
    let (words, tail) = bytes.as_chunks::<8>();
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(M);
        word ^= word >> R;
        hash = (hash ^ word.wrapping_mul(M)).wrapping_mul(M);
    }
    if !tail.is_empty() {
        hash = (hash ^ little_endian(tail)).wrapping_mul(M);
    }
    hash ^= hash >> R;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> R)
}

/// FastHash, 32 bits, as Kudu's Bloom filters use it.
pub(crate) fn fast_hash32(bytes: &[u8], seed: u32) -> u32 {
    if bytes.is_empty() {
        // Kudu hashes an empty value as this number.
        return fast_hash32(&0x7dca_7eee_u32.to_le_bytes(), seed);
    }
    const M: u64 = 0x8803_55f2_1e6d_1965;
    fn mix(mut value: u64) -> u64 {
        value ^= value >> 23;
        value = value.wrapping_mul(0x2127_599b_f432_5c37);
        value ^ (value >> 47)
    }
    let mut hash = u64::from(seed) ^ (bytes.len() as u64).wrapping_mul(M);
    let (words, tail) = bytes.as_chunks::<8>();
    for word in words {
        hash = (hash ^ mix(u64::from_le_bytes(*word))).wrapping_mul(M);
    }
    if !tail.is_empty() {
        hash = (hash ^ mix(little_endian(tail))).wrapping_mul(M);
    }
    let hash = mix(hash);
    hash.wrapping_sub(hash >> 32) as u32
}

fn little_endian(tail: &[u8]) -> u64 {
    tail.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Operation;
    use crate::schema::Column;
    use crate::value::Cell;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn encoded(data_type: DataType, value: Cell<'_>, is_last: bool) -> Vec<u8> {
        let mut key = Vec::new();
        encode_cell(data_type, value.to_bytes(data_type).unwrap().as_slice(), is_last, &mut key);
        key
    }

    #[test]
    fn a_key_matches_one_captured_on_the_wire() {
        let columns = vec![
            Column::new("host", DataType::String).key(),
            Column::new("n", DataType::Int32).key(),
            Column::new("t", DataType::UnixtimeMicros).key(),
        ];
        let schema = Arc::new(Schema::new(columns).unwrap());
        let mut row = Row::new(schema.clone(), Operation::Insert);
        row.set("host", "host6").unwrap().set("n", 672).unwrap();
        row.set("t", 0x0006_0a34_7335_ba38_i64).unwrap();
        let mut key = Vec::new();
        encode_columns(&schema, &[0, 1, 2], &row, &mut key).unwrap();
        let expected = [
            0x68, 0x6f, 0x73, 0x74, 0x36, 0, 0, 0x80, 0, 0x02, 0xa0, 0x80, 0x06, 0x0a, 0x34, 0x73, 0x35,
            0xba, 0x38,
        ];
        assert_eq!(key, expected);
    }

    #[test]
    fn zero_bytes_inside_text_are_escaped_unless_last() {
        assert_eq!(encoded(DataType::Binary, Cell::Binary(b"a\0b"), false), b"a\0\x01b\0\0");
        assert_eq!(encoded(DataType::Binary, Cell::Binary(b"a\0b"), true), b"a\0b");
    }

    // The Murmur values are from Kudu's own tests. `tests/` checks both hashes against servers.
    #[test]
    fn hashes_are_stable() {
        assert_eq!(murmur2_64(b"", 0), 0);
        assert_eq!(murmur2_64(b"ab", 0), 7_115_271_465_109_541_368);
        assert_eq!(murmur2_64(b"abcdefg", 0), 2_601_573_339_036_254_301);
        assert_eq!(murmur2_64(b"quick brown fox", 42), 3_575_930_248_840_144_026);
        assert_eq!(fast_hash32(b"ab", 0), 2_564_147_595);
    }

    proptest! {
        #[test]
        fn encoded_keys_sort_like_values(a in any::<(i64, Vec<u8>, i16)>(), b in any::<(i64, Vec<u8>, i16)>()) {
            let key = |value: &(i64, Vec<u8>, i16)| {
                let mut key = encoded(DataType::Int64, Cell::Int64(value.0), false);
                key.extend(encoded(DataType::Binary, Cell::Binary(&value.1), false));
                key.extend(encoded(DataType::Int16, Cell::Int16(value.2), true));
                key
            };
            prop_assert_eq!(key(&a).cmp(&key(&b)), a.cmp(&b));
        }
    }
}
