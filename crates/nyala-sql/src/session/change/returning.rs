//! `RETURNING`: what a change says of the rows that it has written or deleted.

use super::parameters::ParameterTypes;
use super::preparing::Preparing;
use crate::command_tag::CommandTag;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::expression::{compiled, evaluated, planned};
use crate::identifier::{folded, quoted_name};
use crate::relation::columns::ROW_ID;
use crate::rewrite::{name_of, shown_object};
use crate::rows::Rows;
use crate::session::Outcome;
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{Schema, SchemaRef};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::sql::sqlparser::ast::{self, Ident, SelectItem, SelectItemQualifiedWildcardKind};
use nyala_exec::memory::MemoryCharge;
use std::sync::Arc;

/// What is returned of each row.
#[derive(Debug)]
pub(super) struct Returning {
    rows: DFSchema,
    expressions: Vec<Expr>,
    schema: SchemaRef,
}

/// What is returned of the rows so far, with the values of parameters.
pub(super) struct ReturnedRows {
    expressions: Vec<Arc<dyn PhysicalExpr>>,
    schema: SchemaRef,
    rows: Vec<RecordBatch>,
    /// What they take.
    held: MemoryCharge,
}

/// The rows of which something is returned.
pub(super) struct ChangedRows<'a> {
    /// What the statement calls their table.
    pub(super) alias: &'a Ident,
    pub(super) schema: &'a SchemaRef,
    /// The columns that `*` shows.
    pub(super) shown: Vec<String>,
}

pub(super) fn prepare(preparing: &mut Preparing<'_>, items: &[SelectItem]) -> SqlResult<Returning> {
    preparing.check_readable()?;
    let shown = (0..preparing.columns.columns.len())
        .map(|position| preparing.columns.name(position).to_owned())
        .filter(|name| name != ROW_ID)
        .collect();
    let rows = ChangedRows { alias: &preparing.alias, schema: &preparing.columns.schema, shown };
    of_rows(&rows, preparing.session.state(), &mut preparing.types, items)
}

/// Prepares what is returned of rows.
pub(super) fn of_rows(
    of: &ChangedRows<'_>,
    state: &SessionState,
    types: &mut ParameterTypes,
    items: &[SelectItem],
) -> SqlResult<Returning> {
    let (alias, shown) = (folded(of.alias), &of.shown);
    let rows = DFSchema::try_from_qualified_schema(&*quoted_name(&alias), of.schema)?;
    let (mut expressions, mut fields) = (Vec::new(), Vec::new());
    let mut add = |written: &ast::Expr, name: Option<String>| -> SqlResult<()> {
        let planned = match shown_object(written) {
            Some(shown) => planned(state, &shown, &rows)?,
            None => planned(state, written, &rows)?,
        };
        types.note_expression(&planned)?;
        let name = name.unwrap_or_else(|| name_of(written));
        // With the type that a column was declared with.
        let (_, field) = planned.to_field(&rows)?;
        fields.push(field.as_ref().clone().with_name(name).with_nullable(true));
        expressions.push(planned);
        Ok(())
    };
    for item in items {
        match item {
            SelectItem::UnnamedExpr(expression) => add(expression, None)?,
            SelectItem::ExprWithAlias { expr, alias } => add(expr, Some(folded(alias)))?,
            SelectItem::Wildcard(_) => all(shown, &mut add)?,
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                if crate::target::last_part(name)? != alias {
                    let message = format!("missing FROM-clause entry for table \"{name}\"");
                    return Err(SqlError::new(SqlState::UNKNOWN_TABLE, message));
                }
                all(shown, &mut add)?;
            }
            other => return Err(SqlError::unsupported(format!("RETURNING {other}"))),
        }
    }
    Ok(Returning { rows, expressions, schema: Arc::new(Schema::new(fields)) })
}

fn all(names: &[String], add: &mut impl FnMut(&ast::Expr, Option<String>) -> SqlResult<()>) -> SqlResult<()> {
    names.iter().try_for_each(|name| {
        let column = ast::Expr::Identifier(ast::Ident::with_quote('"', name));
        add(&column, Some(name.clone()))
    })
}

impl Returning {
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(super) fn compiled(
        &self,
        state: &SessionState,
        parameters: &[ScalarValue],
        held: MemoryCharge,
    ) -> SqlResult<ReturnedRows> {
        let expressions = self.expressions.iter();
        let expressions =
            expressions.map(|expression| compiled(state, expression.clone(), &self.rows, parameters));
        let expressions = expressions.collect::<SqlResult<_>>()?;
        Ok(ReturnedRows { expressions, schema: self.schema.clone(), rows: Vec::new(), held })
    }
}

impl ReturnedRows {
    /// Adds what is returned of whole rows.
    pub(super) fn add(&mut self, rows: &RecordBatch) -> SqlResult<()> {
        let batch = self.computed(rows)?;
        self.rows.push(batch);
        Ok(())
    }

    /// Computes what is returned of whole rows, and charges it: before they are written, if nothing may fail afterwards.
    pub(super) fn computed(&mut self, rows: &RecordBatch) -> SqlResult<RecordBatch> {
        let values = self.expressions.iter().zip(self.schema.fields());
        let values = values
            .map(|(expression, field)| {
                let values = evaluated(expression, rows)?;
                Ok(crate::relation::shown_as(&values, field.data_type())?)
            })
            .collect::<SqlResult<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), values, &options);
        let batch = batch.map_err(datafusion::error::DataFusionError::from)?;
        self.held.charge(batch.get_array_memory_size())?;
        Ok(batch)
    }

    /// Adds what was computed.
    pub(super) fn push(&mut self, computed: RecordBatch) {
        self.rows.push(computed);
    }

    /// Forgets the rows: the statement begins anew.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.held.shrink_to(0);
    }

    /// The answer of a statement that is done.
    pub(super) fn answer(self, tag: CommandTag) -> Outcome {
        Outcome::Rows(Rows::returned(self.schema, self.rows, tag, self.held))
    }
}
