//! Dropping points that are older than their retention policy allows.
//!
//! A policy may be changed at any time. Points are dropped by the policy as it is at that moment, and a change of the
//! policy is acknowledged only after everybody who drops by the old one is done. A failure in one measurement does not
//! stop the work on the others; it is tried again next time.

use crate::catalog::{Catalog, RetentionPolicy, SeriesTable};
use nyala_core::{Error, Result, TimeRange};

/// The outcome of enforcing retention.
#[derive(Debug, Default)]
pub struct RetentionOutcome {
    /// The number of dropped partitions.
    pub dropped: u64,
    /// The number of measurements where it failed, ...
    pub failed: u64,
    /// ... and the first error.
    pub error: Option<Error>,
}

/// So often a table is judged anew because it was altered meanwhile.
const JUDGED_TIMES: usize = 8;

impl Catalog {
    /// Drops all points that are older than their policies allow.
    pub async fn enforce_retention(&self, now_ns: i64) -> RetentionOutcome {
        let mut enforced = RetentionOutcome::default();
        for table in self.loaded_tables().iter().filter(|table| table.dropping().is_some()) {
            // The last time it failed, whoever dropped shards.
            let _lock = table.table_lock().lock_exclusive().await;
            if let Err(error) = self.forget_rest(table, true).await {
                enforced.failed += 1;
                enforced.error.get_or_insert_with(|| error.context(table.name()));
            }
        }
        for database in self.databases() {
            // Most policies keep points for ever, so their measurements are skipped.
            let ends = |policy: &&RetentionPolicy| policy.horizon_ns(now_ns).is_some();
            for policy in database.policies.iter().filter(ends) {
                for table in self.known_tables(&database.name, &policy.name) {
                    let place = (&*database.name, &*policy.name);
                    match self.expire(place, &table, now_ns).await {
                        Ok(dropped) => enforced.dropped += dropped,
                        Err(error) => {
                            enforced.failed += 1;
                            let words = || format!("{}.{}.{}", place.0, place.1, table.name());
                            enforced.error.get_or_insert_with(|| error.context(words()));
                        }
                    }
                }
            }
        }
        enforced
    }

    /// Drops the expired partitions of a table. Returns how many there were.
    async fn expire(&self, place: (&str, &str), table: &SeriesTable, now_ns: i64) -> Result<u64> {
        if self.outlived(place, table, now_ns).await?.is_none() {
            return Ok(0);
        }
        table.load().await?;
        let _lock = table.table_lock().lock_exclusive().await;
        for _ in 0..JUDGED_TIMES {
            // Another server may have changed the policy since this one looked last, or does so now.
            let version = self.store().tables_version();
            self.follow().await?;
            let Some(expired) = self.outlived(place, table, now_ns).await? else { return Ok(0) };
            if let Some(dropped) = self.drop_judged_range(table, expired, version).await? {
                return Ok(dropped);
            }
        }
        Err(Error::retry("the policy is being changed"))
    }

    /// The expired range of times of a policy as it is now, if a table has a partition wholly within it.
    async fn outlived(
        &self,
        (database, policy): (&str, &str),
        table: &SeriesTable,
        now_ns: i64,
    ) -> Result<Option<TimeRange>> {
        let database = self.database(database);
        let policy = database.as_ref().and_then(|database| database.policy(policy));
        let Some(horizon_ns) = policy.and_then(|policy| policy.horizon_ns(now_ns)) else { return Ok(None) };
        let expired = TimeRange::new(i64::MIN, horizon_ns);
        let any = table.partitions().await?.iter().any(|partition| expired.covers(partition.range));
        Ok(any.then_some(expired))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::PolicyChange;
    use crate::ingest::ParseOptions;
    use crate::write::LineWriter;
    use nyala_core::memory::MemoryBudget;
    use nyala_core::store::memory::MemoryStore;
    use nyala_core::store::{Capabilities, Store, StoreRef};
    use std::sync::Arc;
    use tokio::task::yield_now;

    const DAY_NS: i64 = 86_400_000_000_000;

    /// Databases whose points of 1970 are old enough to expire after a year.
    async fn catalog(databases: &[&str]) -> Arc<Catalog> {
        catalog_of(Arc::new(MemoryStore::default()), databases).await
    }

    async fn catalog_of(store: StoreRef, databases: &[&str]) -> Arc<Catalog> {
        let catalog = Arc::new(Catalog::open(store).await.unwrap());
        let writer = LineWriter::new(catalog.clone(), MemoryBudget::new(1 << 40), usize::MAX);
        for database in databases {
            catalog.create_database(database, None).await.unwrap();
            let options = ParseOptions { now_ns: DAY_NS, ..ParseOptions::default() };
            writer.write(database, "", options, b"m v=1 1").await.unwrap();
            catalog.alter_policy(database, "autogen", keep(DAY_NS)).await.unwrap();
        }
        catalog
    }

    fn keep(duration_ns: i64) -> PolicyChange {
        PolicyChange {
            duration_ns: Some(duration_ns),
            shard_duration_ns: Some(DAY_NS / 24),
            ..PolicyChange::default()
        }
    }

    async fn partitions(catalog: &Catalog, database: &str) -> usize {
        let measurements = catalog.known_measurements(database, "autogen");
        catalog.store().partitions(measurements[0].table()).await.unwrap().len()
    }

    #[tokio::test]
    async fn no_point_is_dropped_by_the_old_policy_after_a_change_was_acknowledged() {
        for alters_first in [true, false] {
            let catalog = catalog(&["d"]).await;
            let alter = catalog.clone();
            let alter = async move { alter.alter_policy("d", "autogen", keep(0)).await };
            let enforce = catalog.clone();
            let enforce = async move { enforce.enforce_retention(366 * DAY_NS).await };
            // The first to come waits until the other has finished removing.
            let measurement = catalog.known_measurements("d", "autogen").remove(0);
            let removing = measurement.stored().table_lock().lock_exclusive().await;
            let (altering, enforcing);
            if alters_first {
                altering = tokio::spawn(alter);
                yield_now().await;
                enforcing = tokio::spawn(enforce);
            } else {
                enforcing = tokio::spawn(enforce);
                yield_now().await;
                altering = tokio::spawn(alter);
            }
            yield_now().await;
            // The other may remove by the old policy.
            assert!(!altering.is_finished(), "altered first: {alters_first}");
            drop(removing);
            altering.await.unwrap().unwrap();
            assert!(enforcing.await.unwrap().error.is_none());
            assert_eq!(partitions(&catalog, "d").await, 1, "altered first: {alters_first}");
        }
    }

    #[tokio::test]
    async fn a_policy_is_judged_as_another_server_has_just_changed_it() {
        let own = MemoryStore::default().capabilities();
        let store: StoreRef =
            Arc::new(MemoryStore::with_capabilities(Capabilities { is_shared: true, ..own }));
        let first = catalog_of(store.clone(), &["d"]).await;
        let second = Catalog::open(store).await.unwrap();
        first.alter_policy("d", "autogen", keep(0)).await.unwrap();
        let enforced = second.enforce_retention(366 * DAY_NS).await;
        assert!(enforced.error.is_none(), "{:?}", enforced.error);
        assert_eq!((enforced.dropped, partitions(&first, "d").await), (0, 1), "it is kept for ever now");
        first.alter_policy("d", "autogen", keep(DAY_NS)).await.unwrap();
        second.follow().await.unwrap();
        assert_eq!(second.enforce_retention(366 * DAY_NS).await.dropped, 1);
    }

    #[tokio::test]
    async fn series_whose_points_expired_give_their_memory_back() {
        let catalog = catalog(&["d"]).await;
        let writer = LineWriter::new(catalog.clone(), MemoryBudget::new(1 << 40), usize::MAX);
        let options = ParseOptions { now_ns: DAY_NS, ..ParseOptions::default() };
        let before = catalog.measure_series_memory();
        for round in 0..3 {
            let day_ns = round * 400 * DAY_NS + DAY_NS / 2;
            let lines: String =
                (0..20_000).map(|n| format!("m,host=h{round}_{n},pod=p{n} v=1 {day_ns}\n")).collect();
            writer.write("d", "", options, lines.as_bytes()).await.unwrap();
            let full = catalog.measure_series_memory();
            assert!(full > before + (1 << 20), "{before} bytes, then {full}");
            assert!(catalog.enforce_retention(day_ns + 366 * DAY_NS).await.error.is_none());
            let after = catalog.measure_series_memory();
            assert!(after < before + (64 << 10), "{before} bytes, {full}, and then {after}");
        }
    }

    #[tokio::test]
    async fn a_measurement_that_cannot_be_read_does_not_block_the_others() {
        let catalog = catalog(&["a", "b"]).await;
        let broken = catalog.known_measurements("a", "autogen")[0].table();
        let key = [&broken.0.to_be_bytes()[..], b"?"].concat();
        let record = catalog.series_records().put([(&*key, &b"?"[..])]);
        catalog.series_records().write(vec![record]).await.unwrap();
        let catalog = Catalog::open(catalog.store().clone()).await.unwrap();
        let enforced = catalog.enforce_retention(366 * DAY_NS).await;
        assert_eq!((enforced.dropped, enforced.failed), (1, 1));
        let words = enforced.error.unwrap().to_string();
        assert!(words.starts_with("a.autogen.m: "), "{words}");
        assert_eq!((partitions(&catalog, "a").await, partitions(&catalog, "b").await), (1, 0));
        assert_eq!(
            catalog.series_counts("a", "autogen"),
            [("m".to_owned(), None)],
            "it is known all the same"
        );
    }

    #[tokio::test]
    async fn series_are_found_by_the_shards_that_have_them() {
        const HOUR_NS: i64 = DAY_NS / 24;
        let catalog = catalog(&["d"]).await;
        let writer = LineWriter::new(catalog.clone(), MemoryBudget::new(1 << 40), usize::MAX);
        let write = async |hosts: std::ops::Range<u32>, hour: i64| {
            let lines = hosts.map(|host| format!("n,host=h{host} v=1 {}\n", hour * HOUR_NS + 1));
            let options = ParseOptions { now_ns: DAY_NS, ..ParseOptions::default() };
            let body = lines.collect::<String>();
            assert_eq!(writer.write("d", "", options, body.as_bytes()).await.unwrap().complaint(), None);
        };
        write(0..20_000, 1).await;
        write(20_000..25_000, 2).await;
        let measurement = catalog.known_measurements("d", "autogen").remove(1);
        let visited = async |first_hour: i64, end_hour: i64| {
            let time = TimeRange::new(first_hour * HOUR_NS, end_hour * HOUR_NS);
            let shards = measurement.shards_within(time).await;
            let mut ids = measurement.series().all().into_owned();
            measurement.narrow(&mut ids, shards.as_deref());
            ids.len()
        };
        assert_eq!(visited(2, 3).await, 25_000, "nothing is known yet");
        catalog.learn_presence().await.unwrap();
        write(0..7, 2).await;
        assert_eq!(visited(2, 3).await, 25_000, "what was there before is not known yet");
        catalog.learn_presence().await.unwrap();
        assert_eq!((visited(1, 2).await, visited(2, 3).await), (25_000, 5007), "the newest first");
        catalog.learn_presence().await.unwrap();
        assert_eq!((visited(1, 2).await, visited(2, 3).await, visited(1, 3).await), (20_000, 5007, 25_000));
        write(7..9, 2).await;
        assert_eq!(visited(2, 3).await, 5009);
        // A new shard is not known at once.
        write(30_000..30_001, 3).await;
        assert_eq!((visited(2, 3).await, visited(2, 4).await, visited(3, 4).await), (5009, 25_001, 25_001));
        catalog.learn_presence().await.unwrap();
        catalog.learn_presence().await.unwrap();
        assert_eq!((visited(2, 4).await, visited(3, 4).await, visited(4, 9).await), (5010, 1, 0));
        // The first hours expire: series that are in no other shard are removed.
        let enforced = catalog.enforce_retention(DAY_NS + 2 * HOUR_NS).await;
        assert!(enforced.error.is_none());
        assert_eq!((visited(1, 9).await, measurement.series().len(), enforced.dropped), (5010, 5010, 2));
    }
}
