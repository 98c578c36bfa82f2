//! `nyala import parquet` and `nyala import csv`: files into a table or a measurement.

use super::inputs::{Input, inputs_of};
use super::journal::Journal;
use super::name::Name;
use super::pieces::{ImportedPieces, next_attempt};
use super::query::count_of;
use super::source::SourceArgs;
use super::table::{self, Destination};
use super::{points, shown};
use crate::cli::log;
use clap::Args;
use nyala_shell::Client;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

pub(in crate::cli) const PARQUET_EXAMPLES: &str = "\
Columns of files are those of the table by their names; values are never rounded or cut off. A directory stands for all files
below it, and values in the names of folders (host=a) are columns.

An import that was interrupted goes on where it was when it is started again in the same folder. Rows are sent in pieces, each
of which is written whole or not at all.

Exit code: 0 everything was imported, 1 something was not (the message says what).

Examples:
  nyala import parquet -d shop --table orders orders.parquet
  nyala import parquet -d telegraf --measurement cpu --tags host,region --time time cpu.parquet
  nyala import parquet -d telegraf --measurement cpu --tags host cpu/    what nyala export --partition-by has written
  nyala import parquet -d shop --table orders s3://archive/orders/       with the environment's AWS_ENDPOINT_URL, AWS_REGION, …";

pub(in crate::cli) const CSV_EXAMPLES: &str = "\
Values are read as COPY of PostgreSQL reads CSV: an empty value is NULL, an empty text is \"\". The first line has the names of
columns; --columns names them for files without such a line. Points go into measurements that exist: their types are known then.

Exit code: 0 everything was imported, 1 something was not (the message says what).

Examples:
  nyala import csv -d shop --table orders orders.csv
  nyala import csv -d telegraf --measurement cpu cpu.csv
  nyala import csv -d shop --table orders --columns id,customer,total orders-without-header.csv";

/// Where rows go, and the files that they are in.
#[derive(Debug, Args)]
pub(in crate::cli) struct ImportArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// The table
    #[arg(
        long,
        value_name = "NAME",
        required_unless_present = "measurement",
        conflicts_with = "measurement"
    )]
    table: Option<Name>,
    /// The measurement, or POLICY.MEASUREMENT
    #[arg(long, value_name = "NAME")]
    measurement: Option<Name>,
    /// Where it is noted how far the import has come
    #[arg(long, value_name = "FILE", default_value = "nyala-import.journal")]
    journal: PathBuf,
    /// Files, or directories of them, or s3:// and a bucket with a name in it
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

/// What Parquet files need beside that.
#[derive(Debug, Args)]
pub(in crate::cli) struct ParquetArgs {
    #[command(flatten)]
    import: ImportArgs,
    /// The columns that are tags of a measurement; the other ones are fields
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',', requires = "measurement")]
    tags: Vec<String>,
    /// The column with the times of a measurement
    #[arg(long, value_name = "COLUMN", default_value = "time")]
    time: String,
}

/// What CSV files need beside that.
#[derive(Debug, Args)]
pub(in crate::cli) struct CsvArgs {
    #[command(flatten)]
    import: ImportArgs,
    /// The columns, of files without a line of names
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',')]
    columns: Vec<String>,
}

/// What is imported, in the journal.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    /// Whose data it becomes.
    place: String,
    database: String,
    destination: String,
    form: String,
}

pub(in crate::cli) fn run_parquet(args: &ParquetArgs) -> ExitCode {
    let form = format!("parquet tags {:?} time {:?}", args.tags, args.time);
    // Before anything is begun.
    let place = match args.import.measurement.as_ref().map(Name::policy_and_measurement).transpose() {
        Ok(place) => place,
        Err(message) => return reported(Err(message)),
    };
    reported(import(&args.import, "parquet", form, |client, input, pieces| match place {
        Some((policy, measurement)) => {
            let target = points::Target {
                policy,
                measurement,
                table: args.import.destination().table,
                database: &args.import.source.database,
                tags: &args.tags,
                time: &args.time,
            };
            points::import(client, input, &target, pieces)
        }
        None => table::import_parquet(client, input, &args.import.destination(), pieces),
    }))
}

pub(in crate::cli) fn run_csv(args: &CsvArgs) -> ExitCode {
    let form = format!("csv {:?}", args.columns);
    reported(import(&args.import, "csv", form, |client, input, pieces| {
        table::import_csv(client, input, &args.import.destination(), &args.columns, pieces)
    }))
}

fn reported(outcome: Result<String, String>) -> ExitCode {
    match outcome {
        Ok(report) => match std::io::stdout().write_all(report.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Err(message) => {
            log::print_error(&message);
            ExitCode::FAILURE
        }
    }
}

fn import(
    args: &ImportArgs,
    extension: &str,
    form: String,
    read: impl Fn(&Client, &Input, &mut ImportedPieces<'_>) -> Result<u64, String>,
) -> Result<String, String> {
    let begun = Instant::now();
    let inputs = inputs_of(&args.files, &[extension])?;
    args.source.from.with_client(|client, place| {
        let destination = args.destination();
        let header = Header {
            place: place.to_owned(),
            database: destination.database.to_owned(),
            destination: destination.table.clone(),
            form: form.clone(),
        };
        let (mut journal, lines) = Journal::open(&args.journal, &header)?;
        let (load, attempt) = next_attempt(&mut journal, &lines)?;
        let is_table = args.table.is_some();
        let mut pieces = ImportedPieces::of(journal, &args.journal, &lines, &inputs, is_table);
        let client = &client.of_attempt(&load, attempt);
        let send_files = || {
            let count = || count_of(client, &destination.table, destination.database);
            // A measurement may be created by the first points.
            let before = if is_table { count()? } else { count().unwrap_or(0) };
            let first = pieces.resume(lines, before)?;
            let mut read_rows = 0;
            for input in &inputs {
                read_rows += read(client, input, &mut pieces)?;
                pieces.end_file(input);
            }
            let after = count()?;
            let added = after.saturating_sub(first);
            if is_table && added != read_rows {
                return Err(format!(
                    "the files have {} rows, and the table has {} more than before: somebody else writes to it, too",
                    shown(read_rows),
                    shown(added)
                ));
            }
            Ok((read_rows, added, after))
        };
        let imported = send_files();
        let (read_rows, added, after) = pieces.end(imported)?;
        let note = match is_table || added == read_rows {
            true => String::new(),
            false => format!("; {} points are new, the other ones were there or have no field", shown(added)),
        };
        let (files, seconds) = (inputs.len(), begun.elapsed().as_secs_f64());
        Ok(format!(
            "{} rows of {files} {} in {seconds:.1} s: {} has {} rows{note}\n",
            shown(read_rows),
            if files == 1 { "file" } else { "files" },
            destination.table,
            shown(after)
        ))
    })
}

impl ImportArgs {
    fn destination(&self) -> Destination<'_> {
        let name = self.table.as_ref().or(self.measurement.as_ref());
        Destination { database: &self.source.database, table: name.map(Name::sql).unwrap_or_default() }
    }
}
