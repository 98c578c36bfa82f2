//! `nyala demo`: writes a sample of TSBS' data to a running server, runs its fifteen types of queries, and shows
//! answers and times. `cargo xtask kudu-demo` writes through one server and asks another, and then writes more.

use crate::client::database::prepare_database;
use crate::client::dialect::Dialect;
use crate::error::{BenchError, Result};
use crate::measure::server::ServerProbe;
use crate::query::generator::{Query, QueryGenerator};
use crate::query::kind::{QueryKind, TSBS};
use crate::query::text::{influxql, request};
use crate::report::progress::Progress;
use crate::report::table;
use crate::run::load::{LoadSettings, load};
use crate::run::queries::ANSWER_LIMIT_BYTES;
use crate::time::{HOUR_SECONDS, Span, TSBS_START};
use crate::verify::answer::{Cell, read_rows};
use crate::workload::Workload;
use crate::workload::cpu::model::HostsConfig;
use crate::workload::cpu::{CpuBatch, CpuWorkload};
use nyala_client::{Body, Connection, Target};
use std::io::Write;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// What the demonstration shows.
#[derive(Clone, Debug)]
pub struct DemoSettings {
    /// Database to write to; one of this name is replaced.
    pub database: String,
    /// Number of hosts.
    pub hosts: u64,
    /// Hours of data; the longest queries read twelve.
    pub hours: i64,
    /// How often each query is run; the first and the fastest time are shown.
    pub repetitions: usize,
}

impl Default for DemoSettings {
    fn default() -> DemoSettings {
        DemoSettings { database: "nyala_demo".to_owned(), hosts: 100, hours: 13, repetitions: 5 }
    }
}

const SEED: u64 = 123;
const INTERVAL_SECONDS: i64 = 10;
/// How long the hosts go on after the sample.
const HOURS_AFTER: i64 = 1;
const BATCH_ROWS: usize = 10_000;
const TIMEOUT: Duration = Duration::from_secs(60);
/// Rows and columns of an answer that are shown.
const ROWS_SHOWN: usize = 3;
const COLUMNS_SHOWN: usize = 7;

/// Runs the demonstration against the server at `url`. Writes results to `out` and progress to standard error.
pub fn run(url: &str, settings: &DemoSettings, out: &mut dyn Write) -> Result<()> {
    let sample = Sample::new(settings);
    sample.write(url, out)?;
    sample.ask(url, out)
}

/// The sample, and points of the same hosts that come after it.
#[derive(Debug)]
pub struct Sample {
    settings: DemoSettings,
    config: HostsConfig,
    workload: CpuWorkload,
}

impl Sample {
    /// The sample that is written with these settings.
    pub fn new(settings: &DemoSettings) -> Sample {
        let until = |hours: i64| HostsConfig {
            hosts: settings.hosts,
            span: Span { start: TSBS_START, end: TSBS_START + hours * HOUR_SECONDS },
            interval_seconds: INTERVAL_SECONDS,
            seed: SEED,
        };
        let config = until(settings.hours);
        let workload = CpuWorkload::new(until(settings.hours + HOURS_AFTER), BATCH_ROWS);
        workload.end_at(config.reports());
        Sample { settings: settings.clone(), config, workload }
    }

    /// Writes it through the server at `url`. Returns the number of points.
    pub fn write(&self, url: &str, out: &mut dyn Write) -> Result<u64> {
        let target = Target::parse(url)?;
        prepare_database(&mut Connection::new(&target, TIMEOUT), &self.settings.database, true)?;
        let load_settings = LoadSettings {
            target,
            dialect: Dialect::Influx,
            database: self.settings.database.clone(),
            workers: 2,
            gzip: false,
            rows_per_second: None,
            timeout: TIMEOUT,
            time_limit: Duration::from_secs(600),
        };
        let mut progress = Progress::start("writing");
        let stop = AtomicBool::new(false);
        let probe = ServerProbe::default();
        let loaded = load(&self.workload, &load_settings, &probe, &stop, Some(&mut progress))?;
        let rate = table::count(loaded.values_per_second);
        progress.finish(&format!("{} rows", loaded.rows));
        let DemoSettings { database, hosts, hours, .. } = &self.settings;
        print(
            out,
            &format!(
                "Wrote {} rows of 10 values ({hosts} hosts, every {INTERVAL_SECONDS} s, {hours} hours from \
                 2016-01-01) into database {database}\nin {:.2} s: {rate} values/s.\n",
                loaded.rows, loaded.seconds
            ),
        )?;
        Ok(loaded.rows)
    }

    /// Runs the queries through the server at `url`.
    pub fn ask(&self, url: &str, out: &mut dyn Write) -> Result<()> {
        let mut connection = Connection::new(&Target::parse(url)?, TIMEOUT);
        for (number, kind) in TSBS.iter().enumerate() {
            let query = QueryGenerator::new(*kind, self.config.hosts, self.config.span, SEED).draw();
            show(number + 1, kind, &query, &mut connection, &self.settings, out)?;
        }
        Ok(())
    }

    /// The points that come next, at most this many: line protocol, and how many they are.
    pub fn more(&self, points: u64) -> (Vec<u8>, u64) {
        self.workload.end_at(self.workload.total_rows().unwrap_or(0) + points);
        let (mut batch, mut text) = (CpuBatch::default(), Vec::new());
        let (mut body, mut taken) = (Vec::new(), 0);
        while let Some(size) = self.workload.claim(&mut batch) {
            self.workload.write(&batch, &mut text);
            body.extend_from_slice(&text);
            taken += size.rows;
        }
        (body, taken)
    }
}

fn show(
    number: usize,
    kind: &QueryKind,
    query: &Query,
    connection: &mut Connection,
    settings: &DemoSettings,
    out: &mut dyn Write,
) -> Result<()> {
    let request = request(query, Dialect::Influx, &settings.database).expect("every type has InfluxQL");
    let (mut answer, mut times_ms) = (Vec::new(), Vec::new());
    for _ in 0..settings.repetitions.max(1) {
        answer.clear();
        let body = Body::Collect { into: &mut answer, limit_bytes: ANSWER_LIMIT_BYTES };
        let started = Instant::now();
        connection.expect_success(request.method, &request.path, b"", body)?;
        times_ms.push(started.elapsed().as_secs_f64() * 1000.0);
    }
    let (lines, rows) =
        first_lines(&answer).map_err(|error| BenchError::Protocol(format!("{}: {error}", kind.name)))?;
    let best = times_ms.iter().copied().fold(f64::INFINITY, f64::min);
    print(
        out,
        &format!(
            "\n{number:2}  {}: {}\n    {}\n{lines}    {rows} rows, {} in {} ms; best of {}: {} ms\n",
            kind.name,
            kind.shape.describe(),
            influxql(query),
            table::bytes(answer.len() as f64),
            table::milliseconds(times_ms[0]),
            times_ms.len(),
            table::milliseconds(best),
        ),
    )
}

/// The first rows as a table, and the number of all rows.
fn first_lines(answer: &[u8]) -> std::result::Result<(String, usize), String> {
    let mut shown: Vec<Vec<String>> = Vec::new();
    let mut rows = 0;
    read_rows(answer, &mut |head, cells| {
        rows += 1;
        if rows > ROWS_SHOWN {
            return Ok(());
        }
        // The tags that a series is grouped by are not columns.
        let tags = head.tags.iter();
        if shown.is_empty() {
            let titles = tags.clone().map(|(key, _)| key.clone()).chain(head.columns.iter().cloned());
            shown.push(titles.collect());
        }
        shown.push(tags.map(|(_, value)| value.clone()).chain(cells.iter().map(cell_text)).collect());
        Ok(())
    })?;
    for row in &mut shown {
        if row.len() > COLUMNS_SHOWN {
            row.truncate(COLUMNS_SHOWN);
            row.push("…".to_owned());
        }
    }
    let mut text = String::new();
    for line in table::align(&shown).lines() {
        text.push_str("    ");
        text.push_str(line);
        text.push('\n');
    }
    if rows > ROWS_SHOWN {
        text.push_str("      …\n");
    }
    Ok((text, rows))
}

fn cell_text(cell: &Cell<'_>) -> String {
    match cell {
        Cell::Null => "null".to_owned(),
        Cell::Boolean(value) => value.to_string(),
        Cell::Integer(value) => value.to_string(),
        Cell::Float(value) => value.to_string(),
        Cell::Text(text) => text.clone().into_owned(),
    }
}

fn print(out: &mut dyn Write, text: &str) -> Result<()> {
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(BenchError::io("writing the results"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_points_follow_those_of_the_sample() {
        let sample = Sample::new(&DemoSettings { hosts: 3, hours: 13, ..DemoSettings::default() });
        while sample.workload.claim(&mut CpuBatch::default()).is_some() {}
        let (body, points) = sample.more(7);
        let text = String::from_utf8(body).unwrap();
        let seconds = |line: &str| line.rsplit(' ').next()?.parse::<i64>().ok().map(|ns| ns / 1_000_000_000);
        let times: Vec<_> = text.lines().filter_map(seconds).collect();
        let first = TSBS_START + 13 * HOUR_SECONDS;
        assert_eq!((points, times), (7, [0, 0, 0, 10, 10, 10, 20].map(|after| first + after).to_vec()));
        assert_eq!(sample.more(2).1, 2);
    }

    #[test]
    fn the_first_rows_are_shown_and_all_are_counted() {
        let answer = br#"{"results":[{"series":[{"name":"cpu","tags":{"hostname":"host_0"},
            "columns":["time","a","b","c","d","e","f","g"],
            "values":[["t",1,2,3,4,5,6,7],["t",1.5,null,3,4,5,6,7],["t",1,2,3,4,5,6,7],["t",1,2,3,4,5,6,7]]}]}]}"#;
        let (text, rows) = first_lines(answer).unwrap();
        assert_eq!(rows, 4);
        assert!(text.lines().next().unwrap().trim_start().starts_with("hostname  time"), "{text}");
        assert!(text.contains("1.5  null"), "{text}");
        assert_eq!(text.lines().count(), 1 + ROWS_SHOWN + 1);
    }
}
