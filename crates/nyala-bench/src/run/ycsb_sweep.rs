//! `ycsb`: loads and workloads on one server, or on several that were started with other settings, one after the other.

use super::new_machine;
use super::ycsb::{Ycsb, YcsbOptions};
use super::ycsb_sql::SqlTable;
use crate::cli::{Setting, YcsbArgs};
use crate::client::database::prepare_database;
use crate::error::{BenchError, Result};
use crate::report::ycsb::{YCSB_REPORT_VERSION, YcsbReport, YcsbResult, YcsbRun};
use crate::report::ycsb_page::page;
use crate::server::{Launch, Server};
use nyala_client::Connection;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The most parameters of a statement: the protocol counts them in 16 bits.
const PARAMETERS_MAX: u64 = 65_535;
/// More lines in a plot cannot be told apart.
const VARIANTS_MAX: usize = 16;

/// A run: how it loads, and the settings of its server.
#[derive(Clone, Debug, PartialEq)]
struct Variant {
    batch: u64,
    settings: Vec<(String, String)>,
    /// What of that other runs have otherwise; empty if there is one run.
    name: String,
}

/// Runs the benchmark. Writes progress to standard error and results to standard output and the files of the options, after
/// each run: a sweep takes long.
pub fn run(args: &YcsbArgs, launch: Launch<'_>) -> Result<()> {
    check(args)?;
    let variants = variants(&args.batch, &args.sweep)?;
    let mut beside = Vec::new();
    for path in &args.beside {
        beside.extend(read_report(path)?.runs);
    }
    let mut report = YcsbReport {
        version: YCSB_REPORT_VERSION,
        benchmark: "ycsb".to_owned(),
        started_at: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        machine: new_machine(),
        parameters: parameters(args),
        runs: Vec::new(),
    };
    for variant in &variants {
        let run = run_variant(args, variant, launch)?;
        report.runs.push(run);
        publish(args, &report, &beside)?;
    }
    Ok(())
}

fn check(args: &YcsbArgs) -> Result<()> {
    let largest = args.batch.iter().copied().max().unwrap_or(1);
    if largest * (u64::from(args.fields) + 1) > PARAMETERS_MAX {
        return Err(BenchError::Invalid(format!(
            "an INSERT of {largest} rows with a key and {} fields has more than {PARAMETERS_MAX} values: make --batch smaller",
            args.fields
        )));
    }
    if args.query_only && args.batch.len() > 1 {
        return Err(BenchError::Invalid("--query-only loads nothing: give one --batch".to_owned()));
    }
    Ok(())
}

/// All combinations.
fn variants(batches: &[u64], sweep: &[Setting]) -> Result<Vec<Variant>> {
    let mut variants: Vec<Variant> = batches
        .iter()
        .map(|batch| Variant {
            batch: *batch,
            settings: Vec::new(),
            name: if batches.len() > 1 { format!("batch {batch}") } else { String::new() },
        })
        .collect();
    for Setting { name, values } in sweep {
        let with = |variant: &Variant, value: &String| {
            let mut next = variant.clone();
            next.settings.push((name.clone(), value.clone()));
            if values.len() > 1 {
                let separator = if next.name.is_empty() { "" } else { ", " };
                next.name.push_str(&format!("{separator}{name} {value}"));
            }
            next
        };
        variants = variants
            .iter()
            .flat_map(|variant| values.iter().map(move |value| with(variant, value)))
            .collect();
        if variants.len() > VARIANTS_MAX {
            return Err(BenchError::Invalid(format!(
                "--batch and --sweep make more than {VARIANTS_MAX} runs: name fewer values"
            )));
        }
    }
    Ok(variants)
}

/// Loads and runs workloads on the server of the options, or on one that is started for it and stopped then.
fn run_variant(args: &YcsbArgs, variant: &Variant, launch: Launch<'_>) -> Result<YcsbRun> {
    let settings = [&args.set[..], &variant.settings].concat();
    let server = Server::with_settings(&args.server, &settings, launch)?;
    let address = server.postgres.clone();
    let address = address
        .ok_or_else(|| BenchError::Invalid("ycsb needs --postgres HOST:PORT of the target".to_owned()))?;
    let table = SqlTable::of(args, &server, address, variant.batch);
    if server.fresh {
        let timeout = Duration::from_secs(args.server.timeout as u64);
        // A new server has old data if its store is elsewhere.
        let overwrite = args.server.overwrite || !is_elsewhere(&settings);
        prepare_database(&mut Connection::new(&server.target, timeout), &args.server.database, overwrite)?;
    }
    if !args.query_only {
        // Of several runs on one target, each begins anew.
        table.create(args.server.overwrite || server.fresh)?;
    }
    let options = YcsbOptions {
        shape: table.shape,
        rows: args.rows,
        batch: variant.batch,
        threads: args.threads,
        seconds: args.seconds as u64,
        popularity: args.requests,
    };
    let ycsb = Ycsb::new(&table, options);
    let label = args.report.label.clone().unwrap_or_else(|| server.default_label());
    let name = match (variant.name.is_empty(), args.report.label.is_some() || !server.fresh) {
        (true, _) => label,
        (false, true) => format!("{label}: {}", variant.name),
        (false, false) => variant.name.clone(),
    };
    if !variant.name.is_empty() {
        super::print(&format!("{name}\n"))?;
    }
    let mut results = Vec::new();
    let mut progress = std::io::stderr();
    let mut done = |result: std::result::Result<YcsbResult, String>| -> Result<()> {
        let result = result.map_err(BenchError::Protocol)?;
        super::print(&result.text())?;
        results.push(result);
        Ok(())
    };
    match args.query_only {
        true => ycsb.assume_loaded(),
        false => done(ycsb.load(&mut progress))?,
    }
    for workload in &args.workloads {
        done(ycsb.run_workload(*workload, &mut progress))?;
    }
    Ok(YcsbRun { name, results })
}

/// Whether data may be kept elsewhere than in the directory of a server.
fn is_elsewhere(settings: &[(String, String)]) -> bool {
    settings.iter().any(|(name, value)| name == "store" && value != "embedded")
}

fn parameters(args: &YcsbArgs) -> Vec<(String, String)> {
    let requests = args
        .requests
        .map_or_else(|| "as the workloads say".to_owned(), |own| format!("{own:?}").to_lowercase());
    let mut parameters = vec![
        ("rows".to_owned(), args.rows.to_string()),
        ("fields".to_owned(), format!("{} of {} bytes", args.fields, args.field_bytes)),
        ("keys".to_owned(), if args.ordered { "in order" } else { "hashed" }.to_owned()),
        ("rows an INSERT".to_owned(), args.batch.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")),
        ("sessions".to_owned(), args.threads.to_string()),
        ("requests".to_owned(), requests),
        ("seed".to_owned(), args.seed.to_string()),
    ];
    parameters.extend(args.set.iter().cloned());
    let fixed = args.sweep.iter().filter(|setting| setting.values.len() == 1);
    parameters.extend(fixed.map(|setting| (setting.name.clone(), setting.values[0].clone())));
    parameters
}

fn publish(args: &YcsbArgs, report: &YcsbReport, beside: &[YcsbRun]) -> Result<()> {
    if let Some(path) = &args.report.json {
        let json = serde_json::to_vec_pretty(report).expect("results have no keys but strings");
        std::fs::write(path, json).map_err(BenchError::io(format!("writing {}", path.display())))?;
    }
    if let Some(path) = &args.report.html {
        let stores: Vec<_> =
            report.runs.iter().chain(beside).map(|run| (run.name.clone(), run.results.clone())).collect();
        let html = page(&introduction(report), &stores);
        std::fs::write(path, html).map_err(BenchError::io(format!("writing {}", path.display())))?;
    }
    Ok(())
}

fn introduction(report: &YcsbReport) -> String {
    let parameters: Vec<String> =
        report.parameters.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let machine = &report.machine;
    format!(
        "{} cores, {}, {} · {} · {}",
        machine.cores,
        machine.processor,
        crate::report::table::bytes(machine.memory_bytes as f64),
        crate::time::rfc3339(i64::try_from(report.started_at).unwrap_or(0)),
        parameters.join(", ")
    )
}

fn read_report(path: &Path) -> Result<YcsbReport> {
    let invalid = |reason: String| BenchError::Invalid(format!("{}: {reason}", path.display()));
    let text = std::fs::read(path).map_err(BenchError::io(format!("reading {}", path.display())))?;
    let report: YcsbReport = serde_json::from_slice(&text)
        .map_err(|error| invalid(format!("not a file that nyala bench ycsb --json wrote: {error}")))?;
    if report.version != YCSB_REPORT_VERSION {
        return Err(invalid(format!("version {} instead of {YCSB_REPORT_VERSION}", report.version)));
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_combined_and_named_by_what_differs() {
        let setting = |name: &str, values: &[&str]| Setting {
            name: name.to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        let sweep = [setting("wal-limit", &["8MiB", "1GiB"]), setting("encoding", &["size"])];
        let found = variants(&[1, 100], &sweep).unwrap();
        let names: Vec<&str> = found.iter().map(|variant| variant.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "batch 1, wal-limit 8MiB",
                "batch 1, wal-limit 1GiB",
                "batch 100, wal-limit 8MiB",
                "batch 100, wal-limit 1GiB"
            ]
        );
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(found[3].settings, [pair("wal-limit", "1GiB"), pair("encoding", "size")]);
        assert_eq!(variants(&[7], &[]).unwrap()[0].name, "");
        let many: Vec<&str> = vec!["1"; VARIANTS_MAX + 1];
        assert!(variants(&[7], &[setting("maintenance-threads", &many)]).is_err());
    }
}
