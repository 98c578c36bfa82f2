//! What a move takes besides rows: databases with their policies, continuous queries and subscriptions; users with their grants,
//! tokens and quotas; tables and views of SQL; aliases; and what belongs to the series of measurements.
//!
//! These are records in tables of the store. Some of them name tables by their ids, which are others in the target.

use super::columns::Columns;
use super::level::{Levelled, level};
use super::plan::MovedTable;
use super::tables;
use crate::catalog::{
    ALIASES, Catalog, DATABASES_TABLE, MovedRecords, NAMES_TABLE, SERIES_TABLE, name_key, record_range,
    split_name_key, tag_set_range,
};
use crate::records::{Records, record_schema, table_named};
use crate::relations::{Body, Definition, RELATIONS_TABLE, SequenceState, counters as counters_of, read_key};
use crate::users::USERS_TABLE;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, BinaryArray, Int64Array};
use async_trait::async_trait;
use nyala_core::store::{Batch, Freshness, RowStream, SnapshotRef, StoreRef};
use nyala_core::{Error, ErrorKind, Result, TableId, TableSchema, TimeRange};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The tables that are moved, by their ids in the source.
pub(super) type Ids = BTreeMap<TableId, TableId>;

/// Moves records of databases, users and relations, and aliases.
pub(super) async fn move_records(
    catalog: &Catalog,
    snapshot: &SnapshotRef,
    target: &StoreRef,
    ids: &Ids,
    skipped: &BTreeSet<(String, String)>,
) -> Result<()> {
    let as_it_is = |_: &[u8], value: &[u8]| Ok(Some(value.to_vec()));
    let counters = counters_of(catalog.store(), snapshot).await?;
    let relation = |key: &[u8], value: &[u8]| relation_in_target(key, value, ids, skipped, &counters);
    let versioned: [(&str, &ToTarget<'_>); 3] =
        [(DATABASES_TABLE, &as_it_is), (USERS_TABLE, &as_it_is), (RELATIONS_TABLE, &relation)];
    for (name, to_target) in versioned {
        move_versioned(catalog.store(), snapshot, target, name, to_target).await?;
    }
    move_aliases(catalog.store(), snapshot, target, ids).await
}

/// What becomes of a record; `None`: it stays behind.
type ToTarget<'a> = dyn Fn(&[u8], &[u8]) -> Result<Option<Vec<u8>>> + Sync + 'a;

/// A record of a relation names the table of its rows. Where a sequence is becomes where it begins.
fn relation_in_target(
    key: &[u8],
    value: &[u8],
    ids: &Ids,
    skipped: &BTreeSet<(String, String)>,
    counters: &BTreeMap<u64, SequenceState>,
) -> Result<Option<Vec<u8>>> {
    let (database, name) = read_key(key)?;
    let shown = format!("{database}.{name}");
    if skipped.contains(&(database, name)) {
        return Ok(None);
    }
    let mut definition: Definition = serde_json::from_slice(value)
        .map_err(|error| Error::unsupported(format!("the record of {shown}: {error}")))?;
    if let Body::Table(table) = &mut definition.body {
        let moved = table.stores().map(|id| ids.get(&id).copied().ok_or(()));
        let moved: Vec<TableId> = moved.collect::<std::result::Result<_, ()>>().map_err(|()| {
            Error::new(ErrorKind::Corrupt, format!("the rows of {shown} are missing: its table is not there"))
        })?;
        *table = table.with_stores(&moved);
    }
    if let Body::Sequence(sequence) = &mut definition.body
        && let Some(state) = counters.get(&sequence.id)
    {
        sequence.beginning = *state;
    }
    Ok(Some(serde_json::to_vec(&definition).expect("definitions are plain data")))
}

/// A version of a record.
struct Version {
    version: i64,
    value: Option<Vec<u8>>,
    place: i64,
}

/// Moves the newest versions of records, without those of removed ones.
async fn move_versioned(
    store: &StoreRef,
    snapshot: &SnapshotRef,
    target: &StoreRef,
    name: &str,
    to_target: &ToTarget<'_>,
) -> Result<()> {
    let Some((source, schema)) = table_named(store, name) else { return Ok(()) };
    let columns = Columns::of(&schema);
    let mut newest: BTreeMap<Vec<u8>, Version> = BTreeMap::new();
    let mut rows = snapshot.scan(columns.request(source, TimeRange::ALL)).await?;
    while let Some(batch) = rows.next().await? {
        // Key and version are the key of the table; value and place follow.
        let bytes = |place: usize| batch.columns[place].as_binary::<i32>();
        let numbers = |place: usize| batch.columns[place].as_primitive::<Int64Type>();
        let (keys, versions, values, places) = (bytes(0), numbers(1), bytes(2), numbers(3));
        for row in 0..batch.rows {
            let value = values.is_valid(row).then(|| values.value(row).to_vec());
            let version = Version { version: versions.value(row), value, place: places.value(row) };
            // Versions ascend.
            newest.insert(keys.value(row).to_vec(), version);
        }
    }
    let mut kept: Vec<(Vec<u8>, Version)> = Vec::with_capacity(newest.len());
    for (key, version) in newest {
        if let Some(value) = &version.value
            && let Some(value) = to_target(&key, value)?
        {
            kept.push((key, Version { value: Some(value), ..version }));
        }
    }
    let batch = (!kept.is_empty()).then(|| {
        let numbers = |number: fn(&Version) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(kept.iter().map(|(_, own)| number(own))))
        };
        let keys: ArrayRef = Arc::new(BinaryArray::from_iter_values(kept.iter().map(|(key, _)| key)));
        let values: BinaryArray = kept.iter().map(|(_, own)| own.value.as_deref()).collect();
        let columns = vec![keys, numbers(|own| own.version), Arc::new(values), numbers(|own| own.place)];
        Batch { rows: kept.len(), series: Vec::new(), columns }
    });
    put(target, &schema, Box::new(Once(batch))).await.map(drop)
}

/// Makes the rows of a table of records those of a stream.
async fn put(target: &StoreRef, schema: &TableSchema, new: Box<dyn RowStream>) -> Result<Levelled> {
    let columns = Columns::of(schema);
    let (table, _) = tables::open(target, schema).await?;
    let snapshot = target.snapshot(Freshness::Latest).await?;
    let old = snapshot.scan(columns.request(table, TimeRange::ALL)).await?;
    level(&columns, new, old, (target, table), &mut |_| ()).await
}

async fn move_aliases(store: &StoreRef, snapshot: &SnapshotRef, target: &StoreRef, ids: &Ids) -> Result<()> {
    if table_named(store, NAMES_TABLE).is_none() {
        return Ok(());
    }
    let records = Records::open(store.clone(), NAMES_TABLE).await?;
    let mut rows = records.scan_in(snapshot, ALIASES, ALIASES).await?;
    let mut aliases: BTreeSet<Vec<u8>> = BTreeSet::new();
    while let Some(batch) = rows.next().await? {
        let keys = batch.columns[0].as_binary::<i32>();
        let in_target = |key: &[u8]| {
            let (table, alias) = split_name_key(key)?;
            Some(name_key(ALIASES[0], *ids.get(&table)?, alias))
        };
        aliases.extend((0..batch.rows).filter_map(|row| in_target(keys.value(row))));
    }
    let batch = (!aliases.is_empty()).then(|| {
        let keys: ArrayRef = Arc::new(BinaryArray::from_iter_values(&aliases));
        let values: ArrayRef = Arc::new(BinaryArray::from_iter_values(aliases.iter().map(|_| b"")));
        Batch { rows: aliases.len(), series: Vec::new(), columns: vec![keys, values] }
    });
    put(target, &record_schema(NAMES_TABLE), Box::new(Once(batch))).await.map(drop)
}

/// Moves what belongs to the series of a measurement, whose table in the target is `to`. Returns the number of records.
pub(super) async fn move_series(
    catalog: &Catalog,
    snapshot: &SnapshotRef,
    target: &StoreRef,
    table: &MovedTable,
    to: TableId,
) -> Result<u64> {
    let Some((database, policy)) = &table.place else { return Ok(0) };
    let known = catalog.known_tables(database, policy);
    let Some(own) = known.iter().find(|own| own.table() == table.source) else { return Ok(0) };
    let ranges = |partitions: Vec<nyala_core::store::PartitionInfo>| -> Vec<TimeRange> {
        partitions.into_iter().map(|partition| partition.range).collect()
    };
    let (from_ranges, to_ranges) =
        (ranges(catalog.store().partitions(table.source).await?), ranges(target.partitions(to).await?));
    let schema = target.schema(to)?;
    let shards_of = |start_ns: i64| -> Vec<i64> {
        let range = from_ranges.iter().find(|range| range.start_ns == start_ns);
        let range = range.copied().unwrap_or_else(|| schema.partition_of(start_ns));
        let found: Vec<i64> =
            to_ranges.iter().filter(|other| other.overlaps(range)).map(|other| other.start_ns).collect();
        // Where there are no rows, there is no shard yet.
        if found.is_empty() { vec![schema.partition_of(start_ns).start_ns] } else { found }
    };
    let is_shared = target.capabilities().is_shared;
    let moved = MovedRecords::of(own, snapshot, to, &shards_of, is_shared).await?;
    let records = Records::open(target.clone(), SERIES_TABLE).await?;
    let columns = Columns::of(&record_schema(SERIES_TABLE));
    let there = target.snapshot(Freshness::Latest).await?;
    let place = (target, records.table());
    let (new, tag_sets) = moved.streams();
    let (first, last) = record_range(to);
    let old = records.scan_in(&there, &first, &last).await?;
    let levelled = level(&columns, new, old, place, &mut |_| ()).await?;
    let range = tag_set_range(to);
    let old = records.scan_in(&there, &range, &range).await?;
    level(&columns, tag_sets.records(), old, place, &mut |_| ()).await?;
    Ok(levelled.rows)
}

/// One batch, or none.
struct Once(Option<Batch>);

#[async_trait]
impl RowStream for Once {
    async fn next(&mut self) -> Result<Option<Batch>> {
        Ok(self.0.take())
    }
}
