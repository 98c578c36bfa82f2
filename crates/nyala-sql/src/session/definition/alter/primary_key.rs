//! `ALTER TABLE … ADD PRIMARY KEY`: rows are stored by their key, so they are copied to a table that has it, which takes the
//! place of the old one with the same commit.
//!
//! Nobody writes rows meanwhile. Without a commit nothing has changed.

use super::actions::second_key;
use crate::error::{BrokenRule, SqlError, SqlResult, SqlState};
use crate::identifier::schema_of;
use crate::relation::assign::check_sizes;
use crate::relation::columns::TableColumns;
use crate::relation::entries::RowIndex;
use crate::relation::output;
use crate::session::definition::create_table::with_key;
use crate::session::definition::{changed, inside_transaction, table_of};
use crate::session::{Run, Session};
use crate::statement::Statement;
use crate::target::Place;
use crate::uncommitted_tables::UncommittedTables;
use arrow_array::{Array, ArrayRef};
use datafusion::sql::sqlparser::ast::PrimaryKeyConstraint;
use nyala_core::TableSchema;
use nyala_core::arrays::value_at;
use nyala_core::store::{
    CellColumn, Feature, Operation, RowSelection, ScanRequest, Stage, Upsert, WriteBatch, WriteMode,
};
use nyala_db::relations::{Key, Relation, TableDefinition};
use std::sync::Arc;

/// The rows of a table, and the table that they are copied to.
pub(super) struct Copying<'a> {
    pub(super) schema: &'static str,
    pub(super) name: &'a str,
    pub(super) from: &'a TableDefinition,
    pub(super) to: &'a TableDefinition,
}

impl Session {
    pub(super) async fn add_primary_key(
        &mut self,
        statement: &Statement,
        place: &Place,
        found: Arc<Relation>,
        constraint: &PrimaryKeyConstraint,
    ) -> SqlResult<()> {
        if self.transaction.is_some() {
            return Err(inside_transaction("ADD PRIMARY KEY"));
        }
        let catalog = self.server.catalog.clone();
        let store = catalog.store().clone();
        store.capabilities().need(Feature::StagedWrites)?;
        let (alone, relation) = self.locked_alone(place, &found).await?;
        let before = table_of(&relation)?;
        if matches!(before.key, Key::Declared { .. }) {
            return Err(second_key(&relation.name));
        }
        let mut after = with_key(&relation.name, before, constraint, &self.relations().of(&place.database))?;
        let schema = keyed(&*store.schema(before.table)?, &after);
        let mut schemas = vec![schema];
        for index in &after.indexes {
            schemas.push(index.schema(&schemas[0])?);
        }
        // Transactions that have written rows to the table that is copied cannot commit them.
        catalog.bar_open_stages(before.table).await?;
        let tables;
        (after, tables) = self.in_new_tables(place, &after, schemas).await?;
        let mut stage = store.stage().await?;
        let schema = schema_of(&relation.database);
        let copying = Copying { schema, name: &relation.name, from: before, to: &after };
        self.copy_rows(statement, &copying, &mut stage).await?;
        self.publish_with(&changed(&relation, after), tables, stage, alone).await
    }

    /// A definition with tables of its own for its rows and indexes, which have these schemas.
    pub(super) async fn in_new_tables(
        &self,
        place: &Place,
        definition: &TableDefinition,
        schemas: Vec<TableSchema>,
    ) -> SqlResult<(TableDefinition, UncommittedTables)> {
        let catalog = &self.server.catalog;
        let (mut tables, mut stores) = (UncommittedTables::default(), Vec::new());
        for schema in schemas {
            let database = self.rights_of(&place.database);
            let table = catalog.create_uncommitted_table(database, &place.name, schema).await?;
            tables.add(catalog.store(), table);
            stores.push(table);
        }
        Ok((definition.with_stores(&stores), tables))
    }

    async fn copy_rows(
        &mut self,
        statement: &Statement,
        copying: &Copying<'_>,
        stage: &mut Box<dyn Stage>,
    ) -> SqlResult<()> {
        let freshness = self.server.catalog.follow().await?;
        let run = self.run(statement, freshness, Arc::default(), Arc::default())?;
        let columns = copying.to.columns.iter().map(|column| column.id).collect();
        let request = ScanRequest::by_key(copying.from.table, RowSelection::All, columns);
        let snapshot = stage.snapshot().await?;
        let mut rows = run.running.unless_stopped(snapshot.scan(request)).await?;
        let mut held = run.memory().hold();
        let all = TableColumns::all(copying.to);
        let entries: Vec<_> =
            copying.to.indexes.iter().map(|index| RowIndex::of_index(index, &all)).collect();
        while let Some(batch) = run.running.unless_stopped(rows.next()).await? {
            held.shrink_to(0);
            held.charge(batch.value_bytes())?;
            self.copy_keyed(&run, copying, &batch.columns, stage).await?;
            let operations: Vec<_> = entries.iter().filter_map(|own| own.added(&batch.columns)).collect();
            if !operations.is_empty() {
                run.running.unless_stopped(stage.write(WriteBatch { operations })).await?;
            }
        }
        Ok(())
    }

    /// Writes rows to a table whose key no two of them may have.
    pub(super) async fn copy_keyed(
        &self,
        run: &Run,
        copying: &Copying<'_>,
        rows: &[ArrayRef],
        stage: &mut Box<dyn Stage>,
    ) -> SqlResult<()> {
        self.check_key(copying, rows)?;
        let operations = vec![copying.operation(rows)];
        let written = run.running.unless_stopped(stage.write(WriteBatch { operations })).await?;
        match written.conflicts.first() {
            Some(taken) => Err(self.duplicated(copying, rows, taken.row)),
            None => Ok(()),
        }
    }

    fn check_key(&self, copying: &Copying<'_>, rows: &[ArrayRef]) -> SqlResult<()> {
        let capabilities = self.server.catalog.store().capabilities();
        for (column, values) in copying.to.columns.iter().zip(rows) {
            if !copying.to.is_key(column.id) {
                continue;
            }
            if values.null_count() > 0 {
                let (column, table) = (&column.name, copying.name);
                let message = format!("column \"{column}\" of relation \"{table}\" contains null values");
                let rule = BrokenRule::of_column(copying.schema, table, column);
                return Err(SqlError::new(SqlState::NOT_NULL_VIOLATION, message).with_rule(rule));
            }
            check_sizes(values, &column.name, true, &capabilities)?;
        }
        Ok(())
    }

    /// The error of a row whose key another one has.
    fn duplicated(&self, copying: &Copying<'_>, rows: &[ArrayRef], row: usize) -> SqlError {
        let Key::Declared { name, columns: key } = &copying.to.key else {
            unreachable!("it is being declared")
        };
        let zone = self.surroundings().zone;
        let (mut names, mut shown) = (Vec::new(), Vec::new());
        for id in key {
            let mut columns = copying.to.columns.iter().zip(rows);
            let Some((column, values)) = columns.find(|(column, _)| column.id == *id) else { continue };
            names.push(&*column.name);
            shown.push(output::value(value_at(values, row).as_ref(), column.declared_type, zone));
        }
        let message = format!("could not create unique index \"{name}\"");
        let detail = format!("Key ({})=({}) is duplicated.", names.join(", "), shown.join(", "));
        let rule = BrokenRule::of_constraint(copying.schema, copying.name, name);
        SqlError::new(SqlState::UNIQUE_VIOLATION, message).with_detail(detail).with_rule(rule)
    }
}

impl Copying<'_> {
    fn operation(&self, rows: &[ArrayRef]) -> Operation {
        let cells = self.to.columns.iter().zip(rows);
        let cells = cells.map(|(column, values)| CellColumn::whole(column.id, values.clone()));
        let mut columns: Vec<CellColumn> = cells.collect();
        columns.sort_by_key(|cells| cells.column);
        // Of a key that is there twice the second row is left out, and said.
        Operation::Upsert(Upsert { table: self.to.table, mode: WriteMode::InsertIgnore, columns })
    }
}

/// The schema of the store for a table with a key in the place of one without.
fn keyed(before: &TableSchema, table: &TableDefinition) -> TableSchema {
    let mut schema = before.clone();
    schema.columns.retain(|column| table.columns.iter().any(|own| own.id == column.id));
    schema
        .columns
        .iter_mut()
        .filter(|column| table.is_key(column.id))
        .for_each(|column| column.nullable = false);
    schema.key = table.key.columns().to_vec();
    schema
}
