//! Rows that a client sends: messages of Flight, as frames of Arrow arrays.
//!
//! A message is charged when it begins (`body`). What stays after its message is charged here: dictionaries. A few bytes
//! can stand for many: compressed bodies are refused, and so are frames with more rows than their bytes can justify.

use crate::error::malformed;
use arrow_array::RecordBatch;
use arrow_flight::decode::{DecodedPayload, FlightDataDecoder};
use arrow_flight::error::FlightError;
use arrow_flight::{FlightData, FlightDescriptor};
use arrow_ipc::MessageHeader;
use arrow_schema::SchemaRef;
use futures::{FutureExt, Stream, StreamExt, TryStreamExt, stream};
use nyala_core::memory::{Charge, Component, MemoryBudget};
use nyala_sql::SentDictionaries;
use std::sync::Arc;
use std::time::Duration;
use tonic::{Status, Streaming};

/// How long a client may take to say what it sends.
const FIRST_TIMEOUT: Duration = Duration::from_secs(30);
/// The most rows of a frame.
const ROWS_MAX: i64 = 1 << 24;

/// What a client sends.
pub(crate) struct Input {
    decoder: FlightDataDecoder,
    schema: Option<SchemaRef>,
    /// What was read while the schema was looked for.
    ahead: Option<RecordBatch>,
}

/// What stays after a message.
struct Guard {
    dictionaries: SentDictionaries,
    sent_bytes: u64,
    charge: Charge,
}

impl Input {
    /// Reads what a client is about to send, and begins to read it.
    pub(crate) async fn begin(
        mut messages: Streaming<FlightData>,
        memory: &Arc<MemoryBudget>,
    ) -> Result<(FlightDescriptor, Self), Status> {
        let first = tokio::time::timeout(FIRST_TIMEOUT, messages.message()).await;
        let late = |_| Status::deadline_exceeded("the client did not say what it sends");
        let first = first.map_err(late)??.ok_or_else(|| Status::invalid_argument("the stream is empty"))?;
        let described = first.flight_descriptor.clone();
        let described =
            described.ok_or_else(|| Status::invalid_argument("the first message has no descriptor"))?;
        // The first may have nothing but the descriptor.
        let has_data = !first.data_header.is_empty();
        let messages = stream::iter(has_data.then_some(Ok(first))).chain(messages);
        Ok((described, Self::of(messages, memory)))
    }

    /// Reads messages, each of which is checked before it is decoded.
    fn of(
        messages: impl Stream<Item = Result<FlightData, Status>> + Send + 'static,
        memory: &Arc<MemoryBudget>,
    ) -> Self {
        let charge = memory.charge(Component::InFlight, 0);
        let mut guard = Guard { dictionaries: SentDictionaries::default(), sent_bytes: 0, charge };
        let checked = messages.map(move |message| {
            let message: FlightData = message?;
            guard.check(&message)?;
            Ok(message)
        });
        let decoder = FlightDataDecoder::new(checked.map_err(|status: Status| FlightError::from(status)));
        Self { decoder, schema: None, ahead: None }
    }

    /// The columns; `None` if the client sends none.
    pub(crate) async fn schema(&mut self) -> Result<Option<SchemaRef>, Status> {
        if self.schema.is_none() && self.ahead.is_none() {
            self.ahead = self.decoded().await?;
        }
        Ok(self.schema.clone())
    }

    /// The next rows.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>, Status> {
        match self.ahead.take() {
            Some(ahead) => Ok(Some(ahead)),
            None => self.decoded().await,
        }
    }

    /// The next rows, which stop at the schema if that comes first.
    async fn decoded(&mut self) -> Result<Option<RecordBatch>, Status> {
        loop {
            let Some(decoded) = self.decoder.next().await.transpose().map_err(status_of)? else {
                return Ok(None);
            };
            match decoded.payload {
                DecodedPayload::None => {}
                DecodedPayload::Schema(_) if self.schema.is_some() => {
                    return Err(Status::invalid_argument("the columns change within the stream"));
                }
                DecodedPayload::Schema(schema) => self.schema = Some(schema),
                DecodedPayload::RecordBatch(rows) => return Ok(Some(rows)),
            }
        }
    }
}

fn status_of(error: FlightError) -> Status {
    match error {
        FlightError::Tonic(status) => *status,
        other => malformed("the rows cannot be read", other),
    }
}

impl Guard {
    fn check(&mut self, message: &FlightData) -> Result<(), Status> {
        self.sent_bytes = self.sent_bytes.saturating_add(message.data_body.len() as u64);
        let header = arrow_ipc::root_as_message(&message.data_header)
            .map_err(|error| malformed("the header of a message cannot be read", error))?;
        let rows = match header.header_type() {
            MessageHeader::RecordBatch => header.header_as_record_batch(),
            MessageHeader::DictionaryBatch => {
                let dictionary = header.header_as_dictionary_batch();
                let dictionary =
                    dictionary.ok_or_else(|| Status::invalid_argument("a dictionary is missing"))?;
                let own = message.data_body.len() as u64;
                if !self.dictionaries.note(dictionary.id(), own, dictionary.isDelta(), self.sent_bytes) {
                    let words = "dictionaries are extended too often: send them anew, or fewer frames";
                    return Err(Status::resource_exhausted(words));
                }
                let all = self.dictionaries.held_bytes();
                let held = self.charge.bytes();
                if all > held {
                    let grown = self.charge.try_grow(all - held);
                    grown.map_err(|error| Status::resource_exhausted(error.to_string()))?;
                }
                dictionary.data()
            }
            _ => None,
        };
        let Some(rows) = rows else { return Ok(()) };
        if rows.compression().is_some() {
            let words = "compressed bodies are not supported: send Arrow without compression of buffers";
            return Err(Status::unimplemented(words));
        }
        if !(0..=ROWS_MAX).contains(&rows.length()) {
            return Err(Status::invalid_argument(format!("a frame may have {ROWS_MAX} rows")));
        }
        Ok(())
    }
}

/// Reads messages as if a client had sent them: what a fuzzer calls. Returns the rows before the first error.
pub(crate) fn read_arbitrary(messages: Vec<FlightData>, memory: &Arc<MemoryBudget>) -> Vec<RecordBatch> {
    let mut input = Input::of(stream::iter(messages.into_iter().map(Ok)), memory);
    let mut read = Vec::new();
    while let Some(Ok(Some(rows))) = input.next().now_or_never() {
        read.push(rows);
    }
    read
}
