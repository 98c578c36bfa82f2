//! A stage of the naive store: a state of its own, and the keys in which it differs from the state it started with.

use super::snapshot::MemorySnapshot;
use super::table::Key;
use super::{Shared, State, Touched};
use crate::error::{Error, Result};
use crate::ids::{Sequence, TableId};
use crate::store::{Capabilities, SnapshotRef, Stage, WriteBatch, WriteOutcome};
use async_trait::async_trait;
use std::collections::BTreeSet;
use std::sync::Arc;

pub(super) struct MemoryStage {
    shared: Arc<Shared>,
    capabilities: Capabilities,
    opened: Arc<State>,
    staged: State,
    touched: Touched,
    claimed: BTreeSet<TableId>,
    /// What was staged before each savepoint.
    savepoints: Vec<(State, Touched)>,
}

impl MemoryStage {
    pub(super) fn open(shared: Arc<Shared>, capabilities: Capabilities) -> Self {
        let opened = shared.state();
        let staged = State::clone(&opened);
        let (touched, claimed, savepoints) = Default::default();
        Self { shared, capabilities, opened, staged, touched, claimed, savepoints }
    }
}

#[async_trait]
impl Stage for MemoryStage {
    async fn write(&mut self, batch: WriteBatch) -> Result<WriteOutcome> {
        super::check_demands(&self.capabilities, &batch)?;
        let mut staged = self.staged.clone();
        let (outcome, touched) = staged.write(&batch, self.capabilities.atomicity)?;
        self.staged = staged;
        for (table, keys) in touched {
            self.touched.entry(table).or_default().extend(keys);
        }
        Ok(WriteOutcome { sequence: Sequence(self.opened.sequence), ..outcome })
    }

    fn check(&self) -> Result<()> {
        Ok(())
    }

    async fn snapshot(&self) -> Result<SnapshotRef> {
        Ok(Arc::new(MemorySnapshot { state: Arc::new(self.staged.clone()), capabilities: self.capabilities }))
    }

    async fn add_table(&mut self, table: TableId) -> Result<()> {
        let now = self.shared.state();
        let mut opened = State::clone(&self.opened);
        for state in [&mut opened, &mut self.staged]
            .into_iter()
            .chain(self.savepoints.iter_mut().map(|own| &mut own.0))
        {
            state.adopt(table, &now)?;
        }
        self.opened = Arc::new(opened);
        Ok(())
    }

    fn claim_table(&mut self, table: TableId) {
        self.claimed.insert(table);
    }

    async fn savepoint(&mut self) -> Result<usize> {
        self.savepoints.push((self.staged.clone(), self.touched.clone()));
        Ok(self.savepoints.len() - 1)
    }

    fn release(&mut self, savepoint: usize) {
        self.savepoints.truncate(savepoint);
    }

    async fn roll_back_to(&mut self, savepoint: usize) -> Result<()> {
        let found = self.savepoints.get(savepoint);
        let (staged, touched) =
            found.ok_or_else(|| Error::missing(format!("the stage has no savepoint {savepoint}")))?.clone();
        (self.staged, self.touched) = (staged, touched);
        self.savepoints.truncate(savepoint + 1);
        Ok(())
    }

    async fn commit(self: Box<Self>) -> Result<Sequence> {
        if self.touched.is_empty() {
            return Ok(Sequence(self.shared.state().sequence));
        }
        self.shared.change(|state| {
            self.claimed.iter().try_for_each(|table| self.check_claimed(*table, state))?;
            for (table, keys) in self.touched.iter().filter(|(table, _)| !self.claimed.contains(table)) {
                self.check_unchanged(*table, state)?;
                let (staged, table) = (self.staged.table(*table)?, state.table_mut(*table)?);
                for key in keys {
                    match staged.rows.get(key) {
                        Some(row) => drop(table.rows.insert(key.clone(), row.clone())),
                        None => drop(table.rows.remove(key)),
                    }
                }
            }
            Ok(Sequence(state.sequence + 1))
        })
    }
}

impl MemoryStage {
    /// Fails with a conflict if somebody else has changed a row of a table.
    fn check_claimed(&self, id: TableId, now: &State) -> Result<()> {
        let opened = self.opened.table(id)?;
        let is_same = now.table(id).is_ok_and(|now| {
            let mut rows = now.rows.iter().zip(&opened.rows);
            now.rows.len() == opened.rows.len()
                && rows.all(|(now, opened)| now.0 == opened.0 && Arc::ptr_eq(now.1, opened.1))
        });
        match is_same {
            true => Ok(()),
            false => Err(Error::conflict(format!(
                "table {}: somebody else has changed its rows since",
                opened.schema.shown_name()
            ))),
        }
    }

    /// Fails with a conflict if somebody else was first to change a table or a row.
    fn check_unchanged(&self, id: TableId, now: &State) -> Result<()> {
        let opened = self.opened.table(id)?;
        let name = opened.schema.shown_name();
        let conflict = |words: String| Err(Error::conflict(format!("table {name}: {words} since")));
        let Ok(now) = now.table(id) else { return conflict("it was dropped".to_owned()) };
        if now.alterations != opened.alterations {
            return conflict("it was altered".to_owned());
        }
        let is_same = |key: &Key| match (opened.rows.get(key), now.rows.get(key)) {
            (None, None) => true,
            // A writer makes a new row each time. This row is held, so no other row can have its address.
            (Some(opened), Some(now)) => Arc::ptr_eq(opened, now),
            _ => false,
        };
        match self.touched[&id].iter().find(|key| !is_same(key)) {
            None => Ok(()),
            Some(key) => conflict(format!("the row {key:?} was changed")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::MemoryStore;
    use crate::error::{ErrorKind, Result};
    use crate::ids::{ColumnId, TableId};
    use crate::schema::{ColumnSchema, ColumnType, TableSchema};
    use crate::store::{
        Alteration, CellColumn, DeleteMode, Operation, RowSelection, ScanRequest, Store, Update, Upsert,
        WriteBatch, WriteMode,
    };
    use crate::value::Value;
    use arrow_array::{ArrayRef, Int64Array};
    use std::sync::Arc;

    const TABLE: TableId = TableId(0);
    const VALUE: ColumnId = ColumnId(1);

    fn schema(name: &str) -> TableSchema {
        let key = ColumnSchema::new(ColumnId(0), "k", ColumnType::Int64).required();
        let value = ColumnSchema::new(VALUE, "v", ColumnType::Int64);
        TableSchema::keyed(name, vec![key, value], vec![ColumnId(0)])
    }

    fn batch(operation: Operation) -> WriteBatch {
        WriteBatch { operations: vec![operation] }
    }

    fn row(mode: WriteMode, key: i64, value: i64) -> WriteBatch {
        let cells = |id, value| {
            let values: ArrayRef = Arc::new(Int64Array::from(vec![value]));
            CellColumn { column: ColumnId(id), values, null_cells: None }
        };
        batch(Operation::Upsert(Upsert { table: TABLE, mode, columns: vec![cells(0, key), cells(1, value)] }))
    }

    fn deletion(mode: DeleteMode, key: i64) -> WriteBatch {
        let keys: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(vec![key]))];
        batch(Operation::DeleteKeys { table: TABLE, mode, keys })
    }

    /// A table with rows 1 and 2, next to another table.
    async fn store() -> Result<MemoryStore> {
        let store = MemoryStore::default();
        store.create_tables(vec![schema("one"), schema("other")]).await?;
        store.write(row(WriteMode::Upsert, 1, 10)).await?;
        store.write(row(WriteMode::Upsert, 2, 20)).await?;
        Ok(store)
    }

    async fn count(snapshot: crate::store::SnapshotRef) -> Result<usize> {
        let mut stream = snapshot.scan(ScanRequest::by_key(TABLE, RowSelection::All, vec![VALUE])).await?;
        let mut rows = 0;
        while let Some(batch) = stream.next().await? {
            rows += batch.rows;
        }
        Ok(rows)
    }

    /// Whether the commit of a batch is rejected when others do something after its stage was opened.
    async fn is_refused(
        staged: WriteBatch,
        others: impl AsyncFnOnce(&MemoryStore) -> Result<()>,
    ) -> Result<bool> {
        let store = store().await?;
        let mut stage = store.stage().await?;
        stage.write(staged).await?;
        others(&store).await?;
        let before = store.latest().sequence();
        match stage.commit().await {
            Ok(sequence) => Ok(store.latest().sequence() != sequence),
            Err(error) => {
                assert_eq!((error.kind(), store.latest().sequence()), (ErrorKind::Conflict, before));
                Ok(true)
            }
        }
    }

    #[tokio::test]
    async fn a_stage_is_visible_to_others_only_after_its_commit() -> Result<()> {
        let store = store().await?;
        let mut stage = store.stage().await?;
        let beginning = stage.snapshot().await?;
        let written = stage.write(row(WriteMode::Insert, 3, 30)).await?;
        assert_eq!((written.affected, written.sequence), (1, beginning.sequence()));
        let error = stage.write(row(WriteMode::Insert, 3, 31)).await.err().map(|error| error.kind());
        assert_eq!(error, Some(ErrorKind::Conflict), "its own rows are there");
        store.write(row(WriteMode::Upsert, 4, 40)).await?;
        assert_eq!(count(stage.snapshot().await?).await?, 3);
        assert_eq!((count(beginning).await?, count(store.latest()).await?), (2, 3));
        let sequence = stage.commit().await?;
        assert_eq!((sequence, count(store.latest()).await?), (store.latest().sequence(), 4));
        let mut dropped = store.stage().await?;
        dropped.write(row(WriteMode::Upsert, 5, 50)).await?;
        drop(dropped);
        assert_eq!((store.latest().sequence(), count(store.latest()).await?), (sequence, 4));
        Ok(())
    }

    #[tokio::test]
    async fn the_first_to_change_a_row_wins() -> Result<()> {
        let upsert = |key, value| row(WriteMode::Upsert, key, value);
        let blind = |key| deletion(DeleteMode::Blind, key);
        let write = async |store: &MemoryStore, batch| store.write(batch).await.map(drop);
        // Another row, and the same row.
        assert!(!is_refused(upsert(1, 11), async |store| write(store, upsert(2, 21)).await).await?);
        assert!(is_refused(upsert(1, 11), async |store| write(store, upsert(1, 12)).await).await?);
        // Written as it was; written as it is staged; deleted; created.
        assert!(is_refused(upsert(1, 11), async |store| write(store, upsert(1, 10)).await).await?);
        assert!(is_refused(upsert(1, 11), async |store| write(store, upsert(1, 11)).await).await?);
        assert!(is_refused(upsert(1, 11), async |store| write(store, blind(1)).await).await?);
        assert!(is_refused(blind(3), async |store| write(store, upsert(3, 30)).await).await?);
        let again = async |store: &MemoryStore, first, second| {
            write(store, first).await?;
            write(store, second).await
        };
        // Deleted and created again; created and deleted again.
        assert!(is_refused(upsert(1, 11), async |store| again(store, blind(1), upsert(1, 10)).await).await?);
        assert!(!is_refused(upsert(3, 31), async |store| again(store, upsert(3, 30), blind(3)).await).await?);
        // By condition.
        let assignments = vec![(VALUE, Some(Value::Int(10)))];
        let update = Update { table: TABLE, rows: RowSelection::All, predicates: Vec::new(), assignments };
        let update = async |store: &MemoryStore| store.update(update.clone()).await.map(drop);
        assert!(is_refused(upsert(1, 11), update).await?);
        let partitions =
            async |store: &MemoryStore| store.drop_partitions(TABLE, crate::TimeRange::ALL).await.map(drop);
        assert!(is_refused(upsert(1, 11), partitions).await?);
        assert!(!is_refused(upsert(3, 31), partitions).await?);
        // A row that its mode leaves out is not written.
        let left_out = row(WriteMode::InsertIgnore, 1, 11);
        assert!(!is_refused(left_out, async |store| write(store, upsert(1, 12)).await).await?);
        let left_out = deletion(DeleteMode::DeleteIgnore, 3);
        assert!(!is_refused(left_out, async |store| write(store, upsert(3, 30)).await).await?);
        Ok(())
    }

    #[tokio::test]
    async fn rows_of_others_do_not_come_into_a_claimed_table() -> Result<()> {
        for (claimed, others, is_refused) in [
            (TABLE, vec![row(WriteMode::Upsert, 9, 90)], true),
            (TABLE, vec![deletion(DeleteMode::Blind, 1)], true),
            (TABLE, Vec::new(), false),
            (TableId(1), vec![row(WriteMode::Upsert, 9, 90)], false),
        ] {
            let store = store().await?;
            let mut stage = store.stage().await?;
            stage.write(row(WriteMode::Upsert, 3, 30)).await?;
            for batch in others {
                store.write(batch).await?;
            }
            store.alter_table(claimed, vec![Alteration::RenameColumn(VALUE, "w".to_owned())]).await?;
            stage.claim_table(claimed);
            // What it has written to a table that it does not claim is in conflict with the alteration.
            assert_eq!(stage.commit().await.is_err(), is_refused);
        }
        Ok(())
    }

    #[tokio::test]
    async fn the_first_to_alter_a_table_wins_except_by_new_columns() -> Result<()> {
        let staged = || row(WriteMode::Upsert, 3, 30);
        let alter = async |store: &MemoryStore, table, alteration| {
            store.alter_table(table, vec![alteration]).await.map(drop)
        };
        let added = || Alteration::add_column("w", ColumnType::Int64);
        let renamed = || Alteration::RenameColumn(VALUE, "w".to_owned());
        assert!(!is_refused(staged(), async |store| alter(store, TABLE, added()).await).await?);
        assert!(is_refused(staged(), async |store| alter(store, TABLE, renamed()).await).await?);
        assert!(!is_refused(staged(), async |store| alter(store, TableId(1), renamed()).await).await?);
        assert!(!is_refused(staged(), async |store| store.drop_table(TableId(1)).await).await?);
        assert!(is_refused(staged(), async |store| store.drop_table(TABLE).await).await?);
        let column = ColumnSchema::new(VALUE, "w", ColumnType::Int64);
        let with_default =
            || Alteration::AddColumn(ColumnSchema { default: Some(Value::Int(7)), ..column.clone() });
        assert!(is_refused(staged(), async |store| alter(store, TABLE, with_default()).await).await?);
        Ok(())
    }
}
