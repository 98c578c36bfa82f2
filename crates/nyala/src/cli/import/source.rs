//! What is to be imported.

use clap::Args;
use nyala_influxdb::directory::{Contents, ShardFiles};
use nyala_influxdb::meta::{self, Database, Meta};
use nyala_influxdb::{Damage, DamageList};
use nyala_query::influxql::parse_time;
use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// InfluxDB's database of numbers about itself.
pub(in crate::cli) const INTERNAL: &str = "_internal";

/// A part of what there is.
#[derive(Debug, Clone, Args)]
pub(in crate::cli) struct Selection {
    /// Import this database only; may be given several times [default: all but _internal]
    #[arg(long, value_name = "NAME")]
    pub(super) database: Vec<String>,
    /// Import points of this retention policy only
    #[arg(long, value_name = "NAME")]
    pub(super) retention_policy: Option<String>,
    /// Of InfluxDB 2.x: import the buckets of this organization [default: the only one that has buckets]
    #[arg(long, value_name = "NAME")]
    pub(super) organization: Option<String>,
    /// Import points from this time on: 2026-01-31T00:00:00Z, 2026-01-31, or nanoseconds since 1970
    #[arg(long, value_name = "TIME", value_parser = time_ns, allow_hyphen_values = true)]
    pub(super) from: Option<i64>,
    /// Import points before this time only
    #[arg(long, value_name = "TIME", value_parser = time_ns, allow_hyphen_values = true)]
    pub(super) to: Option<i64>,
}

impl Selection {
    /// The times of points that are imported, ns.
    pub(super) fn times_ns(&self) -> RangeInclusive<i64> {
        self.from.unwrap_or(i64::MIN)..=self.to.map_or(i64::MAX, |to| to.saturating_sub(1))
    }

    pub(super) fn has_database(&self, name: &str) -> bool {
        match self.database.is_empty() {
            true => name != INTERNAL,
            false => self.database.iter().any(|own| own == name),
        }
    }

    fn has_policy(&self, name: &str) -> bool {
        self.retention_policy.as_ref().is_none_or(|own| own == name)
    }
}

/// A time as a flag has it: as RFC 3339 writes it, a date, or nanoseconds since 1970.
pub(in crate::cli) fn time_ns(text: &str) -> Result<i64, String> {
    let as_time = |text: &str| i64::try_from(parse_time(text, None)?.unix_ns).ok();
    let found = text.parse().ok().or_else(|| as_time(text));
    found.ok_or_else(|| "neither a time such as 2026-01-31T00:00:00.5Z nor nanoseconds since 1970".to_owned())
}

/// What is to be imported.
pub(super) struct Source {
    /// Databases with their settings, without those that are left out.
    pub(super) meta: Meta,
    /// The shards, in order of databases, policies and numbers.
    pub(super) shards: Vec<ShardFiles>,
    /// Remarks about what is left out.
    pub(super) notes: Vec<String>,
    /// The times of points that are imported, ns.
    pub(super) times_ns: RangeInclusive<i64>,
}

impl Source {
    pub(super) fn open(path: &Path, selection: &Selection, damage: &mut DamageList) -> Result<Self, String> {
        let Contents { shards: all, settings, settings_file, mut notes } =
            nyala_influxdb::source::contents(path, selection.organization.as_deref(), damage)?;
        let (mut meta, has_settings) = match settings {
            Ok(meta) => (meta, true),
            Err(message) => {
                let message = format!(
                    "{message}: policies keep points for ever, and continuous queries and users are not created"
                );
                damage.add(Damage::new(&settings_file, 0, message));
                (without_settings(&all), false)
            }
        };
        check_names(&meta, selection)?;
        if selection.database.is_empty() && meta.databases.iter().any(|own| own.name == INTERNAL) {
            notes.push(format!("{INTERNAL} was left out: name it with --database to import it"));
        }
        meta.databases.retain(|database| selection.has_database(&database.name));
        let visible = visible_shards(&meta);
        let (mut shards, mut hidden) = (Vec::new(), Vec::new());
        for shard in all {
            if !selection.has_database(&shard.database) || !selection.has_policy(&shard.policy) {
                continue;
            }
            match visible.contains(&(shard.database.as_str(), shard.policy.as_str(), shard.id))
                || !has_settings
            {
                true => shards.push(shard),
                false => hidden.push(shard.id),
            }
        }
        if !hidden.is_empty() {
            notes.push(format!(
                "shards {hidden:?} were left out: the settings do not name them (they were dropped), so that InfluxDB does \
                 not answer them either"
            ));
        }
        Ok(Self { meta, shards, notes, times_ns: selection.times_ns() })
    }
}

fn check_names(meta: &Meta, selection: &Selection) -> Result<(), String> {
    let named = |name: &String| meta.databases.iter().find(|database| database.name == *name);
    let known: Vec<&str> = meta.databases.iter().map(|database| database.name.as_str()).collect();
    for name in &selection.database {
        named(name).ok_or_else(|| format!("there is no database {name:?}: there are {known:?}"))?;
    }
    let Some(policy) = &selection.retention_policy else { return Ok(()) };
    let mut chosen = meta.databases.iter().filter(|database| selection.has_database(&database.name));
    let has = chosen.any(|database| database.policies.iter().any(|own| own.name == *policy));
    has.then_some(()).ok_or_else(|| format!("no database has a retention policy {policy:?}"))
}

/// The shards that queries see.
fn visible_shards(meta: &Meta) -> HashSet<(&str, &str, u64)> {
    let mut visible = HashSet::new();
    for database in &meta.databases {
        for policy in &database.policies {
            let groups = policy.shard_groups.iter().filter(|group| !group.is_deleted());
            let shards = groups.flat_map(|group| &group.shards);
            visible.extend(shards.map(|shard| (database.name.as_str(), policy.name.as_str(), shard.id)));
        }
    }
    visible
}

/// Databases and policies as the names of directories tell them.
fn without_settings(shards: &[ShardFiles]) -> Meta {
    let mut meta = Meta::default();
    for shard in shards {
        if meta.databases.last().is_none_or(|database| database.name != shard.database) {
            let name = shard.database.clone();
            meta.databases.push(Database {
                name,
                default_policy: shard.policy.clone(),
                ..Database::default()
            });
        }
        let database = meta.databases.last_mut().expect("just pushed");
        if database.policies.last().is_none_or(|policy| policy.name != shard.policy) {
            let policy =
                meta::Policy { name: shard.policy.clone(), replication: 1, ..meta::Policy::default() };
            database.policies.push(policy);
        }
    }
    meta
}

/// How a directory is named in the journal.
pub(super) fn full_path(directory: &Path) -> PathBuf {
    directory.canonicalize().unwrap_or_else(|_| directory.to_owned())
}

#[cfg(test)]
mod tests {
    use super::time_ns;

    #[test]
    fn times_are_read_as_they_are_shown() {
        let second = 1_770_000_000_000_000_000;
        for (text, expected) in [
            ("2026-02-02T02:40:00Z", Some(second)),
            ("2026-02-02T03:40:00.25+01:00", Some(second + 250_000_000)),
            ("2026-02-02 02:40:00.000000001", Some(second + 1)),
            ("-7", Some(-7)),
            ("1970-01-02", Some(86_400_000_000_000)),
            ("2026-02-30T00:00:00Z", None),
            ("0001-01-01T00:00:00Z", None),
            ("soon", None),
        ] {
            assert_eq!(time_ns(text).ok(), expected, "{text}");
        }
    }
}
