//! `ALTER COLUMN … TYPE` of columns of the primary key or of an index. Rows are stored and found by them, so they are copied to
//! tables that have them with their new types, and which take the place of the old ones with the same commit.
//!
//! Nobody writes rows meanwhile. Without a commit nothing has changed.

use super::actions::Altered;
use super::primary_key::Copying;
use crate::error::SqlResult;
use crate::identifier::schema_of;
use crate::relation::columns::TableColumns;
use crate::relation::entries::RowIndex;
use crate::session::Session;
use crate::session::definition::changed;
use crate::session::definition::index::write_entries_of;
use crate::statement::Statement;
use crate::target::Place;
use nyala_core::store::{RowSelection, ScanRequest, Stage};
use nyala_core::{ColumnId, ColumnSchema, TableSchema};
use nyala_db::relations::{Relation, TableDefinition};
use std::sync::Arc;
use tokio::sync::OwnedRwLockWriteGuard;

impl Session {
    /// `alone`: the lock of the table.
    pub(super) async fn rebuild_table(
        &mut self,
        statement: &Statement,
        place: &Place,
        relation: &Arc<Relation>,
        altered: &Altered,
        alone: OwnedRwLockWriteGuard<()>,
    ) -> SqlResult<()> {
        let catalog = self.server.catalog.clone();
        // Transactions that have written rows to the table that is copied cannot commit them.
        let before = catalog.bar_open_stages(altered.before.table).await?;
        let mut schemas = vec![rebuilt(&before, altered)];
        for index in &altered.table.indexes {
            schemas.push(index.schema(&schemas[0])?);
        }
        let (after, tables) = self.in_new_tables(place, &altered.table, schemas).await?;
        let mut stage = catalog.store().stage().await?;
        self.copy_changed(statement, relation, altered, &after, &mut stage).await?;
        self.publish_with(&changed(relation, after), tables, stage, alone).await
    }

    /// Writes the rows as they are to be, and their entries.
    async fn copy_changed(
        &mut self,
        statement: &Statement,
        relation: &Relation,
        altered: &Altered,
        after: &TableDefinition,
        stage: &mut Box<dyn Stage>,
    ) -> SqlResult<()> {
        let pass = self.pass(relation, altered)?;
        let freshness = self.server.catalog.follow().await?;
        let run = self.run(statement, freshness, Arc::default(), Arc::default())?;
        let (schema, from) = (schema_of(&relation.database), &altered.before);
        let copying = Copying { schema, name: &relation.name, from, to: after };
        let all = TableColumns::all(after);
        let entries: Vec<_> = after.indexes.iter().map(|index| RowIndex::of_index(index, &all)).collect();
        let stored: Vec<ColumnId> = TableColumns::all(from).columns.iter().map(|column| column.id).collect();
        let request = ScanRequest::by_key(from.table, RowSelection::All, stored);
        let snapshot = stage.snapshot().await?;
        let mut rows = run.running.unless_stopped(snapshot.scan(request)).await?;
        let mut held = run.memory().hold();
        while let Some(batch) = run.running.unless_stopped(rows.next()).await? {
            held.shrink_to(0);
            held.charge(batch.value_bytes())?;
            let rows = pass.checked_rows(&batch).await?;
            self.copy_keyed(&run, &copying, &rows, stage).await?;
            for own in &entries {
                write_entries_of(&run, relation, &pass.rules, own, &rows, stage).await?;
            }
        }
        Ok(())
    }
}

/// The schema of the store for a table whose columns have other types.
fn rebuilt(before: &TableSchema, altered: &Altered) -> TableSchema {
    let table = &altered.table;
    let mut schema = before.clone();
    schema.columns.retain(|column| table.has(column.id));
    for new in &altered.new {
        let id = new.schema.id;
        let nullable = table.columns.iter().any(|column| column.id == id && column.nullable);
        let column = ColumnSchema { nullable: nullable && !table.is_key(id), ..new.schema.clone() };
        schema.columns.retain(|known| known.id != id);
        schema.columns.push(column);
        schema.next_column = schema.next_column.max(ColumnId(id.0 + 1));
    }
    schema.columns.sort_by_key(|column| column.id);
    schema
}
