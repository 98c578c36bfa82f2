//! A copy of a store that is maintained by its changes, as a tool that moves a database does. It checks everything that
//! such a tool may rely on.

use super::super::memory::MemoryStore;
use super::super::{
    Alteration, CellColumn, Change, ChangeStream, Delete, DeleteMode, Operation, RowSelection, ScanRequest,
    Snapshot, Store, Upsert, WriteBatch, WriteMode,
};
use super::step::rename_tables;
use crate::error::{Error, Result};
use crate::ids::{ColumnId, Sequence, TableId};
use crate::schema::{ColumnSchema, ColumnType, Ranges, TableSchema};
use arrow_array::{Array, ArrayRef, UInt32Array};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The id that stands for a table that does not exist.
pub(super) const NO_TABLE: TableId = TableId(u32::MAX);

/// A copy of a store, in a naive one.
pub(super) struct Follower {
    pub(super) copy: MemoryStore,
    /// The position that it has reached.
    pub(super) position: Sequence,
    tables: BTreeMap<TableId, CopiedTable>,
}

struct CopiedTable {
    /// The id of the table in the copy.
    id: TableId,
    /// The schema received last. The copy has it from the next position on.
    schema: Arc<TableSchema>,
}

impl Follower {
    /// A copy of those of some tables that a snapshot contains.
    pub(super) async fn begin(
        copy: MemoryStore,
        snapshot: &dyn Snapshot,
        tables: impl IntoIterator<Item = TableId>,
    ) -> Result<Self> {
        let mut follower = Self { copy, position: snapshot.sequence(), tables: BTreeMap::new() };
        for table in tables {
            let Ok(schema) = snapshot.schema(table) else { continue };
            let id = follower.copy.create_table(TableSchema::clone(&schema)).await?;
            copy_rows(snapshot, table, &schema, &follower.copy, id).await?;
            follower.tables.insert(table, CopiedTable { id, schema });
        }
        Ok(follower)
    }

    /// The id of a table in the copy.
    pub(super) fn id_of(&self, table: TableId) -> TableId {
        self.tables.get(&table).map_or(NO_TABLE, |table| table.id)
    }

    /// Applies the changes up to the next position. Returns whether there was one.
    pub(super) async fn advance(&mut self, stream: &mut dyn ChangeStream) -> Result<bool> {
        let mut changes = Vec::new();
        loop {
            match stream.next().await? {
                None if changes.is_empty() => return Ok(false),
                None => return Err(Error::invalid("changes that no position follows")),
                Some(Change::Position(position)) if position < self.position => {
                    return Err(Error::invalid(format!("position {position} after {}", self.position)));
                }
                Some(Change::Position(position)) => {
                    for change in changes {
                        self.apply(change).await?;
                    }
                    self.position = position;
                    self.finish_schemas().await?;
                    return Ok(true);
                }
                Some(change) => changes.push(change),
            }
        }
    }

    async fn apply(&mut self, change: Change) -> Result<()> {
        match change {
            Change::Table(table, schema) => self.take_schema(table, schema).await,
            Change::Dropped(table) => match self.tables.remove(&table) {
                Some(table) => self.copy.drop_table(table.id).await,
                None => Ok(()),
            },
            Change::Rows(mut batch) => {
                batch.operations.iter().try_for_each(|operation| self.check(operation))?;
                rename_tables(&mut batch, |table| self.id_of(table));
                self.copy.write(batch).await.map(drop)
            }
            Change::Delete(delete) => {
                let table = self.id_of(delete.table);
                self.copy.delete(Delete { table, ..delete }).await.map(drop)
            }
            Change::Position(_) => unreachable!("changes end where a position comes"),
        }
    }

    /// Checks that the result of an operation does not depend on which rows exist.
    fn check(&self, operation: &Operation) -> Result<()> {
        let table = operation.table();
        let known = self.tables.get(&table);
        let known =
            known.ok_or_else(|| Error::missing(format!("rows of table {table}, which nobody made")))?;
        operation.validate(&known.schema)?;
        let depends = match operation {
            Operation::Upsert(upsert) => {
                upsert.mode != WriteMode::Upsert || upsert.depends_on_rows(&known.schema)
            }
            Operation::DeleteKeys { mode, .. } => *mode != DeleteMode::Blind,
        };
        match depends {
            true => Err(Error::invalid(format!("{operation:?} depends on the rows there are"))),
            false => Ok(()),
        }
    }

    async fn take_schema(&mut self, table: TableId, schema: Arc<TableSchema>) -> Result<()> {
        // Two tables may have the same name until the next position.
        let name = format!("copy of {table}");
        let id = match self.tables.get(&table) {
            None => self.copy.create_table(TableSchema { name, ..TableSchema::clone(&schema) }).await?,
            Some(CopiedTable { id, .. }) => {
                let mut alterations = difference(&*self.copy.schema(*id)?, &schema);
                alterations.push(Alteration::Rename(name));
                self.copy.alter_table(*id, alterations).await?;
                *id
            }
        };
        self.tables.insert(table, CopiedTable { id, schema });
        Ok(())
    }

    /// Gives the copies the names and required columns of their schemas, which hold again at a position.
    async fn finish_schemas(&self) -> Result<()> {
        let mut changes = Vec::new();
        for CopiedTable { id, schema } in self.tables.values() {
            let copied = self.copy.schema(*id)?;
            let mut alterations = Vec::new();
            if copied.name != schema.name {
                alterations.push(Alteration::Rename(schema.name.clone()));
            }
            let lax = copied.columns.iter().zip(&schema.columns).filter(|(a, b)| a.nullable && !b.nullable);
            alterations.extend(lax.map(|(column, _)| Alteration::SetNullable(column.id, false)));
            changes.push((*id, alterations));
        }
        self.copy.alter_tables(changes).await.map(drop)
    }
}

/// The alterations that turn one schema into another, except for names and columns that rows must have now.
fn difference(old: &TableSchema, new: &TableSchema) -> Vec<Alteration> {
    let mut alterations = Vec::new();
    for column in &old.columns {
        match new.column(column.id) {
            None => alterations.push(Alteration::DropColumn(column.id)),
            Some(new) if new != column => alterations.extend(column_difference(column, new)),
            Some(_) => {}
        }
    }
    for id in (old.next_column.0..new.next_column.0).map(ColumnId) {
        match new.column(id) {
            Some(column) => alterations.push(Alteration::AddColumn(ColumnSchema {
                nullable: column.nullable || column.default.is_none(),
                ..column.clone()
            })),
            // The column was added and dropped: its id is used up.
            None => {
                alterations.extend([Alteration::add_column("", ColumnType::Bool), Alteration::DropColumn(id)])
            }
        }
    }
    match (&old.partitioning.ranges, &new.partitioning.ranges) {
        (Ranges::Time { width_ns: old }, Ranges::Time { width_ns }) if old != width_ns => {
            alterations.push(Alteration::SetPartitionWidth(*width_ns));
        }
        (Ranges::Keys { spans: old, .. }, Ranges::Keys { spans: new, .. }) => {
            let gone = old.iter().filter(|span| !new.contains(span));
            alterations.extend(gone.cloned().map(Alteration::DropRange));
            let added = new.iter().filter(|span| !old.contains(span));
            alterations.extend(added.cloned().map(Alteration::AddRange));
        }
        _ => {}
    }
    alterations
}

fn column_difference(old: &ColumnSchema, new: &ColumnSchema) -> Vec<Alteration> {
    let id = old.id;
    let mut alterations = vec![
        Alteration::RenameColumn(id, new.name.clone()),
        Alteration::SetHidden(id, new.hidden),
        Alteration::SetEncoding(id, new.encoding),
        Alteration::SetNullable(id, old.nullable || new.nullable),
    ];
    if old.column_type != new.column_type {
        alterations.push(Alteration::Widen(id, new.column_type));
    }
    alterations.push(Alteration::SetDefault(id, new.default.clone()));
    alterations
}

async fn copy_rows(
    snapshot: &dyn Snapshot,
    table: TableId,
    schema: &TableSchema,
    copy: &dyn Store,
    id: TableId,
) -> Result<()> {
    let mut columns: Vec<_> = schema.columns.iter().map(|column| column.id).collect();
    if schema.is_series_keyed() {
        columns.retain(|id| *id != schema.key[0]);
    }
    let mut stream = snapshot.scan(ScanRequest::by_key(table, RowSelection::All, columns.clone())).await?;
    while let Some(batch) = stream.next().await? {
        let cells = |(column, values): (&ColumnId, ArrayRef)| {
            let null_cells = values.nulls().map(|valid| !valid.inner());
            CellColumn { column: *column, values, null_cells }
        };
        let mut cells: Vec<_> = columns.iter().zip(batch.columns).map(cells).collect();
        if schema.is_series_keyed() {
            let runs = batch.series.iter();
            let ids = runs.flat_map(|run| std::iter::repeat_n(run.series.0, run.rows as usize));
            let values = Arc::new(UInt32Array::from_iter_values(ids));
            cells.push(CellColumn { column: schema.key[0], values, null_cells: None });
        }
        let upsert = Upsert { table: id, mode: WriteMode::Upsert, columns: cells };
        copy.write(WriteBatch { operations: vec![Operation::Upsert(upsert)] }).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::compare_snapshots;
    use super::*;
    use crate::env::ManualClock;
    use crate::schema::{KeySpan, Partitioning};
    use crate::store::{Capabilities, ChangesRequest, Features, Update};
    use crate::value::Value;
    use arrow_array::Int64Array;

    const TABLE: TableId = TableId(0);
    const VALUE: ColumnId = ColumnId(1);
    const ADDED: ColumnId = ColumnId(2);

    fn span(start: i64, end: i64) -> KeySpan {
        let bound = |value| Some(vec![Value::Int(value)]);
        KeySpan { start: bound(start), end: bound(end) }
    }

    fn schema() -> TableSchema {
        let key = ColumnSchema::new(ColumnId(0), "k", ColumnType::Int64).required();
        let value = ColumnSchema::new(VALUE, "v", ColumnType::Int64);
        let ranges = Ranges::Keys { columns: vec![ColumnId(0)], spans: vec![span(0, 10)] };
        let partitioning = Partitioning { ranges, ..Partitioning::default() };
        TableSchema { partitioning, ..TableSchema::keyed("one", vec![key, value], vec![ColumnId(0)]) }
    }

    async fn write(store: &MemoryStore, key: i64, value: Option<i64>) -> Result<()> {
        let cells = |id, value| {
            let values: ArrayRef = Arc::new(Int64Array::from(vec![value]));
            CellColumn { column: ColumnId(id), values, null_cells: None }
        };
        let columns = vec![cells(0, Some(key)), cells(1, value)];
        let upsert = Upsert { table: TABLE, mode: WriteMode::Upsert, columns };
        store.write(WriteBatch { operations: vec![Operation::Upsert(upsert)] }).await.map(drop)
    }

    async fn update(store: &MemoryStore, column: ColumnId, value: Option<i64>) -> Result<()> {
        let assignments = vec![(column, value.map(Value::Int))];
        let update = Update { table: TABLE, rows: RowSelection::All, predicates: Vec::new(), assignments };
        store.update(update).await.map(drop)
    }

    async fn alter(store: &MemoryStore, alterations: Vec<Alteration>) -> Result<()> {
        store.alter_table(TABLE, alterations).await.map(drop)
    }

    fn added(default: Option<i64>) -> Alteration {
        let column = ColumnSchema::new(ADDED, "w", ColumnType::Int64);
        Alteration::AddColumn(ColumnSchema { default: default.map(Value::Int), ..column })
    }

    /// After some steps, a copy that follows is equal to the store.
    async fn follow(steps: impl AsyncFnOnce(&MemoryStore) -> Result<()>) -> Result<()> {
        let all = Capabilities { features: Features::ALL, ..MemoryStore::default().capabilities() };
        let store = MemoryStore::with_history(all, Arc::new(ManualClock::new(0)));
        store.create_table(schema()).await?;
        write(&store, 1, Some(10)).await?;
        write(&store, 5, None).await?;
        let mut follower = Follower::begin(MemoryStore::default(), &*store.latest(), [TABLE]).await?;
        steps(&store).await?;
        let request = ChangesRequest { tables: None, after: follower.position };
        let mut stream = store.changes(request).await?;
        while follower.advance(&mut *stream).await? {}
        assert_eq!(follower.position, store.latest().sequence());
        let pairs: Vec<_> = store.tables().iter().map(|(id, _)| (follower.id_of(*id), *id)).collect();
        compare_snapshots(&*follower.copy.latest(), &*store.latest(), &pairs).await.map_err(Error::invalid)
    }

    #[tokio::test]
    async fn new_columns_have_their_later_values_in_a_copy() -> Result<()> {
        follow(async |store| alter(store, vec![added(Some(7)), Alteration::SetDefault(ADDED, None)]).await)
            .await?;
        follow(async |store| {
            alter(store, vec![added(Some(7))]).await?;
            update(store, ADDED, None).await
        })
        .await?;
        follow(async |store| {
            alter(store, vec![added(None), Alteration::DropColumn(ADDED), added(None)]).await
        })
        .await
    }

    #[tokio::test]
    async fn rows_have_their_required_columns_at_the_next_position() -> Result<()> {
        follow(async |store| {
            update(store, VALUE, Some(3)).await?;
            alter(store, vec![Alteration::SetNullable(VALUE, false)]).await
        })
        .await?;
        follow(async |store| {
            alter(store, vec![added(Some(7)), Alteration::SetNullable(ADDED, false)]).await?;
            alter(store, vec![Alteration::SetDefault(ADDED, None)]).await
        })
        .await
    }

    #[tokio::test]
    async fn rows_of_replaced_key_ranges_are_returned_again() -> Result<()> {
        let replaced = || vec![Alteration::DropRange(span(0, 10)), Alteration::AddRange(span(0, 20))];
        follow(async |store| {
            alter(store, replaced()).await?;
            write(store, 1, Some(10)).await
        })
        .await?;
        let again = || vec![Alteration::DropRange(span(0, 10)), Alteration::AddRange(span(0, 10))];
        follow(async |store| alter(store, again()).await).await
    }

    #[tokio::test]
    async fn two_tables_may_exchange_names() -> Result<()> {
        follow(async |store| {
            alter(store, vec![Alteration::Rename("two".to_owned())]).await?;
            store.create_table(schema()).await?;
            Ok(())
        })
        .await?;
        follow(async |store| {
            store.drop_table(TABLE).await?;
            store.create_table(schema()).await.map(drop)
        })
        .await
    }
}
