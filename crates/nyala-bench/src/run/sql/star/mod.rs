//! `sql star`: a wide table of events with its dimensions is loaded, copied, changed, looked up in, joined, compressed and
//! read out.

mod changes;
mod egress;
mod storage;
mod writer;

use super::{Run, Suite};
use crate::cli::sql::StarArgs;
use crate::error::Result;
use crate::report::sql::Phase;
use crate::server::Launch;
use crate::workload::tables::star;
use std::time::Instant;

/// Runs the star.
pub fn run(args: &StarArgs, launch: Launch<'_>) -> Result<()> {
    let suite = Suite {
        name: format!("Star of {} events with {} columns, seed {}", args.rows, args.columns, args.seed),
        tables: star::tables(args.rows, args.columns, args.seed),
        queries: star::queries(),
    };
    let mut run = Run::start(suite, &args.suite, launch)?;
    run.asker.reached_at(args.server_flight.as_deref(), args.server_files_dir.as_deref());
    run.ask_all()?;
    writer::queries_beside_a_writer(&mut run, args)?;
    changes::change_and_look_up(&mut run, args)?;
    egress::read_everything(&mut run, args)?;
    storage::copy_and_compress(&mut run, args)?;
    run.finish()
}

/// Executes something once, and reports how many rows it was about.
fn timed(name: &str, work: impl FnOnce() -> Result<(u64, Option<u64>)>) -> Result<Phase> {
    let begun = Instant::now();
    let (count, bytes) = work()?;
    let seconds = begun.elapsed().as_secs_f64();
    Ok(Phase { name: name.to_owned(), count, seconds, bytes, ..Phase::default() })
}
