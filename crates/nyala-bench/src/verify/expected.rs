//! The expected answer of a query, computed in the simplest way from the model's rows.
//!
//! Semantics of InfluxDB 1.8 that matter here:
//! - windows are aligned to the epoch;
//! - the first and the last window of a range contain only rows of the range;
//! - if the series has any rows in the range, every window is in the answer, with `null` if it has no rows;
//! - without a lower time bound, the first window is that of the first row.

use crate::query::generator::Query;
use crate::query::kind::Shape;
use crate::time::{HOUR_SECONDS, MINUTE_SECONDS, Span};
use crate::workload::cpu::model::CpuModel;
use crate::workload::cpu::{FIELD_COUNT, FIELDS};
use crate::workload::host::TAG_KEYS;
use std::cmp::Reverse;

/// The number of windows of groupby-orderby-limit.
const FIVE: usize = 5;

/// A window's start in seconds, and the aggregate of each column if it has rows.
pub type Window = (i64, Vec<Option<f64>>);

/// An expected answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Expected {
    /// One series of windows.
    Windows {
        /// Names of the columns after `time`.
        columns: Vec<String>,
        /// In the order of the answer.
        windows: Vec<Window>,
    },
    /// A series of windows per host, ordered by host name.
    WindowsByHost {
        /// Names of the columns after `time`.
        columns: Vec<String>,
        /// Host names and their windows.
        hosts: Vec<(String, Vec<Window>)>,
    },
    /// Whole rows ordered by time, in any order within a time.
    Rows(Vec<Row>),
    /// The last row of each host, one series each, in reverse order of host names.
    LastRows(Vec<Row>),
}

/// A whole row of `cpu`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Row {
    /// Seconds since 1970.
    pub time: i64,
    /// Number of its host.
    pub host: u64,
    /// The fields.
    pub values: [f64; FIELD_COUNT],
}

/// The expected answer to `query` on the data of `model`.
pub fn expected(query: &Query, model: &dyn CpuModel) -> Expected {
    match query.shape {
        Shape::MaxByTime { fields, window_seconds, .. } => maxima(query, model, fields, window_seconds),
        Shape::MaxAll { .. } => maxima(query, model, FIELD_COUNT, HOUR_SECONDS),
        Shape::MeanByHost { fields } => means(query, model, fields),
        Shape::HighCpu { .. } => Expected::Rows(high_rows(query, model)),
        Shape::LastPoint => Expected::LastRows(last_rows(model)),
        Shape::FiveMinutes { last } => five_minutes(query, model, last),
    }
}

/// Columns of `SELECT *`: tags and fields by name. Grouped tags are left out.
pub fn star_columns(grouped_by_host: bool) -> Vec<&'static str> {
    let mut columns: Vec<&str> = TAG_KEYS.into_iter().chain(FIELDS).collect();
    columns.retain(|column| !(grouped_by_host && *column == "hostname"));
    columns.sort_unstable();
    columns
}

/// How InfluxDB names columns of the same function: `max`, `max_1`, `max_2` ….
fn numbered_columns(function: &str, count: usize) -> Vec<String> {
    let name = |number| if number == 0 { function.to_owned() } else { format!("{function}_{number}") };
    (0..count).map(name).collect()
}

/// The hosts that the query names, or all hosts.
fn hosts_of(query: &Query, model: &dyn CpuModel) -> Vec<u64> {
    if query.shape.named_hosts().is_some() {
        query.hosts.clone()
    } else {
        (0..model.config().hosts).collect()
    }
}

/// Starts of the windows of `span`.
fn window_starts(span: Span, window_seconds: i64) -> impl Iterator<Item = i64> {
    let first = span.start - span.start.rem_euclid(window_seconds);
    (first..span.end).step_by(window_seconds as usize)
}

fn maxima(query: &Query, model: &dyn CpuModel, fields: usize, window_seconds: i64) -> Expected {
    let columns = numbered_columns("max", fields);
    let rows: Vec<_> =
        hosts_of(query, model).into_iter().flat_map(|host| model.rows(host, query.span)).collect();
    if rows.is_empty() {
        return Expected::Windows { columns, windows: Vec::new() };
    }
    let windows = window_starts(query.span, window_seconds)
        .map(|start| {
            let inside = rows.iter().filter(|(time, _)| *time >= start && *time < start + window_seconds);
            let columns = (0..fields).map(|field| inside.clone().map(|row| row.1[field]).reduce(f64::max));
            (start, columns.collect())
        })
        .collect();
    Expected::Windows { columns, windows }
}

fn means(query: &Query, model: &dyn CpuModel, fields: usize) -> Expected {
    let mut hosts = Vec::new();
    for host in hosts_of(query, model) {
        let rows = model.rows(host, query.span);
        if rows.is_empty() {
            continue;
        }
        let windows = window_starts(query.span, HOUR_SECONDS).map(|start| {
            let inside = rows.iter().filter(|(time, _)| *time >= start && *time < start + HOUR_SECONDS);
            let count = inside.clone().count();
            let mean = |field: usize| inside.clone().map(|row| row.1[field]).sum::<f64>() / count as f64;
            (start, (0..fields).map(|field| (count > 0).then(|| mean(field))).collect())
        });
        hosts.push((format!("host_{host}"), windows.collect()));
    }
    hosts.sort_unstable_by(|a: &(String, Vec<Window>), b| a.0.cmp(&b.0));
    Expected::WindowsByHost { columns: numbered_columns("mean", fields), hosts }
}

fn high_rows(query: &Query, model: &dyn CpuModel) -> Vec<Row> {
    let mut rows = Vec::new();
    for host in hosts_of(query, model) {
        let high = model.rows(host, query.span).into_iter().filter(|(_, values)| values[0] > 90.0);
        rows.extend(high.map(|(time, values)| Row { time, host, values }));
    }
    rows.sort_unstable_by_key(|row| (row.time, row.host));
    rows
}

fn last_rows(model: &dyn CpuModel) -> Vec<Row> {
    let last =
        |host| model.rows(host, model.config().span).last().map(|&(time, values)| Row { time, host, values });
    let mut rows: Vec<Row> = (0..model.config().hosts).filter_map(last).collect();
    // ORDER BY time DESC also reverses the order of the series.
    rows.sort_unstable_by_key(|row| Reverse(format!("host_{}", row.host)));
    rows
}

fn five_minutes(query: &Query, model: &dyn CpuModel, last: bool) -> Expected {
    let data = model.config().span;
    let end = query.span.end;
    let starts: Vec<i64> = if last {
        let newest = (end - 1) - (end - 1).rem_euclid(MINUTE_SECONDS);
        (0..FIVE as i64).map(|back| newest - back * MINUTE_SECONDS).collect()
    } else {
        window_starts(Span { start: data.start, end }, MINUTE_SECONDS).take(FIVE).collect()
    };
    let first_start = starts.iter().copied().min().unwrap_or(data.start);
    let last_start = starts.iter().copied().max().unwrap_or(data.start);
    let span = Span { start: first_start.max(data.start), end: end.min(last_start + MINUTE_SECONDS) };
    let mut windows: Vec<Window> = starts.iter().map(|&start| (start, vec![None])).collect();
    for host in 0..model.config().hosts {
        for (time, values) in model.rows(host, span) {
            let start = time - time.rem_euclid(MINUTE_SECONDS);
            if let Some((_, window)) = windows.iter_mut().find(|(known, _)| *known == start) {
                window[0] = Some(window[0].map_or(values[0], |highest| highest.max(values[0])));
            }
        }
    }
    windows.retain(|(start, _)| *start + MINUTE_SECONDS > data.start);
    Expected::Windows { columns: numbered_columns("max", 1), windows }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::kind::{QueryKind, TSBS};
    use crate::workload::cpu::model::{HostRow, HostsConfig};

    /// Two hosts; host h reports at 0, 30, 60 … seconds the value h * 1000 + seconds in every field.
    struct Simple;

    impl CpuModel for Simple {
        fn config(&self) -> &HostsConfig {
            &HostsConfig { hosts: 2, span: Span { start: 0, end: 7200 }, interval_seconds: 30, seed: 0 }
        }

        fn rows(&self, host: u64, span: Span) -> Vec<HostRow> {
            let times = (0..7200).step_by(30).filter(|&time| span.contains(time));
            times.map(|time| (time, [(host as i64 * 1000 + time) as f64; FIELD_COUNT])).collect()
        }
    }

    fn answer(name: &str, hosts: &[u64], start: i64, end: i64) -> Expected {
        let kind: &QueryKind = TSBS.iter().find(|kind| kind.name == name).unwrap();
        expected(&Query { shape: kind.shape, hosts: hosts.to_vec(), span: Span { start, end } }, &Simple)
    }

    #[test]
    fn windows_contain_only_rows_of_the_range() {
        let Expected::Windows { columns, windows } = answer("single-groupby-1-8-1", &[0, 1], 50, 130) else {
            panic!("one series")
        };
        assert_eq!(columns, ["max"]);
        // 0:50 to 1:00 has no row; 1:00 and 1:30 do; of the last window only 2:00.
        assert_eq!(windows, [(0, vec![None]), (60, vec![Some(1090.0)]), (120, vec![Some(1120.0)])]);
        let Expected::Windows { columns, windows } = answer("single-groupby-5-1-1", &[0], 60, 120) else {
            panic!("one series")
        };
        assert_eq!(columns, ["max", "max_1", "max_2", "max_3", "max_4"]);
        assert_eq!(windows, [(60, vec![Some(90.0); 5])]);
    }

    #[test]
    fn means_are_by_host_and_hour() {
        let Expected::WindowsByHost { hosts, .. } = answer("double-groupby-1", &[], 3000, 3660) else {
            panic!("a series per host")
        };
        let windows =
            |offset: f64| vec![(0, vec![Some(3285.0 + offset)]), (3600, vec![Some(3615.0 + offset)])];
        assert_eq!(hosts, [("host_0".to_owned(), windows(0.0)), ("host_1".to_owned(), windows(1000.0))]);
    }

    #[test]
    fn five_minutes_are_the_first_or_the_last() {
        let Expected::Windows { windows, .. } = answer("groupby-orderby-limit", &[], 0, 3600) else {
            panic!("one series")
        };
        assert_eq!(windows[0], (0, vec![Some(1030.0)]));
        assert_eq!((windows.len(), &windows[4]), (5, &(240, vec![Some(1270.0)])));
        let query = Query {
            shape: Shape::FiveMinutes { last: true },
            hosts: vec![],
            span: Span { start: 0, end: 3600 },
        };
        let Expected::Windows { windows, .. } = expected(&query, &Simple) else { panic!("one series") };
        assert_eq!((windows.len(), &windows[0]), (5, &(3540, vec![Some(4570.0)])));
        assert_eq!(windows[4], (3300, vec![Some(4330.0)]));
    }

    #[test]
    fn whole_rows_are_filtered_or_last() {
        let Expected::Rows(rows) = answer("high-cpu-1", &[0], 60, 180) else { panic!("rows") };
        assert_eq!(rows.iter().map(|row| row.time).collect::<Vec<_>>(), [120, 150]);
        let Expected::LastRows(rows) = answer("lastpoint", &[], 0, 0) else { panic!("rows") };
        assert_eq!(rows.iter().map(|row| (row.host, row.time)).collect::<Vec<_>>(), [(1, 7170), (0, 7170)]);
    }

    #[test]
    fn star_columns_are_sorted() {
        let columns = star_columns(false);
        assert_eq!(
            (columns.len(), columns[0], columns[2], columns[19]),
            (20, "arch", "hostname", "usage_user")
        );
        assert!(!star_columns(true).contains(&"hostname"));
    }
}
