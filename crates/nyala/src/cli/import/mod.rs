//! `nyala import`: takes over what another database has stored, or what is in files (`cli/files`).
//!
//! `influxdb` is the command. `source` says what is to be imported, `settings` which statements create databases, users
//! and so on, `destination` is the data directory that is written to, `shard` imports one shard. `journal` remembers which
//! shards are done, `report` says what was done, `survey` what there is.

pub(super) mod destination;
mod in_use;
mod influxdb;
mod journal;
mod report;
pub(super) mod settings;
mod shard;
pub(super) mod source;
mod survey;

#[cfg(feature = "sql")]
use super::files::{import as files, lines};
use clap::Subcommand;
use std::process::ExitCode;

/// From where data is imported.
#[derive(Debug, Subcommand)]
pub(super) enum ImportCommand {
    /// Import databases, policies, continuous queries, users and points from the files of a stopped InfluxDB, or its backups
    #[command(after_help = influxdb::EXAMPLES)]
    Influxdb(influxdb::InfluxdbArgs),
    /// Import line protocol, as influx_inspect export and influxd inspect export-lp write it
    #[cfg(feature = "sql")]
    #[command(after_help = lines::EXAMPLES)]
    Lines(lines::LinesArgs),
    /// Import Parquet files into a table or a measurement
    #[cfg(feature = "sql")]
    #[command(after_help = files::PARQUET_EXAMPLES)]
    Parquet(files::ParquetArgs),
    /// Import CSV files into a table or a measurement that exists
    #[cfg(feature = "sql")]
    #[command(after_help = files::CSV_EXAMPLES)]
    Csv(files::CsvArgs),
}

pub(super) fn run(command: ImportCommand) -> ExitCode {
    match command {
        ImportCommand::Influxdb(args) => influxdb::run(&args),
        #[cfg(feature = "sql")]
        ImportCommand::Lines(args) => lines::run(&args),
        #[cfg(feature = "sql")]
        ImportCommand::Parquet(args) => files::run_parquet(&args),
        #[cfg(feature = "sql")]
        ImportCommand::Csv(args) => files::run_csv(&args),
    }
}
