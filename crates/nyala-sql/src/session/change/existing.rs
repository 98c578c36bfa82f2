//! Rows that are there.

use super::work::{CHUNK_BYTES, Work};
use crate::error::SqlResult;
use crate::relation::entries::{RowIndex, one};
use arrow_array::{Array, ArrayRef, new_null_array};
use nyala_core::arrays::{concat, take_rows, value_at};
use nyala_core::store::{ScanRequest, SnapshotRef};
use nyala_core::{ColumnId, Value};
use nyala_exec::memory::MemoryCharge;

/// How often a row that was found is copied until what becomes of it is written.
const COPIES: usize = 3;

/// The rows that exist.
pub(super) struct Existing {
    /// Per row that was looked for the one that is there.
    pub(super) places: Vec<Option<u32>>,
    /// All columns of the rows.
    pub(super) rows: Vec<ArrayRef>,
    /// What they take.
    _held: MemoryCharge,
}

/// Looks for the rows that have in a key or an index what some rows have there: for all of them, or for as many as find
/// [`CHUNK_BYTES`].
pub(super) async fn existing(
    work: &Work<'_>,
    snapshot: &SnapshotRef,
    by: &RowIndex<'_>,
    rows: &[ArrayRef],
) -> SqlResult<Existing> {
    let columns = work.rules.columns();
    let wanted: Vec<ColumnId> = columns.columns.iter().map(|column| column.id).collect();
    let count = rows.first().map_or(0, |values| values.len());
    let (mut places, mut found) = (Vec::with_capacity(count), vec![Vec::new(); wanted.len()]);
    let mut found_rows = 0_u32;
    let mut held = work.run.memory().hold();
    for row in 0..count {
        if held.bytes() >= COPIES * CHUNK_BYTES {
            break;
        }
        work.check_now_and_then(row)?;
        let key = match by.values(rows, row) {
            Some(values) => by.key_for(&**snapshot, values).await?,
            None => None,
        };
        let mut place = None;
        if let Some(key) = key {
            let request = ScanRequest::by_key(work.table_id(), one(key), wanted.clone());
            let mut stream = snapshot.scan(request).await?;
            while let Some(batch) = stream.next().await? {
                held.charge(COPIES * batch.value_bytes())?;
                for (all, values) in found.iter_mut().zip(batch.columns) {
                    all.push(values);
                }
                place = Some(found_rows);
                found_rows += batch.rows as u32;
            }
        }
        places.push(place);
    }
    let rows = found.iter().zip(&columns.columns).map(|(parts, column)| match parts.is_empty() {
        true => new_null_array(&column.declared_type.column_type().data_type(), 0),
        false => concat(parts),
    });
    Ok(Existing { places, rows: rows.collect(), _held: held })
}

/// The key of a row.
pub(super) fn key_of(keys: &[ArrayRef], row: usize) -> Vec<Value> {
    keys.iter().map(|values| value_at(values, row).expect("a key has no NULL")).collect()
}

/// Some of the rows of columns.
pub(super) fn some_rows(columns: &[ArrayRef], rows: &[u32]) -> Vec<ArrayRef> {
    columns.iter().map(|values| take_rows(values, rows)).collect()
}
