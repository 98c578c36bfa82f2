//! `WITH d AS (DELETE … RETURNING *) SELECT … FROM d`: statements of which parts change rows.
//!
//! Each change is a statement of its own here, executed in the order in which they stand, in one transaction. All parts see
//! what was there when the statement began, and of each other only what they return, as in PostgreSQL. What a change returns
//! is a table in the plans of the parts behind it. Outside a transaction the statement is one of its own: if somebody else was
//! first to change one of its rows, it begins anew.

use super::prepared::{ChangePart, Prepared, PreparedPlan, WithChangesPlan};
use super::{Outcome, Session};
use crate::command_tag::CommandTag;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::identifier::folded;
use crate::names::{RETURNED, ReturnedTable};
use crate::parser_dialect::SqlDialect;
use crate::rows::Rows;
use crate::statement::Statement;
use crate::walk::each_expression;
use arrow_array::RecordBatch;
use arrow_schema::{DataType, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    self, Cte, Expr, Ident, ObjectName, ObjectNamePart, Query, SetExpr, With,
};
use datafusion::sql::sqlparser::parser::Parser;
use nyala_core::store::Feature;
use nyala_exec::memory::MemoryCharge;
use std::collections::BTreeSet;
use std::sync::Arc;

/// How often a statement begins anew because somebody else was first.
const TRIES: usize = 64;

/// Rows that are there, and the memory that they take.
struct Gathered {
    schema: SchemaRef,
    rows: Vec<RecordBatch>,
    tag: Option<CommandTag>,
    held: MemoryCharge,
}

impl Session {
    /// Prepares such a statement; `None` if it is another one.
    pub(super) async fn prepare_with_changes(
        &mut self,
        statement: &Statement,
        types: &[Option<DataType>],
    ) -> SqlResult<Option<Prepared>> {
        let ast::Statement::Query(query) = &*statement.ast else { return Ok(None) };
        let Some(with) = query.with.as_ref().filter(|with| with.cte_tables.iter().any(changes)) else {
            return Ok(None);
        };
        if with.recursive {
            return Err(SqlError::unsupported("a change in WITH RECURSIVE"));
        }
        self.server.catalog.store().capabilities().need(Feature::StagedWrites)?;
        let outer = std::mem::take(&mut self.returned);
        self.state = None;
        let prepared = self.prepare_parts(statement, query, with, types).await;
        self.returned = outer;
        self.state = None;
        prepared.map(Some)
    }

    async fn prepare_parts(
        &mut self,
        statement: &Statement,
        query: &Query,
        with: &With,
        types: &[Option<DataType>],
    ) -> SqlResult<Prepared> {
        let mut types = types.to_vec();
        let mut known: Vec<Cte> = Vec::with_capacity(with.cte_tables.len());
        let mut parts = Vec::new();
        for cte in &with.cte_tables {
            if !changes(cte) {
                known.push(cte.clone());
                continue;
            }
            let name = folded(&cte.alias.name);
            let mut before = known.clone();
            before.extend(cte.query.with.iter().flat_map(|with| with.cte_tables.iter().cloned()));
            let part = part_of(statement, Query { with: with_of(with, before), ..(*cte.query).clone() });
            let prepared = self.prepare_part(&part, &mut types).await?;
            if !prepared.changes_rows() {
                return Err(SqlError::unsupported("a change of points in WITH"));
            }
            let returned = prepared.columns.clone().map(|schema| Arc::new(ReturnedTable::of(schema)));
            if let Some(table) = &returned {
                self.returned = self.returned.with(&name, table.clone());
                self.state = None;
                known.push(Cte { query: rows_of(&name)?, ..cte.clone() });
            } else if names(query, &with.cte_tables, &name) {
                let message = format!("WITH query \"{name}\" does not have a RETURNING clause");
                return Err(SqlError::new(SqlState::UNSUPPORTED, message));
            }
            parts.push(ChangePart { prepared, returned });
        }
        let part = part_of(statement, Query { with: with_of(with, known), ..query.clone() });
        let main = self.prepare_part(&part, &mut types).await?;
        if matches!(&main.plan, PreparedPlan::Change(_)) && !main.changes_rows() {
            return Err(SqlError::unsupported("a change of points beside one in WITH"));
        }
        let parameters = types.into_iter().map(|known| known.unwrap_or(DataType::Utf8)).collect();
        let columns = main.columns.clone();
        let plan = PreparedPlan::WithChanges(Arc::new(WithChangesPlan { changes: parts, main }));
        Ok(Prepared { parameters, plan, ..Prepared::of_session(statement.clone(), columns) })
    }

    /// Prepares a part, and notes the types of the parameters that it names.
    async fn prepare_part(
        &mut self,
        part: &Statement,
        types: &mut Vec<Option<DataType>>,
    ) -> SqlResult<Prepared> {
        let prepared = Box::pin(self.try_prepare(part.clone(), types)).await?;
        let mut named = BTreeSet::new();
        each_expression(&*part.ast, &mut |inner| {
            if let Expr::Value(value) = inner
                && let ast::Value::Placeholder(name) = &value.value
                && let Some(number) = name.strip_prefix('$').and_then(|number| number.parse::<usize>().ok())
            {
                named.insert(number);
            }
        });
        if types.len() < prepared.parameters.len() {
            types.resize(prepared.parameters.len(), None);
        }
        for number in named {
            if let (Some(known), Some(own)) = (types.get_mut(number - 1), prepared.parameters.get(number - 1))
            {
                known.get_or_insert(own.clone());
            }
        }
        Ok(prepared)
    }

    pub(super) async fn execute_with_changes(
        &mut self,
        plan: &WithChangesPlan,
        values: Arc<[ScalarValue]>,
    ) -> SqlResult<Outcome> {
        for _ in 0..TRIES {
            let is_alone = self.transaction.is_none();
            if is_alone {
                self.transaction = Some(self.new_transaction(self.is_read_only()));
            }
            let done = self.execute_parts(plan, &values).await;
            if !is_alone {
                return done;
            }
            let transaction = self.end_transaction();
            let outcome = done?;
            let Some(transaction) = transaction else { return Ok(outcome) };
            match self.commit(transaction).await {
                Ok(()) => return Ok(outcome),
                Err(error) if error.code == SqlState::SERIALIZATION_FAILURE => {}
                Err(error) => return Err(error),
            }
        }
        let words = "could not serialize access due to concurrent update";
        Err(SqlError::new(SqlState::SERIALIZATION_FAILURE, words))
    }

    /// Executes all parts over one snapshot, and gathers what the last one gives.
    async fn execute_parts(
        &mut self,
        plan: &WithChangesPlan,
        values: &Arc<[ScalarValue]>,
    ) -> SqlResult<Outcome> {
        let snapshot = self.transaction_snapshot().await?;
        let mut returned = Vec::with_capacity(plan.changes.len());
        for part in &plan.changes {
            let outcome = self.execute_part(&part.prepared, values).await?;
            if let (Some(table), Outcome::Rows(rows)) = (&part.returned, outcome) {
                let Gathered { rows, held, .. } = self.gathered(rows).await?;
                returned.push(table.fill(rows, held));
            }
            // The parts behind it do not see what it has done.
            if let Some(transaction) = &mut self.transaction {
                transaction.snapshot = snapshot.clone();
            }
        }
        let outcome = match self.execute_part(&plan.main, values).await? {
            Outcome::Rows(rows) => {
                let Gathered { schema, rows, tag, held } = self.gathered(rows).await?;
                Outcome::Rows(Rows::kept(schema, rows, tag, held))
            }
            other => other,
        };
        drop(returned);
        if let Some(transaction) = &mut self.transaction {
            transaction.refresh().await?;
        }
        Ok(outcome)
    }

    async fn execute_part(&mut self, part: &Prepared, values: &Arc<[ScalarValue]>) -> SqlResult<Outcome> {
        let own = values[..part.parameters.len().min(values.len())].into();
        Box::pin(self.try_execute(part, own)).await
    }

    async fn gathered(&mut self, mut rows: Rows) -> SqlResult<Gathered> {
        let memory = match rows.memory() {
            Some(memory) => memory.clone(),
            None => self.server.statement_memory(&self.principal),
        };
        let mut held = memory.hold();
        let (schema, tag) = (rows.schema(), rows.tag().cloned());
        let mut batches = Vec::new();
        while let Some(batch) = rows.next().await? {
            held.charge(batch.get_array_memory_size())?;
            batches.push(batch);
        }
        Ok(Gathered { schema, rows: batches, tag, held })
    }
}

/// Whether a query of WITH changes rows.
fn changes(cte: &Cte) -> bool {
    matches!(
        &*cte.query.body,
        SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_)
    )
}

/// A part of a statement as one of its own.
fn part_of(statement: &Statement, query: Query) -> Statement {
    let ast = Arc::new(ast::Statement::Query(Box::new(query)));
    Statement { ast, shape: None, as_of: None, ..statement.clone() }
}

fn with_of(with: &With, cte_tables: Vec<Cte>) -> Option<With> {
    (!cte_tables.is_empty()).then(|| With { cte_tables, ..with.clone() })
}

/// The query of what a change has returned.
fn rows_of(name: &str) -> SqlResult<Box<Query>> {
    let mut statements = Parser::parse_sql(&SqlDialect, "SELECT * FROM t")?;
    let Some(ast::Statement::Query(mut query)) = statements.pop() else { unreachable!("it is a query") };
    let SetExpr::Select(select) = &mut *query.body else { unreachable!("it is a SELECT") };
    if let ast::TableFactor::Table { name: own, .. } = &mut select.from[0].relation {
        let parts = [RETURNED, name];
        *own =
            ObjectName(parts.map(|part| ObjectNamePart::Identifier(Ident::with_quote('"', part))).to_vec());
    }
    Ok(query)
}

/// Whether a statement names a query of its WITH.
fn names(query: &Query, all: &[Cte], name: &str) -> bool {
    let mut found = false;
    let mut look = |relation: &ObjectName| {
        let only = relation.0.first().and_then(ObjectNamePart::as_ident).filter(|_| relation.0.len() == 1);
        found |= only.is_some_and(|only| folded(only) == name);
        std::ops::ControlFlow::<()>::Continue(())
    };
    let bodies = all.iter().map(|cte| &*cte.query.body).chain([&*query.body]);
    for body in bodies {
        let _ = ast::visit_relations(body, &mut look);
    }
    found
}
