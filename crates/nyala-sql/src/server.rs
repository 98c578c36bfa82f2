//! What all sessions share.

use crate::memory::SharePool;
use crate::yielding::Yielding;
use datafusion::execution::SessionState;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::SessionStateBuilder;
use nyala_core::env::ClockRef;
use nyala_core::memory::MemoryBudget;
use nyala_core::store::Freshness;
use nyala_db::catalog::Catalog;
use nyala_db::users::Principal;
use nyala_db::write::LineWriter;
use nyala_exec::running::RunningQueries;
use nyala_exec::{ExecutionContext, QueryMemory};
use std::sync::{Arc, LazyLock};

/// What all sessions share.
pub struct SqlServer {
    /// All databases.
    pub catalog: Arc<Catalog>,
    /// Writes points.
    pub writer: Arc<LineWriter>,
    /// All running queries, of every language.
    pub running: Arc<RunningQueries>,
    /// The server's memory.
    pub memory: Arc<MemoryBudget>,
    /// The most memory of one statement, bytes.
    pub statement_bytes: usize,
    /// The time of day.
    pub clock: ClockRef,
}

/// Functions and rules of the planner: the same for all sessions, and made when the first statement comes, so that a server
/// that is asked no SQL does not pay for them.
static PLANNER: LazyLock<SessionState> = LazyLock::new(|| {
    let planner = SessionStateBuilder::new_with_default_features();
    planner.with_physical_optimizer_rule(Arc::new(Yielding)).build()
});

impl SqlServer {
    /// Functions and rules, to make the state of a session from.
    pub(crate) fn planner() -> SessionStateBuilder {
        SessionStateBuilder::new_from_existing(PLANNER.clone())
    }

    /// What a statement runs with that begins now.
    pub(crate) fn context(&self, principal: Principal, freshness: Freshness) -> ExecutionContext {
        ExecutionContext {
            catalog: self.catalog.clone(),
            freshness,
            now_ns: self.clock.now_ns(),
            principal,
            running: self.running.clone(),
            query: None,
        }
    }

    /// The memory of a statement.
    pub(crate) fn statement_memory(&self) -> QueryMemory {
        QueryMemory::new(self.statement_bytes, &self.memory)
    }

    /// Memory and disk of a statement, as DataFusion asks for them.
    pub(crate) fn runtime(memory: &QueryMemory) -> Arc<RuntimeEnv> {
        static SHARED: LazyLock<RuntimeEnv> = LazyLock::new(|| {
            let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
            RuntimeEnvBuilder::new().with_disk_manager_builder(disk).build().expect("nothing is opened")
        });
        Arc::new(RuntimeEnv { memory_pool: Arc::new(SharePool::of(memory)), ..SHARED.clone() })
    }
}
