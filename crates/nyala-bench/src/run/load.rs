//! Loading: worker threads claim batches, write them as text and send them, until the data set is complete or the time
//! is over.
//!
//! A request that is refused with 503 is sent again after the pause that the server asks for. Any other failure ends
//! the run, because a failed load measures nothing. With a set rate, each batch has a time before which it is not sent.
//! A slow answer therefore does not lower the rate of later batches, as long as other workers are free.

use crate::client::dialect::Dialect;
use crate::error::{BenchError, Result};
use crate::measure::latency::Latencies;
use crate::measure::server::{ServerProbe, Usage};
use crate::report::progress::Progress;
use crate::report::result::{LoadResult, Sample};
use crate::report::table;
use crate::workload::Workload;
use flate2::Compression;
use flate2::write::GzEncoder;
use nyala_client::{Body, Connection, Target, query_escape};
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The longest pause between a refusal and the next attempt, whatever the server asks for.
const RETRY_PAUSE_LIMIT: Duration = Duration::from_secs(5);
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Pause between two samples of the progress.
const SAMPLE_PAUSE: Duration = Duration::from_millis(50);
/// The most samples kept of a run: one a second for a day.
const SAMPLE_LIMIT: usize = 86_400;
/// A server that uses less than this share of a core counts as idle.
const IDLE_CORES: f64 = 0.05;
const SETTLE_WINDOW: Duration = Duration::from_secs(2);

/// How to load.
#[derive(Clone, Debug)]
pub struct LoadSettings {
    /// The server.
    pub target: Target,
    /// The dialect it speaks.
    pub dialect: Dialect,
    /// The database to write to.
    pub database: String,
    /// Number of connections.
    pub workers: usize,
    /// Whether bodies are compressed.
    pub gzip: bool,
    /// Rows a second, if not as fast as possible.
    pub rows_per_second: Option<f64>,
    /// How long an answer may take.
    pub timeout: Duration,
    /// How long loading may take. After that it ends as if the data set were complete.
    pub time_limit: Duration,
}

/// The state of one load, which all workers share.
struct LoadState<'a, W> {
    workload: &'a W,
    settings: &'a LoadSettings,
    path: String,
    started: Instant,
    claimed_rows: AtomicU64,
    rows: AtomicU64,
    values: AtomicU64,
    text_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    refused: AtomicU64,
    running: AtomicUsize,
    stop: &'a AtomicBool,
    failure: Mutex<Option<BenchError>>,
    latencies: Mutex<Latencies>,
}

/// Loads `workload` until it is complete, the time is over or `stop` is set.
pub fn load<W: Workload>(
    workload: &W,
    settings: &LoadSettings,
    probe: &ServerProbe,
    stop: &AtomicBool,
    mut progress: Option<&mut Progress>,
) -> Result<LoadResult> {
    let path = match settings.dialect {
        Dialect::Influx => format!("/write?db={}", query_escape(&settings.database)),
        Dialect::Victoriametrics => "/write".to_owned(),
    };
    let client = ServerProbe { pid: Some(std::process::id()), data_dir: None };
    let (client_before, server_before) = (client.usage(), probe.usage());
    let state = LoadState {
        workload,
        settings,
        path,
        started: Instant::now(),
        claimed_rows: AtomicU64::new(0),
        rows: AtomicU64::new(0),
        values: AtomicU64::new(0),
        text_bytes: AtomicU64::new(0),
        sent_bytes: AtomicU64::new(0),
        refused: AtomicU64::new(0),
        running: AtomicUsize::new(settings.workers),
        stop,
        failure: Mutex::new(None),
        latencies: Mutex::new(Latencies::default()),
    };
    let timeline = std::thread::scope(|scope| {
        for _ in 0..settings.workers {
            scope.spawn(|| state.run_worker());
        }
        state.sample_until_done(probe, server_before, &mut progress)
    });
    let seconds = state.started.elapsed().as_secs_f64();
    if let Some(failure) = state.failure.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
        return Err(failure);
    }
    let (server, client_after) = (probe.usage(), client.usage());
    let (rows, values) = (state.rows.into_inner(), state.values.into_inner());
    Ok(LoadResult {
        phase: String::new(),
        new_series: None,
        rows,
        values,
        seconds,
        rows_per_second: rows as f64 / seconds,
        values_per_second: values as f64 / seconds,
        workers: settings.workers,
        text_bytes: state.text_bytes.into_inner(),
        gzip_text_bytes: None,
        sent_bytes: state.sent_bytes.into_inner(),
        refused_requests: state.refused.into_inner(),
        latency: state.latencies.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()).summary(),
        client_cpu_seconds: client_after.cpu_since(&client_before),
        server_cpu_seconds: server.cpu_since(&server_before),
        settled_server_cpu_seconds: None,
        peak_resident_bytes: server.peak_resident_bytes,
        resident_bytes: server.resident_bytes,
        written_bytes: server.written_since(&server_before),
        disk_bytes: probe.disk_bytes(),
        settled_disk_bytes: None,
        timeline,
    })
}

impl<W: Workload> LoadState<'_, W> {
    /// Runs one worker.
    fn run_worker(&self) {
        if let Err(error) = self.send_batches() {
            self.failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get_or_insert(error);
            self.stop.store(true, Relaxed);
        }
        self.running.fetch_sub(1, Relaxed);
    }

    fn send_batches(&self) -> Result<()> {
        let mut connection = Connection::new(&self.settings.target, self.settings.timeout);
        let mut latencies = Latencies::default();
        let (mut batch, mut text, mut compressed) = (W::Batch::default(), Vec::new(), Vec::new());
        while !self.is_over() {
            let Some(size) = self.workload.claim(&mut batch) else { break };
            let first_row = self.claimed_rows.fetch_add(size.rows, Relaxed);
            self.workload.write(&batch, &mut text);
            let body = if self.settings.gzip {
                compress(&text, &mut compressed)?;
                &compressed
            } else {
                &text
            };
            self.wait_until_due(first_row);
            if !self.send(&mut connection, body, &mut latencies)? {
                break;
            }
            self.rows.fetch_add(size.rows, Relaxed);
            self.values.fetch_add(size.values, Relaxed);
            self.text_bytes.fetch_add(text.len() as u64, Relaxed);
            self.sent_bytes.fetch_add(body.len() as u64, Relaxed);
        }
        self.latencies.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).merge(latencies);
        Ok(())
    }

    /// Sends one body until the server accepts it; false if the time is over before.
    fn send(&self, connection: &mut Connection, body: &[u8], latencies: &mut Latencies) -> Result<bool> {
        let headers = if self.settings.gzip { "Content-Encoding: gzip\r\n" } else { "" };
        loop {
            let sent = Instant::now();
            let response = connection.request("POST", &self.path, headers, body, Body::Drop)?;
            match response.status {
                200..=299 => {
                    latencies.add(sent.elapsed());
                    return Ok(true);
                }
                503 => {
                    self.refused.fetch_add(1, Relaxed);
                    let pause = response.retry_after_seconds.map_or(RETRY_PAUSE, Duration::from_secs);
                    std::thread::sleep(pause.min(RETRY_PAUSE_LIMIT));
                    if self.is_over() {
                        return Ok(false);
                    }
                }
                status => return Err(BenchError::Server { status, message: connection.error_text() }),
            }
        }
    }

    fn is_over(&self) -> bool {
        self.stop.load(Relaxed) || self.started.elapsed() >= self.settings.time_limit
    }

    fn wait_until_due(&self, first_row: u64) {
        let Some(rate) = self.settings.rows_per_second else { return };
        let due = Duration::from_secs_f64(first_row as f64 / rate);
        while let Some(wait) = due.checked_sub(self.started.elapsed()).filter(|wait| !wait.is_zero()) {
            if self.is_over() {
                return;
            }
            std::thread::sleep(wait.min(Duration::from_millis(200)));
        }
    }

    /// Samples the server every second and shows progress, until every worker has ended.
    fn sample_until_done(
        &self,
        probe: &ServerProbe,
        server_before: Usage,
        progress: &mut Option<&mut Progress>,
    ) -> Vec<Sample> {
        let mut timeline = Vec::new();
        let (mut last_seconds, mut last_values, mut last_usage) = (0.0, 0, server_before);
        loop {
            let ended = self.running.load(Relaxed) == 0;
            let (seconds, values) = (self.started.elapsed().as_secs_f64(), self.values.load(Relaxed));
            let passed = seconds - last_seconds;
            if timeline.len() < SAMPLE_LIMIT && (passed >= 1.0 || (ended && passed >= 0.5)) {
                let usage = probe.usage();
                timeline.push(Sample {
                    seconds,
                    values_per_second: (values - last_values) as f64 / passed,
                    server_cores: usage.cpu_since(&last_usage).map(|cpu| cpu / passed),
                    resident_bytes: usage.resident_bytes,
                });
                (last_seconds, last_values, last_usage) = (seconds, values, usage);
            }
            if ended {
                return timeline;
            }
            if let Some(progress) = progress {
                let rows = self.rows.load(Relaxed) as f64;
                let by_rows = self.workload.total_rows().map_or(0.0, |total| rows / total as f64);
                let by_time = seconds / self.settings.time_limit.as_secs_f64();
                let rate = values as f64 / seconds;
                progress.update(by_rows.max(by_time), || format!("{} values/s", table::count(rate)));
            }
            std::thread::sleep(SAMPLE_PAUSE);
        }
    }
}

/// Compresses at the fastest level, so that the client does not become the bottleneck.
fn compress(text: &[u8], into: &mut Vec<u8>) -> Result<()> {
    into.clear();
    let mut encoder = GzEncoder::new(std::mem::take(into), Compression::fast());
    let compressed = encoder.write_all(text).and_then(|()| encoder.finish());
    *into = compressed.map_err(BenchError::io("compressing a batch"))?;
    Ok(())
}

/// Waits until the server is idle, which means that its background work is done, but at most `limit`. Adds what the
/// server used meanwhile to `result`.
pub fn settle(result: &mut LoadResult, probe: &ServerProbe, limit: Duration) {
    let mut progress = Progress::start("settle");
    let started = Instant::now();
    let after_load = probe.usage();
    let mut before = after_load;
    if before.cpu_seconds.is_none() || limit.is_zero() {
        return;
    }
    let mut disk = probe.disk_bytes();
    while started.elapsed() < limit {
        std::thread::sleep(SETTLE_WINDOW.min(limit));
        let (after, disk_now) = (probe.usage(), probe.disk_bytes());
        let cores = after.cpu_since(&before).unwrap_or(0.0) / SETTLE_WINDOW.as_secs_f64();
        progress.update(started.elapsed().as_secs_f64() / limit.as_secs_f64(), || {
            format!("{cores:.2} cores busy")
        });
        let idle = cores < IDLE_CORES && disk == disk_now;
        (before, disk) = (after, disk_now);
        if idle {
            break;
        }
    }
    if let (Some(loading), Some(since)) = (result.server_cpu_seconds, before.cpu_since(&after_load)) {
        result.settled_server_cpu_seconds = Some(loading + since);
    }
    if let (Some(loading), Some(since)) = (result.written_bytes, before.written_since(&after_load)) {
        result.written_bytes = Some(loading + since);
    }
    result.resident_bytes = before.resident_bytes;
    result.peak_resident_bytes = before.peak_resident_bytes;
    result.settled_disk_bytes = disk;
    progress.finish(&format!("{:.1} s until the server was idle", started.elapsed().as_secs_f64()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{Span, TSBS_START};
    use crate::workload::cpu::CpuWorkload;
    use crate::workload::cpu::model::HostsConfig;
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;

    /// Answers each request with the next of `answers`, one connection after the other. Returns the number of body
    /// lines that it acknowledged.
    fn stub(answers: &'static [&'static str]) -> (Target, std::thread::JoinHandle<usize>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = Target::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let serve = move || {
            let (mut answers, mut lines) = (answers.iter().peekable(), 0);
            while answers.peek().is_some() {
                let mut stream = BufReader::new(listener.accept().unwrap().0);
                while let Some(answer) = answers.peek() {
                    let Some(body) = read_request(&mut stream) else { break };
                    stream.get_mut().write_all(answer.as_bytes()).unwrap();
                    if answer.contains(" 204 ") {
                        lines += body.iter().filter(|&&byte| byte == b'\n').count();
                    }
                    let closes = answer.contains("close");
                    answers.next();
                    if closes {
                        break;
                    }
                }
            }
            lines
        };
        (target, std::thread::spawn(serve))
    }

    fn read_request(stream: &mut impl BufRead) -> Option<Vec<u8>> {
        let (mut length, mut line) = (0, String::new());
        while stream.read_line(&mut line).ok()? > 2 {
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            line.clear();
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).ok()?;
        (length > 0).then_some(body)
    }

    fn run(answers: &'static [&'static str], hosts: u64) -> (Result<LoadResult>, usize) {
        let span = Span { start: TSBS_START, end: TSBS_START + 30 };
        let config = HostsConfig { hosts, span, interval_seconds: 10, seed: 1 };
        let (target, server) = stub(answers);
        let settings = LoadSettings {
            target,
            dialect: Dialect::Influx,
            database: "x".to_owned(),
            workers: 1,
            gzip: false,
            rows_per_second: None,
            timeout: Duration::from_secs(120),
            time_limit: Duration::from_secs(300),
        };
        let stop = AtomicBool::new(false);
        let result = load(&CpuWorkload::new(config, 10), &settings, &ServerProbe::default(), &stop, None);
        (result, server.join().unwrap())
    }

    const TAKEN: &str = "HTTP/1.1 204 No Content\r\n\r\n";
    const TAKEN_AND_CLOSED: &str = "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
    const BUSY: &str = "HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 4\r\n\r\nbusy";
    const BAD: &str = "HTTP/1.1 400 Bad\r\nContent-Length: 7\r\n\r\nnot so.";

    #[test]
    fn refused_batches_are_sent_again_and_closed_connections_opened_again() {
        let (result, lines) = run(&[TAKEN_AND_CLOSED, BUSY, BUSY, TAKEN, TAKEN], 10);
        let result = result.unwrap();
        assert_eq!((result.rows, result.values, result.refused_requests), (30, 300, 2));
        assert_eq!((lines, result.latency.unwrap().count), (30, 3));
        assert_eq!(result.text_bytes, result.sent_bytes);
    }

    #[test]
    fn any_other_refusal_ends_the_load() {
        let (result, lines) = run(&[TAKEN, BAD], 10);
        let error = result.unwrap_err();
        assert!(
            matches!(&error, BenchError::Server { status: 400, message } if message == "not so."),
            "{error}"
        );
        assert_eq!(lines, 10);
    }
}
