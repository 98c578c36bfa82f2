//! `nyala move`: takes everything from a data directory to an Apache Kudu cluster, or back.
//!
//! `place` opens both sides. What is moved, and how, is in `nyala_db::moving`; here are progress, report and exit code.

mod handover;
mod online;
mod place;
mod report;

use super::log;
use crate::config::ByteSize;
use clap::Args;
use nyala_bench::report::progress::Progress;
use nyala_core::ErrorKind;
use nyala_core::store::StoreRef;
use nyala_db::catalog::Catalog;
use nyala_db::daemons;
use nyala_db::moving::{self, Levelled, Move, MovedTable};
use place::{LogInArgs, Opened, Place};
use report::Report;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;
use tokio::runtime::Runtime;

pub(super) const EXAMPLES: &str = "\
Everything is moved: databases, policies, users, tokens, continuous queries, subscriptions, measurements, tables and views of SQL.
The history (--history) and the list of changes stay behind. The source is read and not changed, and is still there afterwards.
A directory must have no server then, and a cluster no daemons, and the target must be new: a directory that is empty or not there,
or a prefix that the cluster does not know. No server opens the target before the move is finished.

A server may go on meanwhile (--from http://127.0.0.1:8086 --cut-over, on its machine, as its user or as root): what is written
is moved in rounds. At the end writes are answered with 503 (send it again) for some seconds, until nothing is left to move, and
then for good: start the daemons of the target, and send clients there. Without --cut-over there is one round, and the server goes
on; it may be repeated. --give-up has the server take writes again, as long as the move is not finished.

At the end both sides are read again, and counts and checksums are compared per measurement and day. A move that was interrupted
goes on where it was when it is started again.

Exit code: 0 everything was moved and both sides are equal, 1 they differ (the report says where), 2 the move did not end: start it
again.

Examples:
  nyala move --from /var/lib/nyala --to kudu://master-1:7051,master-2:7051,master-3:7051
  nyala move --from http://127.0.0.1:8086 --to kudu://master-1:7051 --cut-over
                                                                         while clients write
  nyala move --from kudu://master-1:7051 --to /var/lib/nyala-new         back
  nyala move --from /var/lib/nyala --to kudu://master-1:7051 --compare   compare only, also later
  nyala move --from /var/lib/nyala --to kudu://master-1:7051 --skip db.big_table
                                                                         without what the target cannot hold";

const DIFFERS: u8 = 1;
const NOT_MOVED: u8 = 2;

/// What to move, and where to.
#[derive(Debug, Args)]
pub(super) struct MoveArgs {
    /// A data directory, kudu://MASTER:PORT,… or http://HOST:PORT of a server that runs here
    #[arg(long, value_name = "PLACE")]
    from: Place,
    /// A directory or a cluster in which there is nothing yet
    #[arg(long, value_name = "PLACE")]
    to: Place,
    /// Leave out a measurement (database.policy.measurement) or a table of SQL (database.table); may be given several times
    #[arg(long, value_name = "NAME")]
    skip: Vec<String>,
    /// Compare both sides, and move nothing
    #[arg(long)]
    compare: bool,
    /// Go on until everything is moved while clients write, and then have the server take no writes any more
    #[arg(long, conflicts_with = "compare")]
    cut_over: bool,
    /// The longest time for which writes may be held off at the end; after that they go on, and the move is not finished
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    stop_limit: u64,
    /// Have the server take writes again, and leave the move unfinished
    #[arg(long, conflicts_with_all = ["compare", "cut_over"])]
    give_up: bool,
    /// The most memory that the store of a directory takes meanwhile
    #[arg(long, value_name = "SIZE", default_value = "512MiB")]
    memory_limit: ByteSize,
    #[command(flatten)]
    log_in: LogInArgs,
}

pub(super) fn run(args: &MoveArgs) -> ExitCode {
    log::to_standard_error("warn");
    match move_all(args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(DIFFERS),
        Err(message) => {
            log::print_error(&message);
            ExitCode::from(NOT_MOVED)
        }
    }
}

/// Moves, and returns whether both sides are equal.
fn move_all(args: &MoveArgs) -> Result<bool, String> {
    if matches!(args.to, Place::Server(_)) {
        return Err("--to is a running server: say a new directory or a cluster".to_owned());
    }
    if args.from == args.to {
        return Err("--from and --to are the same place".to_owned());
    }
    let work = tokio::runtime::Builder::new_multi_thread()
        .thread_name("work")
        .enable_all()
        .build()
        .map_err(|error| format!("starting threads: {error}"))?;
    if args.give_up {
        return online::give_up(args, &work);
    }
    if args.cut_over {
        return online::cut_over(args, &work);
    }
    let source = Opened::to_read(&args.from, &args.log_in, args.memory_limit, work.handle())?;
    check_alone(&work, &source)?;
    let opening = |error: nyala_core::Error| format!("opening {}: {error}", args.from);
    let catalog = Arc::new(work.block_on(Catalog::open(source.store.clone())).map_err(opening)?);
    let mut report = Report::new(Instant::now());
    let open = if args.compare { Opened::to_read } else { Opened::open };
    report.is_preliminary = source.is_running();
    let target = open(&args.to, &args.log_in, args.memory_limit, work.handle())?;
    let is_equal = match args.compare {
        true => {
            let tables = moving::tables_of(&catalog, &target.store, &args.skip);
            let tables = tables.map_err(|error| error.to_string())?;
            compare(&work, (&source.store, &target.store), &tables, 0, &mut report)?.is_empty()
        }
        false => move_and_compare(&work, args, &catalog, (&source, &target), &mut report)?,
    };
    drop(catalog);
    target.close()?;
    source.close()?;
    report.print(is_equal, args.compare)?;
    Ok(is_equal)
}

/// Daemons that run would go on writing.
fn check_alone(work: &Runtime, source: &Opened) -> Result<(), String> {
    let alive = work.block_on(daemons::find_alive(&source.store));
    match alive.map_err(|error| format!("asking {}: {error}", source.name))? {
        None => Ok(()),
        Some(address) => Err(format!(
            "a daemon at {address} uses {}: stop it first, because what it writes from now on would be left behind",
            source.name
        )),
    }
}

fn move_and_compare(
    work: &Runtime,
    args: &MoveArgs,
    catalog: &Arc<Catalog>,
    (source, target): (&Opened, &Opened),
    report: &mut Report,
) -> Result<bool, String> {
    let mut moving = move_once(work, args, catalog, (source, target), report)?;
    let stores = (&source.store, &target.store);
    let differing = compare(work, stores, moving.tables(), report.moved.rows, report)?;
    let is_equal = differing.is_empty();
    let ended = work.block_on(async {
        for place in differing {
            moving.doubt(place).await?;
        }
        // Of a server that runs, more is to come.
        if is_equal && !source.is_running() { moving.finish().await } else { Ok(()) }
    });
    ended.map_err(again).map(|()| is_equal)
}

/// Moves everything that is not there yet.
fn move_once(
    work: &Runtime,
    args: &MoveArgs,
    catalog: &Arc<Catalog>,
    (source, target): (&Opened, &Opened),
    report: &mut Report,
) -> Result<Move, String> {
    let from = (&*source.name, source.position.clone());
    let begun = Move::begin(catalog.clone(), target.store.clone(), from, &args.skip);
    let mut moving = work.block_on(begun).map_err(|error| format!("moving to {}: {error}", args.to))?;
    report.begun(&moving);
    let total = work.block_on(moving.estimate_rows()).map_err(again)?;
    let mut progress = Shown::start("moving", total);
    let mut moved = Levelled::default();
    for place in 0..moving.tables().len() {
        progress.name.clone_from(&moving.tables()[place].shown);
        moved.add(work.block_on(moving.move_rows(place, &mut |rows| progress.add(rows))).map_err(again)?);
    }
    progress.name = "series, databases and users".to_owned();
    progress.add(0);
    let series_records = work.block_on(moving.move_settings()).map_err(again)?;
    progress.clear();
    report.add(moved, series_records);
    Ok(moving)
}

/// What to say when a move was interrupted.
fn again(error: nyala_core::Error) -> String {
    let how = match error.kind() {
        // It would be met again.
        ErrorKind::Limit | ErrorKind::Unsupported => {
            "leave it out with --skip NAME, and start the command again"
        }
        _ => "start the same command again",
    };
    format!("moving {error}. What was moved before is there: {how} to go on")
}

/// Compares tables, and returns the places of those that differ.
fn compare(
    work: &Runtime,
    (source, target): (&StoreRef, &StoreRef),
    tables: &[MovedTable],
    rows: u64,
    report: &mut Report,
) -> Result<Vec<usize>, String> {
    let mut progress = Shown::start("comparing", rows);
    let mut differing = Vec::new();
    for (place, table) in tables.iter().enumerate() {
        progress.name.clone_from(&table.shown);
        let mut watch = |rows| progress.add(rows);
        let compared = work.block_on(moving::compare(source, target, table, &mut watch));
        let comparison = compared.map_err(|error| format!("comparing {}: {error}", table.shown))?;
        if comparison.differing_days > 0 {
            differing.push(place);
        }
        report.compared(table, &comparison);
    }
    progress.clear();
    Ok(differing)
}

/// Progress by rows.
struct Shown {
    progress: Progress,
    begun: Instant,
    rows: u64,
    total: u64,
    /// What is being worked on.
    name: String,
}

impl Shown {
    fn start(title: &str, total: u64) -> Self {
        let (progress, begun) = (Progress::start(title), Instant::now());
        Self { progress, begun, rows: 0, total: total.max(1), name: String::new() }
    }

    fn add(&mut self, rows: u64) {
        self.rows += rows;
        let Self { progress, begun, rows, total, name } = self;
        progress.update(*rows as f64 / *total as f64, || {
            let rate = *rows as f64 / begun.elapsed().as_secs_f64();
            format!("{:.1} million rows, {rate:.0}/s, {name}", *rows as f64 / 1e6)
        });
    }

    fn clear(self) {
        self.progress.clear();
    }
}
