//! `tsbs`: load the cpu-only data set, then ask each type of query.

use super::load::{LoadSettings, load, settle};
use super::queries::{QuerySettings, ask};
use super::verification::verify;
use crate::cli::{LoadArgs, QueryArgs, ServerArgs, TsbsArgs};
use crate::client::connection::Connection;
use crate::client::target::{Dialect, prepare_database};
use crate::error::{BenchError, Result};
use crate::query::generator::QueryGenerator;
use crate::query::kind::{QueryKind, TSBS, TSBS_LAST_FIVE, parse_kinds};
use crate::query::text::{Request, request};
use crate::report::progress::Progress;
use crate::report::result::{LoadResult, QueryResult, RunResult};
use crate::report::table;
use crate::server::{Launch, Server};
use crate::time::{Span, TSBS_START};
use crate::workload::Workload;
use crate::workload::cpu::{CpuConfig, CpuWorkload};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Runs the benchmark and gives its results.
pub fn run(args: &TsbsArgs, launch: Launch<'_>) -> Result<RunResult> {
    let config = config(args)?;
    if args.query.verify && args.server.dialect != Dialect::Influx {
        return Err(BenchError::Invalid("--verify knows the answers to InfluxQL only".to_owned()));
    }
    let known: Vec<QueryKind> = TSBS.into_iter().chain([TSBS_LAST_FIVE]).collect();
    let kinds = parse_kinds(&args.query.queries, &known, TSBS.len()).map_err(BenchError::Invalid)?;
    let server = find_server(&args.server, launch)?;
    let mut result = super::new_result("tsbs", args.report.label.as_deref(), &server);
    result.parameters = vec![
        ("scale".to_owned(), args.scale.to_string()),
        ("duration".to_owned(), format!("{} s", args.duration)),
        ("interval".to_owned(), format!("{} s", args.interval)),
        ("seed".to_owned(), args.seed.to_string()),
        ("batch size".to_owned(), args.load.batch_size.to_string()),
        ("gzip".to_owned(), args.load.gzip.to_string()),
        ("dialect".to_owned(), args.server.dialect.name().to_owned()),
    ];
    if !args.query_only {
        let workload = CpuWorkload::new(config, args.load.batch_size as usize);
        result.load = Some(load_and_settle(&workload, &server, &args.server, &args.load)?);
    }
    if !args.load_only {
        let draw = |kind: &QueryKind| QueryGenerator::new(*kind, config.hosts, config.span, args.seed);
        if args.query.verify {
            let mut connection = connection(&server, &args.server);
            let found = verify(&kinds, draw, &config, &mut connection, &args.server.database)?;
            result.verification = Some(found);
        }
        result.queries = ask_all(&kinds, draw, &server, &args.server, &args.query)?;
    }
    Ok(result)
}

/// A connection for statements and single queries.
pub(super) fn connection(server: &Server, args: &ServerArgs) -> Connection {
    Connection::new(&server.target, Duration::from_secs(args.timeout as u64))
}

fn config(args: &TsbsArgs) -> Result<CpuConfig> {
    if args.duration % args.interval != 0 {
        return Err(BenchError::Invalid("the duration has to be a multiple of the interval".to_owned()));
    }
    Ok(CpuConfig {
        hosts: u64::from(args.scale),
        span: Span { start: TSBS_START, end: TSBS_START + args.duration },
        interval_seconds: args.interval,
        seed: args.seed,
    })
}

/// The server that the options name, or a new one.
pub(super) fn find_server(args: &ServerArgs, launch: Launch<'_>) -> Result<Server> {
    Server::find(args.target.as_deref(), args.server_pid, args.server_data_dir.clone(), launch)
}

/// Prepares the database, loads, waits until the server is idle.
pub(super) fn load_and_settle<W: Workload>(
    workload: &W,
    server: &Server,
    args: &ServerArgs,
    load_args: &LoadArgs,
) -> Result<LoadResult> {
    let settings = load_settings(server, args, load_args);
    if args.dialect == Dialect::Influx {
        let mut connection = connection(server, args);
        prepare_database(&mut connection, &args.database, args.overwrite || server.fresh)?;
    }
    let mut progress = Progress::start("load");
    let stop = AtomicBool::new(false);
    let mut result = load(workload, &settings, &server.probe, &stop, Some(&mut progress))?;
    let (rows, rate) = (table::count(result.rows as f64), table::count(result.values_per_second));
    progress.finish(&format!("{rows} rows in {:.1} s, {rate} values/s", result.seconds));
    settle(&mut result, &server.probe, Duration::from_secs(load_args.settle as u64));
    Ok(result)
}

/// Settings of a load from the options.
pub(super) fn load_settings(server: &Server, args: &ServerArgs, load: &LoadArgs) -> LoadSettings {
    LoadSettings {
        target: server.target.clone(),
        dialect: args.dialect,
        database: args.database.clone(),
        workers: load.workers.map_or_else(super::cores, usize::from),
        gzip: load.gzip,
        rows_per_second: load.rate,
        timeout: Duration::from_secs(args.timeout as u64),
        time_limit: Duration::from_secs(load.load_limit as u64),
    }
}

/// Asks every type at every number of workers.
pub(super) fn ask_all(
    kinds: &[QueryKind],
    generator: impl Fn(&QueryKind) -> QueryGenerator,
    server: &Server,
    args: &ServerArgs,
    query_args: &QueryArgs,
) -> Result<Vec<QueryResult>> {
    let mut results = Vec::new();
    for kind in kinds {
        let count = if kind.heavy { query_args.heavy_count } else { query_args.query_count };
        let requests = requests(generator(kind), count, args);
        if requests.is_empty() {
            Progress::start(kind.name).finish(&format!("cannot be said in {}", args.dialect.name()));
            continue;
        }
        for workers in worker_counts(kind, query_args) {
            let settings = QuerySettings {
                target: server.target.clone(),
                workers,
                timeout: Duration::from_secs(args.timeout as u64),
                time_limit: Duration::from_secs(query_args.query_limit as u64),
            };
            results.push(ask(kind, &requests, &settings, &server.probe)?);
        }
    }
    Ok(results)
}

fn requests(mut generator: QueryGenerator, count: u32, args: &ServerArgs) -> Vec<Request> {
    (0..count).map_while(|_| request(&generator.draw(), args.dialect, &args.database)).collect()
}

fn worker_counts(kind: &QueryKind, args: &QueryArgs) -> Vec<usize> {
    if kind.heavy {
        return vec![usize::from(args.heavy_workers)];
    }
    if args.query_workers.is_empty() {
        return vec![super::cores(), 2 * super::cores()];
    }
    args.query_workers.iter().map(|&workers| usize::from(workers)).collect()
}
