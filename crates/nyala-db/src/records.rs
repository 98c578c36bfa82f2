//! Small durable records under byte keys: a table `(key Binary) → value Binary` of the store. The last writer of a
//! record wins. Records that several servers change have versions (`versioned`).

mod change_log;
mod doubted_series;
mod versioned;

pub(crate) use change_log::{
    Applied, ChangeLog, Doubts, Entry, Follower, News, Recent, SeriesChange, read_arbitrary,
};
pub(crate) use doubted_series::DoubtedSeries;
pub(crate) use versioned::{Change, VersionedRecords};

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, BinaryArray};
use nyala_core::store::{
    CellColumn, DeleteMode, Freshness, Operation, RowSelection, RowStream, ScanRequest, SnapshotRef,
    StoreRef, Upsert, WriteBatch, WriteMode,
};
use nyala_core::{
    ColumnId, ColumnSchema, ColumnType, ErrorKind, Result, Sequence, TableId, TableSchema, Value,
};
use std::ops::Bound;
use std::sync::Arc;

const KEY: ColumnId = ColumnId(0);
const VALUE: ColumnId = ColumnId(1);
/// Records removed per batch. Other writers wait some milliseconds while such a batch is applied.
const REMOVED_AT_ONCE: usize = 1 << 13;

/// A table of records.
#[derive(Clone)]
pub struct Records {
    store: StoreRef,
    table: TableId,
}

impl Records {
    /// Opens the table `name`, creating it if it does not exist.
    pub async fn open(store: StoreRef, name: &str) -> Result<Self> {
        let table = open_or_create(&store, record_schema(name)).await?;
        Ok(Self { store, table })
    }

    /// The same records as another view of the store has them.
    #[must_use]
    pub(crate) fn over(&self, store: StoreRef) -> Self {
        Self { store, table: self.table }
    }

    /// The operation that writes records, for a batch of the caller.
    pub fn put<'a>(&self, records: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Operation {
        let (keys, values): (Vec<_>, Vec<_>) = records.into_iter().unzip();
        let cells = |column, values: Vec<&[u8]>| CellColumn {
            column,
            values: Arc::new(BinaryArray::from(values)) as ArrayRef,
            null_cells: None,
        };
        let columns = vec![cells(KEY, keys), cells(VALUE, values)];
        Operation::Upsert(Upsert { table: self.table, mode: WriteMode::Upsert, columns })
    }

    /// The operation that removes records, for a batch of the caller.
    pub fn remove<'a>(&self, keys: impl IntoIterator<Item = &'a [u8]>) -> Operation {
        let keys: ArrayRef = Arc::new(BinaryArray::from_iter_values(keys));
        Operation::DeleteKeys { table: self.table, mode: DeleteMode::Blind, keys: vec![keys] }
    }

    /// Writes a batch with operations of this and other tables.
    pub async fn write(&self, operations: Vec<Operation>) -> Result<()> {
        self.store.write(WriteBatch { operations }).await.map(drop)
    }

    /// Writes records under keys that have none. Returns the positions of those whose key had one.
    pub async fn insert<'a>(
        &self,
        records: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<Vec<usize>> {
        let mut operation = self.put(records);
        if let Operation::Upsert(upsert) = &mut operation {
            upsert.mode = WriteMode::InsertIgnore;
        }
        let outcome = self.store.write(WriteBatch { operations: vec![operation] }).await?;
        Ok(outcome.conflicts.iter().map(|place| place.row).collect())
    }

    /// Calls `visit` with every record whose key starts with `prefix`, in key order.
    pub async fn visit(&self, prefix: &[u8], visit: impl FnMut(&[u8], &[u8])) -> Result<()> {
        self.visit_between(prefix, prefix, visit).await
    }

    /// The same for all keys from the first that starts with `first` to the last that starts with `last`.
    pub async fn visit_between(
        &self,
        first: &[u8],
        last: &[u8],
        visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        self.visit_keys((Bound::Included(first.to_vec()), end_of(last)), None, visit).await.map(drop)
    }

    /// Calls `visit` with the first records whose keys do not come before `key`, at most `limit`, in key order. Returns the
    /// sequence of the snapshot that was read.
    pub async fn visit_first(
        &self,
        key: &[u8],
        limit: usize,
        visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Sequence> {
        self.visit_keys((Bound::Included(key.to_vec()), Bound::Unbounded), Some(limit), visit).await
    }

    /// Removes the records of all keys from the first that starts with `first` to the last that starts with `last`. It
    /// removes one batch after the other, so that little is held in memory.
    pub async fn remove_between(&self, first: &[u8], last: &[u8]) -> Result<()> {
        let mut start = Bound::Included(first.to_vec());
        loop {
            let mut keys: Vec<Vec<u8>> = Vec::new();
            let range = (start, end_of(last));
            self.visit_keys(range, Some(REMOVED_AT_ONCE), |key, _| keys.push(key.to_vec())).await?;
            let Some(greatest) = keys.last().cloned() else { return Ok(()) };
            self.write(vec![self.remove(keys.iter().map(Vec::as_slice))]).await?;
            start = Bound::Excluded(greatest);
        }
    }

    /// The records of a snapshot from the first key that starts with `first` to the last that starts with `last`.
    pub(crate) async fn scan_in(
        &self,
        snapshot: &SnapshotRef,
        first: &[u8],
        last: &[u8],
    ) -> Result<Box<dyn RowStream>> {
        self.scan(snapshot, (Bound::Included(first.to_vec()), end_of(last)), None).await
    }

    /// The table of the store that holds the records.
    pub(crate) fn table(&self) -> TableId {
        self.table
    }

    /// The value under a key.
    pub async fn find(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut found = None;
        let range = (Bound::Included(key.to_vec()), Bound::Included(key.to_vec()));
        self.visit_keys(range, Some(1), |_, value| found = Some(value.to_vec())).await?;
        Ok(found)
    }

    /// Like [`Self::visit_between`]. If `visit` returns a key, records before that key are skipped.
    pub async fn visit_some(
        &self,
        first: &[u8],
        last: &[u8],
        mut visit: impl FnMut(&[u8], &[u8]) -> Option<Vec<u8>>,
    ) -> Result<()> {
        let mut start = Some(first.to_vec());
        while let Some(from) = start.take() {
            let mut wanted: Option<Vec<u8>> = None;
            let snapshot = self.snapshot().await?;
            let mut rows = self.scan(&snapshot, (Bound::Included(from), end_of(last)), None).await?;
            while let Some(batch) = rows.next().await? {
                let (keys, values) =
                    (batch.columns[0].as_binary::<i32>(), batch.columns[1].as_binary::<i32>());
                for row in 0..batch.rows {
                    let key = keys.value(row);
                    if wanted.as_ref().is_none_or(|wanted| key >= &**wanted) {
                        wanted = visit(key, values.value(row));
                    }
                }
                // The records in between are not read.
                if wanted.as_ref().is_some_and(|wanted| keys.value(batch.rows - 1) < &**wanted) {
                    start = wanted;
                    break;
                }
            }
        }
        Ok(())
    }

    async fn visit_keys(
        &self,
        range: (Bound<Vec<u8>>, Bound<Vec<u8>>),
        limit: Option<usize>,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Sequence> {
        let snapshot = self.snapshot().await?;
        let mut rows = self.scan(&snapshot, range, limit).await?;
        while let Some(batch) = rows.next().await? {
            let (keys, values) = (batch.columns[0].as_binary::<i32>(), batch.columns[1].as_binary::<i32>());
            for row in 0..batch.rows {
                visit(keys.value(row), values.value(row));
            }
        }
        Ok(snapshot.sequence())
    }

    async fn snapshot(&self) -> Result<SnapshotRef> {
        self.store.snapshot(Freshness::Latest).await
    }

    async fn scan(
        &self,
        snapshot: &SnapshotRef,
        (start, end): (Bound<Vec<u8>>, Bound<Vec<u8>>),
        limit: Option<usize>,
    ) -> Result<Box<dyn RowStream>> {
        let key = |bound: Bound<Vec<u8>>| bound.map(|key| vec![Value::Binary(key)]);
        let rows = RowSelection::Keys { start: key(start), end: key(end) };
        let mut request = ScanRequest::by_key(self.table, rows, vec![KEY, VALUE]);
        request.limit = limit;
        snapshot.scan(request).await
    }
}

/// The table with a name.
pub(crate) fn table_named(store: &StoreRef, name: &str) -> Option<(TableId, Arc<TableSchema>)> {
    store.tables().into_iter().find(|(_, schema)| schema.name == name)
}

/// The table with the name of a schema, which is created if it does not exist.
async fn open_or_create(store: &StoreRef, schema: TableSchema) -> Result<TableId> {
    let name = schema.name.clone();
    if let Some((table, _)) = table_named(store, &name) {
        return Ok(table);
    }
    match store.create_table(schema).await {
        // Another server was faster.
        Err(error) if error.kind() == ErrorKind::Conflict => {
            table_named(store, &name).map(|(table, _)| table).ok_or(error)
        }
        created => created,
    }
}

/// The end of the keys that start with `prefix`.
fn end_of(prefix: &[u8]) -> Bound<Vec<u8>> {
    successor(prefix).map_or(Bound::Unbounded, Bound::Excluded)
}

pub(crate) fn record_schema(name: &str) -> TableSchema {
    let key = ColumnSchema::new(KEY, "key", ColumnType::Binary).required();
    TableSchema::keyed(name, vec![key, ColumnSchema::new(VALUE, "value", ColumnType::Binary)], vec![KEY])
}

/// The smallest byte string above all that start with `prefix`.
fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}
