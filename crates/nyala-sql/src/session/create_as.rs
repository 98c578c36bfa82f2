//! `CREATE TABLE … AS`: a table with the columns and the rows of a query.
//!
//! The table is created first, and filled by one INSERT. Both are committed together: nobody sees the table without its rows. In
//! a store without stages the table is dropped again if the INSERT fails, and a crash in between leaves it without rows. While it is
//! filled, its name means in the query what it meant before.

use super::Session;
use crate::command_tag::CommandTag;
use crate::create_as_execute::{executed, names_beside_query};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::identifier::folded;
use crate::names::MadeRelation;
use crate::relation::queried_column::queried_column;
use crate::session::Outcome;
use crate::session::definition::create_table::check_clauses;
use crate::session::definition::taken;
use crate::statement::Statement;
use crate::walk::each_expression;
use arrow_schema::{DataType, Field};
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{self, CreateTable, Expr};
use nyala_core::store::Feature;
use std::sync::Arc;

/// What clients are told if there is such a table already, and that is no error.
const NOTHING: &str = "CREATE TABLE AS";

impl Session {
    /// Creates a table and fills it, in a transaction of its own if there is none.
    pub(super) async fn create_table_as(
        &mut self,
        statement: &Statement,
        create: &CreateTable,
        (types, values): (&[DataType], Arc<[ScalarValue]>),
    ) -> SqlResult<CommandTag> {
        let has_stages = self.server.catalog.store().capabilities().features.has(Feature::StagedWrites);
        if self.transaction.is_some() || !(has_stages || self.concerns_temporary(&statement.ast)) {
            return self.create_filled(statement, create, (types, values)).await;
        }
        // Nothing of it was done when its query waits for a sequence.
        let can_begin_anew = self.waits.can_begin_anew();
        let (tag, transaction) = loop {
            self.transaction = Some(self.new_transaction(self.is_read_only()));
            let created = self.create_filled(statement, create, (types, values.clone())).await;
            let transaction = self.end_transaction();
            match created {
                Ok(tag) => break (tag, transaction),
                Err(error) => {
                    drop(transaction);
                    if !can_begin_anew.wait_in_statement().await? {
                        return Err(error);
                    }
                }
            }
        };
        let Some(transaction) = transaction else { return Ok(tag) };
        let place = self.new_place(&create.name, create.temporary)?;
        match self.commit(transaction).await {
            // Somebody else was first to make one of this name.
            Err(error)
                if error.code == SqlState::SERIALIZATION_FAILURE
                    && place.relation(self.relations()).is_some() =>
            {
                if create.if_not_exists {
                    Ok(CommandTag::of(NOTHING))
                } else {
                    Err(taken(&place.name))
                }
            }
            committed => committed.map(|()| tag),
        }
    }

    /// The types of the parameters of the query that a table is made of.
    pub(super) async fn parameters_of_query(
        &mut self,
        statement: &Statement,
        create: &CreateTable,
        given: &[Option<DataType>],
    ) -> SqlResult<Vec<DataType>> {
        let Some(query) = create.query.as_ref().filter(|query| executed(query).is_none()) else {
            return Ok(Vec::new());
        };
        let mut has_any = false;
        each_expression(&**query, &mut |own| {
            has_any |= matches!(own, Expr::Value(own) if matches!(own.value, ast::Value::Placeholder(_)));
        });
        match has_any {
            true => Ok(self.try_prepare(parsed(&query.to_string(), statement)?, given).await?.parameters),
            false => Ok(Vec::new()),
        }
    }

    async fn create_filled(
        &mut self,
        statement: &Statement,
        create: &CreateTable,
        (parameters, values): (&[DataType], Arc<[ScalarValue]>),
    ) -> SqlResult<CommandTag> {
        let query = create.query.as_ref().ok_or_else(|| SqlError::unsupported("a table without a query"))?;
        check_clauses(create)?;
        let place = self.new_place(&create.name, create.temporary)?;
        self.check_writable_place(&place)?;
        let tag = |rows| CommandTag { rows: Some(rows), ..CommandTag::of("SELECT") };
        if create.if_not_exists && place.relation(self.relations()).is_some() {
            return Ok(CommandTag::of(NOTHING));
        }
        let names = names_beside_query(&create.columns).filter(|_| create.constraints.is_empty());
        let names = names.ok_or_else(|| {
            SqlError::unsupported("CREATE TABLE … AS with types of columns, or constraints")
                .with_hint("Cast the columns in the query; add constraints with ALTER TABLE.")
        })?;
        let (text, types, values) = match executed(query) {
            Some((name, arguments)) => self.executed_query(&name, &arguments, &statement.text)?,
            None => {
                let types = parameters.iter().cloned().map(Some).collect();
                (query.to_string(), types, values.to_vec())
            }
        };
        let selected = self.try_prepare(parsed(&text, statement)?, &types).await?;
        if selected.parameters.len() != values.len() {
            return Err(SqlError::unsupported("a parameter in CREATE TABLE … AS")
                .with_hint("Use CREATE TABLE … AS EXECUTE of a prepared statement."));
        }
        let fields = selected.columns.iter().flat_map(|schema| schema.fields().iter());
        let mut fields: Vec<Field> = fields.map(|field| field.as_ref().clone()).collect();
        if names.len() > fields.len() {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "too many column names were specified"));
        }
        for (field, name) in fields.iter_mut().zip(names) {
            field.set_name(folded(name));
        }
        let columns = fields.iter().map(queried_column).collect::<SqlResult<Vec<_>>>()?;
        let name = place.written();
        let defined = parsed(&format!("CREATE TABLE {name} ({})", columns.join(", ")), statement)?;
        let ast::Statement::CreateTable(mut defined_ast) = Arc::unwrap_or_clone(defined.ast.clone()) else {
            return Err(SqlError::new(SqlState::INTERNAL, "the statement creates no table"));
        };
        defined_ast.table_options = create.table_options.clone();
        defined_ast.partition_by = create.partition_by.clone();
        (defined_ast.temporary, defined_ast.on_commit) = (create.temporary, create.on_commit);
        self.define(&Statement { ast: ast::Statement::CreateTable(defined_ast).into(), ..defined }).await?;
        let made = MadeRelation { database: place.database, name: place.name };
        (self.made, self.state) = (Some(Arc::new(made)), None);
        let filled = self.fill(&format!("INSERT INTO {name} {text}"), statement, (&types, values)).await;
        (self.made, self.state) = (None, None);
        match filled {
            Ok(rows) => Ok(tag(rows)),
            Err(error) if self.transaction.is_some() => Err(error),
            Err(error) => {
                // If this fails too, an empty table is left.
                let _ = self.define(&parsed(&format!("DROP TABLE {name}"), statement)?).await;
                Err(error)
            }
        }
    }

    /// Executes an INSERT, and says how many rows it wrote.
    async fn fill(
        &mut self,
        insert: &str,
        statement: &Statement,
        (types, values): (&[Option<DataType>], Vec<ScalarValue>),
    ) -> SqlResult<u64> {
        let prepared = self.try_prepare(parsed(insert, statement)?, types).await?;
        match Box::pin(self.try_execute(&prepared, values.into())).await? {
            Outcome::Done(tag) => Ok(tag.rows.unwrap_or(0)),
            _ => Err(SqlError::new(SqlState::INTERNAL, "an INSERT gives no rows")),
        }
    }
}

/// A statement that is a part of another.
fn parsed(text: &str, whole: &Statement) -> SqlResult<Statement> {
    let statement = Statement::parse(text)?.pop();
    let statement =
        statement.ok_or_else(|| SqlError::new(SqlState::INTERNAL, "the text has no statement"))?;
    Ok(Statement { text: whole.text.clone(), ..statement })
}
