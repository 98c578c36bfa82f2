//! Servers of one store follow each other: what one of them acknowledged, all of them show.
//!
//! `NYALA_FOLLOWING_SEEDS` tries more seeds.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, TimestampNanosecondType};
use nyala_core::memory::MemoryBudget;
use nyala_core::schema::TIME_COLUMN;
use nyala_core::store::memory::MemoryStore;
use nyala_core::store::{Atomicity, Capabilities, Store, StoreRef};
use nyala_core::{ErrorKind, Result, TimeRange};
use nyala_db::catalog::Catalog;
use nyala_db::ingest::ParseOptions;
use nyala_db::series::TagFilter;
use nyala_db::users::{NewToken, Privilege, QuotaKind};
use nyala_db::write::LineWriter;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;

fn shared_store(atomicity: Atomicity) -> StoreRef {
    let own = MemoryStore::default().capabilities();
    Arc::new(MemoryStore::with_capabilities(Capabilities { is_shared: true, atomicity, ..own }))
}

async fn server(store: &StoreRef) -> Result<LineWriter> {
    let catalog = Arc::new(Catalog::open(store.clone()).await?);
    Ok(LineWriter::new(catalog, MemoryBudget::new(1 << 40), usize::MAX))
}

async fn write(server: &LineWriter, line: &str) -> Result<Option<String>> {
    write_to(server, "d", line).await
}

async fn write_to(server: &LineWriter, database: &str, line: &str) -> Result<Option<String>> {
    let report = server.write(database, "", ParseOptions::default(), line.as_bytes()).await?;
    Ok(report.complaint())
}

/// (measurement, host, time) → the value of field `v`.
type Points = BTreeMap<(String, String, i64), f64>;

/// All points as a server shows them, after it was asked to follow the others.
async fn shown(server: &LineWriter) -> Result<Points> {
    let catalog = server.catalog();
    catalog.follow().await?;
    let mut all = Points::new();
    if catalog.database("d").is_none() {
        return Ok(all);
    }
    for measurement in catalog.measurements("d", "autogen").await? {
        let Some(field) = measurement.fields().iter().find(|field| field.name == "v").cloned() else {
            continue;
        };
        let hosts = {
            let series = measurement.series();
            series.values_of("host", &series.all())
        };
        for host in hosts {
            let tags = TagFilter::Equal("host".into(), host.clone());
            let found = catalog.points(&measurement, &tags, TimeRange::ALL).await?;
            let columns = vec![TIME_COLUMN, field.column];
            let snapshot = catalog.snapshot().await?;
            let Some(mut rows) = found.scan(&snapshot, columns).await? else { continue };
            while let Some(batch) = rows.next().await? {
                let times = batch.columns[0].as_primitive::<TimestampNanosecondType>().values();
                let values = batch.columns[1].as_primitive::<Float64Type>().values();
                for (time, value) in times.iter().zip(values) {
                    all.insert((measurement.name().to_owned(), host.clone(), *time), *value);
                }
            }
        }
    }
    Ok(all)
}

/// The series that a server shows.
async fn shown_series(server: &LineWriter) -> Result<Vec<String>> {
    let catalog = server.catalog();
    catalog.follow().await?;
    let mut all = Vec::new();
    for measurement in catalog.measurements("d", "autogen").await? {
        let series = measurement.series();
        for host in series.values_of("host", &series.all()) {
            all.push(format!("{},{host}", measurement.name()));
        }
    }
    Ok(all)
}

fn seeds(default: u64) -> std::ops::Range<u64> {
    let seeds = std::env::var("NYALA_FOLLOWING_SEEDS").ok().and_then(|text| text.parse().ok());
    0..seeds.unwrap_or(default)
}

#[tokio::test]
async fn every_server_shows_what_any_acknowledged() -> Result<()> {
    for seed in seeds(20) {
        let mut random = StdRng::seed_from_u64(seed);
        let atomicity = if seed % 2 == 0 { Atomicity::Row } else { Atomicity::Batch };
        let store = shared_store(atomicity);
        let mut servers = [server(&store).await?, server(&store).await?, server(&store).await?];
        servers[0].catalog().create_database("d", None).await?;
        let mut model = Points::new();
        for step in 0..60 {
            let context = format!("seed {seed}, step {step}");
            let one = &servers[random.random_range(0..servers.len())];
            let measurement = format!("m{}", random.random_range(0..2));
            let host = format!("h{}", random.random_range(0..6));
            match random.random_range(0..20) {
                0..12 => {
                    let (time, value) = (random.random_range(0..50_i64), f64::from(step));
                    let line = format!("{measurement},host={host} v={value} {time}");
                    assert_eq!(write(one, &line).await?, None, "{context}");
                    model.insert((measurement, host, time), value);
                }
                12..15 => {
                    one.catalog().follow().await?;
                    let range = match random.random_range(0..2) {
                        0 => TimeRange::ALL,
                        _ => TimeRange::new(0, random.random_range(1..50)),
                    };
                    if let Some(known) = one.catalog().measurement("d", "autogen", &measurement).await? {
                        let tags = TagFilter::Equal("host".into(), host.clone());
                        one.catalog().delete_points(&known, &tags, range).await?;
                    }
                    model.retain(|(own, tag, time), _| {
                        *own != measurement || *tag != host || !range.contains(*time)
                    });
                }
                15 => {
                    one.catalog().follow().await?;
                    one.catalog().drop_measurement("d", &measurement).await?;
                    model.retain(|(own, ..), _| *own != measurement);
                }
                16 => {
                    one.catalog().follow().await?;
                    one.catalog().drop_database("d").await?;
                    let other = &servers[random.random_range(0..servers.len())];
                    other.catalog().follow().await?;
                    other.catalog().create_database("d", None).await?;
                    model.clear();
                }
                17 => {
                    let place = random.random_range(0..servers.len());
                    servers[place] = server(&store).await?;
                }
                _ => {
                    let reader = &servers[random.random_range(0..servers.len())];
                    assert_eq!(shown(reader).await?, model, "{context}");
                }
            }
        }
        let fresh = server(&store).await?;
        let series = shown_series(&fresh).await?;
        for reader in servers.iter().chain([&fresh]) {
            assert_eq!(shown(reader).await?, model, "seed {seed}");
            assert_eq!(shown_series(reader).await?, series, "seed {seed}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_and_droppers_do_not_lose_points() -> Result<()> {
    for seed in seeds(20) {
        let store = shared_store(Atomicity::Row);
        let mut servers = Vec::new();
        for _ in 0..2 + seed % 2 {
            servers.push(Arc::new(server(&store).await?));
        }
        servers[0].catalog().create_database("d", None).await?;
        let tasks: Vec<_> = (0..4_u64)
            .map(|task| {
                let server = servers[task as usize % servers.len()].clone();
                tokio::spawn(async move {
                    let mut random = StdRng::seed_from_u64(seed * 10 + task);
                    for number in 0..60_i64 {
                        let host = random.random_range(0..4);
                        // Only the last tasks drop, and nothing of "kept": no point has the times that they delete.
                        if task >= 2 && random.random_range(0..3) == 0 {
                            server.catalog().follow().await?;
                            if let Some(kept) = server.catalog().measurement("d", "autogen", "kept").await? {
                                let times = TimeRange::new(5000, 6000);
                                server.catalog().delete_points(&kept, &TagFilter::All, times).await?;
                            }
                            if let Some(m) = server.catalog().measurement("d", "autogen", "m").await? {
                                let tags = TagFilter::Equal("host".into(), format!("h{host}"));
                                let end = if random.random_range(0..2) == 0 { i64::MAX } else { number };
                                server
                                    .catalog()
                                    .delete_points(&m, &tags, TimeRange::new(i64::MIN, end))
                                    .await?;
                            }
                            if random.random_range(0..4) == 0 {
                                server.catalog().drop_measurement("d", "m").await?;
                            }
                        }
                        if task == 3 && number % 6 == 0 {
                            let catalog = server.catalog();
                            catalog.follow().await?;
                            catalog.drop_database("short").await?;
                            catalog.create_database("short", None).await?;
                        }
                        match write_to(&server, "short", &format!("m,host=h{host} v=1 {number}")).await {
                            Err(error) if error.kind() == ErrorKind::Missing => {}
                            written => assert_eq!(written?, None),
                        }
                        let lines = format!(
                            "m,host=h{host} v=1 {number}\nkept,host=k{} v={task} {}",
                            number % 7,
                            task as i64 * 1000 + number
                        );
                        assert_eq!(write(&server, &lines).await?, None);
                    }
                    Result::Ok(())
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic")?;
        }
        // Whatever was dropped, a point that is written now is shown by all.
        for host in 0..4 {
            assert_eq!(
                write(&servers[host % servers.len()], &format!("m,host=h{host} v=2 1000")).await?,
                None
            );
        }
        for server in &servers {
            assert_eq!(write_to(server, "short", "m,host=h0 v=1 1000").await?, None);
        }
        let fresh = server(&store).await?;
        for server in servers.iter().map(|server| &**server).chain([&fresh]) {
            server.catalog().follow().await?;
            let m = server.catalog().measurement("short", "autogen", "m").await?.expect("it was written");
            let series = m.series();
            assert!(!series.values_of("host", &series.all()).is_empty());
        }
        let expected = shown(&fresh).await?;
        let kept = expected.keys().filter(|(measurement, ..)| measurement == "kept").count();
        assert_eq!(kept, 240, "seed {seed}");
        let last = expected.iter().filter(|((_, _, time), value)| *time == 1000 && **value == 2.0).count();
        assert_eq!(last, 4, "seed {seed}");
        for reader in &servers {
            assert_eq!(shown(reader).await?, expected, "seed {seed}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_field_has_one_type_whoever_writes_it_first() -> Result<()> {
    let store = shared_store(Atomicity::Row);
    let (first, second) = (server(&store).await?, server(&store).await?);
    first.catalog().create_database("d", None).await?;
    assert_eq!(write(&first, "m v=1 1").await?, None);
    assert_eq!(write(&second, "m v=1 2").await?, None);
    assert_eq!(write(&first, "m w=1i 3").await?, None);
    let complaint = write(&second, "m w=2.5,v=4 4").await?.expect("w is an integer in this shard");
    assert!(complaint.contains("already exists as type integer"), "{complaint}");
    let fields = second.catalog().measurement("d", "autogen", "m").await?.expect("it is there").fields();
    assert_eq!(fields.len(), 2);
    let points = shown(&second).await?;
    assert_eq!(points.len(), 0, "no host");
    Ok(())
}

#[tokio::test]
async fn tokens_and_quotas_of_others_are_known() -> Result<()> {
    let store = shared_store(Atomicity::Row);
    let (first, second) = (server(&store).await?, server(&store).await?);
    let (first, second) = (first.catalog(), second.catalog());
    first.users().create("ann", "secret", true, true).await?;
    first.create_database("d", None).await?;
    let scope = vec![("d".to_owned(), Privilege::Read)];
    let new = NewToken { name: "ci".into(), user: "ann".into(), scope, created_ns: 1, expires_ns: Some(9) };
    let secret = first.create_token(&new).await?;
    let logged_in = second.users().log_in_by_token(&secret, None, 8).await?.expect("without a look before");
    assert!(logged_in.may(Privilege::Read, "d") && !logged_in.may(Privilege::Write, "d"));
    assert!(!logged_in.is_admin() && logged_in.token_name() == Some("ci"));
    assert!(second.users().log_in("ann", &secret, None, 8).await?.is_some());
    assert!(second.users().log_in("ann", &secret, None, 9).await?.is_none(), "it has expired");
    assert!(second.users().again(&logged_in, 9).is_err());
    first.users().set_quota("ann", &[(QuotaKind::ConcurrentQueries, 1)]).await?;
    second.follow().await?;
    let now = second.users().again(&logged_in, 8)?;
    assert_eq!(now.quota().concurrent_queries, 1);
    let _runs = now.meter().begin_query("ann", &now.quota())?;
    assert!(
        second.users().existing("ann")?.meter().begin_query("ann", &now.quota()).is_err(),
        "it is one meter"
    );
    first.users().drop_token("ci").await?;
    second.follow().await?;
    assert!(second.users().again(&logged_in, 8).is_err());
    assert!(second.users().log_in_by_token(&secret, None, 8).await?.is_none());
    assert!(second.users().drop_token("ci").await.is_err());
    Ok(())
}

#[tokio::test]
async fn users_are_created_with_all_of_their_privileges_or_not_at_all() -> Result<()> {
    let store = shared_store(Atomicity::Row);
    let (first, second) = (server(&store).await?, server(&store).await?);
    first.catalog().create_database("d", None).await?;
    let mut grants = BTreeMap::from([("d".to_owned(), Privilege::Read)]);
    first.catalog().create_user("ann", "secret", false, &grants).await?;
    second.catalog().follow().await?;
    assert_eq!(second.catalog().users().existing("ann")?.grants(), &grants);
    grants.insert("nowhere".to_owned(), Privilege::All);
    assert!(first.catalog().create_user("bob", "secret", false, &grants).await.is_err());
    assert!(first.catalog().users().existing("bob").is_err());
    Ok(())
}

#[tokio::test]
async fn users_and_databases_of_others_are_known() -> Result<()> {
    let store = shared_store(Atomicity::Row);
    let (first, second) = (server(&store).await?, server(&store).await?);
    first.catalog().users().create("ann", "secret", true, true).await?;
    assert!(second.catalog().users().authenticate("ann", "secret").await?.is_some(), "without a look before");
    first.catalog().create_database("d", None).await?;
    assert_eq!(write(&second, "m,host=a v=1 1").await?, None, "without a look before");
    second.catalog().change_grant("ann", "d", |_| Privilege::Read).await?;
    first.catalog().users().set_password("ann", "new").await?;
    assert!(second.catalog().users().authenticate("ann", "new").await?.is_some());
    first.catalog().drop_database("d").await?;
    second.catalog().follow().await?;
    assert!(second.catalog().database("d").is_none());
    assert!(write(&second, "m,host=a v=1 1").await.is_err());
    first.catalog().users().drop_user("ann", false).await?;
    second.catalog().follow().await?;
    assert!(second.catalog().users().existing("ann").is_err());
    Ok(())
}
