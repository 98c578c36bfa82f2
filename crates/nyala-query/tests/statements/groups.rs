//! Metrics that share a table give the same answers as metrics with a table each.

use super::query_context::query_context;
use nyala_core::Result;
use nyala_core::memory::MemoryBudget;
use nyala_core::store::StoreRef;
use nyala_core::store::memory::MemoryStore;
use nyala_db::catalog::{Catalog, PolicyChange};
use nyala_db::idle::IdleRules;
use nyala_db::ingest::ParseOptions;
use nyala_db::write::LineWriter;
use nyala_exec::{Frame, QueryMemory};
use nyala_query::influxql::{Params, parse_query};
use nyala_query::plan::QueryContext;
use nyala_query::statement::{Answer, execute};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::fmt::Write;
use std::sync::Arc;

const HOUR_NS: i64 = 3_600_000_000_000;
const HOURS: i64 = 40;
/// Samples go to one database as lines, to the other as samples.
const DATABASES: [&str; 2] = ["tables", "group"];

/// Prints the seed of a failed test.
struct SeedReport(u64);

impl Drop for SeedReport {
    fn drop(&mut self) {
        if std::thread::panicking() {
            #[allow(clippy::print_stderr, reason = "needed to repeat the failure")]
            {
                eprintln!("NYALA_SEED={}", self.0);
            }
        }
    }
}

struct TestBed {
    store: StoreRef,
    catalog: Arc<Catalog>,
    writer: Arc<LineWriter>,
    now_ns: i64,
}

impl TestBed {
    async fn of(store: StoreRef, now_ns: i64) -> Result<Self> {
        let rules = IdleRules { after_ns: HOUR_NS, series_min: 1, ..IdleRules::default() };
        let catalog = Arc::new(Catalog::open(store.clone()).await?.with_idle_rules(rules));
        let writer = LineWriter::new(catalog.clone(), MemoryBudget::new(1 << 40), usize::MAX);
        Ok(Self { store, catalog, writer: Arc::new(writer), now_ns })
    }

    fn context(&self, database: &str) -> QueryContext {
        query_context(self.catalog.clone(), self.writer.clone(), database, HOURS * HOUR_NS)
    }

    async fn write(&self, lines: &str) -> Result<()> {
        for database in DATABASES {
            let report = self.writer.write(database, "", ParseOptions::default(), lines.as_bytes()).await?;
            assert_eq!(report.complaint(), None, "{database}: {lines}");
        }
        Ok(())
    }

    async fn write_samples(&self, lines: &str) -> Result<()> {
        let options = ParseOptions::default();
        self.writer.write(DATABASES[0], "", options, lines.as_bytes()).await?;
        // As the server does it.
        let own_tables = self.catalog.own_tables(DATABASES[1], "");
        let is_own = |line: &&str| own_tables(line.split([',', ' ']).next().unwrap_or(""));
        let (own, grouped): (Vec<&str>, Vec<&str>) = lines.lines().partition(is_own);
        self.writer.write(DATABASES[1], "", options, own.join("\n").as_bytes()).await?;
        let report =
            self.writer.write_samples(DATABASES[1], "", options, grouped.join("\n").as_bytes()).await?;
        assert_eq!(report.complaint(), None);
        Ok(())
    }

    /// The answer of a statement as text.
    async fn ask(&self, database: &str, text: &str) -> String {
        let statement = parse_query(text, &Params::default()).expect("a statement").remove(0);
        let memory = QueryMemory::new(1 << 30, &MemoryBudget::new(1 << 40));
        let mut shown = String::new();
        let mut show = |frame: Frame| {
            let frame = frame.alone();
            let tags: Vec<_> = frame.tags.iter().collect();
            let head = format!("{} {tags:?} {:?}", frame.name, frame.column_names);
            for row in 0..frame.rows() {
                let cells: Vec<_> = frame.columns.iter().map(|column| column.scalar(row)).collect();
                writeln!(shown, "{head} {:?} {cells:?}", frame.times_ns.get(row)).expect("memory takes it");
            }
        };
        let answer = match execute(statement, &self.context(database), memory).await {
            Ok(answer) => answer,
            Err(error) => return error.to_string(),
        };
        match answer {
            Answer::Done => {}
            Answer::Refused(error) => return error.to_string(),
            Answer::Rows(frames, _) | Answer::Changed(frames, _) => frames.into_iter().for_each(show),
            Answer::Stream(mut stream) => loop {
                match stream.next().await {
                    Ok(Some(frame)) => show(frame),
                    Ok(None) => break,
                    Err(error) => return error.to_string(),
                }
            },
        }
        shown
    }

    async fn ask_both(&self, text: &str) {
        let [tables, group] = [self.ask(DATABASES[0], text).await, self.ask(DATABASES[1], text).await];
        assert_eq!(group, tables, "{text}");
    }
}

fn samples(random: &mut SmallRng, extra: bool) -> String {
    let mut lines = String::new();
    for _ in 0..random.random_range(1..40) {
        let metric = random.random_range(0..6);
        let tags = match random.random_range(0..6) {
            0 => String::new(),
            4 => format!(",__name__=m{metric},host=h{}", random.random_range(0..4)),
            5 => format!(",__name__=m{},host=h{}", random.random_range(0..6), random.random_range(0..4)),
            1 => format!(",host=h{}", random.random_range(0..4)),
            2 => format!(",host=h{},zone=z{metric}", random.random_range(0..4)),
            _ => format!(",own{metric}=o{}", random.random_range(0..30)),
        };
        let time_ns = random.random_range(0..HOURS) * HOUR_NS / 2 + random.random_range(0..3);
        let value = random.random_range(-5..50);
        let fields = match extra && random.random_bool(0.5) {
            true => format!("value={value},gauge{metric}={value}i,note=\"n{value}\""),
            false => format!("value={value}"),
        };
        writeln!(lines, "m{metric}{tags} {fields} {time_ns}").expect("memory takes it");
    }
    lines
}

fn question(random: &mut SmallRng) -> String {
    let some = |random: &mut SmallRng, all: &[&'static str]| *all.choose(random).expect("there are some");
    let source = some(random, &["m0", "m1", "m5", "/m[0-3]/", "m0, m2", "/.*/", "none"]);
    let (first, last) = (random.random_range(-1..HOURS / 2), random.random_range(0..HOURS));
    let time = format!("time >= {}h AND time < {}h", first, last);
    let tags = some(
        random,
        &[
            "host = 'h1'",
            "host != 'h1'",
            "host = ''",
            "host =~ /h[12]/",
            "host !~ /h[12]/",
            "own1 =~ /o1/",
            "__name__ = 'm1'",
            "\"\" = ''",
            "\"\" =~ /m/ OR host = 'h2'",
            "zone != ''",
            "host = 'h1' OR own0 = 'o3'",
            "host =~ /^$/ AND own2 !~ /7/",
            "value > 10",
            "note = 'n7'",
        ],
    );
    let condition = match random.random_range(0..4) {
        0 => String::new(),
        1 => format!("WHERE {time}"),
        2 => format!("WHERE {tags}"),
        _ => format!("WHERE {tags} AND {time}"),
    };
    let by_tags = match random.random_range(0..3) {
        0 => String::new(),
        1 => {
            format!("WHERE {}", some(random, &["host = 'h1'", "host =~ /h[12]/", "own1 =~ /o/", "\"\" = ''"]))
        }
        _ => format!("WHERE {time}"),
    };
    let group =
        some(random, &["", "GROUP BY host", "GROUP BY *", "GROUP BY /o/, zone", "GROUP BY \"\", host"]);
    let windows =
        some(random, &["GROUP BY time(3h)", "GROUP BY time(5h), host fill(none)", "GROUP BY time(1d), *"]);
    let call = some(
        random,
        &[
            "count(value)",
            "sum(value)",
            "first(value), last(value)",
            "max(value), host",
            "percentile(value, 50)",
            "count(*)",
            "distinct(value)",
        ],
    );
    match random.random_range(0..13) {
        0 => format!("SELECT value FROM {source} {condition} {group}"),
        1 => format!("SELECT * FROM {source} {condition}"),
        2 => format!("SELECT value, host, own1 FROM {source} {condition} {group} ORDER BY time DESC LIMIT 3"),
        3 | 4 => format!("SELECT {call} FROM {source} {condition} {group}"),
        5 => format!("SELECT mean(value), max(value) FROM {source} WHERE {time} {windows}"),
        6 => format!("SHOW SERIES FROM {source} {by_tags}"),
        7 => format!("SHOW TAG KEYS FROM {source} {by_tags}"),
        8 => format!("SHOW TAG VALUES FROM {source} WITH KEY =~ /host|own/ {by_tags}"),
        9 => some(
            random,
            &["SHOW MEASUREMENTS", "SHOW MEASUREMENTS WHERE host = 'h1'", "SHOW SERIES EXACT CARDINALITY"],
        )
        .to_owned(),
        10 => format!("SHOW FIELD KEYS FROM {source}"),
        11 => format!("SHOW TAG KEY EXACT CARDINALITY FROM {source}"),
        _ => format!(
            "SELECT sum(n) FROM (SELECT count(value) AS n FROM {source} {condition} GROUP BY host) GROUP BY host"
        ),
    }
}

async fn run(seed: u64) -> Result<()> {
    let _report = SeedReport(seed);
    let mut random = SmallRng::seed_from_u64(seed);
    let mut bed = TestBed::of(Arc::new(MemoryStore::default()), 0).await?;
    for database in DATABASES {
        let shards = PolicyChange { shard_duration_ns: Some(5 * HOUR_NS), ..PolicyChange::default() };
        bed.catalog.create_database(database, Some(("p", shards))).await?;
    }
    for _ in 0..60 {
        match random.random_range(0..24) {
            0..5 => bed.write_samples(&samples(&mut random, false)).await?,
            5 => bed.write(&samples(&mut random, true)).await?,
            6 => {
                let metric = random.random_range(0..6);
                let first = random.random_range(0..HOURS / 2);
                let host = random.random_range(0..4);
                let text = match random.random_range(0..6) {
                    0 => format!("DROP MEASUREMENT m{metric}"),
                    1 => format!("DELETE FROM m{metric} WHERE time >= {first}h AND time < {}h", first + 6),
                    2 => format!("DROP SERIES FROM m{metric} WHERE host = 'h{host}'"),
                    3 => format!("DELETE WHERE host = 'h{host}'"),
                    4 => format!("DROP SERIES FROM m{metric} WHERE \"\" = ''"),
                    _ => format!("DELETE FROM m{metric}"),
                };
                bed.ask_both(&text).await;
            }
            7 => {
                bed.now_ns += HOUR_NS;
                bed.catalog.learn_presence().await?;
                bed.catalog.evict_idle_series(bed.now_ns).await?;
            }
            8 => bed = TestBed::of(bed.store.clone(), bed.now_ns).await?,
            _ => {
                let text = question(&mut random);
                // Once series were idle a group knows less of the tag keys of other times, and a table more than is left.
                let has_wildcard = ["*", "BY /", "TAG KEY"].iter().any(|wildcard| text.contains(wildcard));
                if bed.now_ns == 0 || !has_wildcard {
                    bed.ask_both(&text).await;
                }
            }
        }
    }
    let tables = bed.store.tables().into_iter().filter(|(_, schema)| schema.name.starts_with(DATABASES[1]));
    assert!(tables.count() <= 7);
    Ok(())
}

#[tokio::test]
async fn metrics_that_share_a_table_answer_as_others() -> Result<()> {
    let asked = std::env::var("NYALA_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = std::env::var("NYALA_GROUP_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(40);
    let seeds = asked.map_or(0..seeds, |seed: u64| seed..seed + 1);
    for seed in seeds {
        run(seed).await?;
    }
    Ok(())
}
