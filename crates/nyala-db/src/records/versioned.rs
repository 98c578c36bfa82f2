//! Records that several servers change without losing each other's changes.
//!
//! A table `(key Binary, version Int64) → (value Binary, place Int64)` of the store. A change of a record is the insertion
//! of the version after the one that its author has seen, which fails if somebody else was quicker: then nothing was
//! changed, and the author reads and decides again. The newest version counts; one without a value says that the record is
//! gone. Its place is its number in the order in which the records came to be, the same in all of its versions.
//!
//! In a store that others change too some old versions stay, and those without a value: who inserted the version after
//! one that is long gone would not be found out. They may be so far behind who holds a lease of some seconds. In a store of
//! one's own a record is its newest version, and gone without a trace.

use super::{Records, table_named};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, BinaryArray, Int64Array};
use nyala_core::store::{
    Alteration, Atomicity, CellColumn, DeleteMode, Freshness, Operation, RowSelection, ScanRequest, StoreRef,
    Upsert, WriteBatch, WriteMode,
};
use nyala_core::{ColumnId, ColumnSchema, ColumnType, Error, ErrorKind, Result, TableId, TableSchema, Value};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

// As in the tables of plain records, so that whoever knows only those reads something that is none of theirs.
const KEY: ColumnId = ColumnId(0);
const VALUE: ColumnId = ColumnId(1);
const VERSION: ColumnId = ColumnId(2);
const PLACE: ColumnId = ColumnId(3);

/// How often a change is decided anew because another server was quicker.
pub(crate) const TRIES: usize = 16;
/// Versions that stay in a shared store beside the newest.
const KEPT_VERSIONS: i64 = 64;
/// What a record becomes: its key, and its value or nothing.
pub(crate) type Change = (Vec<u8>, Option<Vec<u8>>);

/// A table of versioned records.
pub(crate) struct VersionedRecords {
    store: StoreRef,
    table: TableId,
    /// The newest versions, as this server has seen them.
    seen: Mutex<BTreeMap<Vec<u8>, Seen>>,
}

/// The newest version of a record that was seen.
#[derive(Clone)]
struct Seen {
    version: i64,
    place: i64,
    value: Option<Vec<u8>>,
}

/// A change on its way into the table.
struct Step {
    key: Vec<u8>,
    before: Option<Seen>,
    after: Option<Seen>,
}

impl VersionedRecords {
    /// Opens the table `name`, creating it if it does not exist. What a table of plain records of that name held is
    /// given to `upgrade`, which says what it is from now on, in the order in which it came to be.
    pub(crate) async fn open(
        store: StoreRef,
        name: &str,
        upgrade: impl FnOnce(Vec<(Vec<u8>, Vec<u8>)>) -> Result<Vec<(Vec<u8>, Vec<u8>)>>,
    ) -> Result<Self> {
        let old_name = Self::old_name(name);
        if let Some((plain, _)) = table_named(&store, name).filter(|(_, schema)| schema.key.len() == 1) {
            store.alter_table(plain, vec![Alteration::Rename(old_name.clone())]).await?;
        }
        let table = match table_named(&store, name) {
            Some((table, _)) => table,
            None => store.create_table(schema(name)).await?,
        };
        let records = Self { store: store.clone(), table, seen: Mutex::default() };
        // As long as the old table is there nothing but this was written to the new one.
        if let Some((old, _)) = table_named(&store, &old_name) {
            let mut plain = Vec::new();
            Records::open(store.clone(), &old_name)
                .await?
                .visit(b"", |key, value| plain.push((key.to_vec(), value.to_vec())))
                .await?;
            records.begin_with(upgrade(plain)?).await?;
            store.drop_table(old).await?;
        }
        Ok(records)
    }

    /// What a table of plain records is called until its records are in one of versions.
    pub(crate) fn old_name(name: &str) -> String {
        format!("{name}.old")
    }

    /// What stands in a table that is new, or may hold the same already.
    async fn begin_with(&self, records: Vec<(Vec<u8>, Vec<u8>)>) -> Result<()> {
        let first = |(place, (key, value)): (i64, (Vec<u8>, Vec<u8>))| Step {
            key,
            before: None,
            after: Some(Seen { version: 1, place, value: Some(value) }),
        };
        let steps: Vec<Step> = (0..).zip(records).map(first).collect();
        let operations = vec![self.put(steps.iter(), WriteMode::Upsert)];
        self.store.write(WriteBatch { operations }).await.map(drop)
    }

    /// All records there are, in the order in which they came to be.
    pub(crate) async fn read(&self) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut newest = BTreeMap::new();
        self.visit(RowSelection::All, |key, seen| drop(newest.insert(key.to_vec(), seen))).await?;
        let found = newest.iter().filter_map(|(key, seen)| Some((seen.place, (key, seen.value.as_ref()?))));
        let mut found: Vec<_> = found.collect();
        found.sort_by_key(|(place, _)| *place);
        let found = found.into_iter().map(|(_, (key, value))| (key.clone(), value.clone())).collect();
        *self.seen.lock() = newest;
        Ok(found)
    }

    /// The keys of the records, as far as they were seen, that begin with a prefix.
    pub(crate) fn keys_from(&self, prefix: &[u8]) -> Vec<Vec<u8>> {
        let seen = self.seen.lock();
        let from = seen.range(prefix.to_vec()..).take_while(|(key, _)| key.starts_with(prefix));
        from.filter(|(_, seen)| seen.value.is_some()).map(|(key, _)| key.clone()).collect()
    }

    /// A record as it is now.
    pub(crate) async fn find(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut newest = None;
        let bound = || Bound::Included(vec![Value::Binary(key.to_vec())]);
        self.visit(RowSelection::Keys { start: bound(), end: bound() }, |_, seen| newest = Some(seen))
            .await?;
        let Some(newest) = newest else { return Ok(None) };
        let value = newest.value.clone();
        // Whoever changes it meanwhile has seen more.
        let mut all = self.seen.lock();
        if all.get(key).is_none_or(|seen| seen.version <= newest.version) {
            all.insert(key.to_vec(), newest);
        }
        Ok(value)
    }

    /// Changes records, in this order where a store cannot do it at once; false if somebody else has changed one of
    /// them since they were read: they have to be read again then. What is so already is left alone.
    pub(crate) async fn change(&self, changes: Vec<Change>) -> Result<bool> {
        let capabilities = self.store.capabilities();
        let steps = self.steps(changes, capabilities.is_shared);
        let at_once = match capabilities.atomicity {
            Atomicity::Batch => steps.len().max(1),
            Atomicity::Row => 1,
        };
        for steps in steps.chunks(at_once) {
            let mut operations = vec![self.put(steps.iter(), WriteMode::Insert)];
            operations.extend(self.forget(steps, capabilities.is_shared));
            match self.store.write(WriteBatch { operations }).await {
                Ok(outcome) if outcome.conflicts.is_empty() => {}
                Ok(_) => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Conflict => return Ok(false),
                Err(error) => return Err(error),
            }
            let mut seen = self.seen.lock();
            for step in steps {
                match &step.after {
                    Some(after) => drop(seen.insert(step.key.clone(), after.clone())),
                    None => drop(seen.remove(&step.key)),
                }
            }
        }
        Ok(true)
    }

    /// What has to be done, the versions that are expected to be the newest with it.
    fn steps(&self, changes: Vec<Change>, is_shared: bool) -> Vec<Step> {
        let seen = self.seen.lock();
        let mut next_place = seen.values().map(|seen| seen.place + 1).max().unwrap_or(0);
        let mut steps = Vec::with_capacity(changes.len());
        for (key, value) in changes {
            let before = seen.get(&key).cloned();
            let known = before.as_ref().and_then(|before| before.value.as_ref());
            if known == value.as_ref() {
                continue;
            }
            let place = match known {
                Some(_) => before.as_ref().map_or(0, |before| before.place),
                None => {
                    next_place += 1;
                    next_place - 1
                }
            };
            let version = before.as_ref().map_or(1, |before| before.version + 1);
            let after = (is_shared || value.is_some()).then_some(Seen { version, place, value });
            steps.push(Step { key, before, after });
        }
        steps
    }

    /// The operation that writes what comes after some steps.
    fn put<'a>(&self, steps: impl Iterator<Item = &'a Step>, mode: WriteMode) -> Operation {
        let after: Vec<_> = steps.filter_map(|step| Some((step, step.after.as_ref()?))).collect();
        let cells = |column, values: ArrayRef| CellColumn { column, values, null_cells: None };
        let keys = BinaryArray::from_iter_values(after.iter().map(|(step, _)| step.key.as_slice()));
        let values: BinaryArray = after.iter().map(|(_, after)| after.value.as_deref()).collect();
        let versions = Int64Array::from_iter_values(after.iter().map(|(_, after)| after.version));
        let places = Int64Array::from_iter_values(after.iter().map(|(_, after)| after.place));
        let columns = vec![
            cells(KEY, Arc::new(keys)),
            cells(VALUE, Arc::new(values)),
            cells(VERSION, Arc::new(versions)),
            cells(PLACE, Arc::new(places)),
        ];
        Operation::Upsert(Upsert { table: self.table, mode, columns })
    }

    /// The operations that remove versions which nobody needs after some steps.
    fn forget(&self, steps: &[Step], is_shared: bool) -> Option<Operation> {
        // Where nobody else writes the newest version must be there to be removed; of others it does not matter.
        let (mode, behind) = match is_shared {
            true => (DeleteMode::Blind, KEPT_VERSIONS),
            false => (DeleteMode::Delete, 0),
        };
        let versions = steps.iter().filter_map(|step| {
            let version = step.before.as_ref()?.version - behind;
            (version > 0).then_some((step.key.as_slice(), version))
        });
        let (keys, versions): (Vec<&[u8]>, Vec<i64>) = versions.unzip();
        let keys: Vec<ArrayRef> =
            vec![Arc::new(BinaryArray::from(keys)), Arc::new(Int64Array::from(versions))];
        (!keys[0].is_empty()).then_some(Operation::DeleteKeys { table: self.table, mode, keys })
    }

    /// Calls `visit` with every version of some records, the newest of each last.
    async fn visit(&self, rows: RowSelection, mut visit: impl FnMut(&[u8], Seen)) -> Result<()> {
        let request = ScanRequest::by_key(self.table, rows, vec![KEY, VALUE, VERSION, PLACE]);
        let mut rows = self.store.snapshot(Freshness::Latest).await?.scan(request).await?;
        while let Some(batch) = rows.next().await? {
            let (keys, values) = (batch.columns[0].as_binary::<i32>(), batch.columns[1].as_binary::<i32>());
            let numbers = |column: usize| batch.columns[column].as_primitive::<Int64Type>().values();
            let (versions, places) = (numbers(2), numbers(3));
            for row in 0..batch.rows {
                let value = values.is_valid(row).then(|| values.value(row).to_vec());
                visit(keys.value(row), Seen { version: versions[row], place: places[row], value });
            }
        }
        Ok(())
    }
}

/// What to say where others change the same again and again.
pub(crate) fn always_changed(what: &str) -> Error {
    Error::new(ErrorKind::Retry, format!("{what} is being changed by other servers: try again"))
}

fn schema(name: &str) -> TableSchema {
    let columns = vec![
        ColumnSchema::new(KEY, "key", ColumnType::Binary).required(),
        ColumnSchema::new(VALUE, "value", ColumnType::Binary),
        ColumnSchema::new(VERSION, "version", ColumnType::Int64).required(),
        ColumnSchema::new(PLACE, "place", ColumnType::Int64).required(),
    ];
    TableSchema::keyed(name, columns, vec![KEY, VERSION])
}

#[cfg(test)]
mod tests {
    use super::*;
    use nyala_core::store::memory::MemoryStore;
    use nyala_core::store::{Capabilities, Store};

    fn store(is_shared: bool, atomicity: Atomicity) -> StoreRef {
        let own = MemoryStore::default().capabilities();
        let capabilities = Capabilities { is_shared, atomicity, ..own };
        Arc::new(MemoryStore::with_capabilities(capabilities))
    }

    async fn open(store: &StoreRef) -> VersionedRecords {
        let records = VersionedRecords::open(store.clone(), "t", Ok).await.unwrap();
        records.read().await.unwrap();
        records
    }

    fn set(key: &str, value: &str) -> Change {
        (key.into(), Some(value.into()))
    }

    async fn shown(records: &VersionedRecords) -> String {
        let all = records.read().await.unwrap().into_iter();
        all.map(|(key, value)| String::from_utf8([key, value].concat()).unwrap() + " ").collect()
    }

    #[tokio::test]
    async fn whoever_has_not_seen_the_newest_version_changes_nothing() {
        for (is_shared, atomicity) in
            [(false, Atomicity::Batch), (true, Atomicity::Batch), (true, Atomicity::Row)]
        {
            let store = store(is_shared, atomicity);
            let (first, second) = (open(&store).await, open(&store).await);
            assert!(first.change(vec![set("b", "1"), set("a", "1")]).await.unwrap());
            assert!(!second.change(vec![set("a", "2")]).await.unwrap(), "it has seen no a");
            assert_eq!(shown(&second).await, "b1 a1 ");
            assert!(second.change(vec![set("a", "2"), set("c", "1")]).await.unwrap());
            assert!(!first.change(vec![("a".into(), None), set("b", "3")]).await.unwrap(), "a is another");
            assert_eq!(shown(&first).await, "b1 a2 c1 ");
            assert!(first.change(vec![("a".into(), None)]).await.unwrap());
            assert!(!second.change(vec![set("a", "3")]).await.unwrap(), "it is gone");
            assert_eq!(shown(&second).await, "b1 c1 ");
            assert!(second.change(vec![set("a", "1")]).await.unwrap());
            assert_eq!(shown(&second).await, "b1 c1 a1 ", "a new one comes last");
            assert_eq!(first.find(b"a").await.unwrap().as_deref(), Some(&b"1"[..]));
            assert!(first.change(vec![set("a", "5")]).await.unwrap(), "it was seen by itself");
        }
    }

    #[tokio::test]
    async fn versions_do_not_gather() {
        for (is_shared, most) in [(false, 1), (true, KEPT_VERSIONS as usize + 1)] {
            let store = store(is_shared, Atomicity::Batch);
            let records = open(&store).await;
            for number in 0..200 {
                assert!(records.change(vec![set("a", &number.to_string())]).await.unwrap());
                assert!(records.change(vec![set("a", &number.to_string())]).await.unwrap(), "is so already");
            }
            let mut versions = 0;
            records.visit(RowSelection::All, |_, _| versions += 1).await.unwrap();
            assert_eq!(versions, most);
            assert_eq!(shown(&records).await, "a199 ");
            assert!(records.change(vec![("a".into(), None), ("b".into(), None)]).await.unwrap());
            let mut versions = 0;
            records.visit(RowSelection::All, |_, _| versions += 1).await.unwrap();
            assert_eq!(versions, if is_shared { most } else { 0 });
        }
    }

    #[tokio::test]
    async fn plain_records_become_versioned_ones_however_far_that_came_before() {
        for (step, rename) in [(0, false), (1, true), (2, true), (3, true)] {
            let store = store(false, Atomicity::Batch);
            let plain = Records::open(store.clone(), "t").await.unwrap();
            plain.write(vec![plain.put([(&b"b"[..], &b"1"[..]), (b"a", b"2")])]).await.unwrap();
            let upgrade = |mut all: Vec<(Vec<u8>, Vec<u8>)>| {
                all.reverse();
                Ok(all)
            };
            // What an upgrade leaves that broke off after its rename, the new table, and the records.
            if rename {
                let (table, _) = table_named(&store, "t").unwrap();
                let rename = Alteration::Rename("t.old".into());
                store.alter_table(table, vec![rename]).await.unwrap();
            }
            if step >= 2 {
                let table = store.create_table(schema("t")).await.unwrap();
                let broken_off = VersionedRecords { store: store.clone(), table, seen: Mutex::default() };
                if step == 3 {
                    let all = vec![(b"b".to_vec(), b"1".to_vec()), (b"a".to_vec(), b"2".to_vec())];
                    broken_off.begin_with(all).await.unwrap();
                }
            }
            for _ in 0..2 {
                let records = VersionedRecords::open(store.clone(), "t", upgrade).await.unwrap();
                assert_eq!(shown(&records).await, "b1 a2 ");
                assert!(table_named(&store, "t.old").is_none());
            }
        }
    }
}
