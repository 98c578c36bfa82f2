//! What one answer has and the other has not.
//!
//! Rows of a series belong together if they have the same time, and of those with the same time the equal ones do. Rows
//! without a time (SHOW …) are equal or missing. Numbers are equal if they are written alike, or if one of them has a
//! fraction and they differ by no more than the tolerance: the two add up floats in different orders.

use super::answer::{Answer, Row, Series, SeriesKey};
use nyala_query::influxql::TimeLiteral;
use serde::Serialize;
use serde_json::value::RawValue;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// How far numbers with a fraction may differ.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tolerance {
    /// Of the larger one.
    pub(super) share: f64,
    pub(super) absolute: f64,
}

/// What became of a comparison; the worst is last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    Equal,
    /// Numbers differ within the tolerance.
    Close,
    /// There is no answer to compare.
    NotCompared,
    /// The same rows in another order.
    Order,
    Different,
    /// One of the two refuses the query, or they refuse it for different reasons.
    Error,
}

/// What is different.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    /// A value of a row that both have.
    Value,
    /// A row that only InfluxDB has.
    MissingRow,
    /// A row that only nyala has.
    ExtraRow,
    /// A series that only InfluxDB has.
    MissingSeries,
    /// A series that only nyala has.
    ExtraSeries,
    /// The columns are others.
    Columns,
    /// The errors are others.
    Error,
}

/// A difference. Values are as the servers sent them.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Difference {
    pub(super) kind: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) series: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) column: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) influxdb: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) nyala: Option<Box<RawValue>>,
    /// For who asks for more.
    #[serde(skip)]
    pub(super) place: Option<(SeriesKey, i64)>,
}

/// All differences of two answers, of which the first ones are listed.
#[derive(Debug, Serialize)]
pub(super) struct Differences {
    pub(super) outcome: Outcome,
    /// How many of each kind there are.
    pub(super) counts: BTreeMap<Kind, u64>,
    /// Numbers that differ within the tolerance.
    pub(super) close_values: u64,
    #[serde(rename = "differences")]
    pub(super) listed: Vec<Difference>,
    #[serde(skip)]
    listed_max: usize,
}

/// Compares what InfluxDB and nyala answered.
pub(super) fn compare(
    influxdb: &Answer<'_>,
    nyala: &Answer<'_>,
    tolerance: Tolerance,
    listed_max: usize,
) -> Differences {
    let mut found = Differences::none(listed_max);
    if influxdb.error != nyala.error {
        found.outcome = Outcome::Error;
        let text = |error: &Option<String>| error.as_deref().map(json_text);
        let difference = Difference {
            influxdb: text(&influxdb.error),
            nyala: text(&nyala.error),
            ..Difference::of(Kind::Error)
        };
        found.add(difference);
        return found;
    }
    if influxdb.series.iter().map(|series| &series.key).eq(nyala.series.iter().map(|series| &series.key)) {
        let pairs = influxdb.series.iter().zip(&nyala.series);
        pairs.for_each(|(theirs, ours)| found.compare_series(theirs, ours, tolerance));
        return found;
    }
    let position = |answer: &Answer<'_>| {
        let keys = answer.series.iter().enumerate().map(|(at, series)| (series.key.clone(), at));
        keys.collect::<BTreeMap<_, _>>()
    };
    let (theirs, ours) = (position(influxdb), position(nyala));
    let mut last = None;
    for series in &influxdb.series {
        match ours.get(&series.key) {
            Some(at) => {
                if last > Some(*at) {
                    found.raise(Outcome::Order);
                }
                last = Some(*at);
                found.compare_series(series, &nyala.series[*at], tolerance);
            }
            None => found.add_series(Kind::MissingSeries, series),
        }
    }
    for series in nyala.series.iter().filter(|series| !theirs.contains_key(&series.key)) {
        found.add_series(Kind::ExtraSeries, series);
    }
    found
}

impl Differences {
    /// Of answers that are the same byte by byte.
    pub(super) fn none(listed_max: usize) -> Self {
        Self {
            outcome: Outcome::Equal,
            counts: BTreeMap::new(),
            close_values: 0,
            listed: Vec::new(),
            listed_max,
        }
    }

    fn raise(&mut self, outcome: Outcome) {
        self.outcome = self.outcome.max(outcome);
    }

    fn add(&mut self, difference: Difference) {
        self.raise(Outcome::Different);
        *self.counts.entry(difference.kind).or_default() += 1;
        if self.listed.len() < self.listed_max {
            self.listed.push(difference);
        }
    }

    /// A series that only one of them has: the value is how many rows, the time that of the first one.
    fn add_series(&mut self, kind: Kind, series: &Series<'_>) {
        let mut difference = Difference { kind, ..Difference::at(series, series.rows.first()) };
        let rows = serde_json::value::to_raw_value(&series.rows.len()).ok();
        match kind {
            Kind::MissingSeries => difference.influxdb = rows,
            _ => difference.nyala = rows,
        }
        self.add(difference);
    }

    fn compare_series(&mut self, theirs: &Series<'_>, ours: &Series<'_>, tolerance: Tolerance) {
        let Some(columns) = columns(theirs, ours) else {
            let names = |series: &Series<'_>| serde_json::value::to_raw_value(&series.columns).ok();
            return self.add(Difference {
                kind: Kind::Columns,
                influxdb: names(theirs),
                nyala: names(ours),
                ..Difference::at(theirs, None)
            });
        };
        let rows = Rows { series: theirs, columns: &columns, tolerance };
        if columns.iter().enumerate().any(|(at, own)| at != *own) {
            self.raise(Outcome::Order);
        }
        let in_order = theirs.rows.len() == ours.rows.len()
            && theirs.rows.iter().zip(&ours.rows).all(|(a, b)| rows.are_same(a, b));
        if in_order {
            let pairs = theirs.rows.iter().zip(&ours.rows);
            return pairs.for_each(|(a, b)| self.compare_rows(&rows, a, b));
        }
        let before = self.counts.values().sum::<u64>();
        self.match_rows(&rows, &theirs.rows, &ours.rows);
        if self.counts.values().sum::<u64>() == before {
            self.raise(Outcome::Order);
        }
    }

    /// Compares rows that are in any order: both sorted by time, and rows of the same time by what they have.
    fn match_rows(&mut self, rows: &Rows<'_>, theirs: &[Row<'_>], ours: &[Row<'_>]) {
        let (theirs, ours) = (rows.sorted(theirs, false), rows.sorted(ours, true));
        let (mut a, mut b) = (&theirs[..], &ours[..]);
        while let Some(time_ns) = a.first().into_iter().chain(b.first()).map(|keyed| keyed.0).min() {
            self.match_rows_of_a_time(rows, take_time(&mut a, time_ns), take_time(&mut b, time_ns));
        }
    }

    fn match_rows_of_a_time(&mut self, rows: &Rows<'_>, theirs: &[Keyed<'_>], ours: &[Keyed<'_>]) {
        let (mut a, mut b) = (theirs.iter().peekable(), ours.iter().peekable());
        let (mut left_of_a, mut left_of_b) = (Vec::new(), Vec::new());
        while let (Some((_, first)), Some((_, second))) = (a.peek(), b.peek()) {
            match rows.texts(first, false).cmp(rows.texts(second, true)) {
                Ordering::Less => left_of_a.extend(a.next()),
                Ordering::Greater => left_of_b.extend(b.next()),
                Ordering::Equal => _ = (a.next(), b.next()),
            }
        }
        let mut left_of_b = left_of_b.into_iter().chain(b);
        for (_, row) in left_of_a.into_iter().chain(a) {
            // A row without a time has no other name than what it has.
            match rows.series.has_times().then(|| left_of_b.next()).flatten() {
                Some((_, own)) => self.compare_rows(rows, row, own),
                None => self.add(rows.row(Kind::MissingRow, row)),
            }
        }
        left_of_b.for_each(|(_, own)| self.add(rows.row(Kind::ExtraRow, own)));
    }

    fn compare_rows(&mut self, rows: &Rows<'_>, theirs: &Row<'_>, ours: &Row<'_>) {
        for (at, own) in rows.columns.iter().enumerate() {
            match same(theirs[at].get(), ours[*own].get(), rows.tolerance) {
                Same::Yes => {}
                Same::Nearly => {
                    self.close_values += 1;
                    self.raise(Outcome::Close);
                }
                Same::No => self.add(Difference {
                    column: Some(rows.series.columns[at].clone()),
                    influxdb: Some(theirs[at].to_owned()),
                    nyala: Some(ours[*own].to_owned()),
                    ..Difference::at(rows.series, Some(theirs))
                }),
            }
        }
    }
}

/// A row with its time.
type Keyed<'a> = (i64, &'a Row<'a>);

/// The next rows, as far as they have this time.
fn take_time<'k, 'r>(rows: &mut &'k [Keyed<'r>], time_ns: i64) -> &'k [Keyed<'r>] {
    let end = rows.iter().position(|keyed| keyed.0 != time_ns).unwrap_or(rows.len());
    let (taken, rest) = rows.split_at(end);
    *rows = rest;
    taken
}

/// For each column of InfluxDB's the one of nyala with the same name; `None` if they have different names.
fn columns(theirs: &Series<'_>, ours: &Series<'_>) -> Option<Vec<usize>> {
    if theirs.columns.len() != ours.columns.len() {
        return None;
    }
    let mut left: Vec<Option<&String>> = ours.columns.iter().map(Some).collect();
    let mut find = |name: &String| {
        let at = left.iter().position(|own| *own == Some(name))?;
        left[at] = None;
        Some(at)
    };
    theirs.columns.iter().map(&mut find).collect()
}

/// How rows of a series are compared.
struct Rows<'a> {
    /// InfluxDB's.
    series: &'a Series<'a>,
    /// For each of its columns that of nyala's.
    columns: &'a [usize],
    tolerance: Tolerance,
}

impl Rows<'_> {
    fn are_same(&self, theirs: &Row<'_>, ours: &Row<'_>) -> bool {
        let mut pairs = self.columns.iter().enumerate();
        pairs.all(|(at, own)| same(theirs[at].get(), ours[*own].get(), self.tolerance) != Same::No)
    }

    /// By time, and then by values.
    fn sorted<'r>(&self, rows: &'r [Row<'r>], is_ours: bool) -> Vec<Keyed<'r>> {
        let mut keyed: Vec<Keyed<'r>> = rows.iter().map(|row| (self.time_ns(row), row)).collect();
        keyed.sort_by(|a, b| {
            a.0.cmp(&b.0).then_with(|| self.texts(a.1, is_ours).cmp(self.texts(b.1, is_ours)))
        });
        keyed
    }

    /// Values as texts, in the order of InfluxDB's columns.
    fn texts<'r>(&'r self, row: &'r Row<'_>, is_ours: bool) -> impl Iterator<Item = &'r str> + 'r {
        let column = move |(at, own): (usize, &usize)| if is_ours { *own } else { at };
        self.columns.iter().enumerate().map(move |pair| row[column(pair)].get())
    }

    /// The time of a row, 0 without times. Both servers have it in the first column, or a column more is missing.
    fn time_ns(&self, row: &Row<'_>) -> i64 {
        match self.series.has_times() {
            true => row.first().and_then(|time| time.get().parse().ok()).unwrap_or(0),
            false => 0,
        }
    }

    /// A row that only one of them has.
    fn row(&self, kind: Kind, row: &Row<'_>) -> Difference {
        let mut difference = Difference { kind, ..Difference::at(self.series, Some(row)) };
        let is_ours = kind == Kind::ExtraRow;
        let skipped = usize::from(self.series.has_times());
        let named = self.series.columns.iter().zip(self.texts(row, is_ours)).skip(skipped);
        let values: Vec<String> = named
            .filter(|(_, value)| *value != "null")
            .map(|(name, value)| format!("{}: {value}", json_text(name)))
            .collect();
        let object = RawValue::from_string(format!("{{{}}}", values.join(", "))).ok();
        match is_ours {
            true => difference.nyala = object,
            false => difference.influxdb = object,
        }
        difference
    }
}

impl Difference {
    fn of(kind: Kind) -> Self {
        Self { kind, series: None, time: None, column: None, influxdb: None, nyala: None, place: None }
    }

    /// A difference of a value, unless another kind is said.
    fn at(series: &Series<'_>, row: Option<&Row<'_>>) -> Self {
        let first = row.filter(|_| series.has_times()).and_then(|row| row.first());
        let time_ns: Option<i64> = first.and_then(|time| time.get().parse().ok());
        Self {
            series: Some(series.key.to_string()),
            time: time_ns.map(|time_ns| TimeLiteral::utc(i128::from(time_ns)).to_string()),
            place: time_ns.map(|time_ns| (series.key.clone(), time_ns)),
            ..Self::of(Kind::Value)
        }
    }
}

/// Whether two values are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Same {
    Yes,
    /// Within the tolerance.
    Nearly,
    No,
}

fn same(theirs: &str, ours: &str, tolerance: Tolerance) -> Same {
    if theirs == ours {
        return Same::Yes;
    }
    let is_number = |text: &str| text.starts_with(|first: char| first == '-' || first.is_ascii_digit());
    if !is_number(theirs) || !is_number(ours) {
        // Escapes of the same text may differ.
        let texts = (serde_json::from_str::<String>(theirs), serde_json::from_str::<String>(ours));
        return if matches!(texts, (Ok(a), Ok(b)) if a == b) { Same::Yes } else { Same::No };
    }
    let has_fraction = |text: &str| text.contains(['.', 'e', 'E']);
    let (Ok(a), Ok(b)) = (theirs.parse::<f64>(), ours.parse::<f64>()) else { return Same::No };
    if !has_fraction(theirs) && !has_fraction(ours) {
        return Same::No;
    }
    let allowed = tolerance.absolute.max(tolerance.share * a.abs().max(b.abs()));
    match (a - b).abs().partial_cmp(&allowed) {
        _ if a == b => Same::Yes,
        Some(Ordering::Less | Ordering::Equal) => Same::Nearly,
        _ => Same::No,
    }
}

fn json_text(text: &str) -> Box<RawValue> {
    serde_json::value::to_raw_value(text).expect("a text is JSON")
}

#[cfg(test)]
mod tests;
