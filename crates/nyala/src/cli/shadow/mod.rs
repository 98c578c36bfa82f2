//! `nyala shadow`: nyala beside a running InfluxDB, for those who move.
//!
//! `mirror` makes InfluxDB send nyala what is written to it, by `subscription`s. `compare` asks both `servers` the same
//! `question`s, of a file or made of the `schema`, reads each `answer`, looks for `difference`s, and makes a `report` of them.

mod answer;
mod compare;
mod difference;
mod mirror;
mod question;
mod report;
mod schema;
mod servers;
mod subscription;

use super::log;
use clap::Subcommand;
use std::io::Write;
use std::process::ExitCode;

pub(super) const EXAMPLES: &str = "\
Examples:
  nyala shadow start --database telegraf      InfluxDB sends to nyala what is written
  nyala shadow compare --database telegraf    do both answer the same?
  nyala shadow stop --database telegraf       nothing is sent any more";

/// Nothing could be compared.
const NOT_COMPARED: u8 = 2;

/// What to do.
#[derive(Debug, Subcommand)]
pub(super) enum ShadowCommand {
    /// Make InfluxDB 1.x send to nyala what is written to it
    #[command(after_help = mirror::START_EXAMPLES)]
    Start(mirror::StartArgs),
    /// Ask InfluxDB and nyala the same, and report what they answer differently
    #[command(after_help = compare::EXAMPLES)]
    Compare(Box<compare::CompareArgs>),
    /// Make InfluxDB send nothing any more
    #[command(after_help = mirror::STOP_EXAMPLES)]
    Stop(mirror::StopArgs),
}

pub(super) fn run(command: ShadowCommand) -> ExitCode {
    let (done, failure) = match command {
        ShadowCommand::Start(args) => (mirror::start(&args).and_then(|text| print(&text)), ExitCode::FAILURE),
        ShadowCommand::Stop(args) => (mirror::stop(&args).and_then(|text| print(&text)), ExitCode::FAILURE),
        ShadowCommand::Compare(args) => (compare::run(&args), ExitCode::from(NOT_COMPARED)),
    };
    done.unwrap_or_else(|message| {
        log::print_error(&message);
        failure
    })
}

fn print(text: &str) -> Result<ExitCode, String> {
    let written = std::io::stdout().write_all(text.as_bytes());
    written.map(|()| ExitCode::SUCCESS).map_err(|error| format!("writing the report: {error}"))
}
