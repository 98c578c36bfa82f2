//! Queries of the past: `AS OF <time>`.
//!
//! They are statements of a session of their own, whose databases, tables and rows are those of the moment, as far as the
//! store keeps its history. What their user may read is what they may read now.

use super::Session;
use super::prepared::{PastPlan, Prepared, PreparedPlan};
use super::temporary::Temporary;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::expression::{compiled, evaluated, planned};
use crate::plans::PlanCache;
use crate::relation::assign::assigned;
use crate::relation::literal::is_literal;
use crate::server::SqlServer;
use crate::session::Outcome;
use crate::statement::Statement;
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Schema};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::ast;
use nyala_core::arrays::value_at;
use nyala_core::{ErrorKind, Value};
use nyala_db::relations::DeclaredType;
use std::sync::Arc;

impl Session {
    /// Prepares a query of a moment.
    pub(super) async fn prepare_past(
        &mut self,
        statement: Statement,
        moment: &ast::Expr,
        types: &[Option<DataType>],
    ) -> SqlResult<Prepared> {
        if !matches!(*statement.ast, ast::Statement::Query(_) | ast::Statement::Explain { .. })
            || super::change::written(&statement).is_some()
        {
            return Err(SqlError::unsupported("AS OF in anything but a query"));
        }
        let moment_ns = self.moment_ns(moment)?;
        let mut then = self.at(moment_ns).await?;
        let present = Statement { as_of: None, ..statement.clone() };
        let inner = Box::pin(then.try_prepare(present, types)).await?;
        let (parameters, columns) = (inner.parameters.clone(), inner.columns.clone());
        let plan = PastPlan { moment_ns, server: then.server, inner };
        Ok(Prepared {
            parameters,
            columns,
            plan: PreparedPlan::Past(Arc::new(plan)),
            ..Prepared::of_session(statement, None)
        })
    }

    /// Executes a query of a moment; `None` if it has to be prepared again, because its moment is another one by now.
    pub(super) async fn execute_past(
        &mut self,
        statement: &Statement,
        past: &PastPlan,
        values: Arc<[ScalarValue]>,
    ) -> SqlResult<Option<Outcome>> {
        if let Some(moment) = statement.as_of.as_ref().filter(|own| !is_literal(own))
            && let moment_ns = self.moment_ns(moment)?
            && moment_ns != past.moment_ns
        {
            // A moment that depends on the time is that of the execution.
            let mut then = self.at(moment_ns).await?;
            let present = Statement { as_of: None, ..statement.clone() };
            let types: Vec<_> = past.inner.parameters.iter().cloned().map(Some).collect();
            let inner = Box::pin(then.try_prepare(present, &types)).await?;
            if inner.columns != past.inner.columns {
                return Ok(None);
            }
            return Box::pin(then.try_execute(&inner, values)).await.map(Some);
        }
        let mut then = self.over(past.server.clone());
        Box::pin(then.try_execute(&past.inner, values)).await.map(Some)
    }

    /// A session of the same user at a moment.
    async fn at(&self, moment_ns: i64) -> SqlResult<Session> {
        let now = &self.server;
        let catalog = now.catalog.at(moment_ns).await.map_err(|error| match error.kind() {
            ErrorKind::Missing => SqlError::new(SqlState::INVALID_PARAMETER, error.to_string()),
            _ => error.into(),
        })?;
        let server = SqlServer {
            catalog: Arc::new(catalog),
            writer: now.writer.clone(),
            running: now.running.clone(),
            memory: now.memory.clone(),
            statement_bytes: now.statement_bytes,
            spill: now.spill.clone(),
            clock: now.clock.clone(),
            influxql: now.influxql.clone(),
            files: now.files.clone(),
            started_ns: now.started_ns,
            plans: PlanCache::default(),
            advisory_locks: now.advisory_locks.clone(),
            sessions: now.sessions.clone(),
            changed: now.changed.clone(),
            audited: now.audited.clone(),
            denied: now.denied.clone(),
        };
        Ok(self.over(Arc::new(server)))
    }

    /// The same session over other databases.
    fn over(&self, server: Arc<SqlServer>) -> Session {
        Session {
            server,
            number: self.number,
            user: self.user.clone(),
            principal: self.principal.clone(),
            client: self.client,
            database: self.database.clone(),
            settings: self.settings.clone(),
            transaction: None,
            temporary: Temporary::default(),
            made: None,
            definitions: self.definitions,
            kept: self.kept.clone(),
            given_numbers: self.given_numbers.clone(),
            waits: self.waits.clone(),
            setup: self.setup.clone(),
            returned: self.returned.clone(),
            state: None,
            running: self.running.clone(),
            listed: None,
            savepoints: self.savepoints,
            reached_savepoint: None,
        }
    }

    /// A moment, ns since 1970.
    fn moment_ns(&mut self, moment: &ast::Expr) -> SqlResult<i64> {
        let around = self.surroundings();
        let state = self.started_state();
        let empty = DFSchema::empty();
        let expression = compiled(state, planned(state, moment, &empty)?, &empty, &[])?;
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options);
        let values = evaluated(&expression, &row.map_err(DataFusionError::from)?)?;
        let wrong = || {
            let message = format!("{moment} is no moment of the past");
            SqlError::new(SqlState::INVALID_DATETIME, message).with_hint(
                "For example, AS OF '2026-01-31T12:00:00Z', or AS OF now() - interval '5 minutes'.",
            )
        };
        // An integer is nanoseconds since 1970, as in `time_ns`.
        let declared = match values.data_type().is_integer() {
            true => DeclaredType::Int8,
            false => DeclaredType::Timestamptz,
        };
        let stored = assigned(&values, true, "AS OF", declared, &around)?;
        let stored = datafusion::arrow::compute::cast(&stored, &DataType::Int64).map_err(|_| wrong())?;
        match value_at(&stored, 0) {
            Some(Value::Int(moment_ns)) => Ok(moment_ns),
            _ => Err(wrong()),
        }
    }
}
