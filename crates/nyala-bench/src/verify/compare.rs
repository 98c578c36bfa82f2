//! Compares a server's answer with the expected one and names the first difference.

use super::answer::{Cell, SeriesHead, Tags, read_rows};
use super::expected::{Expected, Row, Window, star_columns};
use crate::time::parse_rfc3339;
use crate::workload::cpu::model::CpuModel;
use crate::workload::cpu::{FIELD_COUNT, FIELDS};
use crate::workload::host::Host;
use std::collections::HashMap;

/// Means may differ by this many units in the last place, because of the order of summation.
const MEAN_TOLERANCE_ULPS: u64 = 2;

/// A series' tags and windows.
type Series<'a> = (Tags, &'a [Window]);

/// Returns the number of compared values, or the first difference.
pub fn compare(json: &[u8], expected: &Expected, model: &dyn CpuModel) -> Result<u64, String> {
    match expected {
        Expected::Windows { columns, windows } => {
            let series: Vec<Series<'_>> = match windows.len() {
                0 => Vec::new(),
                _ => vec![(Vec::new(), windows)],
            };
            compare_windows(json, columns, &series, 0)
        }
        Expected::WindowsByHost { columns, hosts } => {
            let tags = |host: &String| vec![("hostname".to_owned(), host.clone())];
            let series: Vec<_> = hosts.iter().map(|(host, windows)| (tags(host), &windows[..])).collect();
            compare_windows(json, columns, &series, MEAN_TOLERANCE_ULPS)
        }
        Expected::Rows(rows) => compare_rows(json, rows, model),
        Expected::LastRows(rows) => compare_last_rows(json, rows, model),
    }
}

fn compare_windows(
    json: &[u8],
    columns: &[String],
    series: &[Series<'_>],
    tolerance_ulps: u64,
) -> Result<u64, String> {
    let (mut at_series, mut at_row, mut values) = (0, 0, 0);
    read_rows(json, &mut |head, cells| {
        if head.position != at_series {
            let missing = series.get(at_series).map_or(0, |(_, windows)| windows.len() - at_row);
            if missing > 0 {
                return Err(format!("series {at_series} lacks its last {missing} rows"));
            }
            (at_series, at_row) = (at_series + 1, 0);
        }
        let (tags, windows) = series.get(at_series).ok_or_else(|| format!("unexpected series {head:?}"))?;
        if at_row == 0 {
            check_head(head, tags, columns.iter().map(String::as_str))?;
        }
        let (start, wanted) =
            windows.get(at_row).ok_or_else(|| format!("unexpected row {cells:?} of {tags:?}"))?;
        let location = || format!("{tags:?}, row {at_row}");
        if time_of(cells)? != *start || cells.len() != wanted.len() + 1 {
            return Err(format!("{}: {cells:?} instead of {wanted:?} at {start}", location()));
        }
        for ((cell, wanted), column) in cells[1..].iter().zip(wanted).zip(columns) {
            if !equals(cell, *wanted, tolerance_ulps) {
                return Err(format!("{}, {column}: {cell:?} instead of {wanted:?}", location()));
            }
        }
        values += wanted.len() as u64;
        at_row += 1;
        Ok(())
    })?;
    let complete = series.get(at_series).map_or(0, |(_, windows)| windows.len()) == at_row;
    if !complete || at_series + 1 < series.len() {
        return Err(format!("the answer ends after row {at_row} of series {at_series} of {}", series.len()));
    }
    Ok(values)
}

fn compare_rows(json: &[u8], expected: &[Row], model: &dyn CpuModel) -> Result<u64, String> {
    let columns = star_columns(false);
    let mut hosts: HashMap<u64, Host> = HashMap::new();
    let mut rows: Vec<Row> = Vec::with_capacity(expected.len());
    read_rows(json, &mut |head, cells| {
        if rows.is_empty() {
            check_head(head, &[], columns.iter().copied())?;
        }
        let row = read_row(cells, &columns, None, model, &mut hosts)?;
        if rows.last().is_some_and(|last| last.time > row.time) {
            return Err(format!("row {} is older than the one before it", rows.len()));
        }
        if rows.len() == expected.len() {
            return Err(format!("more rows than the {} expected", expected.len()));
        }
        rows.push(row);
        Ok(())
    })?;
    rows.sort_unstable_by_key(|row| (row.time, row.host));
    if let Some((got, wanted)) = rows.iter().zip(expected).find(|(got, wanted)| got != wanted) {
        return Err(format!("{got:?} instead of {wanted:?}"));
    }
    if rows.len() != expected.len() {
        return Err(format!("{} rows instead of {}", rows.len(), expected.len()));
    }
    Ok(rows.len() as u64 * columns.len() as u64)
}

fn compare_last_rows(json: &[u8], expected: &[Row], model: &dyn CpuModel) -> Result<u64, String> {
    let columns = star_columns(true);
    let mut hosts: HashMap<u64, Host> = HashMap::new();
    let mut count = 0;
    read_rows(json, &mut |head, cells| {
        let wanted = expected.get(count).ok_or_else(|| format!("unexpected series {head:?}"))?;
        if head.position != count {
            return Err(format!("series {} has more or fewer rows than one", head.position));
        }
        let tags = [("hostname".to_owned(), format!("host_{}", wanted.host))];
        check_head(head, &tags, columns.iter().copied())?;
        let row = read_row(cells, &columns, Some(wanted.host), model, &mut hosts)?;
        if row != *wanted {
            return Err(format!("{row:?} instead of {wanted:?}"));
        }
        count += 1;
        Ok(())
    })?;
    if count != expected.len() {
        return Err(format!("{count} series instead of {}", expected.len()));
    }
    Ok(count as u64 * columns.len() as u64)
}

fn check_head<'a>(
    head: &SeriesHead,
    tags: &[(String, String)],
    columns: impl Iterator<Item = &'a str>,
) -> Result<(), String> {
    let same_columns = head.columns.iter().map(String::as_str).eq(std::iter::once("time").chain(columns));
    if head.name != "cpu" || head.tags != tags || !same_columns {
        return Err(format!("series {head:?} instead of cpu with tags {tags:?}"));
    }
    Ok(())
}

fn time_of(cells: &[Cell<'_>]) -> Result<i64, String> {
    match cells.first() {
        Some(Cell::Text(text)) => parse_rfc3339(text).ok_or_else(|| format!("'{text}' is no time")),
        other => Err(format!("{other:?} is no time")),
    }
}

/// Reads a row of `SELECT *` and checks its tags against those of its host.
fn read_row(
    cells: &[Cell<'_>],
    columns: &[&str],
    grouped_host: Option<u64>,
    model: &dyn CpuModel,
    hosts: &mut HashMap<u64, Host>,
) -> Result<Row, String> {
    let time = time_of(cells)?;
    if cells.len() != columns.len() + 1 {
        return Err(format!("a row of {} cells instead of {}", cells.len(), columns.len() + 1));
    }
    let number = match grouped_host {
        Some(number) => number,
        None => {
            let position = columns.iter().position(|column| *column == "hostname").map(|at| &cells[at + 1]);
            let Some(Cell::Text(name)) = position else { return Err(format!("{position:?} is no host")) };
            let number = name.strip_prefix("host_").and_then(|number| number.parse().ok());
            number
                .filter(|&number| number < model.config().hosts)
                .ok_or_else(|| format!("'{name}' is no host"))?
        }
    };
    let host = hosts.entry(number).or_insert_with(|| model.config().host(number));
    let mut values = [0.0; FIELD_COUNT];
    for (column, cell) in columns.iter().zip(&cells[1..]) {
        let field = FIELDS.iter().position(|field| field == column);
        match (field, cell) {
            (Some(field), Cell::Integer(value)) => values[field] = *value as f64,
            (Some(field), Cell::Float(value)) => values[field] = *value,
            (None, Cell::Text(text)) if host.tag(column) == Some(text) => {}
            _ => return Err(format!("host_{number}, {column}: {cell:?}")),
        }
    }
    Ok(Row { time, host: number, values })
}

fn equals(cell: &Cell<'_>, wanted: Option<f64>, tolerance_ulps: u64) -> bool {
    match (cell, wanted) {
        (Cell::Null, None) => true,
        (Cell::Integer(value), Some(wanted)) => *value as f64 == wanted,
        (Cell::Float(value), Some(wanted)) => {
            // Neighbouring floats of one sign have neighbouring bit patterns.
            value.is_sign_positive() == wanted.is_sign_positive()
                && value.to_bits().abs_diff(wanted.to_bits()) <= tolerance_ulps
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{Span, TSBS_START, rfc3339};
    use crate::workload::cpu::model::HostsConfig;

    fn model() -> HostsConfig {
        let span = Span { start: TSBS_START, end: TSBS_START + 100 };
        HostsConfig { hosts: 3, span, interval_seconds: 10, seed: 1 }
    }

    fn windows(values: &[Option<f64>]) -> Expected {
        let window = |(at, value): (usize, &Option<f64>)| (at as i64 * 60, vec![*value]);
        Expected::Windows {
            columns: vec!["max".to_owned()],
            windows: values.iter().enumerate().map(window).collect(),
        }
    }

    fn answer(rows: &str) -> String {
        format!(
            r#"{{"results":[{{"series":[{{"name":"cpu","columns":["time","max"],"values":[{rows}]}}]}}]}}"#
        )
    }

    #[test]
    fn all_windows_must_be_the_same() {
        let expected = windows(&[None, Some(5.0)]);
        let check = |rows: &str| compare(answer(rows).as_bytes(), &expected, &model());
        let first = r#"["1970-01-01T00:00:00Z",null]"#;
        assert_eq!(check(&format!(r#"{first},["1970-01-01T00:01:00Z",5]"#)), Ok(2));
        for second in [
            r#",["1970-01-01T00:01:00Z",6]"#,
            r#",["1970-01-01T00:01:00Z",null]"#,
            r#",["1970-01-01T00:02:00Z",5]"#,
            r#",["1970-01-01T00:01:00Z","5"]"#,
            r#",["1970-01-01T00:01:00Z",5,5]"#,
            r#",["1970-01-01T00:01:00Z",5],["1970-01-01T00:02:00Z",5]"#,
            r#",[60,5]"#,
            "",
        ] {
            assert!(check(&format!("{first}{second}")).is_err(), "{second}");
        }
        assert!(compare(br#"{"results":[{}]}"#, &expected, &model()).is_err());
        assert_eq!(compare(br#"{"results":[{}]}"#, &windows(&[]), &model()), Ok(0));
    }

    #[test]
    fn means_may_differ_in_the_last_places_only() {
        let wanted = Some(0.1 + 0.2);
        assert!(equals(&Cell::Float(0.3), wanted, 2));
        assert!(!equals(&Cell::Float(0.3), wanted, 0));
        assert!(!equals(&Cell::Float(0.300_000_1), wanted, 2));
        assert!(!equals(&Cell::Float(-0.3), wanted, 2));
    }

    /// The rows of a correct answer.
    fn star_rows(rows: &[Row], model: &HostsConfig) -> Vec<String> {
        let columns = star_columns(false);
        let cell = |row: &Row, column: &str| match FIELDS.iter().position(|field| *field == column) {
            Some(field) => row.values[field].to_string(),
            None => format!("\"{}\"", model.host(row.host).tag(column).unwrap()),
        };
        let line = |row: &Row| {
            let cells: Vec<String> = columns.iter().map(|column| cell(row, column)).collect();
            format!("[\"{}\",{}]", rfc3339(row.time), cells.join(","))
        };
        rows.iter().map(line).collect()
    }

    #[test]
    fn whole_rows_are_compared_with_their_tags() {
        let model = model();
        let all: Vec<Row> = (0..3)
            .flat_map(|host| {
                let rows = CpuModel::rows(&model, host, model.span);
                rows.into_iter().map(move |(time, values)| Row { time, host, values })
            })
            .collect();
        let mut expected = all.clone();
        expected.sort_by_key(|row| (row.time, row.host));
        let check = |lines: &[String]| {
            let columns = star_columns(false).join("\",\"");
            let json = format!(
                r#"{{"results":[{{"series":[{{"name":"cpu","columns":["time","{columns}"],"values":[{}]}}]}}]}}"#,
                lines.join(",")
            );
            compare(json.as_bytes(), &Expected::Rows(expected.clone()), &model)
        };
        let mut lines = star_rows(&expected, &model);
        assert_eq!(check(&lines), Ok(30 * 20));
        lines.swap(0, 1);
        assert_eq!(check(&lines), Ok(30 * 20), "any order within a time");
        assert!(check(&star_rows(&all, &model)).is_err(), "not in order of time");
        assert!(check(&lines[1..]).is_err(), "a row is missing");
        let other_tag = lines[5].replace("host_2", "host_1");
        lines[5] = other_tag;
        assert!(check(&lines).is_err(), "a host's name with another's tags");
    }
}
