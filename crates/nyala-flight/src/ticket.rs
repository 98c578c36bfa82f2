//! Tickets: what a client gets when it asks about a query, and sends back to get its rows.
//!
//! A ticket holds the whole request, so nothing is kept for a client that never comes back, and it can be used again. Its number
//! is how the client names the query when it wants to cancel it.

use crate::error::malformed;
use crate::registry::Id;
use arrow_flight::Ticket;
use arrow_flight::sql::{ProstMessageExt, TicketStatementQuery};
use prost::Message;
use tonic::Status;
use tonic::codegen::Bytes;

/// What a ticket holds.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Handle {
    /// The number of the query.
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) number: Bytes,
    /// The text of a statement; empty for a prepared one.
    #[prost(string, tag = "2")]
    pub(crate) text: String,
    /// The database that names belong to.
    #[prost(string, tag = "3")]
    pub(crate) database: String,
    /// The transaction that it is executed in.
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub(crate) transaction: Option<Bytes>,
    /// The prepared statement that is executed.
    #[prost(bytes = "bytes", optional, tag = "5")]
    pub(crate) prepared: Option<Bytes>,
}

impl Handle {
    /// The number of the query.
    pub(crate) fn id(&self) -> Result<Id, Status> {
        Id::of(&self.number)
    }

    /// The ticket that holds it.
    pub(crate) fn ticket(&self) -> Ticket {
        let ticket = TicketStatementQuery { statement_handle: self.encode_to_vec().into() };
        Ticket::new(ticket.as_any().encode_to_vec())
    }

    /// Reads it back.
    pub(crate) fn of(ticket: &TicketStatementQuery) -> Result<Self, Status> {
        Self::decode(ticket.statement_handle.clone())
            .map_err(|error| malformed("the ticket is not of this server", error))
    }
}
