//! `nyala restore`: makes a data directory of a backup.

mod whole;

use super::log;
use crate::backup::destination::Destination;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

pub(super) const EXAMPLES: &str = "\
Without --database everything is restored, to a new directory: databases, tables, users, policies, continuous queries. Start
a server on it:
  nyala restore /backup/nyala --data-dir /var/lib/nyala-new
  nyala serve --data-dir /var/lib/nyala-new";

/// What to restore, and where to.
#[derive(Debug, Args)]
pub(super) struct RestoreArgs {
    /// Where backups are
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
    /// The name of the backup; the newest one by default
    #[arg(long, value_name = "NAME")]
    backup: Option<String>,
    /// The data directory that is made: it must be empty or not exist
    #[arg(long, value_name = "NEW_DIRECTORY")]
    data_dir: PathBuf,
}

pub(super) fn run(args: &RestoreArgs) -> ExitCode {
    let restored = Destination::open_to_read(&args.directory).and_then(|destination| {
        let manifest = destination.find(args.backup.as_deref())?;
        whole::restore(&destination, &manifest, &args.data_dir)
    });
    match restored {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            log::print_error(&message);
            ExitCode::FAILURE
        }
    }
}
