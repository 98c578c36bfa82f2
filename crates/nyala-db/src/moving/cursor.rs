//! The rows of a scan, one after the other in the order of their keys.

use super::columns::Columns;
use arrow_array::{Array, ArrayRef};
use nyala_core::arrays::value_at;
use nyala_core::store::RowStream;
use nyala_core::{Result, Value};

/// A place among the rows of a scan.
pub(super) struct Cursor<'a> {
    columns: &'a Columns,
    stream: Option<Box<dyn RowStream>>,
    /// The batch of the current row; empty at the end.
    pub(super) arrays: Vec<ArrayRef>,
    pub(super) row: usize,
    /// The key of the current row.
    key: Vec<Value>,
}

impl<'a> Cursor<'a> {
    /// Stands before the first row until [`Self::next_batch`] is called.
    pub(super) fn new(columns: &'a Columns, stream: Box<dyn RowStream>) -> Self {
        Self { columns, stream: Some(stream), arrays: Vec::new(), row: 0, key: Vec::new() }
    }

    /// The rows of the batch.
    pub(super) fn rows(&self) -> usize {
        self.arrays.first().map_or(0, |array| array.len())
    }

    /// Goes to the first row of the next batch. Returns whether there is one.
    pub(super) async fn next_batch(&mut self) -> Result<bool> {
        let next = match &mut self.stream {
            Some(stream) => stream.next().await?,
            None => None,
        };
        self.row = 0;
        match next {
            Some(batch) => {
                self.arrays = self.columns.arrays(batch);
                self.read_key();
                Ok(true)
            }
            None => {
                self.stream = None;
                self.arrays.clear();
                Ok(false)
            }
        }
    }

    /// The key of the current row, if the batch has one.
    pub(super) fn key(&self) -> Option<&[Value]> {
        (self.row < self.rows()).then_some(&self.key[..])
    }

    /// Goes to the next row of the batch, or behind its end.
    pub(super) fn advance(&mut self) {
        self.row += 1;
        self.read_key();
    }

    fn read_key(&mut self) {
        self.key.clear();
        if self.row < self.rows() {
            let keys = &self.arrays[..self.columns.keys()];
            self.key.extend(keys.iter().filter_map(|array| value_at(array, self.row)));
        }
    }
}
