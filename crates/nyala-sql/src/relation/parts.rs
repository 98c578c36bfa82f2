//! Which keys each of several tasks reads that scan a table side by side. Each finds out by itself: a snapshot always divides its
//! keys in the same way.

use crate::error::outside;
use datafusion::error::Result;
use nyala_core::TableId;
use nyala_core::store::{RowSelection, Snapshot};
use std::ops::Bound;

/// What one of several tasks reads of some selections, in ascending order as they are.
pub(super) async fn part_of(
    selections: Vec<RowSelection>,
    (part, parts): (usize, usize),
    (snapshot, table): (&dyn Snapshot, TableId),
) -> Result<Vec<RowSelection>> {
    let (start, end) = match &selections[..] {
        [RowSelection::All] => (Bound::Unbounded, Bound::Unbounded),
        [RowSelection::Keys { start, end }] => (start.clone(), end.clone()),
        _ => return Ok(selections.into_iter().skip(part).step_by(parts).collect()),
    };
    let splits = snapshot.split_keys(table, (&start, &end), parts).await.map_err(outside)?;
    if part > splits.len() {
        return Ok(Vec::new());
    }
    let start = part.checked_sub(1).map_or(start, |before| Bound::Included(splits[before].clone()));
    let end = splits.get(part).map_or(end, |next| Bound::Excluded(next.clone()));
    Ok(vec![RowSelection::Keys { start, end }])
}
