//! Whether two answers are the same.

use crate::client::Response;
use serde_json::Value;

/// How far floats may lie apart, in units in the last place: additions have no order.
const UNITS: f64 = 16.0;
/// What is shown of an answer.
const SHOWN_BYTES: usize = 400;

/// What differs, if anything does.
pub fn difference(nyala: &Response, influx: &Response) -> Option<String> {
    let place = match (parsed(nyala), parsed(influx)) {
        _ if nyala.status != influx.status => "the status".to_owned(),
        (Some(own), Some(expected)) => first_difference(&own, &expected, "")?,
        _ if nyala.body == influx.body => return None,
        _ => "the body".to_owned(),
    };
    Some(format!("  at {place}\n  influxdb: {}\n  nyala:    {}", shown(influx), shown(nyala)))
}

fn parsed(response: &Response) -> Option<Value> {
    serde_json::from_slice(&response.body).ok()
}

fn shown(response: &Response) -> String {
    format!("{} {}", response.status, cut(String::from_utf8_lossy(&response.body).trim_end()))
}

fn cut(text: &str) -> &str {
    let end = text.char_indices().nth(SHOWN_BYTES).map_or(text.len(), |(end, _)| end);
    &text[..end]
}

/// Where two answers differ at first, if they do.
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
