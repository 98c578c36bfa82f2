//! Counts and checksums of rows by day, by which source and target are compared.
//!
//! A checksum is the sum of the hashes of all rows, keys included, so it does not depend on the order in which rows are read.
//! Both sides are hashed by the same process, so the hash need not be the same in another version.

use super::columns::Columns;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampNanosecondType, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType};
use arrow_schema::DataType;
use foldhash::quality::FixedState;
use nyala_core::Result;
use nyala_core::store::RowStream;
use nyala_core::time::civil_date;
use std::collections::BTreeMap;
use std::hash::BuildHasher;

const DAY_NS: i64 = 24 * 3_600 * 1_000_000_000;

/// A day, counted from 1970-01-01; `None` in a table whose rows have no time.
pub(super) type Day = Option<i64>;

/// Rows of a day.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) rows: u64,
    pub(super) checksum: u64,
}

/// Rows by day.
pub(super) type Tallies = BTreeMap<Day, Tally>;

/// Adds the rows of a stream.
pub(super) async fn add(
    tallies: &mut Tallies,
    columns: &Columns,
    mut stream: Box<dyn RowStream>,
    watch: &mut (dyn FnMut(u64) + Send),
) -> Result<()> {
    let state = FixedState::default();
    while let Some(batch) = stream.next().await? {
        let rows = batch.rows;
        let arrays = columns.arrays(batch);
        let mut hashes = vec![0; rows];
        arrays.iter().for_each(|array| mix(&state, &mut hashes, array));
        match columns.times_ns(&arrays) {
            None => add_rows(tallies.entry(None).or_default(), &hashes),
            Some(times_ns) => {
                let mut begin = 0;
                while begin < rows {
                    let day = times_ns[begin].div_euclid(DAY_NS);
                    let is_other = |time_ns: &i64| time_ns.div_euclid(DAY_NS) != day;
                    let count = times_ns[begin..].iter().position(is_other).unwrap_or(rows - begin);
                    add_rows(tallies.entry(Some(day)).or_default(), &hashes[begin..begin + count]);
                    begin += count;
                }
            }
        }
        watch(rows as u64);
    }
    Ok(())
}

fn add_rows(tally: &mut Tally, hashes: &[u64]) {
    tally.rows += hashes.len() as u64;
    tally.checksum = hashes.iter().fold(tally.checksum, |sum, hash| sum.wrapping_add(*hash));
}

/// Adds a column to the hashes of rows.
fn mix(state: &FixedState, hashes: &mut [u64], array: &ArrayRef) {
    macro_rules! primitive {
        ($type:ty, $bits:expr) => {
            mix_primitive::<$type, _>(state, hashes, array, $bits)
        };
    }
    match array.data_type() {
        DataType::Boolean => {
            let values = array.as_boolean();
            mix_cells(state, hashes, array, |row| values.value(row));
        }
        DataType::Int8 => primitive!(Int8Type, |value| value),
        DataType::Int16 => primitive!(Int16Type, |value| value),
        DataType::Int32 => primitive!(Int32Type, |value| value),
        DataType::Date32 => primitive!(Date32Type, |value| value),
        DataType::Int64 => primitive!(Int64Type, |value| value),
        DataType::UInt32 => primitive!(UInt32Type, |value| value),
        DataType::UInt64 => primitive!(UInt64Type, |value| value),
        DataType::Float32 => primitive!(Float32Type, f32::to_bits),
        DataType::Float64 => primitive!(Float64Type, f64::to_bits),
        DataType::Decimal128(..) => primitive!(Decimal128Type, |value| value),
        DataType::Timestamp(..) => primitive!(TimestampNanosecondType, |value| value),
        DataType::Utf8 => {
            let values = array.as_string::<i32>();
            mix_cells(state, hashes, array, |row| values.value(row));
        }
        DataType::Binary => {
            let values = array.as_binary::<i32>();
            mix_cells(state, hashes, array, |row| values.value(row));
        }
        other => unreachable!("no column has type {other}"),
    }
}

fn mix_primitive<T: ArrowPrimitiveType, B: std::hash::Hash>(
    state: &FixedState,
    hashes: &mut [u64],
    array: &ArrayRef,
    bits: impl Fn(T::Native) -> B,
) {
    let values = array.as_primitive::<T>();
    mix_cells(state, hashes, array, |row| bits(values.value(row)));
}

fn mix_cells<H: std::hash::Hash>(
    state: &FixedState,
    hashes: &mut [u64],
    array: &ArrayRef,
    cell: impl Fn(usize) -> H,
) {
    for (row, hash) in hashes.iter_mut().enumerate() {
        let cell = array.is_valid(row).then(|| cell(row));
        *hash = state.hash_one((*hash, cell));
    }
}

/// A day as people write it.
pub(super) fn shown(day: Day) -> String {
    match day {
        None => "all rows".to_owned(),
        Some(day) => {
            let (year, month, day) = civil_date(day);
            format!("{year:04}-{month:02}-{day:02}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Float64Array, Int64Array, StringArray};
    use std::sync::Arc;

    fn hash(arrays: &[ArrayRef]) -> u64 {
        let mut hashes = vec![0; arrays[0].len()];
        arrays.iter().for_each(|array| mix(&FixedState::default(), &mut hashes, array));
        let mut tally = Tally::default();
        add_rows(&mut tally, &hashes);
        tally.checksum
    }

    #[test]
    fn a_checksum_knows_every_cell_and_no_order() {
        let numbers = |values: &[Option<i64>]| -> ArrayRef { Arc::new(Int64Array::from(values.to_vec())) };
        let texts = |values: [&str; 2]| -> ArrayRef { Arc::new(StringArray::from(values.to_vec())) };
        let own = hash(&[numbers(&[Some(1), None]), texts(["a", "b"])]);
        assert_eq!(own, hash(&[numbers(&[None, Some(1)]), texts(["b", "a"])]));
        assert_ne!(own, hash(&[numbers(&[Some(1), None]), texts(["b", "a"])]), "cells are of their rows");
        assert_ne!(own, hash(&[numbers(&[Some(1), Some(0)]), texts(["a", "b"])]), "NULL is not 0");
        let floats = |value: f64| -> ArrayRef { Arc::new(Float64Array::from(vec![value])) };
        assert_ne!(hash(&[floats(0.0)]), hash(&[floats(-0.0)]));
    }
}
