//! `nyala restore`: makes a data directory of a backup, or writes a part of one to a server or a data directory.
//!
//! `whole` copies the files of a backup. A part goes another way: `source` opens the backup as a store, `part` says what is
//! restored in which order, `points` reads rows, `target` writes them, `tables` copies tables of SQL.

mod line_requests;
mod part;
mod points;
mod selection;
mod source;
mod tables;
mod target;
mod whole;
mod written;

use super::log;
use super::server::ServerArgs;
use crate::backup::destination::Destination;
use crate::config::ByteSize;
use clap::Args;
use selection::Selection;
use std::path::PathBuf;
use std::process::ExitCode;

pub(super) const EXAMPLES: &str = "\
Without a selection everything is restored, to a new directory: databases, tables, users, policies, continuous queries. With a
selection, points (and tables of SQL, to a data directory only) are written to what is there: they replace points of the same
series and time, and nothing else is changed. So a restore that was interrupted is started again as it was.

Exit code: 0 everything was restored, 1 something was not (the report, or the error that broke it off, says what), 2 nothing was
restored.

Examples:
  nyala restore /backup/nyala --data-dir /var/lib/nyala-new      everything; then: nyala serve --data-dir /var/lib/nyala-new
  nyala restore s3://backups/nyala --data-dir /var/lib/nyala-new the same of a bucket (AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, …)
  nyala restore /backup/nyala --database telegraf                one database, to the server on this machine
  nyala restore /backup/nyala --database telegraf --grants       and what was granted on it, to users who are there
  nyala restore /backup/nyala --database telegraf --as-database telegraf_then
                                                                 to another database, to look at both
  nyala restore /backup/nyala --database telegraf --measurement cpu --from 2026-11-01 --to 2026-11-02
  nyala restore /backup/nyala --database telegraf --at 2026-11-26T10:05:00Z --data-dir ./then
                                                                 as it was then, if the server keeps a history that long";

const INCOMPLETE: u8 = 1;
const NOT_RESTORED: u8 = 2;

/// What to restore, and where to.
#[derive(Debug, Args)]
pub(super) struct RestoreArgs {
    /// Where backups are: a directory, or s3://BUCKET/PREFIX
    #[arg(value_name = "PLACE")]
    place: PathBuf,
    /// The name of the backup; the newest one by default
    #[arg(long, value_name = "NAME")]
    backup: Option<String>,
    /// The data directory: without a selection it must be empty or not exist; with one its server must be stopped
    #[arg(long, value_name = "DIRECTORY")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    selection: Selection,
    /// The most memory that a data directory takes meanwhile, and again the backup
    #[arg(long, value_name = "SIZE", default_value = "512MiB")]
    memory_limit: ByteSize,
    #[command(flatten)]
    server: ServerArgs,
}

pub(super) fn run(args: &RestoreArgs) -> ExitCode {
    log::to_standard_error("warn");
    let mut has_begun = false;
    match restore(args, &mut has_begun) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(INCOMPLETE),
        Err(message) => {
            log::print_error(&message);
            ExitCode::from(if has_begun { INCOMPLETE } else { NOT_RESTORED })
        }
    }
}

/// Restores, and returns whether everything was restored. Says when it has begun to change something that stays.
fn restore(args: &RestoreArgs, has_begun: &mut bool) -> Result<bool, String> {
    let destination = Destination::open_to_read(&args.place)?;
    let manifest = destination.find(args.backup.as_deref())?;
    if args.selection.is_everything() {
        let data_dir = args.data_dir.as_ref();
        let data_dir = data_dir.ok_or("say where to: --data-dir NEW_DIRECTORY, or select a --database")?;
        return whole::restore(&destination, &manifest, data_dir).map(|()| true);
    }
    args.selection.check()?;
    part::restore(args, &destination, &manifest, has_begun)
}
