//! Results of YCSB, as text and as a page: throughput and latency over time, side by side for several stores.

use super::html::STYLE;
use super::svg::{COLOURS, Line, Scale, escape, lines, put};
use super::table::{align, bytes, count, milliseconds};
use crate::measure::latency::LatencySummary;
use crate::workload::ycsb::ActionKind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a window is.
pub const WINDOW: Duration = Duration::from_secs(10);

/// What a phase did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct YcsbResult {
    /// `load` or the workload.
    pub phase: String,
    /// Actions, or rows when loading.
    pub actions: u64,
    /// How long it took.
    pub seconds: f64,
    /// CPU time of the process; if the store is in this process, its clients are included.
    pub cpu_seconds: f64,
    /// Bytes written to storage for each byte of rows that was written.
    pub write_amplification: Option<f64>,
    /// The maximum of resident memory so far.
    pub peak_resident_bytes: u64,
    /// Actions per second and 99th percentile of their latency in ms, by window.
    pub windows: Vec<(f64, f64)>,
    /// Latencies by kind of action.
    pub latencies: BTreeMap<ActionKind, LatencySummary>,
    /// Numbers of the store: how much they grew per action.
    pub statistics: Vec<(String, f64)>,
}

impl YcsbResult {
    /// Actions per second.
    pub fn rate(&self) -> f64 {
        self.actions as f64 / self.seconds
    }

    /// The slowest whole window as a part of the median.
    pub fn steadiness(&self) -> Option<f64> {
        let mut rates: Vec<f64> = self.windows.iter().map(|(rate, _)| *rate).collect();
        rates.sort_by(f64::total_cmp);
        Some(rates.first()? / rates.get(rates.len() / 2)?)
    }

    /// As lines of text.
    pub fn text(&self) -> String {
        let mut rows = vec![["", "count", "mean ms", "p50", "p99", "max"].map(str::to_owned).to_vec()];
        for (kind, latency) in &self.latencies {
            let times = [latency.mean_ms, latency.p50_ms, latency.p99_ms, latency.max_ms];
            let mut row = vec![kind.to_string(), count(latency.count as f64)];
            row.extend(times.map(milliseconds));
            rows.push(row);
        }
        let mut text = format!(
            "{}: {} actions/s, {:.1} µs of CPU each, {} resident at most",
            self.phase,
            count(self.rate()),
            self.cpu_seconds * 1e6 / self.actions as f64,
            bytes(self.peak_resident_bytes as f64)
        );
        if let Some(steadiness) = self.steadiness() {
            text.push_str(&format!(", slowest window {steadiness:.2} of the median"));
        }
        if let Some(amplification) = self.write_amplification {
            text.push_str(&format!(", {amplification:.1} bytes written per byte"));
        }
        text.push('\n');
        text.push_str(&align(&rows));
        for (name, value) in &self.statistics {
            text.push_str(&format!("  {name}: {value:.4} per action\n"));
        }
        text
    }
}

/// The page for the results of some stores, each with its name.
pub fn page(stores: &[(String, Vec<YcsbResult>)]) -> String {
    let mut html = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\">\
         <title>YCSB</title><style>{STYLE}</style><main><h1>YCSB</h1><p>"
    );
    for (number, (name, _)) in stores.iter().enumerate() {
        let (colour, name) = (number % COLOURS, escape(name));
        put(&mut html, format_args!("<span class=\"key c{colour}\"></span><b>{name}</b> "));
    }
    html.push_str("</p>");
    let phases = stores.first().map_or(&[][..], |(_, results)| results);
    for phase in phases {
        let of_phase: Vec<(usize, &YcsbResult)> = (stores.iter().enumerate())
            .filter_map(|(number, (_, results))| {
                Some((number, results.iter().find(|result| result.phase == phase.phase)?))
            })
            .collect();
        put(&mut html, format_args!("<h2>{}</h2>", escape(&phase.phase)));
        table(&mut html, stores, &of_phase);
        plots(&mut html, &of_phase);
    }
    html.push_str("</main></html>\n");
    html
}

fn table(html: &mut String, stores: &[(String, Vec<YcsbResult>)], results: &[(usize, &YcsbResult)]) {
    html.push_str(
        "<div class=wide><table><tr><th><th>per second<th>CPU µs<th>slowest window<th>written per byte\
         <th>kind<th>p50 ms<th>p99 ms<th>max ms",
    );
    for (number, result) in results {
        let optional = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.2}"));
        for (kind, latency) in &result.latencies {
            put(
                html,
                format_args!(
                    "<tr><td>{}<td>{}<td>{:.1}<td>{}<td>{}<td>{kind}<td>{}<td>{}<td>{}",
                    escape(&stores[*number].0),
                    count(result.rate()),
                    result.cpu_seconds * 1e6 / result.actions.max(1) as f64,
                    optional(result.steadiness()),
                    optional(result.write_amplification),
                    milliseconds(latency.p50_ms),
                    milliseconds(latency.p99_ms),
                    milliseconds(latency.max_ms),
                ),
            );
        }
    }
    html.push_str("</table></div>");
}

fn plots(html: &mut String, results: &[(usize, &YcsbResult)]) {
    let line = |of: fn(&(f64, f64)) -> f64| -> Vec<Line> {
        let points = |result: &YcsbResult| {
            let windows = result.windows.iter().enumerate();
            windows.map(|(at, window)| [(at + 1) as f64 * WINDOW.as_secs_f64(), of(window)]).collect()
        };
        results.iter().map(|(number, result)| Line { colour: *number, points: points(result) }).collect()
    };
    if results.iter().all(|(_, result)| result.windows.len() < 2) {
        return;
    }
    html.push_str("<div class=plots>");
    html.push_str(&lines(&line(|(rate, _)| *rate), "seconds", "actions per second", Scale::Linear, None));
    html.push_str(&lines(&line(|(_, p99)| *p99), "seconds", "p99, ms", Scale::Logarithmic, None));
    html.push_str("</div>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_are_escaped_and_lines_are_drawn() {
        let result = YcsbResult {
            phase: "a".to_owned(),
            actions: 10,
            seconds: 2.0,
            cpu_seconds: 1.0,
            write_amplification: None,
            peak_resident_bytes: 0,
            windows: vec![(5.0, 1.0), (6.0, 2.0)],
            latencies: BTreeMap::new(),
            statistics: Vec::new(),
        };
        let html = page(&[("<b>".to_owned(), vec![result])]);
        assert!(html.contains("&lt;b&gt;") && html.contains("<polyline"));
    }
}
