//! The batch of a keyed scan that is under way: columns to which rows are appended group by group.

use super::BATCH_ROWS;
use super::scan_spec::{ColumnSource, ScanSpec};
use crate::rows::byte_vec::ByteVec;
use crate::rows::column_buffer::{Column, Kind, Values};
use crate::rows::key;
use crate::rows::merge::RowBatch;
use arrow_array::ArrayRef;
use nyala_core::{ColumnType, Result};

/// Columns of the key that are asked for, decoded from keys.
pub(super) struct KeyColumns<'a> {
    types: &'a [ColumnType],
    /// By their positions, up to the last one that is asked for.
    columns: Vec<Option<Column>>,
}

impl<'a> KeyColumns<'a> {
    /// No rows yet.
    pub(super) fn new(types: &'a [ColumnType], is_wanted: impl Fn(usize) -> bool) -> Self {
        let count = (0..types.len()).rev().find(|position| is_wanted(*position)).map_or(0, |last| last + 1);
        let column = |position: usize| is_wanted(position).then(|| Column::new(Kind::of(types[position])));
        Self { types: &types[..count], columns: (0..count).map(column).collect() }
    }

    /// Whether no column is asked for.
    pub(super) fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Appends a key.
    pub(super) fn push(&mut self, key: &[u8]) {
        key::decode_into(key, self.types, &mut self.columns);
    }

    /// A column that was asked for.
    pub(super) fn column(&self, position: usize) -> &Column {
        self.columns[position].as_ref().expect("it was asked for")
    }

    /// The only column that was asked for.
    pub(super) fn into_column(mut self, position: usize) -> Column {
        self.columns[position].take().expect("it was asked for")
    }

    fn reserve(&mut self, rows: usize) {
        self.columns.iter_mut().flatten().for_each(|column| column.reserve(rows));
    }
}

/// Rows of a batch that is not full yet.
pub(super) struct PendingBatch<'a> {
    pub(super) rows: usize,
    pub(super) keys: KeyColumns<'a>,
    /// The columns outside the key.
    pub(super) columns: Vec<Column>,
}

impl<'a> PendingBatch<'a> {
    /// An empty one; if it will probably be full, with room.
    pub(super) fn new(spec: &ScanSpec, key_types: &'a [ColumnType], is_long: bool) -> Self {
        let is_shown = |position| spec.output.iter().any(|(place, _)| *place == ColumnSource::Key(position));
        let mut keys = KeyColumns::new(key_types, is_shown);
        let mut columns = spec.projection.empty_columns(spec.projection.kinds.len());
        if is_long {
            keys.reserve(BATCH_ROWS);
            columns.iter_mut().for_each(|column| column.reserve(BATCH_ROWS));
        }
        Self { rows: 0, keys, columns }
    }

    /// About how many bytes it takes.
    pub(super) fn bytes(&self) -> u64 {
        let strings = |column: &Column| match &column.values {
            Values::Bytes(strings) => strings.data.len(),
            _ => 0,
        };
        let all = || self.columns.iter().chain(self.keys.columns.iter().flatten());
        (self.rows * 8 * (1 + all().count()) + all().map(strings).sum::<usize>()) as u64
    }

    /// Appends rows that were merged.
    pub(super) fn append(&mut self, batch: &RowBatch<ByteVec>) {
        let columns = self.columns.iter_mut().zip(&batch.columns);
        columns.for_each(|(mine, theirs)| mine.extend(theirs, 0..batch.rows()));
        if !self.keys.is_empty() {
            (0..batch.rows()).for_each(|row| self.keys.push(batch.keys.get(row)));
        }
        self.rows += batch.rows();
    }

    /// The columns that a request asks for.
    pub(super) fn into_arrays(self, spec: &ScanSpec) -> Result<Vec<ArrayRef>> {
        let keys = self.keys;
        spec.arrays(self.columns, |position| keys.column(position).clone())
    }
}
