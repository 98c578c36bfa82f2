//! Executing plans: what a statement runs with, and the stream of its rows.

use super::Session;
use crate::error::SqlResult;
use crate::execution::Execution;
use crate::outcome::Outcome;
use crate::prepared::{Prepared, with_values};
use crate::rows::{Rows, Running};
use crate::server::SqlServer;
use datafusion::common::ScalarValue;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::execute_stream;
use nyala_core::store::{Freshness, SnapshotRef};
use nyala_exec::QueryMemory;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
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
        Arc::new(Execution::new(context, self.running.memory.clone(), cell))
    }
}

impl Session {
    pub(super) async fn execute_query(
        &mut self,
        prepared: &Prepared,
        plan: LogicalPlan,
        is_optimized: bool,
        values: Vec<ScalarValue>,
    ) -> SqlResult<Outcome> {
        let freshness = self.server.catalog.follow().await?;
        let snapshot = self.transaction_snapshot().await?;
        let run = self.run(prepared, freshness, snapshot)?;
        let values = prepared.bound(values)?;
        let rows = self.stream(&run, run.execution.clone(), plan, is_optimized, values).await?;
        Ok(Outcome::Rows(Rows::of(rows, run.running)))
    }

    /// What a statement shows: in a transaction what all its statements show, otherwise what it takes itself.
    pub(crate) async fn transaction_snapshot(&mut self) -> SqlResult<Arc<OnceCell<SnapshotRef>>> {
        let store = self.server.catalog.store().clone();
        let Some(transaction) = &mut self.transaction else { return Ok(Arc::default()) };
        let freshness = self.server.catalog.follow().await?;
        transaction.open(&store, freshness).await?;
        Ok(transaction.snapshot.clone())
    }

    /// Enters a statement into the list of running ones. `snapshot` is what it shows; taken when it is needed if empty.
    pub(crate) fn run(
        &mut self,
        prepared: &Prepared,
        freshness: Freshness,
        snapshot: Arc<OnceCell<SnapshotRef>>,
    ) -> SqlResult<Run> {
        let mut context = self.server.context(self.principal.clone(), freshness);
        let shown = prepared.statement.clone();
        let guard = self.server.running.enter(move || shown.shown(), &self.database, &self.principal)?;
        self.running.number.store(guard.query().number(), Ordering::Release);
        context.query = Some(guard.query());
        let memory = self.server.statement_memory();
        let running = Running { guard, memory: memory.clone(), text: prepared.statement.text.clone() };
        let execution = Arc::new(Execution::new(context, memory, snapshot));
        Ok(Run { running, execution })
    }

    /// The rows of a plan.
    pub(crate) async fn stream(
        &mut self,
        run: &Run,
        execution: Arc<Execution>,
        plan: LogicalPlan,
        is_optimized: bool,
        values: Vec<ScalarValue>,
    ) -> SqlResult<SendableRecordBatchStream> {
        let state = self.state();
        state.execution_props_mut().query_execution_start_time = None;
        state.mark_start_execution();
        let state = &*state;
        let planned = async {
            let plan = with_values(plan, values)?;
            let plan = if is_optimized { plan } else { state.optimize(&plan)? };
            state.query_planner().create_physical_plan(&plan, state).await
        };
        let plan = run.running.unless_stopped(planned).await?;
        let task = Arc::new(TaskContext::new(
            None,
            String::new(),
            state.config().clone().with_extension(execution),
            HashMap::new(),
            HashMap::new(),
            HashMap::new(),
            HashMap::new(),
            SqlServer::runtime(&run.running.memory),
        ));
        Ok(execute_stream(plan, task)?)
    }
}
