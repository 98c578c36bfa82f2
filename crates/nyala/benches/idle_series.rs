//! Thirty days of series that come and go, with points that are kept for ever, through the whole store: how much memory
//! the index takes compared with an index of the active series only, and what queries for the last hour and for the
//! past cost.
//!
//! `cargo bench -p nyala --bench idle_series` simulates 20 000 series that get a point an hour, of which 10 % end and
//! are replaced every hour; `-- --series 1000000` the same with a million, which takes half an hour. The clock is
//! simulated: upkeep comes twice in each of its hours. Data goes to a temporary directory, or to `--data-dir`.

#![allow(clippy::print_stdout, reason = "what a benchmark is for")]

use arrow_array::cast::AsArray;
use nyala_core::memory::MemoryBudget;
use nyala_core::schema::TIME_COLUMN;
use nyala_core::{Result, TimeRange};
use nyala_db::catalog::{Catalog, Measurement};
use nyala_db::idle::IdleRules;
use nyala_db::ingest::ParseOptions;
use nyala_db::series::{SeriesIndex, TagFilter};
use nyala_db::write::LineWriter;
use nyala_engine::{Engine, EngineOptions, block_on};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

const HOUR_NS: i64 = 3_600_000_000_000;
/// 2023-11-15, the beginning of an hour.
const BEGUN_NS: i64 = 1_700_006_400_000_000_000;
const LINES_AT_ONCE: usize = 10_000;

/// The tags of a container: its own id, and what it shares with others.
fn tags(number: u64) -> [(&'static str, String); 4] {
    let id = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    [
        ("container", format!("{id:016x}{number:016x}")),
        ("image", format!("registry.example/service-{}:1.{}", number % 200, number % 7)),
        ("namespace", format!("team-{}", number % 50)),
        ("node", format!("node-{:04}", id % 2000)),
    ]
}

struct Bed {
    engine: Arc<Engine>,
    catalog: Arc<Catalog>,
    writer: LineWriter,
}

impl Bed {
    fn open(data_dir: PathBuf) -> Result<Self> {
        let memory = MemoryBudget::new(2 << 30);
        let options = EngineOptions { memory: memory.clone(), ..EngineOptions::new(data_dir) };
        let engine = Arc::new(Engine::open(options)?);
        let rules = IdleRules { after_ns: 2 * HOUR_NS, ..IdleRules::default() };
        let catalog = Arc::new(block_on(Catalog::open(engine.clone()))?.with_idle_rules(rules));
        block_on(catalog.create_database("d", None))?;
        let writer = LineWriter::new(catalog.clone(), memory, usize::MAX);
        Ok(Self { engine, catalog, writer })
    }

    fn measurement(&self) -> Result<Arc<Measurement>> {
        let found = block_on(self.catalog.measurement("d", "autogen", "m"))?;
        Ok(found.expect("it was written"))
    }

    /// Writes a point of each series; returns the longest time of a request.
    fn write(&self, series: &[u64], hour: i64) -> Result<Duration> {
        let mut longest = Duration::ZERO;
        let mut body = String::new();
        for some in series.chunks(LINES_AT_ONCE) {
            body.clear();
            for number in some {
                body.push('m');
                for (key, value) in tags(*number) {
                    let _ = write!(body, ",{key}={value}");
                }
                let _ = writeln!(body, " v={number} {}", BEGUN_NS + hour * HOUR_NS);
            }
            let options = ParseOptions { now_ns: BEGUN_NS + hour * HOUR_NS, ..ParseOptions::default() };
            let begun = Instant::now();
            block_on(self.writer.write("d", "", options, body.as_bytes()))?;
            longest = longest.max(begun.elapsed());
        }
        Ok(longest)
    }

    fn upkeep(&self, now_ns: i64) -> Result<()> {
        block_on(self.catalog.learn_presence())?;
        block_on(self.catalog.evict_idle_series(now_ns))
    }

    /// Does what a query for an hour does: finds the series of a namespace and their points. Returns how many points.
    fn query(&self, hour: i64) -> Result<usize> {
        let time = TimeRange::new(BEGUN_NS + hour * HOUR_NS, BEGUN_NS + (hour + 1) * HOUR_NS);
        let measurement = self.measurement()?;
        let filter = TagFilter::Equal("namespace".into(), "team-7".into());
        block_on(async {
            let points = self.catalog.points(&measurement, &filter, time).await?;
            let snapshot = self.catalog.snapshot().await?;
            let Some(mut rows) = points.scan(&snapshot, vec![TIME_COLUMN]).await? else { return Ok(0) };
            let mut points = 0;
            while let Some(batch) = rows.next().await? {
                points +=
                    batch.columns[0].as_primitive::<arrow_array::types::TimestampNanosecondType>().len();
            }
            Ok(points)
        })
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let after = |name: &str| {
        arguments.iter().position(|argument| argument == name).map(|at| arguments[at + 1].clone())
    };
    let active: usize = after("--series").map_or(20_000, |text| text.parse().expect("a number of series"));
    let days: i64 = after("--days").map_or(30, |text| text.parse().expect("a number of days"));
    let temporary = tempfile::tempdir()?;
    let data_dir = after("--data-dir").map_or_else(|| temporary.path().join("data"), PathBuf::from);
    let mut alone = SeriesIndex::default();
    for number in 0..active as u64 {
        alone.insert(&tags(number));
    }
    let alone_bytes = alone.memory_bytes();
    drop(alone);
    println!("{active} series alone: {} KiB", alone_bytes >> 10);
    println!(
        "day | series, in memory | index KiB, most of the day, of active alone | hour of points: mean s, longest request \
         | upkeep longest | query of the last hour | of one a day ago: first, again | disk MiB"
    );
    let bed = Bed::open(data_dir)?;
    let mut living: Vec<u64> = (0..active as u64).collect();
    let mut next = active as u64;
    let mut random = 88_172_645_463_325_252_u64;
    for day in 0..days {
        let (mut most, mut longest_write, mut longest_upkeep) = (0, Duration::ZERO, Duration::ZERO);
        let mut writing = Duration::ZERO;
        for hour in day * 24..(day + 1) * 24 {
            let begun = Instant::now();
            longest_write = longest_write.max(bed.write(&living, hour)?);
            writing += begun.elapsed();
            for half in 0..2 {
                let begun = Instant::now();
                bed.upkeep(BEGUN_NS + hour * HOUR_NS + half * HOUR_NS / 2)?;
                longest_upkeep = longest_upkeep.max(begun.elapsed());
                most = most.max(bed.catalog.measure_series_memory());
            }
            for _ in 0..active / 10 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let at = random as usize % living.len();
                living[at] = next;
                next += 1;
            }
        }
        let last = (day + 1) * 24 - 1;
        let (all, away) = bed.catalog.count_series();
        let bytes = bed.catalog.measure_series_memory();
        let timed = |hour: i64| -> Result<Duration> {
            let begun = Instant::now();
            let points = bed.query(hour)?;
            assert!(points.abs_diff(active / 50) < active / 200, "{points} points of {active} series");
            Ok(begun.elapsed())
        };
        let recent = median((0..9).map(|_| timed(last)).collect::<Result<_>>()?);
        let (first, again) = match day {
            0 => (Duration::ZERO, Duration::ZERO),
            _ => (timed(last - 24)?, median((0..9).map(|_| timed(last - 24)).collect::<Result<_>>()?)),
        };
        println!(
            "{:3} | {all}, {} | {}, {}, {:.2} | {:.2?}, {:.0?} | {:.0?} | {:.2?} | {:.1?}, {:.2?} | {}",
            day + 1,
            all - away,
            bytes >> 10,
            most >> 10,
            most as f64 / alone_bytes as f64,
            writing / 24,
            longest_write,
            longest_upkeep,
            recent,
            first,
            again,
            bed.engine.stats().rowset_bytes >> 20,
        );
    }
    Ok(())
}
