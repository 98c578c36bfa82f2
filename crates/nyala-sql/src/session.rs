//! A session: the statements of one client, one after the other.

mod command;

use crate::error::{SqlError, SqlResult, SqlState};
use crate::execution::Execution;
use crate::names::DatabaseNames;
use crate::outcome::Outcome;
use crate::plans::Reused;
use crate::prepared::{Prepared, PreparedPlan, check_only_reads, with_values};
use crate::reuse;
use crate::rows::{Rows, Running};
use crate::server::SqlServer;
use crate::settings::Settings;
use crate::statement::Statement;
use crate::transaction::{Transaction, TransactionStatus};
use arrow_schema::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::DataFusionError;
use datafusion::execution::{SessionState, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionConfig;
use datafusion::sql::sqlparser::ast;
use nyala_db::users::Principal;
use nyala_exec::running::RunningQueries;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Rows of a batch of an answer.
const BATCH_ROWS: usize = 8192;

/// A session of one client. It executes one statement at a time.
pub struct Session {
    server: Arc<SqlServer>,
    principal: Principal,
    database: String,
    settings: Settings,
    transaction: Option<Transaction>,
    /// Made for the first statement; anew when settings that plans depend on have changed.
    state: Option<SessionState>,
    running: CancelHandle,
}

/// Cancels the running statement of a session, from anywhere.
#[derive(Clone, Default)]
pub struct CancelHandle {
    /// The number of the running statement; 0 if none runs.
    number: Arc<AtomicU64>,
    running: Arc<RunningQueries>,
}

impl CancelHandle {
    /// Asks the statement that runs now to stop. Nothing happens if none runs.
    pub fn cancel(&self) {
        let number = self.number.load(Ordering::Acquire);
        if number > 0 {
            // It may have ended meanwhile.
            drop(self.running.kill(number));
        }
    }
}

impl Session {
    /// A session of somebody in a database, which need not exist.
    pub fn open(server: Arc<SqlServer>, principal: Principal, database: &str) -> Self {
        let running = CancelHandle { number: Arc::default(), running: server.running.clone() };
        let (database, settings) = (database.to_owned(), Settings::default());
        Self { server, principal, database, settings, transaction: None, state: None, running }
    }

    /// The database that names without one belong to.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// Whether it is in a transaction.
    pub fn transaction(&self) -> TransactionStatus {
        match &self.transaction {
            None => TransactionStatus::Idle,
            Some(transaction) if transaction.has_failed => TransactionStatus::Failed,
            Some(_) => TransactionStatus::Active,
        }
    }

    /// The value of a setting.
    pub fn setting(&self, name: &str) -> SqlResult<&str> {
        self.settings.get(name).map(|(_, value)| value)
    }

    /// Changes a setting, as SET does.
    pub fn set(&mut self, name: &str, value: &str) -> SqlResult<()> {
        self.settings.set(name, Some(value))?;
        self.state = None;
        Ok(())
    }

    /// What cancels the statement that runs.
    pub fn cancel_handle(&self) -> CancelHandle {
        self.running.clone()
    }

    /// The principal whose session it is.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Prepares a statement. `types` are the types of parameters that the client knows, in order.
    ///
    /// # Errors
    /// What is wrong with the statement.
    pub async fn prepare(&mut self, statement: Statement, types: &[Option<DataType>]) -> SqlResult<Prepared> {
        self.check_not_failed(&statement)?;
        self.learn_grants()?;
        let prepared = self.try_prepare(statement, types).await;
        self.noted(prepared)
    }

    async fn try_prepare(&mut self, statement: Statement, types: &[Option<DataType>]) -> SqlResult<Prepared> {
        match &statement.ast {
            ast::Statement::Query(_) | ast::Statement::Explain { .. } => {
                let mut prepared = self.prepare_query(statement, types).await?;
                prepared.principal = Some(self.principal.clone());
                Ok(prepared)
            }
            _ => self.prepare_command(statement),
        }
    }

    async fn prepare_query(
        &mut self,
        statement: Statement,
        types: &[Option<DataType>],
    ) -> SqlResult<Prepared> {
        self.server.catalog.follow().await?;
        let (server, context) = (self.server.clone(), self.plan_context(types));
        if let Some(known) = reuse::find(&server, &context, &self.principal, &statement).await? {
            return Ok(known);
        }
        let state = self.state()?;
        if let Some(prepared) = reuse::make(&server, &context, state, &statement, types).await? {
            return Ok(prepared);
        }
        let prepared = Prepared::of_query(state, statement, types).await?;
        if let PreparedPlan::Query { plan, .. } = &prepared.plan {
            check_only_reads(plan)?;
        }
        Ok(prepared)
    }

    /// Executes a prepared statement with values for its parameters.
    ///
    /// # Errors
    /// What goes wrong before the first row. If the session is in a transaction, the transaction fails.
    pub async fn execute(&mut self, prepared: &Prepared, values: Vec<ScalarValue>) -> SqlResult<Outcome> {
        self.check_not_failed(&prepared.statement)?;
        self.learn_grants()?;
        let again;
        let prepared = match self.is_still_granted(prepared) {
            true => prepared,
            false => {
                let types: Vec<_> = prepared.parameters.iter().cloned().map(Some).collect();
                let planned = self.try_prepare(prepared.statement.clone(), &types).await;
                again = self.noted(planned)?;
                &again
            }
        };
        let executed = match &prepared.plan {
            PreparedPlan::Session => self.execute_command(&prepared.statement),
            PreparedPlan::Query { plan, is_optimized } => {
                let to_plan = ToPlan { plan, is_optimized: *is_optimized };
                self.execute_query(prepared, Planning::Needed(to_plan), values).await
            }
            PreparedPlan::Known { plan, literals } => {
                prepared.check_count(values.len())?;
                let values = if literals.is_empty() { values } else { literals.clone() };
                let planning = match &plan.reused {
                    Reused::Physical(physical) => Planning::Done(physical, &plan.config),
                    Reused::Logical(plan) => Planning::Needed(ToPlan { plan, is_optimized: true }),
                };
                self.execute_query(prepared, planning, values).await
            }
        };
        self.noted(executed)
    }

    /// Learns what the user may do now: a session may be old.
    fn learn_grants(&mut self) -> SqlResult<()> {
        let Principal::User(user) = &self.principal else { return Ok(()) };
        let now = self.server.catalog.users().existing(user.name()).map_err(|_| {
            SqlError::new(SqlState::UNKNOWN_USER, format!("user \"{}\" was dropped", user.name()))
        })?;
        if now != *user {
            self.principal = Principal::User(now);
            self.state = None;
        }
        Ok(())
    }

    /// Whether the user is the same, unchanged, as when a statement was planned. A plan knows tables that the user could
    /// read then.
    fn is_still_granted(&self, prepared: &Prepared) -> bool {
        match (&prepared.principal, &self.principal) {
            (Some(Principal::User(then)), Principal::User(now)) => then == now,
            _ => true,
        }
    }

    /// Notes that a statement of a transaction failed.
    ///
    /// The reader of [`Rows`] calls it when it finds an error among them.
    pub fn fail_transaction(&mut self) {
        if let Some(transaction) = &mut self.transaction {
            transaction.has_failed = true;
        }
    }

    fn noted<T>(&mut self, done: SqlResult<T>) -> SqlResult<T> {
        if done.is_err() {
            self.fail_transaction();
        }
        done
    }

    fn check_not_failed(&self, statement: &Statement) -> SqlResult<()> {
        let ends = matches!(statement.ast, ast::Statement::Commit { .. } | ast::Statement::Rollback { .. });
        match self.transaction() {
            TransactionStatus::Failed if !ends => Err(SqlError::new(
                SqlState::FAILED_TRANSACTION,
                "current transaction is aborted, commands ignored until end of transaction block",
            )),
            _ => Ok(()),
        }
    }

    async fn execute_query(
        &mut self,
        prepared: &Prepared,
        planning: Planning<'_>,
        values: Vec<ScalarValue>,
    ) -> SqlResult<Outcome> {
        let freshness = self.server.catalog.follow().await?;
        let mut context = self.server.context(self.principal.clone(), freshness);
        let shown = prepared.statement.clone();
        let running = &self.server.running;
        let timeout = self.settings.statement_timeout();
        let guard = running.enter_within(timeout, move || shown.shown(), &self.database, &self.principal)?;
        self.running.number.store(guard.query().number(), Ordering::Release);
        context.query = Some(guard.query());
        let memory = self.server.statement_memory();
        let running = Running { guard, memory: memory.clone(), text: prepared.statement.text.clone() };
        let snapshot = self.transaction.as_ref().map(|own| own.snapshot.clone()).unwrap_or_default();
        let values = match &prepared.plan {
            // Literals have their types.
            PreparedPlan::Known { literals, .. } if !literals.is_empty() => values,
            _ => prepared.bound(values)?,
        };
        let execution = Arc::new(Execution::new(context, memory.clone(), snapshot, values.clone()));
        let (plan, config) = match planning {
            Planning::Done(physical, config) => (reset_plan_states(physical.clone())?, config.clone()),
            Planning::Needed(to_plan) => {
                let state = self.state()?;
                state.execution_props_mut().query_execution_start_time = None;
                state.mark_start_execution();
                let plan = running.unless_stopped(to_plan.planned(state, values)).await?;
                (plan, state.config().clone())
            }
        };
        let task = Arc::new(TaskContext::new(
            None,
            String::new(),
            config.with_extension(execution),
            HashMap::new(),
            HashMap::new(),
            HashMap::new(),
            HashMap::new(),
            SqlServer::runtime(&memory),
        ));
        Ok(Outcome::Rows(Rows::of(execute_stream(plan, task)?, running)))
    }

    /// What names and settings mean in plans of this session.
    fn plan_context(&self, types: &[Option<DataType>]) -> String {
        let known = self.server.catalog.database(&self.database);
        let policy = known.as_ref().map_or("", |known| &known.default_policy);
        let zone = self.settings.get("TimeZone").map_or("", |(_, zone)| zone);
        let pushes_down = self.settings.pushes_down();
        let types = if types.is_empty() { String::new() } else { format!("{types:?}") };
        format!("{:?}\n{policy:?}\n{zone}\n{pushes_down}\n{types}", self.database)
    }

    /// What plans are made with.
    fn state(&mut self) -> SqlResult<&mut SessionState> {
        if self.state.is_none() {
            self.state = Some(self.new_state());
        }
        Ok(self.state.as_mut().expect("it was just made"))
    }

    fn new_state(&self) -> SessionState {
        let known = self.server.catalog.database(&self.database);
        let policy = known.map(|known| known.default_policy.clone()).unwrap_or_default();
        let mut config = SessionConfig::new()
            .with_default_catalog_and_schema(&self.database, policy)
            .with_create_default_catalog_and_schema(false)
            .with_information_schema(true)
            .with_batch_size(BATCH_ROWS);
        let options = config.options_mut();
        options.sql_parser.dialect = datafusion::config::Dialect::PostgreSQL;
        options.sql_parser.collect_spans = true;
        options.execution.time_zone = self.settings.get("TimeZone").ok().map(|(_, zone)| zone.to_owned());
        let names = Arc::new(DatabaseNames {
            catalog: self.server.catalog.clone(),
            principal: self.principal.clone(),
        });
        SqlServer::planner(self.settings.pushes_down()).with_config(config).with_catalog_list(names).build()
    }
}

/// What is left of planning when a statement is executed.
enum Planning<'a> {
    /// Nothing.
    Done(&'a Arc<dyn ExecutionPlan>, &'a SessionConfig),
    Needed(ToPlan<'a>),
}

/// A logical plan.
struct ToPlan<'a> {
    plan: &'a LogicalPlan,
    is_optimized: bool,
}

impl ToPlan<'_> {
    async fn planned(
        &self,
        state: &SessionState,
        values: Vec<ScalarValue>,
    ) -> Result<Arc<dyn ExecutionPlan>, DataFusionError> {
        let plan = with_values(self.plan.clone(), values)?;
        let plan = if self.is_optimized { plan } else { state.optimize(&plan)? };
        state.query_planner().create_physical_plan(&plan, state).await
    }
}
