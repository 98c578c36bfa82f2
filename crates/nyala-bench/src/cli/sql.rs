//! The command line of `nyala bench sql`.

use super::ServerArgs;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Benchmarks of SQL on tables.
#[derive(Clone, Debug, Subcommand)]
pub enum SqlCommand {
    /// TPC-H: eight tables of a wholesaler, 22 queries
    #[command(after_help = TPCH_EXAMPLES)]
    Tpch(Box<TpchArgs>),
    /// ClickBench's 43 queries about a wide table, on rows that are made up
    #[command(after_help = CLICKBENCH_EXAMPLES)]
    Clickbench(Box<ClickbenchArgs>),
    /// A star: a table of 100 to 200 columns, loaded, joined, changed, looked up in, compressed, read out
    #[command(after_help = STAR_EXAMPLES)]
    Star(Box<StarArgs>),
}

pub(super) const TPCH_EXAMPLES: &str = "\
Examples:
  nyala bench sql tpch --scale 0.1                      600,000 line items; each query cold, then three times warm
  nyala bench sql tpch --scale 1 --duckdb python3       beside DuckDB on Parquet of the same rows; answers are compared
  nyala bench sql tpch --duckdb python3 --datafusion python3 --json tpch.json
  nyala bench sql tpch --queries 1,5,18 --warm 10 --no-cold
  nyala bench sql tpch --scale 0.01 --expected answers.json    compare with answers that --record has written";

pub(super) const CLICKBENCH_EXAMPLES: &str = "\
Examples:
  nyala bench sql clickbench --files ClickBench/postgresql      create.sql and queries.sql of a copy of ClickBench
  nyala bench sql clickbench --files ClickBench/postgresql --rows 1000000 --duckdb python3";

pub(super) const STAR_EXAMPLES: &str = "\
Examples:
  nyala bench sql star                                  200,000 events of 150 columns
  nyala bench sql star --rows 1000000 --columns 100 --duckdb python3 --datafusion python3
  nyala bench sql star --flight python3 --update-percent 5     Flight SQL too; more updates beside the queries";

/// What all benchmarks of tables have in common.
#[derive(Clone, Debug, Args)]
#[allow(missing_docs)]
pub struct SuiteArgs {
    /// Queries to ask: all, or names separated by commas
    #[arg(long, value_name = "NAMES", default_value = "all", help_heading = "Queries")]
    pub queries: String,
    /// How often each query is asked again while caches are warm; the median is reported
    #[arg(long, value_name = "N", default_value_t = 3, help_heading = "Queries", value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub warm: u32,
    /// Do not restart the server before each query, to ask it with cold caches too
    #[arg(long, help_heading = "Queries")]
    pub no_cold: bool,
    /// A Python that has duckdb: asks DuckDB the same, on Parquet of the same rows, and compares the answers
    #[arg(long, value_name = "PYTHON", help_heading = "Peers")]
    pub duckdb: Option<PathBuf>,
    /// A Python that has datafusion: asks DataFusion the same, on the same Parquet
    #[arg(long, value_name = "PYTHON", help_heading = "Peers")]
    pub datafusion: Option<PathBuf>,
    /// Write DuckDB's answers to a file
    #[arg(long, value_name = "FILE", requires = "duckdb", help_heading = "Peers")]
    pub record: Option<PathBuf>,
    /// Compare the answers with those of a file that --record wrote
    #[arg(long, value_name = "FILE", conflicts_with = "duckdb", help_heading = "Peers")]
    pub expected: Option<PathBuf>,
    /// Where the Parquet for the peers goes; it is removed at the end
    #[arg(long, value_name = "DIRECTORY", default_value = ".", help_heading = "Peers")]
    pub parquet_dir: PathBuf,
    /// Write the results as JSON
    #[arg(long, value_name = "FILE", help_heading = "Report")]
    pub json: Option<PathBuf>,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Options of `sql tpch`.
#[derive(Clone, Debug, Args)]
#[allow(missing_docs)]
pub struct TpchArgs {
    /// Scale factor: 1 is six million line items, a gigabyte of text
    #[arg(long, default_value_t = 0.1, help_heading = "Data", value_parser = parse_scale)]
    pub scale: f64,
    #[command(flatten)]
    pub suite: SuiteArgs,
}

/// Options of `sql clickbench`.
#[derive(Clone, Debug, Args)]
#[allow(missing_docs)]
pub struct ClickbenchArgs {
    /// Directory with create.sql and queries.sql, such as the folder postgresql of ClickBench
    #[arg(long, value_name = "DIRECTORY", help_heading = "Data")]
    pub files: PathBuf,
    /// Rows of the table
    #[arg(long, default_value_t = 100_000, help_heading = "Data", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub rows: u64,
    /// Seed of the rows
    #[arg(long, default_value_t = 123, help_heading = "Data")]
    pub seed: u64,
    #[command(flatten)]
    pub suite: SuiteArgs,
}

/// Options of `sql star`.
#[derive(Clone, Debug, Args)]
#[allow(missing_docs)]
pub struct StarArgs {
    /// Events
    #[arg(long, default_value_t = 200_000, help_heading = "Data", value_parser = clap::value_parser!(u64).range(100..=1_000_000_000))]
    pub rows: u64,
    /// Columns of an event
    #[arg(long, default_value = "150", help_heading = "Data", value_parser = parse_columns)]
    pub columns: usize,
    /// Seed of the rows
    #[arg(long, default_value_t = 123, help_heading = "Data")]
    pub seed: u64,
    /// Rows that are inserted, updated, deleted and looked up one by one
    #[arg(long, value_name = "N", default_value_t = 500, help_heading = "Changes", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub operations: u64,
    /// Percent of the events that a writer updates in a minute while the queries are asked again
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, help_heading = "Changes", value_parser = super::parse_percent)]
    pub update_percent: f64,
    /// Where the target speaks Flight SQL
    #[arg(long, value_name = "HOST:PORT", requires = "target", help_heading = "Server")]
    pub server_flight: Option<String>,
    /// The target's --files-dir
    #[arg(long, value_name = "DIR", requires = "target", help_heading = "Server")]
    pub server_files_dir: Option<PathBuf>,
    /// A Python that has adbc_driver_flightsql and pyarrow: reads all events by Flight SQL
    #[arg(long, value_name = "PYTHON", help_heading = "Peers")]
    pub flight: Option<PathBuf>,
    #[command(flatten)]
    pub suite: SuiteArgs,
}

fn parse_columns(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (100..=200).contains(count));
    count.ok_or_else(|| "a number from 100 to 200".to_owned())
}

fn parse_scale(text: &str) -> Result<f64, String> {
    super::parse_number(text, |scale| (0.001..=1000.0).contains(&scale), "a number from 0.001 to 1000")
}
