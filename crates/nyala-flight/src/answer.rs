//! Rows on their way to a client: frames of Arrow arrays, as messages of Flight.
//!
//! They are computed in the thread pool, a few messages ahead of what the client takes. What waits is charged to the
//! statement. A client that takes nothing for a while, or leaves, ends its query.

use crate::error::{cancelled, internal, panicked, status_of};
use crate::running::ListedQuery;
use crate::sessions::{OpenTransaction, Using};
use crate::shared::Server;
use crate::wire_type::{on_wire, rows_schema, wire_schema};
use arrow_array::RecordBatch;
use arrow_flight::FlightData;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_schema::{Schema, SchemaRef};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use nyala_exec::QueryMemory;
use nyala_exec::memory::MemoryCharge;
use nyala_sql::Rows;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tonic::Status;

/// The size of a message. Clients refuse those of 4 MiB, and sizes are estimated.
const MESSAGE_BYTES: usize = 1 << 20;
/// Messages that wait for the client.
const WAITING_MAX: usize = 2;

/// Rows to be sent.
pub(crate) struct Answer {
    schema: SchemaRef,
    batches: BoxStream<'static, Result<RecordBatch, Status>>,
    /// What messages are charged to that wait; `None` for few rows.
    memory: Option<QueryMemory>,
    /// The query in the list of those that can be cancelled.
    listed: Option<ListedQuery>,
    /// The transaction that fails if a row fails.
    transaction: Option<Arc<OpenTransaction>>,
}

impl Answer {
    /// The rows of a query, with the columns that were announced.
    pub(crate) fn of_rows(rows: Rows, announced: &Schema, using: Using, listed: ListedQuery) -> Self {
        let (schema, memory) = (rows_schema(announced), rows.memory().cloned());
        let batches = batches_of(rows).boxed();
        Self { schema, batches, memory, listed: Some(listed), transaction: using.transaction }
    }

    /// Rows that something else computes.
    pub(crate) fn of_batches(
        schema: SchemaRef,
        batches: impl Stream<Item = Result<RecordBatch, Status>> + Send + 'static,
    ) -> Self {
        Self { schema, batches: batches.boxed(), memory: None, listed: None, transaction: None }
    }

    /// The same of a query that can be cancelled.
    pub(crate) fn listed(self, listed: ListedQuery, transaction: Option<Arc<OpenTransaction>>) -> Self {
        Self { listed: Some(listed), transaction, ..self }
    }

    /// No rows, of no columns.
    pub(crate) fn empty() -> Self {
        Self::of_batches(Arc::new(Schema::empty()), stream::empty())
    }

    /// Sends it.
    pub(crate) fn send(self, server: &Arc<Server>) -> FlightStream {
        let (sender, received) = mpsc::channel(WAITING_MAX);
        let (mut task, own) = (JoinSet::new(), server.clone());
        let sending = async move {
            let transaction = self.transaction.clone();
            let sent = self.run(&own, sender).await;
            if sent.is_err() {
                own.counts.failed();
                transaction.iter().for_each(|transaction| transaction.fail());
            }
            sent
        };
        task.spawn_on(sending, &server.surroundings.work);
        FlightStream { received, task, _held: None }
    }

    async fn run(self, server: &Server, sender: mpsc::Sender<Part>) -> Result<(), Status> {
        let Self { schema, batches, memory, listed, .. } = self;
        let wire = wire_schema(&schema);
        let own = wire.clone();
        let batches = batches.map(move |rows| on_wire(&rows?, &own));
        let mut messages = FlightDataEncoderBuilder::new()
            .with_schema(wire)
            .with_max_flight_data_size(MESSAGE_BYTES)
            .build(batches.map_err(|status: Status| FlightError::from(status)));
        let cancelling = async {
            match &listed {
                Some(listed) => listed.cancelled().await,
                None => std::future::pending().await,
            }
        };
        let mut cancelling = std::pin::pin!(cancelling);
        loop {
            let next = tokio::select! {
                biased;
                () = &mut cancelling => return Err(cancelled()),
                () = sender.closed() => return Ok(()),
                next = messages.next() => next,
            };
            let Some(message) = next.transpose().map_err(status_of_flight)? else { return Ok(()) };
            let held = memory.as_ref().map(|memory| charge(memory, &message)).transpose()?;
            let timeout = server.settings.write_timeout;
            let sent = tokio::select! {
                biased;
                () = &mut cancelling => return Err(cancelled()),
                sent = tokio::time::timeout(timeout, sender.send(Part { message, held })) => sent,
            };
            match sent {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Ok(()),
                Err(_) => {
                    let words = format!("the client took nothing for {} s", timeout.as_secs());
                    return Err(Status::deadline_exceeded(words));
                }
            }
        }
    }
}

/// The frames of an answer.
pub(crate) fn batches_of(rows: Rows) -> impl Stream<Item = Result<RecordBatch, Status>> + Send + 'static {
    stream::try_unfold(rows, async |mut rows| {
        let next = rows.next().await.map_err(|error| status_of(&error))?;
        Ok(next.map(|batch| (batch, rows)))
    })
}

fn charge(memory: &QueryMemory, message: &FlightData) -> Result<MemoryCharge, Status> {
    let mut held = memory.hold();
    let charged = held.charge(message.data_header.len() + message.data_body.len());
    charged.map_err(|error| crate::error::status_of_core(&error))?;
    Ok(held)
}

fn status_of_flight(error: FlightError) -> Status {
    match error {
        FlightError::Tonic(status) => *status,
        other => internal(other),
    }
}

/// A message, and the memory that it is charged with.
struct Part {
    message: FlightData,
    held: Option<MemoryCharge>,
}

/// The messages of an answer, as the client takes them. Dropping it ends the query.
pub(crate) struct FlightStream {
    received: mpsc::Receiver<Part>,
    /// What computes them. How it ended is known when there are no more.
    task: JoinSet<Result<(), Status>>,
    /// The memory of the message that was taken last: it is copied until the next one is asked for.
    _held: Option<MemoryCharge>,
}

impl Stream for FlightStream {
    type Item = Result<FlightData, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(part) = ready!(self.received.poll_recv(context)) {
            self._held = part.held;
            return Poll::Ready(Some(Ok(part.message)));
        }
        self._held = None;
        let ended = ready!(self.task.poll_join_next(context));
        Poll::Ready(match ended {
            None | Some(Ok(Ok(()))) => None,
            Some(Ok(Err(status))) => Some(Err(status)),
            Some(Err(error)) if error.is_panic() => Some(Err(panicked())),
            // The thread pool ends before all of it was sent.
            Some(Err(_)) => Some(Err(Status::unavailable("the server stops"))),
        })
    }
}
