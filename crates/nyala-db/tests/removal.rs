//! A removal blocks the writers to its measurement, and nobody else.

mod support;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use async_trait::async_trait;
use nyala_core::memory::MemoryBudget;
use nyala_core::schema::TIME_COLUMN;
use nyala_core::store::{RowSelection, ScanRequest, SeriesSet, StoreRef, WriteBatch};
use nyala_core::{Result, SeriesId, TimeRange};
use nyala_db::catalog::{Catalog, Measurement};
use nyala_db::ingest::{LineLimits, ParseOptions};
use nyala_db::series::TagFilter;
use nyala_db::write::LineWriter;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use support::{HookedStore, Hooks};
use tokio::sync::Mutex;
use tokio::task::yield_now;

/// Deletions wait while `held` is locked, batches while `held_writes` is, and snapshots are counted.
#[derive(Default)]
struct Held {
    held: Mutex<()>,
    held_writes: Mutex<()>,
    deletions: AtomicU64,
    snapshots: AtomicU64,
    /// Whether batches are written but reported as failed.
    is_silent: AtomicBool,
}

#[async_trait]
impl Hooks for Held {
    async fn before_write(&self, _: &WriteBatch) -> Result<()> {
        drop(self.held_writes.lock().await);
        Ok(())
    }

    async fn after_write(&self) -> Result<()> {
        if self.is_silent.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    async fn before_delete(&self) {
        self.deletions.fetch_add(1, Ordering::Relaxed);
        drop(self.held.lock().await);
    }

    async fn before_drop(&self) {
        drop(self.held.lock().await);
    }

    async fn before_snapshot(&self) {
        self.snapshots.fetch_add(1, Ordering::Relaxed);
    }
}

type HeldStore = HookedStore<Held>;

struct Bed {
    store: Arc<HeldStore>,
    catalog: Arc<Catalog>,
    writer: Arc<LineWriter>,
}

impl Bed {
    async fn new() -> Self {
        let store = Arc::new(HeldStore::default());
        let catalog = Arc::new(Catalog::open(store.clone() as StoreRef).await.unwrap());
        catalog.create_database("d", None).await.unwrap();
        catalog.create_database("other", None).await.unwrap();
        let writer = LineWriter::new(catalog.clone(), MemoryBudget::new(1 << 40), usize::MAX);
        Self { store, catalog, writer: Arc::new(writer) }
    }

    /// Writes in a task of its own.
    fn write(&self, database: &str, body: String) -> tokio::task::JoinHandle<u64> {
        let (writer, database) = (self.writer.clone(), database.to_owned());
        let write = async move {
            let options = ParseOptions::default();
            writer.write(&database, "", options, body.as_bytes()).await.unwrap().written
        };
        tokio::spawn(write)
    }

    /// Deletes in a task of its own.
    fn delete(
        &self,
        database: &str,
        measurement: &str,
        tags: TagFilter,
        time: TimeRange,
    ) -> tokio::task::JoinHandle<()> {
        let (catalog, database, name) = (self.catalog.clone(), database.to_owned(), measurement.to_owned());
        let delete = async move {
            let measurement = catalog.measurement(&database, "autogen", &name).await.unwrap().unwrap();
            catalog.delete_points(&measurement, &tags, time).await.unwrap();
        };
        tokio::spawn(delete)
    }

    fn looked_up(&self) -> u64 {
        self.writer.counts().looked_up.load(Ordering::Relaxed)
    }

    async fn hosts(&self, measurement: &str) -> Vec<String> {
        let measurement = self.catalog.measurement("d", "autogen", measurement).await.unwrap().unwrap();
        let series = measurement.series();
        series.values_of("host", &series.all())
    }
}

/// Lets all tasks run as far as they can. Nothing here waits for a clock or a disk.
async fn settle() {
    for _ in 0..1000 {
        yield_now().await;
    }
}

fn lines(measurement: &str, hosts: std::ops::Range<usize>, time: i64) -> String {
    hosts.map(|host| format!("{measurement},host=h{host} v=1 {time}\n")).collect()
}

fn host(host: &str) -> TagFilter {
    TagFilter::Equal("host".into(), host.into())
}

#[tokio::test]
async fn a_deletion_blocks_writers_to_its_measurement_and_no_others() {
    let bed = Bed::new().await;
    let all = [lines("a", 0..10, 1), lines("b", 0..10, 1)].concat();
    assert_eq!(bed.write("d", all.clone()).await.unwrap(), 20);
    assert_eq!(bed.write("other", all).await.unwrap(), 20);
    let held = bed.store.hooks.held.lock().await;
    let deleting = bed.delete("d", "a", host("h3"), TimeRange::ALL);
    settle().await;
    assert_eq!(bed.store.hooks.deletions.load(Ordering::Relaxed), 1, "it has begun");
    let (same, beside) = (bed.write("d", lines("a", 0..10, 2)), bed.write("d", lines("b", 0..10, 2)));
    let elsewhere = bed.write("other", lines("a", 0..10, 2));
    let both = bed.write("d", [lines("b", 0..5, 3), lines("a", 0..5, 3)].concat());
    let beside_again = bed.write("d", lines("b", 0..12, 4));
    let removing_beside = bed.delete("d", "b", host("h9"), TimeRange::new(1, 2));
    settle().await;
    let waits = [same.is_finished(), both.is_finished()];
    let done = [beside.is_finished(), elsewhere.is_finished(), beside_again.is_finished()];
    assert_eq!((waits, done), ([false; 2], [true; 3]));
    drop(held);
    deleting.await.unwrap();
    removing_beside.await.unwrap();
    assert_eq!((same.await.unwrap(), both.await.unwrap()), (10, 10));
    // The removed series came back with a new id.
    let measurement = bed.catalog.measurement("d", "autogen", "a").await.unwrap().unwrap();
    let found: Vec<u32> = measurement.series().select(&host("h3")).into_iter().collect();
    assert_eq!(found, [10]);
    assert_eq!(bed.hosts("a").await.len(), 10);
}

/// Points that are staged already, and become visible with those of other measurements, must keep their series.
#[tokio::test]
async fn a_deletion_waits_for_a_write_of_several_batches_that_become_visible_at_once() {
    let bed = Bed::new().await;
    bed.write("d", [lines("a", 0..3, 1), lines("b", 0..1, 1)].concat()).await.unwrap();
    let held = bed.store.hooks.held_writes.lock().await;
    // A batch for each line. The record of the new series of the second one is being written.
    let body = [lines("a", 1..2, 5), lines("b", 7..8, 5)].concat();
    let writer = bed.writer.clone();
    let writing = tokio::spawn(async move {
        let limits = LineLimits { max_rows: 1, ..LineLimits::default() };
        let options = ParseOptions { limits, ..ParseOptions::default() };
        writer.write_whole("d", "", options, body.as_bytes()).await.unwrap().written
    });
    settle().await;
    let deleting = bed.delete("d", "a", host("h1"), TimeRange::ALL);
    settle().await;
    assert!(!writing.is_finished() && !deleting.is_finished());
    assert_eq!(bed.store.hooks.deletions.load(Ordering::Relaxed), 0, "it has not begun");
    drop(held);
    assert_eq!(writing.await.unwrap(), 2);
    deleting.await.unwrap();
    let expected = |hosts: &[&str]| -> BTreeMap<String, BTreeSet<i64>> {
        hosts.iter().map(|host| ((*host).to_owned(), BTreeSet::from([1]))).collect()
    };
    assert_eq!(points(&bed.store, &bed.catalog, "a").await, expected(&["h0", "h2"]));
    assert_eq!((bed.hosts("a").await.len(), bed.hosts("b").await.len()), (2, 2));
}

/// The other way round: what cannot be locked beside what is staged is waited for without any lock, and the write begins anew.
#[tokio::test]
async fn a_write_of_several_batches_begins_anew_after_a_deletion_that_it_waited_for() {
    let bed = Bed::new().await;
    bed.write("d", [lines("a", 0..3, 1), lines("b", 0..3, 1)].concat()).await.unwrap();
    let held = bed.store.hooks.held.lock().await;
    let deleting = bed.delete("d", "b", host("h1"), TimeRange::ALL);
    settle().await;
    assert_eq!(bed.store.hooks.deletions.load(Ordering::Relaxed), 1, "it has begun");
    let body = [lines("a", 1..2, 5), lines("b", 1..2, 5)].concat();
    let writer = bed.writer.clone();
    let writing = tokio::spawn(async move {
        let limits = LineLimits { max_rows: 1, ..LineLimits::default() };
        let options = ParseOptions { limits, ..ParseOptions::default() };
        writer.write_whole("d", "", options, body.as_bytes()).await.unwrap().written
    });
    settle().await;
    assert!(!writing.is_finished() && !deleting.is_finished());
    // Nobody waits for the table of what was staged.
    let beside = bed.delete("d", "a", host("h2"), TimeRange::new(7, 8));
    drop(held);
    deleting.await.unwrap();
    beside.await.unwrap();
    assert_eq!(writing.await.unwrap(), 2);
    let found = points(&bed.store, &bed.catalog, "b").await;
    assert_eq!(found.get("h1"), Some(&BTreeSet::from([5])), "{found:?}");
    assert_eq!(points(&bed.store, &bed.catalog, "a").await["h1"], BTreeSet::from([1, 5]));
}

#[tokio::test]
async fn a_removal_keeps_the_cached_ids_of_all_other_series() {
    let bed = Bed::new().await;
    let all = [lines("a", 0..100, 1), lines("b", 0..100, 1)].concat();
    let again = async || {
        let before = bed.looked_up();
        assert_eq!(bed.write("d", all.clone()).await.unwrap(), 200);
        bed.looked_up() - before
    };
    assert_eq!(again().await, 200);
    assert_eq!(again().await, 0);
    bed.delete("d", "a", host("h7"), TimeRange::new(5, 10)).await.unwrap();
    assert_eq!(again().await, 0, "nothing was there to delete");
    bed.delete("d", "a", host("h7"), TimeRange::ALL).await.unwrap();
    assert_eq!(again().await, 1);
    bed.catalog.drop_measurement("d", "b").await.unwrap();
    assert_eq!(again().await, 100);
    assert_eq!((bed.hosts("a").await.len(), bed.hosts("b").await.len()), (100, 100));
}

#[tokio::test]
async fn writers_and_removals_of_several_measurements_do_not_deadlock() {
    let bed = Bed::new().await;
    let names = ["a", "b", "c"];
    let all: String = names.iter().map(|name| lines(name, 0..3, 1)).collect();
    bed.write("d", all).await.unwrap();
    let mut tasks = Vec::new();
    for round in 0..60 {
        let held = bed.store.hooks.held.lock().await;
        let order = [0, 1, 2].map(|place| names[(place * (round % 2 + 1) + round) % 3]);
        let body: String = order.iter().map(|name| lines(name, 0..3, round as i64)).collect();
        tasks.push(bed.write("d", body.clone()));
        let name = names[round % 3].to_owned();
        let catalog = bed.catalog.clone();
        let removal = async move {
            if round % 7 == 6 {
                catalog.drop_measurement("d", &name).await.unwrap();
            } else if let Some(measurement) = catalog.measurement("d", "autogen", &name).await.unwrap() {
                catalog.delete_points(&measurement, &host("h1"), TimeRange::ALL).await.unwrap();
            }
            0
        };
        tasks.push(tokio::spawn(removal));
        tasks.push(bed.write("d", body));
        yield_now().await;
        drop(held);
    }
    settle().await;
    let left = tasks.iter().filter(|task| !task.is_finished()).count();
    assert_eq!(left, 0, "tasks that wait for ever");
    for name in names {
        bed.write("d", lines(name, 0..3, 99)).await.unwrap();
        assert_eq!(bed.hosts(name).await.len(), 3);
    }
}

#[tokio::test]
async fn a_deletion_only_asks_for_shards_that_it_touched() {
    const WEEK_NS: i64 = 7 * 86_400_000_000_000;
    let bed = Bed::new().await;
    for week in 0..20 {
        bed.write("d", lines("a", 0..50, week * WEEK_NS)).await.unwrap();
    }
    bed.delete("d", "a", host("h0"), TimeRange::ALL).await.unwrap();
    let before = bed.store.hooks.snapshots.load(Ordering::Relaxed);
    for number in 2..40 {
        bed.delete("d", "a", host(&format!("h{number}")), TimeRange::ALL).await.unwrap();
    }
    bed.delete("d", "a", host("h41"), TimeRange::new(WEEK_NS, 5 * WEEK_NS)).await.unwrap();
    let asked = bed.store.hooks.snapshots.load(Ordering::Relaxed) - before;
    assert_eq!(asked, 2, "for the rows of the last one in its range, and elsewhere");
    assert_eq!(bed.hosts("a").await.len(), 11);
    // When the last of them are removed, their shards' types are free again.
    bed.delete("d", "a", TagFilter::All, TimeRange::new(WEEK_NS, i64::MAX)).await.unwrap();
    assert_eq!(bed.write("d", format!("a,host=h1 v=true {}", 3 * WEEK_NS)).await.unwrap(), 1);
}

#[tokio::test]
async fn a_cancelled_removal_leaves_no_point_without_its_series() {
    let bed = Bed::new().await;
    bed.write("d", lines("a", 0..3, 1)).await.unwrap();
    bed.store.hooks.is_silent.store(true, Ordering::Relaxed);
    let deleting = bed.delete("d", "a", host("h1"), TimeRange::ALL);
    settle().await;
    assert!(!deleting.is_finished());
    deleting.abort();
    deleting.await.unwrap_err();
    bed.store.hooks.is_silent.store(false, Ordering::Relaxed);
    assert_eq!(bed.write("d", lines("a", 0..3, 2)).await.unwrap(), 3);
    // As after a restart.
    let catalog = Catalog::open(bed.store.clone() as StoreRef).await.unwrap();
    let measurement = catalog.measurement("d", "autogen", "a").await.unwrap().unwrap();
    let ids: Vec<SeriesId> = measurement.series().select(&host("h1")).into_iter().map(SeriesId).collect();
    assert_eq!(ids.len(), 1, "the series is there once");
    let mut rows =
        bed.store.inner.latest().scan(times_of(&measurement, SeriesSet::Ids(ids.into()))).await.unwrap();
    assert_eq!(
        rows.next().await.unwrap().map_or(0, |batch| batch.rows),
        1,
        "with the point that was acknowledged"
    );
}

fn times_of(measurement: &Measurement, series: SeriesSet) -> ScanRequest {
    ScanRequest::by_key(
        measurement.table(),
        RowSelection::Series { series, time: TimeRange::ALL },
        vec![TIME_COLUMN],
    )
}

/// The points of a measurement by host, as a snapshot shows them.
async fn points(store: &HeldStore, catalog: &Catalog, name: &str) -> BTreeMap<String, BTreeSet<i64>> {
    let mut found: BTreeMap<String, BTreeSet<i64>> = BTreeMap::new();
    let mut ids = BTreeMap::new();
    let Some(measurement) = catalog.measurement("d", "autogen", name).await.unwrap() else { return found };
    let mut rows = store.inner.latest().scan(times_of(&measurement, SeriesSet::All)).await.unwrap();
    while let Some(batch) = rows.next().await.unwrap() {
        let times = batch.columns[0].as_primitive::<TimestampNanosecondType>();
        let mut row = 0;
        for run in &batch.series {
            let tags = measurement.series().tags_of(run.series);
            assert_eq!(tags.len(), 1, "points of a series that is not there");
            let times = (row..row + run.rows as usize).map(|row| times.value(row));
            let owner = ids.entry(tags[0].1.clone()).or_insert(run.series);
            assert_eq!(*owner, run.series, "a tag set has one series");
            found.entry(tags[0].1.clone()).or_default().extend(times);
            row += run.rows as usize;
        }
    }
    found
}

/// Writers that delete their own points, concurrently, some of them cancelled. In the end exactly the points that each
/// of them knows exist, before and after a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_and_deletions_beside_each_other_are_as_one_after_the_other() {
    let seed: u64 = std::env::var("NYALA_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
    let bed = Arc::new(Bed::new().await);
    let run = |task: u64| {
        let bed = bed.clone();
        async move {
            let mut random = SmallRng::seed_from_u64(seed ^ task);
            let mut known: BTreeMap<(usize, String), BTreeSet<i64>> = BTreeMap::new();
            for time in 1..400_i64 {
                let names: Vec<usize> = (0..2).filter(|_| random.random_bool(0.7)).collect();
                let hosts: Vec<u32> =
                    (0..random.random_range(1..6)).map(|_| random.random_range(0..12)).collect();
                if random.random_bool(0.6) {
                    let mut body = String::new();
                    for (name, host) in
                        names.iter().flat_map(|name| hosts.iter().map(move |host| (*name, *host)))
                    {
                        body += &format!("{},host=t{task}-{host} v=1 {time}\n", ["a", "b"][name]);
                        known.entry((name, format!("t{task}-{host}"))).or_default().insert(time);
                    }
                    if !body.is_empty() {
                        bed.write("d", body).await.unwrap();
                    }
                    continue;
                }
                let (name, owner) = (random.random_range(0..2), format!("t{task}-{}", hosts[0]));
                let until = if random.random_bool(0.5) { i64::MAX } else { random.random_range(1..=time) };
                let range = if until == i64::MAX { TimeRange::ALL } else { TimeRange::new(i64::MIN, until) };
                if bed.catalog.measurement("d", "autogen", ["a", "b"][name]).await.unwrap().is_none() {
                    continue;
                }
                if random.random_bool(0.2) {
                    let broken = bed.delete("d", ["a", "b"][name], host(&owner), range);
                    (0..random.random_range(0..3)).for_each(|_| std::thread::yield_now());
                    broken.abort();
                    let _ = broken.await;
                }
                bed.delete("d", ["a", "b"][name], host(&owner), range).await.unwrap();
                if let Some(times) = known.get_mut(&(name, owner)) {
                    times.retain(|time| !range.contains(*time));
                }
            }
            known
        }
    };
    let tasks: Vec<_> = (1..=4).map(|task| tokio::spawn(run(task))).collect();
    let mut known = BTreeMap::new();
    for task in tasks {
        known.extend(task.await.unwrap());
    }
    known.retain(|_, times: &mut BTreeSet<i64>| !times.is_empty());
    let again = Catalog::open(bed.store.clone() as StoreRef).await.unwrap();
    for catalog in [&*bed.catalog, &again] {
        for (number, name) in ["a", "b"].into_iter().enumerate() {
            let expected: BTreeMap<String, BTreeSet<i64>> = known
                .iter()
                .filter(|((own, _), _)| *own == number)
                .map(|((_, host), times)| (host.clone(), times.clone()))
                .collect();
            assert_eq!(points(&bed.store, catalog, name).await, expected, "NYALA_SEED={seed}");
        }
    }
}
