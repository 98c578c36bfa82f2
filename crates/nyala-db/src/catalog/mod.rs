//! The catalog: databases, their retention policies and measurements.
//!
//! On disk there are records of databases and their parts (`database`), and one table of the store per measurement,
//! whose name says where it belongs. Opening reads only schemas and these records, never points or series.

mod alter;
mod change_list;
mod continuous;
mod creation;
mod database;
mod field;
mod following;
mod group;
mod idle_rules;
mod idle_series;
mod loading;
mod measurement;
mod missed_changes;
mod moved_records;
mod name_records;
mod opening;
mod past_series;
mod policy_measurements;
mod record;
mod relation;
mod retention_policy;
mod series_directory;
mod series_memory;
mod series_table;
mod series_view;
mod shard;
mod shard_starts;
mod shard_times;
mod shard_types;
mod shared_table;
mod storage_report;
mod subscription;
mod table_lock;
mod table_locks;
mod unsaved;

pub use alter::{AlterCounts, AlteredMeasurement, MeasurementChange};
pub(crate) use creation::FieldsToWrite;
pub use database::{ContinuousQuery, Database};
pub use field::{Field, FieldType};
pub use idle_rules::IdleRules;
pub use measurement::Measurement;
pub(crate) use moved_records::{MovedRecords, record_range, tag_set_range};
pub(crate) use name_records::{ALIASES, NAMES_TABLE, name_key, split_name_key};
pub use opening::{DAMAGED_DATABASES_TABLE, SERIES_TABLE, earlier_records};
pub(crate) use opening::{DATABASES_TABLE, UNFINISHED_MOVE_TABLE};
pub(crate) use record::{read_arbitrary, recorded_table};
pub use retention_policy::{DEFAULT_POLICY_NAME, MIN_DURATION_NS, RetentionPolicy};
pub(crate) use series_table::{LAST_SERIES, NO_MORE_IDS, SeriesTable};
pub use series_view::SeriesView;
pub use shard::Shard;
pub(crate) use shard_starts::ShardStarts;
use shard_times::shard_width_ns;
pub(crate) use shard_times::{add_shards, shard_starts, times_of};
pub use storage_report::{ReportedPart, StorageReport, TableName, TableSizes};
pub use subscription::{Destination, Scheme, Subscription};
pub(crate) use table_locks::TableLocks;

use database::read_databases;
use policy_measurements::{PolicyKey, PolicyMeasurements};
use record::record_prefix;

use crate::changes::Changes;
use crate::names::is_valid_name;
use crate::records::{Change, ChangeLog, Entry, News, Records, VersionedRecords};
use crate::relations::Relations;
use crate::users::{NewToken, Privilege, Users};
use nyala_core::store::{Alteration, Freshness, SnapshotRef, StoreRef};
use nyala_core::{Error, ErrorKind, Result, TableId};
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::collections::btree_map;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use tokio::sync::{MutexGuard, OwnedRwLockWriteGuard};

/// A change of a retention policy, or settings to compare a policy with. Members that are `None` do not change, or are
/// not compared.
#[derive(Debug, Clone, Default)]
pub struct PolicyChange {
    /// How long points are kept, ns; 0 means for ever.
    pub duration_ns: Option<i64>,
    /// The width of shards that are created from now on, ns.
    pub shard_duration_ns: Option<i64>,
    /// The number of copies.
    pub replication: Option<u32>,
    /// How far after now the time of a written point may lie, ns; 0 means any distance.
    pub future_limit_ns: Option<i64>,
    /// How far before now the time of a written point may lie, ns; 0 means any distance.
    pub past_limit_ns: Option<i64>,
    /// Whether it becomes the default.
    pub make_default: bool,
}

/// All databases.
pub struct Catalog {
    store: StoreRef,
    damage: Option<String>,
    /// If other servers use the store too.
    change_log: Option<Arc<ChangeLog>>,
    database_records: VersionedRecords,
    series_records: Records,
    users: Users,
    relations: Relations,
    changes: Changes,
    state: RwLock<State>,
    /// The approximate size of all series indexes, bytes. It is measured from time to time, and estimated in between.
    series_bytes: AtomicUsize,
    idle_rules: IdleRules,
    /// Locked to change databases, policies or the set of measurements. Taken after table locks.
    changing: tokio::sync::Mutex<()>,
    /// Locked to add columns to measurements.
    altering: tokio::sync::Mutex<()>,
    /// The version of the store's tables that `state` shows.
    tables_version: AtomicU64,
    /// Which changes of other servers were applied to the catalog. Locked before `changing`.
    applied_news: tokio::sync::Mutex<News>,
}

#[derive(Default)]
struct State {
    databases: BTreeMap<String, Arc<Database>>,
    measurements: BTreeMap<PolicyKey, PolicyMeasurements>,
}

/// The locks held to drop or alter measurements.
struct DropLocks<'a> {
    _tables: BTreeMap<TableId, OwnedRwLockWriteGuard<()>>,
    _changing: MutexGuard<'a, ()>,
}

/// Separates the parts of a measurement's table name. Names of databases and policies cannot contain it.
const SEPARATOR: char = '\u{0}';

impl Catalog {
    /// The damage or loss found in the records of databases, if any. Databases that have measurements are then known by
    /// their tables, with policies that keep points for ever. The damage is reported until an operator accepts it.
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

    /// Users and their rights.
    pub fn users(&self) -> &Users {
        &self.users
    }

    /// Tables and views that users of SQL have declared.
    pub fn relations(&self) -> &Relations {
        &self.relations
    }

    /// While the guard is held, no database is created, changed or dropped.
    pub(crate) async fn lock_databases(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().await
    }

    /// Changes the grant of a user on a database.
    pub async fn change_grant(
        &self,
        user: &str,
        database: &str,
        change: impl Fn(Privilege) -> Privilege,
    ) -> Result<()> {
        // The database cannot be dropped meanwhile. Otherwise the grant would apply to the next database of this name.
        let _changing = self.changing.lock().await;
        self.users.existing(user)?;
        self.existing_database(database)?;
        self.users.change_grant(user, database, change).await
    }

    /// Creates a user with privileges on databases, which must exist, as one change.
    pub async fn create_user(
        &self,
        name: &str,
        password: &str,
        admin: bool,
        grants: &BTreeMap<String, Privilege>,
    ) -> Result<()> {
        // As for a grant.
        let _changing = self.changing.lock().await;
        for database in grants.keys() {
            self.existing_database(database)?;
        }
        self.users.create_granted(name, password, (admin, false), grants).await
    }

    /// Creates a token, whose databases must exist. Returns its secret.
    pub async fn create_token(&self, new: &NewToken) -> Result<String> {
        // As for grants.
        let _changing = self.changing.lock().await;
        self.users.existing(&new.user)?;
        new.scope.iter().try_for_each(|(database, _)| self.existing_database(database).map(drop))?;
        self.users.create_token(new).await
    }

    /// Locks the tables that `find` returns exclusively, and locks `changing`.
    async fn lock_for_drop(&self, find: impl Fn() -> Vec<Arc<SeriesTable>>) -> DropLocks<'_> {
        let mut locks = BTreeMap::new();
        loop {
            let mut tables = find();
            // Table ids ascend, so tables that are new since the last round come after those that are locked already.
            tables.sort_unstable_by_key(|table| table.table());
            for table in &tables {
                if let btree_map::Entry::Vacant(place) = locks.entry(table.table()) {
                    place.insert(table.table_lock().lock_exclusive().await);
                }
            }
            let changing = self.changing.lock().await;
            if find().iter().all(|table| locks.contains_key(&table.table())) {
                return DropLocks { _tables: locks, _changing: changing };
            }
        }
    }

    /// The tables whose series are loaded.
    pub(crate) fn loaded_tables(&self) -> Vec<Arc<SeriesTable>> {
        let state = self.state.read();
        let tables = state.measurements.values().flat_map(PolicyMeasurements::tables);
        tables.filter(|table| table.is_loaded()).cloned().collect()
    }

    /// The tables of points of a retention policy, whether their series are loaded or not.
    pub(crate) fn known_tables(&self, database: &str, policy: &str) -> Vec<Arc<SeriesTable>> {
        let key = (database.to_owned(), policy.to_owned());
        self.state.read().measurements.get(&key).into_iter().flat_map(|all| all.tables().cloned()).collect()
    }

    /// Whether other servers use the store too.
    pub(crate) fn is_shared(&self) -> bool {
        self.change_log.is_some()
    }

    /// Sets the rules by which series are evicted. By default no series is evicted, and in a shared store none ever is:
    /// other servers may be writing to it.
    #[must_use]
    pub fn with_idle_rules(mut self, rules: IdleRules) -> Self {
        if !self.is_shared() {
            self.idle_rules = rules;
        }
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

    /// The measurements of a retention policy in order of name, with their series loaded.
    pub async fn measurements(&self, database: &str, policy: &str) -> Result<Vec<Arc<Measurement>>> {
        self.check_readable(database, policy)?;
        let measurements = self.known_measurements(database, policy);
        SeriesTable::load_all(measurements.iter().map(|own| own.stored())).await?;
        Ok(measurements)
    }

    /// An error if the measurements of a retention policy are not all known.
    fn check_readable(&self, database: &str, policy: &str) -> Result<()> {
        let key = (database.to_owned(), policy.to_owned());
        match self.state.read().measurements.get(&key).and_then(|all| all.unreadable.as_ref()) {
            Some(words) => Err(Error::new(ErrorKind::Corrupt, words.clone())),
            None => Ok(()),
        }
    }

    /// The measurements of a retention policy in order of name, whether their series are loaded or not.
    pub(crate) fn known_measurements(&self, database: &str, policy: &str) -> Vec<Arc<Measurement>> {
        let key = (database.to_owned(), policy.to_owned());
        self.state.read().measurements.get(&key).map_or_else(Vec::new, PolicyMeasurements::by_name)
    }

    /// The names of the measurements of a retention policy, in order.
    pub fn measurement_names(&self, database: &str, policy: &str) -> Vec<String> {
        self.known_measurements(database, policy).iter().map(|own| own.name().to_owned()).collect()
    }

    /// Whether there is a measurement of a name, or an alias.
    pub fn has_measurement(&self, database: &str, policy: &str, name: &str) -> bool {
        let key = (database.to_owned(), policy.to_owned());
        self.state.read().measurements.get(&key).is_some_and(|all| all.get(name).is_some())
    }

    /// A measurement, with its series loaded.
    pub async fn measurement(
        &self,
        database: &str,
        policy: &str,
        name: &str,
    ) -> Result<Option<Arc<Measurement>>> {
        let key = (database.to_owned(), policy.to_owned());
        let found = self.state.read().measurements.get(&key).and_then(|all| all.get(name)).cloned();
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

    /// Creates a database. If it exists, nothing happens, unless a policy is given whose name or settings differ from
    /// those of the default policy.
    pub async fn create_database(&self, name: &str, policy: Option<(&str, PolicyChange)>) -> Result<()> {
        if !is_valid_name(name) || policy.as_ref().is_some_and(|(name, _)| !is_valid_name(name)) {
            return Err(Error::invalid("invalid name"));
        }
        if let Some((_, settings)) = &policy {
            RetentionPolicy::check_duration(settings.duration_ns)?;
        }
        let _changing = self.changing.lock().await;
        self.change_database(name, |existing| {
            let created = self.databases().last().map_or(0, |last| last.created + 1);
            Database::created(existing, name, created, policy.as_ref())
        })
        .await
    }

    /// Replaces a database by what `change` returns; `None` leaves it alone. The caller holds `changing`. If another
    /// server was faster, `change` is called again.
    async fn change_database(
        &self,
        name: &str,
        change: impl Fn(Option<&Database>) -> Result<Option<Database>>,
    ) -> Result<()> {
        let decide = || {
            let before = self.database(name);
            let Some(after) = change(before.as_deref())? else { return Ok(None) };
            Ok(Some((Database::changes(&self.database_records, name, Some(&after)), after)))
        };
        if let Some(after) = self.change_database_records(&format!("database {name}"), decide).await? {
            self.state.write().databases.insert(name.to_owned(), Arc::new(after));
        }
        // Even if nothing was changed: whoever changed it may have died before it said so.
        self.announce(Entry::Databases).await
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

    /// Removes the records of a database. The caller holds `changing`.
    async fn remove_database(&self, name: &str) -> Result<()> {
        let decide = || Ok(Some((Database::changes(&self.database_records, name, None), ())));
        self.change_database_records(&format!("database {name}"), decide).await?;
        self.state.write().databases.remove(name);
        self.announce(Entry::Databases).await
    }

    /// Changes records of databases; see [`VersionedRecords::change_by`].
    async fn change_database_records<T>(
        &self,
        what: &str,
        decide: impl Fn() -> Result<Option<(Vec<Change>, T)>>,
    ) -> Result<Option<T>> {
        self.database_records.change_by(what, decide, |records| self.learn_databases(records)).await
    }

    /// Replaces what is known of the databases. The caller holds `changing`.
    fn learn_databases(&self, records: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        let databases = read_databases(records)?.into_iter();
        self.state.write().databases = databases.map(|(name, own)| (name, Arc::new(own))).collect();
        Ok(())
    }

    /// Drops a database with everything in it. It is no error if the database does not exist.
    pub async fn drop_database(&self, name: &str) -> Result<()> {
        let dropped = {
            let _lock = self.lock_for_drop(|| self.known_in_database(name)).await;
            let Some(database) = self.database(name) else { return Ok(()) };
            // First of all: whatever fails later, no user keeps rights to the next database of this name.
            self.users.forget_database(name).await?;
            let policies = database.policies.iter().map(|policy| policy.name.as_str());
            let dropped = self.drop_points(name, policies, |_| true).await?;
            self.relations.drop_database(name).await?;
            self.announce(Entry::Relations).await?;
            self.remove_database(name).await?;
            dropped
        };
        self.forget_records(dropped).await
    }

    /// Drops the chosen tables of some policies, all or none, by one change of the store. Their records are left for
    /// [`Self::forget_records`].
    async fn drop_points<'a>(
        &self,
        database: &str,
        policies: impl Iterator<Item = &'a str> + Clone,
        is_chosen: impl Fn(&SeriesTable) -> bool,
    ) -> Result<Vec<TableId>> {
        let (tables, dropped) = loop {
            let (mut tables, mut dropped) = (Vec::new(), Vec::new());
            for policy in policies.clone() {
                let known = self.known_tables(database, policy).into_iter();
                for table in known.filter(|table| is_chosen(table)) {
                    tables.push(table.table());
                    dropped.push(((database.to_owned(), policy.to_owned()), table));
                }
            }
            match self.store.drop_tables(tables.clone()).await {
                // Another server has dropped one of them.
                Err(error) if error.kind() == ErrorKind::Missing && self.is_shared() => self.follow_tables(),
                done => break done.map(|()| (tables, dropped))?,
            }
        };
        for (_, table) in &dropped {
            // Unless this server has just followed itself.
            if table.table_lock().mark_dropped() {
                self.give_back_series_memory(table.memory_bytes());
            }
        }
        let mut state = self.state.write();
        for (key, table) in dropped {
            state.measurements.entry(key).or_default().remove_table(&table);
        }
        Ok(tables)
    }

    /// Removes the records of dropped tables. Nobody is locked out: no other table will ever have their ids, so nobody
    /// reads these records.
    async fn forget_records(&self, mut tables: Vec<TableId>) -> Result<()> {
        tables.sort_unstable();
        // Measurements that were created together have consecutive ids.
        for run in tables.chunk_by(|a, b| a.0 + 1 == b.0) {
            let (first, last) = (record_prefix(run[0]), record_prefix(run[run.len() - 1]));
            self.series_records.remove_between(&first, &last).await?;
        }
        Ok(())
    }

    /// Drops a measurement from every policy of a database. Returns whether there was one.
    pub async fn drop_measurement(&self, database: &str, name: &str) -> Result<bool> {
        let of_members = self.drop_members(database, name).await?;
        // A measurement never has the name of groups, which is empty.
        let of_name = |table: &SeriesTable| !name.is_empty() && *table.name() == *name;
        let dropped = {
            let _lock = self
                .lock_for_drop(|| {
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

    /// Adds a retention policy. If it exists with the same settings, nothing happens. One that exists does
    /// not become the default: a statement that is sent again must not undo what was decided since.
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
                Some(_) if make_default && changed.default_policy != policy.name => {
                    return Err(Error::conflict("retention policy conflicts with an existing policy"));
                }
                Some(_) => return Ok(()),
                None => changed.policies.push(policy.clone()),
            }
            if make_default {
                changed.default_policy.clone_from(&policy.name);
            }
            Ok(())
        })
        .await
    }

    /// Changes a retention policy. Once this returns, nobody drops points by the old policy, other servers neither.
    pub async fn alter_policy(&self, database: &str, name: &str, change: PolicyChange) -> Result<()> {
        let alter = |database: &mut Database| -> Result<i64> {
            let policy = database.named_policy(name)?;
            *policy = policy.changed(&change)?;
            let width_ns = policy.shard_duration_ns;
            if change.make_default {
                database.default_policy = name.into();
            }
            Ok(width_ns)
        };
        let new_width = || alter(&mut Database::clone(&*self.existing_database(database)?));
        let with_other_width = || {
            // If the change is refused, that is found out below.
            let Ok(width_ns) = new_width() else { return Vec::new() };
            let schema_of = |table: &Arc<SeriesTable>| self.store.schema(table.table());
            let is_other = |table: &Arc<SeriesTable>| {
                schema_of(table).is_ok_and(|schema| shard_width_ns(&schema) != width_ns)
            };
            self.known_tables(database, name).into_iter().filter(is_other).collect()
        };
        // A writer notes types of fields by the start of a shard before the store makes it, so the width must not
        // change in between.
        let locks = self.lock_for_drop(with_other_width).await;
        let width_ns = new_width()?;
        let tables = self.known_tables(database, name);
        self.set_widths(&tables, width_ns).await?;
        tables.iter().for_each(|table| table.forget_shard_starts());
        self.change_existing(database, |database| alter(database).map(drop)).await?;
        if self.is_shared() {
            // Behind the change: another server that has judged by the old policy judges again, or has dropped what it drops.
            self.set_widths(&tables, width_ns).await?;
        }
        drop(locks);
        // Whoever drops points by the old policy has read it under the exclusive table lock. Wait until they are done.
        for table in &tables {
            drop(table.table_lock().lock_shared().await);
        }
        Ok(())
    }

    /// Sets the width of shards of those tables that exist.
    async fn set_widths(&self, tables: &[Arc<SeriesTable>], width_ns: i64) -> Result<()> {
        let is_there = |table: &TableId| self.store.schema(*table).is_ok();
        loop {
            let there: Vec<TableId> = tables.iter().map(|table| table.table()).filter(is_there).collect();
            let width = |table: &TableId| (*table, vec![Alteration::SetPartitionWidth(width_ns)]);
            match self.store.alter_tables(there.iter().map(width).collect()).await {
                // Another server has dropped one of them.
                Err(error) if error.kind() == ErrorKind::Missing && !there.iter().all(is_there) => {}
                altered => return altered.map(drop),
            }
        }
    }

    /// Drops a retention policy with everything in it. It is no error if the policy or its database does not exist.
    pub async fn drop_policy(&self, database: &str, name: &str) -> Result<()> {
        let dropped = {
            let _lock = self.lock_for_drop(|| self.known_tables(database, name)).await;
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
