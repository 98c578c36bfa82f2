//! Everything that a store has is in another one after a move: to one that several servers use, and back; also after the move was
//! interrupted anywhere, and the source was changed in between.

mod support;

use arrow_array::Array;
use async_trait::async_trait;
use nyala_core::arrays::value_at;
use nyala_core::memory::MemoryBudget;
use nyala_core::schema::TIME_COLUMN;
use nyala_core::store::memory::MemoryStore;
use nyala_core::store::{Atomicity, Capabilities, Feature, Freshness, Store, StoreRef, WriteBatch, emulate};
use nyala_core::{Error, ErrorKind, Result, TimeRange};
use nyala_db::catalog::{Catalog, ContinuousQuery, PolicyChange, Subscription};
use nyala_db::idle::IdleRules;
use nyala_db::ingest::ParseOptions;
use nyala_db::moving::{self, Move, Position};
use nyala_db::series::TagFilter;
use nyala_db::users::Privilege;
use nyala_db::write::LineWriter;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use support::{HookedStore, Hooks};

const DAY_NS: i64 = 24 * 3_600_000_000_000;

/// Batches fail when so many were written.
#[derive(Default)]
struct Breaks {
    writes_left: AtomicI64,
}

#[async_trait]
impl Hooks for Breaks {
    async fn before_write(&self, _: &WriteBatch) -> Result<()> {
        match self.writes_left.fetch_sub(1, Ordering::Relaxed) > 0 {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Io, "asked to fail")),
        }
    }
}

/// What Kudu's store can do.
fn shared() -> Capabilities {
    use Feature::{
        ChangeFeed, ChangesByPredicate, History, KeyRanges, LaterRequirements, PrefixLimits, ReverseScans,
        SeriesDefaults, StagedWrites, TimeOrder, WiderTypes,
    };
    let own = MemoryStore::default().capabilities();
    let missing = [
        ChangeFeed,
        ChangesByPredicate,
        History,
        KeyRanges,
        LaterRequirements,
        PrefixLimits,
        ReverseScans,
        SeriesDefaults,
        StagedWrites,
        TimeOrder,
        WiderTypes,
    ];
    let features = missing.into_iter().fold(own.features, nyala_core::store::Features::without);
    Capabilities { is_shared: true, atomicity: Atomicity::Row, features, ..own }
}

fn shared_store() -> StoreRef {
    emulate::complete(Arc::new(MemoryStore::with_capabilities(shared())))
}

async fn open(store: &StoreRef) -> LineWriter {
    let catalog = Catalog::open(store.clone()).await.expect("a catalog");
    let rules = IdleRules { after_ns: 1, series_min: 1, ..IdleRules::default() };
    LineWriter::new(Arc::new(catalog.with_idle_rules(rules)), MemoryBudget::new(1 << 40), usize::MAX)
}

async fn write(server: &LineWriter, lines: &str) {
    let report = server.write("d", "", ParseOptions::default(), lines.as_bytes()).await.expect("an answer");
    assert_eq!(report.complaint(), None);
}

/// A store with all that a move has to take: types that differ by shard, NULLs, idle, removed and returned series.
async fn source() -> Result<StoreRef> {
    let store: StoreRef = Arc::new(MemoryStore::default());
    let server = open(&store).await;
    let catalog = server.catalog();
    let policy = PolicyChange { shard_duration_ns: Some(DAY_NS), ..PolicyChange::default() };
    catalog.create_database("d", Some(("p", policy))).await?;
    catalog.users().create("admin", "secret", true, true).await?;
    catalog.users().create("reader", "other", false, false).await?;
    catalog.change_grant("reader", "d", |_| Privilege::Read).await?;
    let query = ContinuousQuery { name: "n".into(), text: "t".into() };
    catalog.create_continuous_query("d", query.clone()).await?;
    assert!(catalog.set_last_run_ns("d", &query, 7).await?);
    let destinations = vec!["udp://h:9".into()];
    let subscription = Subscription { policy: "p".into(), name: "s".into(), to_all: false, destinations };
    catalog.create_subscription("d", subscription).await?;
    for day in 0..4 {
        let mut lines = String::new();
        for host in 0..if day < 2 { 12 } else { 4 } {
            let time = day * DAY_NS + host;
            let value = if day == 0 { "1i" } else { "1.5" };
            lines += &format!(
                "cpu,host=h{host} v={value},b=true {time}\ncpu,host=h{host} s=\"x\",u=7u {}\n",
                time + 1_000
            );
        }
        write(&server, &(lines + &format!("mem free=-0 {}\n", day * DAY_NS))).await;
    }
    let cpu = catalog.measurement("d", "p", "cpu").await?.expect("it was written");
    let of = |host: &str| TagFilter::Equal("host".into(), host.into());
    catalog.delete_points(&cpu, &of("h3"), TimeRange::ALL).await?;
    for round in 1..8 {
        catalog.learn_presence().await?;
        catalog.evict_idle_series(round * 3_600_000_000_000).await?;
    }
    assert!(cpu.series().len() < 11, "idle series left memory: {}", cpu.series().len());
    write(&server, &format!("cpu,host=h5 v=2 {}", 3 * DAY_NS + 500)).await;
    Ok(store)
}

/// Values by measurement, tags, time and field.
type Found = BTreeMap<(String, String, i64, String), String>;

/// What a query finds.
async fn everything(store: &StoreRef) -> Result<Found> {
    let server = open(store).await;
    let catalog = server.catalog();
    let snapshot = catalog.snapshot().await?;
    let mut all = Found::new();
    for measurement in catalog.measurements("d", "p").await? {
        let fields = measurement.fields();
        let columns = std::iter::once(TIME_COLUMN).chain(fields.iter().map(|field| field.column)).collect();
        let points = catalog.points(&measurement, &TagFilter::All, TimeRange::ALL).await?;
        let Some(mut rows) = points.scan(&snapshot, columns).await? else { continue };
        while let Some(batch) = rows.next().await? {
            let runs = batch.series.iter();
            let series: Vec<_> =
                runs.flat_map(|run| std::iter::repeat_n(run.series, run.rows as usize)).collect();
            for (row, series) in series.into_iter().enumerate() {
                let Some(nyala_core::Value::Int(time_ns)) = value_at(&batch.columns[0], row) else {
                    panic!("a point without a time")
                };
                let tags = format!("{:?}", measurement.series().tags_of(series));
                for (field, values) in fields.iter().zip(&batch.columns[1..]) {
                    if values.is_valid(row) {
                        let name = format!("{} {:?}", field.name, field.field_type);
                        let key = (measurement.name().to_owned(), tags.clone(), time_ns, name);
                        all.insert(key, format!("{:?}", value_at(values, row)));
                    }
                }
            }
        }
    }
    Ok(all)
}

async fn begin(from: &StoreRef, to: &StoreRef, name: &str) -> Result<Move> {
    let sequence = from.snapshot(Freshness::Latest).await?.sequence();
    let source = Arc::new(Catalog::open(from.clone()).await?);
    Move::begin(source, to.clone(), (name, Position::still(sequence)), &[]).await
}

async fn move_on(from: &StoreRef, to: &StoreRef) -> Result<()> {
    let mut moving = begin(from, to, "here").await?;
    for place in 0..moving.tables().len() {
        moving.move_rows(place, &mut |_| ()).await?;
    }
    moving.move_settings().await?;
    for table in moving.tables() {
        let compared = moving::compare(from, to, table, &mut |_| ()).await?;
        assert_eq!(compared.differences, [""; 0]);
    }
    moving.finish().await
}

/// Settings, and that known tag sets keep their ids, and new ones get new ids.
async fn assert_works(store: &StoreRef, series: usize) -> Result<()> {
    let server = open(store).await;
    let catalog = server.catalog();
    let database = catalog.existing_database("d")?;
    assert_eq!((&*database.default_policy, database.policies[0].shard_duration_ns), ("p", DAY_NS));
    assert_eq!(catalog.last_run_ns("d", "n").await?, Some(7));
    assert_eq!(database.subscriptions[0].destinations, ["udp://h:9"]);
    assert!(catalog.users().authenticate("reader", "other").await?.is_some());
    assert!(catalog.users().existing("admin")?.is_admin());
    let cpu = catalog.measurement("d", "p", "cpu").await?.expect("it was moved");
    let _all = catalog.points(&cpu, &TagFilter::All, TimeRange::ALL).await?;
    let find = |host: &str| cpu.series().find(&[("host", host)]);
    let (known, mut before) = (find("h1"), cpu.series().all().iter().collect::<Vec<_>>());
    assert!(known.is_some() && find("h3").is_none() && find("h11").is_some());
    assert_eq!(before.len(), series);
    // The type of a field in a shard is known, too.
    let conflict = server.write("d", "", ParseOptions::default(), b"cpu,host=h1 v=1.5 5").await?;
    assert!(conflict.complaint().is_some_and(|words| words.contains("field type conflict")), "{conflict:?}");
    write(&server, "cpu,host=h1 v=9i 5\ncpu,host=new v=9i 5\ncpu,host=h3 v=9i 5").await;
    assert_eq!(find("h1"), known);
    let new = [find("new"), find("h3")].map(|id| id.expect("it was written").0);
    assert!(new.iter().all(|id| !before.contains(id)), "{new:?} {before:?}");
    before.extend(new);
    assert_eq!(cpu.series().all().iter().collect::<Vec<_>>().len(), before.len());
    Ok(())
}

#[tokio::test]
async fn everything_is_there_after_a_move_and_after_one_back() -> Result<()> {
    let (first, second): (_, StoreRef) = (source().await?, shared_store());
    let expected = everything(&first).await?;
    assert_eq!(expected.len(), 2 * 11 * 4 + 2 * 3 * 4 + 4 + 1, "{expected:#?}");
    move_on(&first, &second).await?;
    assert_eq!(everything(&second).await?, expected);
    let third: StoreRef = Arc::new(MemoryStore::default());
    move_on(&second, &third).await?;
    assert_eq!(everything(&third).await?, expected);
    assert_works(&third, 11).await?;
    assert_works(&second, 11).await?;
    // What came to the second store is moved back, too: hidden and shown series, versions of records.
    let server = open(&second).await;
    let catalog = server.catalog();
    let cpu = catalog.measurement("d", "p", "cpu").await?.expect("it was moved");
    let of = TagFilter::Equal("host".into(), "h2".into());
    catalog.delete_points(&cpu, &of, TimeRange::ALL).await?;
    catalog.users().drop_user("reader", true).await?;
    catalog.users().create("reader", "other", false, false).await?;
    let fourth: StoreRef = Arc::new(MemoryStore::default());
    move_on(&second, &fourth).await?;
    assert_eq!(everything(&fourth).await?, everything(&second).await?);
    let moved = open(&fourth).await;
    assert_eq!(moved.catalog().measurement("d", "p", "cpu").await?.expect("it was moved").count_series(), 12);
    Ok(())
}

#[tokio::test]
async fn a_move_that_broke_off_anywhere_goes_on_and_no_server_opens_its_target() -> Result<()> {
    let first = source().await?;
    let expected = everything(&first).await?;
    let (mut breaks, mut steps) = (0, 0);
    loop {
        let inner = MemoryStore::with_capabilities(shared());
        let store = Arc::new(HookedStore { inner, hooks: Breaks::default() });
        let target = emulate::complete(store.clone());
        store.hooks.writes_left.store(breaks, Ordering::Relaxed);
        let done = move_on(&first, &target).await;
        store.hooks.writes_left.store(i64::MAX, Ordering::Relaxed);
        if done.is_ok() {
            break;
        }
        if breaks > 0 {
            let refused = Catalog::open(target.clone()).await.err().expect("it is not finished");
            assert!(refused.message().contains("nyala move"), "{refused}");
        }
        if breaks % 3 == 0 {
            // Another source, and another target, are not confused with these.
            let refused = begin(&first, &target, "elsewhere").await.err();
            assert_eq!(breaks == 0, refused.is_none());
            if breaks == 0 {
                breaks += 1;
                continue;
            }
        }
        move_on(&first, &target).await?;
        assert_eq!(everything(&target).await?, expected, "broken off after {breaks} writes");
        (breaks, steps) = (breaks + 1, steps + 1);
    }
    assert!(steps > 10, "{steps}");
    let refused = begin(&first, &first, "here").await.err().expect("it is not empty");
    assert!(refused.message().contains("has a nyala in it"), "{refused}");
    Ok(())
}

#[tokio::test]
async fn what_was_changed_since_a_move_broke_off_is_followed() -> Result<()> {
    let first = source().await?;
    let inner = MemoryStore::with_capabilities(shared());
    let store = Arc::new(HookedStore { inner, hooks: Breaks::default() });
    let target = emulate::complete(store.clone());
    // All rows are there, and records are not.
    store.hooks.writes_left.store(i64::MAX, Ordering::Relaxed);
    let mut moving = begin(&first, &target, "here").await?;
    for place in 0..moving.tables().len() {
        moving.move_rows(place, &mut |_| ()).await?;
    }
    moving.move_settings().await?;
    drop(moving);
    let server = open(&first).await;
    let catalog = server.catalog();
    // A point is changed, a cell is added, a shard and a series are gone, a field, a series and a measurement are new.
    write(&server, &format!("cpu,host=h1 v=7.5 {}\ncpu,host=h1 more=1i {}", DAY_NS + 1, DAY_NS + 1)).await;
    write(&server, &format!("cpu,host=fresh v=1.5 {DAY_NS}\ndisk used=1 5")).await;
    let cpu = catalog.measurement("d", "p", "cpu").await?.expect("it was written");
    catalog.delete_points(&cpu, &TagFilter::All, TimeRange::new(2 * DAY_NS, 3 * DAY_NS)).await?;
    let of = TagFilter::Equal("host".into(), "h1".into());
    catalog.delete_points(&cpu, &of, TimeRange::new(0, DAY_NS)).await?;
    catalog.drop_measurement("d", "mem").await?;
    catalog.users().drop_user("reader", true).await?;
    let expected = everything(&first).await?;
    move_on(&first, &target).await?;
    assert_eq!(everything(&target).await?, expected);
    let moved = open(&target).await;
    assert!(moved.catalog().users().existing("reader").is_err());
    Ok(())
}

#[tokio::test]
async fn a_comparison_names_measurement_and_day() -> Result<()> {
    let (first, second) = (source().await?, shared_store());
    move_on(&first, &second).await?;
    let server = open(&second).await;
    write(&server, &format!("cpu,host=h1 v=7.5 {}\nmem free=1 {}", DAY_NS + 1, 2 * DAY_NS + 1)).await;
    let catalog = Catalog::open(first.clone()).await?;
    let mut found = Vec::new();
    for table in moving::tables_of(&catalog, &second, &[])? {
        found.extend(moving::compare(&first, &second, &table, &mut |_| ()).await?.differences);
    }
    assert_eq!(
        found,
        [
            "d.p.cpu, 1970-01-02: 22 rows on both sides, and their checksums differ",
            "d.p.mem, 1970-01-03: the source has 1 rows, the target 2",
        ]
    );
    let refused = moving::tables_of(&catalog, &second, &["d.p.disk".into()]).err();
    assert!(refused.is_some_and(|error| error.message().contains("d.p.disk")));
    assert_eq!(moving::tables_of(&catalog, &second, &["d.p.mem".into()])?.len(), 1);
    Ok(())
}
