//! `CREATE TABLE … AS`: a table with the columns and the rows of a query.
//!
//! The table is created first, and filled by one INSERT, whose rows become visible together. If that fails, the table is
//! dropped again; a crash in between leaves it without rows. In a transaction both are committed together.

use super::Session;
use crate::command_tag::CommandTag;
use crate::create_as_execute::executed;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::session::Outcome;
use crate::session::definition::create_table::check_clauses;
use crate::statement::Statement;
use arrow_schema::{DataType, Field, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{self, CreateTable, Ident};
use std::sync::Arc;

impl Session {
    /// Creates a table and fills it.
    pub(super) async fn create_table_as(
        &mut self,
        statement: &Statement,
        create: &CreateTable,
    ) -> SqlResult<CommandTag> {
        let query = create.query.as_ref().ok_or_else(|| SqlError::unsupported("a table without a query"))?;
        check_clauses(create)?;
        let place = self.writable_place(&create.name)?;
        let tag = |rows| CommandTag { rows: Some(rows), ..CommandTag::of("SELECT") };
        if create.if_not_exists && place.relation(self.relations()).is_some() {
            return Ok(tag(0));
        }
        if !create.columns.is_empty() || !create.constraints.is_empty() {
            return Err(SqlError::unsupported("CREATE TABLE (columns) AS")
                .with_hint("Name and cast the columns in the query."));
        }
        let (text, types, values) = match executed(query) {
            Some((name, arguments)) => self.executed_query(&name, &arguments, &statement.text)?,
            None => (query.to_string(), Vec::new(), Vec::new()),
        };
        let selected = self.try_prepare(parsed(&text, statement)?, &types).await?;
        if selected.parameters.len() != values.len() {
            return Err(SqlError::unsupported("a parameter in CREATE TABLE … AS")
                .with_hint("Use CREATE TABLE … AS EXECUTE of a prepared statement."));
        }
        let fields = selected.columns.iter().flat_map(|schema| schema.fields().iter());
        let fields: Vec<&Field> = fields.map(|field| field.as_ref()).collect();
        let mut columns = Vec::with_capacity(fields.len());
        for field in fields {
            let name = Ident::with_quote('"', field.name());
            columns.push(format!("{name} {}", declared_type(&name, field.data_type())?));
        }
        let name = &create.name;
        let defined = parsed(&format!("CREATE TABLE {name} ({})", columns.join(", ")), statement)?;
        let ast::Statement::CreateTable(mut defined_ast) = Arc::unwrap_or_clone(defined.ast.clone()) else {
            return Err(SqlError::new(SqlState::INTERNAL, "the statement creates no table"));
        };
        defined_ast.table_options = create.table_options.clone();
        defined_ast.partition_by = create.partition_by.clone();
        self.define(&Statement { ast: ast::Statement::CreateTable(defined_ast).into(), ..defined }).await?;
        match self.fill(&format!("INSERT INTO {name} {text}"), statement, (&types, values)).await {
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

/// The type of a column that holds what a query gives.
fn declared_type(name: &Ident, data_type: &DataType) -> SqlResult<String> {
    Ok(match data_type {
        DataType::Boolean => "boolean".to_owned(),
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => "smallint".to_owned(),
        DataType::Int32 | DataType::UInt16 => "integer".to_owned(),
        DataType::Int64 | DataType::UInt32 => "bigint".to_owned(),
        DataType::UInt64 => "numeric(20,0)".to_owned(),
        DataType::Float16 | DataType::Float32 => "real".to_owned(),
        DataType::Float64 => "double precision".to_owned(),
        DataType::Decimal128(precision, scale) | DataType::Decimal64(precision, scale) => {
            format!("numeric({precision},{scale})")
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => "text".to_owned(),
        DataType::Dictionary(_, values) => return declared_type(name, values),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "bytea".to_owned(),
        DataType::Date32 | DataType::Date64 => "date".to_owned(),
        DataType::Timestamp(TimeUnit::Nanosecond | TimeUnit::Microsecond | TimeUnit::Millisecond, zone) => {
            if zone.is_some() { "timestamptz" } else { "timestamp" }.to_owned()
        }
        other => {
            return Err(SqlError::unsupported(format!("a column of type {other}"))
                .with_hint(format!("Cast column {name} of the query.")));
        }
    })
}
