//! Which shards the times of rows are in.

use super::SeriesTable;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use nyala_core::store::{Batch, SnapshotRef};
use nyala_core::time::truncate_to_width;
use nyala_core::{Result, TimeRange};
use std::collections::BTreeSet;

/// The width of the shards of a table, ns.
pub(crate) fn shard_width_ns(table: &SeriesTable, snapshot: &SnapshotRef) -> Result<i64> {
    let schema = snapshot.schema(table.table())?;
    Ok(schema.partitioning.time_width_ns().unwrap_or(i64::MAX))
}

/// The times of the rows of a batch whose first column they are.
pub(crate) fn times_of(batch: &Batch) -> &[i64] {
    batch.columns[0].as_primitive::<TimestampNanosecondType>().values()
}

/// Adds the starts of the shards of times. Neighbours are usually in one shard.
pub(crate) fn add_shards(shards_ns: &mut BTreeSet<i64>, times_ns: &[i64], width_ns: i64) {
    let mut last = TimeRange::new(0, 0);
    for time_ns in times_ns {
        if !last.contains(*time_ns) {
            let start_ns = truncate_to_width(*time_ns, width_ns);
            last = TimeRange::new(start_ns, start_ns.saturating_add(width_ns));
            shards_ns.insert(start_ns);
        }
    }
}
