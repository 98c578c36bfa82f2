//! Prepared statements: made once, executed with one row of parameters after the other.
//!
//! They are kept until the client closes them (`kept`), with the rows of parameters that it has bound last.

use crate::answer::{Answer, batches_of};
use crate::caller::Caller;
use crate::error::{internal, status_of};
use crate::input::Input;
use crate::placeholder::numbered;
use crate::prepared_statement::{Bound, Parameters, PreparedStatement};
use crate::registry::Id;
use crate::sessions::Locked;
use crate::shared::Server;
use crate::statement::{Done, changed, info_of_change, info_of_rows, one, unless_cancelled};
use crate::ticket::Handle;
use crate::wire_type::{rows_schema, wire_type};
use arrow_array::RecordBatch;
use arrow_flight::sql::{
    ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult, DoPutPreparedStatementResult,
};
use arrow_flight::{FlightInfo, IpcMessage, SchemaAsIpc};
use arrow_ipc::writer::IpcWriteOptions;
use arrow_schema::{Field, Schema, SchemaRef};
use futures::{StreamExt, TryStreamExt, stream};
use nyala_core::memory::Component;
use nyala_sql::Prepared;
use parking_lot::Mutex;
use std::sync::Arc;
use tonic::Status;
use tonic::codegen::Bytes;

/// What a prepared statement takes beside its text: about as much as its plan.
const STATEMENT_BYTES: usize = 16 << 10;
/// How often the text of a statement is kept in one form or another.
const TEXT_COPIES: usize = 4;

impl Server {
    /// Prepares a statement.
    pub(crate) async fn create_prepared(
        &self,
        caller: &Caller,
        request: ActionCreatePreparedStatementRequest,
    ) -> Result<ActionCreatePreparedStatementResult, Status> {
        let using = self.using(caller, request.transaction_id.as_deref())?;
        let mut session = using.lock().await?;
        let prepared = session.prepare(one(&numbered(&request.query))?, &[]).await;
        let prepared = prepared.map_err(|error| status_of(&error)).inspect_err(|_| self.counts.failed())?;
        session.done();
        let parameters = prepared.parameters.iter().zip(1..);
        let parameters: Vec<Field> = parameters
            .map(|(data_type, number)| Field::new(format!("${number}"), wire_type(data_type), true))
            .collect();
        let parameter_schema = match parameters.is_empty() {
            true => Bytes::new(),
            false => encoded(&Schema::new(parameters))?,
        };
        let columns = prepared.columns.as_ref();
        let dataset_schema = columns.map(|columns| encoded(&rows_schema(columns))).transpose()?;
        let charge = self.surroundings.memory.charge(Component::Query, 0);
        let bound = Mutex::new(Bound { rows: Arc::default(), _charge: charge });
        let bytes = STATEMENT_BYTES + TEXT_COPIES * request.query.len();
        let statement = PreparedStatement { using, prepared, bound };
        let id = self.kept.statements.insert(caller.owner(), statement, bytes)?;
        Ok(ActionCreatePreparedStatementResult {
            prepared_statement_handle: id.bytes(),
            dataset_schema: dataset_schema.unwrap_or_default(),
            parameter_schema,
        })
    }

    /// Forgets one.
    pub(crate) fn close_prepared(&self, caller: &Caller, handle: &[u8]) -> Result<(), Status> {
        self.kept.statements.remove(handle, caller.owner()).map(drop)
    }

    /// Takes rows of parameters.
    pub(crate) async fn bind(
        &self,
        caller: &Caller,
        handle: &[u8],
        input: &mut Input,
    ) -> Result<DoPutPreparedStatementResult, Status> {
        let statement = self.kept.statements.get(handle, caller.owner())?;
        let mut charge = self.surroundings.memory.charge(Component::Query, 0);
        let mut rows = Vec::new();
        while let Some(own) = input.next().await? {
            let grown = charge.try_grow(own.get_array_memory_size() as u64);
            grown.map_err(|error| Status::resource_exhausted(error.to_string()))?;
            rows.push(own);
        }
        *statement.bound.lock() = Bound { rows: Arc::new(rows), _charge: charge };
        // The JDBC driver takes whatever comes for a new handle, also nothing.
        Ok(DoPutPreparedStatementResult { prepared_statement_handle: Some(Bytes::copy_from_slice(handle)) })
    }

    /// What it gives; if that is no rows, it is executed.
    pub(crate) async fn prepared_info(&self, caller: &Caller, handle: Bytes) -> Result<FlightInfo, Status> {
        let statement = self.kept.statements.get(&handle, caller.owner())?;
        if let Some(columns) = &statement.prepared.columns {
            let number = Id::new()?.bytes();
            let ticket = Handle { number, prepared: Some(handle), ..Handle::default() };
            return info_of_rows(columns, &ticket);
        }
        let parameters = statement.bound()?;
        let mut session = statement.using.lock().await?;
        let mut series = Series::begin(
            &mut session,
            &statement.prepared,
            parameters.rows.len() > 1 || parameters.rows.iter().any(|rows| rows.num_rows() > 1),
        );
        self.execute_bound(&mut session, &statement, &parameters, &mut series).await?;
        let changed = series.end(&mut session).await?;
        session.done();
        info_of_change(u64::try_from(changed).ok())
    }

    /// The columns of its rows.
    pub(crate) fn prepared_schema(&self, caller: &Caller, handle: &[u8]) -> Result<SchemaRef, Status> {
        let statement = self.kept.statements.get(handle, caller.owner())?;
        let columns = statement.prepared.columns.as_ref();
        Ok(columns.map_or_else(|| Arc::new(Schema::empty()), |columns| rows_schema(columns)))
    }

    /// Its rows, for one row of parameters after the other.
    pub(crate) async fn prepared_rows(
        self: &Arc<Self>,
        caller: &Caller,
        handle: &[u8],
        number: Id,
    ) -> Result<Answer, Status> {
        let statement = self.kept.statements.get(handle, caller.owner())?;
        let parameters = statement.bound()?;
        let listed = self.kept.running.list(number, caller.owner(), statement.using.cancel_handle());
        let Some((row, next)) = parameters.next((0, 0)) else { return Ok(Answer::empty()) };
        let done = unless_cancelled(&listed, self.prepared_done(&statement, row)).await?;
        let Done::Rows(rows) = done else { return Ok(Answer::empty()) };
        let has_more = parameters.next(next).is_some();
        let columns = statement.prepared.columns.clone().unwrap_or_else(|| rows.schema());
        if !has_more {
            return Ok(Answer::of_rows(rows, &columns, statement.using.clone(), listed));
        }
        let (schema, transaction) = (rows_schema(&columns), statement.using.transaction.clone());
        let server = self.clone();
        let more = stream::try_unfold(next, move |place| {
            let (server, statement) = (server.clone(), statement.clone());
            let found =
                parameters.next(place).map(|(row, next)| (row.map(|(rows, row)| (rows.clone(), row)), next));
            async move {
                let Some((row, next)) = found else { return Ok(None) };
                let row = row.as_ref().map(|(rows, row)| (rows, *row));
                match server.prepared_done(&statement, row).await? {
                    Done::Rows(rows) => Ok(Some((batches_of(rows), next))),
                    Done::Changed(_) => {
                        Err(Status::internal("a statement does not give the rows that it announced"))
                    }
                }
            }
        });
        let batches = batches_of(rows).chain(more.try_flatten());
        Ok(Answer::of_batches(schema, batches).listed(listed, transaction))
    }

    async fn prepared_done(
        &self,
        statement: &PreparedStatement,
        row: Option<(&RecordBatch, usize)>,
    ) -> Result<Done, Status> {
        let mut session = statement.using.lock().await?;
        let done = self.execute(&mut session, &statement.prepared, row).await?;
        session.done();
        Ok(done)
    }

    /// Executes it for each row of parameters that the client sends; how many rows that has changed.
    pub(crate) async fn prepared_update(
        &self,
        caller: &Caller,
        handle: &[u8],
        input: &mut Input,
    ) -> Result<i64, Status> {
        let statement = self.kept.statements.get(handle, caller.owner())?;
        let mut session = statement.using.lock().await?;
        if statement.prepared.parameters.is_empty() {
            // What comes is an empty row at most.
            while input.next().await?.is_some() {}
            let done = self.execute(&mut session, &statement.prepared, None).await?;
            session.done();
            return changed(done).await;
        }
        let mut series = Series::begin(&mut session, &statement.prepared, true);
        let mut is_bound = false;
        loop {
            let rows = match input.next().await {
                Ok(Some(rows)) => rows,
                Ok(None) => break,
                Err(status) => return Err(series.fail(&mut session, status)),
            };
            for row in 0..rows.num_rows() {
                is_bound = true;
                let done = self.execute(&mut session, &statement.prepared, Some((&rows, row))).await;
                series.count(&mut session, done).await?;
            }
        }
        if !is_bound {
            // The client may have bound values before.
            let parameters = statement.bound()?;
            self.execute_bound(&mut session, &statement, &parameters, &mut series).await?;
        }
        let changed = series.end(&mut session).await?;
        session.done();
        Ok(changed)
    }

    /// Executes a statement for each row of values that was bound before.
    async fn execute_bound(
        &self,
        session: &mut Locked,
        statement: &PreparedStatement,
        parameters: &Parameters,
        series: &mut Series,
    ) -> Result<(), Status> {
        let mut place = (0, 0);
        while let Some((row, next)) = parameters.next(place) {
            let done = self.execute(session, &statement.prepared, row).await;
            series.count(session, done).await?;
            place = next;
        }
        Ok(())
    }
}

/// Executions of a statement that belong together: they are one transaction, if the statement changes rows of tables.
struct Series {
    is_open: bool,
    changed: i64,
}

impl Series {
    fn begin(session: &mut Locked, prepared: &Prepared, has_many: bool) -> Self {
        let is_open = has_many && prepared.changes_rows() && !session.is_in_transaction();
        if is_open {
            session.begin_series();
        }
        Self { is_open, changed: 0 }
    }

    /// Counts what an execution has changed. If it has failed, so has the series.
    async fn count(&mut self, session: &mut Locked, done: Result<Done, Status>) -> Result<(), Status> {
        let counted = match done {
            Ok(done) => changed(done).await,
            Err(status) => Err(status),
        };
        match counted {
            Ok(rows) => {
                self.changed = self.changed.saturating_add(rows);
                Ok(())
            }
            Err(status) => Err(self.fail(session, status)),
        }
    }

    fn fail(&self, session: &mut Locked, status: Status) -> Status {
        if self.is_open {
            session.abandon_series();
        }
        status
    }

    async fn end(self, session: &mut Locked) -> Result<i64, Status> {
        if self.is_open {
            session.end_series().await.map_err(|error| status_of(&error))?;
        }
        Ok(self.changed)
    }
}

/// Columns as the protocol has them.
fn encoded(schema: &Schema) -> Result<Bytes, Status> {
    let options = IpcWriteOptions::default();
    let message: Result<IpcMessage, _> = SchemaAsIpc::new(schema, &options).try_into();
    message.map(|IpcMessage(bytes)| bytes).map_err(internal)
}
