//! Neighbouring columns of integers as text: the cells of a row are put together before they are appended. Rows of many small
//! numbers are frequent, and each call for a cell is seen.

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

/// The values of neighbouring columns.
pub(super) struct Integers(Vec<(ScalarBuffer<i64>, Option<NullBuffer>)>);

impl Integers {
    /// Whether a column is one of integers that are written as text.
    pub(super) fn is_one(column: &Column) -> bool {
        matches!((&column.cells, column.format), (Cells::Int64(_), Format::Text))
            && column.of != PgType::Regproc
    }

    /// The values of such columns.
    pub(super) fn of(columns: Vec<Column>) -> Self {
        let values = columns.into_iter().filter_map(|column| match column.cells {
            Cells::Int64(values) => Some((values, column.nulls)),
            _ => None,
        });
        Self(values.collect())
    }

    /// Appends the cells of a row, each with its length.
    pub(super) fn write(&self, row: usize, out: &mut Vec<u8>) {
        let (mut together, mut end) = ([0; TOGETHER_BYTES], 0);
        for (values, nulls) in &self.0 {
            if end > TOGETHER_BYTES - CELL_BYTES_MAX {
                out.extend_from_slice(&together[..end]);
                end = 0;
            }
            let cell = &mut together[end..end + CELL_BYTES_MAX];
            end += match nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                true => {
                    cell[..LENGTH_BYTES].copy_from_slice(&NULL);
                    LENGTH_BYTES
                }
                false => put(values[row], cell),
            };
        }
        out.extend_from_slice(&together[..end]);
    }
}

/// Writes the length of a number's text, and the text. Returns how many bytes these are.
fn put(value: i64, cell: &mut [u8]) -> usize {
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
            let mut buffer = itoa::Buffer::new();
            let text = buffer.format(value).as_bytes();
            let end = LENGTH_BYTES + text.len();
            cell[..LENGTH_BYTES].copy_from_slice(&(text.len() as u32).to_be_bytes());
            cell[LENGTH_BYTES..end].copy_from_slice(text);
            end
        }
    }
}
