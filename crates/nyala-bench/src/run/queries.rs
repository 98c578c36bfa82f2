//! Running the prepared queries of one type by worker threads, each of which waits for its answer.

use super::question::{Asker, Endpoints, Question};
use crate::error::{BenchError, Result};
use crate::measure::latency::Latencies;
use crate::measure::server::ServerProbe;
use crate::report::progress::Progress;
use crate::report::result::QueryResult;
use flate2::read::MultiGzDecoder;
use nyala_client::Body;
use std::io::Read;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The longest answer that is kept.
pub const ANSWER_LIMIT_BYTES: usize = 1 << 30;
/// An InfluxQL error comes with status 200 and is short.
const ERROR_ANSWER_BYTES: usize = 4 << 10;
/// What a compressed answer begins with.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// How to run queries.
#[derive(Clone, Debug)]
pub struct QuerySettings {
    /// The server.
    pub endpoints: Endpoints,
    /// Number of connections.
    pub workers: usize,
    /// After this long no new query is sent.
    pub time_limit: Duration,
}

/// The name of a type of query, and how it is counted.
#[derive(Clone, Debug)]
pub struct QueryName {
    /// The suite's name.
    pub name: String,
    /// Whether it is counted per minute instead of per second.
    pub heavy: bool,
}

#[derive(Default)]
struct Totals {
    latencies: Latencies,
    answer_bytes: u64,
    errors: u64,
    first_error: Option<String>,
}

/// Asks each of `questions` once and measures. Before that it asks the first one alone, which warms the connection and
/// shows whether the server understands the query.
pub fn run_queries(
    kind: &QueryName,
    questions: &[Question],
    settings: &QuerySettings,
    probe: &ServerProbe,
) -> Result<QueryResult> {
    let first = questions.first().ok_or_else(|| BenchError::Invalid("no queries to run".to_owned()))?;
    let first_ms = run_first(kind, first, settings)?;
    let mut progress = Progress::start(format!("{} × {}", kind.name, settings.workers));
    let (next, answered) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let totals = Mutex::new(Totals::default());
    let before = probe.usage();
    let started = Instant::now();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..settings.workers)
            .map(|_| scope.spawn(|| run_worker(questions, settings, started, &next, &answered, &totals)))
            .collect();
        while !workers.iter().all(|worker| worker.is_finished()) {
            std::thread::sleep(Duration::from_millis(2));
            let done = answered.load(Relaxed);
            let by_time = started.elapsed().as_secs_f64() / settings.time_limit.as_secs_f64();
            progress.update(by_time.max(done as f64 / questions.len() as f64), || format!("{done} answers"));
        }
    });
    let seconds = started.elapsed().as_secs_f64();
    let cpu = probe.usage().cpu_since(&before);
    let totals = totals.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    let count = totals.latencies.count() as u64;
    if count == 0 {
        return Err(BenchError::Protocol(totals.first_error.unwrap_or_else(|| "no answers".to_owned())));
    }
    let result = QueryResult {
        name: kind.name.clone(),
        heavy: kind.heavy,
        workers: settings.workers,
        count,
        errors: totals.errors,
        seconds,
        queries_per_second: count as f64 / seconds,
        latency: totals.latencies.summary(),
        answer_bytes: totals.answer_bytes / count,
        server_cpu_ms_per_query: cpu.map(|cpu| cpu * 1000.0 / (count + totals.errors) as f64),
        first_ms,
    };
    progress.finish(&format!("{count} answers in {seconds:.1} s"));
    Ok(result)
}

fn run_first(kind: &QueryName, question: &Question, settings: &QuerySettings) -> Result<f64> {
    let mut asker = Asker::new(&settings.endpoints);
    let started = Instant::now();
    let Question::Http(request) = question else {
        asker.ask(question)?;
        return Ok(started.elapsed().as_secs_f64() * 1000.0);
    };
    let mut answer = Vec::new();
    let body = Body::Collect { into: &mut answer, limit_bytes: ANSWER_LIMIT_BYTES };
    asker.http().expect_success(request.method, &request.path, b"", body)?;
    let milliseconds = started.elapsed().as_secs_f64() * 1000.0;
    if answer.len() <= ERROR_ANSWER_BYTES {
        let mut text = String::new();
        let read = match answer.starts_with(&GZIP_MAGIC) {
            true => {
                MultiGzDecoder::new(&answer[..]).take(ERROR_ANSWER_BYTES as u64).read_to_string(&mut text)
            }
            false => (&answer[..]).read_to_string(&mut text),
        };
        read.map_err(BenchError::io("reading an answer"))?;
        if text.contains("\"error\"") {
            return Err(BenchError::Protocol(format!("{}: {}", kind.name, text.trim_end())));
        }
    }
    Ok(milliseconds)
}

fn run_worker(
    questions: &[Question],
    settings: &QuerySettings,
    started: Instant,
    next: &AtomicUsize,
    answered: &AtomicUsize,
    totals: &Mutex<Totals>,
) {
    let mut asker = Asker::new(&settings.endpoints);
    let mut own = Totals::default();
    while started.elapsed() < settings.time_limit {
        let Some(question) = questions.get(next.fetch_add(1, Relaxed)) else { break };
        let sent = Instant::now();
        match asker.ask(question) {
            Ok(answer_bytes) => {
                own.latencies.add(sent.elapsed());
                own.answer_bytes += answer_bytes;
            }
            Err(error) => {
                own.errors += 1;
                own.first_error.get_or_insert_with(|| error.to_string());
            }
        }
        answered.fetch_add(1, Relaxed);
    }
    let mut all = totals.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    all.latencies.merge(own.latencies);
    all.answer_bytes += own.answer_bytes;
    all.errors += own.errors;
    all.first_error = all.first_error.take().or(own.first_error);
}
