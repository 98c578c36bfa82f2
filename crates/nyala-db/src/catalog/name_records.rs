//! The records of names of measurements that have a table of their own: their aliases, and names that they had before.
//!
//! The store knows a table by the name that its measurement has now. What it had before is noted as long as the past can be
//! read, so that the past shows it. The records are in a table of the store that is made when the first name is changed.
//!
//! Records: a kind byte, the table u32 big-endian, then
//!   alias:     the alias → nothing. If it is the name of the measurement, it means nothing
//!   past name: sequence u64 big-endian → the name that the measurement had up to this sequence

use super::Catalog;
use crate::records::{Records, table_named};
use nyala_core::store::past::PastStore;
use nyala_core::store::{Freshness, Operation, StoreRef};
use nyala_core::{Error, ErrorKind, Result, Sequence, TableId};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

pub(crate) const NAMES_TABLE: &str = "nyala.names";
const ALIAS: u8 = b'a';
/// What the keys of aliases begin with.
pub(crate) const ALIASES: &[u8] = &[ALIAS];
const PAST_NAME: u8 = b'n';

pub(crate) fn name_key(kind: u8, table: TableId, rest: &[u8]) -> Vec<u8> {
    [&[kind][..], &table.0.to_be_bytes(), rest].concat()
}

pub(crate) fn split_name_key(key: &[u8]) -> Option<(TableId, &[u8])> {
    let (table, rest) = key.get(1..)?.split_first_chunk()?;
    Some((TableId(u32::from_be_bytes(*table)), rest))
}

/// Calls `take` with the table, the rest of the key and the value of each record of a kind. It returns `None` for one that is
/// malformed.
async fn visit(
    store: &StoreRef,
    kind: u8,
    mut take: impl FnMut(TableId, &[u8], &[u8]) -> Option<()>,
) -> Result<()> {
    if table_named(store, NAMES_TABLE).is_none() {
        return Ok(());
    }
    let mut broken = false;
    let take = |key: &[u8], value: &[u8]| {
        let taken = split_name_key(key).and_then(|(table, rest)| take(table, rest, value));
        broken |= taken.is_none();
    };
    Records::open(store.clone(), NAMES_TABLE).await?.visit(&[kind], take).await?;
    match broken {
        true => Err(Error::new(ErrorKind::Corrupt, "a record of names of measurements is malformed")),
        false => Ok(()),
    }
}

/// The aliases of all tables.
pub(super) async fn aliases(store: &StoreRef) -> Result<BTreeMap<TableId, Vec<String>>> {
    let mut found: BTreeMap<TableId, Vec<String>> = BTreeMap::new();
    let take = |table, alias: &[u8], _: &[u8]| {
        found.entry(table).or_default().push(String::from_utf8(alias.to_vec()).ok()?);
        Some(())
    };
    visit(store, ALIAS, take).await?;
    Ok(found)
}

/// The names that measurements had at a sequence, as parts of names of tables, where they have others now.
async fn names_at(store: &StoreRef, sequence: Sequence) -> Result<HashMap<TableId, String>> {
    let mut found = HashMap::new();
    let take = |table, until: &[u8], name: &[u8]| {
        let until = Sequence(u64::from_be_bytes(until.try_into().ok()?));
        let name = String::from_utf8(name.to_vec()).ok()?;
        if sequence <= until {
            // Records come in order: the first one is right.
            found.entry(table).or_insert(name);
        }
        Some(())
    };
    visit(store, PAST_NAME, take).await?;
    Ok(found)
}

/// Changes of names that are written together.
pub(super) struct NameChanges {
    records: Records,
    operations: Vec<Operation>,
}

impl NameChanges {
    pub(super) async fn new(store: &StoreRef) -> Result<Self> {
        Ok(Self { records: Records::open(store.clone(), NAMES_TABLE).await?, operations: Vec::new() })
    }

    pub(super) fn add_alias(&mut self, table: TableId, alias: &str) {
        let key = name_key(ALIAS, table, alias.as_bytes());
        self.operations.push(self.records.put([(&*key, &b""[..])]));
    }

    pub(super) fn remove_alias(&mut self, table: TableId, alias: &str) {
        let key = name_key(ALIAS, table, alias.as_bytes());
        self.operations.push(self.records.remove([&*key]));
    }

    /// Notes the name that a table of the store has up to a sequence. `begin`: the first sequence of which the past is known.
    pub(super) async fn note_past_name(
        &mut self,
        (table, name): (TableId, &str),
        until: Sequence,
        begin: Sequence,
    ) -> Result<()> {
        let mut forgotten = Vec::new();
        let old = |key: &[u8], _: &[u8]| {
            let sequence = split_name_key(key).and_then(|(_, rest)| rest.try_into().ok());
            if sequence.is_some_and(|sequence| Sequence(u64::from_be_bytes(sequence)) < begin) {
                forgotten.push(key.to_vec());
            }
        };
        self.records.visit(&name_key(PAST_NAME, table, &[]), old).await?;
        self.operations.push(self.records.remove(forgotten.iter().map(Vec::as_slice)));
        let key = name_key(PAST_NAME, table, &until.0.to_be_bytes());
        self.operations.push(self.records.put([(&*key, name.as_bytes())]));
        Ok(())
    }

    pub(super) async fn write(self) -> Result<()> {
        match self.operations.is_empty() {
            true => Ok(()),
            false => self.records.write(self.operations).await,
        }
    }
}

impl Catalog {
    /// The databases as they were at a moment of the past, ns. Nothing of them can be changed.
    ///
    /// # Errors
    /// Missing if the moment is no longer known.
    pub async fn at(&self, moment_ns: i64) -> Result<Catalog> {
        let past = self.store.snapshot(Freshness::Past(moment_ns)).await?;
        let names = names_at(&self.store, past.sequence()).await?;
        let store = PastStore::of(self.store.clone(), past).with_names(names);
        Catalog::open(Arc::new(store)).await
    }
}
