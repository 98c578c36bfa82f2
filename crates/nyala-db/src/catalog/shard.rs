//! Shards as people see them: what the measurements of a retention policy keep of one range of time.
//!
//! In the store each table of points has a partition of its own for it. A shard goes by the least of their numbers, and
//! can be dropped by any: partitions keep their numbers and no number is used again, so what was shown once never
//! means another shard.

use super::{Catalog, RetentionPolicy, SeriesTable};
use nyala_core::store::PartitionInfo;
use nyala_core::{Result, TimeRange};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// What a retention policy keeps of a range of time.
#[derive(Debug, Clone)]
pub struct Shard {
    /// Its number.
    pub id: u64,
    /// Its database.
    pub database: String,
    /// Its retention policy.
    pub policy: RetentionPolicy,
    /// The times it holds.
    pub range: TimeRange,
    /// Rows, versions that were not merged yet counted apart.
    pub rows: u64,
    /// Bytes on disk.
    pub disk_bytes: u64,
    /// Bytes in memory.
    pub memory_bytes: u64,
}

impl Catalog {
    /// All shards: by database and policy in order of creation, then by time.
    pub async fn shards(&self) -> Vec<Shard> {
        let mut all = Vec::new();
        for database in self.databases() {
            for policy in &database.policies {
                let mut by_range: BTreeMap<(i64, i64), Shard> = BTreeMap::new();
                for table in self.known_tables(&database.name, &policy.name) {
                    for partition in table.partitions().await {
                        let range = partition.range;
                        let shard = match by_range.entry((range.start_ns, range.end_ns)) {
                            Entry::Occupied(known) => known.into_mut(),
                            Entry::Vacant(place) => place.insert(Shard {
                                id: partition.id,
                                database: database.name.clone(),
                                policy: policy.clone(),
                                range,
                                rows: 0,
                                disk_bytes: 0,
                                memory_bytes: 0,
                            }),
                        };
                        shard.id = shard.id.min(partition.id);
                        shard.rows += partition.rows;
                        shard.disk_bytes += partition.disk_bytes;
                        shard.memory_bytes += partition.memory_bytes;
                    }
                }
                all.extend(by_range.into_values());
            }
        }
        all
    }

    /// Drops a shard with all it holds; one that does not exist is no error. What fails for one measurement, of which
    /// the first error tells, keeps no other.
    pub async fn drop_shard(&self, id: u64) -> Result<()> {
        for database in self.databases() {
            for policy in &database.policies {
                let tables = self.known_tables(&database.name, &policy.name);
                let with_id = |partition: &PartitionInfo| partition.id == id;
                let mut shard = None;
                for table in &tables {
                    shard = shard.or(table.partitions().await.into_iter().find(with_id));
                }
                let Some(shard) = shard else { continue };
                let mut dropped = Ok(());
                for table in tables {
                    dropped = dropped.and(self.drop_part(&table, shard.range).await);
                }
                return dropped;
            }
        }
        Ok(())
    }

    /// Drops what a table has in a shard. Its series are loaded before writers are kept out.
    async fn drop_part(&self, table: &SeriesTable, range: TimeRange) -> Result<()> {
        let is_there = async || table.partitions().await.iter().any(|partition| partition.range == range);
        if !is_there().await {
            return Ok(());
        }
        table.load().await?;
        let _owned = table.membership().own().await;
        if is_there().await {
            self.drop_range(table, range).await?;
        }
        Ok(())
    }
}
