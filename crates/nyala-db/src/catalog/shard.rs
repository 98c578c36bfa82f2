//! Shards as users see them: what the measurements of a retention policy have in one range of time.
//!
//! In the store, each table of points has a partition of its own for the range. The shard's number is the smallest of
//! the partitions' numbers, and the shard can be dropped by the number of any of them. Partitions keep their numbers,
//! and no number is used again, so a number that was shown once never means another shard.

use super::{Catalog, RetentionPolicy, SeriesTable};
use nyala_core::store::PartitionInfo;
use nyala_core::{Error, Result, TimeRange};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// What a retention policy has in a range of time.
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
    /// The number of rows. Versions that are not merged yet are counted separately.
    pub rows: Option<u64>,
    /// Bytes on disk.
    pub disk_bytes: u64,
    /// Bytes in memory.
    pub memory_bytes: u64,
}

impl Catalog {
    /// All shards: by database and policy in order of creation, then by time.
    pub async fn shards(&self) -> Result<Vec<Shard>> {
        let mut all = Vec::new();
        for database in self.databases() {
            for policy in &database.policies {
                let mut by_range: BTreeMap<(i64, i64), Shard> = BTreeMap::new();
                for table in self.known_tables(&database.name, &policy.name) {
                    for partition in table.partitions().await? {
                        let range = partition.range;
                        let shard = match by_range.entry((range.start_ns, range.end_ns)) {
                            Entry::Occupied(known) => known.into_mut(),
                            Entry::Vacant(place) => place.insert(Shard {
                                id: partition.id,
                                database: database.name.clone(),
                                policy: policy.clone(),
                                range,
                                rows: Some(0),
                                disk_bytes: 0,
                                memory_bytes: 0,
                            }),
                        };
                        shard.id = shard.id.min(partition.id);
                        shard.rows = shard.rows.zip(partition.rows).map(|(all, more)| all + more);
                        shard.disk_bytes += partition.disk_bytes;
                        shard.memory_bytes += partition.memory_bytes;
                    }
                }
                all.extend(by_range.into_values());
            }
        }
        Ok(all)
    }

    /// Drops a shard with everything in it. It is no error if it does not exist. A failure in one measurement does not
    /// stop the work on the others; the first error is returned.
    pub async fn drop_shard(&self, id: u64) -> Result<()> {
        let mut asked = Ok(());
        for database in self.databases() {
            for policy in &database.policies {
                let tables = self.known_tables(&database.name, &policy.name);
                let with_id = |partition: &PartitionInfo| partition.id == id;
                let mut shard = None;
                for table in &tables {
                    match table.partitions().await {
                        Ok(partitions) => shard = shard.or(partitions.into_iter().find(with_id)),
                        Err(error) => asked = asked.and(Err(error)),
                    }
                }
                let Some(shard) = shard else { continue };
                let mut dropped = Ok(());
                for table in tables {
                    dropped = dropped.and(self.drop_part(&table, shard.range).await);
                }
                return dropped;
            }
        }
        // It may be among those that did not tell.
        asked
    }

    /// Drops the part of a shard in one table. The table's series are loaded before writers are locked out.
    async fn drop_part(&self, table: &SeriesTable, range: TimeRange) -> Result<()> {
        let is_there = async || {
            let partitions = table.partitions().await?;
            Ok::<_, Error>(partitions.iter().any(|partition| partition.range == range))
        };
        if !is_there().await? {
            return Ok(());
        }
        table.load().await?;
        let _lock = table.table_lock().lock_exclusive().await;
        if is_there().await? {
            self.drop_range(table, range).await?;
        }
        Ok(())
    }
}
