//! Beginning and ending a change: its snapshot, the sink of its rows, and what happens if somebody else was first.

use super::insert::{Conflict, Source};
use super::met_keys::MetKeys;
use super::sink::{FULL_MAX, Sink};
use super::work::{Chunks, Work, indexes_of};
use super::{Change, ChangeKind, ChangePlan, preparing};
use crate::command_tag::CommandTag;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::relation::altered_since;
use crate::relation::rules::{Numbering, Rules, need_plans};
use crate::rows::Rows;
use crate::session::Outcome;
use crate::session::definition::table_of;
use crate::session::{Planning, Run, Session};
use crate::statement::Statement;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast;
use nyala_core::store::{Feature, SnapshotRef, Stage, StoreRef};
use nyala_core::{ErrorKind, before_long_work};
use nyala_db::relations::{Index, Relation, TEMPORARY};
use nyala_db::users::Privilege;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OnceCell, OwnedMutexGuard};
use tokio::time::Instant;

/// How often a statement begins anew because somebody else was first. From the second time on it is alone in its table, so
/// that only transactions, and other servers, can be first.
const TRIES: usize = 64;

/// How long a statement waits before it begins anew while memory is full.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// Waits while memory is full, for a statement of which nothing was done.
struct FullMemory {
    until: Option<Instant>,
    pause: Duration,
}

impl Default for FullMemory {
    fn default() -> Self {
        Self { until: None, pause: PAUSE }
    }
}

impl FullMemory {
    /// Waits until the statement may begin anew; fails if it has another error, or has waited for too long.
    async fn wait_after(&mut self, error: SqlError) -> SqlResult<()> {
        let now = Instant::now();
        if error.code != SqlState::TOO_FEW_RESOURCES || now >= *self.until.get_or_insert(now + FULL_MAX) {
            return Err(error);
        }
        before_long_work().await;
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        Ok(())
    }
}

/// How an execution ended.
enum Attempt {
    Done(Outcome),
    /// A table was altered since the statement was planned.
    Stale,
    /// Somebody else was first to change one of its rows.
    Beaten,
}

impl Session {
    /// Executes a change; `None` if a table was altered since it was planned.
    pub(crate) async fn execute_change(
        &mut self,
        statement: &Statement,
        plan: &ChangePlan,
        values: Arc<[ScalarValue]>,
    ) -> SqlResult<Option<Outcome>> {
        let is_temporary = matches!(plan, ChangePlan::Rows(change) if change.relation.database == TEMPORARY);
        if self.is_read_only() && !is_temporary {
            let command = preparing::written(statement).map(|own| preparing::first_word(own.statement));
            self.check_writable(&command.unwrap_or_default())?;
        }
        self.principal().admit_write()?;
        let mut full = FullMemory::default();
        // In a transaction only its queries can.
        let can_begin_anew = self.transaction.is_none().then(|| self.waits.can_begin_anew());
        let outcome = loop {
            let outcome = match plan {
                ChangePlan::Rows(change) => self.change_rows(statement, change, values.clone()).await,
                ChangePlan::Points(change) => {
                    before_long_work().await;
                    self.change_points(statement, change, values.clone()).await
                }
            };
            match outcome {
                // Nothing of it was done. A transaction has waited for as long as it can.
                Err(error) => {
                    let Some(can_begin_anew) = &can_begin_anew else { return Err(error) };
                    if !can_begin_anew.wait_in_statement().await? {
                        full.wait_after(error).await?;
                    }
                }
                Ok(outcome) => break outcome,
            }
        };
        drop(can_begin_anew);
        if let ChangePlan::Rows(change) = plan
            && outcome.is_some()
        {
            self.end_rows_of(&change.relation).await?;
        }
        let tag = match &outcome {
            Some(Outcome::Done(tag)) => Some(tag),
            Some(Outcome::Rows(rows)) => rows.tag(),
            _ => None,
        };
        if let Some(rows) = tag.and_then(|tag| tag.rows).filter(|_| !statement.is_dry_run) {
            let bytes = match self.principal().counts_bytes() {
                true => statement.shown().len() + values.iter().map(ScalarValue::size).sum::<usize>(),
                false => 0,
            };
            self.principal().has_written(rows, bytes as u64);
        }
        if let ChangePlan::Rows(change) = plan
            && outcome.is_some()
            && !statement.is_dry_run
            && !matches!(change.kind, ChangeKind::Insert(_))
        {
            // As of points: what replaces or removes, not what is written.
            self.note_audited(statement, self.rights_of(&change.relation.database));
        }
        Ok(outcome)
    }

    async fn change_rows(
        &mut self,
        statement: &Statement,
        change: &Arc<Change>,
        values: Arc<[ScalarValue]>,
    ) -> SqlResult<Option<Outcome>> {
        let database = &change.relation.database;
        if !self.may(Privilege::Write, database) {
            let message = format!("permission denied for table \"{}\"", change.relation.name);
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        if statement.is_dry_run {
            return self.count_rows(statement, change, &values).await;
        }
        if self.transaction.is_some() {
            return match self.change_in_transaction(statement, change, &values).await? {
                Attempt::Done(outcome) => Ok(Some(outcome)),
                _ => Ok(None),
            };
        }
        for attempt in 0..TRIES {
            match self.change_alone(statement, change, &values, attempt > 0).await? {
                Attempt::Done(outcome) => return Ok(Some(outcome)),
                Attempt::Stale => return Ok(None),
                Attempt::Beaten => {}
            }
        }
        let words = "could not serialize access due to concurrent update";
        Err(SqlError::new(SqlState::SERIALIZATION_FAILURE, words))
    }

    /// Counts what a change would change: it is made in a stage that nobody ever sees.
    async fn count_rows(
        &mut self,
        statement: &Statement,
        change: &Change,
        values: &Arc<[ScalarValue]>,
    ) -> SqlResult<Option<Outcome>> {
        refuse_dry_run_in(self.transaction.is_some())?;
        let store = self.server.catalog.store().clone();
        let shown = statement.clone();
        let _shared = self.share_table(&change.relation.lock, move || shown.shown()).await?;
        let freshness = self.server.catalog.follow().await?;
        if !self.is_current(change) {
            return Ok(None);
        }
        let run = self.run(statement, freshness, Arc::default(), values.clone())?;
        let mut sink = Sink::of_statement(stage_of(&store, change).await?);
        match self.perform(statement, change, values, run, &mut sink).await? {
            Outcome::Done(CommandTag { rows: Some(rows), .. }) => {
                Ok(Some(Outcome::Rows(Rows::counted(rows))))
            }
            _ => Err(SqlError::new(SqlState::INTERNAL, "nothing was counted")),
        }
    }

    /// Executes a change that is a transaction of its own.
    async fn change_alone(
        &mut self,
        statement: &Statement,
        change: &Change,
        values: &Arc<[ScalarValue]>,
        is_alone: bool,
    ) -> SqlResult<Attempt> {
        let store = self.server.catalog.store().clone();
        let (lock, shown) = (&change.relation.lock, statement.clone());
        let (_shared, _alone) = match is_alone {
            false => (Some(self.share_table(lock, move || shown.shown()).await?), None),
            true => (None, Some(self.hold_table(lock, move || shown.shown()).await?)),
        };
        let freshness = self.server.catalog.follow().await?;
        if !self.is_current(change) {
            return Ok(Attempt::Stale);
        }
        let run = self.run(statement, freshness, Arc::default(), values.clone())?;
        let mut sink = match change.reads_rows() {
            true => Sink::of_statement(stage_of(&store, change).await?),
            false => Sink::Store(store),
        };
        let outcome = self.perform(statement, change, values, run, &mut sink).await?;
        match sink.commit().await {
            Ok(()) => Ok(Attempt::Done(outcome)),
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(Attempt::Beaten),
            Err(error) => Err(error.into()),
        }
    }

    /// Executes a change that is a part of a transaction.
    async fn change_in_transaction(
        &mut self,
        statement: &Statement,
        change: &Change,
        values: &Arc<[ScalarValue]>,
    ) -> SqlResult<Attempt> {
        let shown = statement.clone();
        let _shared = self.share_table(&change.relation.lock, move || shown.shown()).await?;
        let freshness = self.server.catalog.follow().await?;
        if !self.is_current(change) {
            return Ok(Attempt::Stale);
        }
        let snapshot = self.transaction_snapshot().await?;
        self.check_whole(&change.relation, &snapshot)?;
        let mut sink = Sink::of_transaction(self.transaction_stage()?);
        let mut full = FullMemory::default();
        let outcome = loop {
            let run = self.run(statement, freshness, snapshot.clone(), values.clone())?;
            match self.perform(statement, change, values, run, &mut sink).await {
                // Nothing of it is in the stage.
                Err(error) if sink.is_untouched() => full.wait_after(error).await?,
                outcome => break outcome?,
            }
        };
        drop(sink);
        if let Some(transaction) = &mut self.transaction {
            transaction.refresh().await?;
        }
        Ok(Attempt::Done(outcome))
    }

    /// Fails if the transaction began before the table, a column or an index was there: its stage has not got the rows, their
    /// values, or entries of them.
    pub(super) fn check_whole(&self, relation: &Relation, snapshot: &OnceCell<SnapshotRef>) -> SqlResult<()> {
        let (Some(table), Some(snapshot)) = (relation.table(), snapshot.get()) else { return Ok(()) };
        let relations = self.server.catalog.relations();
        if snapshot.sequence() < relations.whole_since(table.table, table.columns.iter().map(|own| own.id)) {
            return Err(altered_since(&relation.name));
        }
        let is_older = |index: &Index| {
            relations.index_since(index.table).is_some_and(|since| snapshot.sequence() < since)
        };
        match table.indexes.iter().any(is_older) {
            true => {
                let words = format!("table \"{}\" got an index since the transaction began", relation.name);
                Err(SqlError::new(SqlState::SERIALIZATION_FAILURE, words))
            }
            false => Ok(()),
        }
    }

    /// The stage of the transaction, for a statement that writes to it.
    pub(in crate::session) fn transaction_stage(&self) -> SqlResult<OwnedMutexGuard<Box<dyn Stage>>> {
        let stage = self.transaction.as_ref().and_then(|transaction| transaction.stage.clone());
        let stage = stage.and_then(|stage| stage.try_lock_owned().ok());
        stage.ok_or_else(|| {
            let capabilities = self.server.catalog.store().capabilities();
            capabilities.need(Feature::StagedWrites).err().map_or_else(
                || SqlError::new(SqlState::INTERNAL, "the transaction has no stage"),
                |error| SqlError::from(error).with_hint("Transactions can only read in this store."),
            )
        })
    }

    /// Whether the table is as it was when the change was planned.
    fn is_current(&self, change: &Change) -> bool {
        let relation = &change.relation;
        let found = self.relations().find(&relation.database, &relation.name);
        found.is_some_and(|found| found.definition == relation.definition)
    }

    /// Computes rows and writes them into a sink.
    async fn perform(
        &mut self,
        statement: &Statement,
        change: &Change,
        values: &Arc<[ScalarValue]>,
        run: Run,
        sink: &mut Sink,
    ) -> SqlResult<Outcome> {
        let (catalog, source) = (self.server.catalog.clone(), self.number_source());
        let table = table_of(&change.relation)?;
        let around = self.surroundings();
        let capabilities = catalog.store().capabilities();
        let state = match need_plans(table) || change.needs_expressions() {
            true => {
                let state = self.started_state();
                Some(&*state)
            }
            false => None,
        };
        let (name, columns) = (&*change.relation.name, change.columns.clone());
        let numbering = Some(Numbering { source, database: &change.relation.database });
        let rules = Rules::of(name, table, columns, state, around, capabilities, numbering)?;
        let returning = match (&change.returning, state) {
            (Some(returning), Some(state)) => Some(returning.compiled(state, values, run.memory().hold())?),
            _ => None,
        };
        let conflict = match (&change.kind, state) {
            (
                ChangeKind::Insert(super::insert::Insert { conflict: Conflict::Update(update), .. }),
                Some(state),
            ) => Some(update.compiled(state, values)?),
            _ => None,
        };
        let held = run.memory().hold();
        let mut work = Work {
            catalog: &catalog,
            table,
            rules: &rules,
            parameters: values,
            run: &run,
            returning,
            conflict,
            sink,
            indexes: indexes_of(table, &rules),
            changed: 0,
            held,
            met: MetKeys::new(run.memory()),
        };
        let mut seen = BTreeSet::new();
        match &change.kind {
            ChangeKind::Insert(insert) => match &insert.source {
                Source::Literals => {
                    let written = preparing::written(statement).map(|own| own.statement);
                    let Some(ast::Statement::Insert(statement)) = written else {
                        return Err(SqlError::new(SqlState::INTERNAL, "the statement is no INSERT"));
                    };
                    work.insert_literals(insert, statement).await?;
                }
                Source::Defaults => work.insert(insert, Vec::new(), 1).await?,
                Source::Query { selection, is_unknown } => {
                    let mut chunks = self.chunks(&work, selection, values, false).await?;
                    loop {
                        let batches = chunks.next().await?;
                        if batches.is_empty() {
                            break;
                        }
                        // Rows that do not fit into one batch have to become visible together all the same.
                        if !chunks.has_ended()
                            && let Sink::Store(store) = &*work.sink
                        {
                            *work.sink = Sink::of_statement(stage_of(&store.clone(), change).await?);
                        }
                        work.insert_batches(insert, is_unknown, &batches).await?;
                    }
                }
            },
            ChangeKind::ByKey(by_key, _) => work.change_by_key(by_key).await?,
            ChangeKind::Update(update) => {
                let mut chunks = self.chunks(&work, &update.selection, values, update.is_whole).await?;
                loop {
                    let batches = chunks.next().await?;
                    if batches.is_empty() {
                        break;
                    }
                    work.update_batches(update, &mut seen, &batches).await?;
                }
            }
            ChangeKind::Merge(merge) => {
                let mut chunks = self.chunks(&work, &merge.selection, values, false).await?;
                loop {
                    let batches = chunks.next().await?;
                    if batches.is_empty() {
                        break;
                    }
                    work.merge_batches(merge, &mut seen, &batches).await?;
                }
            }
            ChangeKind::Delete(delete) => {
                let mut chunks = self.chunks(&work, &delete.selection, values, false).await?;
                loop {
                    let batches = chunks.next().await?;
                    if batches.is_empty() {
                        break;
                    }
                    work.delete_batches(delete, &mut seen, &batches).await?;
                }
            }
        }
        let tag = CommandTag { rows: Some(work.changed), ..CommandTag::of(change.command()) };
        Ok(match work.returning {
            Some(returned) => returned.answer(tag),
            None => Outcome::Done(tag),
        })
    }

    /// The rows of the query of a change, over what the change sees.
    async fn chunks<'a>(
        &mut self,
        work: &Work<'a>,
        selection: &super::selection::Selection,
        values: &Arc<[ScalarValue]>,
        is_whole: bool,
    ) -> SqlResult<Chunks<'a>> {
        let execution = match work.sink.read_by_statement() {
            Some(stage) => work.run.over(stage.snapshot().await?),
            None => work.run.execution.clone(),
        };
        let planning = Planning::Needed(selection.to_plan());
        let stream = self.stream(work.run, execution, planning, values.clone()).await?;
        Ok(Chunks::of(stream, work.run, is_whole).within(work.sink.wait_max()))
    }
}

impl Change {
    /// Whether expressions are computed besides the query.
    fn needs_expressions(&self) -> bool {
        let is_update = matches!(
            &self.kind,
            ChangeKind::Insert(super::insert::Insert { conflict: Conflict::Update(_), .. })
        );
        self.returning.is_some() || is_update
    }
}

/// A stage of a transaction cannot be emptied again.
pub(super) fn refuse_dry_run_in(transaction: bool) -> SqlResult<()> {
    match transaction {
        true => Err(SqlError::unsupported("DRY RUN inside a transaction")
            .with_hint("Execute it before BEGIN or after COMMIT.")),
        false => Ok(()),
    }
}

async fn stage_of(store: &StoreRef, change: &Change) -> SqlResult<Box<dyn Stage>> {
    store.stage().await.map_err(|error| match error.kind() {
        ErrorKind::Unsupported => {
            let error = SqlError::from(error);
            let hint = match change.reads_rows() {
                true => format!("{} reads rows and writes them if they did not change.", change.command()),
                false => "The rows do not fit into one batch: insert fewer at once.".to_owned(),
            };
            error.with_hint(hint)
        }
        _ => error.into(),
    })
}
