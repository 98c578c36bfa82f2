//! The command line.

mod backup;
mod bench;
mod check;
mod demo;
mod doctor;
#[cfg(feature = "sql")]
mod files;
mod findings;
mod generate;
mod import;
mod log;
mod moving;
mod notify;
mod restore;
mod serve;
mod server;
mod shadow;
mod shell;
mod signals;
mod upgrade;

use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

/// A time-series database that takes the place of InfluxDB 1.x.
#[derive(Debug, Parser)]
#[command(version = VERSION, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The version, and the commit it was built from.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("NYALA_COMMIT"), ")");

const EXAMPLES: &str = "\
Examples:
  nyala demo                                  try it on a sample of benchmark data
  nyala serve                                 serve on 127.0.0.1:8086, data in ./nyala-data
  nyala shell                                 talk to it
  nyala config --memory-limit 2GiB            print the settings in force
  nyala check ./nyala-data                    search the data of a stopped server for damage
  nyala export -d db --table t t.parquet      write a table to a file; nyala import parquet reads it
  nyala doctor --config nyala.toml            what should be changed
  nyala upgrade-check --config nyala.toml     before a new version is started on old data
  nyala backup /backup/nyala                  back up the running server, after the first time only what is new
  nyala restore /backup/nyala --data-dir DIR  make a data directory of the newest backup
  nyala import influxdb /var/lib/influxdb     take over what a stopped InfluxDB 1.x has stored
  nyala shadow compare                        ask a running InfluxDB and nyala the same
  nyala move --from DIR --to kudu://host:7051 move everything to an Apache Kudu cluster, or back
  nyala bench tsbs --scale 100 --duration 6h  run a benchmark";

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve until SIGTERM or Ctrl-C
    #[command(after_help = serve::EXAMPLES)]
    Serve(serve::ServeArgs),
    /// Talk to a server in InfluxQL and SQL, at the terminal or from a script
    #[command(after_help = nyala_shell::EXAMPLES)]
    Shell(shell::Arguments),
    /// Print the settings in force as TOML
    #[command(after_help = serve::CONFIG_EXAMPLES)]
    Config(serve::ConfigArgs),
    /// Serve a sample: write it, query it, print answers and timings, and keep serving until Ctrl-C
    #[command(after_help = demo::EXAMPLES)]
    Demo(demo::DemoArgs),
    /// Verify the data directory of a stopped server, and list what is damaged
    #[command(after_help = check::EXAMPLES)]
    Check(check::CheckArgs),
    /// Export a table, a measurement or the rows of a query as Parquet or CSV
    #[cfg(feature = "sql")]
    #[command(after_help = files::export::EXAMPLES)]
    Export(files::export::ExportArgs),
    /// Look at machine, settings, data directory and server, and say what to change
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(Box<doctor::DoctorArgs>),
    /// Look at the data and settings of another version, and say whether this one can be started on them
    #[command(after_help = upgrade::EXAMPLES)]
    UpgradeCheck(Box<upgrade::UpgradeCheckArgs>),
    /// Back up a running server, or look after backups
    #[command(after_help = backup::EXAMPLES, args_conflicts_with_subcommands = true)]
    Backup(backup::BackupArgs),
    /// Make a data directory of a backup
    #[command(after_help = restore::EXAMPLES)]
    Restore(restore::RestoreArgs),
    /// Move everything from a data directory to an Apache Kudu cluster, or back
    #[command(after_help = moving::EXAMPLES)]
    Move(Box<moving::MoveArgs>),
    /// Import files, or what another database has stored
    #[command(subcommand)]
    Import(import::ImportCommand),
    /// Run beside an InfluxDB 1.x: get what is written to it, and compare answers
    #[command(subcommand, after_help = shadow::EXAMPLES)]
    Shadow(shadow::ShadowCommand),
    /// Benchmark nyala or another server
    #[command(subcommand)]
    Bench(nyala_bench::BenchCommand),
    /// Print the completions of a shell
    #[command(after_help = generate::COMPLETION_EXAMPLES)]
    Completions(generate::CompletionsArgs),
    /// Write the manual pages of all commands
    #[command(after_help = generate::MAN_EXAMPLES)]
    Man(generate::ManArgs),
}

/// Runs the program.
pub fn run() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Serve(args) => serve::run(args),
        Command::Config(args) => serve::print_config(args),
        Command::Demo(args) => demo::run(&args),
        Command::Check(args) => return check::run(&args),
        #[cfg(feature = "sql")]
        Command::Export(args) => return files::export::run(&args),
        Command::Doctor(args) => return doctor::run(*args),
        Command::UpgradeCheck(args) => return upgrade::run(*args, &Cli::command()),
        Command::Backup(args) => return backup::run(args),
        Command::Restore(args) => return restore::run(&args),
        Command::Move(args) => return moving::run(&args),
        Command::Import(command) => return import::run(command),
        Command::Shadow(command) => return shadow::run(command),
        Command::Shell(args) => return shell::run(&args),
        Command::Bench(command) => bench::run(&command),
        Command::Completions(args) => generate::completions(&args, Cli::command()),
        Command::Man(args) => generate::man(&args, Cli::command()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            log::print_error(&message);
            ExitCode::FAILURE
        }
    }
}
