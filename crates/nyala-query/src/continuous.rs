//! Runs continuous queries: each one regularly, over the windows that have ended since its last run.
//!
//! InfluxDB's rule decides when and over which times ([`Schedule::due`]). The progress of a query is durable, so windows
//! that ended while the server was down are computed later; a window that is computed twice overwrites itself. A query that
//! cannot run now (memory, disk, too many other queries) is tried again. A run that takes too long or too much memory by
//! itself, or that is wrong, is skipped.

use crate::influxql::{
    BinaryOperator, CreateContinuousQuery, Expr, Params, Select, Statement, TimeLiteral, parse_query,
    split_condition,
};
use crate::plan::{QueryContext, condition};
use crate::statement::select_into;
use nyala_core::{Error, ErrorKind, Result};
use nyala_db::catalog::ContinuousQuery;
use nyala_exec::{QueryMemory, WindowRule};
use std::collections::HashMap;

/// The most missed runs that one run makes up for; more are split into several runs.
const RUNS_AT_ONCE_MAX: i64 = 1024;

/// When a query runs, and over which times.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    windows: WindowRule,
    /// The interval between runs, ns.
    every_ns: i64,
    /// The least time range of a run, ns.
    for_ns: i64,
}

/// A run that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// The time from which the next run is computed.
    pub last_run_ns: i64,
    /// The times of rows, half-open; `None`: no window has ended.
    pub times_ns: Option<(i64, i64)>,
}

impl Schedule {
    /// The schedule of a query; `None` if it has no windows: it never runs.
    pub fn of(create: &CreateContinuousQuery, now_ns: i64) -> Result<Option<Self>> {
        let Some(mut windows) = condition::window_rule(&create.select, now_ns)? else { return Ok(None) };
        windows.zone = windows.zone.or(create.select.zone);
        let interval_ns = windows.interval_ns;
        let written = |length_ns: i64| Some(length_ns).filter(|length_ns| *length_ns > 0);
        let every_ns = written(create.resample_every_ns).unwrap_or(interval_ns);
        let for_ns = written(create.resample_for_ns).unwrap_or(interval_ns.max(every_ns));
        Ok(Some(Self { windows, every_ns, for_ns }))
    }

    /// When the next run is due. A day in which clocks are changed has 23 or 25 hours.
    fn next_run_ns(&self, last_run_ns: i64) -> i64 {
        let next_ns = last_run_ns.saturating_add(self.every_ns);
        let offset_ns = |time_ns: i64| self.windows.clock_offset_ns(time_ns.saturating_sub(1));
        let change_ns = offset_ns(last_run_ns) - offset_ns(next_ns);
        // A larger change would move back in time, and is left alone.
        if change_ns.abs() < self.every_ns { next_ns.saturating_add(change_ns) } else { next_ns }
    }

    /// The run that is due now, given the last one.
    pub fn due(&self, last_run_ns: Option<i64>, now_ns: i64) -> Option<Due> {
        let rule = &self.windows;
        let next_run_ns = match last_run_ns {
            None => now_ns,
            Some(last_ns) => self.next_run_ns(last_ns),
        };
        if next_run_ns > now_ns {
            return None;
        }
        let run_rule = WindowRule { interval_ns: self.every_ns, ..*rule };
        let last_run_ns = run_rule.window_of(now_ns).0;
        let every_ns = self.every_ns.min(rule.interval_ns);
        let first_ns = next_run_ns.saturating_add(rule.interval_ns - 1).saturating_sub(self.for_ns);
        let start_ns = rule.window_of(first_ns).0;
        let end_ns = rule.window_of(now_ns.saturating_add(rule.interval_ns - every_ns)).0;
        Some(Due { last_run_ns, times_ns: (start_ns < end_ns).then_some((start_ns, end_ns)) })
    }
}

/// A parsed query.
struct Known {
    text: String,
    create: CreateContinuousQuery,
    schedule: Option<Schedule>,
    last_run_ns: Option<i64>,
    /// How many missed runs the next run makes up for.
    runs_at_once: i64,
}

/// Runs the continuous queries of all databases.
#[derive(Default)]
pub struct Runner {
    /// By database and name.
    known: HashMap<(String, String), Known>,
}

/// The outcome of a run.
pub struct Outcome {
    /// Its database.
    pub database: String,
    /// Its name.
    pub name: String,
    /// How many points it wrote, or why it failed.
    pub written: Result<u64>,
}

impl Runner {
    /// Runs the queries that are due, one after the other. The context names no database.
    pub async fn run(&mut self, context: &QueryContext, memory: impl Fn() -> QueryMemory) -> Vec<Outcome> {
        let databases = context.catalog.databases();
        let mut outcomes = Vec::new();
        self.known.retain(|(database, name), known| {
            let current = databases.iter().find(|current| current.name == *database);
            let queries = current.map_or(&[][..], |current| &current.continuous_queries);
            queries.iter().any(|query| query.name == *name && query.text == known.text)
        });
        for database in &databases {
            for query in &database.continuous_queries {
                match self.run_one(&database.name, query, context, &memory).await {
                    Ok(None) => {}
                    done => outcomes.push(Outcome {
                        database: database.name.clone(),
                        name: query.name.clone(),
                        written: done.map(Option::unwrap_or_default),
                    }),
                }
            }
        }
        outcomes
    }

    async fn run_one(
        &mut self,
        database: &str,
        query: &ContinuousQuery,
        context: &QueryContext,
        memory: &impl Fn() -> QueryMemory,
    ) -> Result<Option<u64>> {
        let key = (database.to_owned(), query.name.clone());
        if !self.known.contains_key(&key) {
            let last_run_ns = context.catalog.last_run_ns(database, &query.name).await?;
            self.known.insert(key.clone(), read(query, last_run_ns, context.now_ns)?);
        }
        let known = self.known.get_mut(&key).expect("it was just there");
        let Some(schedule) = known.schedule else { return Ok(None) };
        let part_ns = schedule.every_ns.saturating_mul(known.runs_at_once);
        let part_end = |last_ns: i64| last_ns.saturating_add(part_ns).max(schedule.next_run_ns(last_ns));
        let part_end_ns = known.last_run_ns.map_or(i64::MAX, part_end);
        let Some(due) = schedule.due(known.last_run_ns, context.now_ns.min(part_end_ns)) else {
            return Ok(None);
        };
        let written = match due.times_ns {
            None => Ok(None),
            Some(times_ns) => {
                let within = QueryContext { database: database.to_owned(), ..context.clone() };
                execute(&known.create, times_ns, &within, memory()).await.map(Some)
            }
        };
        // A query that may succeed later is tried again, and one that took too long with fewer runs at once. A query that
        // is wrong would fail for ever.
        match written.as_ref().map_err(Error::kind) {
            Err(ErrorKind::Retry | ErrorKind::Io | ErrorKind::Unknown) => return written,
            Err(ErrorKind::Cancelled | ErrorKind::Limit) if known.runs_at_once > 1 => {
                known.runs_at_once /= 8;
                known.runs_at_once = known.runs_at_once.max(1);
                return written;
            }
            _ => {}
        }
        context.catalog.set_last_run_ns(database, query, due.last_run_ns).await?;
        known.last_run_ns = Some(due.last_run_ns);
        written
    }
}

fn read(query: &ContinuousQuery, last_run_ns: Option<i64>, now_ns: i64) -> Result<Known> {
    let mut parsed = parse_query(&query.text, &Params::default())
        .map_err(|error| Error::new(ErrorKind::Corrupt, format!("a continuous query: {error}")))?;
    let Some(Statement::CreateContinuousQuery(create)) = parsed.pop() else {
        return Err(Error::new(ErrorKind::Corrupt, "a continuous query is another statement"));
    };
    // A query without windows has no windows to wait for; InfluxDB never runs such a query either.
    let schedule = match create.select.is_raw() {
        true => None,
        false => Schedule::of(&create, now_ns)?,
    };
    let runs_at_once = RUNS_AT_ONCE_MAX;
    Ok(Known { text: query.text.clone(), create: *create, schedule, last_run_ns, runs_at_once })
}

/// Computes the windows between two times and writes them to the target.
async fn execute(
    create: &CreateContinuousQuery,
    (start_ns, end_ns): (i64, i64),
    context: &QueryContext,
    memory: QueryMemory,
) -> Result<u64> {
    let mut select: Select = create.select.clone();
    let bound = |operator, time_ns: i64| {
        Expr::binary(operator, Expr::var("time"), Expr::Time(TimeLiteral::utc(time_ns.into())))
    };
    let first = bound(BinaryOperator::GreaterOrEqual, start_ns);
    let mut condition = Expr::binary(BinaryOperator::And, first, bound(BinaryOperator::Less, end_ns));
    // Bounds on time in the query are replaced.
    if let Some(own) = &select.condition
        && let Some(rest) = split_condition(own, context.now_ns, select.zone)?.condition
    {
        condition = Expr::binary(BinaryOperator::And, Expr::Paren(Box::new(rest)), condition);
    }
    select.condition = Some(condition);
    let shown = Statement::Select(Box::new(select.clone()));
    let entered = context.running.enter(move || shown.to_string(), &context.database, &context.principal);
    // With fewer other queries it may succeed.
    let entered = entered.map_err(|error| Error::new(ErrorKind::Retry, error.message()))?;
    let query = entered.query();
    tokio::select! {
        written = select_into(&select, context, memory) => written,
        error = query.stopped() => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_NS: i64 = 60_000_000_000;

    fn schedule(resample: &str, interval: &str) -> Schedule {
        let text = format!(
            "CREATE CONTINUOUS QUERY c ON x {resample} BEGIN SELECT mean(v) INTO n FROM m GROUP BY time({interval}) END"
        );
        match parse_query(&text, &Params::default()).unwrap().pop() {
            Some(Statement::CreateContinuousQuery(create)) => Schedule::of(&create, 0).unwrap().unwrap(),
            _ => panic!("another statement"),
        }
    }

    fn minutes(due: Option<Due>) -> Option<(i64, Option<(i64, i64)>)> {
        let due = due?;
        let minute = |time_ns: i64| time_ns / MINUTE_NS;
        Some((minute(due.last_run_ns), due.times_ns.map(|(start, end)| (minute(start), minute(end)))))
    }

    #[test]
    fn windows_are_computed_once_they_have_ended() {
        let plain = schedule("", "10m");
        let at = |last: i64, now: i64| minutes(plain.due(Some(last * MINUTE_NS), now * MINUTE_NS));
        assert_eq!(minutes(plain.due(None, 25 * MINUTE_NS)), Some((20, None)), "nothing before it was made");
        assert_eq!(at(20, 29), None);
        assert_eq!(at(20, 30), Some((30, Some((20, 30)))));
        assert_eq!(at(20, 33), Some((30, Some((20, 30)))));
        assert_eq!(at(20, 65), Some((60, Some((20, 60)))), "those of a pause too");
    }

    /// Looks every half hour, as a server does, whether a query is due.
    #[test]
    fn every_window_is_computed_once_when_clocks_are_changed() {
        const HALF_HOUR_NS: i64 = 30 * MINUTE_NS;
        // 2021 in Berlin: clocks go forward on March 28 and back on October 31.
        for (zone, begin_s) in [("Europe/Berlin", 1_616_540_400), ("Europe/Berlin", 1_635_199_200)] {
            for (interval, hours) in [("1d", 24), ("6h", 6), ("1h", 1)] {
                let text = format!(
                    "CREATE CONTINUOUS QUERY c ON x BEGIN SELECT mean(v) INTO n FROM m GROUP BY time({interval}) tz('{zone}') END"
                );
                let Some(Statement::CreateContinuousQuery(create)) =
                    parse_query(&text, &Params::default()).unwrap().pop()
                else {
                    panic!("another statement")
                };
                let schedule = Schedule::of(&create, 0).unwrap().unwrap();
                let begin_ns = begin_s * 1_000_000_000;
                let (mut last, mut done) = (Some(begin_ns), begin_ns);
                for step in 0..8 * 48 {
                    let now_ns = begin_ns + step * HALF_HOUR_NS;
                    let Some(due) = schedule.due(last, now_ns) else { continue };
                    last = Some(due.last_run_ns);
                    if let Some((start_ns, end_ns)) = due.times_ns {
                        assert_eq!(start_ns, done, "{interval} from {begin_s}, step {step}");
                        done = end_ns;
                    }
                }
                let left_ns = begin_ns + 8 * 48 * HALF_HOUR_NS - done;
                assert!(left_ns <= (hours + 1) * 2 * HALF_HOUR_NS, "{interval} from {begin_s}: {left_ns}");
            }
        }
    }

    #[test]
    fn resample_decides_when_and_over_which_windows() {
        let resampled = schedule("RESAMPLE EVERY 5m FOR 30m", "10m");
        let at = |last: i64, now: i64| minutes(resampled.due(Some(last * MINUTE_NS), now * MINUTE_NS));
        assert_eq!(at(55, 60), Some((60, Some((30, 60)))));
        assert_eq!(at(60, 65), Some((65, Some((40, 70)))), "with the window that has begun");
        let rarely = schedule("RESAMPLE EVERY 20m", "10m");
        let at = |last: i64, now: i64| minutes(rarely.due(Some(last * MINUTE_NS), now * MINUTE_NS));
        assert_eq!(at(40, 50), None);
        assert_eq!(at(40, 60), Some((60, Some((40, 60)))));
        let shifted = schedule("", "10m, 3m");
        assert_eq!(minutes(shifted.due(Some(23 * MINUTE_NS), 34 * MINUTE_NS)), Some((33, Some((23, 33)))));
    }
}
