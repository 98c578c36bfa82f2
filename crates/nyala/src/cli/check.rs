//! `nyala check`.

use clap::Args;
use nyala_bench::report::progress::Progress;
use nyala_db::catalog::{DAMAGED_DATABASES_TABLE, SERIES_TABLE};
use nyala_db::users::USERS_TABLE;
use nyala_engine::fs::{FsRef, RealFs};
use nyala_engine::{CheckProgress, CheckReport, RepairReport, accept, check, repair};
use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

pub(super) const EXAMPLES: &str = "\
Exit code: 0 no damage, 1 damage was found (with --repair: nothing was written), 2 the directory could not be checked.
The server must be stopped, because it locks the directory. Only --accept without --repair changes the directory.

Examples:
  nyala check ./nyala-data
  nyala check --repair /srv/new ./nyala-data            save what can be read to a new directory; if deleted data
                                                        may come back, say so and write nothing
  nyala check --repair /srv/new --accept ./nyala-data   save it even if deleted data may come back
  nyala check --accept ./nyala-data                     accept the loss of what the log or missing files held
  nyala check --json /var/lib/nyala | jq '.damage[].file'
  nyala check --quiet /var/lib/nyala && start-the-server";

/// The table of users. If a repair loses it, the new directory has no users.
const USERS: (&str, &str) =
    (USERS_TABLE, "if there were users, whoever comes first may be able to become the administrator");
/// Said when records of series are lost: only they tell which points belong to which tags.
const POINTS_WITHOUT_SERIES: &str = "points of series whose records are lost are not shown, however many are there: put the file \
                                     back, or restore a backup";
const DAMAGED: u8 = 1;
const NOT_CHECKED: u8 = 2;

/// What to check.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// The data directory of a server that is stopped
    #[arg(value_name = "DIRECTORY", env = "NYALA_DATA_DIR")]
    data_dir: PathBuf,
    /// Save what can be read to a new directory, which must be empty or not exist
    #[arg(long, value_name = "NEW_DIRECTORY")]
    repair: Option<PathBuf>,
    /// Accept what is lost, so that the server starts and no longer reports it; with --repair: accept what may come
    /// back
    #[arg(long)]
    accept: bool,
    /// Print one JSON object instead of lines
    #[arg(long)]
    json: bool,
    /// Print nothing unless something is damaged
    #[arg(long, conflicts_with = "json")]
    quiet: bool,
}

pub(super) fn run(args: &CheckArgs) -> ExitCode {
    let fs: FsRef = Arc::new(RealFs);
    if let Some(new_dir) = &args.repair {
        return finish(repair(&fs, &args.data_dir, new_dir, args.accept, &[USERS]), |report| {
            (if args.json { repair_json(report) } else { repair_lines(report) }, report.written)
        });
    }
    if args.accept {
        return finish(accept(&fs, &args.data_dir, &[DAMAGED_DATABASES_TABLE]), |accepted: &Vec<String>| {
            (
                if args.json {
                    format!("{}\n", serde_json::json!({ "accepted": accepted }))
                } else {
                    accepted_lines(accepted)
                },
                true,
            )
        });
    }
    let begun = Instant::now();
    let mut progress = Progress::start("checking");
    let mut watch = |CheckProgress { done_bytes, total_bytes }: CheckProgress| {
        let share = done_bytes as f64 / total_bytes.max(1) as f64;
        progress.update(share, || {
            let (done, total) = (mebibytes(done_bytes), mebibytes(total_bytes));
            let rate = done / begun.elapsed().as_secs_f64();
            format!("{done:.0} of {total:.0} MiB, {rate:.0} MiB/s")
        });
    };
    let checked = check(&fs, &args.data_dir, &mut watch);
    progress.clear();
    finish(checked.map_err(|error| error.context("cannot check")), |report| {
        let is_sound = report.damage_count == 0;
        let text = match (args.json, args.quiet && is_sound) {
            (true, _) => json(report),
            (false, false) => lines(report, begun.elapsed().as_secs_f64()),
            (false, true) => String::new(),
        };
        (text, is_sound)
    })
}

/// Prints the outcome. The exit code is 0 if the directory is sound, repaired or accepted.
fn finish<T>(outcome: nyala_core::Result<T>, text: impl Fn(&T) -> (String, bool)) -> ExitCode {
    let report = match outcome {
        Ok(report) => report,
        Err(error) => {
            super::log::print_error(&error.to_string());
            return ExitCode::from(NOT_CHECKED);
        }
    };
    let (text, is_done) = text(&report);
    if let Err(error) = std::io::stdout().write_all(text.as_bytes()) {
        super::log::print_error(&format!("writing the report: {error}"));
        return ExitCode::from(NOT_CHECKED);
    }
    ExitCode::from(if is_done { 0 } else { DAMAGED })
}

fn repair_lines(report: &RepairReport) -> String {
    let mut text = String::new();
    for (what, each) in
        [("lost", &report.lost), ("may come back", &report.may_return), ("note", &report.notes)]
    {
        each.iter().for_each(|words| line(&mut text, format_args!("{what}: {words}")));
    }
    note_lost_series(&mut text, &report.lost);
    match report.written {
        true => line(
            &mut text,
            format_args!(
                "saved: {} tables, {} rowsets with {} rows ({} of them in part), {} log records",
                report.tables, report.rowsets, report.rows, report.rewritten, report.log_records
            ),
        ),
        false => line(&mut text, format_args!("nothing was written: say --accept if that may come back")),
    }
    text
}

fn repair_json(report: &RepairReport) -> String {
    let report = serde_json::json!({
        "written": report.written,
        "tables": report.tables,
        "rowsets": report.rowsets,
        "rewritten": report.rewritten,
        "rows": report.rows,
        "log_records": report.log_records,
        "may_return": report.may_return,
        "lost": report.lost,
        "notes": report.notes,
    });
    format!("{report}\n")
}

fn accepted_lines(accepted: &[String]) -> String {
    let mut text = String::new();
    accepted.iter().for_each(|words| line(&mut text, format_args!("accepted as lost: {words}")));
    note_lost_series(&mut text, accepted);
    if accepted.is_empty() {
        line(&mut text, format_args!("there is nothing to accept"));
    }
    text
}

/// Adds what it means, if records of series are among what is lost.
fn note_lost_series(text: &mut String, lost: &[String]) {
    let of_series = format!("table {SERIES_TABLE:?}");
    if lost.iter().any(|words| words.contains(&of_series)) {
        line(text, format_args!("note: {POINTS_WITHOUT_SERIES}"));
    }
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / 1048576.0
}

/// The report for a person.
fn lines(report: &CheckReport, seconds: f64) -> String {
    let mut text = String::new();
    for damage in &report.damage {
        line(&mut text, format_args!("damaged: {damage}"));
    }
    let unlisted = report.damage_count - report.damage.len() as u64;
    if unlisted > 0 {
        line(&mut text, format_args!("damaged: {unlisted} further places"));
    }
    for note in &report.notes {
        line(&mut text, format_args!("note: {note}"));
    }
    let damage: Vec<_> = report.damage.iter().map(|damage| damage.message.clone()).collect();
    note_lost_series(&mut text, &damage);
    line(
        &mut text,
        format_args!(
            "{} tables, {} rowsets with {} rows in {} column blocks, {} log records in {} segments; {:.1} MiB in {seconds:.1} s",
            report.tables,
            report.rowsets,
            report.rows,
            report.column_blocks,
            report.log_records,
            report.log_segments,
            mebibytes(report.bytes),
        ),
    );
    match report.damage_count {
        0 => line(&mut text, format_args!("nothing is damaged")),
        count => line(
            &mut text,
            format_args!(
                "{count} {} damaged; queries that need what is lost fail, and the server does not start without its manifest, its \
                 log or its users",
                if count == 1 { "place is" } else { "places are" }
            ),
        ),
    }
    text
}

fn line(text: &mut String, words: std::fmt::Arguments<'_>) {
    writeln!(text, "{words}").expect("writing to memory does not fail");
}

/// The report for a program.
fn json(report: &CheckReport) -> String {
    let damage: Vec<_> = report
        .damage
        .iter()
        .map(|damage| serde_json::json!({ "file": damage.file, "offset": damage.offset, "message": damage.message }))
        .collect();
    let report = serde_json::json!({
        "damaged": report.damage_count > 0,
        "damage_count": report.damage_count,
        "damage": damage,
        "notes": report.notes,
        "tables": report.tables,
        "manifest_edits": report.manifest_edits,
        "log_segments": report.log_segments,
        "log_records": report.log_records,
        "rowsets": report.rowsets,
        "rows": report.rows,
        "column_blocks": report.column_blocks,
        "bytes": report.bytes,
    });
    format!("{report}\n")
}
