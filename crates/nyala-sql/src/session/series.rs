//! Series of statements: those between two Syncs of PostgreSQL's extended protocol, and those of one text of its simple
//! protocol. As in PostgreSQL they are one transaction, unless the client begins one itself.
//!
//! The transaction begins with the first change of rows of a table that is not the last statement of its series: a
//! statement alone needs none. What cannot be a part of a transaction here (definitions, changes of points, UNDO) commits
//! what came before it.

use super::Session;
use super::change::{ChangePlan, CopyTarget};
use super::prepared::{CopyPlan, Prepared, PreparedPlan};
use crate::awaited::Awaited;
use crate::error::SqlResult;
use crate::session::command::is_undo;
use nyala_core::store::Feature;

impl Prepared {
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
    fn stands_alone(&self) -> bool {
        match &self.plan {
            PreparedPlan::Definition => true,
            PreparedPlan::Change(_) => !self.changes_rows(),
            PreparedPlan::Copy(plan) => match &**plan {
                CopyPlan::From { target, .. } => matches!(target, CopyTarget::Points(_)),
                CopyPlan::To { query, .. } => query.stands_alone(),
            },
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

    /// Commits the transaction of a series, or takes it back if a statement failed. A transaction that the client began
    /// goes on.
    ///
    /// # Errors
    /// Somebody else was first to change a row, or the store fails: nothing of the series is written.
    pub fn end_series(&mut self) -> Awaited<'_, SqlResult<()>> {
        Box::pin(async move {
            match self.transaction.take_if(|transaction| transaction.is_of_series) {
                Some(transaction) if !transaction.has_failed => self.commit(transaction).await,
                _ => Ok(()),
            }
        })
    }

    /// Commits the series so far before a statement that cannot be a part of it.
    pub(super) async fn end_series_before(&mut self, prepared: &Prepared) -> SqlResult<()> {
        if prepared.stands_alone() { self.end_series().await } else { Ok(()) }
    }
}
