//! Shapes: which columns a row of a series memtable has cells of.
//!
//! Rows store only the values that they have, so an absent cell costs nothing; the shape says where each value is. Rows
//! written by one client tend to share one shape.

use crate::files::schema_format::SEQUENCE_COLUMN;
use crate::rows::column_buffer::{ABSENT, NULL, VALUE};
use hashbrown::HashMap;
use nyala_core::{ColumnId, ColumnType};
use std::sync::Arc;

/// Words of a row before its values: time and sequence.
pub(super) const ROW_WORDS: usize = 2;
/// Up to so many columns are searched one by one instead of in a hash table.
const FEW_COLUMNS: usize = 16;

/// The cells of a row.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    /// The row hides older ones of its key and has no cells.
    pub(crate) deletes: bool,
    /// The columns with a value, in the order of their words.
    pub(crate) values: Vec<ColumnId>,
    /// The columns set to NULL.
    pub(crate) nulls: Vec<ColumnId>,
}

/// Where a wanted column is in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CellLocation {
    /// In this word.
    Word(usize),
    /// It is the sequence of the row.
    Sequence,
    /// Nowhere: this is its state.
    State(u8),
}

impl Shape {
    /// Replaces `into` by the locations of the cells of some columns.
    pub(crate) fn look_up(&self, columns: &[(ColumnId, ColumnType)], into: &mut Vec<CellLocation>) {
        into.clear();
        if columns.len().min(self.values.len() + self.nulls.len()) <= FEW_COLUMNS {
            return into.extend(columns.iter().map(|(column, _)| self.place(*column)));
        }
        let values = self.values.iter().enumerate().map(|(word, column)| (*column, CellLocation::Word(word)));
        let nulls = self.nulls.iter().map(|column| (*column, CellLocation::State(NULL)));
        let locations: HashMap<ColumnId, CellLocation> = nulls.chain(values).collect();
        let place = |column: &ColumnId| match locations.get(column) {
            Some(location) => *location,
            None if *column == SEQUENCE_COLUMN => CellLocation::Sequence,
            None => CellLocation::State(ABSENT),
        };
        into.extend(columns.iter().map(|(column, _)| place(column)));
    }

    /// Where a column's cell is.
    fn place(&self, column: ColumnId) -> CellLocation {
        if let Some(position) = self.values.iter().position(|id| *id == column) {
            return CellLocation::Word(position);
        }
        match column {
            SEQUENCE_COLUMN => CellLocation::Sequence,
            _ => CellLocation::State(if self.nulls.contains(&column) { NULL } else { ABSENT }),
        }
    }
}

/// The shapes of a memtable by number.
#[derive(Default, Clone)]
pub(crate) struct Shapes {
    by_number: Vec<Arc<Shape>>,
    numbers: HashMap<Arc<Shape>, u32>,
}

impl Shapes {
    pub(crate) fn number(&mut self, shape: Shape) -> u32 {
        if let Some(number) = self.numbers.get(&shape) {
            return *number;
        }
        let (number, shape) = (self.by_number.len() as u32, Arc::new(shape));
        self.by_number.push(shape.clone());
        self.numbers.insert(shape, number);
        number
    }

    pub(crate) fn get(&self, number: u32) -> &Arc<Shape> {
        &self.by_number[number as usize]
    }
}

/// The shape of a row whose cells have these states.
pub(crate) fn shape_of(columns: &[ColumnId], states: &[u8]) -> Shape {
    let with = |state| columns.iter().zip(states).filter(move |(_, s)| **s == state).map(|(id, _)| *id);
    Shape { deletes: false, values: with(VALUE).collect(), nulls: with(NULL).collect() }
}
