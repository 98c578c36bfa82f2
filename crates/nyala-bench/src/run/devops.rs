//! `devops`: influxdb-comparisons as Akumuli ran it. Loads with one writer and with several, then runs the four queries
//! with cold and with warm caches, and compares the size on disk with that of the gzipped input.

use super::load::LoadSettings;
use super::queries::QueryName;
use super::question::Question;
use super::session::Session;
use super::verification::verify;
use crate::cli::DevopsArgs;
use crate::error::{BenchError, Result};
use crate::query::generator::QueryGenerator;
use crate::query::kind::{DEVOPS, QueryKind, parse_kinds};
use crate::report::progress::Progress;
use crate::report::result::RunResult;
use crate::server::Launch;
use crate::workload::Workload;
use crate::workload::cpu::model::HostsConfig;
use crate::workload::devops::{DEVOPS_START, DevopsBatch, DevopsModel, DevopsWorkload};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

/// The number of batches from which the size of the compressed input is estimated.
const GZIP_SAMPLES: u64 = 8;

/// Runs the benchmark and returns its results.
pub fn run(args: &DevopsArgs, launch: Launch<'_>) -> Result<RunResult> {
    let config = config(args)?;
    let kinds =
        parse_kinds(&args.common.query.queries, &DEVOPS, DEVOPS.len()).map_err(BenchError::Invalid)?;
    let mut session = Session::open(&args.common, launch)?;
    session.check_verify()?;
    let mut result = super::new_result("devops", &session);
    let parameters = super::data_parameters("scale", args.scale, args.duration, args.interval, args.seed);
    result.parameters.splice(0..0, parameters);

    let gzip_share = gzip_share(config, args.common.load.batch_size as usize)?;
    for (number, writers) in writers(args).into_iter().enumerate() {
        session.replace_database(args.common.server.overwrite || session.server.fresh || number > 0)?;
        let workload = DevopsWorkload::new(config, args.common.load.batch_size as usize);
        let settings = LoadSettings { workers: writers, ..session.load_settings(args.common.load.rate) };
        let phase = if writers == 1 { "1 writer".to_owned() } else { format!("{writers} writers") };
        let mut load = session.load_with(&phase, &workload, &settings)?;
        session.settle(&mut load);
        load.gzip_text_bytes = Some((load.text_bytes as f64 * gzip_share) as u64);
        result.loads.push(load);
    }

    let draw = |kind: &QueryKind| QueryGenerator::new(*kind, config.hosts, config.span, args.seed);
    let languages: Vec<_> = session.languages().collect();
    for (kind, (language, in_language)) in
        kinds.iter().flat_map(|kind| languages.iter().map(move |language| (kind, *language)))
    {
        let mut generator = draw(kind);
        let questions: Vec<Question> = (0..args.common.query.query_count)
            .map_while(|_| session.question(&generator.draw(), language))
            .collect();
        let name = |caches: &str| QueryName {
            name: format!("{}{in_language}{caches}", kind.name),
            heavy: kind.heavy,
        };
        if session.server.drop_caches()? {
            result.queries.push(session.run_queries(&name(" cold"), &questions, 1)?);
        }
        for workers in session.worker_counts(kind.heavy) {
            result.queries.push(session.run_queries(&name(" warm"), &questions, workers)?);
        }
    }
    if args.common.query.verify {
        let found = verify(&kinds, draw, &DevopsModel(config), &session)?;
        result.verification = Some(found);
    }
    Ok(result)
}

fn config(args: &DevopsArgs) -> Result<HostsConfig> {
    Ok(HostsConfig {
        hosts: u64::from(args.scale),
        span: super::data_span(DEVOPS_START, args.duration, args.interval)?,
        interval_seconds: args.interval,
        seed: args.seed,
    })
}

fn writers(args: &DevopsArgs) -> Vec<usize> {
    if let Some(workers) = args.common.load.workers {
        return vec![usize::from(workers)];
    }
    if args.writers.is_empty() {
        return vec![1, super::cores()];
    }
    args.writers.iter().map(|&writers| usize::from(writers)).collect()
}

/// The size of the gzipped input relative to its text, at gzip's default level, estimated from some batches.
fn gzip_share(config: HostsConfig, batch_rows: usize) -> Result<f64> {
    let mut progress = Progress::start("gzip of the input");
    let workload = DevopsWorkload::new(config, batch_rows);
    let all_rows = workload.total_rows().expect("the number is known");
    let every = (all_rows / batch_rows as u64 / GZIP_SAMPLES).max(1);
    let (mut batch, mut text) = (DevopsBatch::default(), Vec::new());
    let (mut number, mut rows, mut text_bytes, mut gzip_bytes) = (0, 0, 0, 0);
    while let Some(size) = workload.claim(&mut batch) {
        rows += size.rows;
        if number % every == 0 {
            workload.write(&batch, &mut text);
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            let compressed = encoder.write_all(&text).and_then(|()| encoder.finish());
            gzip_bytes += compressed.map_err(BenchError::io("compressing a sample"))?.len();
            text_bytes += text.len();
        }
        number += 1;
        progress.update(rows as f64 / all_rows as f64, String::new);
    }
    let share = gzip_bytes as f64 / text_bytes.max(1) as f64;
    progress.finish(&format!("{:.1} % of it", share * 100.0));
    Ok(share)
}
