//! What all sessions share.

use crate::arithmetic::CheckArithmetic;
use crate::asof_join::{self, FindAsofJoins, PushThroughAsofJoins};
use crate::common_type::CommonTypes;
use crate::dialect::{self, CallLimits, Casts, GroupFrames, LateralRows, SetOperations};
use crate::distinct_aggregates::DistinctToGroups;
use crate::floats::CompareFloats;
use crate::functions;
use crate::gaps::{self, FillGaps};
use crate::influxql::InfluxqlQueries;
use crate::interval_groups::IntervalGroups;
use crate::local_times::LocalTimes;
use crate::long_values::CutBesideLongValues;
use crate::measurement::{PushDownAggregates, PushDownLatest};
use crate::memory::SharePool;
use crate::one_writer::OneWriter;
use crate::outer_join_filters::PushFilters;
use crate::planner::NodePlanner;
use crate::plans::PlanCache;
use crate::sessions::Sessions;
use crate::spill::SpillSpace;
use crate::waits::AdvisoryLocks;
use crate::yielding::Yielding;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::optimizer::{Analyzer, Optimizer, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use nyala_core::env::ClockRef;
use nyala_core::memory::MemoryBudget;
use nyala_core::store::Freshness;
use nyala_db::catalog::Catalog;
use nyala_db::changes::{Author, ChangeId, RemoteClient};
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
    /// Where rows go that statements have no memory for.
    pub spill: Arc<SpillSpace>,
    /// The time of day.
    pub clock: ClockRef,
    /// Executes queries of InfluxQL.
    pub influxql: Arc<dyn InfluxqlQueries>,
    /// Plans that are used again.
    pub plans: PlanCache,
    /// Locks that applications agree upon.
    pub advisory_locks: Arc<AdvisoryLocks>,
    /// The sessions of clients that know a number for theirs.
    pub sessions: Arc<Sessions>,
    /// Where statements may write and read files.
    pub files: nyala_files::Folders,
    /// When it was started, ns since 1970.
    pub started_ns: i64,
    /// Logs changes of points, and of definitions of tables.
    pub changed: ChangeHook,
    /// Logs what is too frequent for `changed`: changes of rows, and new tables and views. Nobody may want to know.
    pub audited: Option<AuditHook>,
    /// Logs statements that somebody may not execute, or not so often.
    pub denied: DenialHook,
}

/// Is told who may not execute a statement, and the words of the error.
pub type DenialHook = Arc<dyn Fn(&Author, &str) + Send + Sync>;

/// Is told who has executed a statement, and which.
pub type AuditHook = Arc<dyn Fn(&Author) + Send + Sync>;

/// Is told who has changed points, and the number of the change if it can be undone.
pub type ChangeHook = Arc<dyn Fn(&Author, Option<ChangeId>) + Send + Sync>;

/// Planner and optimiser go on upon another stack when less than this is left of one. They check only now and then: what lies
/// between takes hundreds of kilobytes where they are not optimised.
const STACK_LEFT_BYTES: usize = 1 << 20;

/// Functions and rules of the planner: the same for all sessions, and made when the first statement comes, so that a server
/// that is asked no SQL does not pay for them.
static PLANNER: LazyLock<SessionState> = LazyLock::new(|| {
    recursive::set_minimum_stack_size(STACK_LEFT_BYTES);
    let mut rules = usual_rules();
    // Before the planner decides how rows are distributed.
    rules.insert(0, Arc::new(PushDownAggregates));
    rules.insert(1, Arc::new(PushDownLatest));
    let mut meanings = Analyzer::new().rules;
    // Before the planner gives operands the same type.
    meanings.insert(0, Arc::new(LateralRows));
    meanings.insert(1, Arc::new(CommonTypes));
    meanings.insert(2, Arc::new(SetOperations));
    meanings.insert(3, Arc::new(CompareFloats));
    meanings.insert(4, Arc::new(IntervalGroups));
    // When everything has its type.
    meanings.push(Arc::new(Casts));
    meanings.push(Arc::new(LocalTimes));
    meanings.push(Arc::new(CheckArithmetic));
    meanings.push(Arc::new(GroupFrames));
    meanings.push(Arc::new(CallLimits));
    meanings.push(Arc::new(FindAsofJoins));
    meanings.push(Arc::new(FillGaps));
    let mut optimizations = Optimizer::new().rules;
    let conditions = optimizations.iter().position(|rule| rule.name() == "push_down_filter");
    let place = conditions.map_or(0, |place| place + 1);
    optimizations.insert(place, Arc::new(PushThroughAsofJoins));
    let distinct: Arc<dyn OptimizerRule + Send + Sync> = Arc::new(DistinctToGroups::default());
    for rule in optimizations.iter_mut().filter(|rule| rule.name() == distinct.name()) {
        *rule = distinct.clone();
    }
    let builder = SessionStateBuilder::new_with_default_features()
        .with_analyzer_rules(meanings)
        .with_optimizer_rules(optimizations)
        .with_query_planner(Arc::new(NodePlanner))
        .with_physical_optimizer_rules(rules);
    let mut planner = builder.build();
    let registered = functions::register(&mut planner)
        .and_then(|()| dialect::register(&mut planner))
        .and_then(|()| gaps::register(&mut planner))
        .and_then(|()| asof_join::register(&mut planner));
    registered.expect("no function has the name of another");
    planner
});

/// The planner's own rules, that joins pause, that no tasks wait for each other, and that long values have room.
fn usual_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    let filters: Arc<dyn PhysicalOptimizerRule + Send + Sync> = Arc::new(PushFilters::default());
    for rule in rules.iter_mut().filter(|rule| rule.name() == filters.name()) {
        *rule = filters.clone();
    }
    rules.push(Arc::new(OneWriter));
    rules.push(Arc::new(Yielding));
    rules.push(Arc::new(CutBesideLongValues));
    rules
}

impl SqlServer {
    /// Functions and rules, to make the state of a session from. Without pushing down, whatever a rule of ours changes is
    /// computed from rows, so that tests can compare.
    pub(crate) fn planner(pushes_down: bool) -> SessionStateBuilder {
        let builder = SessionStateBuilder::new_from_existing(PLANNER.clone());
        match pushes_down {
            true => builder,
            false => builder.with_physical_optimizer_rules(usual_rules()),
        }
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

    /// Logs a change of points, or of the definition of a table.
    pub(crate) fn note_changed(&self, author: &Author, change: Option<ChangeId>) {
        (self.changed)(author, change);
    }

    /// Logs what somebody may not do, or not so often. `what` has no secrets.
    pub fn note_denied(
        &self,
        user: Option<&str>,
        client: RemoteClient,
        database: &str,
        what: &str,
        words: &str,
    ) {
        let (user, now_ns) = (user.map(str::to_owned), self.clock.now_ns());
        let (database, statement) = (database.to_owned(), what.to_owned());
        (self.denied)(&Author { user, client, database, statement, now_ns }, words);
    }

    /// The memory of a statement.
    pub(crate) fn statement_memory(&self, principal: &Principal) -> QueryMemory {
        QueryMemory::of(principal, self.statement_bytes, &self.memory)
    }

    /// Memory and disk of a statement, as DataFusion asks for them.
    pub(crate) fn runtime(&self, memory: &QueryMemory) -> Result<Arc<RuntimeEnv>> {
        static SHARED: LazyLock<RuntimeEnv> =
            LazyLock::new(|| RuntimeEnvBuilder::new().build().expect("nothing is opened"));
        let disk_manager = self.spill.disk()?;
        Ok(Arc::new(RuntimeEnv {
            memory_pool: Arc::new(SharePool::of(memory)),
            disk_manager,
            ..SHARED.clone()
        }))
    }
}
