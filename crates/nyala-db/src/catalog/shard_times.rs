//! Which shards the times of rows are in.

use super::SeriesTable;
use super::shard_starts::ShardStarts;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use nyala_core::store::{Batch, SnapshotRef};
use nyala_core::{Result, TableSchema, TimeRange};
use std::collections::BTreeSet;

impl SeriesTable {
    /// Where its shards begin, if new ones have this width.
    pub(crate) async fn shard_starts(&self, width_ns: i64) -> Result<ShardStarts> {
        let known = self.known_shard_starts().read().clone();
        if let Some(known) = known.filter(|known| known.is_of_width(width_ns)) {
            return Ok(known);
        }
        let partitions = self.partitions().await?;
        let starts = ShardStarts::of(width_ns, partitions.iter().map(|partition| partition.range));
        *self.known_shard_starts().write() = Some(starts.clone());
        Ok(starts)
    }

    /// Where its shards begin, as the store makes new ones now. For a writer, whose lock keeps it so.
    pub(crate) async fn current_shard_starts(&self) -> Result<ShardStarts> {
        let width_ns = shard_width_ns(&*self.store().schema(self.table())?);
        self.shard_starts(width_ns).await
    }

    /// Shards were dropped, by whomever, or new ones get another width.
    pub(crate) fn forget_shard_starts(&self) {
        *self.known_shard_starts().write() = None;
    }
}

/// Where the shards of a table begin.
pub(crate) async fn shard_starts(table: &SeriesTable, snapshot: &SnapshotRef) -> Result<ShardStarts> {
    let width_ns = shard_width_ns(&*snapshot.schema(table.table())?);
    table.shard_starts(width_ns).await
}

/// The width of new shards of a table, ns.
pub(super) fn shard_width_ns(schema: &TableSchema) -> i64 {
    schema.partitioning.time_width_ns().unwrap_or(i64::MAX)
}

/// The times of the rows of a batch whose first column they are.
pub(crate) fn times_of(batch: &Batch) -> &[i64] {
    batch.columns[0].as_primitive::<TimestampNanosecondType>().values()
}

/// Adds the starts of the shards of times. Neighbours are usually in one shard.
pub(crate) fn add_shards(shards_ns: &mut BTreeSet<i64>, times_ns: &[i64], starts: &ShardStarts) {
    let mut last = TimeRange::new(0, 0);
    for time_ns in times_ns {
        if !last.contains(*time_ns) {
            last = starts.range_of(*time_ns);
            shards_ns.insert(last.start_ns);
        }
    }
}
