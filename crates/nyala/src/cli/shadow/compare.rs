//! `nyala shadow compare`: asks both servers the same, once or again and again.

use super::answer::Answer;
use super::difference::{Differences, Outcome, Tolerance, compare};
use super::question::{self, Line, Question};
use super::report::{Comparison, Round, RowsReport, Summary};
use super::schema;
use super::servers::{Server, Servers, ServersArgs, Unanswered};
use super::subscription;
use crate::cli::import::source::time_ns;
use crate::config::{ByteSize, Time};
use clap::Args;
use nyala_core::env::{Clock, SystemClock};
use nyala_shell::CtrlC;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

pub(super) const EXAMPLES: &str = "\
Asks both servers the queries of a file, a SELECT or SHOW per line (lines with -- are comments), or, without a file, of each
measurement by the hour how many values each field has, their mean, the first and the last one. `now()` is the same moment for
both, --lag before now, because the newest points may still be on their way. An answer that differs is asked for again before it
counts. Of hours that differ the rows are compared, too.

Outcomes: equal; close (numbers with a fraction differ within --tolerance); order (the same rows in another order); DIFFERENT; ERROR
(one refuses, or both for different reasons); not compared (too long, too slow).
Exit code: 0 all answers are equal or close, 1 some are not, 2 not everything could be compared. With --every, of all rounds.

Examples:
  nyala shadow compare                                    the last 24 hours of every database
  nyala shadow compare --database telegraf --from 2026-11-26T18:00:00Z
  nyala shadow compare --database telegraf --queries dashboard.influxql
  nyala shadow compare --every 5m --window 1h             until Ctrl-C, then a summary
  nyala shadow compare --json | jq '.queries[] | select(.outcome == \"different\")'";

const DIFFERENT: u8 = 1;
const NOT_COMPARED: u8 = 2;
/// How long points that are on their way get before an answer is asked for again.
const PAUSE: Duration = Duration::from_secs(1);

/// What to compare.
#[derive(Debug, Args)]
pub(in crate::cli) struct CompareArgs {
    /// Ask this database; may be given several times [default: without --queries all but _internal]
    #[arg(long, value_name = "NAME")]
    database: Vec<String>,
    /// Ask the queries of this file, a SELECT or SHOW per line
    #[arg(long, value_name = "FILE")]
    queries: Option<PathBuf>,
    /// Without --queries: compare the points of so long
    #[arg(long, value_name = "DURATION", default_value = "24h", conflicts_with = "queries")]
    window: Time,
    /// Without --queries: compare no points before this time: 2026-01-31T00:00:00Z, 2026-01-31, or nanoseconds since 1970
    #[arg(long, value_name = "TIME", value_parser = time_ns, allow_hyphen_values = true, conflicts_with = "queries")]
    from: Option<i64>,
    /// Compare no points that are newer than this; it is subtracted from now() in --queries
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    lag: Time,
    /// How far numbers with a fraction may differ, as a share of the larger one
    #[arg(long, value_name = "SHARE", default_value_t = 1e-9, value_parser = tolerance)]
    tolerance: f64,
    /// How far they may differ in any case, as for means around zero
    #[arg(long, value_name = "NUMBER", default_value_t = 0.0, value_parser = tolerance)]
    absolute_tolerance: f64,
    /// The most differences of an answer that are listed
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    differences: usize,
    /// The longest answer that is compared; the command takes up to ten times as much memory
    #[arg(long, value_name = "SIZE", default_value = "16MiB")]
    answer_limit: ByteSize,
    /// How long a server may be silent
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    timeout: Time,
    /// How often an answer that differs is asked for again, a second apart
    #[arg(long, value_name = "NUMBER", default_value_t = 2)]
    retries: u32,
    /// Compare again and again, so long after each other, until Ctrl-C
    #[arg(long, value_name = "DURATION")]
    every: Option<Time>,
    /// With --every: end after so many rounds
    #[arg(long, value_name = "NUMBER", requires = "every")]
    rounds: Option<u64>,
    /// Print an object of JSON per round, and with --every one for the summary
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    servers: ServersArgs,
}

fn tolerance(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| "it is a number from 0 on, such as 1e-9".to_owned())
}

pub(super) fn run(args: &CompareArgs) -> Result<ExitCode, String> {
    let ctrl_c = CtrlC::default();
    let lines = args.queries.as_deref().map(question::read_file).transpose()?;
    let servers = args.servers.open(&ctrl_c)?;
    let shadow = Shadow { args, lines, servers, ctrl_c };
    let mut summary = Summary::default();
    let Some(Time(pause)) = args.every else {
        let round = shadow.round(1)?;
        args.print(&if args.json { round.json() } else { round.text(true) })?;
        summary.add(&round);
        return Ok(exit_code(&summary));
    };
    shadow.ctrl_c.listen()?;
    for number in 1..=args.rounds.unwrap_or(u64::MAX) {
        match shadow.round(number) {
            // What is cut off says nothing.
            _ if shadow.ctrl_c.is_pressed() => break,
            Ok(round) => {
                args.print(&if args.json { round.json() } else { round.text(false) })?;
                summary.add(&round);
            }
            Err(error) => {
                crate::cli::log::print_error(&format!("round {number}: {error}"));
                summary.failed_rounds += 1;
            }
        }
        if args.rounds == Some(number) || shadow.ctrl_c.is_pressed_within(pause) {
            break;
        }
    }
    args.print(&if args.json { summary.json() } else { summary.text() })?;
    Ok(exit_code(&summary))
}

impl CompareArgs {
    fn print(&self, text: &str) -> Result<(), String> {
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())
            .and_then(|()| out.flush())
            .map_err(|error| format!("writing the report: {error}"))
    }

    fn tolerance(&self) -> Tolerance {
        Tolerance { share: self.tolerance, absolute: self.absolute_tolerance }
    }
}

fn exit_code(summary: &Summary) -> ExitCode {
    if summary.has(|outcome| outcome >= Outcome::Order) {
        return ExitCode::from(DIFFERENT);
    }
    let is_whole = summary.failed_rounds == 0 && !summary.is_empty();
    match is_whole && !summary.has(|outcome| outcome == Outcome::NotCompared) {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(NOT_COMPARED),
    }
}

/// A comparison that is under way.
struct Shadow<'a> {
    args: &'a CompareArgs,
    lines: Option<Vec<Line>>,
    servers: Servers,
    ctrl_c: CtrlC,
}

impl Shadow<'_> {
    /// Asks everything once, and what differs again.
    fn round(&self, number: u64) -> Result<Round, String> {
        let begun_ns = SystemClock.now_ns();
        let questions = self.questions(begun_ns)?;
        let mut comparisons = Vec::with_capacity(questions.len());
        for (at, question) in (number..).zip(&questions) {
            comparisons.push(self.compare(question, at.is_multiple_of(2))?);
            if self.ctrl_c.is_pressed() {
                return Err("cut off".to_owned());
            }
        }
        let is_unlike = |own: &Comparison| own.differences.outcome >= Outcome::Order && own.can_change;
        for _ in 0..self.args.retries {
            if !comparisons.iter().any(is_unlike) || self.ctrl_c.is_pressed_within(PAUSE) {
                break;
            }
            for (question, own) in questions.iter().zip(&mut comparisons).filter(|(_, own)| is_unlike(own)) {
                *own = self.compare(question, true)?;
            }
        }
        for (question, own) in questions.iter().zip(&mut comparisons) {
            own.rows_behind = self.rows_behind(question, own)?;
        }
        let sent = subscription::sent(&self.servers);
        let lost_before = match sent.is_empty() {
            true => 0,
            false => subscription::lost_before(&self.servers.influxdb),
        };
        Ok(Round::new(number, question::shown_time(begun_ns), sent, lost_before, comparisons))
    }

    fn questions(&self, now_ns: i64) -> Result<Vec<Question>, String> {
        let nanoseconds = |time: Time| i64::try_from(time.0.as_nanos()).unwrap_or(i64::MAX);
        let to_ns = now_ns.saturating_sub(nanoseconds(self.args.lag));
        if let Some(lines) = &self.lines {
            // Without a database the queries name theirs.
            let nowhere = [String::new()];
            let databases = if self.args.database.is_empty() { &nowhere[..] } else { &self.args.database };
            let of = |database: &String| {
                lines.iter().map(|line| line.question(database, to_ns)).collect::<Vec<_>>()
            };
            return Ok(databases.iter().flat_map(of).collect());
        }
        let from_ns = to_ns.saturating_sub(nanoseconds(self.args.window));
        let from_ns = from_ns.max(self.args.from.unwrap_or(i64::MIN));
        if from_ns >= to_ns {
            return Err(format!(
                "there is nothing to compare yet: --from is not before {}, which is --lag before now",
                question::shown_time(to_ns)
            ));
        }
        let databases = schema::databases(&self.servers.influxdb, &self.args.database)?;
        // nyala is asked now, so that it is named if it does not answer.
        self.servers.nyala.execute("", "SHOW DATABASES")?;
        let mut questions = Vec::new();
        for database in databases {
            questions.extend(schema::questions(&self.servers, &database, from_ns, to_ns)?);
        }
        match questions.is_empty() {
            true => Err("InfluxDB has no measurements there: there is nothing to compare".to_owned()),
            false => Ok(questions),
        }
    }

    /// Asks both, one after the other, so that neither takes the other's time.
    fn compare(&self, question: &Question, influxdb_first: bool) -> Result<Comparison, String> {
        let mut comparison = Comparison::of(question);
        if let Some(error) = &question.unreadable {
            comparison.refuse_unreadable(error);
            return Ok(comparison);
        }
        let Servers { influxdb, nyala } = &self.servers;
        let ask = |server: &Server| {
            let (Time(timeout), ByteSize(limit)) = (self.args.timeout, self.args.answer_limit);
            server.ask(&question.database, &question.text, timeout, limit)
        };
        let answered = match influxdb_first {
            true => ask(influxdb).and_then(|theirs| Ok((theirs, ask(nyala)?))),
            false => ask(nyala).and_then(|ours| Ok((ask(influxdb)?, ours))),
        };
        let (theirs, ours) = match answered {
            Ok(answered) => answered,
            Err(Unanswered::Server(words)) => return Err(words),
            Err(Unanswered::Question(words)) => {
                comparison.not_compared(words);
                return Ok(comparison);
            }
        };
        comparison.influxdb_ms = Some(milliseconds(theirs.elapsed));
        comparison.nyala_ms = Some(milliseconds(ours.elapsed));
        let listed_max = self.args.differences;
        let read = |server: &Server, body| {
            Answer::read(body)
                .map_err(|error| format!("the answer of {} is unreadable: {error}", server.named()))
        };
        let compared = read(influxdb, &theirs.body[..]).and_then(|answer| {
            comparison.rows = answer.rows();
            comparison.error.clone_from(&answer.error);
            match theirs.body == ours.body {
                true => Ok(Differences::none(listed_max)),
                false => {
                    let own = read(nyala, &ours.body[..])?;
                    Ok(compare(&answer, &own, self.args.tolerance(), listed_max))
                }
            }
        });
        match compared {
            Ok(differences) => comparison.differences = differences,
            Err(words) => comparison.not_compared(words),
        }
        Ok(comparison)
    }

    /// Of a query by the hour that differs, compares the rows of the first hour that does.
    fn rows_behind(&self, question: &Question, own: &Comparison) -> Result<Option<RowsReport>, String> {
        let place = own.differences.listed.iter().find_map(|difference| difference.place.as_ref());
        let (Some(rows), Some((key, hour_ns))) = (&question.rows, place) else { return Ok(None) };
        let text = schema::rows_of_hour(rows, key, *hour_ns);
        let question = Question { shown: text.clone(), text, rows: None, ..question.clone() };
        let Comparison { query, differences, .. } = self.compare(&question, true)?;
        Ok(Some(RowsReport { query, differences }))
    }
}

fn milliseconds(elapsed: Duration) -> f64 {
    (elapsed.as_secs_f64() * 1e6).round() / 1e3
}
