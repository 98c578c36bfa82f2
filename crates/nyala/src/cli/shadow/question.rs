//! What both servers are asked: queries of a file, which must not change anything.

use nyala_query::influxql::{Params, Statement, TimeLiteral, parse_query};
use regex::{Captures, Regex};
use std::io::Read;
use std::path::Path;

/// A longer file is not one of chosen queries.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// A query.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) database: String,
    /// What the report says.
    pub(super) shown: String,
    /// What is sent.
    pub(super) text: String,
    /// Why it cannot be sent.
    pub(super) unreadable: Option<String>,
    /// What the rows are from that it counts by the hour.
    pub(super) rows: Option<RowsBehind>,
}

/// The rows behind a query that counts by the hour.
#[derive(Clone, Debug)]
pub(super) struct RowsBehind {
    /// The measurement, in quotes.
    pub(super) measurement: String,
    /// The times that are asked for.
    pub(super) from_ns: i64,
    pub(super) to_ns: i64,
}

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    text: String,
    /// Why nyala cannot read it.
    unreadable: Option<String>,
}

/// The queries of a file: a statement per line, and lines with comments.
pub(super) fn read_file(path: &Path) -> Result<Vec<Line>, String> {
    let failed = |error: std::io::Error| format!("reading {}: {error}", path.display());
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("{} is longer than {} MiB", path.display(), FILE_BYTES_MAX >> 20));
    }
    lines(&text).map_err(|error| format!("{}, {error}", path.display()))
}

fn lines(text: &str) -> Result<Vec<Line>, String> {
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim().trim_end_matches(';').trim_end();
        if line.is_empty() || line.starts_with("--") {
            continue;
        }
        let unreadable = match parse_query(line, &Params::default()) {
            Ok(statements) => {
                check(&statements).map_err(|error| format!("line {number}: {error}"))?;
                None
            }
            Err(error) => Some(error.to_string()),
        };
        lines.push(Line { text: line.to_owned(), unreadable });
    }
    match lines.is_empty() {
        true => Err("it has no queries: it should have a statement per line".to_owned()),
        false => Ok(lines),
    }
}

/// Lets through what only reads.
fn check(statements: &[Statement]) -> Result<(), String> {
    let [statement] = statements else { return Err("there must be one statement per line".to_owned()) };
    match statement {
        Statement::Select(select) if select.target.is_some() => {
            Err("a query with INTO writes, and is not executed".to_owned())
        }
        Statement::Select(_)
        | Statement::ShowCardinality(_)
        | Statement::ShowContinuousQueries
        | Statement::ShowDatabases
        | Statement::ShowDiagnostics { .. }
        | Statement::ShowFieldKeys(_)
        | Statement::ShowGrants { .. }
        | Statement::ShowMeasurements(_)
        | Statement::ShowQueries
        | Statement::ShowSlowestQueries
        | Statement::ShowRetentionPolicies { .. }
        | Statement::ShowSeries(_)
        | Statement::ShowShardGroups
        | Statement::ShowShards
        | Statement::ShowStats { .. }
        | Statement::ShowSubscriptions
        | Statement::ShowTagKeys(_)
        | Statement::ShowTagValues { .. }
        | Statement::ShowUsers => Ok(()),
        _ => Err("only SELECT and SHOW of InfluxDB 1.x are executed".to_owned()),
    }
}

impl Line {
    /// The query in a database, with `now()` as the same moment for both servers.
    pub(super) fn question(&self, database: &str, now_ns: i64) -> Question {
        Question {
            database: database.to_owned(),
            shown: self.text.clone(),
            text: with_now(&self.text, now_ns),
            unreadable: self.unreadable.clone(),
            rows: None,
        }
    }
}

/// Puts a time in the place of `now()`, but not within quotes.
fn with_now(text: &str, now_ns: i64) -> String {
    let pattern = r#"(?i)'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\bnow\(\s*\)"#;
    let pattern = Regex::new(pattern).expect("it is a regular expression");
    let moment = shown_time(now_ns);
    let replaced = pattern.replace_all(text, |found: &Captures<'_>| match &found[0] {
        quoted if quoted.starts_with(['\'', '"']) => quoted.to_owned(),
        _ => format!("'{moment}'"),
    });
    replaced.into_owned()
}

/// A time as InfluxQL has it, without quotes.
pub(super) fn shown_time(time_ns: i64) -> String {
    TimeLiteral::utc(i128::from(time_ns)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_query_per_line_that_only_reads() {
        let text = "-- of the dashboard\n\nSELECT mean(v) FROM m;\n  SHOW SERIES FROM m\nSELECT FROM\n";
        let read = lines(text).unwrap();
        assert_eq!(read.len(), 3);
        assert_eq!((&*read[0].text, &read[0].unreadable), ("SELECT mean(v) FROM m", &None));
        assert!(read[2].unreadable.as_ref().unwrap().contains("found FROM"), "{read:?}");
        for (text, wanted) in [
            ("SHOW DATABASES\nSELECT v INTO n FROM m", "line 2: a query with INTO writes"),
            ("DROP SERIES FROM m", "line 1: only SELECT and SHOW"),
            ("DELETE FROM m", "only SELECT and SHOW"),
            ("EXPLAIN ANALYZE SELECT v FROM m", "only SELECT and SHOW"),
            ("SELECT v FROM m; DROP DATABASE d", "one statement per line"),
            ("-- nothing\n", "no queries"),
        ] {
            let error = lines(text).unwrap_err();
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }

    #[test]
    fn now_is_the_same_moment_for_both() {
        assert_eq!(
            with_now(r#"SELECT "now()" FROM m WHERE s = 'it\'s now()' AND time > NOW( ) - 1h"#, 1),
            r#"SELECT "now()" FROM m WHERE s = 'it\'s now()' AND time > '1970-01-01T00:00:00.000000001Z' - 1h"#
        );
    }
}
