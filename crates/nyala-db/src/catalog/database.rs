//! Databases as statements see them, and their records: one for each thing that is named.
//!
//! Keys: a kind byte, the name of the database, a zero byte, then other names with a zero byte between two; names of databases
//! and policies hold none.
//!
//!   database:                           → JSON: the default policy
//!   policy:           its name          → JSON
//!   continuous query: its name          → JSON
//!   subscription:     policy, its name  → JSON
//!   run:              continuous query  → until when it has run, ns, i64 little-endian
//!
//! What belongs to a database that has no record is left of one that was dropped, and means nothing.

use super::{ContinuousQuery, PolicyChange, RetentionPolicy, Subscription};
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

/// A database as statements see it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Database {
    /// Its name.
    pub name: String,
    /// The policy used where none is named.
    pub default_policy: String,
    /// Its policies in order of creation.
    pub policies: Vec<RetentionPolicy>,
    /// Its place in the order in which the databases there are were created.
    #[serde(default)]
    pub created: u64,
    /// Its continuous queries in order of creation.
    #[serde(default)]
    pub continuous_queries: Vec<ContinuousQuery>,
    /// Who gets its points, in order of creation.
    #[serde(default)]
    pub subscriptions: Vec<Subscription>,
}

/// What the record of a database itself says.
#[derive(Serialize, Deserialize)]
struct OwnRecord {
    default_policy: String,
}

impl Database {
    /// One without anything.
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

    /// The same, or InfluxDB's error. A default policy that was dropped is still the one that is looked for.
    pub fn existing_policy(&self, name: &str) -> Result<&RetentionPolicy> {
        self.policy(name).ok_or_else(|| {
            let name = if name.is_empty() { &self.default_policy } else { name };
            Error::missing(format!("retention policy not found: {name}"))
        })
    }

    /// The database as its creation makes it, or the one that is there with the policy asked for, if that fits it; `None`
    /// where nothing changes.
    pub(super) fn created(
        existing: Option<&Self>,
        name: &str,
        created: u64,
        policy: Option<&(&str, PolicyChange)>,
    ) -> Result<Option<Self>> {
        let mut database = match (existing, policy) {
            (Some(_), None) => return Ok(None),
            (Some(existing), Some((policy_name, asked))) if !existing.policies.is_empty() => {
                let same = existing.policy(policy_name).is_some_and(|policy| policy.fits(asked));
                return match same && existing.default_policy == *policy_name {
                    true => Ok(None),
                    false => Err(Error::conflict("retention policy conflicts with an existing policy")),
                };
            }
            (Some(existing), Some(_)) => existing.clone(),
            (None, _) => Self::new(name, "", created),
        };
        let by_default = (super::DEFAULT_POLICY_NAME, PolicyChange::default());
        let (policy_name, asked) = policy.unwrap_or(&by_default);
        database.default_policy = (*policy_name).into();
        database.policies.push(RetentionPolicy::new(policy_name, asked)?);
        Ok(Some(database))
    }

    /// Its records, itself last: whoever sees that sees the others.
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

    /// What changes in the records of a database, its own first where it goes. Whatever else stands under its name goes,
    /// also what is left of one that was dropped half-way; so does until when a continuous query has run that is not there
    /// before and after.
    pub(super) fn changes(seen: &VersionedRecords, name: &str, after: Option<&Self>) -> Vec<Change> {
        let known: BTreeSet<Vec<u8>> = prefixes(name).flat_map(|prefix| seen.keys_from(&prefix)).collect();
        let records = after.map(Self::records).unwrap_or_default();
        let new: BTreeSet<&Vec<u8>> = records.iter().map(|(key, _)| key).collect();
        let has_query = |run: &[u8]| {
            let query = [&[CONTINUOUS_QUERY], &run[1..]].concat();
            known.contains(&query) && new.contains(&query)
        };
        let stays = |key: &Vec<u8>| match key[0] {
            RUN => has_query(key),
            _ => new.contains(key),
        };
        let gone = prefixes(name).flat_map(|prefix| seen.keys_from(&prefix)).filter(|key| !stays(key));
        let mut changes: Vec<Change> = gone.map(|key| (key, None)).collect();
        changes.extend(records.into_iter().map(|(key, value)| (key, Some(value))));
        changes
    }
}

/// What the keys of all records of a database begin with, its own first.
fn prefixes(name: &str) -> impl Iterator<Item = Vec<u8>> {
    let others = [POLICY, CONTINUOUS_QUERY, SUBSCRIPTION, RUN].map(|kind| key(kind, &[name, ""]));
    std::iter::once(key(DATABASE, &[name, ""])).chain(others)
}

/// Databases by name, out of their records in order of creation.
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

/// Where it stands until when a continuous query has run.
pub(super) fn run_key(database: &str, name: &str) -> Vec<u8> {
    key(RUN, &[database, name])
}

/// The same of a record in the table that runs had to themselves: database, zero byte, name.
pub(super) fn run_key_of_old(old: &[u8]) -> Vec<u8> {
    [&[RUN], old].concat()
}

/// The records of a database out of the single one that it had: JSON of all of it.
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

/// Not damage, which checksums would tell of.
fn unknown_form(key: &[u8], words: &str) -> Error {
    let key = String::from_utf8_lossy(key);
    Error::unsupported(format!("database record {key:?} has no form that this version knows: {words}"))
}
