//! The directory of InfluxDB 2.x: `engine/data` and `engine/wal` are those of 1.x, with the number of a bucket for the name of a
//! database and one policy, `autogen`. What the buckets are called stands in `influxd.bolt`.
//!
//! A bucket becomes the database and the policy that InfluxDB 2.x gives it for clients of 1.x: those of its mapping, if there is
//! one, else the parts of a name such as `telegraf/month`, else the bucket's name and `autogen`.

use crate::bolt::{BoltFile, Pair};
use crate::damage::{Damage, DamageList};
use crate::directory::{self, Contents};
use crate::meta::{self, Database, Meta, Policy};
use serde::Deserialize;
use std::collections::HashMap;
use std::path::Path;

/// The file of the settings.
pub(crate) const BOLT_FILE: &str = "influxd.bolt";
pub(crate) const ENGINE: &str = "engine";
/// The policy of a bucket in the engine, and of one whose name has no other.
const AUTOGEN: &str = "autogen";
/// Buckets that InfluxDB makes for itself.
const SYSTEM: u8 = 1;

#[derive(Deserialize)]
struct Organization {
    id: String,
    name: String,
}

#[derive(Deserialize)]
struct Bucket {
    id: String,
    #[serde(rename = "orgID")]
    organization: String,
    #[serde(rename = "type", default)]
    kind: u8,
    name: String,
}

/// What clients of 1.x call a bucket.
#[derive(Deserialize)]
struct Mapping {
    database: String,
    retention_policy: String,
    #[serde(default)]
    default: bool,
    #[serde(rename = "bucketID")]
    bucket: String,
}

/// Where a bucket goes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    database: String,
    policy: String,
    is_default: bool,
}

/// What of `influxd.bolt` counts.
struct Settings {
    organizations: Vec<Organization>,
    buckets: Vec<Bucket>,
    mappings: Vec<Mapping>,
    meta: Meta,
}

/// Reads what a directory has: of one organization, or of the only one.
pub(crate) fn contents(
    directory: &Path,
    organization: Option<&str>,
    damage: &mut DamageList,
) -> Result<Contents, String> {
    let settings_file = directory.join(BOLT_FILE);
    let found = directory::shards(&directory.join(ENGINE));
    let mut shards = found.map_err(|error| format!("reading {}: {error}", directory.display()))?;
    let settings = match read_settings(&settings_file) {
        Ok(settings) => settings,
        // Buckets keep their numbers then.
        Err(message) => {
            return Ok(Contents { shards, settings: Err(message), settings_file, notes: Vec::new() });
        }
    };
    let mut notes = vec!["tokens, users, tasks and dashboards of InfluxDB 2.x are not taken over".to_owned()];
    let chosen = choose(&settings, organization, directory)?;
    let places = places(&settings, &chosen.id)?;
    let others = settings.buckets.iter().filter(|bucket| bucket.organization != chosen.id).count();
    if others > 0 {
        notes.push(format!("{others} buckets of other organizations than {:?} were left out", chosen.name));
    }
    shards.retain_mut(|shard| match places.get(shard.database.as_str()) {
        Some(place) => {
            shard.database.clone_from(&place.database);
            shard.policy.clone_from(&place.policy);
            true
        }
        None => {
            if !settings.buckets.iter().any(|bucket| bucket.id == shard.database) {
                notes.push(format!("shard {} was left out: there is no bucket {}", shard.id, shard.database));
            }
            false
        }
    });
    shards.sort_by(|left, right| {
        (&left.database, &left.policy, left.id).cmp(&(&right.database, &right.policy, right.id))
    });
    let meta = renamed(&settings.meta, &places);
    let unknown = settings.buckets.iter().filter(|bucket| {
        places.contains_key(bucket.id.as_str())
            && !settings.meta.databases.iter().any(|own| own.name == bucket.id)
    });
    for bucket in unknown {
        let message = format!("bucket {:?} has no settings of its shards: its points are lost", bucket.name);
        damage.add(Damage::new(&settings_file, 0, message));
    }
    Ok(Contents { shards, settings: Ok(meta), settings_file, notes })
}

fn read_settings(path: &Path) -> Result<Settings, String> {
    let file = BoltFile::open(path)?;
    let pairs = |name: &str| file.bucket(name.as_bytes()).map(Option::unwrap_or_default);
    let metadata = pairs("v1_tsm1_metadata")?;
    let stored = metadata.iter().find(|(key, _)| key == b"meta.db");
    let (_, stored) = stored.ok_or("it names no shards: is it of a version before 2.0?")?;
    Ok(Settings {
        organizations: parsed(&pairs("organizationsv1")?)?,
        buckets: parsed(&pairs("bucketsv1")?)?,
        mappings: parsed(&pairs("dbrpv1")?)?,
        meta: meta::decode(stored)?,
    })
}

fn parsed<T: for<'a> Deserialize<'a>>(pairs: &[Pair]) -> Result<Vec<T>, String> {
    let parse = |(key, value): &Pair| {
        serde_json::from_slice(value).map_err(|error| format!("its entry {}: {error}", key.escape_ascii()))
    };
    pairs.iter().map(parse).collect()
}

/// The organization that is named, or the only one that has buckets of users.
fn choose<'a>(
    settings: &'a Settings,
    name: Option<&str>,
    directory: &Path,
) -> Result<&'a Organization, String> {
    let has_buckets = |own: &&Organization| {
        settings.buckets.iter().any(|bucket| bucket.organization == own.id && bucket.kind != SYSTEM)
    };
    let mut candidates = settings.organizations.iter().filter(|own| match name {
        Some(name) => own.name == name || own.id == name,
        None => has_buckets(own),
    });
    let names: Vec<&str> = settings.organizations.iter().map(|own| &*own.name).collect();
    match (candidates.next(), candidates.next(), name) {
        (Some(only), None, _) => Ok(only),
        (None, _, Some(name)) => Err(format!("there is no organization {name:?}: there are {names:?}")),
        (None, _, None) => Err(format!("{} has no buckets", directory.display())),
        (Some(_), Some(_), _) => Err(format!(
            "there are several organizations: name one of {names:?} with --organization, and import each to a data directory \
             of its own, or one after the other"
        )),
    }
}

/// Where the buckets of an organization go, by their numbers.
fn places<'a>(settings: &'a Settings, organization: &str) -> Result<HashMap<&'a str, Place>, String> {
    let mut places: HashMap<&str, Place> = HashMap::new();
    let own = |bucket: &&Bucket| bucket.organization == organization && bucket.kind != SYSTEM;
    for bucket in settings.buckets.iter().filter(own) {
        let mapping = settings.mappings.iter().find(|mapping| mapping.bucket == bucket.id);
        let place = match (mapping, bucket.name.split_once('/')) {
            (Some(mapping), _) => Place {
                database: mapping.database.clone(),
                policy: mapping.retention_policy.clone(),
                is_default: mapping.default,
            },
            (None, Some((database, policy))) if !database.is_empty() && !policy.is_empty() => Place {
                database: database.to_owned(),
                policy: policy.to_owned(),
                is_default: policy == AUTOGEN,
            },
            (None, _) => {
                Place { database: bucket.name.clone(), policy: AUTOGEN.to_owned(), is_default: true }
            }
        };
        let same = |known: &&Place| (&known.database, &known.policy) == (&place.database, &place.policy);
        if let Some(known) = places.values().find(same) {
            return Err(format!(
                "bucket {:?} and another one would both become policy {:?} of database {:?}: rename one of them",
                bucket.name, known.policy, known.database
            ));
        }
        places.insert(&bucket.id, place);
    }
    Ok(places)
}

/// Settings of databases and policies made of those of buckets.
fn renamed(meta: &Meta, places: &HashMap<&str, Place>) -> Meta {
    let mut databases: Vec<Database> = Vec::new();
    for (bucket, place) in
        meta.databases.iter().filter_map(|bucket| Some((bucket, places.get(&*bucket.name)?)))
    {
        let stored =
            bucket.policies.iter().find(|policy| policy.name == AUTOGEN).cloned().unwrap_or_default();
        let policy = Policy { name: place.policy.clone(), subscriptions: Vec::new(), ..stored };
        let known = databases.iter().position(|database| database.name == place.database);
        let index = known.unwrap_or_else(|| {
            databases.push(Database { name: place.database.clone(), ..Database::default() });
            databases.len() - 1
        });
        let database = &mut databases[index];
        if place.is_default || database.default_policy.is_empty() {
            database.default_policy.clone_from(&policy.name);
        }
        database.policies.push(policy);
    }
    databases.sort_by(|left, right| left.name.cmp(&right.name));
    Meta { databases, users: Vec::new() }
}
