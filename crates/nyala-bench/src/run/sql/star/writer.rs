//! The queries again, while somebody updates a part of the events each minute.

use super::Run;
use crate::cli::sql::StarArgs;
use crate::error::Result;
use crate::measure::latency::Latencies;
use crate::random::Random;
use crate::report::sql::Phase;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(super) fn queries_beside_a_writer(run: &mut Run<'_>, args: &StarArgs) -> Result<()> {
    let per_second = args.rows as f64 * args.update_percent / 100.0 / 60.0;
    if per_second == 0.0 {
        return Ok(());
    }
    let mut session = run.asker.connect()?;
    let update = session
        .prepare("UPDATE event SET quantity = quantity + 1, price = price + 0.01 WHERE event_id = $1")?;
    let stop = AtomicBool::new(false);
    let asked = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let (mut random, mut latencies) = (Random::new(args.seed, 2), Latencies::default());
            let begun = Instant::now();
            while !stop.load(Ordering::Relaxed) {
                let due = Duration::from_secs_f64(latencies.count() as f64 / per_second);
                if let Some(early) = due.checked_sub(begun.elapsed()) {
                    std::thread::sleep(early.min(Duration::from_millis(100)));
                    continue;
                }
                let (id, started) = ((random.below(args.rows) + 1).to_string(), Instant::now());
                session.execute(&update, &[&id])?;
                latencies.add(started.elapsed());
            }
            Ok::<_, crate::error::BenchError>((latencies, begun.elapsed().as_secs_f64()))
        });
        let asked = run.ask_warm();
        stop.store(true, Ordering::Relaxed);
        let written = writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok::<_, crate::error::BenchError>((asked?, written?))
    });
    let (busy, (latencies, seconds)) = asked?;
    let name = format!("updates beside queries, {} % of the rows a minute", args.update_percent);
    let count = latencies.count() as u64;
    run.result.phases.push(Phase { name, count, seconds, latency: latencies.summary(), ..Phase::default() });
    for (query, busy_ms) in run.result.queries.iter_mut().zip(busy) {
        query.busy_ms = busy_ms;
    }
    Ok(())
}
