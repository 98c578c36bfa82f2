//! SHOW QUERIES; limits on SELECT.

use super::show::{table, text_column};
use super::{Answer, Chunks};
use crate::influxql::{Params, Statement, TimeLiteral, go_duration, parse_query};
use crate::plan::{MINIMUM_TIME_NS, Plan, PlanSource, PointLimit, QueryContext};
use arrow_array::Int64Array;
use nyala_core::{Error, Result};
use nyala_exec::Column;
use nyala_exec::running::QueryLimits;
use nyala_exec::slowest::SlowQuery;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The running queries; only administrators see those of other users.
pub(super) fn show(context: &QueryContext) -> Answer {
    let mut all = context.running.all();
    if let nyala_db::users::Principal::User(user) = &context.principal
        && !user.is_admin()
    {
        all.retain(|query| query.user() == Some(user.name()));
    }
    let numbers = all.iter().map(|query| query.number() as i64);
    let status = |killed: bool| if killed { "killed" } else { "running" };
    let columns = vec![
        ("qid", Column::Integer(Int64Array::from_iter_values(numbers))),
        ("query", text_column(all.iter().map(|query| query.text()))),
        ("database", text_column(all.iter().map(|query| query.database()))),
        ("duration", text_column(all.iter().map(|query| shown_duration(query.elapsed())))),
        ("status", text_column(all.iter().map(|query| status(query.is_killed())))),
    ];
    Answer::Rows(vec![table("", columns)], Chunks::Whole)
}

/// The slowest queries of the last hour that have ended; only administrators see those of other users.
pub(super) fn show_slowest(context: &QueryContext) -> Answer {
    let mut all = context.running.slowest();
    if let nyala_db::users::Principal::User(user) = &context.principal
        && !user.is_admin()
    {
        all.retain(|query| query.user.as_deref() == Some(user.name()));
    }
    let now = Instant::now();
    let ended = |query: &SlowQuery| {
        let ago = i64::try_from(now.saturating_duration_since(query.ended).as_nanos()).unwrap_or(i64::MAX);
        TimeLiteral::utc(context.around.now_ns.saturating_sub(ago).into()).to_string()
    };
    let status = |query: &SlowQuery| if query.is_killed { "killed" } else { "ended" };
    let numbers = all.iter().map(|query| query.number as i64);
    let columns = vec![
        ("qid", Column::Integer(Int64Array::from_iter_values(numbers))),
        ("query", text_column(all.iter().map(|query| &query.text))),
        ("database", text_column(all.iter().map(|query| &query.database))),
        ("user", text_column(all.iter().map(|query| query.user.as_deref().unwrap_or_default()))),
        ("duration", text_column(all.iter().map(|query| shown_duration(query.duration)))),
        ("ended", text_column(all.iter().map(ended))),
        ("status", text_column(all.iter().map(status))),
    ];
    Answer::Rows(vec![table("", columns)], Chunks::Whole)
}

/// The statements of a request as they were written.
#[derive(Default)]
pub struct SubmittedQuery {
    /// Valid InfluxQL.
    pub query: String,
    /// The values of its parameters, in JSON; empty without parameters.
    pub values: String,
}

impl SubmittedQuery {
    /// The statements in canonical form, without passwords. They are parsed again here, because most queries are never
    /// listed.
    pub fn shown(&self) -> String {
        let Self { query, values } = self;
        let params = if values.is_empty() { Ok(Params::default()) } else { Params::from_json(values) };
        let statements = params.ok().and_then(|params| parse_query(query, &params).ok()).unwrap_or_default();
        statements.iter().map(Statement::to_string).collect::<Vec<_>>().join(";\n")
    }
}

/// A duration in the largest unit that fits, without a fraction.
fn shown_duration(duration: Duration) -> String {
    match duration.as_nanos() {
        nanoseconds @ 0..1_000 => format!("{nanoseconds}ns"),
        nanoseconds @ 1_000..1_000_000 => format!("{}µs", nanoseconds / 1_000),
        nanoseconds @ 1_000_000..1_000_000_000 => format!("{}ms", nanoseconds / 1_000_000),
        _ => go_duration(duration.as_secs().min(1 << 33) as i64 * 1_000_000_000),
    }
}

/// Refuses a SELECT with more windows or series than the limits allow, and lets its rows be counted if they are limited.
pub(super) fn bound(plan: &mut Plan, context: &QueryContext) -> Result<()> {
    let limits = &context.running.limits;
    if limits.points_max > 0 {
        count_points(plan, &Arc::new(PointLimit::new(limits.points_max)));
    }
    match limits.buckets_max > 0 || limits.series_max > 0 {
        true => check_limits(plan, limits),
        false => Ok(()),
    }
}

fn count_points(plan: &mut Plan, points: &Arc<PointLimit>) {
    for source in &mut plan.sources {
        match source {
            PlanSource::Measurement(source) => source.points = Some(points.clone()),
            PlanSource::Subquery(inner) => count_points(inner, points),
        }
    }
}

fn check_limits(plan: &Plan, limits: &QueryLimits) -> Result<()> {
    // As in InfluxDB, windows of inner queries do not count, nor do windows without a lower bound of time.
    if let (Some(rule), true) =
        (&plan.groups.windows, limits.buckets_max > 0 && plan.times.first_ns > MINIMUM_TIME_NS)
    {
        let last_ns = rule.window_of(plan.times.last_ns.saturating_sub(1)).0;
        let span_ns = i128::from(last_ns) - i128::from(rule.window_of(plan.times.first_ns).0);
        let buckets = span_ns / i128::from(rule.interval_ns) + 1;
        if buckets > limits.buckets_max as i128 {
            let most = limits.buckets_max;
            return Err(Error::limit(format!("max-select-buckets limit exceeded: ({buckets}/{most})")));
        }
    }
    match limits.series_max > 0 {
        true => check_series(plan, limits.series_max),
        false => Ok(()),
    }
}

fn check_series(plan: &Plan, most: usize) -> Result<()> {
    for source in &plan.sources {
        match source {
            PlanSource::Subquery(inner) => check_series(inner, most)?,
            PlanSource::Measurement(source) => {
                let series = source.measurement.series().select(&source.tags).len();
                if series > most as u64 {
                    // InfluxDB stops counting at the first series beyond the limit.
                    let words = format!("max-select-series limit exceeded: ({}/{most})", most + 1);
                    return Err(Error::limit(words));
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_shown_as_the_server_writes_them() {
        let query = "select v from m where a = $a; create user u with password 'secret'".to_owned();
        let written = SubmittedQuery { query, values: r#"{"a": 5}"#.to_owned() }.shown();
        assert_eq!(written, "SELECT v FROM m WHERE a = 5;\nCREATE USER u WITH PASSWORD [REDACTED]");
    }
}
