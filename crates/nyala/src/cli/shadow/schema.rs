//! Which databases, policies, measurements and fields the servers have, and queries made of that: of each measurement,
//! by the hour, how many values, their mean, the first and the last one.

use super::answer::SeriesKey;
use super::question::{Question, RowsBehind, shown_time};
use super::servers::{Server, Servers};
use crate::cli::import::source::INTERNAL;
use nyala_influxdb::meta::Policy;
use nyala_query::influxql::{identifier, literal, parse_duration};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Fields of one query: each of them is up to four columns.
const QUERY_FIELDS_MAX: usize = 8;
const HOUR_NS: i64 = 3_600_000_000_000;

/// Fields of a measurement, and whether they are numbers.
type Fields = BTreeMap<String, bool>;

/// The databases that are meant: those that were named, or all that InfluxDB has.
pub(super) fn databases(influxdb: &Server, named: &[String]) -> Result<Vec<String>, String> {
    let answer = influxdb.execute("", "SHOW DATABASES")?;
    let known: Vec<String> = rows(&answer).filter_map(|row| text(&row[0])).collect();
    if let Some(unknown) = named.iter().find(|name| !known.contains(name)) {
        return Err(format!("{} has no database {unknown:?}", influxdb.named()));
    }
    let is_meant = |name: &String| if named.is_empty() { name != INTERNAL } else { named.contains(name) };
    let meant: Vec<String> = known.into_iter().filter(is_meant).collect();
    match meant.is_empty() {
        true => Err(format!("{} has no databases", influxdb.named())),
        false => Ok(meant),
    }
}

/// The policies of a database in their order, and which of them is the default; `None` if there is no such database.
pub(super) fn policies(server: &Server, database: &str) -> Result<Option<Vec<(Policy, bool)>>, String> {
    let answer = server.execute("", &format!("SHOW RETENTION POLICIES ON {}", identifier(database)));
    let answer = match answer {
        Err(words) if words.contains("database not found") => return Ok(None),
        answer => answer?,
    };
    let read = |row: &Value| {
        let duration_ns = |value: &Value| parse_duration(value.as_str()?).ok();
        let policy = Policy {
            name: text(&row[0])?,
            duration_ns: duration_ns(&row[1])?,
            shard_duration_ns: duration_ns(&row[2])?,
            replication: 1,
            ..Policy::default()
        };
        Some((policy, row[4].as_bool()?))
    };
    let policies: Option<Vec<_>> = rows(&answer).map(read).collect();
    policies.map(Some).ok_or_else(|| format!("{} lists policies in an unknown form", server.named()))
}

/// Queries for all measurements of a database, of points from one time up to another.
pub(super) fn questions(
    servers: &Servers,
    database: &str,
    from_ns: i64,
    to_ns: i64,
) -> Result<Vec<Question>, String> {
    let mut questions = Vec::new();
    for (policy, _) in policies(&servers.influxdb, database)?.unwrap_or_default() {
        // InfluxDB shows points until their shard is dropped, nyala does not.
        let oldest_ns = match policy.duration_ns {
            0 => i64::MIN,
            duration_ns => to_ns.saturating_sub(duration_ns),
        };
        let from_ns = from_ns.max(oldest_ns);
        let mut measurements = fields(&servers.influxdb, database, &policy.name)?;
        // Without the policy, the queries say so.
        for (name, own) in fields(&servers.nyala, database, &policy.name).unwrap_or_default() {
            let known = measurements.entry(name).or_default();
            own.into_iter().for_each(|(field, is_number)| add_field(known, field, is_number));
        }
        for (name, fields) in &measurements {
            let measurement =
                format!("{}.{}.{}", identifier(database), identifier(&policy.name), identifier(name));
            let rows = RowsBehind { measurement, from_ns, to_ns };
            let fields: Vec<(&String, &bool)> = fields.iter().collect();
            questions.extend(fields.chunks(QUERY_FIELDS_MAX).map(|part| by_the_hour(database, part, &rows)));
        }
    }
    Ok(questions)
}

/// The query for the rows of an hour in which a query by the hour differs.
pub(super) fn rows_of_hour(rows: &RowsBehind, key: &SeriesKey, hour_ns: i64) -> String {
    let (from_ns, to_ns) = (hour_ns.max(rows.from_ns), hour_ns.saturating_add(HOUR_NS).min(rows.to_ns));
    let mut query = format!("SELECT * FROM {} WHERE {}", rows.measurement, within(from_ns, to_ns));
    for (tag, value) in &key.tags {
        write!(query, " AND {} = {}", identifier(tag), literal(value))
            .expect("writing to memory does not fail");
    }
    query + " GROUP BY *"
}

fn by_the_hour(database: &str, fields: &[(&String, &bool)], rows: &RowsBehind) -> Question {
    let mut columns = Vec::new();
    for (field, is_number) in fields {
        for (function, numbers_only) in [("count", false), ("mean", true), ("first", false), ("last", false)]
        {
            if **is_number || !numbers_only {
                let alias = identifier(&format!("{function} {field}"));
                columns.push(format!("{function}({}) AS {alias}", identifier(field)));
            }
        }
    }
    let names: Vec<&str> = fields.iter().map(|(field, _)| field.as_str()).collect();
    let RowsBehind { measurement, from_ns, to_ns } = rows;
    Question {
        database: database.to_owned(),
        shown: format!("{measurement} by the hour: {}", names.join(", ")),
        text: format!(
            "SELECT {} FROM {measurement} WHERE {} GROUP BY time(1h), * fill(none)",
            columns.join(", "),
            within(*from_ns, *to_ns)
        ),
        unreadable: None,
        rows: Some(rows.clone()),
    }
}

fn within(from_ns: i64, to_ns: i64) -> String {
    format!("time >= '{}' AND time < '{}'", shown_time(from_ns), shown_time(to_ns))
}

/// The measurements of a policy with their fields.
fn fields(server: &Server, database: &str, policy: &str) -> Result<BTreeMap<String, Fields>, String> {
    let query = format!("SHOW FIELD KEYS ON {} FROM {}./.*/", identifier(database), identifier(policy));
    let answer = server.execute(database, &query)?;
    let mut measurements: BTreeMap<String, Fields> = BTreeMap::new();
    for series in answer["series"].as_array().into_iter().flatten() {
        let Some(name) = text(&series["name"]) else { continue };
        let fields = measurements.entry(name).or_default();
        for row in series["values"].as_array().into_iter().flatten() {
            let Some(field) = text(&row[0]) else { continue };
            let is_number = matches!(row[1].as_str(), Some("float" | "integer" | "unsigned"));
            add_field(fields, field, is_number);
        }
    }
    Ok(measurements)
}

/// A field may have another type in another shard, or in the other server.
fn add_field(fields: &mut Fields, field: String, is_number: bool) {
    fields.entry(field).and_modify(|known| *known &= is_number).or_insert(is_number);
}

/// The rows of a statement's answer.
pub(super) fn rows(answer: &Value) -> impl Iterator<Item = &Value> {
    let series = answer["series"].as_array().into_iter().flatten();
    series.flat_map(|series| series["values"].as_array().into_iter().flatten())
}

pub(super) fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_quotes_are_asked_for_as_they_are() {
        let rows = RowsBehind { measurement: "\"d\".\"p\".\"m\"".to_owned(), from_ns: 5, to_ns: HOUR_NS + 5 };
        let question = by_the_hour("d", &[(&"a\"b".to_owned(), &true), (&"s".to_owned(), &false)], &rows);
        assert_eq!(
            question.text,
            "SELECT count(\"a\\\"b\") AS \"count a\\\"b\", mean(\"a\\\"b\") AS \"mean a\\\"b\", \
             first(\"a\\\"b\") AS \"first a\\\"b\", last(\"a\\\"b\") AS \"last a\\\"b\", count(\"s\") AS \"count s\", \
             first(\"s\") AS \"first s\", last(\"s\") AS \"last s\" FROM \"d\".\"p\".\"m\" \
             WHERE time >= '1970-01-01T00:00:00.000000005Z' AND time < '1970-01-01T01:00:00.000000005Z' \
             GROUP BY time(1h), * fill(none)"
        );
        let tags = BTreeMap::from([("h".to_owned(), "it's".to_owned())]);
        let key = SeriesKey { name: "m".to_owned(), tags };
        assert_eq!(
            rows_of_hour(&rows, &key, HOUR_NS),
            "SELECT * FROM \"d\".\"p\".\"m\" WHERE time >= '1970-01-01T01:00:00Z' AND \
             time < '1970-01-01T01:00:00.000000005Z' AND \"h\" = 'it\\'s' GROUP BY *"
        );
    }
}
