//! Running plans: what a statement runs with, and the stream of its rows.

use super::{Session, restart};
use crate::error::SqlResult;
use crate::execution::Execution;
use crate::long_values::{batch_rows, rows_beside_files};
use crate::plan_parameters::with_values;
use crate::plans::renewed;
use crate::rows::Running;
use crate::statement::Statement;
use datafusion::common::ScalarValue;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
use nyala_core::before_long_work;
use nyala_core::store::{Freshness, SnapshotRef};
use nyala_exec::QueryMemory;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// What a statement runs with.
pub(crate) struct Run {
    pub(crate) running: Running,
    pub(crate) execution: Arc<Execution>,
}

impl Run {
    /// The memory of the statement.
    pub(crate) fn memory(&self) -> &QueryMemory {
        &self.running.memory
    }

    /// The same run over another snapshot.
    pub(crate) fn over(&self, snapshot: SnapshotRef) -> Arc<Execution> {
        let context = self.execution.context().clone();
        let cell = Arc::new(OnceCell::new_with(Some(snapshot)));
        let (memory, values) = (self.running.memory.clone(), self.execution.values().clone());
        Arc::new(Execution::new(context, memory, cell, values, self.execution.waits().clone()))
    }
}

impl Session {
    /// What a statement shows: in a transaction what all its statements show, otherwise what it takes itself.
    pub(crate) async fn transaction_snapshot(&mut self) -> SqlResult<Arc<OnceCell<SnapshotRef>>> {
        let snapshot = self.open_transaction().await?;
        if let Some(transaction) = &mut self.transaction {
            transaction.has_looked = true;
        }
        Ok(snapshot)
    }

    /// The same for a statement that does not look at rows.
    pub(crate) async fn open_transaction(&mut self) -> SqlResult<Arc<OnceCell<SnapshotRef>>> {
        let store = self.server.catalog.store().clone();
        let Some(transaction) = &mut self.transaction else { return Ok(Arc::default()) };
        let freshness = self.server.catalog.follow().await?;
        transaction.open(&store, freshness).await?;
        Ok(transaction.snapshot.clone())
    }

    /// Enters a statement into the list of running ones. `snapshot` is what it shows; taken when it is needed if empty.
    pub(crate) fn run(
        &mut self,
        statement: &Statement,
        freshness: Freshness,
        snapshot: Arc<OnceCell<SnapshotRef>>,
        values: Arc<[ScalarValue]>,
    ) -> SqlResult<Run> {
        let mut context = self.server.context(self.principal.clone(), freshness);
        let shown = statement.clone();
        let running = &self.server.running;
        let timeout = self.settings.statement_timeout();
        let guard = running.enter_within(timeout, move || shown.shown(), &self.database, &self.principal)?;
        self.running.note(guard.query().number());
        context.query = Some(guard.query());
        let memory = self.server.statement_memory(&self.principal);
        let locks = self.waits.begin(self.settings.lock_timeout(), self.transaction.is_none());
        let running = Running {
            guard: Arc::new(guard),
            memory: memory.clone(),
            text: statement.text.clone(),
            _locks: Arc::new(locks),
        };
        let execution = Arc::new(Execution::new(context, memory, snapshot, values, self.waits.clone()));
        Ok(Run { running, execution })
    }

    /// The rows of a plan.
    pub(crate) async fn stream(
        &mut self,
        run: &Run,
        execution: Arc<Execution>,
        planning: Planning<'_>,
        values: Arc<[ScalarValue]>,
    ) -> SqlResult<SendableRecordBatchStream> {
        // Plans that others use have no functions of a session.
        let may_wait = matches!(planning, Planning::Needed(_));
        let (plan, config) = match planning {
            Planning::Done(physical, config) => (renewed(physical, config.options())?, config.clone()),
            Planning::Needed(to_plan) => {
                before_long_work().await;
                let state = self.started_state();
                let plan = run.running.unless_stopped(to_plan.planned(state, values)).await?;
                // Plans that are kept have no long values.
                let rows = batch_rows(&plan)?;
                (plan, state.config().clone().with_batch_size(rows))
            }
        };
        let (config, memory) = (config.with_extension(execution.clone()), run.running.memory.clone());
        let rows = rows_beside_files(&plan, memory.limit_bytes()).min(config.batch_size());
        let config = config.with_batch_size(rows);
        let server = self.server.clone();
        Ok(restart::execute(plan, execution, may_wait, config.batch_size(), move |batch_rows| {
            let config = config.clone().with_batch_size(batch_rows);
            let none = (HashMap::new(), HashMap::new(), HashMap::new(), HashMap::new());
            let runtime = server.runtime(&memory)?;
            Ok(TaskContext::new(None, String::new(), config, none.0, none.1, none.2, none.3, runtime))
        })?)
    }
}

/// What is left of planning when a statement is executed.
pub(crate) enum Planning<'a> {
    /// Nothing.
    Done(&'a Arc<dyn ExecutionPlan>, &'a SessionConfig),
    Needed(ToPlan<'a>),
}

/// A logical plan.
pub(crate) struct ToPlan<'a> {
    pub(crate) plan: &'a LogicalPlan,
    pub(crate) is_optimized: bool,
}

impl ToPlan<'_> {
    async fn planned(
        &self,
        state: &SessionState,
        values: Arc<[ScalarValue]>,
    ) -> Result<Arc<dyn ExecutionPlan>, DataFusionError> {
        let plan = with_values(self.plan.clone(), values.to_vec())?;
        let plan = if self.is_optimized { plan } else { state.optimize(&plan)? };
        state.query_planner().create_physical_plan(&plan, state).await
    }
}
