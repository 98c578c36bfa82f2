//! Databases, their retention policies and measurements.
//!
//! Durable form: records of databases and what they have (`database`), and one table of the store per measurement, whose
//! name tells where it belongs. Opening reads schemas and these records only, never points or series.

mod continuous;
mod creation;
mod database;
mod field;
mod group;
mod idle;
mod measurement;
mod membership;
mod opening;
mod record;
mod retention_policy;
mod series_directory;
mod series_memory;
mod series_table;
mod series_view;
mod shard;
mod shard_types;
mod subscription;
mod unsaved;

pub use continuous::ContinuousQuery;
pub(crate) use creation::WantedFields;
pub use database::Database;
pub use field::{Field, FieldType};
pub use measurement::Measurement;
pub(crate) use membership::Members;
pub use opening::DAMAGED_DATABASES_TABLE;
pub use retention_policy::{DEFAULT_POLICY_NAME, MIN_DURATION_NS, RetentionPolicy};
pub(crate) use series_table::SeriesTable;
pub use series_view::SeriesView;
pub use shard::Shard;
pub use subscription::{Destination, Scheme, Subscription};

use database::read_databases;
use record::record_prefix;

use crate::idle::IdleRules;
use crate::names::is_valid_name;
use crate::records::{Records, TRIES, VersionedRecords, always_changed};
use crate::users::{Privilege, Users};
use nyala_core::store::{Alteration, Freshness, SnapshotRef, StoreRef};
use nyala_core::{Error, ErrorKind, Result, TableId};
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use tokio::sync::{MutexGuard, OwnedRwLockWriteGuard};

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
    database_records: VersionedRecords,
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
    /// Whose members are among the measurements.
    groups: BTreeMap<Place, Arc<Measurement>>,
    /// Policies of whose measurements not all are known, and why.
    unreadable: BTreeMap<Place, String>,
}

/// What whoever drops measurements holds.
struct Owned<'a> {
    _members: BTreeMap<TableId, OwnedRwLockWriteGuard<()>>,
    _changing: MutexGuard<'a, ()>,
}

/// (database, retention policy).
type Place = (String, String);

/// Between the parts of a measurement's table name; names of databases and policies cannot hold it.
const SEPARATOR: char = '\u{0}';

impl Catalog {
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

    /// Keeps writers out of the tables that `find` finds, and whoever changes what there is.
    async fn own(&self, find: impl Fn() -> Vec<Arc<SeriesTable>>) -> Owned<'_> {
        let mut members = BTreeMap::new();
        loop {
            let mut tables = find();
            // Tables get rising numbers: those that came since lie behind those that are owned.
            tables.sort_unstable_by_key(|table| table.table());
            for table in &tables {
                if let Entry::Vacant(place) = members.entry(table.table()) {
                    place.insert(table.membership().own().await);
                }
            }
            let changing = self.changing.lock().await;
            if find().iter().all(|table| members.contains_key(&table.table())) {
                return Owned { _members: members, _changing: changing };
            }
        }
    }

    /// The tables whose series are loaded.
    pub(crate) fn loaded_tables(&self) -> Vec<Arc<SeriesTable>> {
        let state = self.state.read();
        let own = state.measurements.values().flat_map(BTreeMap::values).filter(|own| !own.is_member());
        let tables = own.chain(state.groups.values()).map(|own| own.stored());
        tables.filter(|table| table.is_loaded()).cloned().collect()
    }

    /// The tables of points of a retention policy, whether their series are loaded or not.
    pub(crate) fn known_tables(&self, database: &str, policy: &str) -> Vec<Arc<SeriesTable>> {
        let place = (database.to_owned(), policy.to_owned());
        let state = self.state.read();
        let measurements = state.measurements.get(&place).into_iter().flat_map(BTreeMap::values);
        let own = measurements.filter(|own| !own.is_member()).chain(state.groups.get(&place));
        own.map(|own| own.stored().clone()).collect()
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
        self.check_readable(database, policy)?;
        let measurements = self.known_measurements(database, policy);
        SeriesTable::load_all(measurements.iter().map(|own| own.stored())).await?;
        Ok(measurements)
    }

    /// An error where it is not known which measurements a retention policy has.
    fn check_readable(&self, database: &str, policy: &str) -> Result<()> {
        let place = (database.to_owned(), policy.to_owned());
        match self.state.read().unreadable.get(&place) {
            Some(words) => Err(Error::new(ErrorKind::Corrupt, words.clone())),
            None => Ok(()),
        }
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
        match &found {
            Some(measurement) => measurement.stored().load().await?,
            None => self.check_readable(database, policy)?,
        }
        Ok(found)
    }

    /// The tables of all policies of a database, whether their series are loaded or not.
    fn known_in_database(&self, database: &str) -> Vec<Arc<SeriesTable>> {
        let policies = self.database(database).map_or_else(Vec::new, |known| known.policies.clone());
        policies.iter().flat_map(|policy| self.known_tables(database, &policy.name)).collect()
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
        self.change_database(name, |existing| {
            let created = self.databases().last().map_or(0, |last| last.created + 1);
            Database::created(existing, name, created, policy.as_ref())
        })
        .await
    }

    /// Makes a database what `change` makes of it, which leaves it alone by `None`. Whoever calls holds `changing`; where
    /// another server was quicker `change` is asked again.
    async fn change_database(
        &self,
        name: &str,
        change: impl Fn(Option<&Database>) -> Result<Option<Database>>,
    ) -> Result<()> {
        for _ in 0..TRIES {
            let before = self.database(name);
            let Some(after) = change(before.as_deref())? else { return Ok(()) };
            let changes = Database::changes(&self.database_records, name, Some(&after));
            if self.database_records.change(changes).await? {
                self.state.write().databases.insert(name.to_owned(), Arc::new(after));
                return Ok(());
            }
            self.read_databases_again().await?;
        }
        Err(always_changed(&format!("database {name}")))
    }

    /// The same for a database that must exist.
    async fn change_existing(&self, name: &str, change: impl Fn(&mut Database) -> Result<()>) -> Result<()> {
        self.change_database(name, |existing| {
            let existing = existing.ok_or_else(|| Error::missing(format!("database not found: {name}")))?;
            let mut changed = existing.clone();
            change(&mut changed)?;
            Ok((changed != *existing).then_some(changed))
        })
        .await
    }

    /// Removes the records of a database. Whoever calls holds `changing`.
    async fn remove_database(&self, name: &str) -> Result<()> {
        for _ in 0..TRIES {
            let changes = Database::changes(&self.database_records, name, None);
            if self.database_records.change(changes).await? {
                self.state.write().databases.remove(name);
                return Ok(());
            }
            self.read_databases_again().await?;
        }
        Err(always_changed(&format!("database {name}")))
    }

    /// Learns what other servers have made of the databases.
    async fn read_databases_again(&self) -> Result<()> {
        let databases = read_databases(&self.database_records.read().await?)?;
        let databases = databases.into_iter().map(|(name, database)| (name, Arc::new(database))).collect();
        self.state.write().databases = databases;
        Ok(())
    }

    /// Drops a database with all it holds; one that does not exist is no error.
    pub async fn drop_database(&self, name: &str) -> Result<()> {
        let dropped = {
            let _owned = self.own(|| self.known_in_database(name)).await;
            let Some(database) = self.database(name) else { return Ok(()) };
            // First: whatever fails after this, nobody keeps rights to the next database of this name.
            self.users.forget_database(name).await?;
            let policies = database.policies.iter().map(|policy| policy.name.as_str());
            let dropped = self.drop_points(name, policies, |_| true).await?;
            self.remove_database(name).await?;
            dropped
        };
        self.forget_records(dropped).await
    }

    /// Drops those tables of some policies that are chosen, all or none, with one change of the store. Their records are left
    /// for [`Self::forget_records`].
    async fn drop_points<'a>(
        &self,
        database: &str,
        policies: impl Iterator<Item = &'a str>,
        is_chosen: impl Fn(&SeriesTable) -> bool,
    ) -> Result<Vec<TableId>> {
        let (mut tables, mut dropped) = (Vec::new(), Vec::new());
        for policy in policies {
            for table in self.known_tables(database, policy).into_iter().filter(|table| is_chosen(table)) {
                tables.push(table.table());
                dropped.push(((database.to_owned(), policy.to_owned()), table));
            }
        }
        self.store.drop_tables(tables.clone()).await?;
        for (_, table) in &dropped {
            table.membership().end();
            self.give_back_series_memory(table.memory_bytes());
        }
        let mut state = self.state.write();
        let State { measurements, groups, unreadable, .. } = &mut *state;
        for (place, table) in dropped {
            let all = measurements.entry(place.clone()).or_default();
            match groups.get(&place).is_some_and(|group| group.table() == table.table()) {
                true => {
                    groups.remove(&place);
                    unreadable.remove(&place);
                    all.retain(|_, own| !own.is_member());
                }
                // It has the name of its measurement.
                false => drop(all.remove(table.name())),
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
        let of_members = self.drop_members(database, name).await?;
        // No measurement has the name of groups.
        let of_name = |table: &SeriesTable| !name.is_empty() && table.name() == name;
        let dropped = {
            let _owned = self
                .own(|| {
                    let mut known = self.known_in_database(database);
                    known.retain(|table| of_name(table));
                    known
                })
                .await;
            let known = self.existing_database(database)?;
            let policies = known.policies.iter().map(|policy| policy.name.as_str());
            self.drop_points(database, policies, of_name).await?
        };
        let found = of_members || !dropped.is_empty();
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
        self.change_existing(database, |changed| {
            match changed.policy(&policy.name) {
                Some(existing) if *existing != policy => {
                    return Err(Error::conflict("retention policy already exists"));
                }
                Some(_) => {}
                None => changed.policies.push(policy.clone()),
            }
            if make_default {
                changed.default_policy.clone_from(&policy.name);
            }
            Ok(())
        })
        .await
    }

    /// Changes a retention policy: what is acknowledged here nobody drops by the policy as it was.
    pub async fn alter_policy(&self, database: &str, name: &str, change: PolicyChange) -> Result<()> {
        let changing = self.changing.lock().await;
        let alter = |database: &mut Database| -> Result<i64> {
            let policy = database.policies.iter_mut().find(|policy| policy.name == name);
            let policy =
                policy.ok_or_else(|| Error::missing(format!("retention policy not found: {name}")))?;
            *policy = policy.changed(&change)?;
            let width_ns = policy.shard_duration_ns;
            if change.make_default {
                database.default_policy = name.into();
            }
            Ok(width_ns)
        };
        let width_ns = alter(&mut Database::clone(&*self.existing_database(database)?))?;
        let tables = self.known_tables(database, name);
        let width = |table: &Arc<SeriesTable>| (table.table(), vec![Alteration::SetPartitionWidth(width_ns)]);
        self.store.alter_tables(tables.iter().map(width).collect()).await?;
        self.change_existing(database, |database| alter(database).map(drop)).await?;
        drop(changing);
        // Whoever drops by the policy as it was has looked at it while owning the measurement: wait until they are done.
        for table in &tables {
            drop(table.membership().share().await);
        }
        Ok(())
    }

    /// Drops a retention policy with all it holds; one that does not exist is no error, nor is its database.
    pub async fn drop_policy(&self, database: &str, name: &str) -> Result<()> {
        let dropped = {
            let _owned = self.own(|| self.known_tables(database, name)).await;
            if self.database(database).is_none() {
                return Ok(());
            }
            let dropped = self.drop_points(database, [name].into_iter(), |_| true).await?;
            self.change_existing(database, |changed| {
                changed.policies.retain(|policy| policy.name != name);
                changed.subscriptions.retain(|subscription| subscription.policy != name);
                Ok(())
            })
            .await?;
            dropped
        };
        self.forget_records(dropped).await
    }
}
