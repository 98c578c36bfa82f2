//! What the layout of a table costs on a real cluster: ranges, buckets, blocks, history, keys, and ways to ask for several
//! series. The results are in `docs/design/kudu.md`.
//!
//! `cargo bench -p nyala-kudu --bench layout -- one-range buckets-2` measures those layouts only.

use kudu_client::test_cluster::{ClusterOptions, TestCluster, kudu_home};
use kudu_client::{
    Client, Column, DataType, HashPartition, Operation, Predicate, RangeBound, RangePartition, ScanBuilder,
    Schema, Table,
};
use std::io::Write;
use std::time::{Duration, Instant};

const SERIES: i32 = 400;
const DAYS: i64 = 3;
const DAY_NS: i64 = 86_400_000_000_000;
const HOUR_NS: i64 = DAY_NS / 24;
const STEP_NS: i64 = 30_000_000_000;
const FIELDS: usize = 5;
/// Series of a group, where keys begin with one.
const GROUP: i32 = 64;
/// Flushes and compactions are done by then, with the thresholds that the cluster is started with.
const SETTLE: Duration = Duration::from_secs(25);

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[derive(Clone)]
struct Layout {
    name: &'static str,
    has_ranges: bool,
    buckets: u32,
    block_bytes: i32,
    history_seconds: u32,
    /// Keys are (group of series, series, time), and the groups are hashed.
    has_groups: bool,
    overwrites: bool,
}

fn layouts() -> Vec<Layout> {
    let usual = Layout {
        name: "usual",
        has_ranges: true,
        buckets: 4,
        block_bytes: 16 << 10,
        history_seconds: 3600,
        has_groups: false,
        overwrites: false,
    };
    vec![
        usual.clone(),
        Layout { name: "one-range", has_ranges: false, ..usual },
        Layout { name: "buckets-2", buckets: 2, ..usual },
        Layout { name: "buckets-8", buckets: 8, ..usual },
        Layout { name: "blocks-4k", block_bytes: 4 << 10, ..usual },
        Layout { name: "blocks-64k", block_bytes: 64 << 10, ..usual },
        Layout { name: "blocks-256k", block_bytes: 256 << 10, ..usual },
        Layout { name: "groups", has_groups: true, ..usual },
        Layout { name: "history-week-overwritten", history_seconds: 604_800, overwrites: true, ..usual },
        Layout { name: "history-5s-overwritten", history_seconds: 5, overwrites: true, ..usual },
    ]
}

async fn create(client: &Client, layout: &Layout) -> Result<Table> {
    let mut columns = Vec::new();
    if layout.has_groups {
        columns.push(Column::new("group", DataType::Int32).key());
    }
    columns.push(Column::new("series", DataType::Int32).key());
    columns.push(Column::new("time", DataType::Int64).key());
    for field in 0..FIELDS {
        columns.push(Column::new(format!("f{field}"), DataType::Int64).nullable());
    }
    let columns = columns.into_iter().map(|column| column.block_size_bytes(layout.block_bytes)).collect();
    let hashed = if layout.has_groups { "group" } else { "series" };
    let mut creator = client.create_table(layout.name, Schema::new(columns)?).replicas(1);
    creator = creator.hash(HashPartition::new([hashed], layout.buckets)).range_columns(["time"]);
    creator = creator.extra_config("kudu.table.history_max_age_sec", layout.history_seconds.to_string());
    let width = if layout.has_ranges { DAY_NS } else { DAYS * DAY_NS };
    for start in (0..DAYS * DAY_NS).step_by(width as usize) {
        let bounds = (RangeBound::inclusive("time", start), RangeBound::exclusive("time", start + width));
        creator = creator.range(RangePartition::new(bounds.0, bounds.1));
    }
    Ok(creator.create().await?)
}

/// Writes rows in order of time, as they come from hosts.
async fn load(table: &Table, layout: &Layout, until_ns: i64) -> Result<()> {
    let session = table.session().open();
    let key = usize::from(layout.has_groups);
    let mut state = 88_172_645_463_325_252_u64;
    let mut values = vec![[50_i64; FIELDS]; SERIES as usize];
    let mut row = table.row(Operation::Upsert);
    for time in (0..until_ns).step_by(STEP_NS as usize) {
        for series in 0..SERIES {
            row.clear();
            if layout.has_groups {
                row.set_at(0, series / GROUP)?;
            }
            row.set_at(key, series)?.set_at(key + 1, time)?;
            for (field, value) in values[series as usize].iter_mut().enumerate() {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                *value = (*value + (state % 3) as i64 - 1).clamp(0, 100);
                row.set_at(key + 2 + field, *value)?;
            }
            session.apply(&row).await?;
        }
    }
    Ok(session.flush().await?)
}

/// A condition on the series of a scan.
#[derive(Clone)]
enum Chosen {
    All,
    Listed(Vec<i32>),
    Between(i32, i32),
}

fn scan(table: &Table, layout: &Layout, chosen: &Chosen, from_ns: i64, until_ns: i64) -> ScanBuilder {
    let mut scan = table.scan().project(["series", "time", "f0"]);
    scan = scan.filter(Predicate::ge("time", from_ns)).filter(Predicate::lt("time", until_ns));
    let groups = |series: &[i32]| {
        let mut groups: Vec<i32> = series.iter().map(|series| series / GROUP).collect();
        groups.dedup();
        groups
    };
    match chosen {
        Chosen::All => scan,
        Chosen::Listed(series) => {
            if layout.has_groups {
                scan = scan.filter(Predicate::in_list("group", groups(series)));
            }
            scan.filter(Predicate::in_list("series", series.clone()))
        }
        Chosen::Between(first, last) => {
            if layout.has_groups {
                let groups = groups(&(*first..=*last).collect::<Vec<_>>());
                scan = scan.filter(Predicate::in_list("group", groups));
            }
            scan.filter(Predicate::ge("series", *first)).filter(Predicate::le("series", *last))
        }
    }
}

/// Reads all tablets of some scans side by side; returns the number of rows.
async fn read(scans: Vec<ScanBuilder>) -> Result<usize> {
    let mut tasks = tokio::task::JoinSet::new();
    for scan in scans {
        for mut tablet in scan.fault_tolerant().into_tablets().await? {
            tasks.spawn(async move {
                let mut rows = 0;
                while let Some(batch) = tablet.next_batch().await? {
                    rows += batch.num_rows();
                }
                Ok::<usize, kudu_client::Error>(rows)
            });
        }
    }
    let mut rows = 0;
    while let Some(read) = tasks.join_next().await {
        rows += read??;
    }
    Ok(rows)
}

/// CPU seconds of all daemons so far.
fn server_seconds(cluster: &TestCluster) -> f64 {
    let ticks = |pid: u32| -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
        [11, 12].iter().filter_map(|place| fields.get(*place)?.parse::<u64>().ok()).sum()
    };
    cluster.daemon_pids().into_iter().map(ticks).sum::<u64>() as f64 / 100.0
}

async fn measure(cluster: &TestCluster, client: &Client, layout: &Layout) -> Result<()> {
    let mut out = std::io::stdout();
    let table = create(client, layout).await?;
    let (began, cpu) = (Instant::now(), server_seconds(cluster));
    load(&table, layout, DAYS * DAY_NS).await?;
    if layout.overwrites {
        load(&table, layout, DAY_NS).await?;
    }
    let loaded = began.elapsed();
    tokio::time::sleep(SETTLE).await;
    let rows = i64::from(SERIES) * DAYS * DAY_NS / STEP_NS;
    let settled = server_seconds(cluster) - cpu;
    let bytes = table.statistics().await?.on_disk_bytes.unwrap_or(0);
    writeln!(
        out,
        "{}: loaded in {:.1} s, {:.2} CPU-s of the servers per million rows, {:.1} bytes a row on disk, {} tablets",
        layout.name,
        loaded.as_secs_f64(),
        settled / (rows as f64 / 1e6),
        bytes as f64 / rows as f64,
        table.tablet_count().await?
    )?;
    let noon = DAY_NS + 12 * HOUR_NS;
    let alone = |series: &[i32], from: i64, until: i64| -> Vec<ScanBuilder> {
        series
            .iter()
            .map(|series| scan(&table, layout, &Chosen::Listed(vec![*series]), from, until))
            .collect()
    };
    let together = |chosen: Chosen, from: i64, until: i64| vec![scan(&table, layout, &chosen, from, until)];
    let spread: Vec<i32> = (0..8).map(|number| number * 49 + 3).collect();
    let hundred: Vec<i32> = (0..100).map(|number| number * 4 + 1).collect();
    let adjacent: Vec<i32> = (128..192).collect();
    type Scans<'a> = Box<dyn Fn() -> Vec<ScanBuilder> + 'a>;
    let reads: Vec<(&str, usize, Scans<'_>)> = vec![
        ("1 series, 1 hour", 400, Box::new(|| alone(&[17], noon, noon + HOUR_NS))),
        ("1 series, 1 day", 200, Box::new(|| alone(&[17], DAY_NS, 2 * DAY_NS))),
        ("1 series, 3 days", 100, Box::new(|| alone(&[17], 0, DAYS * DAY_NS))),
        ("8 series, 1 hour, side by side", 200, Box::new(|| alone(&spread, noon, noon + HOUR_NS))),
        (
            "8 series, 1 hour, in a list",
            200,
            Box::new(|| together(Chosen::Listed(spread.clone()), noon, noon + HOUR_NS)),
        ),
        ("100 series, 1 hour, side by side", 20, Box::new(|| alone(&hundred, noon, noon + HOUR_NS))),
        (
            "100 series, 1 hour, in a list",
            20,
            Box::new(|| together(Chosen::Listed(hundred.clone()), noon, noon + HOUR_NS)),
        ),
        ("64 adjacent series, 1 hour, side by side", 40, Box::new(|| alone(&adjacent, noon, noon + HOUR_NS))),
        (
            "64 adjacent series, 1 hour, in a list",
            40,
            Box::new(|| together(Chosen::Listed(adjacent.clone()), noon, noon + HOUR_NS)),
        ),
        (
            "64 adjacent series, 1 hour, by a range",
            40,
            Box::new(|| together(Chosen::Between(128, 191), noon, noon + HOUR_NS)),
        ),
        ("all series, 1 hour", 20, Box::new(|| together(Chosen::All, noon, noon + HOUR_NS))),
        ("all series, 1 day", 5, Box::new(|| together(Chosen::All, DAY_NS, 2 * DAY_NS))),
    ];
    for (name, times, scans) in reads {
        read(scans()).await?;
        let (began, cpu) = (Instant::now(), server_seconds(cluster));
        let mut rows = 0;
        for _ in 0..times {
            rows += read(scans()).await?;
        }
        let each = |seconds: f64| 1e3 * seconds / times as f64;
        writeln!(
            out,
            "    {name:<42} {:>9} rows {:>9.2} ms {:>9.2} CPU-ms of the servers",
            rows / times,
            each(began.elapsed().as_secs_f64()),
            each(server_seconds(cluster) - cpu)
        )?;
    }
    Ok(client.delete_table(layout.name).await?)
}

fn main() -> Result<()> {
    kudu_home()?;
    let chosen: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let options = ClusterOptions::new(1, 1)
        .tablet_server_flag("--flush_threshold_mb=64")
        .tablet_server_flag("--flush_threshold_secs=5");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let cluster = TestCluster::start(&options)?;
        let client = Client::builder(cluster.masters()).user("bench").connect().await?;
        for layout in layouts() {
            if chosen.is_empty() || chosen.iter().any(|name| name == layout.name) {
                measure(&cluster, &client, &layout).await?;
            }
        }
        Ok(())
    })
}
