//! Results as one self-contained page: tables, throughput over time, latency distributions, and bars side by side for
//! several runs.

use super::result::{LoadResult, QueryResult, RunResult};
use super::svg::{Bar, COLOURS, Line, Mark, Scale, bars, escape, lines, put};
use super::table::{bytes, count, milliseconds};
use crate::time::rfc3339;

/// The page for `runs`, in the order given.
pub fn page(runs: &[RunResult]) -> String {
    let mut names: Vec<&str> = runs.iter().map(|run| run.benchmark.as_str()).collect();
    names.dedup();
    let title = format!("Benchmark {}", names.join(", "));
    let mut html = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\">\
         <title>{0}</title><style>{STYLE}</style><main><h1>{0}</h1>",
        escape(&title)
    );
    html.push_str(&introduction(runs));
    html.push_str(&load_section(runs));
    html.push_str(&query_section(runs));
    html.push_str("</main></html>\n");
    html
}

pub(super) const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1b1f24;--dim:#667;--paper:#fff;--rule:#d8dce2}\
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ee;--dim:#9aa4b2;--paper:#14171b;--rule:#333a44}}\
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif}\
main{max-width:1080px;margin:0 auto;padding:24px}h1{font-size:24px}h2{margin-top:40px;font-size:19px}\
h3{font-size:15px;margin:24px 0 4px}table{border-collapse:collapse;font-size:14px}\
.wide{overflow-x:auto}td,th{padding:3px 12px 3px 0;text-align:right;border-bottom:1px solid var(--rule);\
white-space:nowrap;font-variant-numeric:tabular-nums}td:first-child,th:first-child{text-align:left}\
th{font-weight:600}.key{display:inline-block;width:12px;height:12px;margin-right:6px;vertical-align:-1px}\
svg{width:100%;max-width:720px;display:block}svg text{font-size:11px;fill:var(--ink)}\
svg .title{fill:var(--dim)}.grid{stroke:var(--rule)}.line{fill:none;stroke-width:1.6}\
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(420px,1fr));gap:8px 28px}\
.dim{color:var(--dim)}.wrong{color:#d33}\
.c0{--c:#3273dc}.c1{--c:#e07b1f}.c2{--c:#2f9e62}.c3{--c:#c0392b}.c4{--c:#8e5bd0}.c5{--c:#9c7a3c}\
.c6{--c:#d5629f}.c7{--c:#4aa6b5}.key{background:var(--c)}.line{stroke:var(--c)}.bar{fill:var(--c)}\
.line.dashed{stroke-dasharray:5 3}.key.dashed{background:repeating-linear-gradient(90deg,var(--c) 0 4px,transparent 4px 6px)}";

fn introduction(runs: &[RunResult]) -> String {
    let mut html = String::new();
    for (number, run) in runs.iter().enumerate() {
        let parameters: Vec<String> =
            run.parameters.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let machine = &run.machine;
        put(
            &mut html,
            format_args!(
                "<p><span class=\"key c{}\"></span><b>{}</b> <span class=dim>{} · {} cores, {}, {} · {} · {}</span></p>",
                number % COLOURS,
                escape(&run.label),
                escape(&run.benchmark),
                machine.cores,
                escape(&machine.processor),
                bytes(machine.memory_bytes as f64),
                rfc3339(i64::try_from(run.started_at).unwrap_or(0)),
                escape(&parameters.join(", ")),
            ),
        );
        if let Some(found) = &run.verification {
            let class = if found.wrong > 0 { "wrong" } else { "dim" };
            let (compared, values, wrong) = (found.compared, found.values, found.wrong);
            put(
                &mut html,
                format_args!(
                    "<p class={class}>{compared} answers with {values} values compared with computed ones, {wrong} wrong.</p>"
                ),
            );
        }
    }
    html
}

/// A row of the load's table: its title, its value, and how to format the value.
type Measure = (&'static str, fn(&LoadResult) -> Option<f64>, fn(f64) -> String);

const LOAD_MEASURES: [Measure; 9] = [
    ("values per second", |load| Some(load.values_per_second), count),
    ("server CPU s per million values", LoadResult::cpu_seconds_per_million_values, |v| format!("{v:.4}")),
    ("disk bytes per value", LoadResult::disk_bytes_per_value, |v| format!("{v:.3}")),
    ("server peak memory", |load| Some(load.peak_resident_bytes? as f64), bytes),
    ("write amplification", LoadResult::write_amplification, |v| format!("{v:.2}")),
    ("request p99 ms", |load| Some(load.latency.as_ref()?.p99_ms), milliseconds),
    ("slowest second / median", LoadResult::steadiness, |v| format!("{v:.2}")),
    ("values", |load| Some(load.values as f64), count),
    ("seconds", |load| Some(load.seconds), |v| format!("{v:.1}")),
];

fn load_section(runs: &[RunResult]) -> String {
    let loads: Vec<(usize, &LoadResult)> =
        runs.iter().enumerate().filter_map(|(number, run)| Some((number, run.load()?))).collect();
    if loads.is_empty() {
        return String::new();
    }
    let mut html = String::from("<h2>Load</h2><div class=wide><table><tr><th>");
    for (number, _) in &loads {
        put(&mut html, format_args!("<th>{}", escape(&runs[*number].label)));
    }
    for (title, measure, write) in LOAD_MEASURES {
        put(&mut html, format_args!("<tr><td>{title}"));
        for (_, load) in &loads {
            put(&mut html, format_args!("<td>{}", measure(load).map_or_else(|| "–".to_owned(), write)));
        }
    }
    html.push_str("</table></div>");
    if loads.len() > 1 {
        html.push_str("<div class=plots>");
        for (title, measure, write) in &LOAD_MEASURES[..4] {
            let group = loads.iter().filter_map(|(number, load)| {
                let value = measure(load)?;
                let bar = Bar { colour: *number, value, text: write(value) };
                Some((runs[*number].label.clone(), vec![bar]))
            });
            put(&mut html, format_args!("<div><h3>{title}</h3>{}</div>", bars(&group.collect::<Vec<_>>())));
        }
        html.push_str("</div>");
    }
    let over_time = |value: fn(&super::result::Sample) -> Option<f64>| -> Vec<Line> {
        let line = |(number, load): &(usize, &LoadResult)| Line {
            colour: *number,
            points: load
                .timeline
                .iter()
                .filter_map(|sample| Some([sample.seconds, value(sample)?]))
                .collect(),
        };
        loads.iter().map(line).filter(|line| line.points.len() > 1).collect()
    };
    html.push_str("<div class=plots>");
    for (title, unit, series) in [
        ("Throughput while loading", "values/s", over_time(|sample| Some(sample.values_per_second))),
        ("Server cores while loading", "cores", over_time(|sample| sample.server_cores)),
        ("Server memory while loading", "MB", over_time(|sample| Some(sample.resident_bytes? as f64 / 1e6))),
    ] {
        if !series.is_empty() {
            let plot = lines(&series, "seconds", unit, Scale::Linear, None);
            put(&mut html, format_args!("<div><h3>{title}</h3>{plot}</div>"));
        }
    }
    html.push_str("</div>");
    html
}

/// The types of queries at each number of workers, which are compared between runs.
fn kinds(runs: &[RunResult]) -> Vec<(&str, usize, bool)> {
    let mut kinds = Vec::new();
    for query in runs.iter().flat_map(|run| &run.queries) {
        let kind = (query.name.as_str(), query.workers, query.heavy);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds
}

fn query_section(runs: &[RunResult]) -> String {
    let kinds = kinds(runs);
    if kinds.is_empty() {
        return String::new();
    }
    let find = |run: &RunResult, kind: &(&str, usize, bool)| -> Option<QueryResult> {
        run.queries.iter().find(|query| query.name == kind.0 && query.workers == kind.1).cloned()
    };
    let mut html = String::from(
        "<h2>Queries</h2><div class=wide><table><tr><th>query<th>workers<th>server<th>queries/s<th>mean ms\
         <th>p50<th>p95<th>p99<th>max<th>server CPU ms<th>KB/answer<th>errors",
    );
    for kind in &kinds {
        for (number, run) in runs.iter().enumerate() {
            if let Some(query) = find(run, kind) {
                html.push_str(&query_row(&query, number, &run.label));
            }
        }
    }
    html.push_str("</table></div>");
    for heavy in [false, true] {
        let title = if heavy { "heavy queries" } else { "light queries" };
        for (what, value) in [
            ("p99 latency, ms", (|q| Some(q.latency.as_ref()?.p99_ms)) as fn(&QueryResult) -> Option<f64>),
            ("server CPU per query, ms", |q| q.server_cpu_ms_per_query),
        ] {
            let groups: Vec<(String, Vec<Bar>)> = kinds
                .iter()
                .filter(|kind| kind.2 == heavy)
                .map(|kind| {
                    let bar = |(number, run): (usize, &RunResult)| {
                        let value = value(&find(run, kind)?)?;
                        Some(Bar { colour: number, value, text: milliseconds(value) })
                    };
                    (format!("{} × {}", kind.0, kind.1), runs.iter().enumerate().filter_map(bar).collect())
                })
                .filter(|(_, bars): &(String, Vec<Bar>)| !bars.is_empty())
                .collect();
            if !groups.is_empty() {
                put(&mut html, format_args!("<h3>{what}: {title}</h3>{}", bars(&groups)));
            }
        }
    }
    html.push_str("<h2>Latency distributions</h2><div class=plots>");
    for kind in &kinds {
        let line = |(number, run): (usize, &RunResult)| -> Option<Line> {
            let curve = find(run, kind)?.latency?.curve;
            // The axis is logarithmic in the remaining share, so that the slow end is visible.
            let points = curve.into_iter().map(|[share, ms]| [-(1.0 - share).log10(), ms]).collect();
            Some(Line { colour: number, points })
        };
        let series: Vec<Line> = runs.iter().enumerate().filter_map(line).collect();
        let marks = [(0.0, "0 %"), (0.301, "50 %"), (1.0, "90 %"), (2.0, "99 %"), (3.0, "99.9 %")]
            .map(|(at, text)| Mark { at, text: text.to_owned() });
        let plot = lines(&series, "share of queries", "ms", Scale::Logarithmic, Some(&marks));
        put(&mut html, format_args!("<div><h3>{} × {}</h3>{plot}</div>", escape(kind.0), kind.1));
    }
    html.push_str("</div>");
    html
}

fn query_row(query: &QueryResult, colour: usize, label: &str) -> String {
    let latency = |value: fn(&crate::measure::latency::LatencySummary) -> f64| {
        query.latency.as_ref().map_or_else(|| "–".to_owned(), |latency| milliseconds(value(latency)))
    };
    format!(
        "<tr><td>{}<td>{}<td><span class=\"key c{}\"></span>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{:.1}<td>{}",
        escape(&query.name),
        query.workers,
        colour % COLOURS,
        escape(label),
        count(query.queries_per_second),
        latency(|l| l.mean_ms),
        latency(|l| l.p50_ms),
        latency(|l| l.p95_ms),
        latency(|l| l.p99_ms),
        latency(|l| l.max_ms),
        query.server_cpu_ms_per_query.map_or_else(|| "–".to_owned(), milliseconds),
        query.answer_bytes as f64 / 1000.0,
        query.errors,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::latency::Latencies;
    use crate::report::result::{Machine, RESULT_VERSION, Sample};
    use std::time::Duration;

    fn run(label: &str) -> RunResult {
        let mut latencies = Latencies::default();
        (1..100).for_each(|ms| latencies.add(Duration::from_millis(ms)));
        let sample = |n| Sample {
            seconds: f64::from(n),
            values_per_second: 5.0,
            server_cores: None,
            resident_bytes: None,
        };
        RunResult {
            version: RESULT_VERSION,
            benchmark: "tsbs".to_owned(),
            label: label.to_owned(),
            started_at: 0,
            machine: Machine { cores: 2, processor: "<p>".to_owned(), memory_bytes: 1 },
            parameters: vec![("scale".to_owned(), "1".to_owned())],
            loads: vec![LoadResult {
                values: 10,
                timeline: (1..4).map(sample).collect(),
                ..LoadResult::default()
            }],
            queries: vec![QueryResult {
                name: "lastpoint".to_owned(),
                heavy: true,
                workers: 1,
                count: 99,
                errors: 0,
                seconds: 1.0,
                queries_per_second: 99.0,
                latency: latencies.summary(),
                answer_bytes: 10,
                server_cpu_ms_per_query: Some(0.5),
                first_ms: 1.0,
            }],
            verification: None,
        }
    }

    #[test]
    fn runs_are_shown_side_by_side() {
        let page = page(&[run("one"), run("<two>")]);
        assert!(page.contains("&lt;two&gt;") && !page.contains("<two>") && !page.contains("<p>,"));
        assert_eq!(page.matches("<polyline").count(), 2 + 2, "throughput and one distribution of each");
        assert!(!page.contains("NaN") && !page.contains("src=") && !page.contains("href="), "self-contained");
    }

    #[test]
    fn results_survive_json() {
        let json = serde_json::to_string(&run("one")).unwrap();
        let again: RunResult = serde_json::from_str(&json).unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), json);
    }
}
