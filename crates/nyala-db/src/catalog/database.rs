//! Databases, and their records: one record for each named thing.
//!
//! Keys: a kind byte, the name of the database, a zero byte, then further names separated by zero bytes. Names of
//! databases and policies contain no zero byte.
//!
//!   database:                           → JSON: the default policy
//!   policy:           its name          → JSON
//!   continuous query: its name          → JSON
//!   subscription:     policy, its name  → JSON
//!   run:              continuous query  → until when it has run, ns, i64 little-endian
//!
//! Records of a database that itself has no record are left over from a drop, and are ignored.

use super::{PolicyChange, RetentionPolicy, Subscription};
use crate::names::check_length;
use crate::records::{Change, VersionedRecords};
use nyala_core::{Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

const DATABASE: u8 = b'd';
const POLICY: u8 = b'p';
const CONTINUOUS_QUERY: u8 = b'q';
const SUBSCRIPTION: u8 = b's';
const RUN: u8 = b'r';

/// A database.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Database {
    /// Its name.
    pub name: String,
    /// The policy that is used where none is named.
    pub default_policy: String,
    /// Its policies in order of creation.
    pub policies: Vec<RetentionPolicy>,
    /// Its number in the order in which the existing databases were created.
    #[serde(default)]
    pub created: u64,
    /// Its continuous queries in order of creation.
    #[serde(default)]
    pub continuous_queries: Vec<ContinuousQuery>,
    /// Its subscriptions in order of creation.
    #[serde(default)]
    pub subscriptions: Vec<Subscription>,
}

/// A continuous query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContinuousQuery {
    /// Its name.
    pub name: String,
    /// The statement that creates it, with all names in full.
    pub text: String,
}

/// The content of the record of a database itself.
#[derive(Serialize, Deserialize)]
struct OwnRecord {
    default_policy: String,
}

impl Database {
    /// Whether somebody gets copies of what is written to a policy.
    pub fn has_subscription(&self, policy: &str) -> bool {
        self.subscriptions.iter().any(|subscription| subscription.policy == policy)
    }

    /// A database without anything.
    pub(super) fn new(name: &str, default_policy: &str, created: u64) -> Self {
        Self {
            name: name.into(),
            default_policy: default_policy.into(),
            policies: Vec::new(),
            created,
            continuous_queries: Vec::new(),
            subscriptions: Vec::new(),
        }
    }

    /// A policy by name; the empty name is the default one.
    pub fn policy(&self, name: &str) -> Option<&RetentionPolicy> {
        let name = if name.is_empty() { &self.default_policy } else { name };
        self.policies.iter().find(|policy| policy.name == name)
    }

    /// The same, or InfluxDB's error. If the default policy was dropped, it is still the one that is looked for.
    pub fn existing_policy(&self, name: &str) -> Result<&RetentionPolicy> {
        self.policy(name).ok_or_else(|| {
            let name = if name.is_empty() { &self.default_policy } else { name };
            Error::missing(format!("retention policy not found: {name}"))
        })
    }

    /// A policy by name, or InfluxDB's error. Here the empty name does not mean the default policy.
    pub(super) fn named_policy(&mut self, name: &str) -> Result<&mut RetentionPolicy> {
        let policy = self.policies.iter_mut().find(|policy| policy.name == name);
        policy.ok_or_else(|| Error::missing(format!("retention policy not found: {name}")))
    }

    /// The database after CREATE DATABASE: new, or the existing one with the requested policy, if it has none yet.
    /// `None` if nothing changes.
    pub(super) fn created(
        existing: Option<&Self>,
        name: &str,
        created: u64,
        policy: Option<&(&str, PolicyChange)>,
    ) -> Result<Option<Self>> {
        let mut database = match (existing, policy) {
            (Some(_), None) => return Ok(None),
            (Some(existing), Some((policy_name, settings))) if !existing.policies.is_empty() => {
                let same = existing.policy(policy_name).is_some_and(|policy| policy.fits(settings));
                return match same && existing.default_policy == *policy_name {
                    true => Ok(None),
                    false => Err(Error::conflict("retention policy conflicts with an existing policy")),
                };
            }
            (Some(existing), Some(_)) => existing.clone(),
            (None, _) => {
                check_length(name)?;
                Self::new(name, "", created)
            }
        };
        let by_default = (super::DEFAULT_POLICY_NAME, PolicyChange::default());
        let (policy_name, settings) = policy.unwrap_or(&by_default);
        database.default_policy = (*policy_name).into();
        database.policies.push(RetentionPolicy::new(policy_name, settings)?);
        Ok(Some(database))
    }

    /// Its records, its own one last: whoever sees that one sees the others.
    pub(super) fn records(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let own = OwnRecord { default_policy: self.default_policy.clone() };
        let policies =
            self.policies.iter().map(|policy| (key(POLICY, &[&self.name, &policy.name]), json(policy)));
        let queries = self
            .continuous_queries
            .iter()
            .map(|query| (key(CONTINUOUS_QUERY, &[&self.name, &query.name]), json(query)));
        let subscriptions = self.subscriptions.iter().map(|subscription| {
            let names = [&*self.name, &subscription.policy, &subscription.name];
            (key(SUBSCRIPTION, &names), json(subscription))
        });
        let own = std::iter::once((key(DATABASE, &[&self.name, ""]), json(&own)));
        policies.chain(queries).chain(subscriptions).chain(own).collect()
    }

    /// The changes of the records of a database; if it is removed, its own record goes first. All other records under
    /// its name are removed too, including those left over from a drop that was interrupted. The time until which a
    /// continuous query has run is removed unless the query exists before and after the change.
    pub(super) fn changes(seen: &VersionedRecords, name: &str, after: Option<&Self>) -> Vec<Change> {
        let known: BTreeSet<Vec<u8>> = prefixes(name).flat_map(|prefix| seen.keys_from(&prefix)).collect();
        let records = after.map(Self::records).unwrap_or_default();
        let new: BTreeSet<&Vec<u8>> = records.iter().map(|(key, _)| key).collect();
        let has_query = |run: &[u8]| {
            let query = [&[CONTINUOUS_QUERY], &run[1..]].concat();
            known.contains(&query) && new.contains(&query)
        };
        let is_kept = |key: &Vec<u8>| match key[0] {
            RUN => has_query(key),
            _ => new.contains(key),
        };
        let gone = prefixes(name).flat_map(|prefix| seen.keys_from(&prefix)).filter(|key| !is_kept(key));
        let mut changes: Vec<Change> = gone.map(|key| (key, None)).collect();
        changes.extend(records.into_iter().map(|(key, value)| (key, Some(value))));
        changes
    }
}

/// The prefixes of the keys of all records of a database, its own first.
fn prefixes(name: &str) -> impl Iterator<Item = Vec<u8>> {
    let others = [POLICY, CONTINUOUS_QUERY, SUBSCRIPTION, RUN].map(|kind| key(kind, &[name, ""]));
    std::iter::once(key(DATABASE, &[name, ""])).chain(others)
}

/// Databases by name, read from their records, which are in order of creation.
pub(super) fn read_databases(records: &[(Vec<u8>, Vec<u8>)]) -> Result<BTreeMap<String, Database>> {
    let mut databases: BTreeMap<String, Database> = BTreeMap::new();
    for (key, value) in records.iter().filter(|(key, _)| key.first() == Some(&DATABASE)) {
        let name = key[1..].strip_suffix(&[0]).and_then(|name| std::str::from_utf8(name).ok());
        let name = name.ok_or_else(|| unknown_form(key, "its key"))?;
        let own: OwnRecord = read(key, value)?;
        let created = databases.len() as u64;
        databases.insert(name.into(), Database::new(name, &own.default_policy, created));
    }
    for (key, value) in records {
        let Some((kind, names)) = key.split_first() else { return Err(unknown_form(key, "its key")) };
        let name = names.split(|byte| *byte == 0).next().and_then(|name| std::str::from_utf8(name).ok());
        let Some(database) = databases.get_mut(name.ok_or_else(|| unknown_form(key, "its key"))?) else {
            continue;
        };
        match *kind {
            POLICY => database.policies.push(read(key, value)?),
            CONTINUOUS_QUERY => database.continuous_queries.push(read(key, value)?),
            SUBSCRIPTION => database.subscriptions.push(read(key, value)?),
            DATABASE | RUN => {}
            _ => return Err(unknown_form(key, "its key")),
        }
    }
    Ok(databases)
}

/// The key of the time until which a continuous query has run.
pub(super) fn run_key(database: &str, name: &str) -> Vec<u8> {
    key(RUN, &[database, name])
}

/// The same for a key (database, zero byte, name) of the old table that held only these times.
pub(super) fn run_key_of_old(old: &[u8]) -> Vec<u8> {
    [&[RUN], old].concat()
}

/// A database from an old record, which held all of it as JSON.
pub(super) fn read_old_database(key: &[u8], value: &[u8]) -> Result<Database> {
    read(key, value)
}

fn key(kind: u8, names: &[&str]) -> Vec<u8> {
    [&[kind], names.join("\0").as_bytes()].concat()
}

fn json(thing: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(thing).expect("records of databases are plain data")
}

fn read<T: DeserializeOwned>(key: &[u8], value: &[u8]) -> Result<T> {
    serde_json::from_slice(value).map_err(|error| unknown_form(key, &error.to_string()))
}

/// This is not damage, which checksums would have reported.
fn unknown_form(key: &[u8], words: &str) -> Error {
    let key = String::from_utf8_lossy(key);
    Error::unsupported(format!("database record {key:?} has no form that this version knows: {words}"))
}
