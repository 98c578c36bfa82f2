//! Series of statements: those between two Syncs of PostgreSQL's extended protocol, and those of one text of its simple
//! protocol. As in PostgreSQL they are one transaction, unless the client begins one itself.
//!
//! The transaction begins with the first statement that has something to take back, or that holds until the end (a change of rows
//! of a table, a setting, a cursor WITH HOLD), and that is not the last one of its series: a statement alone needs none. What
//! cannot be a part of a transaction here (definitions, changes of points, UNDO) commits what came before it.

use super::Session;
use super::change::{ChangePlan, CopyTarget};
use super::prepared::{CopyPlan, CursorPlan, Prepared, PreparedPlan};
use crate::awaited::Awaited;
use crate::error::SqlResult;
use crate::session::command::{is_undo, sets};
use nyala_core::store::Feature;

impl Prepared {
    /// Whether the transaction of its series begins with it at the latest, unless it is the last statement.
    pub fn begins_series(&self) -> bool {
        match &self.plan {
            PreparedPlan::Session => self.changes_settings(),
            PreparedPlan::Cursor(plan) => matches!(&**plan, CursorPlan::Declare(own, _) if own.is_holdable),
            _ => self.changes_rows(),
        }
    }

    /// Whether it changes settings of the session; `SELECT set_config(…)` gives a row beside.
    pub fn changes_settings(&self) -> bool {
        matches!(self.plan, PreparedPlan::Session) && sets(&self.statement.ast)
    }

    /// Whether it changes rows of a table, which a transaction can contain.
    pub fn changes_rows(&self) -> bool {
        match &self.plan {
            PreparedPlan::Change(plan) => matches!(plan, ChangePlan::Rows(_)) && !self.statement.is_dry_run,
            PreparedPlan::Copy(plan) => match &**plan {
                CopyPlan::From { target, .. } => matches!(target, CopyTarget::Rows(_)),
                CopyPlan::To { query, .. } => query.changes_rows(),
            },
            PreparedPlan::WithChanges(_) => true,
            PreparedPlan::Execute(plan) => plan.changes_rows,
            PreparedPlan::CurrentOf(plan) => plan.inner.changes_rows(),
            _ => false,
        }
    }

    /// Whether it does something that no transaction can contain.
    pub(super) fn stands_alone(&self) -> bool {
        match &self.plan {
            PreparedPlan::Definition => true,
            PreparedPlan::Change(_) => !self.changes_rows(),
            PreparedPlan::Copy(plan) => match &**plan {
                CopyPlan::From { target, .. } => matches!(target, CopyTarget::Points(_)),
                CopyPlan::To { query, .. } => query.stands_alone(),
            },
            PreparedPlan::Execute(plan) => plan.stands_alone,
            PreparedPlan::Session => is_undo(&self.statement.ast),
            _ => false,
        }
    }
}

impl Session {
    /// Begins the transaction of a series, unless there is a transaction already.
    pub fn begin_series(&mut self) {
        let has_stages = self.server.catalog.store().capabilities().need(Feature::StagedWrites).is_ok();
        if self.transaction.is_none() && has_stages {
            let mut transaction = self.new_transaction(self.settings.is_read_only());
            transaction.is_of_series = true;
            self.transaction = Some(transaction);
        }
    }

    /// Whether there is a transaction that ends with its series.
    pub fn is_in_series(&self) -> bool {
        self.transaction.as_ref().is_some_and(|transaction| transaction.is_of_series)
    }

    /// Commits the transaction of a series, or takes it back if a statement failed. A transaction that the client began
    /// goes on.
    ///
    /// # Errors
    /// Somebody else was first to change a row, or the store fails: nothing of the series is written.
    pub fn end_series(&mut self) -> Awaited<'_, SqlResult<()>> {
        Box::pin(async move {
            if self.is_in_series() {
                self.finish_transaction().await?;
            }
            Ok(())
        })
    }

    /// Takes back the transaction of a series that was broken off. Unlike the end of a failed one it waits for nothing.
    pub fn abandon_series(&mut self) {
        if self.is_in_series() {
            self.take_back();
        }
    }

    /// Commits the series so far before a statement that cannot be a part of it.
    pub(super) async fn end_series_before(&mut self, prepared: &Prepared) -> SqlResult<()> {
        if prepared.stands_alone() { self.end_series().await } else { Ok(()) }
    }
}
