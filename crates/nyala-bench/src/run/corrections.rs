//! `corrections`: points are changed in SQL. First fields of whole series, one series after the other; then points are deleted by
//! the values of a field, from all series, while rows are written.
//!
//! A delete finds its points among all that were loaded, and shares processor and disk with the writers. So the rows that are
//! acknowledged during deletes are compared with those of the pauses between them.

use super::load::load;
use super::session::Session;
use crate::cli::CorrectionsArgs;
use crate::client::sql::{Rows, SqlAnswer, SqlConnection};
use crate::error::{BenchError, Result};
use crate::measure::latency::Latencies;
use crate::measure::server::Usage;
use crate::random::Random;
use crate::report::progress::Progress;
use crate::report::result::{QueryResult, RunResult, Verification};
use crate::server::Launch;
use crate::workload::cpu::CpuWorkload;
use crate::workload::cpu::model::HostsConfig;
use crate::workload::{BatchSize, Workload};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How long rows are written before each delete.
const PAUSE: Duration = Duration::from_secs(2);
/// The largest value of a field; each delete takes the points of another value.
const VALUE_MAX: u32 = 99;
/// An answer of a few numbers.
const ANSWER_LIMIT_BYTES: usize = 1 << 20;

/// Runs the benchmark and returns its results.
pub fn run(args: &CorrectionsArgs, launch: Launch<'_>) -> Result<RunResult> {
    let base = super::tsbs::config(&args.data)?;
    let session = Session::open(&args.common, launch)?;
    let Some(address) = session.server.postgres.clone() else {
        return Err(BenchError::Invalid("corrections need --postgres HOST:PORT of the target".to_owned()));
    };
    let mut result = super::new_result("corrections", &session);
    result.parameters.splice(0..0, super::tsbs::parameters(&args.data));
    session.prepare_database()?;

    let workload = super::tsbs::continued_workload(&base, args.common.load.batch_size as usize);
    let mut loaded = session.load("base", &workload, args.common.load.rate)?;
    session.settle(&mut loaded);
    result.loads.push(loaded);

    let timeout = Duration::from_secs(args.common.server.timeout as u64);
    let mut sql = SqlConnection::open(&address, &args.common.server.database, timeout)?;
    let mut found = Verification::default();
    result.queries.push(update_series(&session, &mut sql, &base, args, &mut found)?);
    workload.end_at(u64::MAX);
    delete_by_value(&session, &mut sql, &workload, &base, &mut result, &mut found)?;
    result.verification = Some(found);
    Ok(result)
}

/// Updates a field of one series after the other.
fn update_series(
    session: &Session<'_>,
    sql: &mut SqlConnection,
    base: &HostsConfig,
    args: &CorrectionsArgs,
    found: &mut Verification,
) -> Result<QueryResult> {
    let reports = base.ticks();
    let sum = "SELECT sum(usage_nice) FROM cpu";
    let before = number(sql, sum)?;
    let mut measured = Measured::start("update of one series", session);
    let mut random = Random::new(args.data.seed, 5 << 40);
    let count = session.query_count(false);
    for done in 0..count {
        let host = random.below(base.hosts);
        let statement = format!("UPDATE cpu SET usage_nice = usage_nice + 1 WHERE hostname = 'host_{host}'");
        let rows = measured.execute(sql, &statement)?;
        let right = if rows == reports { Ok(1) } else { Err(format!("{rows} points instead of {reports}")) };
        found.add(right, &statement);
        measured.progress.update(f64::from(done) / f64::from(count), || format!("{done} series"));
    }
    let updated = number(sql, sum)? - before;
    let expected = reports as i64 * i64::from(count);
    let others =
        if updated == expected { Ok(1) } else { Err(format!("{updated} more instead of {expected}")) };
    found.add(others, sum);
    Ok(measured.finish(session, false))
}

/// Deletes the points of one value after the other while rows are written.
fn delete_by_value(
    session: &Session<'_>,
    sql: &mut SqlConnection,
    workload: &CpuWorkload,
    base: &HostsConfig,
    result: &mut RunResult,
    found: &mut Verification,
) -> Result<()> {
    let deletes = session.query_count(true).min(VALUE_MAX);
    let counted = Counted { workload, rows: AtomicU64::new(0) };
    let settings = session.load_settings(session.args.load.rate);
    let stop = AtomicBool::new(false);
    let (mut alone, mut during) = (Written::default(), Written::default());
    let memory = |usage: Usage| usage.peak_resident_bytes.unwrap_or(0) >> 20;
    let peak_before = memory(session.server.probe.usage());
    let (loaded, measured) = std::thread::scope(|scope| {
        let probe = &session.server.probe;
        let writer = scope.spawn(|| load(&counted, &settings, probe, &stop, None));
        let mut delete = || {
            let mut measured = Measured::start("delete by field value while loading", session);
            for done in 0..deletes {
                alone.during(&counted, || {
                    std::thread::sleep(PAUSE);
                    Ok(())
                })?;
                let value = VALUE_MAX - done;
                let statement = format!("DELETE FROM cpu WHERE usage_user = {value}");
                during.during(&counted, || measured.execute(sql, &statement).map(drop))?;
                let (end, left) = (base.span.end, "SELECT count(*) FROM cpu WHERE usage_user =");
                let left = format!("{left} {value} AND time < to_timestamp({end})");
                let right = match number(sql, &left)? {
                    0 => Ok(1),
                    rows => Err(format!("{rows} points are left")),
                };
                found.add(right, &left);
                measured.progress.update(f64::from(done) / f64::from(deletes), || format!("{done} deletes"));
            }
            Ok::<_, BenchError>(measured)
        };
        let measured = delete();
        stop.store(true, Relaxed);
        (writer.join().expect("loading does not panic"), measured)
    });
    let mut loaded = loaded?;
    "during deletes".clone_into(&mut loaded.phase);
    result.loads.push(loaded);
    result.queries.push(measured?.finish(session, true));
    let peak = memory(session.server.probe.usage());
    let (alone, during) = (alone.rate(), during.rate());
    result.parameters.extend([
        ("rows/s between deletes".to_owned(), format!("{alone:.0}")),
        ("rows/s during deletes".to_owned(), format!("{during:.0} ({:.0} %)", during / alone * 100.0)),
        ("peak memory before and after deletes".to_owned(), format!("{peak_before} and {peak} MiB")),
    ]);
    Ok(())
}

/// The only number of an answer.
fn number(sql: &mut SqlConnection, query: &str) -> Result<i64> {
    let mut answer = SqlAnswer::default();
    sql.ask(query, Rows::Keep { into: &mut answer, limit_bytes: ANSWER_LIMIT_BYTES })?;
    let cell = answer.rows.first().and_then(|row| row.first()).and_then(Option::as_deref);
    let number = cell.and_then(|cell| cell.parse().ok());
    number.ok_or_else(|| BenchError::Protocol(format!("{query}: {cell:?} is no number")))
}

/// Statements that are measured.
struct Measured {
    name: &'static str,
    progress: Progress,
    latencies: Latencies,
    first_ms: f64,
    before: Usage,
    begun: Instant,
}

impl Measured {
    fn start(name: &'static str, session: &Session<'_>) -> Measured {
        Measured {
            name,
            progress: Progress::start(name),
            latencies: Latencies::default(),
            first_ms: 0.0,
            before: session.server.probe.usage(),
            begun: Instant::now(),
        }
    }

    /// Executes a statement, and says how many points it has changed.
    fn execute(&mut self, sql: &mut SqlConnection, statement: &str) -> Result<u64> {
        let begun = Instant::now();
        let done = sql.ask(statement, Rows::Count)?;
        if self.latencies.count() == 0 {
            self.first_ms = begun.elapsed().as_secs_f64() * 1000.0;
        }
        self.latencies.add(begun.elapsed());
        Ok(done.rows)
    }

    fn finish(self, session: &Session<'_>, heavy: bool) -> QueryResult {
        let (seconds, count) = (self.begun.elapsed().as_secs_f64(), self.latencies.count() as u64);
        let cpu = session.server.probe.usage().cpu_since(&self.before);
        self.progress.finish(&format!("{count} statements in {seconds:.1} s"));
        QueryResult {
            name: self.name.to_owned(),
            heavy,
            workers: 1,
            count,
            errors: 0,
            seconds,
            queries_per_second: count as f64 / seconds,
            latency: self.latencies.summary(),
            answer_bytes: 0,
            server_cpu_ms_per_query: cpu.map(|cpu| cpu * 1000.0 / count as f64),
            first_ms: self.first_ms,
        }
    }
}

/// A workload whose rows are counted when they are claimed, which a connection does when the rows before are acknowledged.
struct Counted<'a> {
    workload: &'a CpuWorkload,
    rows: AtomicU64,
}

impl Workload for Counted<'_> {
    type Batch = <CpuWorkload as Workload>::Batch;

    fn total_rows(&self) -> Option<u64> {
        self.workload.total_rows()
    }

    fn claim(&self, batch: &mut Self::Batch) -> Option<BatchSize> {
        let size = self.workload.claim(batch)?;
        self.rows.fetch_add(size.rows, Relaxed);
        Some(size)
    }

    fn write(&self, batch: &Self::Batch, body: &mut Vec<u8>) {
        self.workload.write(batch, body);
    }
}

/// Rows that were written in some parts of a run.
#[derive(Default)]
struct Written {
    rows: u64,
    seconds: f64,
}

impl Written {
    /// Adds the rows that are written while something is done.
    fn during(&mut self, counted: &Counted<'_>, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let (before, begun) = (counted.rows.load(Relaxed), Instant::now());
        work()?;
        self.rows += counted.rows.load(Relaxed) - before;
        self.seconds += begun.elapsed().as_secs_f64();
        Ok(())
    }

    fn rate(&self) -> f64 {
        self.rows as f64 / self.seconds
    }
}
