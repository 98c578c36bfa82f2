//! One execution of a plan: its snapshot, its memory, and what it runs with.

use crate::long_texts::LongTexts;
use crate::waits::Waits;
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use nyala_core::store::SnapshotRef;
use nyala_exec::{ExecutionContext, QueryMemory};
use std::sync::Arc;
use tokio::sync::OnceCell;

/// What all scans of one execution share. It travels in DataFusion's configuration, so that plans do not depend on it.
pub(crate) struct Execution {
    context: ExecutionContext,
    memory: QueryMemory,
    snapshot: Arc<OnceCell<SnapshotRef>>,
    /// The values of the parameters that the plan still names.
    values: Arc<[ScalarValue]>,
    long_texts: LongTexts,
    waits: Arc<Waits>,
}

impl Execution {
    /// `snapshot` is shared by the statements of a transaction.
    pub(crate) fn new(
        context: ExecutionContext,
        memory: QueryMemory,
        snapshot: Arc<OnceCell<SnapshotRef>>,
        values: Arc<[ScalarValue]>,
        waits: Arc<Waits>,
    ) -> Self {
        Self { context, memory, snapshot, values, long_texts: LongTexts::default(), waits }
    }

    /// The execution that a task belongs to.
    pub(crate) fn of(task: &TaskContext) -> Result<Arc<Self>> {
        let found = task.session_config().get_extension::<Self>();
        found.ok_or_else(|| DataFusionError::Internal("a scan is executed outside a statement".to_owned()))
    }

    pub(crate) fn context(&self) -> &ExecutionContext {
        &self.context
    }

    pub(crate) fn memory(&self) -> &QueryMemory {
        &self.memory
    }

    /// The values of the parameters that the plan still names.
    pub(crate) fn values(&self) -> &Arc<[ScalarValue]> {
        &self.values
    }

    /// What its session waits for.
    pub(crate) fn waits(&self) -> &Arc<Waits> {
        &self.waits
    }

    /// Texts that its scans meet.
    pub(crate) fn long_texts(&self) -> &LongTexts {
        &self.long_texts
    }

    /// What is shown: taken when the first scan begins, and the same for all of them.
    pub(crate) async fn snapshot(&self) -> nyala_core::Result<&SnapshotRef> {
        self.snapshot.get_or_try_init(|| self.context.snapshot()).await
    }
}
