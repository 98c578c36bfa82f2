//! `nyala export`: a table, a measurement or the rows of a query, as Parquet or CSV.

use super::name::Name;
use super::parts;
use super::query::{columns_of, count_of};
use super::source::SourceArgs;
use super::written::{Written, write_file};
use super::{folder_and_name, note, shown};
use crate::cli::log;
use clap::{Args, ValueEnum};
use nyala_bench::report::progress::Progress;
use nyala_files::parquet::{Compression, ParquetOptions, ROW_GROUP_ROWS_MAX, TimeUnit};
use nyala_shell::Client;
use nyala_sql::{COMPUTED_KEY, CopyForm, CopyHeader, CopyKind, quoted_name};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

pub(in crate::cli) const EXAMPLES: &str = "\
OUTPUT is a file that ends in .parquet or .csv, or with --partition-by a directory. A file appears when all of it is there. A
directory that was interrupted goes on where it was when the same command is started again.

Exit code: 0 everything was exported, 1 nothing or not everything was (the message says why).

Examples:
  nyala export -d telegraf --table cpu cpu.parquet
  nyala export -d telegraf --sql \"SELECT time, host, usage_idle FROM cpu WHERE time > now() - interval '1 day'\" idle.csv
  nyala export -d telegraf --table cpu --partition-by host,day --compression snappy cpu/
  nyala export -d shop --table orders s3://archive/orders.parquet    with the environment's AWS_ENDPOINT_URL, AWS_REGION, …
  nyala export --data-dir /var/lib/nyala -d shop --table orders orders.parquet    of a server that is stopped";

/// Which rows, and what the files look like.
#[derive(Debug, Args)]
pub(in crate::cli) struct ExportArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// The table or measurement, or POLICY.MEASUREMENT
    #[arg(long, value_name = "NAME", required_unless_present = "sql", conflicts_with = "sql")]
    table: Option<Name>,
    /// The query, in SQL
    #[arg(long, value_name = "QUERY")]
    sql: Option<String>,
    /// The form [default: as the name of the file says; of a directory parquet]
    #[arg(long, value_enum)]
    format: Option<Form>,
    /// How pages of Parquet are compressed: zstd, snappy, lz4 or none
    #[arg(long, value_name = "NAME", default_value = "zstd")]
    compression: Compression,
    /// Rows of a row group of Parquet; it ends earlier when it takes 64 MiB
    #[arg(long, value_name = "ROWS", default_value_t = ParquetOptions::default().row_group_rows as u64,
          value_parser = clap::value_parser!(u64).range(1..=ROW_GROUP_ROWS_MAX as u64))]
    row_group_size: u64,
    /// The unit of times in Parquet: ns, or us for readers that know no nanoseconds, such as Spark
    #[arg(long, value_name = "UNIT", default_value = "ns")]
    time_unit: TimeUnit,
    /// Write a directory, with a file for each combination of values of these columns; day: the day of the column time, in UTC
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',')]
    partition_by: Vec<String>,
    /// Replace a file that is there
    #[arg(long)]
    overwrite: bool,
    /// The file or the directory, or s3:// and a bucket with a name in it
    #[arg(value_name = "OUTPUT")]
    output: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    Parquet,
    Csv,
}

pub(in crate::cli) fn run(args: &ExportArgs) -> ExitCode {
    match args.source.from.with_client(|client, place| export(args, client, place)) {
        Ok(report) => {
            let printed = std::io::stdout().write_all(report.as_bytes());
            if printed.is_err() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
        }
        Err(message) => {
            log::print_error(&message);
            ExitCode::FAILURE
        }
    }
}

fn export(args: &ExportArgs, client: &Client, place: &str) -> Result<String, String> {
    let begun = Instant::now();
    let written = args.written()?;
    let database = &args.source.database;
    let query = args.query(client)?;
    let expected = count_of(client, &format!("({query}) AS exported"), database)?;
    let (rows, bytes, files) = match args.partition_by.is_empty() {
        true => {
            let (folder, name) = folder_and_name(&args.output)?;
            if !args.overwrite && folder.kind(&name).map_err(|error| error.to_string())?.is_some() {
                return Err(format!("{} exists: --overwrite replaces it", args.output.display()));
            }
            let mut progress = Progress::start("exporting");
            let mut watch =
                |rows: u64| progress.update(rows as f64 / expected.max(1) as f64, || note(rows, begun));
            let done = write_file(client, &query, database, &folder, &name, &written, &mut watch)?;
            progress.clear();
            (done.rows, done.bytes, 1)
        }
        false => {
            let header = parts::Header {
                place: place.to_owned(),
                database: database.clone(),
                query: query.clone(),
                partition_by: args.partition_by.clone(),
                form: format!("{:?} {:?} {}", written.form.kind, written.parquet, args.output.display()),
            };
            parts::export(client, &header, &args.output, &written, expected)?
        }
    };
    if rows != expected {
        return Err(format!(
            "{} rows were exported, and there were {} when the export began: rows were written or deleted meanwhile",
            shown(rows),
            shown(expected)
        ));
    }
    let seconds = begun.elapsed().as_secs_f64();
    Ok(format!(
        "{} rows, {} bytes in {files} {} in {seconds:.1} s\n",
        shown(rows),
        shown(bytes),
        if files == 1 { "file" } else { "files" }
    ))
}

impl ExportArgs {
    fn written(&self) -> Result<Written, String> {
        let of_name = match self.output.extension().and_then(|extension| extension.to_str()) {
            _ if !self.partition_by.is_empty() => Some(Form::Parquet),
            Some("parquet") => Some(Form::Parquet),
            Some("csv") => Some(Form::Csv),
            _ => None,
        };
        let form = self.format.or(of_name).ok_or_else(|| {
            format!(
                "{} ends neither in .parquet nor in .csv: say --format, or --partition-by for a directory",
                self.output.display()
            )
        })?;
        let parquet = ParquetOptions {
            compression: self.compression,
            row_group_rows: self.row_group_size as usize,
            time_unit: self.time_unit,
            ..ParquetOptions::default()
        };
        let csv = CopyForm {
            kind: CopyKind::Csv,
            header: CopyHeader::Names,
            delimiter: b',',
            quote: b'"',
            escape: b'"',
            ..CopyForm::default()
        };
        Ok(match form {
            Form::Parquet => Written {
                form: CopyForm { kind: CopyKind::Parquet, ..CopyForm::default() },
                parquet,
                extension: "parquet",
            },
            Form::Csv => Written { form: csv, parquet, extension: "csv" },
        })
    }

    /// The query of the rows. Of a measurement, the number that is its time as well is left out.
    fn query(&self, client: &Client) -> Result<String, String> {
        let table = match (&self.sql, &self.table) {
            (Some(query), _) => return Ok(query.trim().trim_end_matches(';').to_owned()),
            (None, Some(table)) => table.sql(),
            (None, None) => return Err("say --table or --sql".to_owned()),
        };
        let all = format!("SELECT * FROM {table}");
        let schema = columns_of(client, &all, &self.source.database)?;
        let fields = schema.fields().iter();
        let shown = fields.filter(|field| !field.metadata().contains_key(COMPUTED_KEY));
        let names: Vec<String> = shown.map(|field| quoted_name(field.name())).collect();
        if names.len() == schema.fields().len() {
            return Ok(all);
        }
        Ok(format!("SELECT {} FROM {table}", names.join(", ")))
    }
}
