//! The command line of `nyala bench`.

#[cfg(feature = "sql")]
pub mod sql;

use crate::client::dialect::Dialect;
use crate::time::parse_duration;
use crate::workload::ycsb::{Popularity, Workload};
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// The benchmarks.
#[derive(Clone, Debug, Subcommand)]
pub enum BenchCommand {
    /// TSBS cpu-only: load, then the fifteen types of queries
    #[command(after_help = TSBS_EXAMPLES)]
    Tsbs(Box<TsbsArgs>),
    /// The devops suite of influxdb-comparisons: nine measurements, about 100 fields, four queries
    #[command(after_help = DEVOPS_EXAMPLES)]
    Devops(Box<DevopsArgs>),
    /// Many series of one value each, with churn and late rows
    #[command(after_help = NARROW_EXAMPLES)]
    Narrow(Box<NarrowArgs>),
    /// TSBS queries alone, and while rows are written at a set rate
    #[command(after_help = MIXED_EXAMPLES)]
    Mixed(Box<MixedArgs>),
    /// Points are changed and deleted in SQL, also while rows are written
    #[command(after_help = CORRECTIONS_EXAMPLES)]
    Corrections(Box<CorrectionsArgs>),
    /// YCSB in SQL: rows of text by key, loaded, read, changed and scanned
    #[command(after_help = YCSB_EXAMPLES)]
    Ycsb(Box<YcsbArgs>),
    /// Tables of SQL: loaded, and asked, beside DuckDB and DataFusion on Parquet of the same rows
    #[cfg(feature = "sql")]
    #[command(subcommand)]
    Sql(Box<sql::SqlCommand>),
    /// Show result files side by side
    #[command(after_help = COMPARE_EXAMPLES)]
    Compare(CompareArgs),
}

const DEVOPS_EXAMPLES: &str = "\
Examples:
  nyala bench devops                                    100 hosts, one day; one writer, then one per core
  nyala bench devops --scale 10 --duration 12h --writers 1 --verify
  nyala bench devops --target http://127.0.0.1:8086 --overwrite --json influx.json";

const NARROW_EXAMPLES: &str = "\
Examples:
  nyala bench narrow                                    a million series for three minutes
  nyala bench narrow --series 100000 --interval 10s --duration 6h --late 10 --late-by 30m --churn 0
  nyala bench narrow --series 10000 --duration 1h --verify
  nyala bench narrow --target http://127.0.0.1:8428 --dialect victoriametrics --load-only";

const MIXED_EXAMPLES: &str = "\
Examples:
  nyala bench mixed                                     half of the fastest rate, light queries
  nyala bench mixed --scale 100 --duration 6h --rate 50000 --queries 'single-*'
  nyala bench mixed --full-speed --workers 8 --query-workers 8     overload by clients that wait";

const CORRECTIONS_EXAMPLES: &str = "\
Examples:
  nyala bench corrections --duration 3d --query-count 200      4000 hosts, 100 million points
  nyala bench corrections --scale 100 --duration 6h --heavy-count 3 --batch-size 1000";

const YCSB_EXAMPLES: &str = "\
Throughput, percentiles and distribution of latency, memory, bytes flushed and merged, rejected writes, filter look-ups and
write amplification are recorded every second; --html draws them on one page, --json writes them. Without --target a new
server is started in the current directory for each run, and its data is removed.

Examples:
  nyala bench ycsb --rows 1000000 --html ycsb.html a b c d e f    batches of 100 rows, then all workloads of YCSB
  nyala bench ycsb --batch 1,100 --json ycsb.json --html ycsb.html  20 million rows of 1 kB, twice: row by row, then by 100
  nyala bench ycsb --rows 2000000 --sweep wal-limit=64MiB,512MiB --sweep maintenance-threads=1,2,4 --html sweep.html
  nyala bench ycsb --rows 2000000 --ordered --requests sequential c    keys in order, and read in order
  nyala bench ycsb --rows 2000000 --requests uniform --seconds 10m upsert    written again, all rows alike
  nyala bench ycsb --rows 100000000 --fields 1 --field-bytes 76 --batch 1000 --ordered --threads 2 lookup
  nyala bench ycsb --set store=kudu --set kudu-masters=127.0.0.1:7051 --database ycsb --beside ycsb.json --html kudu.html
  nyala bench ycsb --target http://127.0.0.1:8086 --postgres 127.0.0.1:5432 a    a PostgreSQL (the target tells no metrics)";

const COMPARE_EXAMPLES: &str = "\
Examples:
  nyala bench compare nyala.json influx.json
  nyala bench compare before.json after.json --html compare.html";

const TSBS_EXAMPLES: &str = "\
Examples:
  nyala bench tsbs --scale 100 --duration 6h            a quick look at a fresh server
  nyala bench tsbs --json nyala.json --html nyala.html  the published size: 4000 hosts, one day
  nyala bench tsbs --target http://127.0.0.1:8086       the same against an InfluxDB that runs there
  nyala bench tsbs --target http://127.0.0.1:8428 --dialect victoriametrics
  nyala bench tsbs --scale 50 --duration 1d --verify    check every answer against a computed one
  nyala bench tsbs --queries 'lastpoint,single-*' --query-count 5000
  nyala bench tsbs --language own,sql                   each question in InfluxQL and in SQL
  nyala bench tsbs --data-file data.gz --query-file queries.gz     replay files of TSBS' own tools";

/// A language of questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Language {
    /// That of the target's dialect: InfluxQL or MetricsQL.
    Own,
    /// SQL. Its results are called `… in SQL`.
    Sql,
}

/// The server and its dialect.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Server")]
pub struct ServerArgs {
    /// Server to measure [default: a fresh nyala, started for the benchmark]
    #[arg(long, value_name = "URL")]
    pub target: Option<String>,
    /// Dialect of the target
    #[arg(long, value_enum, default_value_t = Dialect::Influx, requires = "target")]
    pub dialect: Dialect,
    /// Where the target speaks PostgreSQL's protocol, for --language sql
    #[arg(long, value_name = "HOST:PORT", requires = "target")]
    pub postgres: Option<String>,
    /// Process whose CPU, memory and writes are measured [default: the one that listens on the target's port]
    #[arg(long, value_name = "PID", requires = "target")]
    pub server_pid: Option<u32>,
    /// Data directory of the target, whose size is measured
    #[arg(long, value_name = "DIR", requires = "target")]
    pub server_data_dir: Option<PathBuf>,
    /// Database to write to and to query
    #[arg(long, default_value = "benchmark", value_parser = parse_database)]
    pub database: String,
    /// Drop the database first if the target has it
    #[arg(long)]
    pub overwrite: bool,
    /// Longest wait for an answer
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = parse_duration)]
    pub timeout: i64,
}

/// How to load.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Load")]
pub struct LoadArgs {
    /// Connections that write [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub workers: Option<u16>,
    /// Rows in a request
    #[arg(long, value_name = "ROWS", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub batch_size: u32,
    /// Compress what is written and ask for compressed answers, as most clients do
    #[arg(long)]
    pub gzip: bool,
    /// Write at this rate instead of at full speed
    #[arg(long, value_name = "ROWS/S", value_parser = parse_rate)]
    pub rate: Option<f64>,
    /// End loading after this long even if data remains
    #[arg(long, value_name = "DURATION", default_value = "12h", value_parser = parse_duration)]
    pub load_limit: i64,
    /// Longest wait for the server to be idle after loading (needs its process)
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = parse_duration)]
    pub settle: i64,
}

/// How to query.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Queries")]
pub struct QueryArgs {
    /// Types of queries: all, or names separated by commas; a name may end in * as a wildcard
    #[arg(long, value_name = "NAMES", default_value = "all")]
    pub queries: String,
    /// Languages of the questions; SQL goes over PostgreSQL's protocol
    #[arg(long, value_enum, value_name = "NAMES", value_delimiter = ',', default_value = "own")]
    pub language: Vec<Language>,
    /// Light queries of each type
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub query_count: u32,
    /// Heavy queries of each type
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub heavy_count: u32,
    /// Numbers of connections for light queries [default: the number of cores, and twice that]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub query_workers: Vec<u16>,
    /// Connections for heavy queries
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub heavy_workers: u16,
    /// Stop sending queries of a type after this long
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = parse_duration)]
    pub query_limit: i64,
    /// Compare up to 20 answers of each type with computed ones
    #[arg(long)]
    pub verify: bool,
}

/// Where results are written besides the terminal.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Report")]
pub struct ReportArgs {
    /// Name of the server in reports [default: nyala, or the target]
    #[arg(long, value_name = "NAME")]
    pub label: Option<String>,
    /// Write the results as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the results as a page with plots
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// What all benchmarks of a server have in common.
#[derive(Clone, Debug, Args)]
#[allow(missing_docs)]
pub struct CommonArgs {
    #[command(flatten)]
    pub server: ServerArgs,
    #[command(flatten)]
    pub load: LoadArgs,
    #[command(flatten)]
    pub query: QueryArgs,
    #[command(flatten)]
    pub report: ReportArgs,
}

/// Options of `compare`.
#[derive(Clone, Debug, Args)]
pub struct CompareArgs {
    /// Files that --json wrote
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Write a page with plots
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// The cpu-only data set.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Data")]
pub struct DataArgs {
    /// Number of hosts
    #[arg(long, value_name = "HOSTS", default_value_t = 4000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub scale: u32,
    /// Time span of the data
    #[arg(long, default_value = "1d", value_parser = parse_duration)]
    pub duration: i64,
    /// Time between a host's rows
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    pub interval: i64,
    /// Seed of data and queries
    #[arg(long, default_value_t = 123)]
    pub seed: u64,
}

/// Options of `tsbs`.
#[derive(Clone, Debug, Args)]
#[allow(missing_docs)]
pub struct TsbsArgs {
    #[command(flatten)]
    pub data: DataArgs,
    /// Load the lines of this file of tsbs_generate_data for InfluxDB, plain or gzipped
    #[arg(long, value_name = "FILE", conflicts_with_all = ["query_only", "verify"])]
    pub data_file: Option<PathBuf>,
    /// Run the queries of these files of tsbs_generate_queries
    #[arg(long, value_name = "FILE", conflicts_with_all = ["queries", "verify", "load_only"])]
    pub query_file: Vec<PathBuf>,
    /// Only load
    #[arg(long, conflicts_with_all = ["query_only", "verify"])]
    pub load_only: bool,
    /// Only run queries; the data must have been loaded with the same options
    #[arg(long, requires = "target")]
    pub query_only: bool,
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Options of `devops`.
#[derive(Clone, Debug, Args)]
#[allow(missing_docs)]
pub struct DevopsArgs {
    /// Number of hosts
    #[arg(long, value_name = "HOSTS", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub scale: u32,
    /// Time span of the data
    #[arg(long, default_value = "1d", value_parser = parse_duration)]
    pub duration: i64,
    /// Time between a host's reports
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    pub interval: i64,
    /// Seed of data and queries
    #[arg(long, default_value_t = 123)]
    pub seed: u64,
    /// Load once with each of these numbers of connections [default: 1 and one per core]
    #[arg(long, value_name = "N,…", value_delimiter = ',', conflicts_with = "workers", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub writers: Vec<u16>,
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Options of `ycsb`.
#[derive(Clone, Debug, Args)]
#[allow(missing_docs)]
pub struct YcsbArgs {
    /// Workloads to run after loading, one after the other
    #[arg(value_enum)]
    pub workloads: Vec<Workload>,
    /// Rows to load
    #[arg(long, default_value_t = 20_000_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000_000))]
    pub rows: u64,
    /// Fields of a row
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=500))]
    pub fields: u32,
    /// Bytes of a field
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    pub field_bytes: usize,
    /// Load in the order of keys; otherwise they are hashed, so that each row is anywhere among the others
    #[arg(long)]
    pub ordered: bool,
    /// Which rows are read and changed [default: as each workload says, mostly zipfian]
    #[arg(long, value_enum, value_name = "DISTRIBUTION")]
    pub requests: Option<Popularity>,
    /// Rows of an INSERT when loading; of several numbers each is a run
    #[arg(long, value_name = "ROWS,…", default_value = "100", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=5000))]
    pub batch: Vec<u64>,
    /// Sessions at the same time
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub threads: u64,
    /// How long each workload runs
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = parse_duration)]
    pub seconds: i64,
    /// Seed of the values
    #[arg(long, default_value_t = 123)]
    pub seed: u64,
    /// Only run workloads; the rows must have been loaded with the same options
    #[arg(long, requires = "target")]
    pub query_only: bool,
    /// Start a server with each of these values of a setting of `nyala serve`, such as wal-limit, at which it flushes; may be
    /// given several times, for all combinations
    #[arg(long, value_name = "SETTING=VALUE,…", conflicts_with = "target", value_parser = parse_sweep)]
    pub sweep: Vec<Setting>,
    /// Start servers with this setting; may be given several times
    #[arg(long, value_name = "SETTING=VALUE", conflicts_with = "target", value_parser = parse_setting)]
    pub set: Vec<(String, String)>,
    #[command(flatten)]
    pub server: ServerArgs,
    #[command(flatten)]
    pub report: ReportArgs,
    /// Show the runs of this file of --json on the page, too; may be given several times
    #[arg(long, value_name = "FILE", requires = "html", help_heading = "Report")]
    pub beside: Vec<PathBuf>,
}

/// Values of a setting of a server, each for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name, that of a flag.
    pub name: String,
    /// The values.
    pub values: Vec<String>,
}

/// Options of `mixed`.
#[derive(Clone, Debug, Args)]
#[allow(missing_docs)]
pub struct MixedArgs {
    #[command(flatten)]
    pub data: DataArgs,
    /// Write at this share of the rate that loading reached; --rate overrides it
    #[arg(long, value_name = "SHARE", default_value_t = 0.5, value_parser = parse_share)]
    pub load_share: f64,
    /// Write at full speed while queries run
    #[arg(long, conflicts_with = "rate")]
    pub full_speed: bool,
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Options of `corrections`: `--query-count` series are updated, and points of `--heavy-count` values deleted.
#[derive(Clone, Debug, Args)]
#[allow(missing_docs)]
pub struct CorrectionsArgs {
    #[command(flatten)]
    pub data: DataArgs,
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Options of `narrow`.
#[derive(Clone, Debug, Args)]
#[allow(missing_docs)]
pub struct NarrowArgs {
    /// Series that exist at the same time
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub series: u32,
    /// Time span of the data
    #[arg(long, default_value = "3m", value_parser = parse_duration)]
    pub duration: i64,
    /// Time between a series' rows
    #[arg(long, default_value = "15s", value_parser = parse_duration)]
    pub interval: i64,
    /// Percent of the series that are replaced by new ones per hour
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0, value_parser = parse_percent)]
    pub churn: f64,
    /// Percent of the rows that are sent late
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0, value_parser = parse_percent)]
    pub late: f64,
    /// How late they are
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = parse_duration)]
    pub late_by: i64,
    /// Seed of data and queries
    #[arg(long, default_value_t = 123)]
    pub seed: u64,
    /// Only load
    #[arg(long, conflicts_with = "verify")]
    pub load_only: bool,
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Accepts database names that never need escaping.
fn parse_database(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if text.is_empty() || text.len() > 64 || !text.chars().all(plain) {
        return Err("a name of up to 64 letters, digits, _ and -".to_owned());
    }
    Ok(text.to_owned())
}

fn parse_setting(text: &str) -> Result<(String, String), String> {
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    match text.split_once('=') {
        Some((name, value)) if is_name(name) && !value.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("a setting and its value, such as maintenance-threads=4".to_owned()),
    }
}

fn parse_sweep(text: &str) -> Result<Setting, String> {
    let (name, values) = parse_setting(text)?;
    let values: Vec<String> = values.split(',').map(str::to_owned).collect();
    match values.iter().any(String::is_empty) {
        true => Err("an empty value: name values such as wal-limit=64MiB,512MiB".to_owned()),
        false => Ok(Setting { name, values }),
    }
}

fn parse_rate(text: &str) -> Result<f64, String> {
    parse_number(text, |rate| rate.is_finite() && rate >= 1.0, "a number of rows a second, at least 1")
}

fn parse_percent(text: &str) -> Result<f64, String> {
    parse_number(text, |percent| (0.0..=100.0).contains(&percent), "a number from 0 to 100")
}

fn parse_share(text: &str) -> Result<f64, String> {
    parse_number(text, |share| share > 0.0 && share <= 1.0, "a number above 0, up to 1")
}

fn parse_number(text: &str, accepts: fn(f64) -> bool, expected: &str) -> Result<f64, String> {
    text.parse().ok().filter(|&number| accepts(number)).ok_or_else(|| expected.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, Parser};

    #[derive(Parser)]
    struct Arguments {
        #[command(subcommand)]
        command: BenchCommand,
    }

    #[test]
    fn every_example_of_the_help_is_understood() {
        Arguments::command().debug_assert();
        let helps = [
            TSBS_EXAMPLES,
            DEVOPS_EXAMPLES,
            NARROW_EXAMPLES,
            MIXED_EXAMPLES,
            YCSB_EXAMPLES,
            COMPARE_EXAMPLES,
        ];
        #[cfg(feature = "sql")]
        let helps =
            helps.into_iter().chain([sql::TPCH_EXAMPLES, sql::CLICKBENCH_EXAMPLES, sql::STAR_EXAMPLES]);
        let lines =
            helps.into_iter().flat_map(|help| help.lines().skip_while(|line| *line != "Examples:").skip(1));
        for line in lines {
            // An explanation follows after at least two spaces.
            let command = line.trim().split("  ").next().unwrap_or_default().replace('\'', "");
            let words = command.strip_prefix("nyala ").expect("examples are commands").split(' ');
            Arguments::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }

    #[test]
    fn options_that_make_no_sense_are_refused() {
        for line in [
            "bench",
            "bench tsbs --scale 0",
            "bench tsbs --duration 10",
            "bench tsbs --query-only",
            "bench tsbs --load-only --verify",
            "bench tsbs --dialect victoriametrics",
            "bench tsbs --database a;b",
            "bench tsbs --rate 0",
            "bench narrow --late 101",
            "bench mixed --load-share 0",
            "bench devops --writers 1 --workers 2",
            "bench compare",
            "bench ycsb --sweep wal-limit",
            "bench ycsb --sweep wal-limit=1MiB,",
            "bench ycsb --set --x=1",
            "bench ycsb --set x=1 --target http://127.0.0.1:1",
            "bench ycsb --beside x.json",
        ] {
            assert!(Arguments::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
        let parsed =
            Arguments::try_parse_from("bench tsbs --query-workers 1,8".split(' ')).map(|a| a.command);
        assert!(matches!(parsed, Ok(BenchCommand::Tsbs(args)) if args.common.query.query_workers == [1, 8]));
    }
}
