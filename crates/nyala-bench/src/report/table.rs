//! Results as aligned tables for the terminal.

use super::result::{LoadResult, QueryResult, RunResult};
use std::fmt::Write as _;

/// The whole run as text.
pub fn render(run: &RunResult) -> String {
    let mut text = String::new();
    for load in &run.loads {
        writeln!(text, "\nLoad: {}", load.phase).expect("a string takes any text");
        text.push_str(&align(&load_rows(load)));
    }
    for (heavy, title) in [(false, "Light queries"), (true, "Heavy queries")] {
        let queries: Vec<&QueryResult> = run.queries.iter().filter(|query| query.heavy == heavy).collect();
        if !queries.is_empty() {
            writeln!(text, "\n{title}").expect("a string takes any text");
            text.push_str(&align(&query_rows(&queries, heavy)));
        }
    }
    if let Some(found) = &run.verification {
        let (wrong, compared, values) = (found.wrong, found.compared, found.values);
        writeln!(text, "\nVerified: {compared} answers, {values} values, {wrong} wrong")
            .expect("a string takes any text");
        for difference in &found.differences {
            writeln!(text, "  {difference}").expect("a string takes any text");
        }
    }
    text
}

fn load_rows(load: &LoadResult) -> Vec<Vec<String>> {
    let mut rows = vec![
        vec!["values/s".to_owned(), count(load.values_per_second)],
        vec!["rows/s".to_owned(), count(load.rows_per_second)],
        vec!["values".to_owned(), format!("{} in {:.1} s", count(load.values as f64), load.seconds)],
    ];
    let mut add = |name: &str, value: Option<String>| {
        rows.extend(value.map(|value| vec![name.to_owned(), value]));
    };
    add("slowest second / median", load.steadiness().map(|v| format!("{v:.2}")));
    add("server CPU-s per million values", load.cpu_seconds_per_million_values().map(|v| format!("{v:.4}")));
    add(
        "server CPU-s",
        load.server_cpu_seconds.map(|loading| match load.settled_server_cpu_seconds {
            Some(settled) => format!("{loading:.2} while loading, {settled:.2} settled"),
            None => format!("{loading:.2}"),
        }),
    );
    add(
        "server CPU µs per new series",
        load.cpu_us_per_new_series()
            .map(|v| format!("{v:.2} ({} series)", count(load.new_series.unwrap_or(0) as f64))),
    );
    add("client CPU-s", load.client_cpu_seconds.map(|v| format!("{v:.2}")));
    add("server peak memory", load.peak_resident_bytes.map(|v| bytes(v as f64)));
    add("server memory at the end", load.resident_bytes.map(|v| bytes(v as f64)));
    add("disk", load.settled_disk_bytes.or(load.disk_bytes).map(|v| bytes(v as f64)));
    add("disk bytes per value", load.disk_bytes_per_value().map(|v| format!("{v:.3}")));
    add("written to storage", load.written_bytes.map(|v| bytes(v as f64)));
    add("write amplification", load.write_amplification().map(|v| format!("{v:.2}")));
    add(
        "input compressed by gzip",
        load.gzip_text_bytes
            .map(|v| format!("{}, {:.3} bytes per value", bytes(v as f64), v as f64 / load.values as f64)),
    );
    add("text", Some(format!("{}, {} sent", bytes(load.text_bytes as f64), bytes(load.sent_bytes as f64))));
    add(
        "request p50 / p99 / max ms",
        load.latency.as_ref().map(|latency| {
            format!(
                "{} / {} / {}",
                milliseconds(latency.p50_ms),
                milliseconds(latency.p99_ms),
                milliseconds(latency.max_ms)
            )
        }),
    );
    add("refused requests (503)", (load.refused_requests > 0).then(|| load.refused_requests.to_string()));
    rows
}

fn query_rows(queries: &[&QueryResult], heavy: bool) -> Vec<Vec<String>> {
    let rate = if heavy { "queries/min" } else { "queries/s" };
    let titles = [
        "query",
        "workers",
        "count",
        rate,
        "min ms",
        "mean",
        "p50",
        "p95",
        "p99",
        "max",
        "CPU ms/query",
        "KB/answer",
        "errors",
    ];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    for query in queries {
        let per = if heavy { 60.0 } else { 1.0 };
        let mut row = vec![
            query.name.clone(),
            query.workers.to_string(),
            query.count.to_string(),
            count(query.queries_per_second * per),
        ];
        match &query.latency {
            Some(latency) => row.extend(
                [
                    latency.min_ms,
                    latency.mean_ms,
                    latency.p50_ms,
                    latency.p95_ms,
                    latency.p99_ms,
                    latency.max_ms,
                ]
                .map(milliseconds),
            ),
            None => row.extend(["-"; 6].map(str::to_owned)),
        }
        row.push(query.server_cpu_ms_per_query.map_or_else(|| "-".to_owned(), milliseconds));
        row.push(format!("{:.1}", query.answer_bytes as f64 / 1000.0));
        row.push(if query.errors == 0 { String::new() } else { query.errors.to_string() });
        rows.push(row);
    }
    rows
}

/// Aligns the first column left and the others right; in a table of two columns, both left.
pub fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::from(" ");
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            if column == 0 || columns == 2 {
                write!(line, " {cell:<width$} ").expect("a string takes any text");
            } else {
                write!(line, " {cell:>width$} ").expect("a string takes any text");
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// `12.3 M`, `45.6 k`, `789`.
pub fn count(value: f64) -> String {
    match value {
        v if v >= 1e9 => format!("{:.2} G", v / 1e9),
        v if v >= 1e6 => format!("{:.2} M", v / 1e6),
        v if v >= 1e4 => format!("{:.1} k", v / 1e3),
        v if v >= 100.0 || v.fract() == 0.0 => format!("{v:.0}"),
        v => format!("{v:.1}"),
    }
}

/// `1.23 GB` and so on, powers of ten.
pub fn bytes(value: f64) -> String {
    match value {
        v if v >= 1e9 => format!("{:.2} GB", v / 1e9),
        v if v >= 1e6 => format!("{:.1} MB", v / 1e6),
        v if v >= 1e3 => format!("{:.1} kB", v / 1e3),
        v => format!("{v:.0} B"),
    }
}

/// Milliseconds with three significant digits.
pub fn milliseconds(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v if v >= 1.0 => format!("{v:.2}"),
        v => format!("{v:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows =
            [["query", "n", "ms"], ["lastpoint", "1000", "0.2"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(align(&rows), "  query         n   ms\n  lastpoint  1000  0.2\n");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            (count(345_600_000.0), count(12_340.0), count(7.0)),
            ("345.60 M".into(), "12.3 k".into(), "7".into())
        );
        assert_eq!((bytes(1.5e9), bytes(12.0)), ("1.50 GB".into(), "12 B".into()));
        assert_eq!((milliseconds(0.1234), milliseconds(12.34)), ("0.123".into(), "12.3".into()));
    }
}
