//! Rows of encoded blocks that satisfy all predicates, found without decoding the others.

use super::tested;
use crate::files::rowset::gather::BlockTest;
use crate::files::rowset::series::{Part, RowsetCursor};
use crate::reading::scan::filter::test;
use crate::reading::scan::partition::PartitionReader;
use crate::reading::scan::partition::overlapping::OVERLAID_ROWS;
use crate::reading::scan::scan_spec::ScanSpec;
use crate::rows::merge::{DELETED, Deletes, RowBatch, keep_rows, merge};
use nyala_column::Bitmap;
use nyala_core::{Result, SeriesId, TimeRange};
use std::ops::Range;

/// Predicates that encoded blocks evaluate, with buffers for the results.
pub(super) struct BlockFilter {
    tests: Vec<(usize, BlockTest)>,
    bits: Bitmap,
    next: Bitmap,
    rows: Vec<u32>,
}

impl BlockFilter {
    pub(super) fn new(tests: Vec<(usize, BlockTest)>) -> Self {
        Self { tests, bits: Bitmap::new(), next: Bitmap::new(), rows: Vec::new() }
    }

    /// Appends the rows that satisfy all predicates. False, and nothing is appended, if a block cannot evaluate one.
    pub(super) fn append(
        &mut self,
        cursor: &mut RowsetCursor,
        part: &Part,
        rows: Range<u32>,
        batch: &mut RowBatch<Vec<i64>>,
    ) -> Result<bool> {
        if !self.find(cursor, part, rows)? {
            return Ok(false);
        }
        if !self.rows.is_empty() {
            cursor.append_rows(part, &self.rows, batch)?;
        }
        Ok(true)
    }

    /// Finds the rows that satisfy all predicates; false if a block cannot evaluate one.
    fn find(&mut self, cursor: &mut RowsetCursor, part: &Part, rows: Range<u32>) -> Result<bool> {
        if cursor.reads_whole(part)? {
            return Ok(false);
        }
        for (number, (column, test)) in self.tests.iter().enumerate() {
            let bits = if number == 0 { &mut self.bits } else { &mut self.next };
            bits.clear();
            if !cursor.compare(part, *column, rows.clone(), *test, bits)? {
                return Ok(false);
            }
            if number > 0 {
                self.bits.and(&self.next);
            }
        }
        self.rows.clear();
        self.rows.extend(self.bits.ones().map(|row| rows.start + row as u32));
        Ok(true)
    }

    /// The rows that satisfy a request, of a part with few newer rows above it: those that are changed are merged before
    /// they are tested. `None` if blocks cannot say, or if the newer rows are more than was expected.
    pub(super) fn read_overlaid(
        &mut self,
        reader: &mut PartitionReader,
        series: SeriesId,
        (cursor, part, time): (usize, &Part, TimeRange),
        spec: &ScanSpec,
    ) -> Result<Option<RowBatch<Vec<i64>>>> {
        let newer = reader.changes(series, (cursor, part, time))?;
        if newer.rows() * OVERLAID_ROWS / 2 > part.rows.len() {
            return Ok(None);
        }
        let cursor = &mut reader.cursors[cursor];
        let rows = cursor.rows_at(part, time)?;
        if cursor.reads_whole(part)? {
            let batch = cursor.batch(part, rows)?;
            return Ok(Some(tested_below(spec, series, batch, newer)));
        }
        if !self.find(cursor, part, rows)? {
            return Ok(None);
        }
        let kinds = &spec.projection.kinds;
        let changed: Vec<u32> = cursor.places_of(part, &newer.keys)?.into_iter().flatten().collect();
        let mut others = changed.iter().copied().peekable();
        self.rows.retain(|row| {
            while others.next_if(|other| other < row).is_some() {}
            others.peek() != Some(row)
        });
        let (mut kept, mut older) = (RowBatch::empty(kinds), RowBatch::empty(kinds));
        if !self.rows.is_empty() {
            cursor.append_rows(part, &self.rows, &mut kept)?;
        }
        if are_deletes(&newer) {
            return Ok(Some(super::filtered(spec, kept, None)));
        }
        if !changed.is_empty() {
            cursor.append_rows(part, &changed, &mut older)?;
        }
        let merged = tested(spec, series, merge(vec![older, newer], kinds, Deletes::Drop));
        Ok(Some(merge(vec![super::filtered(spec, kept, None), merged], kinds, Deletes::Drop)))
    }
}

fn are_deletes(rows: &RowBatch<Vec<i64>>) -> bool {
    (0..rows.rows()).all(|row| rows.marker(row) == DELETED)
}

/// The rows that satisfy a request, of decoded rows with few newer ones above them.
fn tested_below(
    spec: &ScanSpec,
    series: SeriesId,
    mut older: RowBatch<Vec<i64>>,
    newer: RowBatch<Vec<i64>>,
) -> RowBatch<Vec<i64>> {
    let kinds = &spec.projection.kinds;
    // Nothing older is left that these could hide.
    older.markers = None;
    let mut is_changed = vec![false; older.rows()];
    for time_ns in &newer.keys {
        if let Ok(row) = older.keys.binary_search(time_ns) {
            is_changed[row] = true;
        }
    }
    let satisfies =
        test(spec, older.rows(), &older.columns, |key| super::key_column(key, series, &older.keys));
    let is_kept = |row: usize| !is_changed[row] && satisfies.as_ref().is_none_or(|own| own[row]);
    let kept = super::filtered(spec, keep_rows(&older, is_kept, kinds), None);
    if are_deletes(&newer) {
        return kept;
    }
    let changed = keep_rows(&older, |row| is_changed[row], kinds);
    let merged = tested(spec, series, merge(vec![changed, newer], kinds, Deletes::Drop));
    merge(vec![kept, merged], kinds, Deletes::Drop)
}
