//! `nyala doctor`: looks at the machine, the settings, the data directory and a running server, and says what to change.
//!
//! It changes nothing. Each check reads its facts and judges them by a function of its own: `machine` (files, memory,
//! clock), `directory` (the data), `access` (who can reach the server), `server` (what it says of itself).
//! `cli/findings` is what a check finds.

mod access;
mod directory;
mod machine;
mod process;
mod server;

use super::findings::{Finding, report};
use super::serve::ServeArgs;
use clap::Args;
use process::ServerProcess;
use std::path::PathBuf;
use std::process::ExitCode;

pub(super) const EXAMPLES: &str = "\
Give it the same file, variables and flags as the server. It changes nothing.
Exit code: 0 all is well, 1 something should be changed, 2 something must be changed, or could not be looked at.

Examples:
  nyala doctor --config /etc/nyala/nyala.toml
  nyala doctor --data-dir /var/lib/nyala --memory-limit 4GiB       before the first start
  NYALA_PASSWORD=secret nyala doctor -u admin --config nyala.toml  with metrics of a server that needs a log-in
  nyala doctor --json | jq '.findings[] | select(.grade != \"ok\")'";

const NOT_LOOKED_AT: u8 = 2;

/// What to look at.
#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// The server's address [default: http-bind on this machine]
    #[arg(long, value_name = "URL", help_heading = "Doctor")]
    url: Option<String>,
    /// Trust the certificates in this PEM file, instead of the system's
    #[arg(long, value_name = "FILE", help_heading = "Doctor")]
    ca: Option<PathBuf>,
    /// Log in as this administrator, to read metrics and settings; the password is in NYALA_PASSWORD
    #[arg(short, long, value_name = "NAME", help_heading = "Doctor")]
    username: Option<String>,
    /// Print one JSON object instead of lines
    #[arg(long, help_heading = "Doctor")]
    json: bool,
    #[command(flatten)]
    serve: ServeArgs,
}

pub(super) fn run(args: DoctorArgs) -> ExitCode {
    let DoctorArgs { url, ca, username, json, serve } = args;
    let settings_file = serve.file().map(PathBuf::from);
    let findings = match serve.resolve() {
        Ok(config) => {
            let process = ServerProcess::of(&config.data_dir);
            let mut findings = machine::look(&config, process.as_ref());
            findings.extend(directory::look(&config, process.as_ref()));
            findings.extend(access::look(&config, settings_file.as_deref()));
            let at = server::Address { url, ca, username, password: std::env::var("NYALA_PASSWORD").ok() };
            findings.extend(server::look(&config, &at, process.as_ref()));
            findings
        }
        Err(message) => vec![Finding::refused_settings(settings_file.as_deref(), message)],
    };
    ExitCode::from(report::print(&findings, json).map_or(NOT_LOOKED_AT, |worst| worst as u8))
}
