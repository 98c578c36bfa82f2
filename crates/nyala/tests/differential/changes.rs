//! Changes of stored data between queries: deletions, and points that are written again.

use crate::data::{Measurement, Schema};
use crate::grammar::pick;
use rand::Rng;
use rand::rngs::SmallRng;

/// A change that both servers execute.
pub enum Change {
    Query(String),
    Lines(Vec<String>),
}

pub fn change(schema: &Schema, random: &mut SmallRng) -> Change {
    let measurement = pick(random, &schema.measurements);
    match random.random_range(0..100) {
        0..40 => {
            let mut lines = measurement.lines(random);
            let count = random.random_range(1..=lines.len());
            lines.truncate(count);
            Change::Lines(lines)
        }
        40..70 => Change::Query(delete(measurement, random)),
        70..90 => {
            Change::Query(format!("DROP SERIES FROM {} WHERE {}", measurement.name, tag(measurement, random)))
        }
        90..95 => Change::Query(format!("DROP SERIES WHERE {}", tag(measurement, random))),
        95..97 => Change::Query(format!("DROP MEASUREMENT {}", measurement.name)),
        _ => Change::Query(format!("DELETE FROM /{}/", &measurement.name[..1])),
    }
}

fn delete(measurement: &Measurement, random: &mut SmallRng) -> String {
    let (start_s, end_s) = measurement.range_s();
    let from_s = random.random_range(start_s..end_s);
    let to_s = from_s + random.random_range(1..=(end_s - start_s) / 4 + 1);
    let mut parts = Vec::new();
    if random.random_bool(0.8) {
        parts.push(match random.random_range(0..4) {
            0 => format!("time < {}s", start_s + (end_s - start_s) / 8),
            1 => format!("time = {from_s}s"),
            _ => format!("time >= {from_s}s AND time < {to_s}s"),
        });
    }
    if parts.is_empty() || random.random_bool(0.4) {
        parts.push(tag(measurement, random));
    }
    format!("DELETE FROM {} WHERE {}", measurement.name, parts.join(" AND "))
}

fn tag(measurement: &Measurement, random: &mut SmallRng) -> String {
    let tag = pick(random, &measurement.tags);
    let value = pick(random, &tag.values);
    match random.random_range(0..5) {
        0 => format!("{} =~ /[{}4]$/", tag.name, &value[value.len() - 1..]),
        1 => format!("{} = ''", tag.name),
        _ => format!("{} = '{value}'", tag.name),
    }
}
