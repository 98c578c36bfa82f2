//! `narrow`: many series of one value. Measures the cost of a new series, the cost of a row of a known series, and
//! queries on one series or all.

use super::queries::{ANSWER_LIMIT_BYTES, QueryName};
use super::question::Question;
use super::session::Session;
use crate::cli::{Language, NarrowArgs};
use crate::client::dialect::Dialect;
use crate::error::{BenchError, Result};
use crate::query::narrow::{NARROW, NarrowKind, requests};
use crate::query::text::influxql_request;
use crate::random::Random;
use crate::report::progress::Progress;
use crate::report::result::{RunResult, Verification};
use crate::server::Launch;
use crate::time::{Span, TSBS_START, parse_rfc3339};
use crate::verify::answer::{Cell, read_rows};
use crate::workload::narrow::{METRICS_PER_INSTANCE, NarrowConfig, NarrowWorkload};
use nyala_client::Body;

/// The number of series of which every row is compared.
const VERIFIED_SERIES: usize = 50;
/// The number of counts that are compared.
const COUNTS: usize = 3;

/// Runs the benchmark and returns its results.
pub fn run(args: &NarrowArgs, launch: Launch<'_>) -> Result<RunResult> {
    let config = config(args)?;
    let kinds = kinds(&args.common.query.queries)?;
    let session = Session::open(&args.common, launch)?;
    session.check_verify()?;
    if args.common.query.language.contains(&Language::Sql) {
        return Err(BenchError::Invalid("narrow has no questions in SQL".to_owned()));
    }
    let mut result = super::new_result("narrow", &session);
    result.parameters.splice(0..0, parameters(args));
    session.prepare_database()?;

    // The first pass creates the series. Later passes only create those of churn.
    let workload = NarrowWorkload::new(config, args.common.load.batch_size as usize);
    workload.end_after(1);
    let mut first = session.load("new series", &workload, args.common.load.rate)?;
    first.new_series = Some(first.rows);
    result.loads.push(first);
    workload.end_after(u64::MAX);
    let mut rest = session.load("known series", &workload, args.common.load.rate)?;
    session.settle(&mut rest);
    let rows = result.loads[0].rows + rest.rows;
    result.loads.push(rest);

    if args.common.query.verify {
        if rows != config.rows() {
            return Err(BenchError::Invalid("--verify needs all data loaded: raise --load-limit".to_owned()));
        }
        result.verification = Some(verify(&config, &session)?);
    }
    if !args.load_only && args.common.server.dialect == Dialect::Influx {
        for kind in kinds {
            let name = QueryName { name: kind.name.to_owned(), heavy: kind.heavy };
            for (round, workers) in session.worker_counts(kind.heavy).into_iter().enumerate() {
                // New queries for each number of workers, because a server may cache answers.
                let requests = requests(
                    kind,
                    &config,
                    &args.common.server.database,
                    round as u64,
                    session.query_count(kind.heavy),
                );
                let questions: Vec<Question> = requests.into_iter().map(Question::Http).collect();
                result.queries.push(session.run_queries(&name, &questions, workers)?);
            }
        }
    }
    Ok(result)
}

fn config(args: &NarrowArgs) -> Result<NarrowConfig> {
    if args.duration % args.interval != 0 || args.late_by % args.interval != 0 {
        return Err(BenchError::Invalid(
            "the duration and --late-by have to be multiples of the interval".to_owned(),
        ));
    }
    Ok(NarrowConfig {
        slots: u64::from(args.series),
        span: Span { start: TSBS_START, end: TSBS_START + args.duration },
        interval_seconds: args.interval,
        churn_per_hour: args.churn / 100.0,
        late_share: args.late / 100.0,
        late_ticks: (args.late_by / args.interval) as u64,
        seed: args.seed,
    })
}

fn parameters(args: &NarrowArgs) -> Vec<(String, String)> {
    let mut parameters =
        super::data_parameters("series", args.series, args.duration, args.interval, args.seed);
    let own = [
        ("churn".to_owned(), format!("{} % an hour", args.churn)),
        ("late".to_owned(), format!("{} % by {} s", args.late, args.late_by)),
    ];
    parameters.splice(3..3, own);
    parameters
}

fn kinds(names: &str) -> Result<Vec<&'static NarrowKind>> {
    if names == "all" {
        return Ok(NARROW.iter().collect());
    }
    let find = |name: &str| {
        NARROW.iter().find(|kind| kind.name == name.trim()).ok_or_else(|| {
            let known: Vec<&str> = NARROW.iter().map(|kind| kind.name).collect();
            BenchError::Invalid(format!("no query type '{name}'; there are all, {}", known.join(", ")))
        })
    };
    names.split(',').map(find).collect()
}

/// Compares the number of all rows, the number of rows in each interval (from the index and row by row), and every row
/// of some slots. The counts show whether late rows are merged correctly.
fn verify(config: &NarrowConfig, session: &Session<'_>) -> Result<Verification> {
    let mut found = Verification::default();
    let mut progress = Progress::start("verify");
    let mut random = Random::new(config.seed, 4 << 40);
    let mut connection = session.connection();
    for number in 0..COUNTS + VERIFIED_SERIES {
        let slot = random.below(config.slots);
        let (instance, metric) = (slot / METRICS_PER_INSTANCE, slot % METRICS_PER_INSTANCE);
        let statement = match number {
            0 => "SELECT count(value) FROM narrow".to_owned(),
            1 => count_by_interval(config, ""),
            2 => count_by_interval(config, " AND value > -1000000"),
            _ => format!("SELECT value FROM narrow WHERE instance = 'i{instance}' AND metric = 'm{metric}'"),
        };
        progress.update(number as f64 / (COUNTS + VERIFIED_SERIES) as f64, String::new);
        let request = influxql_request(&statement, &session.args.server.database);
        let mut answer = Vec::new();
        let body = Body::Collect { into: &mut answer, limit_bytes: ANSWER_LIMIT_BYTES };
        connection.expect_success(request.method, &request.path, b"", body)?;
        let compared = match number {
            0 => check_count(&answer, config),
            1 | 2 => check_intervals(&answer, config),
            _ => check_rows(&answer, config, slot),
        };
        found.add(compared, &statement);
    }
    progress.finish(&format!("{} answers, {} wrong", found.compared, found.wrong));
    Ok(found)
}

fn check_count(answer: &[u8], config: &NarrowConfig) -> std::result::Result<u64, String> {
    let mut count = None;
    read_rows(answer, &mut |_, cells| {
        count = cells.get(1).cloned().map(|cell| format!("{cell:?}"));
        Ok(())
    })?;
    let expected = format!("{:?}", Cell::Integer(config.rows() as i64));
    if count.as_deref() == Some(&expected) {
        Ok(1)
    } else {
        Err(format!("{count:?} rows instead of {expected}"))
    }
}

/// Counts the rows of each interval that pass a condition.
fn count_by_interval(config: &NarrowConfig, condition: &str) -> String {
    let (first, end, interval) = (config.time_of(0), config.time_of(config.ticks()), config.interval_seconds);
    format!(
        "SELECT count(value) FROM narrow WHERE time >= {first}s AND time < {end}s{condition} GROUP BY time({interval}s)"
    )
}

fn check_intervals(answer: &[u8], config: &NarrowConfig) -> std::result::Result<u64, String> {
    let mut ticks = 0;
    read_rows(answer, &mut |_, cells| {
        ticks += 1;
        match cells.get(1) {
            Some(Cell::Integer(count)) if *count as u64 == config.slots => Ok(()),
            other => Err(format!("interval {ticks}: {other:?} rows instead of {}", config.slots)),
        }
    })?;
    if ticks == config.ticks() {
        Ok(ticks)
    } else {
        Err(format!("{ticks} intervals instead of {}", config.ticks()))
    }
}

fn check_rows(answer: &[u8], config: &NarrowConfig, slot: u64) -> std::result::Result<u64, String> {
    let mut tick = 0;
    read_rows(answer, &mut |_, cells| {
        let (time, value) = (config.time_of(tick), config.hundredths(slot, tick) as f64 / 100.0);
        let right = match cells {
            [Cell::Text(text), Cell::Float(got)] => parse_rfc3339(text) == Some(time) && *got == value,
            [Cell::Text(text), Cell::Integer(got)] => {
                parse_rfc3339(text) == Some(time) && *got as f64 == value
            }
            _ => false,
        };
        tick += 1;
        if right { Ok(()) } else { Err(format!("row {tick}: {cells:?} instead of {value} at {time}")) }
    })?;
    if tick == config.ticks() { Ok(tick) } else { Err(format!("{tick} rows instead of {}", config.ticks())) }
}
