//! A session: the statements of one client, one after the other.

mod change;
mod changes;
mod command;
mod copy;
mod create_as;
mod current_of;
mod cursors;
mod definition;
mod execute;
mod files;
mod kept;
mod look_up;
mod named;
mod past;
mod prepared;
mod query;
mod restart;
mod reuse;
mod run;
mod series;
mod set_config;
mod table_lock;
mod temporary;
mod with_changes;

pub use change::CopyIn;
pub use files::{FileIn, FileOut};
use kept::KeptByName;
pub use kept::NamedStatement;
pub use prepared::Prepared;

use run::{Planning, Run, ToPlan};

use crate::awaited::Awaited;
use crate::command_tag::CommandTag;
use crate::contained::contained;
use crate::copy::CopyForm;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::names::{DatabaseNames, MadeRelation, ReturnedTables, TemporaryNames};
use crate::number_source::{GivenNumbers, NumberSource};
use crate::plans::check_only_reads;
use crate::relation::input::Surroundings;
use crate::rows::Rows;
use crate::secret_text::without_secrets;
use crate::server::SqlServer;
use crate::sessions::{CancelHandle, Introduction, ListedSession};
use crate::settings::Settings;
use crate::statement::Statement;
use crate::system_catalog::{SessionSetup, Viewer};
use crate::transaction::{Transaction, TransactionStatus};
use crate::waits::Waits;
use arrow_schema::DataType;
use chrono_tz::Tz;
use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast;
use definition::is_definition;
use nyala_core::span;
use nyala_core::span::Instrument;
use nyala_db::changes::RemoteClient;
use nyala_db::relations::{SeenRelations, UncommittedRelations};
use nyala_db::users::Principal;
use nyala_exec::Zone;
use prepared::PreparedPlan;
use set_config::settings_of;
use std::pin::pin;
use std::sync::Arc;
use temporary::Temporary;

/// A session of one client. It executes one statement at a time.
pub struct Session {
    pub(crate) server: Arc<SqlServer>,
    pub(crate) principal: Principal,
    /// Where its client is.
    client: RemoteClient,
    /// What the client calls itself.
    user: String,
    /// Its number, which clients name to cancel a statement.
    number: i32,
    pub(crate) database: String,
    pub(crate) settings: Settings,
    pub(crate) transaction: Option<Transaction>,
    /// How many savepoints it has made.
    savepoints: u64,
    /// The first of those that it went back to since somebody asked.
    reached_savepoint: Option<u64>,
    temporary: Temporary,
    /// The relation that its statement makes of a query.
    made: Option<Arc<MadeRelation>>,
    /// Grows whenever what only it sees comes or goes.
    definitions: u64,
    /// Cursors and prepared statements.
    kept: Arc<KeptByName>,
    /// What changes return that are parts of the statement being prepared.
    returned: ReturnedTables,
    /// The numbers of sequences that it was given.
    given_numbers: Arc<GivenNumbers>,
    /// What it waits for, and its locks.
    waits: Arc<Waits>,
    /// What functions in its plans are told of its settings and of its transaction.
    setup: Arc<SessionSetup>,
    /// Made for the first statement; anew when settings that plans depend on have changed.
    state: Option<SessionState>,
    running: CancelHandle,
    /// Its place among the sessions of all clients, if it has a number.
    listed: Option<ListedSession>,
}

/// What tables and views a statement was planned with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RelationsVersion {
    /// Those of everybody.
    committed: u64,
    /// Those of the session alone.
    own: u64,
}

/// What executing a statement gives.
pub enum Outcome {
    /// Rows.
    Rows(Rows),
    /// It was done, and gives no rows.
    Done(CommandTag),
    /// It waits for rows of its client.
    CopyIn(Box<CopyIn>),
    /// Rows, to be sent in a form of COPY.
    CopyOut(Rows, Box<CopyForm>),
    /// Rows, to be written to files.
    FileOut(Box<FileOut>),
    /// It waits for the rows of a file.
    FileIn(Box<FileIn>),
}

impl Session {
    /// A session of somebody in a database, which need not exist.
    pub fn open(server: Arc<SqlServer>, principal: Principal, database: &str) -> Self {
        let running = CancelHandle::new(&server.running);
        let database = database.to_owned();
        let settings = Settings::of(principal.is_admin());
        let user = principal.user_name().unwrap_or("nyala").to_owned();
        let waits = Arc::new(Waits::new(&server.advisory_locks));
        Self {
            server,
            waits,
            principal,
            client: RemoteClient::default(),
            user,
            number: 0,
            given_numbers: Arc::default(),
            returned: ReturnedTables::default(),
            database,
            settings,
            transaction: None,
            savepoints: 0,
            reached_savepoint: None,
            temporary: Temporary::default(),
            made: None,
            definitions: 0,
            kept: Arc::default(),
            setup: Arc::default(),
            state: None,
            running,
            listed: None,
        }
    }

    /// The same, for a client at an address.
    #[must_use]
    pub fn from_client(self, client: RemoteClient) -> Self {
        Self { client, ..self }
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

    /// How many savepoints it has made: what a client makes now belongs to that one, or to none.
    pub fn savepoints(&self) -> u64 {
        self.savepoints
    }

    /// The savepoint that it went back to since the last call: what belongs to it or a later one is gone.
    pub fn take_reached_savepoint(&mut self) -> Option<u64> {
        self.reached_savepoint.take()
    }

    /// The zone that times are shown in, and read in where they have none.
    pub fn zone(&self) -> Zone {
        self.settings.get("TimeZone").ok().and_then(|(_, name)| Zone::named(name)).unwrap_or(Zone::UTC)
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
    pub fn prepare<'a>(
        &'a mut self,
        statement: Statement,
        types: &'a [Option<DataType>],
    ) -> Awaited<'a, SqlResult<Prepared>> {
        Box::pin(async move {
            self.check_not_failed(&statement)?;
            self.learn_grants()?;
            self.note_setup();
            let text = statement.text.clone();
            let prepared =
                pin!(contained(self.try_prepare(statement, types))).instrument(span!("plan")).await;
            self.noted(&text, prepared)
        })
    }

    /// Prepares a statement, and notes what its plan depends on.
    async fn try_prepare(&mut self, statement: Statement, types: &[Option<DataType>]) -> SqlResult<Prepared> {
        // What is defined meanwhile makes the plan an old one.
        let version = self.relations_version();
        let prepared = self.prepare_any(statement, types).await?;
        Ok(Prepared { version, zone: Some(self.zone()), principal: Some(self.principal.clone()), ..prepared })
    }

    async fn prepare_any(&mut self, statement: Statement, types: &[Option<DataType>]) -> SqlResult<Prepared> {
        if let Some(moment) = statement.as_of.clone() {
            return self.prepare_past(statement, &moment, types).await;
        }
        if let Some(copy) = statement.copy.clone() {
            self.server.catalog.follow().await?;
            let text = statement.text.clone();
            let plan = Box::pin(self.prepare_copy(&copy)).await.map_err(|error| error.placed_in(&text))?;
            return Ok(Prepared::of_copy(statement, plan));
        }
        if let Some(cursor) = statement.cursor.clone() {
            return Box::pin(self.prepare_cursor(statement, &cursor, types)).await;
        }
        if let Some(own) = statement.prepare.clone() {
            return Ok(self.prepare_prepare(statement, &own));
        }
        if statement.sequence.is_some() {
            return Ok(Prepared::of_definition(statement));
        }
        if let Some(execute) = Box::pin(self.prepare_execute(&statement)).await? {
            return Ok(execute);
        }
        if let Some(change) = Box::pin(self.prepare_current_of(&statement, types)).await? {
            return Ok(change);
        }
        if let Some(with) = Box::pin(self.prepare_with_changes(&statement, types)).await? {
            return Ok(with);
        }
        Ok(match &*statement.ast {
            _ if change::written(&statement).is_some() => {
                self.server.catalog.follow().await?;
                let text = statement.text.clone();
                let prepared = self.prepare_change(&statement, types).await;
                Prepared::of_change(statement, prepared.map_err(|error| error.placed_in(&text))?)
            }
            ast if settings_of(ast).is_some() => self.prepare_command(statement)?,
            ast::Statement::Query(_) | ast::Statement::Explain { .. } => {
                self.server.catalog.follow().await?;
                match self.prepare_look_up(&statement, types)? {
                    Some((look_up, types)) => Prepared::of_look_up(statement, look_up, types),
                    None => self.prepare_query(statement, types).await?,
                }
            }
            ast::Statement::CreateTable(create) if create.query.is_some() => {
                let parameters = Box::pin(self.parameters_of_query(&statement, create, types)).await?;
                Prepared { parameters, ..Prepared::of_definition(statement) }
            }
            ast if is_definition(ast) => Prepared::of_definition(statement),
            _ => self.prepare_command(statement)?,
        })
    }

    async fn prepare_query(
        &mut self,
        statement: Statement,
        types: &[Option<DataType>],
    ) -> SqlResult<Prepared> {
        let (server, context) = (self.server.clone(), self.plan_context(types));
        if !self.uncommitted().is_empty() {
            // Nobody else has these tables.
            return self.prepare_alone(statement, types).await;
        }
        if let Some(known) = reuse::find(&server, &context, &self.principal, &statement).await? {
            return Ok(known);
        }
        let state = self.state();
        if let Some(prepared) = reuse::make(&server, &context, state, &statement, types).await? {
            return Ok(prepared);
        }
        self.prepare_alone(statement, types).await
    }

    /// Prepares a query without the plans that others have made.
    async fn prepare_alone(
        &mut self,
        statement: Statement,
        types: &[Option<DataType>],
    ) -> SqlResult<Prepared> {
        let prepared = Prepared::of_query(self.state(), statement, types).await?;
        if let PreparedPlan::Query { plan, .. } = &prepared.plan {
            check_only_reads(plan)?;
        }
        Ok(prepared)
    }

    /// Learns what the user may do now: a session may be old.
    fn learn_grants(&mut self) -> SqlResult<()> {
        let Principal::User(user) = &self.principal else { return Ok(()) };
        let now = self.server.catalog.users().again(user, self.server.clock.now_ns());
        let now = now.map_err(|error| SqlError::new(SqlState::UNKNOWN_USER, error.message()))?;
        if now != *user {
            self.principal = Principal::User(now);
            self.state = None;
        }
        Ok(())
    }

    /// Notes that a statement of a transaction failed.
    ///
    /// The reader of [`Rows`] calls it when it finds an error among them.
    pub fn fail_transaction(&mut self) {
        if let Some(transaction) = &mut self.transaction {
            transaction.has_failed = true;
        }
    }

    fn noted<T>(&mut self, text: &str, done: SqlResult<T>) -> SqlResult<T> {
        if let Err(error) = &done {
            self.fail_transaction();
            if error.code == SqlState::INTERNAL {
                // What a fault left half done is not used again.
                self.state = None;
            }
            let is_refused = [SqlState::INSUFFICIENT_PRIVILEGE, SqlState::CONFIGURATION_LIMIT_EXCEEDED];
            if is_refused.contains(&error.code) {
                let (user, shown) = (self.principal.user_name(), without_secrets(text));
                self.server.note_denied(user, self.client, &self.database, &shown, &error.message);
            }
        }
        done
    }

    /// Whether a statement may be executed, or go on: in a transaction that has failed, only its end.
    ///
    /// # Errors
    /// The transaction has failed.
    pub fn check_not_failed(&self, statement: &Statement) -> SqlResult<()> {
        let ends = matches!(*statement.ast, ast::Statement::Commit { .. } | ast::Statement::Rollback { .. });
        if ends { Ok(()) } else { self.check_transaction() }
    }

    /// Refuses what needs a transaction that has not failed.
    ///
    /// # Errors
    /// It has failed.
    pub fn check_transaction(&self) -> SqlResult<()> {
        match self.transaction() {
            TransactionStatus::Failed => Err(SqlError::new(
                SqlState::FAILED_TRANSACTION,
                "current transaction is aborted, commands ignored until end of transaction block",
            )),
            _ => Ok(()),
        }
    }

    /// What names and settings mean in plans of this session.
    fn plan_context(&self, types: &[Option<DataType>]) -> String {
        let known = self.server.catalog.database(&self.database);
        let policy = known.as_ref().map_or("", |known| &known.default_policy);
        let zone = self.settings.get("TimeZone").map_or("", |(_, zone)| zone);
        let pushes_down = self.settings.pushes_down();
        // A table that is created may hide a measurement.
        let version = self.server.catalog.relations().version();
        let types = if types.is_empty() { String::new() } else { format!("{types:?}") };
        format!("{:?}\n{policy:?}\n{zone}\n{pushes_down}\n{version}\n{types}", self.database)
    }

    /// The relations that only it sees.
    fn uncommitted(&self) -> &Arc<UncommittedRelations> {
        self.transaction.as_ref().map_or(&self.temporary.relations, |transaction| &transaction.relations)
    }

    /// The relations that it sees.
    pub(crate) fn relations(&self) -> SeenRelations<'_> {
        self.uncommitted().above(self.server.catalog.relations())
    }

    /// The version of the relations that it sees.
    pub(crate) fn relations_version(&self) -> RelationsVersion {
        RelationsVersion { committed: self.server.catalog.relations().version(), own: self.definitions }
    }

    /// Notes that it sees other relations than before.
    pub(super) fn note_definitions(&mut self) {
        self.definitions += 1;
        self.state = None;
    }

    /// What plans are made with.
    pub(crate) fn state(&mut self) -> &mut SessionState {
        if self.state.is_none() {
            self.state = Some(self.names().planner(&self.database));
        }
        self.state.as_mut().expect("it was just made")
    }

    /// The same for a statement that is executed: its time is the beginning of its transaction, as in PostgreSQL.
    pub(crate) fn started_state(&mut self) -> &mut SessionState {
        let began = self.transaction.as_ref().map(|transaction| transaction.began);
        let state = self.state();
        state.execution_props_mut().query_execution_start_time = None;
        state.mark_start_execution();
        if let Some(began) = began {
            state.execution_props_mut().query_execution_start_time = Some(began);
        }
        state
    }

    /// The names that it sees.
    pub(crate) fn names(&self) -> DatabaseNames {
        DatabaseNames {
            server: self.server.clone(),
            catalog: self.server.catalog.clone(),
            principal: self.principal.clone(),
            zone: self.settings.get("TimeZone").map_or("UTC", |(_, zone)| zone).to_owned(),
            pushes_down: self.settings.pushes_down(),
            depth: 0,
            viewer: Arc::new(self.viewer()),
            uncommitted: self.uncommitted().clone(),
            temporary: TemporaryNames::default(),
            made: self.made.clone(),
            returned: self.returned.clone(),
            changes: Arc::default(),
        }
    }

    /// Whether its statements may not write.
    pub(crate) fn is_read_only(&self) -> bool {
        let default = || self.settings.is_read_only();
        self.transaction.as_ref().map_or_else(default, |transaction| transaction.is_read_only)
    }

    /// Fails if it may not write.
    pub(crate) fn check_writable(&self, command: &str) -> SqlResult<()> {
        match self.is_read_only() {
            true => {
                let words = format!("cannot execute {command} in a read-only transaction");
                Err(SqlError::new(SqlState::READ_ONLY_TRANSACTION, words))
            }
            false => Ok(()),
        }
    }

    /// Notes how it is set up now, for the functions of plans.
    fn note_setup(&self) {
        self.setup.note(&self.settings, self.is_read_only());
    }

    /// Who looks at the system catalogue.
    fn viewer(&self) -> Viewer {
        Viewer {
            catalog: self.server.catalog.clone(),
            principal: self.principal.clone(),
            uncommitted: self.uncommitted().clone(),
            numbers: self.number_source(),
            waits: self.waits.clone(),
            setup: self.setup.clone(),
            user: self.user.clone(),
            database: self.database.clone(),
            started_ns: self.server.started_ns,
            number: self.number,
            sessions: self.server.sessions.clone(),
            kept: {
                let kept = Arc::downgrade(&self.kept);
                Box::new(move || kept.upgrade().map(|own| own.listed()).unwrap_or_default())
            },
        }
    }

    /// Where its statements take numbers of sequences from.
    pub(crate) fn number_source(&self) -> NumberSource {
        let catalog = self.server.catalog.clone();
        let (given, waits) = (self.given_numbers.clone(), self.waits.clone());
        NumberSource { catalog, uncommitted: self.uncommitted().clone(), given, waits }
    }

    /// Says what the client calls itself, and which number its session has.
    pub fn identify(&mut self, user: &str, number: i32) {
        user.clone_into(&mut self.user);
        self.number = number;
        self.waits.identify(number);
        self.listed = Some(self.server.sessions.enter(Introduction {
            number,
            user,
            principal: &self.principal,
            database: &self.database,
            client: self.client.address,
            begun_ns: self.server.clock.now_ns(),
            running: self.running.clone(),
        }));
        self.note_application();
        self.state = None;
    }

    /// Tells other sessions what the client calls its program.
    pub fn note_application(&self) {
        if let (Some(listed), Ok(name)) = (&self.listed, self.setting("application_name")) {
            listed.note_application(name);
        }
    }

    /// Tells other sessions that it waits for its client, and whether in a transaction.
    pub fn note_ready(&self) {
        if let Some(listed) = &self.listed {
            listed.note_transaction(self.transaction());
        }
    }

    /// Waits until somebody ends the session from another one. Never returns otherwise.
    pub fn ended(&self) -> impl Future<Output = ()> + use<> {
        let ended = self.listed.as_ref().map(ListedSession::ended);
        async move {
            match ended {
                Some(ended) => ended.await,
                None => std::future::pending().await,
            }
        }
    }

    /// What the meaning of texts in a statement depends on that begins now.
    pub(crate) fn surroundings(&self) -> Surroundings {
        let zone = self.settings.get("TimeZone").ok().and_then(|(_, zone)| zone.parse().ok());
        // In a transaction it is always the time of its beginning.
        let began = self.transaction.as_ref().and_then(|own| own.began.timestamp_nanos_opt());
        let now_ns = began.unwrap_or_else(|| self.server.clock.now_ns());
        Surroundings { zone: zone.unwrap_or(Tz::UTC), now_ns }
    }
}
