//! `nyala import influxdb`: from the files of a stopped InfluxDB, or a backup, to the data directory of a stopped nyala.

use super::destination::Destination;
use super::in_use;
use super::journal::Journal;
use super::report::Outcome;
use super::settings;
use super::shard::import_shard;
use super::source::{Selection, Source};
use super::survey;
use crate::cli::log;
use crate::config::ByteSize;
use clap::Args;
use nyala_bench::report::progress::Progress;
use nyala_influxdb::DamageList;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

pub(super) const EXAMPLES: &str = "\
DIRECTORY is, of InfluxDB 1.x, the one that has data, meta and wal in it, or one with backups (influxd backup -portable); of
InfluxDB 2.x, the one that has influxd.bolt and engine in it. InfluxDB must be stopped, or DIRECTORY must be a copy (a snapshot)
or a backup.
nyala must be stopped, too, because the import writes to its data directory.

An import that was interrupted goes on where it was when it is started again: shards that are done are not read again.
Users get no password, because their hashes cannot be taken over: set one with SET PASSWORD before --auth-enabled.

Exit code: 0 everything was imported, 1 something was not (the report, or the error that broke it off, says what), 2 nothing was
imported.

Examples:
  nyala import influxdb --dry-run /var/lib/influxdb                  list what there is
  nyala import influxdb --data-dir /var/lib/nyala /var/lib/influxdb  import everything
  nyala import influxdb --database telegraf --from 2026-01-01T00:00:00Z /var/lib/influxdb
                                                                     one database, as from a time
  nyala import influxdb --data-dir /var/lib/nyala /backups/influxdb  portable backups, of each shard the newest
  nyala import influxdb --organization home ~/.influxdbv2            InfluxDB 2.x: bucket telegraf/month is database telegraf,
                                                                     policy month; bucket telegraf has policy autogen
  nyala import influxdb --database _internal /var/lib/influxdb       what InfluxDB noted of itself, else left out";

const INCOMPLETE: u8 = 1;
const NOT_IMPORTED: u8 = 2;

/// What to import.
#[derive(Debug, Args)]
pub(in crate::cli) struct InfluxdbArgs {
    /// InfluxDB's directory, or one with portable backups
    #[arg(value_name = "DIRECTORY")]
    pub(super) directory: PathBuf,
    /// The data directory of nyala, which is created if it is missing
    #[arg(long, value_name = "DIRECTORY", env = "NYALA_DATA_DIR", default_value = "./nyala-data")]
    pub(super) data_dir: PathBuf,
    /// The most memory that nyala's store takes meanwhile
    #[arg(long, value_name = "SIZE", default_value = "768MiB")]
    pub(super) memory_limit: ByteSize,
    #[command(flatten)]
    pub(super) selection: Selection,
    /// List what there is, and import nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Create no subscriptions. Without this, a subscription that sends InfluxDB's points to this nyala makes it send them to
    /// itself
    #[arg(long)]
    pub(super) no_subscriptions: bool,
}

pub(super) fn run(args: &InfluxdbArgs) -> ExitCode {
    log::to_standard_error("warn");
    let mut has_begun = false;
    let outcome = match args.dry_run {
        true => survey::run(&args.directory, &args.selection),
        false => import(args, &mut has_begun),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(INCOMPLETE),
        Err(message) => {
            log::print_error(&message);
            ExitCode::from(if has_begun { INCOMPLETE } else { NOT_IMPORTED })
        }
    }
}

/// Imports, and returns whether everything was imported. Says when it has begun to change the data directory.
fn import(args: &InfluxdbArgs, has_begun: &mut bool) -> Result<bool, String> {
    let begun = Instant::now();
    nyala_influxdb::source::layout(&args.directory)?;
    in_use::check(&args.directory)?;
    let mut damage = DamageList::default();
    let source = Source::open(&args.directory, &args.selection, &mut damage)?;
    let destination = Destination::open(&args.data_dir, args.memory_limit)?;
    let mut outcome = Outcome::new(damage);
    *has_begun = true;
    settings::apply(&source, !args.no_subscriptions, &destination, &mut outcome);
    let mut journal = Journal::open(&args.data_dir, &args.directory, &args.selection)?;
    let mut progress = Progress::start("importing");
    let total_bytes: u64 = source.shards.iter().map(|shard| shard.bytes).sum::<u64>().max(1);
    let (mut done_bytes, mut values) = (0, 0);
    for shard in &source.shards {
        // What could not be read, or not be unpacked, may be readable now.
        if journal.done(shard).is_some_and(|done| done.damage == 0) {
            outcome.known_shards += 1;
            done_bytes += shard.bytes;
            continue;
        }
        let mut watch = |read_bytes: u64, read_values: u64| {
            let share = (done_bytes + read_bytes) as f64 / total_bytes as f64;
            progress.update(share, || {
                let rate = (values + read_values) as f64 / begun.elapsed().as_secs_f64();
                let amount = (values + read_values) as f64;
                format!("{:.1} million values, {:.2} million/s", amount / 1e6, rate / 1e6)
            });
        };
        let done = import_shard(&source, shard, &destination, &args.data_dir, &mut outcome, &mut watch)
            .map_err(|error| {
                format!(
                    "importing shard {} of {}.{}: {error}. Shards that were imported before are done: start the same \
                     command again to go on",
                    shard.id, shard.database, shard.policy
                )
            })?;
        values += done.values.values().sum::<u64>();
        done_bytes += shard.bytes;
        outcome.read_values += done.values.values().sum::<u64>();
        outcome.shards += 1;
        journal.add(shard, done)?;
    }
    progress.clear();
    outcome.add_done(&journal, &source.shards);
    outcome.compare(&destination);
    destination.close()?;
    let text = outcome.text(begun.elapsed());
    std::io::stdout().write_all(text.as_bytes()).map_err(|error| format!("writing the report: {error}"))?;
    Ok(outcome.is_complete())
}
