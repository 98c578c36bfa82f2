//! The calls of Flight, and which command of Flight SQL each of them carries.
//!
//! Calls that execute commands run in the thread pool. Calls and commands that are not supported return `UNIMPLEMENTED` with
//! their name.

use crate::answer::{Answer, FlightStream};
use crate::caller::Caller;
use crate::catalogue;
use crate::error::{internal, malformed};
use crate::input::Input;
use crate::registry::Id;
use crate::shared::Server;
use crate::ticket::Handle;
use crate::work::in_pool;
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::{
    ActionBeginSavepointRequest, ActionBeginSavepointResult, ActionBeginTransactionRequest,
    ActionBeginTransactionResult, ActionCancelQueryRequest, ActionCancelQueryResult,
    ActionClosePreparedStatementRequest, ActionCreatePreparedStatementRequest, ActionEndSavepointRequest,
    ActionEndTransactionRequest, Any, Command, DoPutUpdateResult, ProstMessageExt,
};
use arrow_flight::{
    Action, ActionType, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, Criteria, Empty,
    FlightData, FlightDescriptor, FlightEndpoint, FlightInfo, HandshakeRequest, HandshakeResponse, PollInfo,
    PutResult, SchemaAsIpc, SchemaResult, Ticket,
};
use arrow_ipc::writer::IpcWriteOptions;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use nyala_core::span;
use nyala_core::span::{Instrument, Span};
use prost::Message;
use std::net::IpAddr;
use std::sync::Arc;
use tonic::codegen::Bytes;
use tonic::metadata::MetadataValue;
use tonic::{Request, Response, Status, Streaming, async_trait};

/// What clients may ask for as actions, and what that does.
const ACTIONS: [(&str, &str); 8] = [
    ("CreatePreparedStatement", "prepares a statement"),
    ("ClosePreparedStatement", "forgets a prepared statement"),
    ("BeginTransaction", "begins a transaction"),
    ("EndTransaction", "commits or rolls back a transaction"),
    ("BeginSavepoint", "makes a savepoint in a transaction"),
    ("EndSavepoint", "releases a savepoint, or rolls back to it"),
    ("CancelFlightInfo", "cancels a query that runs"),
    ("CancelQuery", "cancels a query (older form)"),
];

/// Answers the calls of a connection.
#[derive(Clone)]
pub(crate) struct Service {
    server: Arc<Server>,
    client: Option<IpAddr>,
}

type Answers<T> = BoxStream<'static, Result<T, Status>>;

impl Service {
    pub(crate) fn new(server: Arc<Server>, client: Option<IpAddr>) -> Self {
        Self { server, client }
    }

    /// Does what a call asks for, in the thread pool.
    async fn work<T, F>(&self, call: Span, work: impl FnOnce(Arc<Server>) -> F) -> Result<T, Status>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Status>> + Send + 'static,
    {
        in_pool(&self.server.surroundings.work, work(self.server.clone()).instrument(call)).await
    }
}

#[async_trait]
impl FlightService for Service {
    type HandshakeStream = Answers<HandshakeResponse>;
    type ListFlightsStream = Answers<FlightInfo>;
    type DoGetStream = FlightStream;
    type DoPutStream = Answers<PutResult>;
    type DoActionStream = Answers<arrow_flight::Result>;
    type ListActionsStream = Answers<ActionType>;
    type DoExchangeStream = Answers<FlightData>;

    async fn handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        let headers = request.metadata().clone().into_headers();
        let token = self.server.log_in(&headers, self.client).await?;
        let payload = Bytes::from(token.clone());
        let answer = HandshakeResponse { protocol_version: 0, payload };
        let mut response = Response::new(stream::iter([Ok(answer)]).boxed());
        let header = MetadataValue::try_from(format!("Bearer {token}")).map_err(internal)?;
        response.metadata_mut().insert("authorization", header);
        Ok(response)
    }

    async fn list_flights(&self, _: Request<Criteria>) -> Result<Response<Self::ListFlightsStream>, Status> {
        Err(Status::unimplemented("ListFlights is not supported: ask for tables by Flight SQL's GetTables"))
    }

    async fn get_flight_info(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let call = traced("GetFlightInfo", &request);
        let caller = Caller::of_request(&request)?;
        let descriptor = request.into_inner();
        let command = command_of(&descriptor)?;
        let info = self.work(call, |server| async move { info(&server, &caller, command).await }).await?;
        Ok(Response::new(info.with_descriptor(descriptor)))
    }

    async fn poll_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<PollInfo>, Status> {
        Err(Status::unimplemented("PollFlightInfo is not supported: use GetFlightInfo"))
    }

    async fn get_schema(&self, request: Request<FlightDescriptor>) -> Result<Response<SchemaResult>, Status> {
        let call = traced("GetSchema", &request);
        let caller = Caller::of_request(&request)?;
        let command = command_of(request.get_ref())?;
        let schema = self.work(call, |server| async move {
            match command {
                Command::CommandStatementQuery(asked) => {
                    server.statement_schema(&caller, &asked.query, asked.transaction_id.as_deref()).await
                }
                Command::CommandPreparedStatementQuery(asked) => {
                    server.prepared_schema(&caller, &asked.prepared_statement_handle)
                }
                other => catalogue::schema_of(&other)?.ok_or_else(|| unsupported("GetSchema", &other)),
            }
        });
        let (schema, options) = (schema.await?, IpcWriteOptions::default());
        SchemaAsIpc::new(&schema, &options).try_into().map(Response::new).map_err(internal)
    }

    async fn do_get(&self, request: Request<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        let call = traced("DoGet", &request);
        let caller = Caller::of_request(&request)?;
        let any = Any::decode(request.into_inner().ticket);
        let command = command(any.map_err(|error| malformed("the ticket is not of this server", error))?)?;
        let answer = self.work(call, |server| async move { answer(&server, caller, command).await }).await?;
        Ok(Response::new(answer.send(&self.server)))
    }

    async fn do_put(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoPutStream>, Status> {
        let call = traced("DoPut", &request);
        let caller = Caller::of_request(&request)?;
        let messages = request.into_inner();
        let done = self.work(call, |server| async move {
            let (descriptor, input) = Input::begin(messages, &server.surroundings.memory).await?;
            put(&server, &caller, command_of(&descriptor)?, input).await
        });
        let result = PutResult { app_metadata: done.await? };
        Ok(Response::new(stream::iter([Ok(result)]).boxed()))
    }

    async fn do_exchange(
        &self,
        _: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        Err(Status::unimplemented("DoExchange is not supported: no command of Flight SQL needs it"))
    }

    async fn do_action(&self, request: Request<Action>) -> Result<Response<Self::DoActionStream>, Status> {
        let call = traced("DoAction", &request);
        let caller = Caller::of_request(&request)?;
        let action = request.into_inner();
        let result = self.work(call, |server| async move { act(&server, &caller, action).await }).await?;
        let results = result.map(|body| Ok(arrow_flight::Result { body }));
        Ok(Response::new(stream::iter(results).boxed()))
    }

    async fn list_actions(&self, _: Request<Empty>) -> Result<Response<Self::ListActionsStream>, Status> {
        let known = ACTIONS
            .map(|(name, does)| Ok(ActionType { r#type: name.to_owned(), description: does.to_owned() }));
        Ok(Response::new(stream::iter(known).boxed()))
    }
}

/// The span of a call, within the trace that its client has begun.
fn traced<T>(call: &'static str, request: &Request<T>) -> Span {
    span!(
        "Flight call",
        rpc.method = call,
        traceparent = request.metadata().get("traceparent").and_then(|value| value.to_str().ok()),
    )
}

pub(crate) fn command_of(descriptor: &FlightDescriptor) -> Result<Command, Status> {
    let any = Any::decode(&*descriptor.cmd);
    command(any.map_err(|error| malformed("the descriptor is no command of Flight SQL", error))?)
}

fn command(any: Any) -> Result<Command, Status> {
    Command::try_from(any).map_err(|error| malformed("the command cannot be read", error))
}

/// A command that a call does not serve.
fn unsupported(call: &str, command: &Command) -> Status {
    let name = command.type_url().rsplit('.').next().unwrap_or_default();
    let name: String = name.chars().take(128).collect();
    Status::unimplemented(format!("{call} of \"{name}\" is not supported"))
}

/// The schema and the ticket of a command's result.
async fn info(server: &Arc<Server>, caller: &Caller, command: Command) -> Result<FlightInfo, Status> {
    match command {
        Command::CommandStatementQuery(asked) => {
            server.statement_info(caller, asked.query, asked.transaction_id).await
        }
        Command::CommandPreparedStatementQuery(asked) => {
            server.prepared_info(caller, asked.prepared_statement_handle).await
        }
        other => {
            let schema = catalogue::schema_of(&other)?.ok_or_else(|| unsupported("GetFlightInfo", &other))?;
            // The command itself says what is wanted.
            let ticket = Ticket::new(other.into_any().encode_to_vec());
            let info = FlightInfo::new().try_with_schema(&schema).map_err(internal)?;
            Ok(info.with_endpoint(FlightEndpoint::new().with_ticket(ticket)))
        }
    }
}

/// The rows for a ticket.
async fn answer(server: &Arc<Server>, caller: Caller, command: Command) -> Result<Answer, Status> {
    match command {
        Command::TicketStatementQuery(ticket) => {
            let handle = Handle::of(&ticket)?;
            match &handle.prepared {
                Some(prepared) => server.prepared_rows(&caller, prepared, handle.id()?).await,
                None => server.statement_rows(caller, handle).await,
            }
        }
        Command::CommandPreparedStatementQuery(asked) => {
            server.prepared_rows(&caller, &asked.prepared_statement_handle, Id::new()?).await
        }
        other => {
            let refused = unsupported("DoGet", &other);
            catalogue::answer(server, caller, other).await?.ok_or(refused)
        }
    }
}

/// Executes a command of `DoPut`.
async fn put(
    server: &Arc<Server>,
    caller: &Caller,
    command: Command,
    mut input: Input,
) -> Result<Bytes, Status> {
    let record_count = match command {
        Command::CommandStatementUpdate(asked) => {
            server.update(caller, &asked.query, asked.transaction_id.as_deref()).await?
        }
        Command::CommandStatementIngest(asked) => server.ingest(caller, &asked, &mut input).await?,
        Command::CommandPreparedStatementUpdate(asked) => {
            server.prepared_update(caller, &asked.prepared_statement_handle, &mut input).await?
        }
        Command::CommandPreparedStatementQuery(asked) => {
            let bound = server.bind(caller, &asked.prepared_statement_handle, &mut input).await?;
            return Ok(bound.encode_to_vec().into());
        }
        other => return Err(unsupported("DoPut", &other)),
    };
    Ok(DoPutUpdateResult { record_count }.encode_to_vec().into())
}

/// Does what an action asks for; the answer, if it has one.
async fn act(server: &Arc<Server>, caller: &Caller, action: Action) -> Result<Option<Bytes>, Status> {
    let packed = |message: &dyn ErasedMessage| Ok(Some(message.packed()));
    match action.r#type.as_str() {
        "CreatePreparedStatement" => {
            let request: ActionCreatePreparedStatementRequest = unpacked(&action)?;
            packed(&server.create_prepared(caller, request).await?)
        }
        "ClosePreparedStatement" => {
            let request: ActionClosePreparedStatementRequest = unpacked(&action)?;
            server.close_prepared(caller, &request.prepared_statement_handle)?;
            Ok(None)
        }
        "BeginTransaction" => {
            let ActionBeginTransactionRequest {} = unpacked(&action)?;
            let transaction_id = server.begin_transaction(caller).await?.bytes();
            packed(&ActionBeginTransactionResult { transaction_id })
        }
        "EndTransaction" => {
            let request: ActionEndTransactionRequest = unpacked(&action)?;
            server.end_transaction(caller, &request).await?;
            Ok(None)
        }
        "BeginSavepoint" => {
            let request: ActionBeginSavepointRequest = unpacked(&action)?;
            let savepoint = server.begin_savepoint(caller, &request.transaction_id, &request.name).await?;
            packed(&ActionBeginSavepointResult { savepoint_id: savepoint.into() })
        }
        "EndSavepoint" => {
            let request: ActionEndSavepointRequest = unpacked(&action)?;
            server.end_savepoint(caller, &request).await?;
            Ok(None)
        }
        "CancelFlightInfo" => {
            let request = CancelFlightInfoRequest::decode(action.body.clone());
            let request =
                request.map_err(|error| malformed("the request to cancel cannot be read", error))?;
            let info = request.info.ok_or_else(|| Status::invalid_argument("nothing to cancel is named"))?;
            cancel(server, caller, &info)?;
            Ok(Some(CancelFlightInfoResult::new(CancelStatus::Cancelled).encode_to_vec().into()))
        }
        "CancelQuery" => {
            let request: ActionCancelQueryRequest = unpacked(&action)?;
            let info = FlightInfo::decode(request.info);
            cancel(
                server,
                caller,
                &info.map_err(|error| malformed("the query to cancel cannot be read", error))?,
            )?;
            // The protocol's number of CANCELLED.
            packed(&ActionCancelQueryResult { result: 1 })
        }
        other => {
            let name: String = other.chars().take(128).collect();
            Err(Status::unimplemented(format!("the action \"{name}\" is not supported")))
        }
    }
}

/// A message that can be packed.
trait ErasedMessage {
    fn packed(&self) -> Bytes;
}

impl<M: ProstMessageExt> ErasedMessage for M {
    fn packed(&self) -> Bytes {
        self.as_any().encode_to_vec().into()
    }
}

fn unpacked<M: ProstMessageExt + Default>(action: &Action) -> Result<M, Status> {
    let wrong = |error: &dyn std::fmt::Display| malformed("the body of the action cannot be read", error);
    let any = Any::decode(action.body.clone()).map_err(|error| wrong(&error))?;
    let message = any.unpack().map_err(|error| wrong(&error))?;
    message.ok_or_else(|| wrong(&"it is another message"))
}

/// Cancels the queries whose tickets a client names.
fn cancel(server: &Server, caller: &Caller, info: &FlightInfo) -> Result<(), Status> {
    let mut is_found = false;
    for endpoint in &info.endpoint {
        let any = endpoint.ticket.as_ref().map(|ticket| Any::decode(ticket.ticket.clone()));
        if let Some(Ok(any)) = any
            && let Command::TicketStatementQuery(ticket) = command(any)?
        {
            is_found |= server.kept.running.cancel(Handle::of(&ticket)?.id()?, caller.owner());
        }
    }
    match is_found {
        true => Ok(()),
        false => Err(Status::not_found("no such query runs: it has ended, or not begun")),
    }
}
