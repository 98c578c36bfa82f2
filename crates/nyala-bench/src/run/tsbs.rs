//! `tsbs`: load the cpu-only data set, then ask each type of query.

use super::session::Session;
use super::verification::verify;
use crate::cli::{DataArgs, TsbsArgs};
use crate::error::{BenchError, Result};
use crate::query::generator::QueryGenerator;
use crate::query::kind::{QueryKind, TSBS, TSBS_LAST_FIVE, parse_kinds};
use crate::report::result::RunResult;
use crate::server::Launch;
use crate::time::{Span, TSBS_START};
use crate::workload::cpu::{CpuConfig, CpuWorkload};

/// Runs the benchmark and gives its results.
pub fn run(args: &TsbsArgs, launch: Launch<'_>) -> Result<RunResult> {
    let config = config(&args.data)?;
    let kinds = kinds(&args.query.queries)?;
    let session = Session::open(&args.server, &args.load, launch)?;
    session.check_verify(&args.query)?;
    let mut result = super::new_result("tsbs", args.report.label.as_deref(), &session);
    result.parameters.splice(0..0, parameters(&args.data));
    if !args.query_only {
        session.prepare_database()?;
        let workload = CpuWorkload::new(config, args.load.batch_size as usize);
        let mut load = session.load("load", &workload, args.load.rate)?;
        session.settle(&mut load);
        result.loads.push(load);
    }
    if !args.load_only {
        let draw = |kind: &QueryKind| QueryGenerator::new(*kind, config.hosts, config.span, args.data.seed);
        if args.query.verify {
            let mut connection = session.connection();
            let found = verify(&kinds, draw, &config, &mut connection, &args.server.database)?;
            result.verification = Some(found);
        }
        result.queries = session.ask_kinds(&kinds, draw, &args.query, "")?;
    }
    Ok(result)
}

/// The types of queries that the option names.
pub(super) fn kinds(names: &str) -> Result<Vec<QueryKind>> {
    let known: Vec<QueryKind> = TSBS.into_iter().chain([TSBS_LAST_FIVE]).collect();
    parse_kinds(names, &known, TSBS.len()).map_err(BenchError::Invalid)
}

/// The data set that the options describe.
pub(super) fn config(args: &DataArgs) -> Result<CpuConfig> {
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

pub(super) fn parameters(args: &DataArgs) -> Vec<(String, String)> {
    vec![
        ("scale".to_owned(), args.scale.to_string()),
        ("duration".to_owned(), format!("{} s", args.duration)),
        ("interval".to_owned(), format!("{} s", args.interval)),
        ("seed".to_owned(), args.seed.to_string()),
    ]
}
