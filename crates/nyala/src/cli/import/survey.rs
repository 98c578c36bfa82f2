//! `--dry-run`: what there is. Points are read as an import would read them, so that what is counted is what would come.

use super::in_use;
use super::source::{Selection, Source};
use nyala_bench::report::progress::Progress;
use nyala_bench::time::rfc3339;
use nyala_influxdb::DamageList;
use nyala_influxdb::meta::{Database, Policy};
use nyala_influxdb::shard::{FieldValues, RowTarget, read_shard};
use std::convert::Infallible;
use std::io::Write;
use std::path::Path;

/// What a shard has.
#[derive(Default)]
struct Counted {
    series: u64,
    values: u64,
    last_series: Vec<u8>,
    first_ns: Option<i64>,
    last_ns: Option<i64>,
    read_bytes: u64,
}

impl RowTarget for Counted {
    type Error = Infallible;

    fn rows(
        &mut self,
        series: &[u8],
        times_ns: &[i64],
        fields: &[FieldValues<'_>],
    ) -> Result<(), Infallible> {
        if self.series == 0 || self.last_series != series {
            self.series += 1;
            series.clone_into(&mut self.last_series);
        }
        self.values += fields.iter().map(|field| field.range.len() as u64).sum::<u64>();
        let (first_ns, last_ns) = (times_ns.first().copied(), times_ns.last().copied());
        self.first_ns = self.first_ns.into_iter().chain(first_ns).min();
        self.last_ns = self.last_ns.into_iter().chain(last_ns).max();
        Ok(())
    }

    fn read(&mut self, bytes: u64) {
        self.read_bytes += bytes;
    }
}

/// Prints what there is, and returns whether all of it can be read.
pub(super) fn run(directory: &Path, selection: &Selection) -> Result<bool, String> {
    nyala_influxdb::source::layout(directory)?;
    in_use::check(directory)?;
    let mut damage = DamageList::default();
    let source = Source::open(directory, selection, &mut damage)?;
    let mut out = std::io::stdout();
    let mut print =
        |text: String| writeln!(out, "{text}").map_err(|error| format!("writing the list: {error}"));
    let mut progress = Progress::start("reading");
    let total_bytes = source.shards.iter().map(|shard| shard.bytes).sum::<u64>().max(1);
    let mut all = Counted::default();
    for database in &source.meta.databases {
        print(database_line(database))?;
        for policy in &database.policies {
            let is_default = policy.name == database.default_policy;
            print(policy_line(policy, is_default))?;
            let own = source
                .shards
                .iter()
                .filter(|shard| shard.database == database.name && shard.policy == policy.name);
            for shard in own {
                let mut counted = Counted::default();
                let spill_dir = std::env::temp_dir();
                let Ok(()) =
                    read_shard(shard, source.times_ns.clone(), &spill_dir, &mut damage, &mut counted);
                print(format!(
                    "    shard {}: {} series, {} values, {}, {} bytes in {} files and {} segments of the log",
                    shard.id,
                    counted.series,
                    counted.values,
                    times(&counted),
                    shard.bytes,
                    shard.files.len(),
                    shard.log.len()
                ))?;
                all.values += counted.values;
                all.read_bytes += shard.bytes;
                progress
                    .update(all.read_bytes as f64 / total_bytes as f64, || format!("{} values", all.values));
            }
        }
        for query in &database.continuous_queries {
            print(format!("  continuous query {:?}", query.name))?;
        }
    }
    progress.clear();
    for user in &source.meta.users {
        print(format!("user {:?}{}", user.name, if user.admin { ", an administrator" } else { "" }))?;
    }
    for note in &source.notes {
        print(format!("note: {note}"))?;
    }
    for damage in &damage.listed {
        print(format!("damaged: {damage}"))?;
    }
    print(format!("{} values in {} shards, {} bytes", all.values, source.shards.len(), all.read_bytes))?;
    Ok(damage.count == 0)
}

fn database_line(database: &Database) -> String {
    format!("database {:?}", database.name)
}

fn policy_line(policy: &Policy, is_default: bool) -> String {
    let hours = |duration_ns: i64| duration_ns / 3_600_000_000_000;
    let kept = match policy.duration_ns {
        0 => "keeps points for ever".to_owned(),
        duration_ns => format!("keeps points for {} hours", hours(duration_ns)),
    };
    let subscriptions = match policy.subscriptions.len() {
        0 => String::new(),
        count => format!(", {count} subscriptions"),
    };
    format!(
        "  retention policy {:?}{}: {kept}, shards of {} hours{subscriptions}",
        policy.name,
        if is_default { ", the default" } else { "" },
        hours(policy.shard_duration_ns)
    )
}

fn times(counted: &Counted) -> String {
    let shown = |time_ns: i64| rfc3339(time_ns.div_euclid(1_000_000_000));
    match (counted.first_ns, counted.last_ns) {
        (Some(first_ns), Some(last_ns)) => format!("{} to {}", shown(first_ns), shown(last_ns)),
        _ => "no points".to_owned(),
    }
}
