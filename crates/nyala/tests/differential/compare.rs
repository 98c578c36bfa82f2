//! Compares two answers.

use crate::client::Response;
use serde_json::Value;

/// How far floats may differ, in units in the last place, because the order of additions is free.
const UNITS: f64 = 16.0;
/// The most that is shown of an answer.
const SHOWN_BYTES: usize = 400;

/// Whether the order of series, and of rows within them, counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Exact,
    Free,
}

/// The first difference, if there is one.
pub fn difference(nyala: &Response, influx: &Response, order: Order) -> Option<String> {
    let parsed = |response: &Response| {
        let mut answer: Value = serde_json::from_slice(&response.body).ok()?;
        if order == Order::Free {
            sort(&mut answer);
        }
        Some(answer)
    };
    let place = match (parsed(nyala), parsed(influx)) {
        _ if nyala.status != influx.status => "the status".to_owned(),
        (Some(mut own), Some(expected)) => {
            leave_out_hints(&mut own, &expected);
            first_difference(&own, &expected, "")?
        }
        _ if nyala.body == influx.body => return None,
        _ => "the body".to_owned(),
    };
    Some(format!("  at {place}\n  influxdb: {}\n  nyala:    {}", shown(influx), shown(nyala)))
}

/// Removes hints that InfluxDB does not give.
fn leave_out_hints(own: &mut Value, expected: &Value) {
    let results = own.get_mut("results").and_then(Value::as_array_mut);
    for (number, result) in results.into_iter().flatten().enumerate() {
        if let Some(result) = result.as_object_mut()
            && expected["results"][number].get("messages").is_none()
        {
            result.remove("messages");
        }
    }
}

/// Sorts series by tags and rows by time. Partial series are joined.
fn sort(answer: &mut Value) {
    for result in answer["results"].as_array_mut().into_iter().flatten() {
        let Some(list) = result.get_mut("series").and_then(Value::as_array_mut) else { continue };
        let key = |series: &Value| (series["name"].to_string(), series["tags"].to_string());
        list.sort_by_key(key);
        list.dedup_by(|piece, series| {
            let is_same = key(piece) == key(series);
            if let (true, Some(rows)) = (is_same, series["values"].as_array_mut()) {
                rows.append(piece["values"].as_array_mut().unwrap_or(&mut Vec::new()));
            }
            is_same
        });
        for rows in list.iter_mut().filter_map(|series| series["values"].as_array_mut()) {
            rows.sort_by_key(|row| row[0].as_i64());
        }
    }
}

fn shown(response: &Response) -> String {
    format!("{} {}", response.status, cut(String::from_utf8_lossy(&response.body).trim_end()))
}

fn cut(text: &str) -> &str {
    let end = text.char_indices().nth(SHOWN_BYTES).map_or(text.len(), |(end, _)| end);
    &text[..end]
}

/// The first place where two answers differ.
fn first_difference(own: &Value, expected: &Value, place: &str) -> Option<String> {
    match (own, expected) {
        (Value::Array(own), Value::Array(expected)) => {
            let pairs = own.iter().zip(expected).enumerate();
            let mut found =
                pairs.map(|(index, (own, other))| first_difference(own, other, &format!("{place}/{index}")));
            let lengths = || (own.len() != expected.len()).then(|| format!("the length of {place}"));
            found.find_map(|found| found).or_else(lengths)
        }
        (Value::Object(own), Value::Object(expected)) if own.len() == expected.len() => own
            .iter()
            .find_map(|(key, own)| first_difference(own, expected.get(key)?, &format!("{place}/{key}"))),
        (Value::Number(a), Value::Number(b)) if is_near(a.as_f64(), b.as_f64()) => None,
        _ if own == expected => None,
        _ => Some(format!("{place}: {} is {}", cut(&expected.to_string()), cut(&own.to_string()))),
    }
}

fn is_near(own: Option<f64>, expected: Option<f64>) -> bool {
    let (Some(own), Some(expected)) = (own, expected) else { return false };
    // Integers are exact.
    let is_float = own.fract() != 0.0 || expected.fract() != 0.0 || own.abs() > 1e15;
    let distance = (own - expected).abs();
    distance == 0.0 || (is_float && distance <= UNITS * f64::EPSILON * own.abs().max(expected.abs()).max(1.0))
}
