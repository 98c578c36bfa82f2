//! Brings an answer of SQL into the form of InfluxDB's JSON, so that both are compared with the same expected answer.

use super::expected::Expected;
use crate::client::sql::SqlAnswer;
use crate::workload::host::TAG_KEYS;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What SQL should answer: it has no rows for windows without points.
pub fn expected_of_sql(expected: Expected) -> Expected {
    let with_points = |windows: &mut Vec<(i64, Vec<Option<f64>>)>| {
        windows.retain(|(_, values)| values.iter().any(Option::is_some));
    };
    match expected {
        Expected::Windows { columns, mut windows } => {
            with_points(&mut windows);
            Expected::Windows { columns, windows }
        }
        Expected::WindowsByHost { columns, mut hosts } => {
            hosts.iter_mut().for_each(|(_, windows)| with_points(windows));
            hosts.retain(|(_, windows)| !windows.is_empty());
            Expected::WindowsByHost { columns, hosts }
        }
        rows => rows,
    }
}

/// The answer as InfluxDB would write it. Fails if it has another form than `expected` needs.
pub fn as_influx_json(answer: &SqlAnswer, expected: &Expected) -> Result<Vec<u8>, String> {
    let series = match expected {
        Expected::Windows { columns, .. } => {
            check_columns(answer, columns.len() + 1)?;
            match answer.rows.is_empty() {
                true => Vec::new(),
                false => vec![json!({
                    "name": "cpu", "columns": with_time(columns),
                    "values": answer.rows.iter().map(|row| cells(answer, row, 1..row.len())).collect::<Result<Vec<_>, _>>()?,
                })],
            }
        }
        Expected::WindowsByHost { columns, .. } => {
            check_columns(answer, columns.len() + 2)?;
            let mut hosts: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
            for row in &answer.rows {
                hosts.entry(row[1].as_deref().unwrap_or("")).or_default().push(cells(
                    answer,
                    row,
                    2..row.len(),
                )?);
            }
            let head = with_time(columns);
            let series = |(host, values)| json!({"name": "cpu", "tags": {"hostname": host}, "columns": head, "values": values});
            hosts.into_iter().map(series).collect()
        }
        Expected::Rows(_) => {
            let (columns, order) = star_order(answer, false)?;
            let rows = answer.rows.iter().map(|row| cells(answer, row, order.iter().copied()));
            vec![json!({"name": "cpu", "columns": columns, "values": rows.collect::<Result<Vec<_>, _>>()?})]
        }
        Expected::LastRows(_) => {
            let (columns, order) = star_order(answer, true)?;
            let host =
                answer.columns.iter().position(|column| column == "hostname").ok_or("no column hostname")?;
            let series = |row: &Vec<Option<String>>| {
                let cells = cells(answer, row, order.iter().copied())?;
                Ok(
                    json!({"name": "cpu", "tags": {"hostname": row[host]}, "columns": columns, "values": [cells]}),
                )
            };
            // InfluxDB gives them in the reverse order of their names.
            answer.rows.iter().rev().map(series).collect::<Result<Vec<_>, String>>()?
        }
    };
    let result = if series.is_empty() { json!({}) } else { json!({ "series": series }) };
    Ok(json!({ "results": [result] }).to_string().into_bytes())
}

fn check_columns(answer: &SqlAnswer, wanted: usize) -> Result<(), String> {
    match answer.columns.len() == wanted {
        true => Ok(()),
        false => Err(format!("columns {:?} instead of {wanted}", answer.columns)),
    }
}

fn with_time(columns: &[String]) -> Vec<&str> {
    std::iter::once("time").chain(columns.iter().map(String::as_str)).collect()
}

/// The columns of `SELECT *` by name after the time, without the second form of the time, and where they are in a row.
fn star_order(answer: &SqlAnswer, grouped_by_host: bool) -> Result<(Vec<&str>, Vec<usize>), String> {
    if answer.columns.first().is_none_or(|first| first != "time") {
        return Err(format!("columns {:?} do not begin with the time", answer.columns));
    }
    let named = answer.columns.iter().enumerate().skip(1);
    let mut others: Vec<(&str, usize)> = named.map(|(at, column)| (column.as_str(), at)).collect();
    others.retain(|(column, _)| *column != "time_ns" && !(grouped_by_host && *column == "hostname"));
    others.sort_unstable();
    let columns = std::iter::once("time").chain(others.iter().map(|(column, _)| *column)).collect();
    Ok((columns, others.into_iter().map(|(_, at)| at).collect()))
}

/// The time, which is the first cell, and the cells at `order`.
fn cells(
    answer: &SqlAnswer,
    row: &[Option<String>],
    order: impl Iterator<Item = usize>,
) -> Result<Value, String> {
    let time = row.first().and_then(Option::as_deref).ok_or("a row without time")?;
    let time = time.strip_suffix("+00").ok_or_else(|| format!("'{time}' is no time of UTC"))?;
    let mut cells = vec![Value::from(format!("{}Z", time.replacen(' ', "T", 1)))];
    for at in order {
        cells.push(match row[at].as_deref() {
            None => Value::Null,
            Some(text) if TAG_KEYS.contains(&&*answer.columns[at]) => Value::from(text),
            Some(text) => {
                text.parse::<f64>().map(Value::from).map_err(|_| format!("'{text}' is no number"))?
            }
        });
    }
    Ok(Value::from(cells))
}
