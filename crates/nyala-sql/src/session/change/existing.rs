//! Rows that are there under given keys.

use super::work::Work;
use crate::error::SqlResult;
use arrow_array::{Array, ArrayRef, new_null_array};
use nyala_core::arrays::{concat, take_rows, value_at};
use nyala_core::store::{RowSelection, ScanRequest, SnapshotRef};
use nyala_core::{ColumnId, Value};
use std::ops::Bound;

/// The rows that exist.
pub(super) struct Existing {
    /// Per key the row that it has.
    pub(super) places: Vec<Option<u32>>,
    /// All columns of the rows.
    pub(super) rows: Vec<ArrayRef>,
}

/// Looks for the rows of some keys.
pub(super) async fn existing(
    work: &Work<'_>,
    snapshot: &SnapshotRef,
    keys: &[ArrayRef],
) -> SqlResult<Existing> {
    let columns = work.rules.columns();
    let wanted: Vec<ColumnId> = columns.columns.iter().map(|column| column.id).collect();
    let count = keys.first().map_or(0, |values| values.len());
    let (mut places, mut found) = (Vec::with_capacity(count), vec![Vec::new(); wanted.len()]);
    let mut rows = 0_u32;
    for row in 0..count {
        if row % 64 == 0 {
            work.check_running()?;
        }
        let selection = selection_of(keys, row);
        let request = ScanRequest::by_key(work.table_id(), selection, wanted.clone());
        let mut stream = snapshot.scan(request).await?;
        let mut place = None;
        while let Some(batch) = stream.next().await? {
            for (all, values) in found.iter_mut().zip(batch.columns) {
                all.push(values);
            }
            place = Some(rows);
            rows += batch.rows as u32;
        }
        places.push(place);
    }
    let rows = found.iter().zip(&columns.columns).map(|(parts, column)| match parts.is_empty() {
        true => new_null_array(&column.declared_type.column_type().data_type(), 0),
        false => concat(parts),
    });
    Ok(Existing { places, rows: rows.collect() })
}

/// The first row whose key is taken, by a row that is there or by one before it.
pub(super) async fn first_duplicate(
    work: &Work<'_>,
    snapshot: &SnapshotRef,
    keys: &[ArrayRef],
) -> SqlResult<Option<usize>> {
    let count = keys.first().map_or(0, |values| values.len());
    let mut seen = std::collections::BTreeSet::new();
    for row in 0..count {
        if row % 64 == 0 {
            work.check_running()?;
        }
        if !seen.insert(key_of(keys, row)) {
            return Ok(Some(row));
        }
        let key = vec![work.rules.columns().key[0]];
        let request = ScanRequest::by_key(work.table_id(), selection_of(keys, row), key);
        if snapshot.scan(request).await?.next().await?.is_some() {
            return Ok(Some(row));
        }
    }
    Ok(None)
}

/// The key of a row.
pub(super) fn key_of(keys: &[ArrayRef], row: usize) -> Vec<Value> {
    keys.iter().map(|values| value_at(values, row).expect("a key has no NULL")).collect()
}

fn selection_of(keys: &[ArrayRef], row: usize) -> RowSelection {
    let key = key_of(keys, row);
    RowSelection::Keys { start: Bound::Included(key.clone()), end: Bound::Included(key) }
}

/// Some of the rows of columns.
pub(super) fn some_rows(columns: &[ArrayRef], rows: &[u32]) -> Vec<ArrayRef> {
    columns.iter().map(|values| take_rows(values, rows)).collect()
}
