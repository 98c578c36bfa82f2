//! Metrics that share a table: acknowledged points are there after a restart, whichever batches failed before or beside
//! them.

mod support;

use async_trait::async_trait;
use nyala_core::memory::MemoryBudget;
use nyala_core::schema::TIME_COLUMN;
use nyala_core::store::{SeriesSet, Store, StoreRef, WriteBatch};
use nyala_core::{Error, ErrorKind, Result, SeriesId, TimeRange};
use nyala_db::catalog::{Catalog, FieldType};
use nyala_db::ingest::ParseOptions;
use nyala_db::series::TagFilter;
use nyala_db::write::LineWriter;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use support::{HookedStore, Hooks};

/// Batches fail when told to, before or after they are stored.
#[derive(Default)]
struct Faults {
    fails: AtomicU8,
}

#[async_trait]
impl Hooks for Faults {
    async fn before_write(&self, _: &WriteBatch) -> Result<()> {
        match self.fails.load(Ordering::Relaxed) {
            1 => Err(Error::limit("asked to fail before")),
            _ => Ok(()),
        }
    }

    async fn after_write(&self) -> Result<()> {
        match self.fails.load(Ordering::Relaxed) {
            2 => Err(Error::limit("asked to fail after")),
            _ => Ok(()),
        }
    }

    /// Lets all other tasks run until they wait.
    async fn before_drop(&self) {
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
    }
}

type FaultyStore = HookedStore<Faults>;

async fn open(store: &Arc<FaultyStore>) -> (Arc<Catalog>, LineWriter) {
    let catalog = Arc::new(Catalog::open(store.clone() as StoreRef).await.expect("it opens"));
    let writer = LineWriter::new(catalog.clone(), MemoryBudget::new(1 << 40), usize::MAX);
    (catalog, writer)
}

/// The number of points of each series of a measurement.
async fn count(catalog: &Catalog, name: &str, host: &str) -> Result<usize> {
    let Some(measurement) = catalog.measurement("d", "autogen", name).await? else { return Ok(0) };
    let tags = TagFilter::Equal("host".into(), host.into());
    let points = catalog.points(&measurement, &tags, TimeRange::ALL).await?;
    let Some(mut rows) = points.scan(&catalog.snapshot().await?, vec![TIME_COLUMN]).await? else {
        return Ok(0);
    };
    let mut count = 0;
    while let Some(batch) = rows.next().await? {
        count += batch.rows;
    }
    Ok(count)
}

#[tokio::test]
async fn acknowledged_points_exist_whatever_failed_before() -> Result<()> {
    for seed in 0..30 {
        let mut random = SmallRng::seed_from_u64(seed);
        let store = Arc::new(FaultyStore::default());
        let (mut catalog, mut writer) = open(&store).await;
        catalog.create_database("d", None).await?;
        // By series, the number of points that are certainly there. A metric that is being dropped has none.
        let mut known: BTreeMap<(String, String), usize> = BTreeMap::new();
        for time in 0..80 {
            store.hooks.fails.store(
                if random.random_bool(0.3) { random.random_range(1..3) } else { 0 },
                Ordering::Relaxed,
            );
            let (metric, host) =
                (format!("m{}", random.random_range(0..8)), format!("h{}", random.random_range(0..3)));
            let line = format!("{metric},host={host} value=1 {time}");
            match random.random_range(0..10) {
                0..7 => {
                    let written =
                        writer.write_samples("d", "", ParseOptions::default(), line.as_bytes()).await;
                    if written.is_ok() {
                        *known.entry((metric, host)).or_default() += 1;
                    }
                }
                7 => {
                    let line = line.replace("value=1", "value=1,other=2i");
                    // A metric that does not exist yet would get a table of its own.
                    if catalog.own_tables("d", "")(&metric) || known.keys().any(|(own, _)| *own == metric) {
                        let written = writer.write("d", "", ParseOptions::default(), line.as_bytes()).await;
                        if written.is_ok() {
                            *known.entry((metric, host)).or_default() += 1;
                        }
                    }
                }
                8 => {
                    known.retain(|(own, _), _| *own != metric);
                    if catalog.drop_measurement("d", &metric).await.is_err() {
                        store.hooks.fails.store(0, Ordering::Relaxed);
                        catalog.drop_measurement("d", &metric).await?;
                    }
                    assert!(catalog.measurement("d", "autogen", &metric).await?.is_none());
                }
                _ => (catalog, writer) = open(&store).await,
            }
            store.hooks.fails.store(0, Ordering::Relaxed);
            for ((metric, host), points) in &known {
                let found = count(&catalog, metric, host).await?;
                assert!(found >= *points, "seed {seed}: {metric} {host} has {found} of {points}");
            }
        }
        let (again, _) = open(&store).await;
        for ((metric, host), points) in &known {
            assert!(
                count(&again, metric, host).await? >= *points,
                "seed {seed}: {metric} {host} after a start"
            );
        }
        assert_eq!(store.tables().iter().filter(|(_, schema)| schema.name.starts_with("d\0")).count(), 1);
    }
    Ok(())
}

#[tokio::test]
async fn a_measurement_keeps_its_own_table_or_its_membership_in_the_group() -> Result<()> {
    let store = Arc::new(FaultyStore::default());
    let (catalog, writer) = open(&store).await;
    catalog.create_database("d", None).await?;
    let options = ParseOptions::default();
    writer.write("d", "", options, b"own v=1i 1").await?;
    assert!(catalog.own_tables("d", "")("own") && !catalog.own_tables("d", "autogen")("shared"));
    let refused = writer.write_samples("d", "", options, b"own value=1 1").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Retry);
    writer.write_samples("d", "", options, b"shared,host=a value=1 1\nother value=1 1").await?;
    let report = writer
        .write("d", "", options, b"shared,host=b note=\"x\",value=2 5\nshared,host=b value=1i 9")
        .await?;
    let complaint = report.complaint().expect("an integer is refused");
    assert!(complaint.contains("already exists as type float dropped=1"), "{complaint}");
    // In a shard without values it has the same type, and no other points are rejected with it.
    let later = b"cpu v=1 9000000000000000000\nother value=1i 9000000000000000000";
    let complaint = writer.write("d", "", options, later).await?.complaint().expect("an integer is refused");
    assert!(complaint.contains("already exists as type float dropped=1"), "{complaint}");
    let cpu = catalog.measurement("d", "autogen", "cpu").await?.expect("it is there");
    let points = catalog.points(&cpu, &TagFilter::All, TimeRange::ALL).await?;
    assert!(points.scan(&catalog.snapshot().await?, vec![TIME_COLUMN]).await?.is_some());
    for catalog in [&catalog, &open(&store).await.0] {
        let fields = async |name: &str| -> Result<Vec<(String, FieldType)>> {
            let measurement = catalog.measurement("d", "autogen", name).await?.expect("it is there");
            Ok(measurement.fields().iter().map(|field| (field.name.clone(), field.field_type)).collect())
        };
        let value = ("value".to_owned(), FieldType::Float);
        assert_eq!(fields("shared").await?, [("note".to_owned(), FieldType::String), value.clone()]);
        assert_eq!(fields("other").await?, [value]);
        let shared = catalog.measurement("d", "autogen", "shared").await?.expect("it is there");
        assert_eq!((shared.count_series(), shared.tag_keys()), (2, vec!["host".to_owned()]));
        let all = SeriesSet::Ids(shared.series().all().iter().map(SeriesId).collect());
        let found = shared.series_with_points(&catalog.snapshot().await?, all, TimeRange::new(5, 6)).await?;
        assert_eq!(found.len(), 1);
    }
    assert_eq!(store.tables().iter().filter(|(_, schema)| schema.name.starts_with("d\0")).count(), 3);
    catalog.drop_measurement("d", "").await?;
    assert!(catalog.measurement("d", "autogen", "shared").await?.is_some(), "nothing is called so");
    Ok(())
}

#[tokio::test]
async fn names_that_look_like_a_metric_and_its_field_are_different() -> Result<()> {
    let store = Arc::new(FaultyStore::default());
    let (catalog, writer) = open(&store).await;
    catalog.create_database("d", None).await?;
    let options = ParseOptions::default();
    writer.write_samples("d", "", options, b"a value=1 1\na\0b value=1 1").await?;
    let lines = b"a\0b extra=1i,value=2 2\na b\0extra=1,other=true 2";
    assert_eq!(writer.write("d", "", options, lines).await?.complaint(), None);
    catalog.drop_measurement("d", "a").await?;
    for catalog in [&catalog, &open(&store).await.0] {
        let left = catalog.measurement("d", "autogen", "a\0b").await?.expect("it is there");
        let fields: Vec<_> = left.fields().iter().map(|field| field.name.clone()).collect();
        assert_eq!(fields, ["extra", "value"]);
        assert!(catalog.measurement("d", "autogen", "a").await?.is_none());
    }
    Ok(())
}

#[tokio::test]
async fn writing_samples_to_a_metric_that_is_being_dropped_ends() -> Result<()> {
    let store = Arc::new(FaultyStore::default());
    let (catalog, writer) = open(&store).await;
    catalog.create_database("d", None).await?;
    let options = ParseOptions::default();
    writer.write_samples("d", "", options, b"a value=1 1").await?;
    let (dropped, written) = tokio::join!(
        catalog.drop_policy("d", "autogen"),
        writer.write_samples("d", "autogen", options, b"a value=1 2"),
    );
    dropped?;
    assert_eq!(written.unwrap_err().kind(), ErrorKind::Missing);
    Ok(())
}

#[tokio::test]
async fn a_field_of_one_metric_exists_only_in_its_shards() -> Result<()> {
    let store = Arc::new(FaultyStore::default());
    let (catalog, writer) = open(&store).await;
    catalog.create_database("d", None).await?;
    let options = ParseOptions::default();
    writer.write_samples("d", "", options, b"a value=1 1").await?;
    writer.write("d", "", options, b"a other=1i 9000000000000000000").await?;
    let a = catalog.measurement("d", "autogen", "a").await?.expect("it is there");
    let names = async |first_ns, last_ns| -> Result<Vec<String>> {
        Ok(a.fields_between(first_ns, last_ns).await?.iter().map(|field| field.name.clone()).collect())
    };
    assert_eq!(names(-1_000_000_000_000_000_000, 1000).await?, ["value"]);
    assert_eq!(names(8_999_999_999_999_999_999, i64::MAX - 1).await?, ["other"]);
    assert_eq!(names(0, i64::MAX - 1).await?, ["other", "value"]);
    Ok(())
}
