//! The keys of many points, encoded: they are kept for as long as a stage is open, beside loads of millions of rows a second.

use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampNanosecondType, UInt32Type};
use arrow_array::{Array, ArrayRef};
use nyala_column::{BLOCK_VALUES, IntegerBlock, Preference, Scratch, encode_integers};
use nyala_core::{Result, SeriesId};

/// Series and times of points, in the order in which they were written.
pub(crate) struct EncodedPoints {
    /// For each block of rows the series, and then the times.
    blocks: Vec<[Box<[u8]>; 2]>,
}

impl EncodedPoints {
    /// Encodes the key columns of a table of series.
    pub(crate) fn of(keys: &[ArrayRef]) -> Self {
        let series = keys[0].as_primitive::<UInt32Type>().values();
        let times_ns = keys[1].as_primitive::<TimestampNanosecondType>().values();
        let mut scratch = Scratch::new();
        let mut encode = |values: &[i64]| {
            let mut out = Vec::new();
            encode_integers(values, &[], Preference::Balanced, &mut scratch, &mut out);
            out.into_boxed_slice()
        };
        let mut blocks = Vec::with_capacity(keys[0].len().div_ceil(BLOCK_VALUES));
        for (series, times_ns) in series.chunks(BLOCK_VALUES).zip(times_ns.chunks(BLOCK_VALUES)) {
            let ids: Vec<i64> = series.iter().map(|id| i64::from(*id)).collect();
            blocks.push([encode(&ids), encode(times_ns)]);
        }
        Self { blocks }
    }

    /// What they take in memory.
    pub(crate) fn bytes(&self) -> u64 {
        let of_block = |block: &[Box<[u8]>; 2]| (size_of_val(block) + block[0].len() + block[1].len()) as u64;
        self.blocks.iter().map(of_block).sum()
    }

    /// Visits each point.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(SeriesId, i64) -> Result<()>) -> Result<()> {
        let (mut series, mut times_ns) = (Vec::new(), Vec::new());
        for [encoded_series, encoded_times] in &self.blocks {
            decode(encoded_series, &mut series);
            decode(encoded_times, &mut times_ns);
            for (id, time_ns) in series.iter().zip(&times_ns) {
                visit(SeriesId(*id as u32), *time_ns)?;
            }
        }
        Ok(())
    }
}

fn decode(encoded: &[u8], out: &mut Vec<i64>) {
    out.clear();
    let decoded = IntegerBlock::parse(encoded).and_then(|block| block.decode_range(0..block.len(), out));
    decoded.expect("it was encoded above");
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{TimestampNanosecondArray, UInt32Array};
    use std::sync::Arc;

    #[test]
    fn points_come_back_as_they_were_and_are_small() {
        let ids = |row: u32| if row.is_multiple_of(7) { u32::MAX } else { row % 4000 };
        let time_ns = |row: u32| i64::from(row / 4000) * 10_000_000_000 - if row == 9 { i64::MAX } else { 0 };
        let rows = 20_000;
        let keys: Vec<ArrayRef> = vec![
            Arc::new(UInt32Array::from_iter_values((0..rows).map(ids))),
            Arc::new(TimestampNanosecondArray::from_iter_values((0..rows).map(time_ns))),
        ];
        let encoded = EncodedPoints::of(&keys);
        let mut row = 0;
        let visited = encoded.for_each(|series, time| {
            assert_eq!((series.0, time), (ids(row), time_ns(row)));
            row += 1;
            Ok(())
        });
        visited.expect("they can be decoded");
        assert_eq!(row, rows);
        assert!(encoded.bytes() < u64::from(rows) * 4, "{}", encoded.bytes());
    }
}
