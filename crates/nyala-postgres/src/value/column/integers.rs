//! Neighbouring columns of integers as text: the cells of a row are put together before they are appended. Rows of many small
//! numbers are frequent, and each call for a cell is seen. A long number is often that of the row before, such as `time_ns` of
//! rows in order of time.

use super::{Cells, Column, Format};
use crate::value::types::PgType;
use arrow_buffer::{NullBuffer, ScalarBuffer};

/// The bytes of a length.
const LENGTH_BYTES: usize = 4;
/// The longest cell: a length, a sign and 19 digits.
const CELL_BYTES_MAX: usize = LENGTH_BYTES + 20;
/// The cells that are put together.
const TOGETHER_BYTES: usize = 16 * CELL_BYTES_MAX;
/// The length of NULL.
const NULL: [u8; LENGTH_BYTES] = [0xff; LENGTH_BYTES];

/// Neighbouring columns.
pub(super) struct Integers(Vec<OneColumn>);

struct OneColumn {
    values: ScalarBuffer<i64>,
    nulls: Option<NullBuffer>,
    /// The long number that was written last, and its cell.
    last: i64,
    cell: [u8; CELL_BYTES_MAX],
    cell_bytes: usize,
}

impl Integers {
    /// Whether a column is one of integers that are written as text.
    pub(super) fn is_one(column: &Column) -> bool {
        matches!((&column.cells, column.format), (Cells::Int64(_), Format::Text))
            && column.of != PgType::Regproc
    }

    /// The values of such columns.
    pub(super) fn of(columns: Vec<Column>) -> Self {
        let values = columns.into_iter().filter_map(|column| match column.cells {
            Cells::Int64(values) => {
                let (nulls, cell) = (column.nulls, [0; CELL_BYTES_MAX]);
                Some(OneColumn { values, nulls, last: 0, cell, cell_bytes: 0 })
            }
            _ => None,
        });
        Self(values.collect())
    }

    /// Appends the cells of a row, each with its length.
    pub(super) fn write(&mut self, row: usize, out: &mut Vec<u8>) {
        let (mut together, mut end) = ([0; TOGETHER_BYTES], 0);
        for column in &mut self.0 {
            if end > TOGETHER_BYTES - CELL_BYTES_MAX {
                out.extend_from_slice(&together[..end]);
                end = 0;
            }
            let cell = &mut together[end..end + CELL_BYTES_MAX];
            end += column.put(row, cell);
        }
        out.extend_from_slice(&together[..end]);
    }
}

impl OneColumn {
    /// Writes a cell: the length of a number's text, and the text. Returns how many bytes these are.
    fn put(&mut self, row: usize, cell: &mut [u8]) -> usize {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            cell[..LENGTH_BYTES].copy_from_slice(&NULL);
            return LENGTH_BYTES;
        }
        let value = self.values[row];
        match u8::try_from(value) {
            Ok(small @ 0..10) => {
                cell[..5].copy_from_slice(&[0, 0, 0, 1, b'0' + small]);
                5
            }
            Ok(small @ 10..100) => {
                cell[..6].copy_from_slice(&[0, 0, 0, 2, b'0' + small / 10, b'0' + small % 10]);
                6
            }
            _ => {
                if self.cell_bytes == 0 || value != self.last {
                    self.note(value);
                }
                cell.copy_from_slice(&self.cell);
                self.cell_bytes
            }
        }
    }

    fn note(&mut self, value: i64) {
        let mut buffer = itoa::Buffer::new();
        let text = buffer.format(value).as_bytes();
        self.last = value;
        self.cell_bytes = LENGTH_BYTES + text.len();
        self.cell[..LENGTH_BYTES].copy_from_slice(&(text.len() as u32).to_be_bytes());
        self.cell[LENGTH_BYTES..self.cell_bytes].copy_from_slice(text);
    }
}
