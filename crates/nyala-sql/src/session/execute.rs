//! Executing a prepared statement, planned anew where tables, rights or the zone are not what they were.

use super::prepared::PreparedPlan;
use super::{Outcome, Prepared, Session};
use crate::awaited::Awaited;
use crate::contained::contained;
use crate::error::{SqlError, SqlResult, SqlState};
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast;
use nyala_core::span;
use nyala_core::span::Instrument;
use nyala_db::users::Principal;
use std::pin::pin;
use std::sync::Arc;

/// How often a statement is planned again because tables were altered meanwhile.
const TRIES: usize = 16;

impl Session {
    /// Executes a prepared statement with values for its parameters.
    ///
    /// # Errors
    /// What goes wrong before the first row. If the session is in a transaction, the transaction fails.
    pub fn execute<'a>(
        &'a mut self,
        prepared: &'a Prepared,
        values: Vec<ScalarValue>,
    ) -> Awaited<'a, SqlResult<Outcome>> {
        Box::pin(async move {
            self.check_not_failed(&prepared.statement)?;
            self.learn_grants()?;
            self.end_series_before(prepared).await?;
            self.note_setup();
            let executed = contained(self.try_execute(prepared, values.into()));
            let executed = pin!(executed).instrument(span!("execute")).await;
            self.noted(&prepared.statement.text, executed)
        })
    }

    pub(super) async fn try_execute(
        &mut self,
        prepared: &Prepared,
        values: Arc<[ScalarValue]>,
    ) -> SqlResult<Outcome> {
        let mut renewed: Option<Prepared> = None;
        for _ in 0..TRIES {
            let current = renewed.as_ref().unwrap_or(prepared);
            let is_stale = current.depends_on_tables()
                && (current.version != self.relations_version()
                    || current.zone.is_some_and(|zone| zone != self.zone())
                    || !self.is_still_granted(current)
                    || !self.has_measurements(current).await?);
            if !is_stale {
                if let Some(transaction) = &mut self.transaction {
                    transaction.has_begun |= !matches!(current.plan, PreparedPlan::Session);
                }
                let done = match &current.plan {
                    PreparedPlan::Session => Some(self.execute_command(&current.statement).await?),
                    PreparedPlan::Definition => Some(Outcome::Done(match &*current.statement.ast {
                        ast::Statement::CreateTable(create) if create.query.is_some() => {
                            let values = (&current.parameters[..], values.clone());
                            Box::pin(self.create_table_as(&current.statement, create, values)).await?
                        }
                        _ => self.define(&current.statement).await?,
                    })),
                    PreparedPlan::Query { .. } | PreparedPlan::Known { .. } => {
                        Some(self.execute_query(current, values.clone()).await?)
                    }
                    PreparedPlan::LookUp(look_up) => {
                        Some(self.execute_look_up(look_up, current.bound(&values, self.zone())?).await?)
                    }
                    PreparedPlan::Cursor(plan) => {
                        Some(Box::pin(self.execute_cursor(current, plan, values.clone())).await?)
                    }
                    PreparedPlan::CurrentOf(plan) => {
                        Some(Box::pin(self.execute_current_of(plan, values.clone())).await?)
                    }
                    PreparedPlan::WithChanges(plan) => {
                        Some(Box::pin(self.execute_with_changes(plan, values.clone())).await?)
                    }
                    PreparedPlan::Prepare(own) => Some(Box::pin(self.execute_prepare(own)).await?),
                    PreparedPlan::Execute(plan) => {
                        Some(Box::pin(self.execute_named(&current.statement, plan)).await?)
                    }
                    PreparedPlan::Copy(plan) => Box::pin(self.execute_copy(&current.statement, plan)).await?,
                    PreparedPlan::Past(past) => {
                        self.execute_past(&current.statement, past, values.clone()).await?
                    }
                    PreparedPlan::Change(change) => {
                        self.execute_change(
                            &current.statement,
                            &change.clone(),
                            current.bound(&values, self.zone())?,
                        )
                        .await?
                    }
                };
                // Otherwise a table was altered after the statement was planned.
                if let Some(outcome) = done {
                    return Ok(outcome);
                }
            }
            let types: Vec<_> = prepared.parameters.iter().cloned().map(Some).collect();
            let again = Box::pin(self.try_prepare(prepared.statement.clone(), &types)).await?;
            if !again.has_columns_of(prepared) {
                return Err(SqlError::unsupported("a prepared statement whose answer has got other columns"));
            }
            renewed = Some(again);
        }
        let words = "the tables of the statement are being altered all the time";
        Err(SqlError::new(SqlState::SERIALIZATION_FAILURE, words))
    }

    /// Whether the measurements of a plan are what they were.
    async fn has_measurements(&self, prepared: &Prepared) -> SqlResult<bool> {
        for table in &*prepared.measurements {
            if !table.is_usable(&self.server.catalog).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the user is the same, unchanged, as when a statement was planned. A plan knows tables that the user could
    /// read then.
    fn is_still_granted(&self, prepared: &Prepared) -> bool {
        match (&prepared.principal, &self.principal) {
            (Some(Principal::User(then)), Principal::User(now)) => then == now,
            _ => true,
        }
    }
}
