//! Sheets: a table of series with many columns is several tables of Kudu, because one has 300 columns at most.
//!
//! Each sheet has the key and 256 columns by their ids, those of dropped columns among them. The first sheet has every row. The
//! others have a row if a cell of theirs was written, and a range of time if one of its rows has such a cell: the log says
//! which. Rows are changed sheet by sheet, so a row is not changed atomically. Columns have no defaults, so a cell without a row
//! is NULL.

use crate::state::RangeState;
use nyala_core::schema::TableSchema;
use nyala_core::store::{AggregateRequest, ScanRequest};
use nyala_core::{ColumnId, Error, Result, TableId};
use std::collections::BTreeSet;

/// Columns of a sheet besides the key.
const COLUMNS: u32 = 256;
/// The most sheets of a table: the log keeps them as bits.
const COUNT_MAX: u32 = 32;
/// The most columns of a table of series, with dropped ones.
pub(crate) const COLUMNS_OF_SERIES_MAX: usize = (COLUMNS * COUNT_MAX) as usize;

/// A sheet of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Sheet {
    pub(crate) table: TableId,
    /// 0: the first, which every table has.
    pub(crate) number: u32,
}

impl Sheet {
    pub(crate) fn first(table: TableId) -> Self {
        Self { table, number: 0 }
    }

    /// Whether a column stands in this sheet; the key stands in all.
    pub(crate) fn has(self, schema: &TableSchema, column: ColumnId) -> bool {
        schema.is_key(column) || number_of(schema, column) == self.number
    }

    /// Whether a column outside the key stands in this sheet.
    pub(crate) fn has_field(self, schema: &TableSchema, column: ColumnId) -> bool {
        !schema.is_key(column) && self.has(schema, column)
    }

    /// Those of a table's ranges that the sheet has.
    pub(crate) fn ranges(self, ranges: &[RangeState]) -> impl Iterator<Item = RangeState> {
        ranges.iter().copied().filter(move |range| range.has_sheet(self.number))
    }
}

/// All sheets that a table may have.
pub(crate) fn all(table: TableId, schema: &TableSchema) -> impl DoubleEndedIterator<Item = Sheet> + use<> {
    let count = if schema.is_series_keyed() { schema.next_column.0.div_ceil(COLUMNS).max(1) } else { 1 };
    (0..count).map(move |number| Sheet { table, number })
}

/// The sheet of a column outside the key.
pub(crate) fn number_of(schema: &TableSchema, column: ColumnId) -> u32 {
    if schema.is_series_keyed() { column.0 / COLUMNS } else { 0 }
}

/// The sheets that a scan has to read.
pub(crate) fn read_by_scan(schema: &TableSchema, request: &ScanRequest) -> BTreeSet<u32> {
    let predicates = request.predicates.iter().map(|predicate| &predicate.column);
    let columns = request.columns.iter().chain(predicates).filter(|id| !schema.is_key(**id));
    let mut numbers: BTreeSet<u32> = columns.map(|id| number_of(schema, *id)).collect();
    if !request.skip_empty_rows || numbers.is_empty() {
        numbers.insert(0);
    }
    numbers
}

/// The sheets that measures of an aggregate read, if each can be computed of one sheet alone.
pub(crate) fn read_by_measures(schema: &TableSchema, request: &AggregateRequest) -> Option<Vec<u32>> {
    let number = |id: ColumnId| if schema.is_key(id) { 0 } else { number_of(schema, id) };
    let numbers: Vec<u32> = request.measures.iter().map(|measure| number(measure.column)).collect();
    let mut judged = request.predicates.iter().map(|predicate| predicate.column);
    let is_apart = judged.all(|id| schema.is_key(id) || numbers.iter().all(|sheet| *sheet == number(id)));
    is_apart.then_some(numbers)
}

/// Refuses more columns than sheets hold.
pub(crate) fn check(schema: &TableSchema) -> Result<()> {
    match schema.next_column.0 as usize > COLUMNS_OF_SERIES_MAX {
        true => Err(Error::limit(format!(
            "table {}: more than {COLUMNS_OF_SERIES_MAX} columns, with those that were dropped",
            schema.shown_name()
        ))),
        false => Ok(()),
    }
}
