//! Statements that come as text.
//!
//! A client asks twice: what the statement gives (`GetFlightInfo`), and then for the rows (`DoGet`). What gives no rows is
//! executed when the client asks the first time, as drivers need it that execute everything in the same way: a client that is
//! told of no rows does not ask for them.

use crate::answer::Answer;
use crate::caller::Caller;
use crate::error::{cancelled, internal, status_of};
use crate::registry::Id;
use crate::running::ListedQuery;
use crate::sessions::Locked;
use crate::shared::Server;
use crate::ticket::Handle;
use crate::wire_type::rows_schema;
use arrow_array::RecordBatch;
use arrow_flight::{FlightEndpoint, FlightInfo};
use arrow_schema::Schema;
use nyala_sql::{Outcome, Prepared, Rows, SqlError, Statement};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tonic::Status;
use tonic::codegen::Bytes;

/// What was done.
pub(crate) enum Done {
    Rows(Rows),
    /// So many rows were changed; `None`: the statement does not count them.
    Changed(Option<u64>),
}

/// The only statement of a text.
pub(crate) fn one(text: &str) -> Result<Statement, Status> {
    let mut statements = Statement::parse(text).map_err(|error| status_of(&error))?;
    match (statements.pop(), statements.len()) {
        (Some(statement), 0) => Ok(statement),
        (None, _) => Err(Status::invalid_argument("the text has no statement (SQLSTATE 42601)")),
        (Some(_), _) => {
            let words = "the text has several statements: send each in a call of its own (SQLSTATE 42601)";
            Err(Status::invalid_argument(words))
        }
    }
}

/// Prepares a statement whose values are all in its text.
async fn prepare(session: &mut Locked, text: &str) -> Result<Prepared, Status> {
    let prepared = session.prepare(one(text)?, &[]).await.map_err(|error| status_of(&error))?;
    match prepared.parameters.is_empty() {
        true => Ok(prepared),
        false => Err(Status::invalid_argument(
            "there is no parameter $1: prepare the statement, and bind values (SQLSTATE 42P02)",
        )),
    }
}

impl Server {
    /// Executes a prepared statement of a session; the values of its parameters are a row.
    pub(crate) async fn execute(
        &self,
        session: &mut Locked,
        prepared: &Prepared,
        row: Option<(&RecordBatch, usize)>,
    ) -> Result<Done, Status> {
        self.counts.statements.fetch_add(1, Ordering::Relaxed);
        let values = match row {
            Some((rows, row)) => prepared.values_of_row(rows.columns(), row),
            None => Ok(Vec::new()),
        };
        let executed = match values {
            Ok(values) => session.execute(prepared, values).await,
            Err(error) => Err(error),
        };
        let done = executed.and_then(|outcome| done_of(session, outcome));
        done.map_err(|error| {
            self.counts.failed();
            status_of(&error)
        })
    }
}

fn done_of(session: &Locked, outcome: Outcome) -> Result<Done, SqlError> {
    match outcome {
        Outcome::Rows(rows) => Ok(Done::Rows(rows)),
        Outcome::Done(tag)
            if !session.is_in_transaction()
                && matches!(tag.command, "BEGIN" | "START TRANSACTION" | "SET" | "PREPARE") =>
        {
            let error = SqlError::unsupported(format!(
                "{} over Flight SQL, where calls have no session",
                tag.command
            ));
            Err(error.with_hint(match tag.command {
                "BEGIN" | "START TRANSACTION" => {
                    "Begin a transaction by the call for that: turn autocommit off."
                }
                "PREPARE" => "There is a call for that: clients prepare statements by it.",
                _ => "Inside a transaction, SET holds until its end.",
            }))
        }
        Outcome::Done(tag) => Ok(Done::Changed(tag.rows)),
        Outcome::CopyIn(_) | Outcome::CopyOut(..) => {
            let error = SqlError::unsupported("COPY over Flight SQL");
            Err(error.with_hint("Rows come and go as Arrow already: SELECT them, or ingest them in bulk."))
        }
        Outcome::FileOut(_) | Outcome::FileIn(_) => {
            let error = SqlError::unsupported("COPY of files of the server over Flight SQL");
            Err(error.with_hint("Send the statement by PostgreSQL's protocol, or to /api/sql."))
        }
    }
}

/// What a client is told about rows that it may ask for.
pub(crate) fn info_of_rows(schema: &Schema, handle: &Handle) -> Result<FlightInfo, Status> {
    let info = FlightInfo::new().try_with_schema(&rows_schema(schema)).map_err(internal)?;
    Ok(info.with_endpoint(FlightEndpoint::new().with_ticket(handle.ticket())).with_ordered(true))
}

/// What a client is told when there are no rows to ask for.
pub(crate) fn info_of_change(changed: Option<u64>) -> Result<FlightInfo, Status> {
    let info = FlightInfo::new().try_with_schema(&Schema::empty()).map_err(internal)?;
    Ok(info.with_total_records(count_of(changed)))
}

/// A count as the protocol has it. What does not count has changed no row: the JDBC driver takes -1 for a query, and executes
/// the statement a second time.
pub(crate) fn count_of(changed: Option<u64>) -> i64 {
    changed.map_or(0, |rows| i64::try_from(rows).unwrap_or(i64::MAX))
}

impl Server {
    /// What a statement gives; if that is no rows, it is executed.
    pub(crate) async fn statement_info(
        self: &Arc<Self>,
        caller: &Caller,
        text: String,
        transaction: Option<Bytes>,
    ) -> Result<FlightInfo, Status> {
        let using = self.using(caller, transaction.as_deref())?;
        let mut session = using.lock().await?;
        let prepared = prepare(&mut session, &text).await.inspect_err(|_| self.counts.failed())?;
        let info = match &prepared.columns {
            Some(columns) => {
                let number = Id::new()?.bytes();
                let database = caller.database.clone();
                info_of_rows(columns, &Handle { number, text, database, transaction, prepared: None })
            }
            None => match self.execute(&mut session, &prepared, None).await? {
                Done::Changed(changed) => info_of_change(changed),
                Done::Rows(_) => Err(Status::internal("a statement gives rows that it did not announce")),
            },
        };
        session.done();
        info
    }

    /// The columns that a statement gives. It is not executed.
    pub(crate) async fn statement_schema(
        &self,
        caller: &Caller,
        text: &str,
        transaction: Option<&[u8]>,
    ) -> Result<arrow_schema::SchemaRef, Status> {
        let using = self.using(caller, transaction)?;
        let mut session = using.lock().await?;
        let prepared = prepare(&mut session, text).await?;
        session.done();
        Ok(prepared
            .columns
            .as_ref()
            .map_or_else(|| Arc::new(Schema::empty()), |columns| rows_schema(columns)))
    }

    /// The rows of a statement.
    pub(crate) async fn statement_rows(
        self: &Arc<Self>,
        mut caller: Caller,
        handle: Handle,
    ) -> Result<Answer, Status> {
        caller.database.clone_from(&handle.database);
        let using = self.using(&caller, handle.transaction.as_deref())?;
        let listed = self.kept.running.list(handle.id()?, caller.owner(), using.cancel_handle());
        let work = async {
            let mut session = using.lock().await?;
            let prepared = prepare(&mut session, &handle.text).await?;
            let done = self.execute(&mut session, &prepared, None).await?;
            session.done();
            Ok((done, prepared.columns))
        };
        match unless_cancelled(&listed, work).await? {
            (Done::Rows(rows), columns) => {
                let columns = columns.unwrap_or_else(|| rows.schema());
                Ok(Answer::of_rows(rows, &columns, using, listed))
            }
            (Done::Changed(_), _) => Ok(Answer::empty()),
        }
    }

    /// Executes a statement; how many rows it has changed.
    pub(crate) async fn update(
        self: &Arc<Self>,
        caller: &Caller,
        text: &str,
        transaction: Option<&[u8]>,
    ) -> Result<i64, Status> {
        let using = self.using(caller, transaction)?;
        let mut session = using.lock().await?;
        let prepared = prepare(&mut session, text).await.inspect_err(|_| self.counts.failed())?;
        let done = self.execute(&mut session, &prepared, None).await?;
        session.done();
        changed(done).await
    }
}

/// How many rows a statement has changed. One that returns the rows that it changes has done so before the first of them is
/// read, so these are left.
pub(crate) async fn changed(done: Done) -> Result<i64, Status> {
    match done {
        Done::Changed(changed) => Ok(count_of(changed)),
        Done::Rows(mut rows) => match rows.tag().map(|tag| tag.rows) {
            Some(changed) => Ok(count_of(changed)),
            None => {
                while rows.next().await.map_err(|error| status_of(&error))?.is_some() {}
                Ok(0)
            }
        },
    }
}

/// Works on a query until somebody cancels it.
pub(crate) async fn unless_cancelled<T>(
    listed: &ListedQuery,
    work: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    tokio::select! {
        biased;
        () = listed.cancelled() => Err(cancelled()),
        done = work => done,
    }
}
