//! `nyala import`: takes over what another database has stored.
//!
//! `influxdb` is the command. `source` says what is to be imported, `settings` which statements create databases, users
//! and so on, `destination` is the data directory that is written to, `shard` imports one shard. `journal` remembers which
//! shards are done, `report` says what was done, `survey` what there is.

mod destination;
mod in_use;
mod influxdb;
mod journal;
mod quote;
mod report;
mod settings;
mod shard;
mod source;
mod survey;

use clap::Subcommand;
use std::process::ExitCode;

/// From where data is imported.
#[derive(Debug, Subcommand)]
pub(super) enum ImportCommand {
    /// Import databases, policies, continuous queries, users and points from the files of a stopped InfluxDB 1.x
    #[command(after_help = influxdb::EXAMPLES)]
    Influxdb(influxdb::InfluxdbArgs),
}

pub(super) fn run(command: ImportCommand) -> ExitCode {
    match command {
        ImportCommand::Influxdb(args) => influxdb::run(&args),
    }
}
