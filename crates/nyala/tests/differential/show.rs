//! Random SHOW statements with all their clauses.

use crate::data::{Measurement, Schema};
use crate::grammar::pick;
use rand::Rng;
use rand::rngs::SmallRng;

/// A SHOW statement about what is stored.
pub fn show(schema: &Schema, database: &str, random: &mut SmallRng) -> String {
    let measurement = pick(random, &schema.measurements);
    let on = if random.random_bool(0.2) { format!(" ON {database}") } else { String::new() };
    let from = from(schema, measurement, random);
    let condition = condition(schema, measurement, random);
    let key = with_key(measurement, random);
    let limit = limit(["LIMIT", "OFFSET"], random);
    let series_limit =
        if random.random_bool(0.2) { self::limit(["SLIMIT", "SOFFSET"], random) } else { String::new() };
    let exact = if random.random_bool(0.5) { " EXACT" } else { "" };
    match random.random_range(0..17) {
        0 => format!("SHOW MEASUREMENTS{on}{condition}{limit}"),
        1 => {
            let with = match random.random_range(0..4) {
                0 => format!(" WITH MEASUREMENT = {}", measurement.name),
                1 => format!(" WITH MEASUREMENT != {}", measurement.name),
                2 => format!(" WITH MEASUREMENT !~ /{}/", &measurement.name[..1]),
                _ => " WITH MEASUREMENT =~ /^[cn]/".to_owned(),
            };
            format!("SHOW MEASUREMENTS{on}{with}{condition}{limit}")
        }
        2 | 3 => format!("SHOW TAG KEYS{on}{from}{condition}{limit}{series_limit}"),
        4..=6 => format!("SHOW TAG VALUES{on}{from}{key}{condition}{limit}{series_limit}"),
        7 => format!("SHOW FIELD KEYS{on}{from}{limit}{series_limit}"),
        8 | 9 => format!("SHOW SERIES{on}{from}{condition}{limit}"),
        // The simplest forms are estimates in InfluxDB, which deletions make wrong.
        10 | 11 if exact.is_empty() && from.is_empty() && condition.is_empty() => "SHOW DATABASES".to_owned(),
        10 => format!("SHOW SERIES{exact} CARDINALITY{on}{from}{condition}"),
        11 => format!("SHOW MEASUREMENT{exact} CARDINALITY{on}{from}{condition}"),
        12 => format!("SHOW TAG KEY{exact} CARDINALITY{on}{from}{condition}"),
        13 => format!("SHOW TAG VALUES{exact} CARDINALITY{on}{from}{key}{condition}"),
        14 => format!("SHOW FIELD KEY{exact} CARDINALITY{on}{from}"),
        15 => format!("SHOW RETENTION POLICIES{on}"),
        _ => "SHOW DATABASES".to_owned(),
    }
}

fn from(schema: &Schema, measurement: &Measurement, random: &mut SmallRng) -> String {
    let name = measurement.name;
    match random.random_range(0..6) {
        0 | 1 => String::new(),
        2 => format!(" FROM {name}"),
        3 => format!(" FROM {}, {name}", pick(random, &schema.measurements).name),
        4 => " FROM nothing".to_owned(),
        _ => format!(" FROM /{}|e/", &name[..1]),
    }
}

fn with_key(measurement: &Measurement, random: &mut SmallRng) -> String {
    let tag = pick(random, &measurement.tags).name;
    match random.random_range(0..7) {
        0 => " WITH KEY =~ /r/".to_owned(),
        1 => " WITH KEY !~ /ne$/".to_owned(),
        2 => format!(" WITH KEY != {tag}"),
        3 => format!(" WITH KEY IN (zone, {tag}, nothing)"),
        _ => format!(" WITH KEY = \"{tag}\""),
    }
}

fn condition(schema: &Schema, measurement: &Measurement, random: &mut SmallRng) -> String {
    if random.random_bool(0.5) {
        return String::new();
    }
    let mut parts = vec![comparison(schema, measurement, random)];
    while random.random_bool(0.3) {
        parts.push(comparison(schema, measurement, random));
    }
    format!(" WHERE {}", parts.join(*pick(random, &[" AND ", " OR "])))
}

fn comparison(schema: &Schema, measurement: &Measurement, random: &mut SmallRng) -> String {
    let tag = pick(random, &measurement.tags);
    let value = pick(random, &tag.values).clone();
    let operator = *pick(random, &["=", "!="]);
    // InfluxDB decides by the last shard only whether a name is a field.
    let kinds = if schema.is_in_one_shard() { 11 } else { 8 };
    match random.random_range(0..kinds) {
        8 => format!("value {operator} '{value}'"),
        9 => {
            format!("value {} /[{}3]$/", if operator == "=" { "=~" } else { "!~" }, &value[value.len() - 1..])
        }
        10 => format!("_tagKey {operator} '{}'", tag.name),
        0 => format!("{} {operator} ''", tag.name),
        1 => format!("{} =~ /[{}3]$/", tag.name, &value[value.len() - 1..]),
        2 => format!("{} !~ /{}/", tag.name, &value[value.len() - 1..]),
        3 => format!("nothing {operator} '{value}'"),
        _ => format!("{} {operator} '{value}'", tag.name),
    }
}

fn limit(words: [&str; 2], random: &mut SmallRng) -> String {
    let mut text = String::new();
    for word in words {
        if random.random_bool(0.3) {
            text.push_str(&format!(" {word} {}", random.random_range(0..4)));
        }
    }
    text
}
