//! Evicted series still exist: for queries of their time, for writers, for deletions, and after a restart.

mod support;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use async_trait::async_trait;
use nyala_core::memory::MemoryBudget;
use nyala_core::schema::TIME_COLUMN;
use nyala_core::store::{Operation, StoreRef, WriteBatch};
use nyala_core::{Error, Result, SeriesId, TimeRange};
use nyala_db::catalog::{Catalog, Measurement, PolicyChange};
use nyala_db::idle::IdleRules;
use nyala_db::ingest::ParseOptions;
use nyala_db::series::TagFilter;
use nyala_db::write::LineWriter;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use support::{HookedStore, Hooks};

const HOUR_NS: i64 = 3_600_000_000_000;

/// Batches fail when told to, before or after they are stored.
#[derive(Default)]
struct Faults {
    fails: AtomicU8,
}

#[async_trait]
impl Hooks for Faults {
    async fn before_write(&self, batch: &WriteBatch) -> Result<()> {
        if self.fails.load(Ordering::Relaxed) == 1 {
            return Err(Error::limit("asked to fail before"));
        }
        assert!(largest_cell(batch) < CELL_BYTES_MAX, "the engine takes 32 MiB");
        Ok(())
    }

    async fn after_write(&self) -> Result<()> {
        match self.fails.load(Ordering::Relaxed) {
            2 => Err(Error::limit("asked to fail after")),
            _ => Ok(()),
        }
    }
}

type FaultyStore = HookedStore<Faults>;

/// The limit of a cell is high, because some tests have tags of 16 MB.
const CELL_BYTES_MAX: usize = 6 << 20;

fn largest_cell(batch: &WriteBatch) -> usize {
    let upserts = batch.operations.iter().filter_map(|operation| match operation {
        Operation::Upsert(upsert) => Some(upsert),
        Operation::DeleteKeys { .. } => None,
    });
    let cells =
        upserts.flat_map(|upsert| &upsert.columns).filter_map(|cells| cells.values.as_binary_opt::<i32>());
    cells.flat_map(|cells| cells.iter().flatten().map(<[u8]>::len)).max().unwrap_or(0)
}

/// Prints the seed of a test that failed.
struct Told(u64);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            #[allow(clippy::print_stderr, reason = "for the person who looks at the failure")]
            {
                eprintln!("NYALA_SEED={}", self.0);
            }
        }
    }
}

/// Points by host, and the metadata that says how many series there are.
type Points = BTreeMap<String, BTreeSet<i64>>;

struct Bed {
    store: Arc<FaultyStore>,
    catalog: Arc<Catalog>,
    writer: Arc<LineWriter>,
    /// The time of day of maintenance.
    now_ns: i64,
}

impl Bed {
    async fn new(rules: IdleRules) -> Self {
        let store = Arc::new(FaultyStore::default());
        let catalog = Catalog::open(store.clone() as StoreRef).await.unwrap();
        let shards = PolicyChange { shard_duration_ns: Some(HOUR_NS), ..PolicyChange::default() };
        catalog.create_database("d", Some(("p", shards))).await.unwrap();
        Self::with(store, catalog, rules)
    }

    fn with(store: Arc<FaultyStore>, catalog: Catalog, rules: IdleRules) -> Self {
        let catalog = Arc::new(catalog.with_idle_rules(rules));
        let writer = LineWriter::new(catalog.clone(), MemoryBudget::new(1 << 40), usize::MAX);
        Self { store, catalog, writer: Arc::new(writer), now_ns: 0 }
    }

    /// As after a restart.
    async fn again(&self, rules: IdleRules) -> Self {
        let catalog = Catalog::open(self.store.clone() as StoreRef).await.unwrap();
        Self::with(self.store.clone(), catalog, rules)
    }

    async fn write(&self, hosts: impl IntoIterator<Item = usize>, times_ns: Range<i64>) {
        let times = || times_ns.clone().step_by(HOUR_NS as usize / 2);
        let line = |(host, time): (usize, i64)| format!("m,host=h{host},zone=z{} v=1 {time}\n", host % 3);
        let lines: String =
            hosts.into_iter().flat_map(|host| times().map(move |time| (host, time))).map(line).collect();
        let report = self.writer.write("d", "", ParseOptions::default(), lines.as_bytes()).await.unwrap();
        assert_eq!(report.complaint(), None);
    }

    async fn measurement(&self) -> Arc<Measurement> {
        self.catalog.measurement("d", "p", "m").await.unwrap().unwrap()
    }

    /// A round of maintenance, later than the last one.
    async fn upkeep(&mut self) -> Result<()> {
        self.now_ns += HOUR_NS;
        self.catalog.learn_presence().await.unwrap();
        self.catalog.evict_idle_series(self.now_ns).await
    }

    /// Rounds of maintenance after which inactive series are evicted.
    async fn idle_away(&mut self) {
        for _ in 0..6 {
            self.upkeep().await.unwrap();
        }
    }

    /// The result of a query.
    async fn query(&self, filter: &TagFilter, time: TimeRange) -> Points {
        let measurement = self.measurement().await;
        let found = self.catalog.points(&measurement, filter, time).await.unwrap();
        let snapshot = self.catalog.snapshot().await.unwrap();
        let Some(mut rows) = found.scan(&snapshot, vec![TIME_COLUMN]).await.unwrap() else {
            return Points::new();
        };
        let (mut points, mut ids) = (Points::new(), BTreeMap::new());
        while let Some(batch) = rows.next().await.unwrap() {
            let times = batch.columns[0].as_primitive::<TimestampNanosecondType>();
            let mut row = 0;
            for run in &batch.series {
                let host = measurement.series().value_of(run.series, "host").to_owned();
                assert_ne!(host, "", "points of a series that is not there");
                assert_eq!(
                    *ids.entry(host.clone()).or_insert(run.series),
                    run.series,
                    "{host} has one series"
                );
                let times = (row..row + run.rows as usize).map(|row| times.value(row));
                points.entry(host).or_default().extend(times);
                row += run.rows as usize;
            }
        }
        points
    }

    /// Queries everything, including series without points.
    async fn everything(&self) -> Points {
        let mut points = self.query(&TagFilter::All, TimeRange::ALL).await;
        let measurement = self.measurement().await;
        let _pin = self.catalog.reload_series(&measurement, TimeRange::ALL, &TagFilter::All).await.unwrap();
        let series = measurement.series();
        for id in series.all().iter() {
            points.entry(series.value_of(SeriesId(id), "host").to_owned()).or_default();
        }
        assert_eq!(points.len(), series.len(), "a tag set has one series");
        points
    }
}

/// Fails with the first hosts that are not as expected. `may_be_empty`: whether series without points may be found.
fn assert_same(mut found: Points, expected: &Points, may_be_empty: bool, what: &str) {
    if may_be_empty {
        found.retain(|host, times| !times.is_empty() || expected.contains_key(host));
    }
    let hosts: BTreeSet<&String> = found.keys().chain(expected.keys()).collect();
    let differing: Vec<_> =
        hosts.into_iter().filter(|host| found.get(*host) != expected.get(*host)).collect();
    let shown = differing
        .iter()
        .take(3)
        .map(|host| format!("{host}: {:?} for {:?}", found.get(*host), expected.get(*host)));
    let shown: Vec<String> = shown.collect();
    assert!(differing.is_empty(), "{what}: {} hosts differ: {}", differing.len(), shown.join("; "));
}

fn rules() -> IdleRules {
    IdleRules { after_ns: 1, series_min: 1, ..IdleRules::default() }
}

fn host(number: usize) -> TagFilter {
    TagFilter::Equal("host".into(), format!("h{number}"))
}

#[tokio::test]
async fn idle_series_are_evicted_and_reloaded_for_queries_of_their_time() {
    let mut bed = Bed::new(rules()).await;
    bed.write(0..3000, 0..HOUR_NS).await;
    bed.write(3000..4000, 10 * HOUR_NS..11 * HOUR_NS).await;
    let measurement = bed.measurement().await;
    bed.upkeep().await.unwrap();
    bed.upkeep().await.unwrap();
    assert_eq!(measurement.series().len(), 4000, "they had points a moment ago");
    let full_bytes = measurement_bytes(&bed);
    for _ in 0..4 {
        bed.write(3500..4000, 11 * HOUR_NS..12 * HOUR_NS).await;
        bed.upkeep().await.unwrap();
    }
    assert_eq!((measurement.series().len(), measurement.count_series()), (500, 4000));
    assert!(measurement_bytes(&bed) < full_bytes / 4);
    assert!(measurement.tag_keys() == ["host", "zone"] && measurement.has_tag_key("host"));

    // A query of times in which the others have no points does not reload them.
    assert_eq!(bed.query(&TagFilter::All, TimeRange::new(12 * HOUR_NS, i64::MAX)).await.len(), 0);
    assert_eq!(bed.query(&TagFilter::All, TimeRange::new(11 * HOUR_NS, i64::MAX)).await.len(), 500);
    assert_eq!(measurement.series().len(), 500);
    let found = bed.query(&host(7), TimeRange::new(0, HOUR_NS)).await;
    assert_eq!(found, Points::from([("h7".to_owned(), BTreeSet::from([0, HOUR_NS / 2]))]));
    let here = measurement.series().len();
    assert!((500 + 1000..4000).contains(&here), "{here} series: those of other times stay evicted");
    assert_eq!(bed.everything().await.len(), 4000);
    bed.idle_away().await;
    assert_eq!((measurement.series().len(), measurement.count_series()), (0, 4000));

    // After a restart they are evicted at once.
    let bed = bed.again(rules()).await;
    let measurement = bed.measurement().await;
    assert_eq!((measurement.series().len(), measurement.count_series()), (0, 4000));
    assert_eq!(bed.query(&host(3001), TimeRange::ALL).await["h3001"].len(), 2);
}

fn measurement_bytes(bed: &Bed) -> usize {
    bed.catalog.measure_series_memory()
}

#[tokio::test]
async fn an_evicted_series_keeps_its_id_when_it_is_written_again() {
    let mut bed = Bed::new(rules()).await;
    bed.write(0..2000, 0..HOUR_NS).await;
    bed.idle_away().await;
    let measurement = bed.measurement().await;
    assert_eq!(measurement.series().len(), 0);
    // It overwrites an existing point, and adds another one.
    bed.write([5, 2001], 0..HOUR_NS).await;
    bed.write([5], 3 * HOUR_NS..4 * HOUR_NS).await;
    assert_eq!((measurement.series().len(), measurement.count_series()), (2, 2001));
    let expected = BTreeSet::from([0, HOUR_NS / 2, 3 * HOUR_NS, 3 * HOUR_NS + HOUR_NS / 2]);
    assert_eq!(bed.query(&host(5), TimeRange::ALL).await["h5"], expected);
    let mut again = bed.again(rules()).await;
    assert_eq!(again.measurement().await.count_series(), 2001);
    assert_eq!(again.query(&host(5), TimeRange::new(3 * HOUR_NS, i64::MAX)).await["h5"].len(), 2);
    again.idle_away().await;
    assert_eq!(again.measurement().await.series().len(), 0);
    again.write([5], 8 * HOUR_NS..9 * HOUR_NS).await;
    assert_eq!(again.query(&host(5), TimeRange::ALL).await["h5"].len(), 6);
    assert_eq!(again.everything().await.len(), 2001);
}

#[tokio::test]
async fn reloaded_series_stay_within_the_memory_limit() {
    let mut bed = Bed::new(IdleRules { series_bytes_max: 300 << 10, ..rules() }).await;
    bed.write(0..2000, 0..HOUR_NS).await;
    bed.idle_away().await;
    bed.write(2000..4000, 2 * HOUR_NS..3 * HOUR_NS).await;
    bed.idle_away().await;
    measurement_bytes(&bed);
    let measurement = bed.measurement().await;
    let error = bed
        .catalog
        .reload_series(&measurement, TimeRange::ALL, &TagFilter::All)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("\"m\" has 4000 series in these times that got no points lately"), "{error}");
    // The requested series fit, although not all series of that time do.
    for number in [1, 1999, 3999] {
        assert_eq!(bed.query(&host(number), TimeRange::ALL).await[&format!("h{number}")].len(), 2);
    }
    let some = TagFilter::And(vec![
        TagFilter::Matches("host".into(), regex::bytes::Regex::new("^h1?[0-9]$").unwrap()),
        TagFilter::NotEqual("zone".into(), "z0".into()),
        TagFilter::Or(vec![host(4), host(5), host(6)]),
    ]);
    let found: Vec<String> = bed.query(&some, TimeRange::ALL).await.into_keys().collect();
    assert_eq!(found, ["h4", "h5"]);
    assert!(measurement.series().len() < 20);
    assert_eq!(bed.query(&TagFilter::All, TimeRange::new(0, HOUR_NS)).await.len(), 2000);
}

#[tokio::test]
async fn idle_series_stay_idle_after_a_failed_write_until_one_succeeds() {
    let mut bed = Bed::new(rules()).await;
    bed.write(0..1500, 0..HOUR_NS).await;
    bed.idle_away().await;
    for how in [1, 2] {
        bed.store.hooks.fails.store(how, Ordering::Relaxed);
        let lines: String =
            (0..1500).map(|host| format!("m,host=h{host},zone=z{} v=1 7\n", host % 3)).collect();
        assert!(bed.writer.write("d", "", ParseOptions::default(), lines.as_bytes()).await.is_err());
        bed.store.hooks.fails.store(0, Ordering::Relaxed);
        bed.write(1500..1501, 0..HOUR_NS).await;
        bed = bed.again(rules()).await;
        assert_eq!(bed.measurement().await.count_series(), 1501);
        assert!(bed.query(&host(7), TimeRange::ALL).await["h7"].contains(&0));
        assert_eq!(bed.everything().await.len(), 1501);
    }
}

#[tokio::test]
async fn deletions_reach_evicted_series() {
    let mut bed = Bed::new(IdleRules { series_bytes_max: 100 << 10, ..rules() }).await;
    bed.write(0..2000, 0..HOUR_NS).await;
    bed.idle_away().await;
    let measurement = bed.measurement().await;
    // Only one series is written: it is all that is in memory, but not all that exists.
    bed.catalog.delete_points(&measurement, &host(5), TimeRange::ALL).await.unwrap();
    assert_eq!(measurement.count_series(), 1999);
    for number in [4, 6, 1999] {
        assert_eq!(bed.query(&host(number), TimeRange::ALL).await[&format!("h{number}")].len(), 2);
    }
    bed.catalog.delete_points(&measurement, &TagFilter::All, TimeRange::ALL).await.unwrap();
    assert_eq!(measurement.count_series(), 0);
}

#[tokio::test]
async fn an_idle_set_with_long_tags_is_divided() {
    let mut bed = Bed::new(rules()).await;
    let long = "x".repeat(15_000);
    for hosts in [0..1000, 1000..1100] {
        let line = |host: usize| format!("m,host=h{host},long={long} v=1 1\n");
        let lines: String = hosts.map(line).collect();
        bed.writer.write("d", "", ParseOptions::default(), lines.as_bytes()).await.unwrap();
    }
    bed.idle_away().await;
    let measurement = bed.measurement().await;
    assert_eq!((measurement.series().len(), measurement.count_series()), (0, 1100));
    assert_eq!(bed.everything().await.len(), 1100);
}

#[tokio::test]
async fn series_that_a_query_needs_are_not_evicted_until_it_ends() {
    let mut bed = Bed::new(rules()).await;
    bed.write(0..1500, 0..HOUR_NS).await;
    let measurement = bed.measurement().await;
    // The query began before the series became idle, whatever times it covers.
    let pin = bed
        .catalog
        .reload_series(&measurement, TimeRange::new(99 * HOUR_NS, i64::MAX), &TagFilter::All)
        .await
        .unwrap();
    bed.idle_away().await;
    assert_eq!(measurement.series().len(), 1500);
    drop(pin);
    bed.idle_away().await;
    assert_eq!(measurement.series().len(), 0);
    let pin = bed.catalog.reload_series(&measurement, TimeRange::new(0, 1), &TagFilter::All).await.unwrap();
    bed.idle_away().await;
    assert_eq!(measurement.series().len(), 1500);
    drop(pin);
    bed.idle_away().await;
    assert_eq!(measurement.series().len(), 0);
}

#[tokio::test]
async fn reloaded_series_are_present_in_the_shards_of_their_time() {
    let mut bed = Bed::new(IdleRules { series_min: 1 << 14, ..rules() }).await;
    bed.write(0..18_000, 0..1).await;
    bed.write(0..18_000, 5 * HOUR_NS..5 * HOUR_NS + 1).await;
    for _ in 0..4 {
        bed.catalog.learn_presence().await.unwrap();
    }
    let measurement = bed.measurement().await;
    bed.idle_away().await;
    assert_eq!(measurement.series().len(), 0);
    let first = TimeRange::new(0, HOUR_NS);
    assert_eq!(bed.query(&TagFilter::All, first).await.len(), 18_000);
    bed.idle_away().await;
    // A series that a writer reloads is found in all shards in which it has points.
    bed.write(0..1, 9 * HOUR_NS..9 * HOUR_NS + 1).await;
    assert_eq!(bed.query(&host(0), TimeRange::ALL).await["h0"].len(), 3);
    bed.write(1..2000, 9 * HOUR_NS..9 * HOUR_NS + 1).await;
    let second = TimeRange::new(5 * HOUR_NS, 6 * HOUR_NS);
    assert_eq!(bed.query(&TagFilter::All, second).await.len(), 18_000);
    assert_eq!(bed.everything().await.len(), 18_000);
}

/// Whatever happens to the series of a measurement, in memory or not, queries find exactly the expected points.
#[tokio::test]
async fn series_that_come_and_go_equal_a_list_of_points() {
    let seed: u64 = std::env::var("NYALA_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
    let _told = Told(seed);
    let mut random = SmallRng::seed_from_u64(seed);
    let mut bed = Bed::new(rules()).await;
    let mut known = Points::new();
    let (mut away_max, mut woken) = (0, 0);
    bed.write(0..1, 0..1).await;
    known.insert("h0".to_owned(), BTreeSet::from([0]));
    for step in 0..400 {
        let hour = random.random_range(0..30) + step / 20;
        let first_host = random.random_range(0..300_usize);
        let hosts = first_host..first_host + random.random_range(1..40);
        let range = match random.random_range(0..3) {
            0 => TimeRange::ALL,
            1 => TimeRange::new(hour * HOUR_NS, (hour + random.random_range(1..4)) * HOUR_NS),
            _ => TimeRange::new(i64::MIN, hour * HOUR_NS + 1),
        };
        match random.random_range(0..100) {
            0..30 => {
                let hours = random.random_range(1..3);
                let times = hour * HOUR_NS..(hour + hours) * HOUR_NS;
                let measurement = bed.measurement().await;
                woken += measurement.count_series() - measurement.series().len();
                bed.write(hosts.clone(), times.clone()).await;
                for host in hosts {
                    known
                        .entry(format!("h{host}"))
                        .or_default()
                        .extend(times.clone().step_by(HOUR_NS as usize / 2));
                }
            }
            30..60 => {
                let how = if random.random_bool(0.15) { random.random_range(1..3) } else { 0 };
                bed.store.hooks.fails.store(how, Ordering::Relaxed);
                let kept = bed.upkeep().await;
                bed.store.hooks.fails.store(0, Ordering::Relaxed);
                assert!(how > 0 || kept.is_ok(), "{kept:?}");
            }
            60..80 => {
                let filter = match random.random_range(0..3) {
                    0 => host(first_host),
                    1 => TagFilter::NotEqual("zone".into(), "z1".into()),
                    _ => TagFilter::All,
                };
                let mut expected = known.clone();
                expected.retain(|host, times| {
                    let number: usize = host[1..].parse().unwrap();
                    times.retain(|time| range.contains(*time));
                    let is_selected = match &filter {
                        TagFilter::Equal(..) => number == first_host,
                        TagFilter::NotEqual(..) => number % 3 != 1,
                        _ => true,
                    };
                    is_selected && !times.is_empty()
                });
                let what = format!("step {step}, {filter:?} in {range:?}");
                assert_same(bed.query(&filter, range).await, &expected, false, &what);
            }
            80..88 => {
                let filter = match random.random_range(0..8) {
                    0 => TagFilter::All,
                    1 => TagFilter::Equal("zone".into(), format!("z{}", first_host % 3)),
                    _ => host(first_host),
                };
                bed.catalog.delete_points(&*bed.measurement().await, &filter, range).await.unwrap();
                known.retain(|host, times| {
                    let number: usize = host[1..].parse().unwrap();
                    let is_selected = match &filter {
                        TagFilter::Equal(key, _) if key == "host" => number == first_host,
                        TagFilter::Equal(..) => number % 3 == first_host % 3,
                        _ => true,
                    };
                    if is_selected {
                        times.retain(|time| !range.contains(*time));
                    }
                    !times.is_empty()
                });
            }
            88..93 => {
                let shards = bed.catalog.shards().await.unwrap();
                if shards.is_empty() {
                    continue;
                }
                let shard = &shards[random.random_range(0..shards.len())];
                bed.catalog.drop_shard(shard.id).await.unwrap();
                known.retain(|_, times| {
                    times.retain(|time| !shard.range.contains(*time));
                    !times.is_empty()
                });
            }
            93..96 => bed = Bed { now_ns: bed.now_ns, ..bed.again(rules()).await },
            // A series that lost its points to a deletion and a dropped shard in turn is only later known to be empty.
            _ => assert_same(bed.everything().await, &known, true, &format!("step {step}")),
        }
        let measurement = bed.measurement().await;
        away_max = away_max.max(measurement.count_series() - measurement.series().len());
    }
    assert_same(bed.everything().await, &known, true, "in the end");
    assert!(away_max > 100 && woken > 100, "{away_max} were evicted at most, {woken} when somebody wrote");
    bed.upkeep().await.unwrap();
    bed.write(0..1, 0..1).await;
    let count = bed.measurement().await.count_series();
    assert_eq!(bed.again(rules()).await.measurement().await.count_series(), count, "after a start");
    // When the last points are gone, all records are gone.
    bed.catalog.delete_points(&*bed.measurement().await, &TagFilter::All, TimeRange::ALL).await.unwrap();
    let again = bed.again(rules()).await;
    assert_eq!(again.measurement().await.count_series(), 0);
}

/// Writers, queries and maintenance at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nobody_misses_a_series_that_comes_or_goes_meanwhile() {
    let seed: u64 = std::env::var("NYALA_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
    let _told = Told(seed);
    let bed = Arc::new(Bed::new(rules()).await);
    bed.write(0..1, 0..1).await;
    let work = |task: u64| {
        let bed = bed.clone();
        async move {
            let mut random = SmallRng::seed_from_u64(seed ^ task);
            let mut known = Points::new();
            for step in 0..150 {
                let first = task as usize * 1000 + random.random_range(0..200);
                let hour = random.random_range(0..20);
                if random.random_bool(0.5) {
                    let hosts = first..first + random.random_range(1..20);
                    bed.write(hosts.clone(), hour * HOUR_NS..(hour + 1) * HOUR_NS).await;
                    for host in hosts {
                        let times = [hour * HOUR_NS, hour * HOUR_NS + HOUR_NS / 2];
                        known.entry(format!("h{host}")).or_default().extend(times);
                    }
                } else {
                    let range = TimeRange::new(hour * HOUR_NS, (hour + 5) * HOUR_NS);
                    let found = bed.query(&host(first), range).await;
                    let mut expected = known.get(&format!("h{first}")).cloned().unwrap_or_default();
                    expected.retain(|time| range.contains(*time));
                    let found = found.into_values().next().unwrap_or_default();
                    assert_eq!(found, expected, "step {step}");
                }
            }
            known
        }
    };
    let tasks: Vec<_> = (1..=4).map(|task| tokio::spawn(work(task))).collect();
    let upkeep = {
        let bed = bed.clone();
        tokio::spawn(async move {
            for round in 1.. {
                bed.catalog.learn_presence().await.unwrap();
                bed.catalog.evict_idle_series(round * HOUR_NS).await.unwrap();
                tokio::task::yield_now().await;
            }
        })
    };
    let mut known = Points::from([("h0".to_owned(), BTreeSet::from([0]))]);
    for task in tasks {
        known.extend(task.await.unwrap());
    }
    upkeep.abort();
    let _ = upkeep.await;
    assert_same(bed.everything().await, &known, false, "in the end");
    assert_same(bed.again(rules()).await.everything().await, &known, false, "after a start");
}
