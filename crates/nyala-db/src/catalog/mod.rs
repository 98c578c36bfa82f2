//! Databases, their retention policies and measurements.
//!
//! Durable form: one record per database, and one table of the store per measurement, whose name tells
//! where it belongs. Opening reads schemas and database records only, never points or series.

mod continuous;
mod creation;
mod field;
mod idle;
mod measurement;
mod membership;
mod record;
mod retention_policy;
mod series_memory;
mod shard;
mod subscription;
mod unsaved;

pub use continuous::ContinuousQuery;
pub(crate) use creation::WantedFields;
pub use field::{Field, FieldType};
pub use measurement::Measurement;
pub(crate) use membership::Members;
pub use retention_policy::{DEFAULT_POLICY_NAME, MIN_DURATION_NS, RetentionPolicy};
pub use shard::Shard;
pub use subscription::{Destination, Scheme, Subscription};

use record::record_prefix;

use crate::idle::IdleRules;
use crate::names::is_valid_name;
use crate::records::Records;
use crate::users::{Privilege, Users};
use nyala_core::store::{Alteration, Freshness, SnapshotRef, StoreRef};
use nyala_core::{Error, ErrorKind, Result, TableId, TableSchema};
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use tokio::sync::{MutexGuard, OwnedRwLockWriteGuard};

/// A database as statements see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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

impl Database {
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
}

/// What a retention policy is to become, or to be compared with; members that are `None` stay, or do not count.
#[derive(Debug, Clone, Default)]
pub struct PolicyChange {
    /// How long points are kept, ns; 0 is for ever.
    pub duration_ns: Option<i64>,
    /// The width of shards made from now on, ns.
    pub shard_duration_ns: Option<i64>,
    /// The number of copies.
    pub replication: Option<u32>,
    /// How far after now points may lie when they are written, ns; 0 is any distance.
    pub future_limit_ns: Option<i64>,
    /// How far before now points may lie when they are written, ns; 0 is any distance.
    pub past_limit_ns: Option<i64>,
    /// Whether it becomes the default.
    pub make_default: bool,
}

/// All databases.
pub struct Catalog {
    store: StoreRef,
    damage: Option<String>,
    databases_records: Records,
    continuous_records: Records,
    series_records: Records,
    users: Users,
    state: RwLock<State>,
    /// About how many bytes the series indexes take: measured now and then, estimated in between.
    series_bytes: AtomicUsize,
    idle_rules: IdleRules,
    /// Held by whoever changes databases, policies or the set of measurements. Taken after memberships of measurements.
    changing: tokio::sync::Mutex<()>,
    /// Held by whoever adds columns to measurements.
    altering: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    databases: BTreeMap<String, Arc<Database>>,
    measurements: BTreeMap<Place, BTreeMap<String, Arc<Measurement>>>,
}

/// What whoever drops measurements holds.
struct Owned<'a> {
    _members: BTreeMap<TableId, OwnedRwLockWriteGuard<()>>,
    _changing: MutexGuard<'a, ()>,
}

/// (database, retention policy).
type Place = (String, String);

const DATABASES_TABLE: &str = "nyala.databases";
/// What the table of databases is called from when it was found damaged until somebody accepts it.
pub const DAMAGED_DATABASES_TABLE: &str = "nyala.databases.damaged";
const CONTINUOUS_TABLE: &str = "nyala.continuous";
const SERIES_TABLE: &str = "nyala.series";
/// Between the parts of a measurement's table name; names of databases and policies cannot hold it.
const SEPARATOR: char = '\u{0}';

/// Refuses a store that has measurements, and not their series: nothing would be found.
fn check_tables(store: &StoreRef) -> Result<()> {
    let tables = store.tables();
    let has = |wanted: &dyn Fn(&str) -> bool| tables.iter().any(|(_, schema)| wanted(&schema.name));
    match has(&|name| name.contains(SEPARATOR)) && !has(&|name| name == SERIES_TABLE) {
        true => {
            Err(Error::new(ErrorKind::Corrupt, "the table of series is missing, and measurements are there"))
        }
        false => Ok(()),
    }
}

fn encode(database: &Database) -> Vec<u8> {
    serde_json::to_vec(database).expect("a database record is plain data")
}

impl State {
    /// Makes a database and a policy known by the table of a measurement; whether there was no record of them.
    fn restore(&mut self, database: &str, policy: &str, schema: &TableSchema) -> Result<bool> {
        if self.databases.get(database).is_some_and(|known| known.policy(policy).is_some()) {
            return Ok(false);
        }
        let created = self.databases.len() as u64;
        let known = self.databases.entry(database.into()).or_insert_with(|| {
            Arc::new(Database {
                name: database.into(),
                default_policy: policy.into(),
                policies: Vec::new(),
                created,
                continuous_queries: Vec::new(),
                subscriptions: Vec::new(),
            })
        });
        let known = Arc::make_mut(known);
        let shard_duration_ns = schema.partitioning.time_width_ns();
        let asked = PolicyChange { shard_duration_ns, ..PolicyChange::default() };
        known.policies.push(RetentionPolicy::new(policy, &asked)?);
        if policy == DEFAULT_POLICY_NAME {
            known.default_policy = policy.into();
        }
        Ok(true)
    }
}

impl Catalog {
    /// Reads the catalog of a store.
    pub async fn open(store: StoreRef) -> Result<Self> {
        check_tables(&store)?;
        let mut databases_records = Records::open(store.clone(), DATABASES_TABLE).await?;
        let continuous_records = Records::open(store.clone(), CONTINUOUS_TABLE).await?;
        let series_records = Records::open(store.clone(), SERIES_TABLE).await?;
        let users = Users::open(store.clone()).await?;
        let mut state = State::default();
        let mut broken = None;
        let visited = databases_records
            .visit(b"", |key, value| match serde_json::from_slice::<Database>(value) {
                Ok(database) => drop(state.databases.insert(database.name.clone(), Arc::new(database))),
                Err(error) => broken = Some(format!("database record {key:?}: {error}")),
            })
            .await;
        let damage = match visited {
            Err(error) if error.kind() == ErrorKind::Corrupt => Some(error.to_string()),
            visited => visited.map(|()| None)?,
        };
        let mut lost = Vec::new();
        if let Some(words) = broken {
            return Err(Error::new(ErrorKind::Corrupt, words));
        }
        for (table, schema) in store.tables() {
            let mut parts = schema.name.splitn(3, SEPARATOR);
            let (Some(database), Some(policy), Some(name)) = (parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            if state.restore(database, policy, &schema)? {
                lost.push(format!("{database:?}.{policy:?}"));
            }
            let measurement =
                Measurement::new(name.into(), table, &schema, store.clone(), series_records.clone());
            state
                .measurements
                .entry((database.into(), policy.into()))
                .or_default()
                .insert(name.into(), Arc::new(measurement));
        }
        let known =
            |store: &StoreRef, name: &str| store.tables().into_iter().find(|(_, schema)| schema.name == name);
        if damage.is_some() {
            // What is written from now on can be read again, and what is left of the old records says that some are lost.
            if let Some((earlier, _)) = known(&store, DAMAGED_DATABASES_TABLE) {
                store.drop_table(earlier).await?;
            }
            if let Some((damaged, _)) = known(&store, DATABASES_TABLE) {
                store.alter_table(damaged, vec![Alteration::Rename(DAMAGED_DATABASES_TABLE.into())]).await?;
            }
            databases_records = Records::open(store.clone(), DATABASES_TABLE).await?;
            let encoded =
                state.databases.values().map(|database| (database.name.as_bytes(), encode(database)));
            let encoded: Vec<_> = encoded.collect();
            let record = databases_records.put(encoded.iter().map(|(name, value)| (*name, value.as_slice())));
            databases_records.write(vec![record]).await?;
        }
        let lost = (!lost.is_empty())
            .then(|| format!("the records of retention policies are lost: {}", lost.join(", ")));
        let earlier = known(&store, DAMAGED_DATABASES_TABLE)
            .map(|_| "they were damaged at an earlier start".to_owned());
        let damage = damage.or(lost).or(earlier);
        Ok(Self {
            store,
            damage,
            databases_records,
            continuous_records,
            series_records,
            users,
            state: RwLock::new(state),
            series_bytes: AtomicUsize::new(0),
            idle_rules: IdleRules::default(),
            changing: tokio::sync::Mutex::new(()),
            altering: tokio::sync::Mutex::new(()),
        })
    }

    /// What is damaged or lost of the records of databases: those that have measurements are known by these, with
    /// policies that keep points for ever. It stays until somebody accepts it.
    pub fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// A snapshot of everything that was acknowledged.
    pub async fn snapshot(&self) -> Result<SnapshotRef> {
        self.store.snapshot(Freshness::Latest).await
    }

    /// The store below.
    pub fn store(&self) -> &StoreRef {
        &self.store
    }

    /// Who may do what.
    pub fn users(&self) -> &Users {
        &self.users
    }

    /// Changes what a user may do with a database.
    pub async fn change_grant(
        &self,
        user: &str,
        database: &str,
        change: impl Fn(Privilege) -> Privilege,
    ) -> Result<()> {
        // The database cannot go meanwhile, and leave a grant behind to the next of its name.
        let _changing = self.changing.lock().await;
        self.users.existing(user)?;
        self.existing_database(database)?;
        self.users.change_grant(user, database, change).await
    }

    /// Keeps writers out of the measurements that `find` finds, and whoever changes what there is.
    async fn own(&self, find: impl Fn() -> Vec<Arc<Measurement>>) -> Owned<'_> {
        let mut members = BTreeMap::new();
        loop {
            let mut measurements = find();
            // Tables get rising numbers: those that came since lie behind those that are owned.
            measurements.sort_unstable_by_key(|measurement| measurement.table());
            for measurement in &measurements {
                if let Entry::Vacant(place) = members.entry(measurement.table()) {
                    place.insert(measurement.membership().own().await);
                }
            }
            let changing = self.changing.lock().await;
            if find().iter().all(|measurement| members.contains_key(&measurement.table())) {
                return Owned { _members: members, _changing: changing };
            }
        }
    }

    /// The measurements whose series are in memory.
    pub(crate) fn loaded_measurements(&self) -> Vec<Arc<Measurement>> {
        let state = self.state.read();
        let all = state.measurements.values().flat_map(BTreeMap::values);
        all.filter(|measurement| measurement.series_count().is_some()).cloned().collect()
    }

    /// Series leave memory by these rules; by default none does.
    #[must_use]
    pub fn with_idle_rules(mut self, rules: IdleRules) -> Self {
        self.idle_rules = rules;
        self
    }

    pub(crate) fn idle_rules(&self) -> IdleRules {
        self.idle_rules
    }

    pub(crate) fn series_records(&self) -> &Records {
        &self.series_records
    }

    /// All databases in order of creation.
    pub fn databases(&self) -> Vec<Arc<Database>> {
        let mut all: Vec<_> = self.state.read().databases.values().cloned().collect();
        all.sort_by_key(|database| database.created);
        all
    }

    /// A database by name.
    pub fn database(&self, name: &str) -> Option<Arc<Database>> {
        self.state.read().databases.get(name).cloned()
    }

    /// A database by name, or InfluxDB's error.
    pub fn existing_database(&self, name: &str) -> Result<Arc<Database>> {
        self.database(name).ok_or_else(|| Error::missing(format!("database not found: {name}")))
    }

    /// The measurements of a retention policy by name, their series loaded.
    pub async fn measurements(&self, database: &str, policy: &str) -> Result<Vec<Arc<Measurement>>> {
        let measurements = self.known_measurements(database, policy);
        Measurement::load_all(&measurements).await?;
        Ok(measurements)
    }

    /// The measurements of a retention policy by name, whether their series are loaded or not.
    pub(crate) fn known_measurements(&self, database: &str, policy: &str) -> Vec<Arc<Measurement>> {
        let place = (database.to_owned(), policy.to_owned());
        self.state.read().measurements.get(&place).into_iter().flat_map(|all| all.values().cloned()).collect()
    }

    /// A measurement, its series loaded.
    pub async fn measurement(
        &self,
        database: &str,
        policy: &str,
        name: &str,
    ) -> Result<Option<Arc<Measurement>>> {
        let place = (database.to_owned(), policy.to_owned());
        let found = self.state.read().measurements.get(&place).and_then(|all| all.get(name)).cloned();
        if let Some(measurement) = &found {
            measurement.load().await?;
        }
        Ok(found)
    }

    /// The measurements of all policies of a database, whether their series are loaded or not.
    fn known_in_database(&self, database: &str) -> Vec<Arc<Measurement>> {
        let policies = self.database(database).map_or_else(Vec::new, |known| known.policies.clone());
        policies.iter().flat_map(|policy| self.known_measurements(database, &policy.name)).collect()
    }

    /// Creates a database. One that exists already is left alone, unless the policy asked for, by name and
    /// settings, is not its default one.
    pub async fn create_database(&self, name: &str, policy: Option<(&str, PolicyChange)>) -> Result<()> {
        if !is_valid_name(name) || policy.as_ref().is_some_and(|(name, _)| !is_valid_name(name)) {
            return Err(Error::invalid("invalid name"));
        }
        if let Some((_, asked)) = &policy {
            RetentionPolicy::check_duration(asked.duration_ns)?;
        }
        let _changing = self.changing.lock().await;
        let mut database = match (self.database(name), &policy) {
            (Some(_), None) => return Ok(()),
            (Some(existing), Some((policy_name, asked))) if !existing.policies.is_empty() => {
                let same = existing.policy(policy_name).is_some_and(|policy| policy.fits(asked));
                return match same && existing.default_policy == *policy_name {
                    true => Ok(()),
                    false => Err(Error::conflict("retention policy conflicts with an existing policy")),
                };
            }
            (Some(existing), Some(_)) => Database::clone(&existing),
            (None, _) => {
                let databases = self.databases();
                let created = databases.last().map_or(0, |last| last.created + 1);
                Database {
                    name: name.into(),
                    default_policy: String::new(),
                    policies: Vec::new(),
                    created,
                    continuous_queries: Vec::new(),
                    subscriptions: Vec::new(),
                }
            }
        };
        let (policy_name, asked) = policy.unwrap_or((DEFAULT_POLICY_NAME, PolicyChange::default()));
        database.default_policy = policy_name.into();
        database.policies.push(RetentionPolicy::new(policy_name, &asked)?);
        self.save(database).await
    }

    async fn save(&self, database: Database) -> Result<()> {
        let value = encode(&database);
        let record = self.databases_records.put([(database.name.as_bytes(), value.as_slice())]);
        self.databases_records.write(vec![record]).await?;
        self.state.write().databases.insert(database.name.clone(), Arc::new(database));
        Ok(())
    }

    /// Drops a database with all it holds; one that does not exist is no error.
    pub async fn drop_database(&self, name: &str) -> Result<()> {
        let dropped = {
            let _owned = self.own(|| self.known_in_database(name)).await;
            let Some(database) = self.database(name) else { return Ok(()) };
            // First: whatever fails after this, nobody keeps rights to the next database of this name.
            self.users.forget_database(name).await?;
            self.forget_runs(&database).await?;
            let policies = database.policies.iter().map(|policy| policy.name.as_str());
            let dropped = self.drop_measurements(name, policies, |_| true).await?;
            self.databases_records.write(vec![self.databases_records.remove([name.as_bytes()])]).await?;
            self.state.write().databases.remove(name);
            dropped
        };
        self.forget_records(dropped).await
    }

    /// Drops those measurements of some policies that are chosen, all or none, with one change of the store. Their
    /// records are left for [`Self::forget_records`].
    async fn drop_measurements<'a>(
        &self,
        database: &str,
        policies: impl Iterator<Item = &'a str>,
        is_chosen: impl Fn(&Measurement) -> bool,
    ) -> Result<Vec<TableId>> {
        let (mut tables, mut dropped) = (Vec::new(), Vec::new());
        for policy in policies {
            for measurement in self.known_measurements(database, policy) {
                if is_chosen(&measurement) {
                    tables.push(measurement.table());
                    dropped.push(((database.to_owned(), policy.to_owned()), measurement));
                }
            }
        }
        self.store.drop_tables(tables.clone()).await?;
        for (_, measurement) in &dropped {
            measurement.membership().end();
            self.give_back_series_memory(measurement.memory_bytes());
        }
        let mut state = self.state.write();
        for (place, measurement) in dropped {
            if let Some(all) = state.measurements.get_mut(&place) {
                all.remove(measurement.name());
            }
        }
        Ok(tables)
    }

    /// Removes the records of tables that are no more. They mean nothing to anybody, because no table gets the id of
    /// another: nobody is kept out meanwhile.
    async fn forget_records(&self, mut tables: Vec<TableId>) -> Result<()> {
        tables.sort_unstable();
        // Measurements made together have ids next to each other.
        for run in tables.chunk_by(|a, b| a.0 + 1 == b.0) {
            let (first, last) = (record_prefix(run[0]), record_prefix(run[run.len() - 1]));
            self.series_records.remove_between(&first, &last).await?;
        }
        Ok(())
    }

    /// Drops a measurement from every policy of a database; whether there was one.
    pub async fn drop_measurement(&self, database: &str, name: &str) -> Result<bool> {
        let of_name = || {
            let mut known = self.known_in_database(database);
            known.retain(|measurement| measurement.name() == name);
            known
        };
        let dropped = {
            let _owned = self.own(of_name).await;
            let known = self.existing_database(database)?;
            let policies = known.policies.iter().map(|policy| policy.name.as_str());
            self.drop_measurements(database, policies, |measurement| measurement.name() == name).await?
        };
        let found = !dropped.is_empty();
        self.forget_records(dropped).await.map(|()| found)
    }

    /// Adds a retention policy. One that exists with the same settings is left alone.
    pub async fn create_policy(
        &self,
        database: &str,
        policy: RetentionPolicy,
        make_default: bool,
    ) -> Result<()> {
        if !is_valid_name(&policy.name) {
            return Err(Error::invalid("invalid name"));
        }
        let _changing = self.changing.lock().await;
        let mut changed = Database::clone(&*self.existing_database(database)?);
        match changed.policy(&policy.name) {
            Some(existing) if *existing != policy => {
                return Err(Error::conflict("retention policy already exists"));
            }
            Some(_) => {}
            None => changed.policies.push(policy.clone()),
        }
        if make_default {
            changed.default_policy = policy.name;
        }
        self.save(changed).await
    }

    /// Changes a retention policy: what is acknowledged here nobody drops by the policy as it was.
    pub async fn alter_policy(&self, database: &str, name: &str, change: PolicyChange) -> Result<()> {
        let changing = self.changing.lock().await;
        let mut changed = Database::clone(&*self.existing_database(database)?);
        let policy = changed
            .policies
            .iter_mut()
            .find(|policy| policy.name == name)
            .ok_or_else(|| Error::missing(format!("retention policy not found: {name}")))?;
        *policy = policy.changed(&change)?;
        let width_ns = policy.shard_duration_ns;
        if change.make_default {
            changed.default_policy = name.into();
        }
        let measurements = self.known_measurements(database, name);
        let width = |measurement: &Arc<Measurement>| {
            (measurement.table(), vec![Alteration::SetPartitionWidth(width_ns)])
        };
        self.store.alter_tables(measurements.iter().map(width).collect()).await?;
        self.save(changed).await?;
        drop(changing);
        // Whoever drops by the policy as it was has looked at it while owning the measurement: wait until they are done.
        for measurement in &measurements {
            drop(measurement.membership().share().await);
        }
        Ok(())
    }

    /// Drops a retention policy with all it holds; one that does not exist is no error, nor is its database.
    pub async fn drop_policy(&self, database: &str, name: &str) -> Result<()> {
        let dropped = {
            let _owned = self.own(|| self.known_measurements(database, name)).await;
            let Some(database_now) = self.database(database) else { return Ok(()) };
            let mut changed = Database::clone(&*database_now);
            let dropped = self.drop_measurements(database, [name].into_iter(), |_| true).await?;
            changed.policies.retain(|policy| policy.name != name);
            changed.subscriptions.retain(|subscription| subscription.policy != name);
            self.save(changed).await?;
            dropped
        };
        self.forget_records(dropped).await
    }
}
