//! The versions of a row in a memtable. The cells of a version are one allocation: a row of a hundred texts would
//! otherwise be a hundred of them to make, and to free when the memtable goes.

use super::super::PreparedCells;
use crate::rows::column_buffer::{ABSENT, CellSource, Column, Kind, NULL, Values};
use nyala_core::ColumnId;

/// The length that stands for NULL: no string is so long.
const NULL_LENGTH: u32 = u32::MAX;
/// The id of a column and the length of its value.
const HEADER_BYTES: usize = 8;

/// The versions of a row. Most rows have one.
pub(super) struct RowVersions {
    newest: RowVersion,
    /// The others, by sequence.
    older: Vec<RowVersion>,
}

/// What a batch did to a row.
pub(super) struct RowVersion {
    pub(super) sequence: u64,
    /// `None`: the key was deleted.
    pub(super) cells: Option<PackedCells>,
}

/// Cells of a row: their number, the column and length of each, then their values.
pub(super) struct PackedCells(Box<[u8]>);

/// What a version says of a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Cell<'a> {
    Absent,
    Null,
    /// A little-endian word or wide, or bytes.
    Value(&'a [u8]),
}

impl RowVersions {
    pub(super) fn of(version: RowVersion) -> Self {
        Self { newest: version, older: Vec::new() }
    }

    /// Adds a version. One of the same sequence as another is taken for the newer one.
    pub(super) fn insert(&mut self, version: RowVersion) {
        if self.newest.sequence <= version.sequence {
            self.older.push(std::mem::replace(&mut self.newest, version));
            return;
        }
        let place = self.older.partition_point(|other| other.sequence <= version.sequence);
        self.older.insert(place, version);
    }

    /// All of them, by sequence.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &RowVersion> {
        self.older.iter().chain([&self.newest])
    }

    pub(super) fn are_many(&self) -> bool {
        !self.older.is_empty()
    }
}

impl PackedCells {
    /// The cells that a row was written with.
    pub(super) fn of(written: &[PreparedCells<'_>], row: usize) -> Self {
        let states =
            || written.iter().map(|cells| (cells, cells.state(row))).filter(|(_, state)| *state != ABSENT);
        let value_bytes = |(cells, state): (&PreparedCells<'_>, u8)| match state {
            NULL => 0,
            _ => value_length(&cells.source, row),
        };
        let (count, bytes) = states().fold((0, 0), |(count, bytes), of| (count + 1, bytes + value_bytes(of)));
        let mut packed = Vec::with_capacity(size_of::<u32>() + count * HEADER_BYTES + bytes);
        packed.extend_from_slice(&(count as u32).to_le_bytes());
        for (cells, state) in states() {
            let length = if state == NULL { NULL_LENGTH } else { value_length(&cells.source, row) as u32 };
            packed.extend_from_slice(&cells.column.0.to_le_bytes());
            packed.extend_from_slice(&length.to_le_bytes());
        }
        for (cells, _) in states().filter(|(_, state)| *state != NULL) {
            match cells.source.kind() {
                Kind::Word => packed.extend_from_slice(&cells.source.word(row).to_le_bytes()),
                Kind::Wide => packed.extend_from_slice(&cells.source.wide(row).to_le_bytes()),
                Kind::Bytes => packed.extend_from_slice(cells.source.bytes(row)),
            }
        }
        Self(packed.into_boxed_slice())
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.0.len() as u64
    }

    /// Each cell with its column.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ColumnId, Cell<'_>)> {
        let u32_at = |at: usize| u32::from_le_bytes(self.0[at..at + 4].try_into().expect("four bytes"));
        let count = u32_at(0) as usize;
        let mut end = size_of::<u32>() + count * HEADER_BYTES;
        (0..count).map(move |number| {
            let header = size_of::<u32>() + number * HEADER_BYTES;
            let column = ColumnId(u32_at(header));
            let cell = match u32_at(header + 4) {
                NULL_LENGTH => Cell::Null,
                length => {
                    let start = end;
                    end += length as usize;
                    Cell::Value(&self.0[start..end])
                }
            };
            (column, cell)
        })
    }

    /// The cell of a column.
    pub(super) fn find(&self, column: ColumnId) -> Cell<'_> {
        self.iter().find(|(id, _)| *id == column).map_or(Cell::Absent, |(_, cell)| cell)
    }
}

impl Cell<'_> {
    /// Appends it to a column of its kind.
    pub(super) fn push_to(self, column: &mut Column) {
        match self {
            Cell::Absent => column.push_state(ABSENT, 1),
            Cell::Null => column.push_state(NULL, 1),
            Cell::Value(bytes) => {
                match column.values {
                    Values::Word(_) => column
                        .push_word(u64::from_le_bytes(bytes.try_into().expect("a word has eight bytes"))),
                    Values::Wide(_) => column
                        .push_wide(i128::from_le_bytes(bytes.try_into().expect("a wide has sixteen bytes"))),
                    Values::Bytes(_) => column.push_bytes(bytes),
                }
            }
        }
    }

    /// The bytes of its value.
    pub(super) fn length(self) -> usize {
        match self {
            Cell::Value(bytes) => bytes.len(),
            _ => 0,
        }
    }
}

fn value_length(source: &CellSource<'_>, row: usize) -> usize {
    match source.kind() {
        Kind::Word => size_of::<u64>(),
        Kind::Wide => size_of::<i128>(),
        Kind::Bytes => source.bytes(row).len(),
    }
}
