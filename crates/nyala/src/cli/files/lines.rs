//! `nyala import lines`: points of files of line protocol, as InfluxDB's tools export it, into the measurements that they name.

use super::inputs::{Input, inputs_of};
use super::journal::Journal;
use super::line_file::{Line, LineFile};
use super::pieces::{self, ImportedPieces, time_of_points};
use super::shown;
use super::source::ServerOrDataArgs;
use crate::cli::log;
use clap::Args;
use nyala_db::ingest::{Precision, end_without_time};
use nyala_query::influxql::{CreateDatabase, Params, PolicyClauses, RetentionPolicy, Statement, parse_query};
use nyala_shell::{Client, RefusedPoints, UnreadableLine};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

pub(in crate::cli) const EXAMPLES: &str = "\
FILE is plain or gzipped. A directory stands for all files below it that end in .lp, .lp.gz, .txt or .txt.gz. What influx_inspect
export writes for `influx -import` says where its points go: its CREATE DATABASE and CREATE RETENTION POLICY are executed, and
lines such as \"# CONTEXT-DATABASE:telegraf\" are followed. --database sends all points to one database instead, which must be
there; so does it for files without such lines (influx_inspect export -lponly, influxd inspect export-lp of InfluxDB 2.x).

Lines that cannot be read and points that are refused are listed, and keep no others from being written. An import that was
interrupted goes on where it was when it is started again in the same folder.

Exit code: 0 everything was imported, 1 something was not (the message says what).

Examples:
  nyala import lines export.gz                                to the server at 127.0.0.1:8086
  nyala import lines --data-dir /var/lib/nyala export.gz      to the data of a server that is stopped
  nyala import lines -d telegraf --retention-policy month exported/
  nyala import lines -d telegraf --precision s points.lp      times in seconds
  nyala import lines -d telegraf s3://archive/telegraf.lp.gz  with the environment's AWS_ENDPOINT_URL, AWS_REGION, …";

/// Lines are sent when they have about so many bytes.
const PIECE_BYTES: usize = 6 << 20;
/// The most statements that are named because they were refused.
const NOTES_MAX: usize = 100;
/// InfluxDB's default policy.
const DEFAULT_POLICY: &str = "autogen";
/// The most refused points that are described.
const REFUSALS_MAX: usize = 10;

/// Where points go, and the files that they are in.
#[derive(Debug, Args)]
pub(in crate::cli) struct LinesArgs {
    #[command(flatten)]
    to: ServerOrDataArgs,
    /// The database of all points, instead of those that the files name
    #[arg(short, long, value_name = "DATABASE")]
    database: Option<String>,
    /// The retention policy of that database [default: its default policy]
    #[arg(long, value_name = "NAME", requires = "database")]
    retention_policy: Option<String>,
    /// The unit of times
    #[arg(long, value_name = "UNIT", default_value = "ns", value_parser = ["ns", "u", "ms", "s", "m", "h"])]
    precision: String,
    /// Where it is noted how far the import has come
    #[arg(long, value_name = "FILE", default_value = "nyala-import.journal")]
    journal: PathBuf,
    /// Files, or directories of them, or s3:// and a bucket with a name in it
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

/// What is imported, in the journal.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    /// Whose data it becomes.
    place: String,
    lines_to: Option<String>,
    policy: Option<String>,
    precision: String,
}

pub(in crate::cli) fn run(args: &LinesArgs) -> ExitCode {
    let (report, is_complete) = match import(args) {
        Ok(done) => done,
        Err(message) => {
            log::print_error(&message);
            return ExitCode::FAILURE;
        }
    };
    match std::io::stdout().write_all(report.as_bytes()) {
        Ok(()) if is_complete => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Imports, and returns a report and whether all points were written.
fn import(args: &LinesArgs) -> Result<(String, bool), String> {
    let begun = Instant::now();
    let inputs = inputs_of(&args.files, &["lp", "lp.gz", "txt", "txt.gz"])?;
    args.to.with_client(|client, place| {
        let header = Header {
            place: place.to_owned(),
            lines_to: args.database.clone(),
            policy: args.retention_policy.clone(),
            precision: args.precision.clone(),
        };
        let (mut journal, noted) = Journal::open(&args.journal, &header)?;
        let unit_ns = Precision::from_parameter(&args.precision).unwrap_or_default().unit_ns();
        let time = time_of_points(&mut journal, &noted)?.div_euclid(unit_ns);
        let mut import = Import {
            args,
            client,
            time,
            pieces: ImportedPieces::of(journal, &args.journal, &noted, &inputs, false),
            points: 0,
            is_proven: false,
            created: HashSet::new(),
            notes: Vec::new(),
            refusals: Vec::new(),
        };
        let sent = import.files(&inputs, noted);
        import.finish(sent, inputs.len(), begun)
    })
}

/// An import that is going on.
struct Import<'a> {
    args: &'a LinesArgs,
    client: &'a Client,
    /// Of points that have none, in the unit of the others.
    time: i64,
    pieces: ImportedPieces<'a>,
    /// Points that this run has sent.
    points: u64,
    /// Points of the file that it is at are written already: it is line protocol.
    is_proven: bool,
    /// Databases that this run has created, or found as the file wants them.
    created: HashSet<String>,
    notes: Vec<String>,
    refusals: Vec<String>,
}

/// Lines for one place.
#[derive(Default)]
struct Piece {
    text: Vec<u8>,
    points: u64,
    /// The number of the first line in its file.
    first_line: u64,
    /// Where in the file it ends.
    until: u64,
}

/// What a comment says about the lines behind it.
enum Direction<'a> {
    Statements,
    Points,
    Database(&'a str),
    Policy(&'a str),
}

impl Import<'_> {
    fn files(&mut self, inputs: &[Input], noted: Vec<pieces::Line>) -> Result<(), String> {
        self.pieces.resume(noted, 0)?;
        for input in inputs {
            self.file(input)?;
            self.pieces.end_file(input);
        }
        Ok(())
    }

    fn file(&mut self, input: &Input) -> Result<(), String> {
        let mut file = LineFile::open(input)?;
        let done = self.pieces.done_rows(input);
        self.is_proven = done > 0;
        let mut place = (self.args.database.clone(), self.args.retention_policy.clone().unwrap_or_default());
        let is_told = place.0.is_some();
        let mut are_statements = false;
        let mut piece = Piece::default();
        loop {
            let read_bytes = file.read_bytes();
            let Some(line) = file.next()? else { break };
            let trimmed = line.text.trim_ascii();
            match direction(trimmed) {
                Some(Direction::Statements) => {
                    self.send(input, &mut piece, &place)?;
                    are_statements = true;
                }
                Some(Direction::Points) => are_statements = false,
                Some(Direction::Database(_) | Direction::Policy(_)) if is_told => {}
                Some(Direction::Database(name)) => {
                    self.send(input, &mut piece, &place)?;
                    place = (Some(name.to_owned()), String::new());
                }
                Some(Direction::Policy(name)) => {
                    self.send(input, &mut piece, &place)?;
                    name.clone_into(&mut place.1);
                }
                None if line.until <= done => {}
                None if are_statements && (is_told || is_blank(trimmed)) => {}
                None if are_statements => self.statement(input, &line),
                None if piece.text.is_empty() && is_blank(trimmed) => {}
                None => {
                    if line.is_cut || piece.text.len() + line.text.len() > PIECE_BYTES {
                        self.send(input, &mut piece, &place)?;
                        self.pieces.watch(read_bytes);
                    }
                    piece.add(&line, self.time);
                    if line.is_cut {
                        self.send(input, &mut piece, &place)?;
                    }
                }
            }
        }
        self.send(input, &mut piece, &place)
    }

    /// Executes a statement that creates what the points need. What cannot be created may be there.
    fn statement(&mut self, input: &Input, line: &Line<'_>) {
        let text = String::from_utf8_lossy(line.text.trim_ascii());
        let executed = match parse_query(&text, &Params::default()) {
            Err(error) => Err(format!("error parsing query: {error}")),
            Ok(statements) => statements.iter().try_for_each(|statement| self.create(statement)),
        };
        if let Err(words) = executed
            && self.notes.len() < NOTES_MAX
        {
            self.notes.push(format!("{}, line {}: {text}: {words}", input.shown, line.number));
        }
    }

    fn create(&mut self, statement: &Statement) -> Result<(), String> {
        match statement {
            Statement::CreateDatabase(create) => self.create_database(create),
            Statement::CreateRetentionPolicy(_) | Statement::AlterRetentionPolicy(_) => {
                self.client.execute_influxql(&statement.to_string(), "")
            }
            _ => Err("only databases and retention policies are created".to_owned()),
        }
    }

    /// influx_inspect writes CREATE DATABASE for each policy, in no order: the later ones are those of a database that is there.
    fn create_database(&mut self, create: &CreateDatabase) -> Result<(), String> {
        let created = self.client.execute_influxql(&create.to_string(), "");
        let Some((clauses, Some(name))) = &create.retention_policy else { return created };
        let Err(refused) = created else {
            self.created.insert(create.name.clone());
            return Ok(());
        };
        let clauses = PolicyClauses {
            duration_ns: clauses.duration_ns.or(Some(0)),
            replication: clauses.replication.or(Some(1)),
            // As InfluxDB has it, if nobody has decided otherwise.
            default: name == DEFAULT_POLICY && self.created.contains(&create.name),
            ..clauses.clone()
        };
        let policy = RetentionPolicy { name: name.clone(), database: create.name.clone(), clauses };
        let policy = Statement::CreateRetentionPolicy(policy).to_string();
        self.client.execute_influxql(&policy, "").map_err(|_| refused)
    }

    /// Sends a piece, and leaves an empty one.
    fn send(
        &mut self,
        input: &Input,
        piece: &mut Piece,
        (database, policy): &(Option<String>, String),
    ) -> Result<(), String> {
        let piece = std::mem::take(piece);
        if piece.points == 0 {
            return Ok(());
        }
        let Some(database) = database else {
            return Err(format!(
                "{}, line {}: the file does not say which database the points are of: use --database",
                input.shown, piece.first_line
            ));
        };
        let Self { client, args, refusals, notes, .. } = self;
        let is_proven = self.is_proven;
        self.pieces.send(input, piece.until, piece.points, || {
            let refused = client.write(&piece.text, database, policy, &args.precision).map_err(|words| {
                // What stood in the way of the place may stand in the way of its points.
                notes.drain(..).fold(words, |words, note| format!("{words}\n{note}"))
            })?;
            let Some(refused) = refused else { return Ok(0) };
            let described = describe(&refused, input, &piece);
            if !is_proven && refused.written == 0 && refused.unreadable >= piece.points {
                return Err(format!("it is no line protocol:\n{}", described.join("\n")));
            }
            let room = REFUSALS_MAX.saturating_sub(refusals.len());
            refusals.extend(described.into_iter().take(room));
            Ok(piece.points.saturating_sub(refused.written))
        })?;
        self.points += piece.points;
        self.is_proven = true;
        Ok(())
    }

    fn finish(
        self,
        sent: Result<(), String>,
        files: usize,
        begun: Instant,
    ) -> Result<(String, bool), String> {
        let refused = self.pieces.refused;
        self.pieces.end(sent)?;
        let (points, seconds) = (shown(self.points), begun.elapsed().as_secs_f64());
        let files = if files == 1 { "1 file".to_owned() } else { format!("{files} files") };
        let mut report = format!("{points} points of {files} were sent in {seconds:.1} s");
        let notes = self.notes.iter().map(|note| format!("note: {note}"));
        let refusals = self.refusals.iter().map(|words| format!("refused: {words}"));
        match refused {
            0 => report.push_str(", and all are written\n"),
            _ => writeln!(report, "; {} were refused:", shown(refused)).expect("memory takes any text"),
        }
        for line in refusals.chain(notes) {
            writeln!(report, "{line}").expect("memory takes any text");
        }
        Ok((report, refused == 0))
    }
}

impl Piece {
    fn add(&mut self, line: &Line<'_>, time: i64) {
        if self.text.is_empty() {
            self.first_line = line.number;
        }
        match end_without_time(line.text) {
            None => self.text.extend_from_slice(line.text),
            Some(end) => {
                self.text.extend_from_slice(&line.text[..end]);
                writeln!(self.text, " {time}").expect("memory takes any text");
            }
        }
        if !self.text.ends_with(b"\n") {
            self.text.push(b'\n');
        }
        // What is no point stays, so that the server counts lines as the file has them.
        self.points += u64::from(!is_blank(line.text.trim_ascii()));
        self.until = line.until;
    }
}

/// Whether a line is a comment, or nothing.
fn is_blank(trimmed: &[u8]) -> bool {
    trimmed.is_empty() || trimmed.starts_with(b"#")
}

fn direction(line: &[u8]) -> Option<Direction<'_>> {
    let comment = std::str::from_utf8(line.strip_prefix(b"# ")?).ok()?;
    match comment {
        "DDL" => return Some(Direction::Statements),
        "DML" => return Some(Direction::Points),
        _ => {}
    }
    let (what, name) = comment.split_once(':')?;
    match what {
        "CONTEXT-DATABASE" => Some(Direction::Database(name.trim())),
        "CONTEXT-RETENTION-POLICY" => Some(Direction::Policy(name.trim())),
        _ => None,
    }
}

/// Says which points of a piece were refused, and why.
fn describe(refused: &RefusedPoints, input: &Input, piece: &Piece) -> Vec<String> {
    let place = |line: u64| piece.first_line + line.saturating_sub(1);
    let of_line = |own: &UnreadableLine| {
        let UnreadableLine { line, column, expected } = own;
        format!("{}, line {}, column {column}: expected {expected}", input.shown, place(*line))
    };
    let mut described: Vec<String> = refused.lines.iter().take(REFUSALS_MAX).map(of_line).collect();
    // The server names one reason, and those that are no matter of a line before others.
    if refused.written + refused.unreadable < piece.points || described.is_empty() {
        described
            .insert(0, format!("{}, from line {} on: {}", input.shown, piece.first_line, refused.message));
    }
    described
}
