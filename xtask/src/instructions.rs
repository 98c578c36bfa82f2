//! The regression guard: how many instructions the program runs per batch and per query, compared with what stands in
//! `testdata/instructions.txt`.
//!
//! Seconds differ from run to run and from machine to machine, instructions hardly. The real program serves under
//! valgrind, is asked a few times and, in a second run, many times; the difference is what asking costs, without start
//! and stop. Valgrind knows no AVX-512, so that all machines with AVX2 take the same kernels.

use crate::server::{Outcome, Scratch, Server, build};
use crate::workspace::root;
use nyala_client::query_escape;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// What a count may be above the recorded one, percent.
const TOLERANCE_PERCENT: f64 = 2.0;
const HOSTS: u64 = 100;
/// Seconds between the rows of a host.
const INTERVAL_SECONDS: u64 = 10;
/// 2016-01-01T00:00:00Z
const START_SECONDS: u64 = 1_451_606_400;
/// How much is there before anything is counted.
const PREPARED_SECONDS: u64 = 12 * 3600;
const FIELDS: [&str; 10] =
    ["user", "system", "idle", "nice", "iowait", "irq", "softirq", "steal", "guest", "guest_nice"];

/// One thing that is counted.
struct Measured {
    name: &'static str,
    /// Requests of the first run, and of the second.
    few: u64,
    many: u64,
    request: fn(u64) -> Request,
}

struct Request {
    target: String,
    body: String,
}

const PATHS: [Measured; 12] = [
    Measured {
        name: "write_1000_rows",
        few: 5,
        many: 25,
        request: |number| write(PREPARED_SECONDS + number * 100, 10),
    },
    Measured {
        name: "query_one_series_by_minute",
        few: 50,
        many: 450,
        request: |number| {
            let host = number % HOSTS;
            query(&format!(
                "SELECT max(usage_user) FROM cpu WHERE hostname='host_{host}' AND time >= '2016-01-01T03:00:00Z' AND time < '2016-01-01T04:00:00Z' GROUP BY time(1m)"
            ))
        },
    },
    Measured {
        name: "query_one_series_raw_hour",
        few: 50,
        many: 250,
        request: |number| {
            let host = number % HOSTS;
            query(&format!(
                "SELECT usage_user, usage_system FROM cpu WHERE hostname='host_{host}' AND time >= '2016-01-01T03:00:00Z' AND time < '2016-01-01T04:00:00Z'"
            ))
        },
    },
    Measured {
        name: "query_all_series_by_hour",
        few: 5,
        many: 45,
        request: |_| {
            query(
                "SELECT mean(usage_user) FROM cpu WHERE time >= '2016-01-01T00:00:00Z' AND time < '2016-01-01T12:00:00Z' GROUP BY time(1h), hostname",
            )
        },
    },
    Measured {
        name: "query_rows_above_a_threshold",
        few: 3,
        many: 13,
        request: |_| {
            query(
                "SELECT usage_user FROM cpu WHERE usage_user > 95 AND time >= '2016-01-01T00:00:00Z' AND time < '2016-01-01T06:00:00Z'",
            )
        },
    },
    Measured {
        name: "query_last_point_of_each_series",
        few: 5,
        many: 45,
        request: |_| query("SELECT * FROM cpu GROUP BY hostname ORDER BY time DESC LIMIT 1"),
    },
    Measured { name: "write_1000_new_fields", few: 1, many: 3, request: |number| new_fields(number, 1000) },
    Measured { name: "write_8000_new_fields", few: 1, many: 3, request: |number| new_fields(number, 8000) },
    Measured {
        name: "write_500_new_measurements",
        few: 1,
        many: 3,
        request: |number| new_measurements(number, 500),
    },
    Measured {
        name: "write_4000_new_measurements",
        few: 1,
        many: 3,
        request: |number| new_measurements(number, 4000),
    },
    Measured { name: "subquery_of_1000_fields", few: 1, many: 4, request: |_| subquery(1000) },
    Measured { name: "subquery_of_8000_fields", few: 1, many: 4, request: |_| subquery(8000) },
];

/// Pairs of which the second is eight times as much as the first: it may take so many times as many instructions. The columns of
/// a subquery are sorted by their names.
const GROWTH: [(&str, &str, f64); 3] = [
    ("write_1000_new_fields", "write_8000_new_fields", 10.0),
    ("write_500_new_measurements", "write_4000_new_measurements", 10.0),
    ("subquery_of_1000_fields", "subquery_of_8000_fields", 13.0),
];

/// Counts everything; compares, or records with `--record`.
pub(crate) fn run(arguments: &[String]) -> Outcome<String> {
    let record = match arguments {
        [] => false,
        [flag] if flag == "--record" => true,
        _ => return Err("usage: cargo xtask instructions [--record]".to_owned()),
    };
    check_machine()?;
    let program = build()?;
    let prepared = Scratch::new("guard-prepared")?;
    prepare(&program, &prepared.path)?;
    let mut counted = Vec::new();
    for path in &PATHS {
        let few = count(&program, &prepared.path, path, path.few)?;
        let many = count(&program, &prepared.path, path, path.many)?;
        counted.push((path.name, many.saturating_sub(few) / (path.many - path.few)));
    }
    let growth = growth(&counted)?;
    let file = root().join("testdata/instructions.txt");
    if record {
        let mut text = String::new();
        counted.iter().for_each(|(name, count)| {
            let _ = writeln!(text, "{name} {count}");
        });
        std::fs::write(&file, &text).map_err(|error| format!("{}: {error}", file.display()))?;
        return Ok(text + &growth);
    }
    let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(compare(&counted, &text)? + &growth)
}

/// How much more eight times as much takes, as an error if that is more than in proportion.
fn growth(counted: &[(&str, u64)]) -> Outcome<String> {
    let count = |name: &str| {
        let found = counted.iter().find(|(own, _)| *own == name).map(|(_, count)| *count);
        found.filter(|count| *count > 0).ok_or_else(|| format!("{name} was not counted"))
    };
    let (mut lines, mut is_steep) = (String::new(), false);
    for (small, large, most) in GROWTH {
        let ratio = count(large)? as f64 / count(small)? as f64;
        is_steep |= ratio > most;
        let _ = writeln!(lines, "{large:32} {ratio:>11.1} times {small}, of {most} at most");
    }
    if is_steep { Err(format!("{lines}the cost grows with more than what is asked for")) } else { Ok(lines) }
}

/// What changed, as an error if something costs more than it may.
fn compare(counted: &[(&str, u64)], recorded: &str) -> Outcome<String> {
    let mut lines = String::new();
    let (mut worse, mut better) = (false, false);
    for (name, count) in counted {
        let known = recorded.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
        let known =
            known.ok_or_else(|| format!("{name} was never recorded: cargo xtask instructions --record"))?;
        let change = (*count as f64 / known as f64 - 1.0) * 100.0;
        worse |= change > TOLERANCE_PERCENT;
        better |= change < -TOLERANCE_PERCENT;
        let _ = writeln!(lines, "{name:32} {known:>11} -> {count:>11} {change:>+7.1} %");
    }
    match (worse, better) {
        (true, _) => Err(format!(
            "{lines}more instructions than recorded. Find out why; if that is its price: cargo xtask instructions --record"
        )),
        (false, true) => {
            Ok(format!("{lines}fewer than recorded: keep that with cargo xtask instructions --record"))
        }
        (false, false) => Ok(lines),
    }
}

fn check_machine() -> Outcome<()> {
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if !flags.contains("avx2") {
        return Err("instructions were counted with AVX2, which this machine has not".to_owned());
    }
    match Command::new("valgrind").arg("--version").stdout(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err("valgrind is needed: apt-get install valgrind".to_owned()),
    }
}

/// Writes the data that queries ask for, and leaves it on disk.
fn prepare(program: &Path, directory: &Path) -> Outcome<()> {
    let mut server = start(Command::new(program), directory)?;
    ask(&mut server, &query("CREATE DATABASE guard"))?;
    for start in (0..PREPARED_SECONDS).step_by(600) {
        ask(&mut server, &write(start, 60))?;
    }
    for fields in [1000, 8000_u64] {
        let cells: Vec<String> = (0..fields).map(|field| format!("f{field}=1")).collect();
        ask(
            &mut server,
            &lines_of(format!("prepared{fields},host=a {} {START_SECONDS}000000000", cells.join(","))),
        )?;
    }
    server.stop().map(drop)
}

/// How many instructions a server runs that is asked `requests` times.
fn count(program: &Path, prepared: &Path, path: &Measured, requests: u64) -> Outcome<u64> {
    let scratch = Scratch::new("guard-counted")?;
    copy(prepared, &scratch.path)?;
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
    let mut server = start(valgrind, &scratch.path)?;
    // The first times find nothing in caches.
    for number in 0..path.few + requests {
        ask(&mut server, &(path.request)(number))?;
    }
    let said = server.stop()?;
    let collected = said.lines().find_map(|line| line.split("Collected :").nth(1)?.trim().parse().ok());
    collected.ok_or_else(|| format!("valgrind does not say what it collected:\n{said}"))
}

/// Serves the data in a directory, with the server's log beside them.
fn start(program: Command, directory: &Path) -> Outcome<Server> {
    let (address, log) = (Server::free_address()?, directory.join("log"));
    let settings = ["--wal-sync", "never"];
    let mut server = Server::start(program, &settings, &directory.join("data"), address, &log)?;
    server.wait_until_ready()?;
    Ok(server)
}

fn ask(server: &mut Server, request: &Request) -> Outcome<()> {
    let method = if request.body.is_empty() { "GET" } else { "POST" };
    server.ask(method, &request.target, request.body.as_bytes()).map(drop)
}

fn query(text: &str) -> Request {
    Request { target: format!("/query?db=guard&q={}", query_escape(text)), body: String::new() }
}

/// A line whose fields are all new.
fn new_fields(number: u64, fields: u64) -> Request {
    let fields: Vec<String> = (0..fields).map(|field| format!("f{field}=1")).collect();
    lines_of(format!("wide{}_{number},host=a {} {START_SECONDS}000000000", fields.len(), fields.join(",")))
}

/// Lines whose measurements are all new.
fn new_measurements(number: u64, measurements: u64) -> Request {
    let line = |measurement| {
        format!("new{measurements}_{number}_{measurement},host=a v=1 {START_SECONDS}000000000\n")
    };
    lines_of((0..measurements).map(line).collect())
}

/// All fields of what was prepared with so many.
fn subquery(fields: u64) -> Request {
    query(&format!("SELECT * FROM (SELECT * FROM prepared{fields})"))
}

/// `rows` rows of each host from a second on.
fn write(from_seconds: u64, rows: u64) -> Request {
    let mut body = String::new();
    for row in 0..rows {
        let seconds = START_SECONDS + from_seconds + row * INTERVAL_SECONDS;
        for host in 0..HOSTS {
            let _ = write!(
                body,
                "cpu,hostname=host_{host},region=eu-west-1,datacenter=eu-west-1a,rack={},os=Ubuntu16.04,arch=x64,team=SF,service={},service_version=1,service_environment=test ",
                host % 50,
                host % 20
            );
            for (number, field) in (0..).zip(FIELDS) {
                let value = (seconds / 7 * (host + 3) + number * 31 + seconds / 10 % 17) % 101;
                let _ = write!(body, "{}usage_{field}={value}i", if number > 0 { "," } else { "" });
            }
            let _ = writeln!(body, " {seconds}000000000");
        }
    }
    lines_of(body)
}

fn lines_of(body: String) -> Request {
    Request { target: "/write?db=guard".to_owned(), body }
}

fn copy(from: &Path, to: &Path) -> Outcome<()> {
    let io = |error: std::io::Error| format!("copying {}: {error}", from.display());
    std::fs::create_dir_all(to).map_err(io)?;
    for entry in std::fs::read_dir(from).map_err(io)? {
        let entry = entry.map_err(io)?;
        let target = to.join(entry.file_name());
        match entry.file_type().map_err(io)?.is_dir() {
            true => copy(&entry.path(), &target)?,
            false => drop(std::fs::copy(entry.path(), &target).map_err(io)?),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_recorded_is_an_error() {
        let recorded = "a 1000\nb 500\n";
        assert!(compare(&[("a", 1015), ("b", 495)], recorded).is_ok());
        assert!(compare(&[("a", 1050), ("b", 400)], recorded).is_err_and(|words| words.contains("+5.0 %")));
        assert!(compare(&[("a", 900)], recorded).is_ok_and(|words| words.contains("fewer")));
        assert!(compare(&[("c", 1)], recorded).is_err_and(|words| words.contains("never recorded")));
    }
}
