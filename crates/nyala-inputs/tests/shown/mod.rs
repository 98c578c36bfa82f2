//! Points as tests compare them.

use nyala_inputs::{Point, Value};

pub fn shown(point: &Point<'_>) -> String {
    let tags: String = point.tags.iter().map(|(key, value)| format!(",{key}={value}")).collect();
    let fields: Vec<String> = point
        .fields
        .iter()
        .map(|(name, value)| match value {
            Value::Float(value) => format!("{name}={value}"),
            Value::Integer(value) => format!("{name}={value}i"),
        })
        .collect();
    let time = point.time_ns.map_or("now".to_owned(), |time_ns| time_ns.to_string());
    format!("{}{tags} {} {time}", point.measurement, fields.join(","))
}
