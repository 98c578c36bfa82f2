//! Loading, querying, and the benchmarks that consist of them.

pub mod compare;
pub mod corrections;
pub mod devops;
pub mod load;
pub mod mixed;
pub mod narrow;
pub mod queries;
pub mod question;
pub mod session;
#[cfg(feature = "sql")]
pub mod sql;
pub mod tsbs;
pub mod verification;
pub mod ycsb;
mod ycsb_sql;
pub mod ycsb_sweep;

use crate::cli::{BenchCommand, ReportArgs};
use crate::error::{BenchError, Result};
use crate::measure::server::machine;
use crate::report::result::{Machine, RESULT_VERSION, RunResult};
use crate::report::{html, table};
use crate::server::Launch;
use crate::time::Span;
use session::Session;
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

/// Runs one benchmark. Writes progress to standard error, and results to standard output and to the files that the
/// options name. `launch` starts a server if no target is given.
pub fn run(command: &BenchCommand, launch: Launch<'_>) -> Result<()> {
    let (result, report) = match command {
        BenchCommand::Tsbs(args) => (tsbs::run(args, launch)?, &args.common.report),
        BenchCommand::Devops(args) => (devops::run(args, launch)?, &args.common.report),
        BenchCommand::Narrow(args) => (narrow::run(args, launch)?, &args.common.report),
        BenchCommand::Mixed(args) => (mixed::run(args, launch)?, &args.common.report),
        BenchCommand::Corrections(args) => (corrections::run(args, launch)?, &args.common.report),
        BenchCommand::Ycsb(args) => return ycsb_sweep::run(args, launch),
        #[cfg(feature = "sql")]
        BenchCommand::Sql(command) => return sql::run(command, launch),
        BenchCommand::Compare(args) => return compare::run(args),
    };
    publish(&result, report)?;
    match &result.verification {
        Some(found) if found.wrong > 0 => {
            Err(BenchError::WrongAnswers { wrong: found.wrong, compared: found.compared })
        }
        _ => Ok(()),
    }
}

fn publish(result: &RunResult, report: &ReportArgs) -> Result<()> {
    print(&table::render(result))?;
    if let Some(path) = &report.json {
        let json = serde_json::to_vec_pretty(result).expect("results have no keys but strings");
        std::fs::write(path, json).map_err(BenchError::io(format!("writing {}", path.display())))?;
    }
    if let Some(path) = &report.html {
        let page = html::page(std::slice::from_ref(result));
        std::fs::write(path, page).map_err(BenchError::io(format!("writing {}", path.display())))?;
    }
    Ok(())
}

fn print(text: &str) -> Result<()> {
    std::io::stdout().write_all(text.as_bytes()).map_err(BenchError::io("writing the results"))
}

/// The machine that this client runs on.
fn new_machine() -> Machine {
    let (cores, processor, memory_bytes) = machine();
    Machine { cores, processor, memory_bytes }
}

/// A result without measurements.
fn new_result(benchmark: &str, session: &Session<'_>) -> RunResult {
    let server = &session.server;
    let parameters = [
        ("batch size", session.args.load.batch_size.to_string()),
        ("gzip", session.args.load.gzip.to_string()),
        ("dialect", session.args.server.dialect.name().to_owned()),
    ];
    RunResult {
        version: RESULT_VERSION,
        benchmark: benchmark.to_owned(),
        label: session.args.report.label.clone().unwrap_or_else(|| server.default_label()),
        started_at: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        machine: new_machine(),
        parameters: parameters.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        loads: Vec::new(),
        queries: Vec::new(),
        verification: None,
    }
}

/// The span of data that begins at `start`.
fn data_span(start: i64, duration_seconds: i64, interval_seconds: i64) -> Result<Span> {
    if duration_seconds % interval_seconds != 0 {
        return Err(BenchError::Invalid("the duration has to be a multiple of the interval".to_owned()));
    }
    Ok(Span { start, end: start + duration_seconds })
}

/// The parameters that every data set has; `size_name` is what its size counts.
fn data_parameters(
    size_name: &str,
    size: u32,
    duration_seconds: i64,
    interval_seconds: i64,
    seed: u64,
) -> Vec<(String, String)> {
    vec![
        (size_name.to_owned(), size.to_string()),
        ("duration".to_owned(), format!("{duration_seconds} s")),
        ("interval".to_owned(), format!("{interval_seconds} s")),
        ("seed".to_owned(), seed.to_string()),
    ]
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
