//! A move to its end while clients write: rounds that each move what was changed since the one before, and the cut-over, in
//! which the writers of the server are held off until nothing is left.
//!
//! Each round reads a copy of its own. All is compared once before the cut-over; after that, what was changed is compared
//! again. So when the server leaves its store, everything is known to be equal: what was not changed since it was compared,
//! and what was, because nobody writes any more. Only then servers open the target. A command that dies before the server
//! has left leaves a server that goes on; one that dies later is started again, and finds it so.

use super::handover::MovedServer;
use super::place::{COPY_FREED_WITHIN, Opened, Place};
use super::report::{Report, Stop};
use super::{MoveArgs, again, compare, move_once};
use crate::cli::backup::source::Source;
use crate::cli::server::Ended;
use nyala_db::catalog::Catalog;
use nyala_db::moving::{self, Move};
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// So many rows are moved while writers wait: less than the copy itself takes.
const FEW_ROWS: u64 = 100_000;
/// There are no more rounds than that. Each is shorter than the one before, or the last.
const ROUNDS_MAX: usize = 30;
/// How often both sides may differ after everything was moved.
const COMPARED_MAX: usize = 2;

/// How long a write may be on its way to the target whose command was killed: the cluster drops what is older. Only then it is
/// compared whether both sides are equal.
const LAST_WRITES_WITHIN: Duration = Duration::from_secs(10);

struct Online<'a> {
    work: &'a Runtime,
    args: &'a MoveArgs,
    server: MovedServer,
    target: &'a Opened,
    report: &'a mut Report,
}

/// Moves everything of a server, which then takes no writes any more. Returns whether both sides are equal.
pub(super) fn cut_over(args: &MoveArgs, work: &Runtime) -> Result<bool, String> {
    let server = server_of(args)?;
    let target = Opened::open(&args.to, &args.log_in, args.memory_limit, work.handle())?;
    let mut report = Report::new(Instant::now());
    let moved = Online { work, args, server, target: &target, report: &mut report }.run();
    let closed = target.close();
    let is_equal = moved?;
    closed?;
    report.print(is_equal, false)?;
    Ok(is_equal)
}

/// Has the server take writes again, whatever had been moved.
pub(super) fn give_up(args: &MoveArgs, work: &Runtime) -> Result<bool, String> {
    let server = server_of(args)?;
    // While this is there, no other command goes on with the move.
    let mut copy = Source::of_server(server.server.clone(), COPY_FREED_WITHIN)?;
    let target = Opened::open(&args.to, &args.log_in, args.memory_limit, work.handle())?;
    let given_up = match moving::is_finished(&target.store) {
        true => Err(format!(
            "the move is finished, and clients may have written to {}: to go back, stop its daemons and move from it to a new \
             directory",
            args.to
        )),
        false => server.take_back(),
    };
    // If this fails, the server removes it before long.
    let _ = copy.end(Ended::Read);
    target.close()?;
    given_up?;
    let words = format!(
        "the server takes writes. What was moved is still in {}, and no server opens it: start a move again, or drop its tables\n",
        args.to
    );
    std::io::stdout().write_all(words.as_bytes()).map_err(|error| error.to_string())?;
    Ok(true)
}

fn server_of(args: &MoveArgs) -> Result<MovedServer, String> {
    match &args.from {
        Place::Server(url) => MovedServer::at(url, &args.log_in.access),
        Place::Directory(_) | Place::Kudu(_) => {
            Err("--cut-over and --give-up are for a server that runs: --from http://HOST:PORT".to_owned())
        }
    }
}

impl Online<'_> {
    fn run(mut self) -> Result<bool, String> {
        match self.server.left_to()? {
            None => {}
            Some(to) if to == self.target.name => return self.end(),
            Some(to) => return Err(format!("everything was moved to {to} before")),
        }
        let begun = Instant::now();
        let (mut rows_before, mut epoch_before) = (u64::MAX, 0);
        let (mut is_equal, mut compared, mut is_resumed) = (false, 0, false);
        for number in 1..=ROUNDS_MAX {
            let mut round = self.begin_round()?;
            is_resumed |= number == 1 && round.moving.is_resumed();
            let epoch = round.source.position.epoch();
            // After a restart of the server everything was moved again.
            is_equal &= epoch == epoch_before;
            epoch_before = epoch;
            let rows = round.moving.read_rows();
            self.report.note(format!("round {number}: {rows} rows were moved or compared"));
            let is_last = rows <= FEW_ROWS || rows > rows_before / 4 * 3;
            rows_before = rows;
            if is_last && is_equal {
                round.end()?;
                return self.stop_and_end(epoch);
            }
            if is_last && compared < COMPARED_MAX {
                compared += 1;
                if is_resumed {
                    std::thread::sleep(LAST_WRITES_WITHIN.saturating_sub(begun.elapsed()));
                }
                is_equal = self.compare_all(&mut round)?;
                rows_before = u64::MAX;
            }
            round.end()?;
            if compared == COMPARED_MAX && !is_equal {
                return Ok(false);
            }
        }
        Err(format!(
            "after {ROUNDS_MAX} rounds there is still more to move than the server may be stopped for: start again \
             when less is written"
        ))
    }

    /// Moves what was changed since the last round.
    fn begin_round(&mut self) -> Result<Round, String> {
        self.round_of(Opened::of_server(&self.server, self.args.memory_limit, COPY_FREED_WITHIN)?)
    }

    fn round_of(&mut self, source: Opened) -> Result<Round, String> {
        let opened = self.work.block_on(Catalog::open(source.store.clone()));
        let catalog = Arc::new(opened.map_err(|error| format!("opening {}: {error}", self.args.from))?);
        let moving = move_once(self.work, self.args, &catalog, (&source, self.target), self.report)?;
        Ok(Round { source, moving })
    }

    fn compare_all(&mut self, round: &mut Round) -> Result<bool, String> {
        let stores = (&round.source.store, &self.target.store);
        let differing = compare(self.work, stores, round.moving.tables(), 0, self.report)?;
        let is_equal = differing.is_empty();
        for place in differing {
            self.work.block_on(round.moving.doubt(place)).map_err(again)?;
        }
        Ok(is_equal)
    }

    /// Compares what was changed since the last round.
    fn compare_changed(&mut self, round: &mut Round) -> Result<bool, String> {
        let compared = self.work.block_on(round.moving.compare_doubted()).map_err(again)?;
        let mut is_equal = true;
        for (place, comparison) in compared {
            if comparison.differing_days > 0 {
                is_equal = false;
                self.report.compared(&round.moving.tables()[place], &comparison);
                self.work.block_on(round.moving.doubt(place)).map_err(again)?;
            }
        }
        Ok(is_equal)
    }

    /// The cut-over.
    fn stop_and_end(&mut self, epoch: u64) -> Result<bool, String> {
        let begun = Instant::now();
        let hold = self.server.hold(self.args.stop_limit)?;
        // Writers do not wait for a backup.
        let source = Opened::of_server(&self.server, self.args.memory_limit, Duration::ZERO)?;
        if source.position.epoch() != epoch {
            return Err("the server was started again, so that it is not known what was changed since: start the same \
                        command again"
                .to_owned());
        }
        let mut round = self.round_of(source)?;
        if !self.compare_changed(&mut round)? {
            return Ok(false);
        }
        hold.leave(&self.target.name).map_err(|words| {
            format!(
                "{words}. If the server was stopped for longer than --stop-limit ({} s), it takes writes again: start the \
                 same command again, when less is written or with a longer limit",
                self.args.stop_limit
            )
        })?;
        let rows = round.moving.read_rows();
        round.finish(self.work)?;
        self.report.stop = Some(Stop { took: begun.elapsed(), rows });
        Ok(true)
    }

    /// Ends a move after whose cut-over the command had died.
    fn end(&mut self) -> Result<bool, String> {
        if moving::is_finished(&self.target.store) {
            self.report.note("the move was finished before".to_owned());
            return Ok(true);
        }
        self.report.note("the server has taken no writes since the cut-over".to_owned());
        std::thread::sleep(LAST_WRITES_WITHIN);
        let mut round = self.begin_round()?;
        match self.compare_changed(&mut round)? {
            true => round.finish(self.work).map(|()| true),
            false => Ok(false),
        }
    }
}

/// What was moved of a copy.
struct Round {
    source: Opened,
    moving: Move,
}

impl Round {
    fn end(self) -> Result<(), String> {
        let Self { source, moving } = self;
        drop(moving);
        source.close()
    }

    /// Has servers open the target. Until then the copy is held, so that no other command moves to it.
    fn finish(self, work: &Runtime) -> Result<(), String> {
        let Self { source, moving } = self;
        work.block_on(moving.finish()).map_err(|error| {
            format!(
                "the server takes no writes any more, but the last step failed: {error}. Start the same command again, which \
                 ends the move, or have the server take writes again with --give-up"
            )
        })?;
        source.close()
    }
}
