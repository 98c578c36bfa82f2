//! `nyala upgrade-check`: looks at what another version has left, and says whether this program can be started on it, what
//! that changes, and whether there is a way back.
//!
//! It changes nothing. `settings` looks at the settings file and the environment, `directory` at the data.

mod directory;
mod settings;

use super::findings::{Finding, Grade, report};
use super::serve::ServeArgs;
use clap::Args;
use std::process::ExitCode;

pub(super) const EXAMPLES: &str = "\
Run the new program, with the same file, variables and flags as the server. It changes nothing.
While a server uses the directory only the versions of its files are looked at: look again when it is stopped.
Whether files are damaged is what `nyala check` looks for.
Exit code: 0 this program can be started, 1 something must be changed before, 2 the report could not be written.

Examples:
  nyala upgrade-check --config /etc/nyala/nyala.toml
  nyala upgrade-check --data-dir /var/lib/nyala && nyala backup --data-dir /var/lib/nyala /backup/nyala
  nyala upgrade-check --json --data-dir ./nyala-data | jq '.findings[] | select(.grade != \"ok\")'";

const REFUSED: u8 = 1;
const NOT_WRITTEN: u8 = 2;

/// What to look at.
#[derive(Debug, Args)]
pub(super) struct UpgradeCheckArgs {
    /// Print one JSON object instead of lines
    #[arg(long, help_heading = "Upgrade check")]
    json: bool,
    #[command(flatten)]
    serve: ServeArgs,
}

pub(super) fn run(args: UpgradeCheckArgs, program: &clap::Command) -> ExitCode {
    let (mut findings, place) = settings::look(args.serve);
    findings.extend(settings::look_at_environment(program));
    match place {
        Some(settings::Place::Directory(data_dir)) => findings.extend(directory::look(&data_dir)),
        Some(settings::Place::Cluster) => {
            findings.push(Finding::ok("data-directory", "rows are kept in an Apache Kudu cluster"));
        }
        None => {}
    }
    ExitCode::from(match report::print(&findings, args.json) {
        Ok(Grade::Ok | Grade::Warning) => 0,
        Ok(Grade::Problem) => REFUSED,
        Err(report::NotWritten) => NOT_WRITTEN,
    })
}
