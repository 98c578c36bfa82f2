//! Several servers on one store do not lose each other's changes.

mod support;

use async_trait::async_trait;
use nyala_core::memory::MemoryBudget;
use nyala_core::schema::TIME_COLUMN;
use nyala_core::store::memory::MemoryStore;
use nyala_core::store::{Atomicity, Capabilities, Store, StoreRef};
use nyala_core::{Error, ErrorKind, Result, TimeRange};
use nyala_db::catalog::{Catalog, ContinuousQuery, Measurement, PolicyChange, RetentionPolicy, Subscription};
use nyala_db::ingest::ParseOptions;
use nyala_db::series::TagFilter;
use nyala_db::users::Privilege;
use nyala_db::write::LineWriter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use support::{HookedStore, Hooks};
use tokio::sync::Semaphore;

fn shared_stores() -> [StoreRef; 2] {
    let own = MemoryStore::default().capabilities();
    [Atomicity::Batch, Atomicity::Row].map(|atomicity| -> StoreRef {
        let capabilities = Capabilities { is_shared: true, atomicity, ..own };
        Arc::new(MemoryStore::with_capabilities(capabilities))
    })
}

fn policy(name: &str) -> RetentionPolicy {
    RetentionPolicy::new(name, &PolicyChange::default()).expect("a policy")
}

#[tokio::test]
async fn no_change_of_a_database_by_two_servers_is_lost() -> Result<()> {
    for store in shared_stores() {
        let first = Catalog::open(store.clone()).await?;
        let second = Catalog::open(store.clone()).await?;
        first.create_database("d", None).await?;
        second.create_database("d", None).await?;
        let query = ContinuousQuery { name: "n".into(), text: "t".into() };
        first.create_policy("d", policy("p"), false).await?;
        second.create_policy("d", policy("q"), true).await?;
        first.create_continuous_query("d", query.clone()).await?;
        let subscription = Subscription {
            policy: "q".into(),
            name: "s".into(),
            to_all: false,
            destinations: vec!["udp://h:9".into()],
        };
        second.create_subscription("d", subscription).await?;
        // The other server has a query of this name by now.
        let other = ContinuousQuery { name: "n".into(), text: "another".into() };
        assert_eq!(
            second.create_continuous_query("d", other).await.unwrap_err().message(),
            "continuous query already exists"
        );
        assert!(second.set_last_run_ns("d", &query, 5).await?);
        assert!(first.set_last_run_ns("d", &query, 6).await?, "whoever comes second reads again");
        let short = PolicyChange { duration_ns: Some(1_209_600_000_000_000), ..PolicyChange::default() };
        second.alter_policy("d", "p", short).await?;
        first.drop_policy("d", "autogen").await?;
        let third = Catalog::open(store.clone()).await?;
        let database = third.existing_database("d")?;
        let policies: Vec<_> =
            database.policies.iter().map(|policy| (&*policy.name, policy.duration_ns)).collect();
        assert_eq!(policies, [("p", 1_209_600_000_000_000), ("q", 0)]);
        assert_eq!(database.default_policy, "q");
        assert_eq!((&database.continuous_queries[..], database.subscriptions.len()), (&[query][..], 1));
        assert_eq!(third.last_run_ns("d", "n").await?, Some(6));
        second.drop_database("d").await?;
        second.create_database("d", None).await?;
        let fourth = Catalog::open(store).await?;
        let database = fourth.existing_database("d")?;
        assert_eq!(
            (database.policies.len(), database.continuous_queries.len()),
            (1, 0),
            "nothing of the old one is left"
        );
        assert_eq!(fourth.last_run_ns("d", "n").await?, None);
    }
    Ok(())
}

#[tokio::test]
async fn no_change_of_a_user_by_two_servers_is_lost() -> Result<()> {
    for store in shared_stores() {
        let first = Catalog::open(store.clone()).await?;
        let second = Catalog::open(store.clone()).await?;
        first.create_database("d", None).await?;
        second.create_database("e", None).await?;
        first.users().create("ann", "secret", true, true).await?;
        let again = second.users().create("bob", "secret", true, true).await;
        assert!(again.is_ok(), "it has seen no administrator: {again:?}");
        assert!(second.users().create("ann", "other", false, false).await.is_err(), "she is there");
        first.change_grant("ann", "d", |_| Privilege::Read).await?;
        second.change_grant("ann", "e", |_| Privilege::Write).await?;
        first.users().set_password("ann", "new").await?;
        second.users().drop_user("bob", true).await?;
        let third = Catalog::open(store).await?;
        let ann = third.users().existing("ann")?;
        assert!(ann.may(Privilege::Read, "d") && ann.may(Privilege::Write, "e") && ann.is_admin());
        assert!(third.users().authenticate("ann", "new").await?.is_some());
        assert!(third.users().existing("bob").is_err());
    }
    Ok(())
}

#[tokio::test]
async fn a_tag_set_has_one_id_on_all_servers() -> Result<()> {
    for store in shared_stores() {
        let first = Arc::new(Catalog::open(store.clone()).await?);
        first.create_database("d", None).await?;
        let writer =
            |catalog: &Arc<Catalog>| LineWriter::new(catalog.clone(), MemoryBudget::new(1 << 40), usize::MAX);
        let options = ParseOptions::default();
        writer(&first).write("d", "", options, b"m,host=a v=1 1").await?;
        let second = Arc::new(Catalog::open(store.clone()).await?);
        let servers = [writer(&first), writer(&second)];
        let lines = |from: usize, time: usize| -> String {
            (from..from + 300).map(|host| format!("m,host=h{host} v=1 {time}\n")).collect()
        };
        // Concurrently, and half of the names are the same.
        let (ours, theirs) = (lines(0, 1), lines(150, 2));
        let (ours, theirs) = tokio::join!(
            servers[0].write("d", "", options, ours.as_bytes()),
            servers[1].write("d", "", options, theirs.as_bytes()),
        );
        assert_eq!((ours?.complaint(), theirs?.complaint()), (None, None));
        // The measurements that the other server created.
        servers[0].write("d", "", options, lines(400, 3).as_bytes()).await?;
        servers[1].write("d", "", options, lines(0, 4).as_bytes()).await?;
        // A removed series gets a new id.
        let measurement = first.measurement("d", "autogen", "m").await?.expect("it is there");
        let only = TagFilter::Equal("host".into(), "h7".into());
        first.delete_points(&measurement, &only, TimeRange::ALL).await?;
        servers[0].write("d", "", options, b"m,host=h7 v=1 9").await?;
        let third = Arc::new(Catalog::open(store.clone()).await?);
        let measurement = third.measurement("d", "autogen", "m").await?.expect("it is there");
        assert_eq!(measurement.count_series(), 701);
        for (host, points) in [("h0", 2), ("h7", 1), ("h200", 3), ("h420", 2), ("h650", 1), ("a", 1)] {
            let tags = TagFilter::Equal("host".into(), host.into());
            let found = third.points(&measurement, &tags, TimeRange::ALL).await?;
            assert_eq!(found.series().len(), 1, "{host}");
            let mut rows =
                found.scan(&third.snapshot().await?, vec![TIME_COLUMN]).await?.expect("it is there");
            let mut count = 0;
            while let Some(batch) = rows.next().await? {
                count += batch.rows;
            }
            assert_eq!(count, points, "{host}");
        }
    }
    Ok(())
}

#[derive(Default)]
struct Faults {
    /// Deletions break off, as if a shard had been dropped meanwhile.
    breaks_deletions: AtomicBool,
    /// The store does not answer which partitions there are.
    hides_partitions: AtomicBool,
    /// The store drops partitions and answers nothing from then on.
    breaks_drops: AtomicBool,
}

#[async_trait]
impl Hooks for Faults {
    fn before_partitions(&self) -> Result<()> {
        match self.hides_partitions.load(Ordering::Relaxed) {
            true => Err(Error::new(ErrorKind::Retry, "no answer")),
            false => Ok(()),
        }
    }

    fn after_drop_partitions(&self) -> Result<()> {
        match self.breaks_drops.load(Ordering::Relaxed) {
            true => {
                self.hides_partitions.store(true, Ordering::Relaxed);
                Err(Error::new(ErrorKind::Unknown, "no answer"))
            }
            false => Ok(()),
        }
    }

    async fn after_delete(&self) -> Result<()> {
        match self.breaks_deletions.load(Ordering::Relaxed) {
            true => Err(Error::missing("a part of the table")),
            false => Ok(()),
        }
    }
}

fn faulty_store() -> Arc<HookedStore<Faults>> {
    let own = MemoryStore::default().capabilities();
    let inner = MemoryStore::with_capabilities(Capabilities { is_shared: true, ..own });
    Arc::new(HookedStore { inner, hooks: Faults::default() })
}

#[tokio::test]
async fn a_deletion_that_broke_off_is_done_only_if_its_table_was_dropped() -> Result<()> {
    let store = faulty_store();
    let first = Arc::new(Catalog::open(store.clone() as StoreRef).await?);
    first.create_database("d", None).await?;
    let writer = LineWriter::new(first.clone(), MemoryBudget::new(1 << 40), usize::MAX);
    writer.write("d", "", ParseOptions::default(), b"m,host=a v=1 1").await?;
    let measurement = first.measurement("d", "autogen", "m").await?.expect("it is there");
    store.hooks.breaks_deletions.store(true, Ordering::Relaxed);
    let broken = first.delete_points(&measurement, &TagFilter::All, TimeRange::ALL).await;
    assert_eq!(broken.unwrap_err().kind(), ErrorKind::Missing);
    store.hooks.breaks_deletions.store(false, Ordering::Relaxed);
    let second = Catalog::open(store.clone() as StoreRef).await?;
    second.drop_measurement("d", "m").await?;
    first.delete_points(&measurement, &TagFilter::All, TimeRange::ALL).await
}

#[tokio::test]
async fn partitions_that_the_store_does_not_tell_are_not_taken_for_none() -> Result<()> {
    const SECOND_SHARD_NS: i64 = 30 * 86_400_000_000_000;
    let store = faulty_store();
    let catalog = Arc::new(Catalog::open(store.clone() as StoreRef).await?);
    catalog.create_database("d", None).await?;
    let write = async |catalog: &Arc<Catalog>, line: &str| {
        let writer = LineWriter::new(catalog.clone(), MemoryBudget::new(1 << 40), usize::MAX);
        writer.write("d", "", ParseOptions::default(), line.as_bytes()).await.map(drop)
    };
    write(&catalog, "m v=1 1").await?;
    write(&catalog, &format!("m w=1 {SECOND_SHARD_NS}")).await?;
    let measurement = catalog.measurement("d", "autogen", "m").await?.expect("it is there");
    let names = async |first_ns: i64| -> Result<Vec<String>> {
        let fields = measurement.fields_between(first_ns, first_ns + 1).await?;
        Ok(fields.iter().map(|field| field.name.clone()).collect())
    };
    let shards = catalog.shards().await?;
    assert_eq!(shards.len(), 2);
    // It has not looked where shards begin.
    let started = Arc::new(Catalog::open(store.clone() as StoreRef).await?);

    let retry = |failed: Result<()>| assert_eq!(failed.unwrap_err().kind(), ErrorKind::Retry);
    store.hooks.hides_partitions.store(true, Ordering::Relaxed);
    retry(names(1).await.map(drop));
    retry(catalog.shards().await.map(drop));
    retry(catalog.drop_shard(shards[0].id).await);
    retry(write(&started, "m v=2 2").await);

    store.hooks.hides_partitions.store(false, Ordering::Relaxed);
    assert_eq!(
        (names(1).await?, names(SECOND_SHARD_NS).await?),
        (vec!["v".to_owned()], vec!["w".to_owned()])
    );
    write(&started, "m v=2 2").await?;
    catalog.drop_shard(shards[0].id).await?;
    assert_eq!(catalog.shards().await?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn series_are_hidden_although_the_drop_of_their_shard_broke_off() -> Result<()> {
    const SECOND_SHARD_NS: i64 = 30 * 86_400_000_000_000;
    let store = faulty_store();
    let catalog = Arc::new(Catalog::open(store.clone() as StoreRef).await?);
    catalog.create_database("d", None).await?;
    let writer = LineWriter::new(catalog.clone(), MemoryBudget::new(1 << 40), usize::MAX);
    let lines = format!("m,host=a v=1 1\nm,host=b v=1 {SECOND_SHARD_NS}");
    writer.write("d", "", ParseOptions::default(), lines.as_bytes()).await?;
    let measurement = catalog.measurement("d", "autogen", "m").await?.expect("it is there");
    let hosts = || {
        let series = measurement.series();
        series.values_of("host", &series.all())
    };
    let first = catalog.shards().await?.into_iter().min_by_key(|shard| shard.range.start_ns);
    store.hooks.breaks_drops.store(true, Ordering::Relaxed);
    let broken = catalog.drop_shard(first.expect("there are two").id).await;
    assert_eq!(broken.unwrap_err().kind(), ErrorKind::Unknown);
    store.hooks.breaks_drops.store(false, Ordering::Relaxed);
    assert!(catalog.enforce_retention(1).await.error.is_some(), "it still does not answer");
    store.hooks.hides_partitions.store(false, Ordering::Relaxed);
    assert!(catalog.enforce_retention(1).await.error.is_none());
    assert_eq!(hosts(), ["b"]);
    assert_eq!(catalog.shards().await?.len(), 1);
    Ok(())
}

tokio::task_local! {
    /// Set for a task whose reads take until they are let go on.
    static IS_SLOW: ();
}

struct SlowReads {
    waiting: AtomicUsize,
    go_on: Semaphore,
}

impl Default for SlowReads {
    fn default() -> Self {
        Self { waiting: AtomicUsize::new(0), go_on: Semaphore::new(0) }
    }
}

#[async_trait]
impl Hooks for SlowReads {
    async fn before_snapshot(&self) {
        if IS_SLOW.try_with(|()| ()).is_ok() {
            self.waiting.fetch_add(1, Ordering::AcqRel);
            drop(self.go_on.acquire().await.expect("it stays open"));
        }
    }
}

#[tokio::test]
async fn a_server_goes_on_while_it_loads_the_series_of_a_large_measurement() -> Result<()> {
    let own = MemoryStore::default().capabilities();
    let inner = MemoryStore::with_capabilities(Capabilities { is_shared: true, ..own });
    let hooked = Arc::new(HookedStore { inner, hooks: SlowReads::default() });
    let store: StoreRef = hooked.clone();
    let first = LineWriter::new(
        Arc::new(Catalog::open(store.clone()).await?),
        MemoryBudget::new(1 << 40),
        usize::MAX,
    );
    let write = async |lines: &str| -> Result<()> {
        let report = first.write("d", "", ParseOptions::default(), lines.as_bytes()).await?;
        assert_eq!(report.complaint(), None);
        Ok(())
    };
    first.catalog().create_database("d", None).await?;
    write("m,host=a v=1 1\nm,host=b v=1 1\nn,host=a v=1 1").await?;
    let second = Arc::new(Catalog::open(store).await?);
    let loading = {
        let second = second.clone();
        tokio::spawn(IS_SLOW.scope((), async move { second.measurement("d", "autogen", "m").await }))
    };
    while hooked.hooks.waiting.load(Ordering::Acquire) == 0 {
        tokio::task::yield_now().await;
    }
    // Other requests neither wait nor miss anything.
    write("m,host=c w=1i 2\nn,host=d v=1 1").await?;
    let m = first.catalog().measurement("d", "autogen", "m").await?.expect("it is there");
    let of_a = TagFilter::Equal("host".into(), "a".into());
    first.catalog().delete_points(&m, &of_a, TimeRange::ALL).await?;
    let others = async {
        second.follow().await?;
        second.measurement("d", "autogen", "n").await
    };
    let n = tokio::time::timeout(Duration::from_secs(60), others).await.expect("nobody waits for m");
    let hosts = |measurement: &Measurement| {
        let series = measurement.series();
        let mut hosts = series.values_of("host", &series.all());
        hosts.sort();
        hosts
    };
    assert_eq!(hosts(&n?.expect("it is there")), ["a", "d"]);
    hooked.hooks.go_on.add_permits(1);
    let m = loading.await.expect("no panic")?.expect("it is there");
    assert_eq!((hosts(&m), m.fields().len()), (vec!["b".to_owned(), "c".to_owned()], 2));
    Ok(())
}
