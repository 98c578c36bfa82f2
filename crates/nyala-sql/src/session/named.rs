//! `PREPARE` and `EXECUTE`: a statement is kept by name, and executed with values that are expressions.

use super::Session;
use super::prepared::{ExecutePlan, Prepared, PreparedPlan};
use crate::command_tag::CommandTag;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::expression::{compiled, evaluated, planned};
use crate::identifier::folded;
use crate::relation::assign::assigned;
use crate::relation::columns::data_type;
use crate::relation::declared_type::declared_type;
use crate::session::Outcome;
use crate::statement::{OfPrepare, Statement};
use crate::type_name;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Schema};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::ast::{self, ExactNumberInfo, ObjectNamePart};
use nyala_db::relations::DeclaredType;
use std::sync::Arc;

/// `EXECUTE`, as it is written.
pub(super) struct Written<'a> {
    name: String,
    arguments: &'a [ast::Expr],
    /// Whether it is only explained, and how.
    explained_by: Option<&'a ast::Statement>,
}

/// The EXECUTE that a statement is, or explains.
pub(super) fn written(statement: &ast::Statement) -> Option<SqlResult<Written<'_>>> {
    match statement {
        ast::Statement::Explain { statement: inner, .. } => {
            let own = of_execute(inner)?;
            Some(own.map(|own| Written { explained_by: Some(statement), ..own }))
        }
        other => of_execute(other),
    }
}

fn of_execute(statement: &ast::Statement) -> Option<SqlResult<Written<'_>>> {
    let ast::Statement::Execute {
        name,
        parameters,
        has_parentheses,
        immediate,
        into,
        using,
        output,
        default,
    } = statement
    else {
        return None;
    };
    let is_of_others = *immediate || *output || *default || !into.is_empty() || !using.is_empty();
    let name = name.as_ref().and_then(|name| match &name.0[..] {
        [ObjectNamePart::Identifier(name)] => Some(folded(name)),
        _ => None,
    });
    Some(match name {
        Some(name) if !is_of_others && *has_parentheses != parameters.is_empty() => {
            Ok(Written { name, arguments: parameters, explained_by: None })
        }
        _ => Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error: EXECUTE name [(value, …)]")),
    })
}

impl Session {
    /// Prepares a PREPARE: its statement is planned when it is executed.
    pub(super) fn prepare_prepare(&mut self, statement: Statement, own: &Arc<OfPrepare>) -> Prepared {
        let plan = PreparedPlan::Prepare(own.clone());
        Prepared { plan, ..Prepared::of_session(statement, None) }
    }

    /// Keeps the statement of a PREPARE.
    pub(super) async fn execute_prepare(&mut self, own: &OfPrepare) -> SqlResult<Outcome> {
        let name = &own.written.name;
        let types = own.written.types.iter().map(parameter_type).collect::<SqlResult<Vec<_>>>()?;
        self.check_name_is_free(name)?;
        let charge = self.charge_for_statement(name.len() + own.text.len())?;
        let prepared = Box::pin(self.try_prepare(own.statement.clone(), &types)).await?;
        let statement = self.statement_of(Some(prepared), true, charge);
        self.keep_statement(name.clone(), statement);
        Ok(Outcome::Done(CommandTag::of("PREPARE")))
    }

    pub(super) async fn prepare_execute(&mut self, statement: &Statement) -> SqlResult<Option<Prepared>> {
        let Some(own) = written(&statement.ast).transpose()? else { return Ok(None) };
        let named = self.statement(&own.name)?;
        let Some(inner) = &named.prepared else { return Err(empty(&own.name)) };
        let explained = match own.explained_by {
            Some(ast) => {
                let types: Vec<_> = inner.parameters.iter().cloned().map(Some).collect();
                Some(Box::pin(self.try_prepare(explaining(ast, &inner.statement), &types)).await?)
            }
            None => None,
        };
        let columns = explained.as_ref().unwrap_or(inner).columns.clone();
        let changes_rows = explained.is_none() && inner.changes_rows();
        let stands_alone = explained.is_none() && inner.stands_alone();
        let plan = PreparedPlan::Execute(Arc::new(ExecutePlan { explained, changes_rows, stands_alone }));
        Ok(Some(Prepared { plan, ..Prepared::of_session(statement.clone(), columns) }))
    }

    pub(super) async fn execute_named(
        &mut self,
        statement: &Statement,
        plan: &ExecutePlan,
    ) -> SqlResult<Outcome> {
        let own = written(&statement.ast).transpose()?;
        let own = own.ok_or_else(|| SqlError::new(SqlState::INTERNAL, "the statement is no EXECUTE"))?;
        // It may be another one by now.
        let named = self.statement(&own.name)?;
        let Some(inner) = &named.prepared else { return Err(empty(&own.name)) };
        let values = self.arguments(&own.name, own.arguments, inner, &statement.text)?;
        let executed = plan.explained.as_ref().unwrap_or(inner);
        Box::pin(self.try_execute(executed, values.into())).await
    }

    /// The query that is kept by a name, with the types and the values of its parameters.
    pub(super) fn executed_query(
        &mut self,
        name: &str,
        arguments: &[ast::Expr],
        text: &str,
    ) -> SqlResult<(String, Vec<Option<DataType>>, Vec<ScalarValue>)> {
        let named = self.statement(name)?;
        let Some(inner) = &named.prepared else { return Err(empty(name)) };
        let ast::Statement::Query(query) = &*inner.statement.ast else {
            return Err(SqlError::new(SqlState::WRONG_OBJECT, "prepared statement is not a SELECT"));
        };
        let values = self.arguments(name, arguments, inner, text)?;
        Ok((query.to_string(), inner.parameters.iter().cloned().map(Some).collect(), values))
    }

    /// The values that a statement is executed with. `text` is that of the statement that has them.
    fn arguments(
        &mut self,
        name: &str,
        arguments: &[ast::Expr],
        inner: &Prepared,
        text: &str,
    ) -> SqlResult<Vec<ScalarValue>> {
        let (given, wanted) = (arguments.len(), inner.parameters.len());
        // As in PostgreSQL, what a statement without parameters is given does not matter.
        if given != wanted && wanted > 0 {
            let message = format!("wrong number of parameters for prepared statement \"{name}\"");
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message)
                .with_detail(format!("Expected {wanted} parameters but got {given}.")));
        }
        let mut values = Vec::with_capacity(wanted);
        for (place, (argument, wanted)) in arguments.iter().zip(&inner.parameters).enumerate() {
            let value = self.argument(place, argument, wanted);
            values.push(value.map_err(|error| error.placed_in(text))?);
        }
        Ok(values)
    }

    /// The value of an argument, as its parameter needs it.
    fn argument(&mut self, place: usize, argument: &ast::Expr, wanted: &DataType) -> SqlResult<ScalarValue> {
        let around = self.surroundings();
        let state = self.started_state();
        let empty = DFSchema::empty();
        let expression = compiled(state, planned(state, argument, &empty)?, &empty, &[])?;
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options);
        let value = evaluated(&expression, &row.map_err(DataFusionError::from)?)?;
        let value: ArrayRef = match declared_of(wanted) {
            Some(declared) => {
                let stored = assigned(&value, is_unknown(argument), "", declared, &around);
                let stored = stored.map_err(|error| match error.code {
                    SqlState::TYPE_MISMATCH => refused(place, value.data_type(), wanted),
                    _ => error,
                })?;
                // As plans have it: what is stored may have another form.
                datafusion::arrow::compute::cast(&stored, &data_type(declared))
                    .map_err(DataFusionError::from)?
            }
            None => value,
        };
        let value = ScalarValue::try_from_array(&value, 0)?;
        Ok(value.cast_to(wanted)?)
    }
}

/// The statement that explains another one, as a third one would be explained.
fn explaining(explain: &ast::Statement, explained: &Statement) -> Statement {
    let mut ast = explain.clone();
    if let ast::Statement::Explain { statement, .. } = &mut ast {
        **statement = ast::Statement::clone(&explained.ast);
    }
    Statement { ast: Arc::new(ast), shape: None, ..explained.clone() }
}

/// The type of a parameter as the planner is told it; `None`: what its place asks for.
fn parameter_type(written: &ast::DataType) -> SqlResult<Option<DataType>> {
    match written {
        // How many digits it has is known with its value; what it is compared with says how many are wanted.
        ast::DataType::Numeric(ExactNumberInfo::None) | ast::DataType::Decimal(ExactNumberInfo::None) => {
            Ok(None)
        }
        ast::DataType::Custom(name, arguments) if arguments.is_empty() => {
            let name = name.to_string().to_lowercase();
            match name.strip_prefix("pg_catalog.").unwrap_or(&name) {
                "unknown" => Ok(None),
                "oid" => Ok(Some(DataType::Int64)),
                "name" | "bpchar" => Ok(Some(DataType::Utf8)),
                other => {
                    Err(SqlError::new(SqlState::UNKNOWN_OBJECT, format!("type \"{other}\" does not exist")))
                }
            }
        }
        other => Ok(Some(data_type(declared_type(other)?))),
    }
}

/// The type of a column that takes the values of a parameter.
fn declared_of(wanted: &DataType) -> Option<DeclaredType> {
    Some(match wanted {
        DataType::Boolean => DeclaredType::Bool,
        DataType::Int16 => DeclaredType::Int2,
        DataType::Int32 => DeclaredType::Int4,
        DataType::Int64 => DeclaredType::Int8,
        DataType::Float32 => DeclaredType::Float4,
        DataType::Float64 => DeclaredType::Float8,
        DataType::Decimal128(precision, scale) => {
            DeclaredType::Numeric { precision: *precision, scale: u8::try_from(*scale).ok()? }
        }
        DataType::Utf8 => DeclaredType::Text,
        DataType::Binary => DeclaredType::Bytea,
        DataType::Date32 => DeclaredType::Date,
        DataType::Timestamp(_, None) => DeclaredType::Timestamp,
        DataType::Timestamp(_, Some(_)) => DeclaredType::Timestamptz,
        _ => return None,
    })
}

/// Whether an argument is a text that becomes what it is needed as.
fn is_unknown(argument: &ast::Expr) -> bool {
    match argument {
        ast::Expr::Value(value) => value.value.clone().into_string().is_some(),
        ast::Expr::Nested(inner) => is_unknown(inner),
        _ => false,
    }
}

fn refused(place: usize, given: &DataType, wanted: &DataType) -> SqlError {
    let (given, wanted) = (type_name::of(given), type_name::of(wanted));
    let number = place + 1;
    let message =
        format!("parameter ${number} of type {given} cannot be coerced to the expected type {wanted}");
    SqlError::new(SqlState::TYPE_MISMATCH, message)
        .with_hint("You will need to rewrite or cast the expression.")
}

/// A protocol can prepare an empty text, which nothing can execute but its own messages.
fn empty(name: &str) -> SqlError {
    SqlError::unsupported(format!("EXECUTE of the empty statement \"{name}\""))
}
