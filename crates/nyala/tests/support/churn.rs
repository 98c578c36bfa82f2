//! Random writes, deletes, drops and changes of retention, compared with a model: what a killed server must show after
//! it is started again.
//!
//! One thread sends one request at a time. So when the server is killed, the outcome of every request but the last is
//! known. The last one was executed, or not, or (a deletion) in part.

use super::client::Response;
use super::process::Process;
use rand::Rng;
use rand::rngs::SmallRng;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

const MEASUREMENTS: u64 = 3;
const KEYS: u64 = 4;
/// The number of days of all times, which are in several shards.
const DAYS: i64 = 40;
const DAY_NS: i64 = 86_400_000_000_000;
const BATCH_ROWS: u64 = 60;

/// A row: measurement, key, day.
type Place = (u64, u64, i64);
type Rows = BTreeMap<Place, i64>;

/// A request to the server.
#[derive(Debug, Clone)]
enum Act {
    Write(Vec<(Place, i64)>),
    Delete { measurement: u64, key: Option<u64>, days: (i64, i64) },
    DropSeries { measurement: u64, key: u64 },
    DropMeasurement { measurement: u64 },
}

impl Act {
    fn random(random: &mut SmallRng, number: i64) -> Act {
        let measurement = random.random_range(0..MEASUREMENTS);
        let key = random.random_range(0..KEYS);
        match random.random_range(0..100) {
            0..70 => {
                let count = random.random_range(1..BATCH_ROWS);
                let mut place = || (measurement, random.random_range(0..KEYS), random.random_range(0..DAYS));
                Act::Write((0..count).map(|_| (place(), number)).collect())
            }
            70..86 => {
                let begin = random.random_range(0..DAYS);
                let days = (begin, begin + random.random_range(0..10));
                Act::Delete { measurement, key: random.random_bool(0.5).then_some(key), days }
            }
            86..95 => Act::DropSeries { measurement, key },
            _ => Act::DropMeasurement { measurement },
        }
    }

    fn apply(&self, rows: &mut Rows) {
        match self {
            Act::Write(written) => rows.extend(written.iter().copied()),
            Act::Delete { measurement, key, days } => rows.retain(|place, _| {
                let inside = place.0 == *measurement
                    && key.is_none_or(|key| key == place.1)
                    && (days.0..=days.1).contains(&place.2);
                !inside
            }),
            Act::DropSeries { measurement, key } => {
                rows.retain(|place, _| (place.0, place.1) != (*measurement, *key));
            }
            Act::DropMeasurement { measurement } => rows.retain(|place, _| place.0 != *measurement),
        }
    }

    /// Sends it, for measurements with this prefix; false if the server ended before it answered.
    fn perform(&self, server: &Process, prefix: &str) -> bool {
        let (target, body) = match self {
            Act::Write(written) => {
                let mut lines = String::new();
                for ((measurement, key, day), value) in written {
                    writeln!(lines, "{prefix}{measurement},key=k{key} v={value}i {}", day * DAY_NS)
                        .expect("written");
                }
                ("/write?db=churn".to_owned(), lines)
            }
            Act::Delete { measurement, key, days } => {
                let key = key.map_or_else(String::new, |key| format!(" AND \"key\" = 'k{key}'"));
                let (first, last) = (days.0 * DAY_NS, days.1 * DAY_NS);
                statement(&format!(
                    "DELETE FROM {prefix}{measurement} WHERE time >= {first} AND time <= {last}{key}"
                ))
            }
            Act::DropSeries { measurement, key } => {
                statement(&format!("DROP SERIES FROM {prefix}{measurement} WHERE \"key\" = 'k{key}'"))
            }
            Act::DropMeasurement { measurement } => {
                statement(&format!("DROP MEASUREMENT {prefix}{measurement}"))
            }
        };
        let answer = loop {
            match server.send("POST", &target, body.as_bytes()) {
                // Memory is full: the server says when to retry.
                Ok(answer) if wants_another_try(&answer) => std::thread::sleep(Duration::from_millis(20)),
                Ok(answer) => break answer,
                Err(_) => return false,
            }
        };
        let said = String::from_utf8_lossy(&answer.body).into_owned();
        let fits = match self {
            Act::Write(_) => answer.status == 204,
            // What does not exist need not be removed.
            _ => answer.status == 200 && (!said.contains("\"error\"") || said.contains("not found")),
        };
        assert!(fits, "{self:?} was answered with {}: {said}", answer.status);
        true
    }
}

/// Whether there was no memory: of a statement, the body says so.
fn wants_another_try(answer: &Response) -> bool {
    answer.status == 503 || String::from_utf8_lossy(&answer.body).contains("memory is full, try again")
}

fn statement(text: &str) -> (String, String) {
    (format!("/query?db=churn&q={}", super::client::percent_encode(text)), String::new())
}

/// The model.
pub(crate) struct Churn {
    prefix: String,
    rows: Rows,
    /// The request that was not answered when the server ended.
    last: Option<Act>,
    number: i64,
}

impl Churn {
    pub(crate) fn new(server: &Process) -> Churn {
        Churn::named(server, "m")
    }

    /// One of several models, with its own prefix of measurements.
    pub(crate) fn named(server: &Process, prefix: &str) -> Churn {
        server.query("CREATE DATABASE churn");
        Churn { prefix: prefix.to_owned(), rows: Rows::new(), last: None, number: 0 }
    }

    /// Sends one request to a server that stays.
    pub(crate) fn act_once(&mut self, server: &Process, random: &mut SmallRng) {
        self.number += 1;
        let act = Act::random(random, self.number);
        assert!(act.perform(server, &self.prefix), "{act:?} was not answered");
        act.apply(&mut self.rows);
    }

    /// Compares an aggregate of a measurement, by key and week, with that of the model.
    pub(crate) fn check_sums(&self, server: &Process, random: &mut SmallRng) {
        let (measurement, begin) = (random.random_range(0..MEASUREMENTS), random.random_range(0..DAYS));
        let end = begin + random.random_range(1..DAYS);
        let mut expected: BTreeMap<(u64, i64), (i64, i64, i64)> = BTreeMap::new();
        for ((other, key, day), value) in &self.rows {
            if *other == measurement && (begin..end).contains(day) {
                let (count, sum, most) = expected.entry((*key, day / 7 * 7)).or_insert((0, 0, i64::MIN));
                (*count, *sum, *most) = (*count + 1, *sum + value, (*most).max(*value));
            }
        }
        let name = format!("{}{measurement}", self.prefix);
        let text = format!(
            "SELECT count(v), sum(v), max(v) FROM churn.autogen.{name} WHERE time >= {} AND time < {} \
             GROUP BY time(7d), \"key\" fill(none)",
            begin * DAY_NS,
            end * DAY_NS
        );
        let mut found = BTreeMap::new();
        for_each_row(server, &text, |key, row| {
            let numbers: Vec<i64> = row.iter().map(|cell| cell.as_i64().expect("an integer")).collect();
            found.insert((key, numbers[0] / DAY_NS), (numbers[1], numbers[2], numbers[3]));
        });
        assert!(found == expected, "{text}: {found:?}, not {expected:?}");
    }

    /// Sends requests until the server ends.
    pub(crate) fn act(&mut self, server: &Process, random: &mut SmallRng) {
        loop {
            self.number += 1;
            let act = Act::random(random, self.number);
            if !act.perform(server, &self.prefix) {
                self.last = Some(act);
                return;
            }
            act.apply(&mut self.rows);
        }
    }

    /// Compares with what the server shows, and continues from there.
    pub(crate) fn check(&mut self, server: &Process) {
        let found = read(server, &self.prefix);
        let mut after = self.rows.clone();
        let last = self.last.take();
        if let Some(last) = &last {
            last.apply(&mut after);
        }
        match &last {
            // Half a batch would be neither state.
            None | Some(Act::Write(_)) => assert!(
                found == self.rows || found == after,
                "{}",
                difference(&found, if last.is_some() { &after } else { &self.rows })
            ),
            Some(last) => {
                let kept = after.iter().all(|(place, value)| found.get(place) == Some(value));
                let known = found.iter().all(|(place, value)| self.rows.get(place) == Some(value));
                assert!(kept && known, "after {last:?}: {}", difference(&found, &after));
            }
        }
        self.rows = found;
    }
}

/// All rows the server shows.
fn read(server: &Process, prefix: &str) -> Rows {
    let mut rows = Rows::new();
    for measurement in 0..MEASUREMENTS {
        let text = format!("SELECT v FROM churn.autogen.{prefix}{measurement} GROUP BY \"key\"");
        for_each_row(server, &text, |key, row| {
            let day = row[0].as_i64().expect("a time") / DAY_NS;
            rows.insert((measurement, key, day), row[1].as_i64().expect("a value"));
        });
    }
    rows
}

/// Visits the rows that a query by key answers with, each with its key.
fn for_each_row(server: &Process, text: &str, mut visit: impl FnMut(u64, &[serde_json::Value])) {
    let answer = server.query(text);
    let result = &answer["results"][0];
    assert!(result.get("error").is_none(), "{text}: {answer}");
    for series in result["series"].as_array().into_iter().flatten() {
        let key = series["tags"]["key"].as_str().and_then(|key| key.strip_prefix('k'));
        let key: u64 = key.and_then(|key| key.parse().ok()).expect("a key");
        for row in series["values"].as_array().into_iter().flatten() {
            visit(key, row.as_array().expect("a row"));
        }
    }
}

fn difference(found: &Rows, expected: &Rows) -> String {
    let lost: Vec<_> = expected.iter().filter(|(place, value)| found.get(place) != Some(value)).collect();
    let back: Vec<_> = found.iter().filter(|(place, value)| expected.get(place) != Some(value)).collect();
    format!("expected and not there: {lost:?}; there and not expected: {back:?}")
}
