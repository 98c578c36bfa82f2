//! Records that several servers change without losing each other's changes.
//!
//! A table `(key Binary, version Int64) → (value Binary, place Int64)` of the store. To change a record, a server
//! inserts the version after the newest one that it has seen. If another server was faster, the insertion fails,
//! nothing is changed, and the server reads the records and decides again. The newest version is the record; a version
//! without a value means that the record was removed. The place is the record's number in the order of creation, and is
//! the same in all its versions.
//!
//! In a shared store some old versions are kept, and so are versions without a value. Otherwise a server that inserts
//! the version after one that was removed long ago would not be noticed; a server may be some seconds behind. In a store with one server only the newest version is kept, and a removed record leaves nothing.

use super::{Records, open_or_create, table_named};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, BinaryArray, Int64Array};
use nyala_core::store::{
    Alteration, Atomicity, CellColumn, DeleteMode, Freshness, Operation, RowSelection, ScanRequest, Stage,
    StoreRef, Upsert, WriteBatch, WriteMode,
};
use nyala_core::{ColumnId, ColumnSchema, ColumnType, Error, ErrorKind, Result, TableId, TableSchema, Value};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

// The same ids as in tables of plain records, so that old versions of nyala can read these tables and find nothing that
// is theirs.
const KEY: ColumnId = ColumnId(0);
const VALUE: ColumnId = ColumnId(1);
const VERSION: ColumnId = ColumnId(2);
const PLACE: ColumnId = ColumnId(3);

/// How often a change is decided again because another server was faster.
const TRIES: usize = 16;
/// How many versions besides the newest are kept in a shared store.
const KEPT_VERSIONS: i64 = 64;
/// A change of a record: its key, and its new value or `None` to remove it.
pub(crate) type Change = (Vec<u8>, Option<Vec<u8>>);

/// A table of versioned records.
pub(crate) struct VersionedRecords {
    store: StoreRef,
    table: TableId,
    /// The newest versions that this server has seen.
    seen: Mutex<BTreeMap<Vec<u8>, Seen>>,
}

/// The newest version seen of a record.
#[derive(Clone)]
struct Seen {
    version: i64,
    place: i64,
    value: Option<Vec<u8>>,
}

/// A change that is being written.
struct Step {
    key: Vec<u8>,
    before: Option<Seen>,
    after: Option<Seen>,
}

impl VersionedRecords {
    /// Opens the table `name`, creating it if it does not exist. If a table of plain records has that name, its records
    /// are given to `upgrade`, which returns the new records in the order of creation.
    pub(crate) async fn open(
        store: StoreRef,
        name: &str,
        upgrade: impl FnOnce(Vec<(Vec<u8>, Vec<u8>)>) -> Result<Vec<(Vec<u8>, Vec<u8>)>>,
    ) -> Result<Self> {
        let old_name = Self::old_name(name);
        if let Some((plain, _)) = table_named(&store, name).filter(|(_, schema)| Self::is_plain(schema)) {
            store.alter_table(plain, vec![Alteration::Rename(old_name.clone())]).await?;
        }
        let table = open_or_create(&store, schema(name)).await?;
        let records = Self { store: store.clone(), table, seen: Mutex::default() };
        // While the old table exists, nothing but the upgraded records was written to the new one.
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

    /// Whether a table is one of plain records: their key is all that they have beside the value.
    pub(crate) fn is_plain(schema: &TableSchema) -> bool {
        schema.key.len() == 1
    }

    /// The name of a table of plain records until its records have been upgraded.
    pub(crate) fn old_name(name: &str) -> String {
        format!("{name}.old")
    }

    /// Writes the first versions into a table that is new, or that already holds the same because an upgrade was
    /// interrupted.
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

    /// All records, in the order of creation.
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

    /// The keys, among the records seen, that start with a prefix.
    pub(crate) fn keys_from(&self, prefix: &[u8]) -> Vec<Vec<u8>> {
        let seen = self.seen.lock();
        let from = seen.range(prefix.to_vec()..).take_while(|(key, _)| key.starts_with(prefix));
        from.filter(|(_, seen)| seen.value.is_some()).map(|(key, _)| key.clone()).collect()
    }

    /// The current value of a record.
    pub(crate) async fn find(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut newest = None;
        let bound = || Bound::Included(vec![Value::Binary(key.to_vec())]);
        self.visit(RowSelection::Keys { start: bound(), end: bound() }, |_, seen| newest = Some(seen))
            .await?;
        let Some(newest) = newest else { return Ok(None) };
        let value = newest.value.clone();
        // A concurrent change may have seen a newer version.
        let mut all = self.seen.lock();
        if all.get(key).is_none_or(|seen| seen.version <= newest.version) {
            all.insert(key.to_vec(), newest);
        }
        Ok(value)
    }

    /// Changes records; in this order if the store cannot do it atomically. Returns false if another server has changed
    /// one of them since they were read: the caller then has to read them again. Records that already have the new
    /// value are left alone.
    pub(crate) async fn change(&self, changes: Vec<Change>) -> Result<bool> {
        let capabilities = self.store.capabilities();
        let steps = self.steps(changes, capabilities.is_shared);
        let at_once = match capabilities.atomicity {
            Atomicity::Batch => steps.len().max(1),
            Atomicity::Row => 1,
        };
        for steps in steps.chunks(at_once) {
            let batch = self.batch_of(steps, capabilities.is_shared);
            match self.store.write(batch).await {
                Ok(outcome) if outcome.conflicts.is_empty() => {}
                Ok(_) => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Conflict => return Ok(false),
                Err(error) => return Err(error),
            }
            self.note(steps);
        }
        Ok(true)
    }

    /// Changes records together with what is staged, of a store that one server has.
    ///
    /// # Errors
    /// Conflict if somebody else was first to change one of them, or a row of the stage.
    pub(crate) async fn change_with(&self, changes: Vec<Change>, mut stage: Box<dyn Stage>) -> Result<()> {
        let steps = self.steps(changes, false);
        if !steps.is_empty() {
            let outcome = stage.write(self.batch_of(&steps, false)).await?;
            if !outcome.conflicts.is_empty() {
                return Err(Error::conflict("a record was changed meanwhile"));
            }
        }
        stage.commit().await?;
        self.note(&steps);
        Ok(())
    }

    fn batch_of(&self, steps: &[Step], is_shared: bool) -> WriteBatch {
        let mut operations = vec![self.put(steps.iter(), WriteMode::Insert)];
        operations.extend(self.forget(steps, is_shared));
        WriteBatch { operations }
    }

    /// Notes what was written.
    fn note(&self, steps: &[Step]) {
        let mut seen = self.seen.lock();
        for step in steps {
            match &step.after {
                Some(after) => drop(seen.insert(step.key.clone(), after.clone())),
                None => drop(seen.remove(&step.key)),
            }
        }
    }

    /// Makes the change that `decide` returns. If another server was faster, gives the current records to `learn` and
    /// calls `decide` again. Returns the value that `decide` returned beside the change, or `None` if it returned no
    /// change. `what` names the changed thing in errors.
    pub(crate) async fn change_by<T>(
        &self,
        what: &str,
        decide: impl Fn() -> Result<Option<(Vec<Change>, T)>>,
        learn: impl Fn(&[(Vec<u8>, Vec<u8>)]) -> Result<()>,
    ) -> Result<Option<T>> {
        for _ in 0..TRIES {
            let Some((changes, decided)) = decide()? else { return Ok(None) };
            if self.change(changes).await? {
                return Ok(Some(decided));
            }
            learn(&self.read().await?)?;
        }
        let words = format!("{what} is being changed by other servers: try again");
        Err(Error::new(ErrorKind::Retry, words))
    }

    /// The steps that make the changes, each with the version that is expected to be the newest.
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

    /// The operation that writes the new versions of some steps.
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

    /// The operation that removes versions which are no longer needed after some steps.
    fn forget(&self, steps: &[Step], is_shared: bool) -> Option<Operation> {
        // With one server the newest version must exist to be removed, which detects conflicts. Old versions in a
        // shared store may be missing.
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
    async fn a_change_of_an_outdated_version_fails() {
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
    async fn versions_do_not_accumulate() {
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
    async fn plain_records_are_upgraded_even_if_an_upgrade_was_interrupted() {
        for (step, rename) in [(0, false), (1, true), (2, true), (3, true)] {
            let store = store(false, Atomicity::Batch);
            let plain = Records::open(store.clone(), "t").await.unwrap();
            plain.write(vec![plain.put([(&b"b"[..], &b"1"[..]), (b"a", b"2")])]).await.unwrap();
            let upgrade = |mut all: Vec<(Vec<u8>, Vec<u8>)>| {
                all.reverse();
                Ok(all)
            };
            // The state after an upgrade that was interrupted: after its rename, with the new table, with the records.
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
