//! A row of a rowset as the cache keeps it, without the group that it is in. Where rows are long, a group has many bytes for
//! each row that is asked for again, and ten columns are ten blocks to be parsed.
//!
//! ```text
//! key | values of the columns that were read, one after the other: words and wide values in little-endian bytes
//! ```

use crate::rows::column_buffer::{Column, Kind, VALUE, Values};
use crate::rows::projection::Projection;
use nyala_core::{ColumnId, ColumnType};

/// Longer ones are read from their groups.
const BYTES_MAX: usize = 16 << 10;

/// What the bytes of a row are.
#[derive(Debug)]
pub(crate) struct CachedRowLayout {
    marker: u8,
    key_bytes: usize,
    cells: Box<[CachedCell]>,
}

#[derive(Debug, Clone, Copy)]
struct CachedCell {
    column: (ColumnId, ColumnType),
    state: u8,
    /// Where its value ends.
    end: u32,
}

impl CachedRowLayout {
    /// A row with the cells of a projection, each in a column of its own, and its bytes. Nothing if it is long.
    pub(crate) fn of(
        key: &[u8],
        marker: u8,
        projection: &Projection,
        cells: &[Column],
    ) -> Option<(Self, Vec<u8>)> {
        let bytes_of_values: usize = cells.iter().map(|cell| 16 + cell.string_bytes(0..1)).sum();
        if key.len() + bytes_of_values > BYTES_MAX {
            return None;
        }
        let mut bytes = Vec::with_capacity(key.len() + bytes_of_values);
        bytes.extend_from_slice(key);
        let cell = |(column, cell): (&(ColumnId, ColumnType), &Column)| {
            let state = cell.state(0);
            match &cell.values {
                _ if state != VALUE => {}
                Values::Word(words) => bytes.extend_from_slice(&words[0].to_le_bytes()),
                Values::Wide(wides) => bytes.extend_from_slice(&wides[0].to_le_bytes()),
                Values::Bytes(values) => bytes.extend_from_slice(values.get(0)),
            }
            CachedCell { column: *column, state, end: bytes.len() as u32 }
        };
        let cells = projection.columns.iter().zip(cells).map(cell).collect();
        bytes.shrink_to_fit();
        Some((Self { marker, key_bytes: key.len(), cells }, bytes))
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.cells.len() * size_of::<CachedCell>()
    }

    /// The row of a key that was read with all columns of a projection; `None` if this is not it.
    pub(crate) fn attach<'a>(
        &'a self,
        bytes: &'a [u8],
        key: &[u8],
        projection: &Projection,
    ) -> Option<CachedRow<'a>> {
        let row = CachedRow { layout: self, bytes };
        let has_all = |(place, column): (usize, &(ColumnId, ColumnType))| row.find(place, *column).is_some();
        let is_it = &bytes[..self.key_bytes] == key && projection.columns.iter().enumerate().all(has_all);
        is_it.then_some(row)
    }
}

/// A row.
#[derive(Clone, Copy)]
pub(crate) struct CachedRow<'a> {
    layout: &'a CachedRowLayout,
    bytes: &'a [u8],
}

impl CachedRow<'_> {
    pub(crate) fn marker(&self) -> u8 {
        self.layout.marker
    }

    /// Appends the cell of a column, which the row has, to a column. It is mostly at the place that it has in the projection.
    pub(crate) fn push_to(&self, place: usize, column: (ColumnId, ColumnType), values: &mut Column) {
        let position = self.find(place, column).expect("the row has all columns of the projection");
        let CachedCell { state, end, .. } = self.layout.cells[position];
        if state != VALUE {
            values.push_state(state, 1);
            return;
        }
        let before = position.checked_sub(1).map(|before| self.layout.cells[before].end as usize);
        let value = &self.bytes[before.unwrap_or(self.layout.key_bytes)..end as usize];
        match Kind::of(column.1) {
            Kind::Bytes => values.push_bytes(value),
            Kind::Word => values.push_word(u64::from_le_bytes(*value.first_chunk().expect("8 bytes"))),
            Kind::Wide => values.push_wide(i128::from_le_bytes(*value.first_chunk().expect("16 bytes"))),
        }
    }

    fn find(&self, place: usize, column: (ColumnId, ColumnType)) -> Option<usize> {
        let cells = &self.layout.cells;
        match cells.get(place) {
            Some(cell) if cell.column == column => Some(place),
            _ => cells.iter().position(|cell| cell.column == column),
        }
    }
}
