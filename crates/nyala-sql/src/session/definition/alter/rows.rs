//! The rows of a table that is altered: their values in new columns, and whether they are what the new definition asks for.
//!
//! Every row is read once. What is written is staged, and becomes visible with one commit; no definition shows it yet.

use super::actions::{Altered, NewValues, Source};
use crate::error::{BrokenRule, SqlError, SqlResult, SqlState};
use crate::expression::{compiled, evaluated, parsed, planned};
use crate::identifier::schema_of;
use crate::relation::assign::assigned;
use crate::relation::columns::TableColumns;
use crate::relation::literal::is_literal;
use crate::relation::rules::{Rules, batch_of};
use crate::session::{Run, Session};
use crate::statement::Statement;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, new_null_array};
use datafusion::common::DFSchema;
use datafusion::execution::SessionState;
use datafusion::physical_expr::PhysicalExpr;
use nyala_core::ColumnId;
use nyala_core::store::{
    Batch, CellColumn, Freshness, Operation, RowSelection, ScanRequest, SnapshotRef, Stage, Upsert,
    WriteBatch, WriteMode,
};
use nyala_db::relations::{Relation, TableDefinition};
use std::sync::Arc;

impl Session {
    /// Compares the rows of a table with what it is to be, and writes their values of new columns.
    pub(super) async fn change_stored_rows(
        &mut self,
        statement: &Statement,
        relation: &Relation,
        altered: &Altered,
    ) -> SqlResult<()> {
        let store = self.server.catalog.store().clone();
        let freshness = self.server.catalog.follow().await?;
        let run = self.run(statement, freshness, Arc::default(), Arc::default())?;
        let mut stage = match altered.new.iter().any(NewValues::is_computed) {
            true => Some(store.stage().await?),
            false => None,
        };
        let snapshot = match &stage {
            Some(stage) => stage.snapshot().await?,
            None => store.snapshot(Freshness::Latest).await?,
        };
        let pass = self.pass(relation, altered)?;
        pass.all_rows(&run, snapshot, &mut stage).await?;
        if let Some(stage) = stage {
            stage.commit().await?;
        }
        Ok(())
    }

    /// What is done with every row.
    pub(super) fn pass(&mut self, relation: &Relation, altered: &Altered) -> SqlResult<Pass> {
        let (schema, name) = (schema_of(&relation.database), &*relation.name);
        let (around, capabilities) = (self.surroundings(), self.server.catalog.store().capabilities());
        let state = self.started_state();
        let old = TableColumns::all(&altered.before);
        let old_schema = DFSchema::try_from_qualified_schema(name, &old.schema)?;
        let new = Arc::new(TableColumns::all(&altered.table));
        let new_schema = DFSchema::try_from_qualified_schema(name, &new.schema)?;
        // Rows that are there have the default that a column got when it was added.
        let mut first = TableDefinition { checks: Vec::new(), ..altered.table.clone() };
        let mut computed = Vec::new();
        for own in &altered.new {
            let position = new.position_of(own.schema.id);
            let Some(position) = position.filter(|_| own.is_computed()) else { continue };
            let expression = match &own.source {
                Source::Expression(written) => {
                    let compiled = compiled_over(state, written, &old_schema)?;
                    Some((compiled, is_literal(written)))
                }
                Source::Default(text) => {
                    first.columns[position].default = Some(text.clone());
                    None
                }
                Source::Null | Source::Stored => None,
            };
            computed.push(Computed { position, expression });
        }
        let mut checks = Vec::with_capacity(altered.checks.len());
        for check in altered.table.checks.iter().filter(|check| altered.checks.contains(&check.name)) {
            let expression = compiled_over(state, &parsed(&check.expression)?, &new_schema)?;
            checks.push((check.name.clone(), expression));
        }
        let rules = Rules::of(name, &first, new.clone(), Some(state), around, capabilities, None)?;
        let not_null = altered.not_null.iter().filter_map(|id| new.position_of(*id)).collect();
        let table = altered.table.clone();
        Ok(Pass { schema, name: name.to_owned(), table, old, new, rules, computed, checks, not_null })
    }
}

fn compiled_over(
    state: &SessionState,
    written: &datafusion::sql::sqlparser::ast::Expr,
    schema: &DFSchema,
) -> SqlResult<Arc<dyn PhysicalExpr>> {
    let planned = planned(state, written, schema)?;
    compiled(state, planned, schema, &[])
}

/// What is done with every row.
pub(super) struct Pass {
    schema: &'static str,
    name: String,
    table: TableDefinition,
    old: TableColumns,
    new: Arc<TableColumns>,
    pub(super) rules: Rules,
    computed: Vec<Computed>,
    checks: Vec<(String, Arc<dyn PhysicalExpr>)>,
    not_null: Vec<usize>,
}

/// Values of a column that are computed.
struct Computed {
    position: usize,
    /// What computes them of the old row, and whether its texts become what is needed; `None`: the default.
    expression: Option<(Arc<dyn PhysicalExpr>, bool)>,
}

impl Pass {
    async fn all_rows(
        &self,
        run: &Run,
        snapshot: SnapshotRef,
        stage: &mut Option<Box<dyn Stage>>,
    ) -> SqlResult<()> {
        let stored: Vec<ColumnId> = self.old.columns.iter().map(|column| column.id).collect();
        let request = ScanRequest::by_key(self.table.table, RowSelection::All, stored);
        let mut rows = run.running.unless_stopped(snapshot.scan(request)).await?;
        let mut held = run.memory().hold();
        while let Some(batch) = run.running.unless_stopped(rows.next()).await? {
            held.shrink_to(0);
            held.charge(batch.value_bytes())?;
            let after = self.checked_rows(&batch).await?;
            if let Some(stage) = stage {
                let operations = vec![self.operation(&after)];
                run.running.unless_stopped(stage.write(WriteBatch { operations })).await?;
            }
        }
        Ok(())
    }

    /// Rows as they are to be, if they fit to the new definition.
    pub(super) async fn checked_rows(&self, batch: &Batch) -> SqlResult<Vec<ArrayRef>> {
        let is_default = |own: &Computed, position| own.position == position && own.expression.is_none();
        let is_new = |position| self.computed.iter().any(|own| is_default(own, position));
        self.rules.take_numbers(|position| if is_new(position) { batch.rows } else { 0 }).await?;
        let after = self.row_after(batch)?;
        self.check(&after)?;
        Ok(after)
    }

    /// Rows as they are to be.
    fn row_after(&self, batch: &Batch) -> SqlResult<Vec<ArrayRef>> {
        let mut after: Vec<ArrayRef> = Vec::with_capacity(self.new.columns.len());
        for column in &self.new.columns {
            let data_type = column.declared_type.column_type().data_type();
            after.push(match self.old.position_of(column.id) {
                Some(place) => batch.columns[place].clone(),
                None => new_null_array(&data_type, batch.rows),
            });
        }
        let needs_old = self.computed.iter().any(|own| own.expression.is_some());
        let old = needs_old.then(|| batch_of(&self.old, &batch.columns)).transpose()?;
        for Computed { position, expression } in &self.computed {
            after[*position] = match (expression, &old) {
                (Some((expression, is_unknown)), Some(old)) => {
                    let values = evaluated(expression, old)?;
                    let declared = self.new.columns[*position].declared_type;
                    assigned(&values, *is_unknown, self.new.name(*position), declared, self.rules.around())?
                }
                _ => self.rules.default(*position, batch.rows)?,
            };
        }
        Ok(after)
    }

    fn check(&self, rows: &[ArrayRef]) -> SqlResult<()> {
        if let Some(position) = self.not_null.iter().find(|position| rows[**position].null_count() > 0) {
            let (column, table) = (self.new.name(*position), &self.name);
            let message = format!("column \"{column}\" of relation \"{table}\" contains null values");
            let rule = BrokenRule::of_column(self.schema, table, column);
            return Err(SqlError::new(SqlState::NOT_NULL_VIOLATION, message).with_rule(rule));
        }
        if self.checks.is_empty() {
            return Ok(());
        }
        let batch = batch_of(&self.new, rows)?;
        for (name, check) in &self.checks {
            let holds = evaluated(check, &batch)?;
            let Some(holds) = holds.as_boolean_opt() else { continue };
            // What is unknown is not false.
            if (0..holds.len()).any(|row| holds.is_valid(row) && !holds.value(row)) {
                let table = &self.name;
                let message =
                    format!("check constraint \"{name}\" of relation \"{table}\" is violated by some row");
                let rule = BrokenRule::of_constraint(self.schema, table, name);
                return Err(SqlError::new(SqlState::CHECK_VIOLATION, message).with_rule(rule));
            }
        }
        Ok(())
    }

    /// Writes the new values of rows that are there.
    fn operation(&self, rows: &[ArrayRef]) -> Operation {
        let key = self.new.key_positions().expect("all columns are there");
        let written = key.into_iter().chain(self.computed.iter().map(|own| own.position));
        let cells =
            |position: usize| CellColumn::whole(self.new.columns[position].id, rows[position].clone());
        let mut columns: Vec<CellColumn> = written.map(cells).collect();
        columns.sort_by_key(|cells| cells.column);
        Operation::Upsert(Upsert { table: self.table.table, mode: WriteMode::Update, columns })
    }
}
