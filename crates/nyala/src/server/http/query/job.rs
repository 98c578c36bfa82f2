//! Executes the statements of a request one after the other; `output` sends their results to the client.

use super::super::Context;
use super::super::output::{self, Output, Stop};
use super::past;
use crate::server::audit::Audit;
use crate::server::format::AnswerWriter;
use nyala_core::memory::MemoryBudget;
use nyala_core::span::Instrument;
use nyala_core::{Error, ErrorKind, span};
use nyala_db::changes::ChangeId;
use nyala_exec::running::{Query, QueryGuard};
use nyala_exec::{Chunks, QueryMemory};
use nyala_query::influxql::Statement;
use nyala_query::plan::QueryContext;
use nyala_query::statement::{self, execute};
use std::net::IpAddr;
use std::sync::Arc;

/// The most statements of a request that may be answered by the connection's thread.
const LIGHT_STATEMENTS: usize = 4;

/// The statements of a request, to be executed one after the other.
pub(super) struct Job {
    pub(super) statements: Vec<Statement>,
    /// Keeps them in the list of running queries; or why they are not there.
    pub(super) entered: nyala_core::Result<QueryGuard>,
    pub(super) context: QueryContext,
    pub(super) by_get: bool,
    /// Whether statements that change something are refused.
    pub(super) reads_only: bool,
    /// Logs what an operator wants to know, with the client's address.
    pub(super) audit: Arc<Audit>,
    pub(super) client: Option<IpAddr>,
    /// A hint that is shown with the result of the current statement.
    pub(super) hint: Option<String>,
    /// The number of the change that the current statement has made.
    pub(super) change: Option<ChangeId>,
    pub(super) memory_bytes: usize,
    pub(super) memory: Arc<MemoryBudget>,
    pub(super) output: Output<dyn AnswerWriter>,
}

impl Job {
    /// Starts to execute on this thread if the query may be light.
    pub(super) async fn start(self, context: &Context, is_short: bool) {
        let is_select = |statement: &Statement| matches!(statement, Statement::Select(_));
        let may_be_light =
            is_short && self.statements.len() <= LIGHT_STATEMENTS && self.statements.iter().all(is_select);
        output::start(Box::pin(self.run()).instrument(span!("execute")), may_be_light, context).await;
    }

    pub(super) async fn run(mut self) {
        let statements = std::mem::take(&mut self.statements);
        let broken = Err(Error::new(ErrorKind::Cancelled, "the request runs already"));
        match std::mem::replace(&mut self.entered, broken) {
            Ok(entered) => {
                let query = entered.query();
                self.context.around.query = Some(query.clone());
                if self.execute_all(statements, &query).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                self.output.answer.begin_statement(0, None);
                self.output.answer.fail_statement(&error.to_string());
            }
        }
        self.output.answer.finish();
        self.output.end().await;
    }

    async fn execute_all(&mut self, statements: Vec<Statement>, query: &Query) -> Result<(), ClientGone> {
        let count = statements.len();
        for (number, statement) in statements.into_iter().enumerate() {
            let zone = match &statement {
                // What INTO answers is no row of the query: its time is 1970 everywhere.
                Statement::Select(select) if select.target.is_none() => select.zone,
                _ => None,
            };
            self.output.answer.begin_statement(number, zone);
            // A statement that changes something is logged after it was executed.
            let changes = (!statement::only_reads(&statement)).then(|| statement.clone());
            if self.reads_only && changes.is_some() {
                self.fail(number, count, &format!("read_only: '{statement}' changes something"));
                break;
            }
            let executed = self.execute(statement, query).await;
            // Only the answer of such a statement can stop early, not the statement.
            let is_done = matches!(&executed, Ok(()) | Err(End::Stopped(Stop::ClientGone | Stop::Enough)));
            if let (true, Some(statement)) = (is_done, &changes) {
                self.audit.executed(
                    statement,
                    &self.context.database,
                    self.context.principal.user_name(),
                    self.client,
                    self.change.take(),
                );
            }
            if let (Err(End::Refused(error) | End::Stopped(Stop::Failed(error))), Some(statement)) =
                (&executed, &changes)
            {
                let (database, user) = (&self.context.database, self.context.principal.user_name());
                self.audit.failed(statement, database, user, self.client, error.message());
            }
            let deprecated = changes.as_ref().filter(|statement| self.by_get && warns_of_get(statement));
            match executed {
                Ok(()) => {
                    let hint = self.hint.take();
                    let warning = deprecated.map(|statement| {
                        let statement = statement::with_full_names(statement, &self.context);
                        format!(
                            "deprecated use of '{statement}' in a read only context, please use a POST request instead"
                        )
                    });
                    self.output.answer.end_statement(warning.or(hint).as_deref());
                }
                Err(End::Stopped(Stop::ClientGone)) => return Err(ClientGone),
                Err(End::Stopped(Stop::Enough)) => {
                    self.output.answer.end_statement(None);
                    break;
                }
                Err(End::Refused(error)) => self.output.answer.fail_statement(&error.to_string()),
                Err(End::Stopped(Stop::Failed(error))) => {
                    self.fail(number, count, &error.to_string());
                    break;
                }
            }
            // A killed query finishes the statement that cannot be interrupted, and executes none after it.
            if query.check().is_err() {
                for later in number + 1..count {
                    self.output.answer.begin_statement(later, None);
                    self.output.answer.fail_statement("not executed");
                }
                break;
            }
            // No more rows may be shown, and InfluxDB does not execute further statements either.
            if self.output.is_full() {
                break;
            }
        }
        Ok(())
    }

    /// Answers statement `number` with an error, and the statements that are not executed. As in InfluxDB, those begin
    /// with the failed one, so that its own error is lost unless the answer is chunked.
    fn fail(&mut self, number: usize, statements: usize, message: &str) {
        let answer = &mut self.output.answer;
        let not_executed = "not executed";
        let error_is_lost = !answer.is_chunked() && number + 1 < statements;
        answer.fail_statement(if error_is_lost { not_executed } else { message });
        let first = if error_is_lost { number + 1 } else { number };
        for later in first..statements - 1 {
            answer.begin_statement(later, None);
            answer.fail_statement(not_executed);
        }
    }

    /// Executes a statement, on the databases as they were if it asks for the past.
    async fn execute(&mut self, statement: Statement, query: &Query) -> Result<(), End> {
        let moment = statement::moment_of(&statement, self.context.around.now_ns).map_err(End::Refused)?;
        let Some(moment_ns) = moment else { return self.execute_now(statement, query).await };
        let catalog = self.context.around.catalog.clone();
        let past = past::catalog_at(catalog, moment_ns).await.map_err(End::Refused)?;
        let present = std::mem::replace(&mut self.context.around.catalog, past);
        let executed = self.execute_now(statement, query).await;
        self.context.around.catalog = present;
        executed
    }

    async fn execute_now(&mut self, statement: Statement, query: &Query) -> Result<(), End> {
        let memory = QueryMemory::of(&self.context.principal, self.memory_bytes, &self.memory);
        // A statement that only reads stops when the client disconnects. Others check themselves whether they can stop.
        let reads = statement::only_reads(&statement);
        // Large futures are boxed, because a job is moved several times.
        let mut executing = Box::pin(execute(statement, &self.context, memory));
        let executed = match reads {
            true => self.output.unless_stopped(query, executing.as_mut()).await?,
            false => executing.as_mut().await.map_err(Stop::Failed)?,
        };
        drop(executing);
        match executed {
            statement::Answer::Done => {}
            statement::Answer::Changed(frames, change) => {
                self.change = change;
                self.hint = change.map(|change| format!("change {change}: UNDO {change} takes it back"));
                self.output.show_all(&frames, Chunks::Whole).await?;
            }
            statement::Answer::Refused(error) => return Err(End::Refused(error)),
            statement::Answer::Rows(frames, chunks) => self.output.show_all(&frames, chunks).await?,
            statement::Answer::Stream(stream) => {
                self.hint = stream.hint().map(str::to_owned);
                Box::pin(self.output.show_stream(stream, query, Chunks::BySize)).await?;
            }
        }
        Ok(())
    }
}

/// The client disconnected.
struct ClientGone;

/// Why a statement was not finished.
enum End {
    /// It was stopped.
    Stopped(Stop),
    /// It failed; the statements after it are executed all the same.
    Refused(nyala_core::Error),
}

impl From<Stop> for End {
    fn from(stop: Stop) -> Self {
        End::Stopped(stop)
    }
}

/// Whether InfluxDB warns when this statement, which changes something, is sent by GET. It does so for all but DELETE.
fn warns_of_get(statement: &Statement) -> bool {
    !matches!(statement, Statement::Delete(_))
}
