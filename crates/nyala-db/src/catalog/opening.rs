//! Opening the catalog: reading databases from their records, or from the tables of their measurements if the records
//! are damaged.

use super::database::{Database, read_databases, read_old_database, run_key_of_old};
use super::group::GROUP_NAME;
use super::record::{member_key, member_of};
use super::series_table::SeriesTable;
use super::{
    Catalog, DEFAULT_POLICY_NAME, IdleRules, Measurement, PolicyChange, RetentionPolicy, SEPARATOR, State,
    name_records,
};
use crate::changes::Changes;
use crate::records::{ChangeLog, Records, VersionedRecords, table_named};
use crate::relations::Relations;
use crate::users::{USERS_TABLE, Users};
use nyala_core::store::{Alteration, StoreRef};
use nyala_core::{Error, ErrorKind, Result, TableId, TableSchema};
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};

pub(crate) const DATABASES_TABLE: &str = "nyala.databases";
/// The name that the table of databases gets when it is found damaged. It keeps the name until an operator accepts the
/// damage.
pub const DAMAGED_DATABASES_TABLE: &str = "nyala.databases.damaged";
/// The old table of the times until which continuous queries have run. They are now among the records of databases.
const RUNS_TABLE: &str = "nyala.continuous";
/// The table of the series of all measurements.
pub const SERIES_TABLE: &str = "nyala.series";
/// The table of what a move into this store has done so far. It is there until the move is finished.
pub(crate) const UNFINISHED_MOVE_TABLE: &str = "nyala.move";

/// The tables, among those of a store, whose records are of an earlier version: the next start writes them anew.
pub fn earlier_records<'a>(schemas: impl IntoIterator<Item = &'a TableSchema>) -> Vec<&'a str> {
    let versioned = [DATABASES_TABLE, USERS_TABLE];
    let is_earlier = |schema: &&TableSchema| {
        let name = schema.name.as_str();
        name == RUNS_TABLE
            || versioned.iter().any(|table| VersionedRecords::old_name(table) == name)
            || versioned.contains(&name) && VersionedRecords::is_plain(schema)
    };
    schemas.into_iter().filter(is_earlier).map(|schema| schema.name.as_str()).collect()
}

type PlainRecords = Vec<(Vec<u8>, Vec<u8>)>;

impl Catalog {
    /// Reads the catalog of a store.
    pub async fn open(store: StoreRef) -> Result<Self> {
        check_tables(&store)?;
        // First of all: what others change from now on is read from the log.
        let change_log = ChangeLog::open(&store).await?;
        let series_records = Records::open(store.clone(), SERIES_TABLE).await?;
        let users = Users::open(store.clone(), change_log.clone()).await?;
        let relations = Relations::open(store.clone()).await?;
        let mut lost_runs = None;
        let (database_records, read, damage) = match read_records(&store, &mut lost_runs).await {
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                (set_aside(&store).await?, Vec::new(), Some(error.to_string()))
            }
            read => read.map(|(records, read)| (records, read, None))?,
        };
        let databases = read_databases(&read)?.into_iter();
        let databases = databases.map(|(name, database)| (name, Arc::new(database))).collect();
        let mut state = State { databases, ..State::default() };
        let (mut lost, mut unreadable) = (Vec::new(), Vec::new());
        let tables_version = store.tables_version();
        let (mut aliases, mut lost_aliases) = (BTreeMap::new(), None);
        match name_records::aliases(&store).await {
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                lost_aliases = Some(format!("aliases of measurements cannot be read: {error}"));
            }
            read => aliases = read?,
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
            let (of_store, records) = (store.clone(), series_records.clone());
            let stored = SeriesTable::new(name.into(), table, &schema, of_store, records, change_log.clone());
            let (key, stored) = ((database.to_owned(), policy.to_owned()), Arc::new(stored));
            if let Some(log) = &change_log {
                log.add_follower(table, &stored);
            }
            let all = state.measurements.entry(key).or_default();
            if name != GROUP_NAME {
                all.insert(Arc::new(Measurement::whole(name.into(), stored.clone())));
                for alias in aliases.remove(&table).unwrap_or_default() {
                    all.add_alias(Arc::new(Measurement::whole(alias, stored.clone())));
                }
                continue;
            }
            let add = |key: &[u8], _: &[u8]| {
                if let Some(name) = member_of(key) {
                    all.insert(Arc::new(Measurement::member(name.to_owned(), stored.clone())));
                }
            };
            match series_records.visit(&member_key(table, ""), add).await {
                Err(error) if error.kind() == ErrorKind::Corrupt => {
                    // Not all names of its measurements are known, so no new measurement may get an unknown name.
                    let words = format!("the metrics of {database:?}.{policy:?} cannot be read: {error}");
                    all.unreadable = Some(words.clone());
                    unreadable.push(words);
                }
                visited => visited?,
            }
            all.group = Some(Arc::new(Measurement::group(stored)));
        }
        if damage.is_some() {
            relations.databases().iter().for_each(|database| state.restore_database(database));
            // What is left of the old records says that some are lost. What is known now is written so that it can be
            // read again.
            let known = state.databases.values().flat_map(|database| database.records());
            database_records.change(known.map(|(key, value)| (key, Some(value))).collect()).await?;
        }
        let unreadable = (!unreadable.is_empty()).then(|| unreadable.join(", "));
        let lost = (!lost.is_empty())
            .then(|| format!("the records of retention policies are lost: {}", lost.join(", ")));
        let earlier = table_named(&store, DAMAGED_DATABASES_TABLE)
            .map(|_| "they were damaged at an earlier start".to_owned());
        let relations_damage =
            relations.damage().map(|words| format!("tables of SQL cannot be read: {words}"));
        let damage =
            damage.or(lost).or(unreadable).or(lost_runs).or(lost_aliases).or(relations_damage).or(earlier);
        Ok(Self {
            changes: Changes::new(store.clone()),
            store,
            damage,
            change_log,
            database_records,
            series_records,
            users,
            relations,
            state: RwLock::new(state),
            series_bytes: AtomicUsize::new(0),
            idle_rules: IdleRules::default(),
            changing: tokio::sync::Mutex::new(()),
            altering: tokio::sync::Mutex::new(()),
            tables_version: AtomicU64::new(tables_version),
            applied_news: tokio::sync::Mutex::default(),
        })
    }
}

/// The records of databases. Records of earlier versions are upgraded.
async fn read_records(
    store: &StoreRef,
    lost_runs: &mut Option<String>,
) -> Result<(VersionedRecords, PlainRecords)> {
    let old_runs = table_named(store, RUNS_TABLE);
    let mut runs = Vec::new();
    if old_runs.is_some() {
        let records = Records::open(store.clone(), RUNS_TABLE).await?;
        let visited = records.visit(b"", |key, value| runs.push((run_key_of_old(key), value.to_vec()))).await;
        match visited {
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                *lost_runs = Some(format!("until when continuous queries have run is lost: {error}"));
            }
            visited => visited?,
        }
    }
    let records = VersionedRecords::open(store.clone(), DATABASES_TABLE, |old| upgraded(&old, runs)).await?;
    if let Some(table) = old_runs {
        store.drop_table(table.0).await?;
    }
    let read = records.read().await?;
    Ok((records, read))
}

/// The new records of databases, made of the old ones (one per database), and those of runs of continuous queries.
fn upgraded(old: &PlainRecords, runs: PlainRecords) -> Result<PlainRecords> {
    let databases = old.iter().map(|(key, value)| read_old_database(key, value));
    let mut databases = databases.collect::<Result<Vec<_>>>()?;
    databases.sort_by_key(|database| database.created);
    Ok(databases.iter().flat_map(Database::records).chain(runs).collect())
}

/// Renames a damaged table of databases, and starts a new one.
async fn set_aside(store: &StoreRef) -> Result<VersionedRecords> {
    if let Some(earlier) = table_named(store, DAMAGED_DATABASES_TABLE) {
        store.drop_table(earlier.0).await?;
    }
    if let Some(runs) = table_named(store, RUNS_TABLE) {
        store.drop_table(runs.0).await?;
    }
    // A table that was being upgraded may be the damaged one. Whatever was upgraded is not needed.
    let names = [VersionedRecords::old_name(DATABASES_TABLE), DATABASES_TABLE.to_owned()];
    let tables: Vec<TableId> = names.iter().filter_map(|name| Some(table_named(store, name)?.0)).collect();
    if let [damaged, rest @ ..] = tables.as_slice() {
        store.drop_tables(rest.to_vec()).await?;
        store.alter_table(*damaged, vec![Alteration::Rename(DAMAGED_DATABASES_TABLE.into())]).await?;
    }
    VersionedRecords::open(store.clone(), DATABASES_TABLE, Ok).await
}

/// Refuses a store that a move has not filled yet, and one that has measurements but no table of their series: no point could
/// be found.
fn check_tables(store: &StoreRef) -> Result<()> {
    if table_named(store, UNFINISHED_MOVE_TABLE).is_some() {
        return Err(Error::conflict(
            "a move into this store is not finished: start the same `nyala move` again, and it goes on where it was",
        ));
    }
    let has_measurements = store.tables().iter().any(|(_, schema)| schema.name.contains(SEPARATOR));
    match has_measurements && table_named(store, SERIES_TABLE).is_none() {
        true => {
            Err(Error::new(ErrorKind::Corrupt, "the table of series is missing, and measurements are there"))
        }
        false => Ok(()),
    }
}

impl State {
    /// Adds a database that is only known by its relations.
    fn restore_database(&mut self, name: &str) {
        let created = self.databases.len() as u64;
        let database = || Arc::new(Database::new(name, "", created));
        self.databases.entry(name.into()).or_insert_with(database);
    }

    /// Adds a database and a policy that are only known by the table of a measurement. Returns whether there was no
    /// record of them.
    fn restore(&mut self, database: &str, policy: &str, schema: &TableSchema) -> Result<bool> {
        if self.databases.get(database).is_some_and(|known| known.policy(policy).is_some()) {
            return Ok(false);
        }
        let created = self.databases.len() as u64;
        let known = self.databases.entry(database.into());
        let known = known.or_insert_with(|| Arc::new(Database::new(database, policy, created)));
        let known = Arc::make_mut(known);
        let shard_duration_ns = schema.partitioning.time_width_ns();
        let settings = PolicyChange { shard_duration_ns, ..PolicyChange::default() };
        known.policies.push(RetentionPolicy::new(policy, &settings)?);
        if policy == DEFAULT_POLICY_NAME {
            known.default_policy = policy.into();
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::ContinuousQuery;
    use nyala_core::store::memory::MemoryStore;

    async fn put(store: &StoreRef, table: &str, key: &[u8], value: &[u8]) {
        let records = Records::open(store.clone(), table).await.unwrap();
        records.write(vec![records.put([(key, value)])]).await.unwrap();
    }

    #[tokio::test]
    async fn records_of_an_earlier_version_are_upgraded_once() {
        let store: StoreRef = Arc::new(MemoryStore::default());
        let of_a = r#"{"name":"a","default_policy":"q","policies":[
            {"name":"q","duration_ns":0,"shard_duration_ns":604800000000000,"replication":1},
            {"name":"p","duration_ns":7200000000000,"shard_duration_ns":3600000000000,"replication":2}],"created":5,
            "continuous_queries":[{"name":"n","text":"t"}],
            "subscriptions":[{"policy":"p","name":"s","to_all":true,"destinations":["udp://h:9"]}]}"#;
        let of_b = r#"{"name":"b","default_policy":"","policies":[],"created":3}"#;
        put(&store, DATABASES_TABLE, b"a", of_a.as_bytes()).await;
        put(&store, DATABASES_TABLE, b"b", of_b.as_bytes()).await;
        put(&store, RUNS_TABLE, b"a\0n", &7_i64.to_le_bytes()).await;
        let query = ContinuousQuery { name: "n".into(), text: "t".into() };
        for run in [7, 9] {
            let catalog = Catalog::open(store.clone()).await.unwrap();
            assert_eq!(catalog.damage(), None);
            let databases = catalog.databases();
            assert_eq!(databases.iter().map(|database| &*database.name).collect::<Vec<_>>(), ["b", "a"]);
            let a = &databases[1];
            assert_eq!(a.policies.iter().map(|policy| &*policy.name).collect::<Vec<_>>(), ["q", "p"]);
            assert_eq!((&*a.default_policy, a.policies[1].replication), ("q", 2));
            assert_eq!((&a.continuous_queries[0], a.subscriptions[0].mode()), (&query, "ALL"));
            assert_eq!(catalog.last_run_ns("a", "n").await.unwrap(), Some(run));
            assert!(catalog.set_last_run_ns("a", &query, 9).await.unwrap());
            assert!(table_named(&store, RUNS_TABLE).is_none());
        }
        let catalog = Catalog::open(store.clone()).await.unwrap();
        catalog.drop_continuous_query("a", "n").await.unwrap();
        catalog.create_continuous_query("a", query).await.unwrap();
        assert_eq!(catalog.last_run_ns("a", "n").await.unwrap(), None, "another begins anew");
    }

    #[tokio::test]
    async fn an_unknown_record_is_not_damage() {
        let store: StoreRef = Arc::new(MemoryStore::default());
        let records = VersionedRecords::open(store.clone(), DATABASES_TABLE, Ok).await.unwrap();
        assert!(records.change(vec![(b"zx\0".to_vec(), Some(b"1".to_vec()))]).await.unwrap());
        assert!(Catalog::open(store.clone()).await.is_ok(), "it belongs to no database");
        let own = |key: &str, value: &str| (key.as_bytes().to_vec(), Some(value.as_bytes().to_vec()));
        assert!(records.change(vec![own("dx\0", r#"{"default_policy":""}"#)]).await.unwrap());
        let Err(error) = Catalog::open(store).await else { panic!("its meaning is not known") };
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
}
