//! Relations: the tables, views and sequences that users of SQL declare in a database.
//!
//! A relation has a record under (database, zero byte, name), which is JSON ([`Definition`]). The record decides what there
//! is: a table of the store that no record names is not shown, and is dropped at the next start. So a table appears and
//! disappears with one change of one record, whatever else has to be done before and after. Several servers of a store
//! change records without losing each other's changes ([`VersionedRecords`]).
//!
//! Next: [`definition`], what a relation is.

mod change;
pub mod definition;
mod dropped;
mod ids;
mod index;
mod names;
mod published;
mod row_ids;
mod sequences;
mod uncommitted;

pub use change::RelationChange;
pub(crate) use change::existing;
pub use definition::{
    Body, Check, ColumnDefinition, DeclaredType, Definition, DroppedColumn, Identity, Key, OnCommit,
    OwnedSequence, Relation, SequenceDefinition, SequenceState, TableDefinition, ViewDefinition,
};
pub use index::Index;
pub(crate) use sequences::counters;
pub use sequences::{Exhausted, Sequences};
pub use uncommitted::{SeenRelations, TEMPORARY, UncommittedRelations};

use crate::records::VersionedRecords;
use nyala_core::store::StoreRef;
use nyala_core::{Error, ErrorKind, Result, TableId, TableSchema};
use parking_lot::RwLock;
use published::Published;
use row_ids::RowIds;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The table of their records.
pub(crate) const RELATIONS_TABLE: &str = "nyala.relations";
/// What names of tables of the store begin with that hold rows of relations. No measurement's does: names of databases
/// contain no slash.
const TABLE_PREFIX: &str = "relation/";
/// Separates the parts of the key of a record.
const SEPARATOR: char = '\u{0}';
/// The longest name of a relation or a column, bytes, as in PostgreSQL.
pub const NAME_MAX_BYTES: usize = 63;

/// Whether a table of the store holds rows of a relation.
pub fn is_of_relation(schema: &TableSchema) -> bool {
    schema.name.starts_with(TABLE_PREFIX)
}

/// All relations.
pub struct Relations {
    store: StoreRef,
    /// `None` if they cannot be read.
    records: Option<VersionedRecords>,
    /// Why they cannot be read.
    damage: Option<String>,
    state: RwLock<State>,
    published: RwLock<Published>,
    /// Grows with every change.
    version: AtomicU64,
    row_ids: RowIds,
    sequences: Sequences,
    /// Locked while records are changed or read, so that what is known here never falls back.
    changing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    /// By database and name.
    relations: BTreeMap<(String, String), Arc<Relation>>,
}

impl Relations {
    /// Reads the relations of a store. If their records are damaged, everything else of the server works.
    pub(crate) async fn open(store: StoreRef) -> Result<Self> {
        let mut relations = Self {
            store: store.clone(),
            records: None,
            damage: None,
            state: RwLock::default(),
            published: RwLock::default(),
            version: AtomicU64::new(1),
            row_ids: RowIds::default(),
            sequences: Sequences::new(store.clone()),
            changing: tokio::sync::Mutex::default(),
        };
        match relations.read_all().await {
            Ok(records) => relations.records = Some(records),
            Err(error) if error.kind() == ErrorKind::Corrupt => relations.damage = Some(error.to_string()),
            // A store of the past, in which there were none yet.
            Err(error) if error.kind() == ErrorKind::Unsupported && !relations.has_records() => {}
            Err(error) => return Err(error),
        }
        relations.note_all_published().await?;
        if relations.damage.is_none() && !store.capabilities().is_shared {
            relations.drop_orphans().await?;
            relations.drop_orphan_columns().await?;
            relations.drop_orphan_counters().await?;
        }
        Ok(relations)
    }

    fn has_records(&self) -> bool {
        self.store.tables().iter().any(|(_, schema)| schema.name == RELATIONS_TABLE)
    }

    async fn read_all(&self) -> Result<VersionedRecords> {
        let records = VersionedRecords::open(self.store.clone(), RELATIONS_TABLE, Ok).await?;
        self.learn(&records.read().await?)?;
        Ok(records)
    }

    /// Drops tables that were created for relations that do not exist: a server stopped half-way.
    async fn drop_orphans(&self) -> Result<()> {
        let all = self.all();
        let known: HashSet<TableId> =
            all.iter().filter_map(|own| own.table()).flat_map(|table| table.stores()).collect();
        let tables = self.store.tables().into_iter();
        let orphans = tables
            .filter(|(table, schema)| is_of_relation(schema) && !known.contains(table))
            .map(|(table, _)| table);
        match self.store.drop_tables(orphans.collect()).await {
            // A store of the past cannot be changed.
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
            dropped => dropped,
        }
    }

    /// Forgets the counters of sequences that were dropped or restarted.
    async fn drop_orphan_counters(&self) -> Result<()> {
        let known = self.all().iter().filter_map(|own| Some(own.sequence()?.id)).collect();
        match self.sequences.forget_others(&known).await {
            // A store of the past cannot be changed.
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
            forgotten => forgotten,
        }
    }

    /// The numbers of sequences.
    pub fn sequences(&self) -> &Sequences {
        &self.sequences
    }

    /// Gives back the numbers that were reserved and not given: the server is about to stop.
    pub async fn give_numbers_back(&self) -> Result<()> {
        let all = self.all();
        self.sequences.give_back(all.iter().filter_map(|own| own.sequence())).await
    }

    /// Why they cannot be read, if they cannot.
    pub fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// A number that grows whenever a relation changes.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// A relation by name.
    pub fn find(&self, database: &str, name: &str) -> Option<Arc<Relation>> {
        self.state.read().relations.get(&(database.to_owned(), name.to_owned())).cloned()
    }

    /// The relations of a database in order of name.
    pub fn of(&self, database: &str) -> Vec<Arc<Relation>> {
        let from = (database.to_owned(), String::new());
        let state = self.state.read();
        let own = state.relations.range(from..).take_while(|((known, _), _)| known == database);
        own.map(|(_, relation)| relation.clone()).collect()
    }

    /// The databases that have relations.
    pub(crate) fn databases(&self) -> Vec<String> {
        let mut all: Vec<String> = self.all().iter().map(|relation| relation.database.clone()).collect();
        all.dedup();
        all
    }

    /// Whether a relation or an index of a database has a name.
    pub(crate) fn has_name(&self, database: &str, name: &str) -> bool {
        self.of(database).iter().any(|own| own.has_name(name))
    }

    /// All of them, by database and name.
    pub(crate) fn all(&self) -> Vec<Arc<Relation>> {
        self.state.read().relations.values().cloned().collect()
    }

    /// Numbers for new rows of tables whose key is hidden: the first of `count` consecutive ones. They grow with time.
    /// Two servers of a store may give the same; who inserts a row under a number that is taken asks for another.
    pub fn row_ids(&self, now_ns: i64, count: usize) -> i64 {
        self.row_ids.take(now_ns, count)
    }

    /// Reads everything again, because another server has changed something.
    pub(crate) async fn read_again(&self) -> Result<()> {
        let Some(records) = &self.records else { return Ok(()) };
        let _changing = self.changing.lock().await;
        self.learn(&records.read().await?)
    }

    /// Replaces what is known by what records say, which are in order of creation.
    fn learn(&self, records: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        let mut state = self.state.write();
        let mut relations = BTreeMap::new();
        for ((key, value), created) in records.iter().zip(0..) {
            let (database, name) = read_key(key)?;
            let definition: Definition =
                serde_json::from_slice(value).map_err(|error| unknown_form(key, &error.to_string()))?;
            let place = (database.clone(), name.clone());
            let known = state.relations.get(&place).filter(|known| known.definition == definition);
            let lock = state.relations.get(&place).map_or_else(Arc::default, |known| known.lock.clone());
            let relation = match known {
                Some(known) if known.created == created => known.clone(),
                _ => Arc::new(Relation { database, name, created, definition, lock }),
            };
            relations.insert(place, relation);
        }
        state.relations = relations;
        self.version.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    fn records(&self) -> Result<&VersionedRecords> {
        let words = || self.damage.clone().unwrap_or_default();
        self.records.as_ref().ok_or_else(|| Error::new(ErrorKind::Corrupt, words()))
    }
}

fn key_of(database: &str, name: &str) -> Vec<u8> {
    format!("{database}{SEPARATOR}{name}").into_bytes()
}

pub(crate) fn read_key(key: &[u8]) -> Result<(String, String)> {
    let text = std::str::from_utf8(key).map_err(|_| unknown_form(key, "its key"))?;
    let (database, name) = text.split_once(SEPARATOR).ok_or_else(|| unknown_form(key, "its key"))?;
    Ok((database.to_owned(), name.to_owned()))
}

/// This is not damage, which checksums would have reported.
fn unknown_form(key: &[u8], words: &str) -> Error {
    let key = String::from_utf8_lossy(key);
    Error::unsupported(format!("relation record {key:?} has no form that this version knows: {words}"))
}
