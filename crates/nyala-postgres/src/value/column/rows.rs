//! The rows of a batch, written one after the other.
//!
//! Tags come as dictionaries, and rows of one series follow each other. So neighbouring columns that are dictionaries are
//! written once and copied, as long as none of them changes.

use super::{Cells, Column, Keys};
use crate::error::Failure;

/// Writes rows of a batch.
pub struct RowWriter {
    parts: Vec<Part>,
    columns: usize,
}

/// Neighbouring columns that are written in the same way.
enum Part {
    One(Column),
    Repeated(Repeated),
}

/// Columns that rarely change from row to row.
struct Repeated {
    columns: Vec<Column>,
    /// By row whether a cell differs from that of the row before.
    changes: Vec<bool>,
    /// The row that was written last, and its cells.
    last: Option<usize>,
    cells: Vec<u8>,
}

impl RowWriter {
    /// What writes rows of these columns, of which there are so many.
    pub fn of(columns: Vec<Column>, rows: usize) -> Self {
        let count = columns.len();
        let mut parts: Vec<Part> = Vec::with_capacity(count);
        for column in columns {
            match (&column.cells, parts.last_mut()) {
                (Cells::Dictionary(..), Some(Part::Repeated(repeated))) => repeated.add(column),
                (Cells::Dictionary(..), _) => parts.push(Part::Repeated(Repeated::of(column, rows))),
                _ => parts.push(Part::One(column)),
            }
        }
        Self { parts, columns: count }
    }

    /// How many columns there are.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Appends the cells of a row, each with its length.
    pub fn write(&mut self, row: usize, out: &mut Vec<u8>) -> Result<(), Failure> {
        self.parts.iter_mut().try_for_each(|part| match part {
            Part::One(column) => column.write(row, out),
            Part::Repeated(repeated) => repeated.write(row, out),
        })
    }
}

impl Repeated {
    fn of(column: Column, rows: usize) -> Self {
        let mut changes = vec![false; rows];
        column.mark_changes(&mut changes);
        Self { columns: vec![column], changes, last: None, cells: Vec::new() }
    }

    fn add(&mut self, column: Column) {
        column.mark_changes(&mut self.changes);
        self.columns.push(column);
    }

    fn write(&mut self, row: usize, out: &mut Vec<u8>) -> Result<(), Failure> {
        let is_same = self.last.is_some_and(|last| last + 1 == row) && !self.changes[row];
        if !is_same {
            self.cells.clear();
            self.columns.iter().try_for_each(|column| column.write(row, &mut self.cells))?;
        }
        self.last = Some(row);
        out.extend_from_slice(&self.cells);
        Ok(())
    }
}

impl Column {
    /// Marks the rows in which a cell of a dictionary may differ from that of the row before.
    fn mark_changes(&self, changes: &mut [bool]) {
        if let Cells::Dictionary(keys, _) = &self.cells {
            keys.mark_changes(changes);
        }
        if let Some(nulls) = &self.nulls {
            let marked = changes.iter_mut().enumerate().skip(1);
            marked.for_each(|(row, change)| *change |= nulls.is_null(row) != nulls.is_null(row - 1));
        }
    }
}

impl Keys {
    fn mark_changes(&self, changes: &mut [bool]) {
        fn mark<K: PartialEq>(keys: &[K], changes: &mut [bool]) {
            let pairs = keys.windows(2).zip(changes.iter_mut().skip(1));
            pairs.for_each(|(pair, change)| *change |= pair[0] != pair[1]);
        }
        match self {
            Keys::Int8(keys) => mark(keys, changes),
            Keys::Int16(keys) => mark(keys, changes),
            Keys::Int32(keys) => mark(keys, changes),
            Keys::Int64(keys) => mark(keys, changes),
            Keys::UInt8(keys) => mark(keys, changes),
            Keys::UInt16(keys) => mark(keys, changes),
            Keys::UInt32(keys) => mark(keys, changes),
            Keys::UInt64(keys) => mark(keys, changes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Format;
    use crate::value::types::ColumnType;
    use arrow_array::types::Int32Type;
    use arrow_array::{Array, ArrayRef, DictionaryArray, Int32Array, Int64Array, StringArray};
    use arrow_schema::Field;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};
    use std::sync::Arc;

    fn dictionary(random: &mut SmallRng, rows: usize) -> ArrayRef {
        let mut key = 0;
        let keys = (0..rows).map(|_| {
            if random.random_bool(0.1) {
                key = random.random_range(0..4);
            }
            random.random_bool(0.95).then_some(key)
        });
        let keys: Int32Array = keys.collect();
        let values = StringArray::from(vec![Some("one"), None, Some(""), Some("four")]);
        Arc::new(DictionaryArray::<Int32Type>::try_new(keys, Arc::new(values)).expect("keys are in range"))
    }

    #[test]
    fn rows_are_what_their_cells_are() {
        for seed in 0..50 {
            let random = &mut SmallRng::seed_from_u64(seed);
            let rows = 40;
            let numbers: Int64Array =
                (0..rows).map(|_| random.random_bool(0.9).then(|| random.random_range(-200..1200))).collect();
            let arrays: Vec<ArrayRef> = vec![
                dictionary(random, rows),
                dictionary(random, rows),
                Arc::new(numbers),
                dictionary(random, rows),
            ];
            let columns = |arrays: &[ArrayRef]| -> Vec<Column> {
                let of = |array: &ArrayRef| {
                    let field = Field::new("c", array.data_type().clone(), true);
                    let column_type = ColumnType::of_field(&field).expect("it has a type");
                    Column::of(array, column_type, Format::Text).expect("it can be sent")
                };
                arrays.iter().map(of).collect()
            };
            let first = random.random_range(0..10);
            let sliced: Vec<ArrayRef> = arrays.iter().map(|own| own.slice(first, rows - first)).collect();
            let mut writer = RowWriter::of(columns(&sliced), rows - first);
            for row in (0..rows - first).filter(|_| random.random_bool(0.9)) {
                let (mut written, mut expected) = (Vec::new(), Vec::new());
                writer.write(row, &mut written).expect("it is written");
                let cells = columns(&arrays);
                cells.iter().for_each(|own| own.write(first + row, &mut expected).expect("it is written"));
                assert_eq!(written, expected, "seed {seed}, row {row}");
            }
        }
    }
}
