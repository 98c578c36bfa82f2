//! `mixed`: runs queries alone, then again while rows are written at a set rate.
//!
//! The base data is loaded at full speed, which also gives the rate for later. The rows that are written during queries
//! continue the base data. All queries read the base data, so that both runs have the same answers.

use super::load::load;
use super::session::Session;
use crate::cli::MixedArgs;
use crate::error::Result;
use crate::query::generator::QueryGenerator;
use crate::query::kind::QueryKind;
use crate::report::result::{QueryResult, RunResult};
use crate::server::Launch;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Runs the benchmark and returns its results.
pub fn run(args: &MixedArgs, launch: Launch<'_>) -> Result<RunResult> {
    let base = super::tsbs::config(&args.data)?;
    let kinds = super::tsbs::kinds(&args.common.query.queries)?;
    let session = Session::open(&args.common, launch)?;
    let mut result = super::new_result("mixed", &session);
    result.parameters.splice(0..0, super::tsbs::parameters(&args.data));
    session.prepare_database()?;

    let workload = super::tsbs::continued_workload(&base, args.common.load.batch_size as usize);
    let mut loaded = session.load("base", &workload, None)?;
    session.settle(&mut loaded);
    let rate = match (args.full_speed, args.common.load.rate) {
        (true, _) => None,
        (false, Some(rate)) => Some(rate),
        (false, None) => Some(loaded.rows_per_second * args.load_share),
    };
    let rate_text = rate.map_or_else(|| "none".to_owned(), |rate| format!("{rate:.0} rows/s"));
    result.parameters.push(("limit during queries".to_owned(), rate_text));
    result.loads.push(loaded);

    let draw = |kind: &QueryKind| QueryGenerator::new(*kind, base.hosts, base.span, args.data.seed);
    result.queries = session.run_kinds(&kinds, draw, "")?;
    workload.end_at(u64::MAX);
    let settings = session.load_settings(rate);
    let stop = AtomicBool::new(false);
    let (loaded, queried) = std::thread::scope(|scope| {
        let probe = &session.server.probe;
        let writer = scope.spawn(|| load(&workload, &settings, probe, &stop, None));
        let queried = session.run_kinds(&kinds, draw, " while loading");
        stop.store(true, Relaxed);
        (writer.join().expect("loading does not panic"), queried)
    });
    let mut loaded = loaded?;
    "during queries".clone_into(&mut loaded.phase);
    result.loads.push(loaded);
    // The server's CPU time is that of writes and queries together, which cannot be separated.
    let queried = queried?.into_iter().map(|query| QueryResult { server_cpu_ms_per_query: None, ..query });
    result.queries.extend(queried);
    Ok(result)
}
