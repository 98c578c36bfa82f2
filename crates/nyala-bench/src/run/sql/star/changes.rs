//! Single rows of the large table are inserted, updated, deleted and found, one statement after the other.

use super::Run;
use crate::cli::sql::StarArgs;
use crate::client::sql::{Prepared, Rows, SqlAnswer, SqlConnection};
use crate::error::{BenchError, Result};
use crate::measure::latency::Latencies;
use crate::random::Random;
use crate::report::sql::Phase;
use std::time::Instant;

const SAMPLE_BYTES: usize = 64 << 20;
/// A full scan for each look-up: fewer of them say enough.
const SCANS_MAX: u64 = 50;

pub(super) fn change_and_look_up(run: &mut Run<'_>, args: &StarArgs) -> Result<()> {
    let mut session = run.asker.connect()?;
    let serials = sample(&mut session, args)?;
    let mut random = Random::new(args.seed, 1);
    let mut any_id = move || (random.below(args.rows) + 1).to_string();
    let by_key = session.prepare("SELECT * FROM event WHERE event_id = $1")?;
    let by_serial = session.prepare("SELECT * FROM event WHERE serial = $1")?;
    // Inserts copy a row, so that all columns have values.
    let columns: Vec<String> = run.columns_of_events.clone();
    let rest = columns[1..].join(", ");
    let insert = session.prepare(&format!(
        "INSERT INTO event (event_id, {rest}) SELECT event_id + 1000000000, {rest} FROM event WHERE event_id = $1"
    ))?;
    let short = session.prepare(
        "INSERT INTO event (event_id, serial, event_time, event_day, quantity, price, discount, customer_id, product_id, \
         store_id, employee_id, channel_id, campaign_id, device_id, carrier_id) \
         VALUES ($1, 1, '2026-01-01', '2026-01-01', 1, 1.5, 0.1, 1, 1, 1, 1, 1, 1, 1, 1)",
    )?;
    let update =
        session.prepare("UPDATE event SET quantity = quantity + 1, price = 9.99 WHERE event_id = $1")?;
    let delete = session.prepare("DELETE FROM event WHERE event_id = $1")?;
    let count = args.operations.min(args.rows);
    let scans = count.min(SCANS_MAX);
    let mut at = 0;
    let mut serial = move || {
        at += 1;
        serials[at % serials.len()].clone()
    };
    let mut next = 2_000_000_000_u64;
    let mut new_id = || {
        next += 1;
        next.to_string()
    };
    let phases = [
        repeat("look-up by key", &mut session, &by_key, count, Some(1), &mut any_id)?,
        repeat("look-up by another column", &mut session, &by_serial, scans, None, &mut serial)?,
        repeat("insert of 15 values", &mut session, &short, count, Some(1), &mut new_id)?,
        // The same row is copied once only.
        repeat("insert of a row with all columns", &mut session, &insert, count, Some(1), &mut in_turn(1))?,
        repeat("update of a row", &mut session, &update, count, Some(1), &mut any_id)?,
        repeat("delete of a row", &mut session, &delete, count, Some(1), &mut in_turn(1_000_000_001))?,
    ];
    run.result.phases.extend(phases);
    Ok(())
}

fn in_turn(first: u64) -> impl FnMut() -> String {
    let mut next = first;
    move || {
        next += 1;
        (next - 1).to_string()
    }
}

/// Serial numbers that some rows have.
fn sample(session: &mut SqlConnection, args: &StarArgs) -> Result<Vec<String>> {
    let mut answer = SqlAnswer::default();
    let step = (args.rows / SCANS_MAX).max(1);
    let query =
        format!("SELECT serial FROM event WHERE event_id % {step} = 0 ORDER BY event_id LIMIT {SCANS_MAX}");
    session.ask(&query, Rows::Keep { into: &mut answer, limit_bytes: SAMPLE_BYTES })?;
    let serials: Vec<String> = answer.rows.into_iter().flatten().flatten().collect();
    match serials.is_empty() {
        true => Err(BenchError::Protocol("there are no events".to_owned())),
        false => Ok(serials),
    }
}

/// Executes a statement so many times, each time with another value.
fn repeat(
    name: &str,
    session: &mut SqlConnection,
    statement: &Prepared,
    count: u64,
    rows: Option<u64>,
    value: &mut dyn FnMut() -> String,
) -> Result<Phase> {
    let (mut latencies, begun) = (Latencies::default(), Instant::now());
    for _ in 0..count {
        let value = value();
        let started = Instant::now();
        let done = session.execute(statement, &[&value])?;
        latencies.add(started.elapsed());
        if rows.is_some_and(|rows| rows != done.rows) {
            return Err(BenchError::Protocol(format!("{name}: {} rows for {value}", done.rows)));
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    Ok(Phase { name: name.to_owned(), count, seconds, latency: latencies.summary(), ..Phase::default() })
}
