//! Validity: whether each row of a column has a value, NULL, or nothing.
//!
//! *Absent* (a write did not name the cell) is not *NULL* (a write set the cell to NULL). A column's values are stored
//! densely: only rows with a value take space. This block says which rows these are, and translates between row
//! numbers and value numbers. A column without gaps costs five bytes here.
//!
//! Bytes: version, kind, count (u16), bits "has a value"; unless these are uniformly true, bits "is NULL".

use std::ops::Range;

use crate::bitmap::Bitmap;
use crate::bits::{Bits, push_bits};
use crate::directory::{Kind, parse_start, push_start};
use crate::error::{CorruptBlock, Result, ensure};

/// What a row of the column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CellState {
    /// No write named it.
    #[default]
    Absent,
    /// It was set to NULL.
    Null,
    /// It has a value.
    Value,
}

/// Appends a block of `states` (at most 8192) to `out`.
///
/// # Panics
/// If there are too many states.
pub fn encode_validity(states: &[CellState], out: &mut Vec<u8>) {
    push_start(out, Kind::States, states.len());
    let bits = |state| states.iter().map(|other| *other == state).collect::<Bitmap>();
    let values = bits(CellState::Value);
    push_bits(&values, out);
    if values.is_empty() || values.count_ones() < values.len() {
        push_bits(&bits(CellState::Null), out);
    }
}

/// A parsed block of validity. Rows beyond the block are a caller's bug and panic.
#[derive(Debug, Clone, Copy)]
pub struct ValidityBlock<'a> {
    count: u32,
    values: Bits<'a>,
    nulls: Option<Bits<'a>>,
}

impl<'a> ValidityBlock<'a> {
    /// Checks everything: reading afterwards cannot fail.
    pub fn parse(block: &'a [u8]) -> Result<Self> {
        let (count, mut reader) = parse_start(block, Kind::States)?;
        let values = Bits::parse(&mut reader, count)?;
        let nulls = match values.uniform() {
            Some(true) => None,
            _ => Some(Bits::parse(&mut reader, count)?),
        };
        ensure(reader.rest().is_empty(), "bytes after the cell states")?;
        let states = Self { count, values, nulls };
        states.check_disjoint()?;
        Ok(states)
    }

    fn check_disjoint(&self) -> Result<()> {
        let Some(nulls) = self.nulls else { return Ok(()) };
        if self.values.uniform() == Some(false) || nulls.uniform() == Some(false) {
            return Ok(());
        }
        let (mut values, mut null_rows) = (Bitmap::new(), Bitmap::new());
        self.values.decode(0..self.count, &mut values);
        nulls.decode(0..self.count, &mut null_rows);
        values.and(&null_rows);
        if values.count_ones() > 0 { Err(CorruptBlock::new("cell with a value and NULL")) } else { Ok(()) }
    }

    /// Rows in the block.
    pub fn len(&self) -> u32 {
        self.count
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether every row has a value: row numbers are value numbers.
    pub fn is_dense(&self) -> bool {
        self.values.uniform() == Some(true) || self.count == 0
    }

    /// The value number of the first value at or after `row`, which is the number of values before it.
    pub fn rank(&self, row: u32) -> u32 {
        if self.is_dense() { row } else { self.values.count_ones(0..row) }
    }

    /// Appends the value bounds of windows whose row bounds are `bounds`, which do not fall.
    pub fn rank_bounds(&self, bounds: &[u32], out: &mut Vec<u32>) {
        if self.is_dense() {
            out.extend_from_slice(bounds);
            return;
        }
        let (mut row, mut rank) = (0, 0);
        for bound in bounds {
            rank += self.values.count_ones(row..*bound);
            row = *bound;
            out.push(rank);
        }
    }

    fn values(&self, rows: Range<u32>, out: &mut Bitmap) {
        self.values.decode(rows, out);
    }

    fn nulls(&self, rows: Range<u32>, out: &mut Bitmap) {
        match self.nulls {
            Some(nulls) => nulls.decode(rows, out),
            None => out.extend_filled(rows.len(), false),
        }
    }

    /// Appends the states of `rows`.
    pub fn decode_range(&self, rows: Range<u32>, out: &mut Vec<CellState>) {
        if self.is_dense() {
            out.resize(out.len() + rows.len(), CellState::Value);
            return;
        }
        let (mut values, mut nulls) = (Bitmap::new(), Bitmap::new());
        self.values(rows.clone(), &mut values);
        self.nulls(rows.clone(), &mut nulls);
        out.extend((0..rows.len()).map(|row| match (values.get(row), nulls.get(row)) {
            (true, _) => CellState::Value,
            (false, true) => CellState::Null,
            (false, false) => CellState::Absent,
        }));
    }
}
