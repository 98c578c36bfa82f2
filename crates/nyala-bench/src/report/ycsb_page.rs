//! Results of YCSB as one self-contained page: for each phase a table, and what happened over time, the lines of several
//! stores or settings in one plot.

use super::html::STYLE;
use super::svg::{Bar, COLOURS, Line, Mark, Scale, bars, escape, lines, put};
use super::table::{count, milliseconds};
use super::ycsb::{Window, YcsbResult};
use crate::workload::ycsb::ActionKind;

/// The phases of a store, with its name.
type Named = (String, Vec<YcsbResult>);
/// What a store did in a phase, with its number.
type Numbered<'a> = (usize, &'a YcsbResult);

/// The page for the results of some stores, each with its name. `introduction` stands above them.
pub fn page(introduction: &str, stores: &[Named]) -> String {
    let mut html = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\">\
         <title>YCSB</title><style>{STYLE}</style><main><h1>YCSB</h1><p class=dim>{}</p><p>",
        escape(introduction)
    );
    for (number, (name, _)) in stores.iter().enumerate() {
        let (class, name) = (key_class(number), escape(name));
        put(&mut html, format_args!("<span class=\"key {class}\"></span><b>{name}</b> "));
    }
    html.push_str("</p>");
    let mut phases: Vec<&str> = Vec::new();
    for result in stores.iter().flat_map(|(_, results)| results) {
        if !phases.contains(&result.phase.as_str()) {
            phases.push(&result.phase);
        }
    }
    for phase in phases {
        let of_phase: Vec<Numbered<'_>> = stores
            .iter()
            .enumerate()
            .filter_map(|(number, (_, results))| {
                Some((number, results.iter().find(|result| result.phase == phase)?))
            })
            .collect();
        put(&mut html, format_args!("<h2>{}</h2>", escape(phase)));
        table(&mut html, stores, &of_phase);
        side_by_side(&mut html, stores, &of_phase);
        over_time(&mut html, &of_phase);
        distributions(&mut html, &of_phase);
    }
    html.push_str("</main></html>\n");
    html
}

/// Of the square before a name.
fn key_class(number: usize) -> String {
    format!("c{}{}", number % COLOURS, if number >= COLOURS { " dashed" } else { "" })
}

fn table(html: &mut String, stores: &[Named], results: &[Numbered<'_>]) {
    html.push_str(
        "<div class=wide><table><tr><th><th>per second<th>CPU µs<th>slowest 10 s / median<th>last third / first\
         <th>written per byte<th>as the server counts<th>refused<th>filter look-ups<th>kind<th>requests<th>p50 ms<th>p95 ms<th>p99 ms<th>max ms<th>peaks",
    );
    let optional = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.2}"));
    for (number, result) in results {
        for (kind, latency) in &result.latencies {
            put(
                html,
                format_args!(
                    "<tr><td><span class=\"key {}\"></span>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{kind}<td>{}",
                    key_class(*number),
                    escape(&stores[*number].0),
                    count(result.rate()),
                    result
                        .cpu_us_per_action()
                        .map_or_else(|| "–".to_owned(), |cpu_us| format!("{cpu_us:.1}")),
                    optional(result.steadiness()),
                    optional(result.trend()),
                    optional(result.write_amplification),
                    optional(result.store_write_amplification),
                    result.rejected_writes.map_or_else(|| "–".to_owned(), count),
                    optional(result.filter_lookups_per_action),
                    latency.count,
                ),
            );
            for value in [latency.p50_ms, latency.p95_ms, latency.p99_ms, latency.max_ms] {
                put(html, format_args!("<td>{}", milliseconds(value)));
            }
            put(html, format_args!("<td>{}", result.peaks.get(kind).copied().unwrap_or(0)));
        }
    }
    html.push_str("</table></div>");
}

/// Bars for the rates and the 99th percentiles of several stores.
fn side_by_side(html: &mut String, stores: &[Named], results: &[Numbered<'_>]) {
    if results.len() < 2 {
        return;
    }
    let group = |(number, _): &Numbered<'_>, bar: Vec<Bar>| (stores[*number].0.clone(), bar);
    let rates: Vec<_> = results
        .iter()
        .map(|store| {
            let bar = Bar { colour: store.0, value: store.1.rate(), text: count(store.1.rate()) };
            group(store, vec![bar])
        })
        .collect();
    let slow: Vec<_> = results
        .iter()
        .map(|store| {
            let bar = |(kind, latency): (&ActionKind, &crate::measure::latency::LatencySummary)| Bar {
                colour: store.0,
                value: latency.p99_ms,
                text: format!("{} {kind}", milliseconds(latency.p99_ms)),
            };
            group(store, store.1.latencies.iter().map(bar).collect())
        })
        .collect();
    put(html, format_args!("<div class=plots><div><h3>Actions per second</h3>{}</div>", bars(&rates)));
    put(html, format_args!("<div><h3>p99, ms</h3>{}</div></div>", bars(&slow)));
}

/// A plot over time: its title, its unit, its scale, and what of a window it shows.
type Plot = (&'static str, &'static str, Scale, fn(&Window) -> Option<f64>);

const PLOTS: [Plot; 14] = [
    ("Throughput", "actions per second", Scale::Linear, |window| Some(window.actions_per_second)),
    ("Median latency", "ms", Scale::Logarithmic, |window| Some(window.latency.as_ref()?.p50_ms)),
    ("95th percentile of latency", "ms", Scale::Logarithmic, |window| Some(window.latency.as_ref()?.p95_ms)),
    ("99th percentile of latency", "ms", Scale::Logarithmic, |window| Some(window.latency.as_ref()?.p99_ms)),
    ("Slowest action", "ms", Scale::Logarithmic, |window| Some(window.latency.as_ref()?.max_ms)),
    ("Memory in use, as the server counts it", "MB", Scale::Linear, |window| {
        Some(window.memory_bytes? / 1e6)
    }),
    ("Resident memory", "MB", Scale::Linear, |window| Some(window.resident_bytes? as f64 / 1e6)),
    ("Flushed", "MB per second", Scale::Linear, |window| Some(window.flushed_bytes_per_second? / 1e6)),
    ("Merged", "MB per second", Scale::Linear, |window| Some(window.compacted_bytes_per_second? / 1e6)),
    ("Rejected writes", "per second", Scale::Linear, |window| window.rejected_writes_per_second),
    ("Slowed writes", "per second", Scale::Linear, |window| window.slowed_writes_per_second),
    ("Bloom filter look-ups", "per action", Scale::Linear, |window| window.filter_lookups_per_action),
    ("Write amplification, as the system counts", "bytes per byte of rows", Scale::Linear, |window| {
        window.write_amplification
    }),
    ("Write amplification, as the server counts", "bytes per byte of rows", Scale::Linear, |window| {
        window.store_write_amplification
    }),
];

fn over_time(html: &mut String, results: &[Numbered<'_>]) {
    html.push_str("<div class=plots>");
    let mut untold = Vec::new();
    for (title, unit, scale, of) in PLOTS {
        let line = |(number, result): &Numbered<'_>| Line {
            colour: *number,
            points: result.windows.iter().filter_map(|window| Some([window.seconds, of(window)?])).collect(),
        };
        let series: Vec<Line> = results.iter().map(line).filter(|line| !line.points.is_empty()).collect();
        if series.is_empty() {
            untold.push(title);
            continue;
        }
        let plot = lines(&series, "seconds", unit, scale, None);
        put(html, format_args!("<div><h3>{title}</h3>{plot}</div>"));
    }
    html.push_str("</div>");
    if !untold.is_empty() {
        put(html, format_args!("<p class=dim>Not told by what was measured: {}.</p>", untold.join(", ")));
    }
}

/// How latencies are distributed, by kind of action, over a logarithmic axis from a microsecond on.
fn distributions(html: &mut String, results: &[Numbered<'_>]) {
    let marks: Vec<Mark> = ["1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s"]
        .iter()
        .enumerate()
        .map(|(decade, text)| Mark { at: decade as f64, text: (*text).to_owned() })
        .collect();
    let mut kinds: Vec<ActionKind> =
        results.iter().flat_map(|(_, result)| result.densities.keys().copied()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    html.push_str("<div class=plots>");
    for kind in kinds {
        let line = |(number, result): &Numbered<'_>| -> Option<Line> {
            let density = result.densities.get(&kind)?;
            let points =
                density.iter().map(|[ms, share]| [(ms * 1e3).log10().max(0.0), share * 100.0]).collect();
            Some(Line { colour: *number, points })
        };
        let series: Vec<Line> = results.iter().filter_map(line).collect();
        let plot = lines(&series, "latency, tenths of decades", "% of requests", Scale::Linear, Some(&marks));
        put(html, format_args!("<div><h3>Distribution of latency: {kind}</h3>{plot}</div>"));
    }
    html.push_str("</div>");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::ycsb::Percentiles;

    fn result(windows: Vec<Window>) -> YcsbResult {
        let summary = crate::measure::latency::LatencySummary {
            count: 1,
            min_ms: 1.0,
            mean_ms: 1.0,
            p50_ms: 1.0,
            p95_ms: 1.0,
            p99_ms: 1.0,
            max_ms: 1.0,
            curve: Vec::new(),
        };
        YcsbResult {
            phase: "<a>".to_owned(),
            actions: 10,
            seconds: 2.0,
            windows,
            latencies: [(ActionKind::Read, summary)].into(),
            densities: [(ActionKind::Read, vec![[0.0001, 0.5], [1.0, 0.5]])].into(),
            ..YcsbResult::default()
        }
    }

    #[test]
    fn hostile_names_are_escaped_and_lines_are_drawn() {
        let window = |seconds: f64| Window {
            seconds,
            actions_per_second: 5.0,
            latency: Some(Percentiles::default()),
            memory_bytes: Some(f64::NAN),
            ..Window::default()
        };
        let stores = [
            ("<b>".to_owned(), vec![result(vec![window(1.0), window(2.0)])]),
            ("two".to_owned(), vec![result(Vec::new())]),
        ];
        let html = page("<i>", &stores);
        assert!(html.contains("&lt;b&gt;") && html.contains("&lt;a&gt;") && html.contains("&lt;i&gt;"));
        assert!(!html.contains("<a>") && !html.contains("<b>two<b>") && !html.contains("NaN"));
        assert!(html.contains("<h3>Throughput</h3><svg") && html.contains("<h3>Actions per second</h3><svg"));
        assert!(html.contains("<h3>Distribution of latency: read</h3><svg"));
        assert!(html.contains("Not told by what was measured: Resident memory, Flushed"), "{html}");
    }

    #[test]
    fn more_runs_than_colours_are_told_apart() {
        assert_ne!(key_class(0), key_class(COLOURS));
    }
}
