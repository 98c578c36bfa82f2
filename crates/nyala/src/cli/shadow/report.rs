//! What came of a comparison: lines for people, objects of JSON for programs.

use super::difference::{Difference, Differences, Kind, Outcome};
use super::question::Question;
use super::subscription::Sent;
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The answers to a query.
#[derive(Debug, Serialize)]
pub(super) struct Comparison {
    pub(super) database: String,
    /// The query as the user wrote it, or what it is about.
    pub(super) query: String,
    /// The query as it was sent.
    sent: String,
    /// Rows that InfluxDB answered.
    pub(super) rows: u64,
    pub(super) influxdb_ms: Option<f64>,
    pub(super) nyala_ms: Option<f64>,
    /// Why InfluxDB refused the query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    /// Why it was not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(flatten)]
    pub(super) differences: Differences,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rows_behind: Option<RowsReport>,
    /// Whether it may come out in another way if it is asked again.
    #[serde(skip)]
    pub(super) can_change: bool,
}

/// The rows of an hour in which a query by the hour differs.
#[derive(Debug, Serialize)]
pub(super) struct RowsReport {
    pub(super) query: String,
    #[serde(flatten)]
    pub(super) differences: Differences,
}

/// Answers to all queries.
#[derive(Debug, Serialize)]
pub(super) struct Round {
    round: u64,
    time: String,
    outcomes: BTreeMap<Outcome, u64>,
    influxdb_ms: f64,
    nyala_ms: f64,
    subscriptions: Vec<Sent>,
    /// Requests that InfluxDB has lost before they came to a subscription.
    lost_before_subscriptions: u64,
    queries: Vec<Comparison>,
}

/// What came of all rounds.
#[derive(Debug, Default, Serialize)]
pub(super) struct Summary {
    rounds: u64,
    /// Rounds in which a server could not be asked.
    pub(super) failed_rounds: u64,
    outcomes: BTreeMap<Outcome, u64>,
    queries: BTreeMap<String, OfQuery>,
}

/// What came of a query in all rounds.
#[derive(Debug, Default, Serialize)]
struct OfQuery {
    outcomes: BTreeMap<Outcome, u64>,
    influxdb: Latency,
    nyala: Latency,
}

#[derive(Debug, Default, Serialize)]
struct Latency {
    #[serde(skip)]
    count: u64,
    #[serde(skip)]
    sum_ms: f64,
    mean_ms: f64,
    max_ms: f64,
}

impl Comparison {
    pub(super) fn of(question: &Question) -> Self {
        Self {
            database: question.database.clone(),
            query: question.shown.clone(),
            sent: question.text.clone(),
            rows: 0,
            influxdb_ms: None,
            nyala_ms: None,
            error: None,
            reason: None,
            differences: Differences::none(0),
            rows_behind: None,
            can_change: true,
        }
    }

    pub(super) fn not_compared(&mut self, reason: String) {
        self.reason = Some(reason);
        self.differences.outcome = Outcome::NotCompared;
    }

    /// nyala's parser refuses the query. It was sent to nobody, because nobody knows what it does.
    pub(super) fn refuse_unreadable(&mut self, error: &str) {
        self.reason = Some(format!("nyala cannot read it, and so it was not sent to InfluxDB: {error}"));
        self.differences.outcome = Outcome::Error;
        self.can_change = false;
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let Self { database, query, rows, .. } = self;
        let place = if database.is_empty() { String::new() } else { format!("{database}: ") };
        let heading = nyala_shell::escaped(&format!("{place}{query}")).into_owned();
        writeln!(text, "{:<12} {heading}", word(self.differences.outcome))?;
        if let (Some(influxdb_ms), Some(own_ms)) = (self.influxdb_ms, self.nyala_ms) {
            write!(text, "             {rows} rows; InfluxDB {influxdb_ms:.1} ms, nyala {own_ms:.1} ms")?;
            if let Some(error) = self.error.as_ref().filter(|_| self.differences.outcome == Outcome::Equal) {
                write!(text, "; both refuse: {}", nyala_shell::escaped(error))?;
            }
            writeln!(text)?;
        }
        if let Some(reason) = &self.reason {
            writeln!(text, "             {}", nyala_shell::escaped(reason))?;
        }
        write_differences(text, &self.differences, "             ")?;
        if let Some(RowsReport { query, differences }) = &self.rows_behind {
            writeln!(text, "             its rows: {}", nyala_shell::escaped(query))?;
            write_differences(text, differences, "               ")?;
        }
        Ok(())
    }
}

fn write_differences(text: &mut String, differences: &Differences, indent: &str) -> std::fmt::Result {
    for difference in &differences.listed {
        writeln!(text, "{indent}{}", sentence(difference))?;
    }
    let total: u64 = differences.counts.values().sum();
    if total > differences.listed.len() as u64 {
        let counts = differences.counts.iter().map(|(kind, count)| format!("{count} {}", plural(*kind)));
        writeln!(text, "{indent}in all: {}", counts.collect::<Vec<_>>().join(", "))?;
    }
    Ok(())
}

/// A difference in words.
fn sentence(difference: &Difference) -> String {
    let raw = |value: &Option<Box<RawValue>>| {
        let value = value.as_ref().map_or("nothing", |value| value.get());
        nyala_shell::escaped(value).into_owned()
    };
    let (influxdb, nyala) = (raw(&difference.influxdb), raw(&difference.nyala));
    let series = difference.series.as_deref().unwrap_or_default();
    let time = difference.time.as_ref().map(|time| format!(" {time}")).unwrap_or_default();
    let first = difference.time.as_ref().map(|time| format!(", the first at {time}")).unwrap_or_default();
    let column = difference.column.as_deref().unwrap_or_default();
    match difference.kind {
        Kind::Value => {
            let column = nyala_shell::escaped(column);
            format!("{series}{time} {column}: InfluxDB has {influxdb}, nyala {nyala}")
        }
        Kind::MissingRow => format!("{series}{time}: nyala lacks the row {influxdb}"),
        Kind::ExtraRow => format!("{series}{time}: only nyala has the row {nyala}"),
        Kind::MissingSeries => format!("{series}: nyala lacks the series (rows: {influxdb}{first})"),
        Kind::ExtraSeries => format!("{series}: only nyala has the series (rows: {nyala}{first})"),
        Kind::Columns => format!("{series}: InfluxDB has the columns {influxdb}, nyala {nyala}"),
        Kind::Error => format!("InfluxDB says {influxdb}, nyala {nyala}"),
    }
}

fn plural(kind: Kind) -> &'static str {
    match kind {
        Kind::Value => "values that differ",
        Kind::MissingRow => "rows that nyala lacks",
        Kind::ExtraRow => "rows that only nyala has",
        Kind::MissingSeries => "series that nyala lacks",
        Kind::ExtraSeries => "series that only nyala has",
        Kind::Columns => "series with other columns",
        Kind::Error => "errors that differ",
    }
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Equal => "equal",
        Outcome::Close => "close",
        Outcome::NotCompared => "not compared",
        Outcome::Order => "ORDER",
        Outcome::Different => "DIFFERENT",
        Outcome::Error => "ERROR",
    }
}

fn counted(outcomes: &BTreeMap<Outcome, u64>) -> String {
    let words = outcomes.iter().map(|(outcome, count)| format!("{count} {}", word(*outcome).to_lowercase()));
    words.collect::<Vec<_>>().join(", ")
}

impl Round {
    pub(super) fn new(
        round: u64,
        time: String,
        subscriptions: Vec<Sent>,
        lost_before_subscriptions: u64,
        queries: Vec<Comparison>,
    ) -> Self {
        let mut outcomes = BTreeMap::new();
        for own in &queries {
            *outcomes.entry(own.differences.outcome).or_default() += 1;
        }
        let sum = |of: fn(&Comparison) -> Option<f64>| queries.iter().filter_map(of).sum();
        let (influxdb_ms, nyala_ms) = (sum(|own| own.influxdb_ms), sum(|own| own.nyala_ms));
        Self {
            round,
            time,
            outcomes,
            influxdb_ms,
            nyala_ms,
            subscriptions,
            lost_before_subscriptions,
            queries,
        }
    }

    pub(super) fn json(&self) -> String {
        format!("{}\n", serde_json::to_string(self).expect("it is JSON"))
    }

    /// With `all`, answers that are equal are listed, too.
    pub(super) fn text(&self, all: bool) -> String {
        let mut text = String::new();
        let mut write = || -> std::fmt::Result {
            let is_shown = |own: &&Comparison| all || own.differences.outcome > Outcome::Close;
            self.queries.iter().filter(is_shown).try_for_each(|own| own.write(&mut text))?;
            self.subscriptions.iter().try_for_each(|sent| writeln!(text, "{}", sent.line()))?;
            if self.lost_before_subscriptions > 0 {
                let lost = self.lost_before_subscriptions;
                writeln!(text, "InfluxDB has LOST {lost} requests before they came to any subscription")?;
            }
            let Self { round, time, influxdb_ms, nyala_ms: own_ms, .. } = self;
            let number = if all { String::new() } else { format!("round {round}, ") };
            writeln!(
                text,
                "{number}{time}: of {} queries {}; InfluxDB took {influxdb_ms:.1} ms, nyala {own_ms:.1} ms",
                self.queries.len(),
                counted(&self.outcomes)
            )
        };
        write().expect("writing to memory does not fail");
        text
    }
}

impl Summary {
    pub(super) fn add(&mut self, round: &Round) {
        self.rounds += 1;
        for own in &round.queries {
            let outcome = own.differences.outcome;
            *self.outcomes.entry(outcome).or_default() += 1;
            let place = if own.database.is_empty() { String::new() } else { format!("{}: ", own.database) };
            let of_query = self.queries.entry(format!("{place}{}", own.query)).or_default();
            *of_query.outcomes.entry(outcome).or_default() += 1;
            of_query.influxdb.add(own.influxdb_ms);
            of_query.nyala.add(own.nyala_ms);
        }
    }

    /// Whether any answer came out so.
    pub(super) fn has(&self, test: impl Fn(Outcome) -> bool) -> bool {
        self.outcomes.keys().any(|outcome| test(*outcome))
    }

    /// Whether nothing was asked.
    pub(super) fn is_empty(&self) -> bool {
        self.outcomes.is_empty()
    }

    pub(super) fn json(&self) -> String {
        format!("{}\n", serde_json::json!({ "summary": self }))
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let mut write = || -> std::fmt::Result {
            writeln!(text, "\nAll rounds, milliseconds (mean, max):")?;
            for (query, own) in &self.queries {
                let OfQuery { outcomes, influxdb, nyala } = own;
                writeln!(text, "{}", nyala_shell::escaped(query))?;
                writeln!(
                    text,
                    "             {}; InfluxDB {:.1}, {:.1}; nyala {:.1}, {:.1}",
                    counted(outcomes),
                    influxdb.mean_ms,
                    influxdb.max_ms,
                    nyala.mean_ms,
                    nyala.max_ms
                )?;
            }
            let failed = match self.failed_rounds {
                0 => String::new(),
                failed => format!(", and {failed} rounds in which a server could not be asked"),
            };
            let answers: u64 = self.outcomes.values().sum();
            let outcomes = counted(&self.outcomes);
            writeln!(text, "{} rounds with {answers} comparisons: {outcomes}{failed}", self.rounds)
        };
        write().expect("writing to memory does not fail");
        text
    }
}

impl Latency {
    fn add(&mut self, milliseconds: Option<f64>) {
        let Some(milliseconds) = milliseconds else { return };
        self.count += 1;
        self.sum_ms += milliseconds;
        self.mean_ms = (self.sum_ms / self.count as f64 * 1e3).round() / 1e3;
        self.max_ms = self.max_ms.max(milliseconds);
    }
}
