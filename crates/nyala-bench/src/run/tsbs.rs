//! `tsbs`: loads the cpu-only data set, then runs each type of query.

use super::queries::QueryName;
use super::question::Question;
use super::session::Session;
use super::verification::verify;
use crate::cli::{DataArgs, TsbsArgs};
use crate::client::dialect::Dialect;
use crate::error::{BenchError, Result};
use crate::query::file::read_queries;
use crate::query::generator::QueryGenerator;
use crate::query::kind::{QueryKind, TSBS, TSBS_LAST_FIVE, parse_kinds};
use crate::report::result::{LoadResult, QueryResult, RunResult};
use crate::server::Launch;
use crate::time::{DAY_SECONDS, Span, TSBS_START};
use crate::workload::cpu::CpuWorkload;
use crate::workload::cpu::model::HostsConfig;
use crate::workload::file::FileWorkload;
use std::path::Path;

/// The length of the data for writing after a load: longer than any run.
const CONTINUATION_SECONDS: i64 = 365 * DAY_SECONDS;

/// Runs the benchmark and returns its results.
pub fn run(args: &TsbsArgs, launch: Launch<'_>) -> Result<RunResult> {
    let config = config(&args.data)?;
    let kinds = kinds(&args.common.query.queries)?;
    let session = Session::open(&args.common, launch)?;
    session.check_verify()?;
    let mut result = super::new_result("tsbs", &session);
    result.parameters.splice(0..0, parameters(&args.data));
    if !args.query_only {
        session.prepare_database()?;
        let batch_rows = args.common.load.batch_size as usize;
        let mut load = match &args.data_file {
            Some(path) => load_file(path, batch_rows, &session, args)?,
            None => session.load("load", &CpuWorkload::new(config, batch_rows), args.common.load.rate)?,
        };
        session.settle(&mut load);
        result.loads.push(load);
    }
    if !args.query_file.is_empty() {
        result.queries = run_query_files(&session, args)?;
    } else if !args.load_only {
        let draw = |kind: &QueryKind| QueryGenerator::new(*kind, config.hosts, config.span, args.data.seed);
        if args.common.query.verify {
            let found = verify(&kinds, draw, &config, &session)?;
            result.verification = Some(found);
        }
        result.queries = session.run_kinds(&kinds, draw, "")?;
    }
    Ok(result)
}

fn load_file(path: &Path, batch_rows: usize, session: &Session<'_>, args: &TsbsArgs) -> Result<LoadResult> {
    let workload = FileWorkload::open(path, batch_rows)?;
    let loaded = session.load("load", &workload, args.common.load.rate)?;
    match workload.failure() {
        Some(source) => Err(BenchError::Io { context: format!("reading {}", path.display()), source }),
        None => Ok(loaded),
    }
}

/// Runs the queries of files, those with the same label together.
fn run_query_files(session: &Session<'_>, args: &TsbsArgs) -> Result<Vec<QueryResult>> {
    let suffix = match args.common.server.dialect {
        Dialect::Influx => format!("&db={}", args.common.server.database),
        Dialect::Victoriametrics => String::new(),
    };
    let mut by_label: Vec<(String, Vec<Question>)> = Vec::new();
    for path in &args.query_file {
        for query in read_queries(path, &suffix)? {
            match by_label.iter_mut().find(|(label, _)| *label == query.label) {
                Some((_, questions)) => questions.push(Question::Http(query.request)),
                None => by_label.push((query.label, vec![Question::Http(query.request)])),
            }
        }
    }
    let mut results = Vec::new();
    for (label, questions) in by_label {
        let name = QueryName { name: label, heavy: false };
        for workers in session.worker_counts(false) {
            results.push(session.run_queries(&name, &questions, workers)?);
        }
    }
    Ok(results)
}

/// The types of queries that `--queries` names.
pub(super) fn kinds(names: &str) -> Result<Vec<QueryKind>> {
    let known: Vec<QueryKind> = TSBS.into_iter().chain([TSBS_LAST_FIVE]).collect();
    parse_kinds(names, &known, TSBS.len()).map_err(BenchError::Invalid)
}

/// The data set of the options.
pub(super) fn config(args: &DataArgs) -> Result<HostsConfig> {
    Ok(HostsConfig {
        hosts: u64::from(args.scale),
        span: super::data_span(TSBS_START, args.duration, args.interval)?,
        interval_seconds: args.interval,
        seed: args.seed,
    })
}

/// The rows of a configuration, and behind them more to write while something else is measured: `end_at` says how far.
pub(super) fn continued_workload(base: &HostsConfig, batch_size: usize) -> CpuWorkload {
    let end = base.span.end + CONTINUATION_SECONDS / base.interval_seconds * base.interval_seconds;
    let workload = CpuWorkload::new(HostsConfig { span: Span { end, ..base.span }, ..*base }, batch_size);
    workload.end_at(base.reports());
    workload
}

pub(super) fn parameters(args: &DataArgs) -> Vec<(String, String)> {
    super::data_parameters("scale", args.scale, args.duration, args.interval, args.seed)
}
