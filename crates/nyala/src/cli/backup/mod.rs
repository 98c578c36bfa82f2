//! `nyala backup`: makes backups, lists, verifies and removes them.

mod create;
mod list;
mod prune;
pub(super) mod source;
mod verify;

pub(super) use super::findings::shown_bytes as shown;
use super::log;
use clap::{Args, Subcommand};
use std::process::ExitCode;

pub(super) const EXAMPLES: &str = "\
PLACE is a directory, which the first backup makes, or s3://BUCKET/PREFIX: which server of S3 and whose access is in AWS_ENDPOINT_URL,
AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. Later backups add what is new: each is whole by itself, and files that
did not change are there once. Run this on the machine of the server, as the user of the server. What the server acknowledged before
the command is in the backup. Whatever happens to the command, earlier backups stay as they are.

Exit code: 0 done, 1 not done, or (verify) damage was found, 2 (verify) nothing could be verified.

Examples:
  nyala backup /backup/nyala                         back up the server on this machine
  nyala backup --username admin /backup/nyala        log in; the password comes from NYALA_PASSWORD, or is asked for
  nyala backup --data-dir ./nyala-data /backup/nyala back up the data of a server that is stopped
  nyala backup s3://backups/nyala                    to a bucket; so do the other commands
  nyala backup --rate-limit 50 /backup/nyala         50 MiB in a second at most
  nyala backup list /backup/nyala
  nyala backup verify /backup/nyala                  read everything, and compare checksums
  nyala backup prune --keep 14 /backup/nyala         remove all but the newest 14";

/// What to do.
#[derive(Debug, Args)]
pub(super) struct BackupArgs {
    #[command(subcommand)]
    command: Option<BackupCommand>,
    #[command(flatten)]
    create: create::CreateArgs,
}

#[derive(Debug, Subcommand)]
enum BackupCommand {
    /// List the backups of a place
    List(list::ListArgs),
    /// Read backups, and compare all files with their checksums
    Verify(verify::VerifyArgs),
    /// Remove old backups
    Prune(prune::PruneArgs),
}

pub(super) fn run(args: BackupArgs) -> ExitCode {
    let outcome = match args.command {
        Some(BackupCommand::List(args)) => list::run(&args),
        Some(BackupCommand::Verify(args)) => return verify::run(&args),
        Some(BackupCommand::Prune(args)) => prune::run(&args),
        None => create::run(&args.create),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            log::print_error(&message);
            ExitCode::FAILURE
        }
    }
}

/// Prints a text that a program may read.
fn print(text: &str) -> Result<(), String> {
    use std::io::Write;
    std::io::stdout().write_all(text.as_bytes()).map_err(|error| format!("writing the answer: {error}"))
}
