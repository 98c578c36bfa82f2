//! `compare`: shows several result files side by side, as a table and as a page.

use crate::cli::CompareArgs;
use crate::error::{BenchError, Result};
use crate::report::html;
use crate::report::result::{QueryResult, RESULT_VERSION, RunResult};
use crate::report::table::{align, bytes, count, milliseconds};
use std::io::Write;
use std::path::Path;

/// The longest result file accepted. A day of samples and some dozens of queries take a few MB.
const FILE_LIMIT_BYTES: u64 = 64 << 20;

/// Reads the files and shows them.
pub fn run(args: &CompareArgs) -> Result<()> {
    let runs = args.files.iter().map(|path| read(path)).collect::<Result<Vec<_>>>()?;
    let text = align(&rows(&runs));
    std::io::stdout().write_all(text.as_bytes()).map_err(BenchError::io("writing the results"))?;
    if let Some(path) = &args.html {
        std::fs::write(path, html::page(&runs))
            .map_err(BenchError::io(format!("writing {}", path.display())))?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<RunResult> {
    let context = || format!("reading {}", path.display());
    let length = std::fs::metadata(path).map_err(BenchError::io(context()))?.len();
    if length > FILE_LIMIT_BYTES {
        return Err(BenchError::Invalid(format!("{} is too long for a result file", path.display())));
    }
    let bytes = std::fs::read(path).map_err(BenchError::io(context()))?;
    let run: RunResult = serde_json::from_slice(&bytes)
        .map_err(|error| BenchError::Invalid(format!("{} is not a result file: {error}", path.display())))?;
    if run.version != RESULT_VERSION {
        let (has, version) = (run.version, RESULT_VERSION);
        return Err(BenchError::Invalid(format!(
            "{} is of version {has}, and this program reads version {version}",
            path.display()
        )));
    }
    Ok(run)
}

/// One line per measure, one column per run.
fn rows(runs: &[RunResult]) -> Vec<Vec<String>> {
    let mut rows =
        vec![std::iter::once(String::new()).chain(runs.iter().map(|run| run.label.clone())).collect()];
    let mut add = |title: String, value: &dyn Fn(&RunResult) -> Option<String>| {
        let cells: Vec<Option<String>> = runs.iter().map(value).collect();
        if cells.iter().any(Option::is_some) {
            let cells = cells.into_iter().map(|cell| cell.unwrap_or_else(|| "-".to_owned()));
            rows.push(std::iter::once(title).chain(cells).collect());
        }
    };
    add("load, values/s".to_owned(), &|run| Some(count(run.load()?.values_per_second)));
    add("load, server CPU-s per million values".to_owned(), &|run| {
        Some(format!("{:.4}", run.load()?.cpu_seconds_per_million_values()?))
    });
    add("disk bytes per value".to_owned(), &|run| {
        Some(format!("{:.3}", run.load()?.disk_bytes_per_value()?))
    });
    add("peak memory".to_owned(), &|run| Some(bytes(run.load()?.peak_resident_bytes? as f64)));
    let mut kinds: Vec<(&str, usize)> = Vec::new();
    for query in runs.iter().flat_map(|run| &run.queries) {
        if !kinds.contains(&(query.name.as_str(), query.workers)) {
            kinds.push((&query.name, query.workers));
        }
    }
    for (name, workers) in kinds {
        add(format!("{name} × {workers}, p99 ms · CPU ms · queries/s"), &|run| {
            let query = run.queries.iter().find(|query| query.name == name && query.workers == workers)?;
            Some(query_cell(query))
        });
    }
    rows
}

fn query_cell(query: &QueryResult) -> String {
    let or_dash = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), milliseconds);
    format!(
        "{} · {} · {}",
        or_dash(query.latency.as_ref().map(|latency| latency.p99_ms)),
        or_dash(query.server_cpu_ms_per_query),
        count(query.queries_per_second)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_not_results_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.json");
        assert!(matches!(read(&path), Err(BenchError::Io { .. })));
        for text in ["", "{}", "[1]"] {
            std::fs::write(&path, text).unwrap();
            assert!(matches!(read(&path), Err(BenchError::Invalid(_))), "{text}");
        }
    }
}
