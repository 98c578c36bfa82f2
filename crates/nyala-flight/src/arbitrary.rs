//! Reading arbitrary bytes as what clients send: the entry for fuzzers.

use crate::session_tokens::{PREFIX, Tokens};
use crate::ticket::Handle;
use crate::{body, input, service};
use arrow_array::Array;
use arrow_flight::sql::{Any, Command, TicketStatementQuery};
use arrow_flight::{FlightData, FlightDescriptor};
use nyala_core::memory::MemoryBudget;
use prost::Message;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tonic::codegen::Bytes;

/// What the server may have.
const MEMORY_BYTES: u64 = 64 << 20;

/// Reads bytes, of which the first says as what: as frames of gRPC, as messages with rows (each behind its length in two bytes), as
/// a command, as what a ticket holds, or as a token.
///
/// # Panics
/// What must hold does not.
pub fn read_arbitrary(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let memory = MemoryBudget::new(MEMORY_BYTES);
    match kind % 5 {
        0 => body::read_arbitrary(bytes, &memory),
        1 => {
            // A panic of Arrow's decoder is an error of the call (`work`).
            let read = AssertUnwindSafe(|| input::read_arbitrary(messages(bytes), &memory));
            for rows in catch_unwind(read).unwrap_or_default() {
                for column in rows.columns() {
                    column.to_data().validate_full().expect("rows that were taken are valid");
                }
            }
        }
        2 => {
            let cmd = Bytes::copy_from_slice(bytes);
            let _ = service::command_of(&FlightDescriptor { cmd, ..FlightDescriptor::default() });
        }
        3 => {
            let ticket = TicketStatementQuery { statement_handle: Bytes::copy_from_slice(bytes) };
            if let Ok(handle) = Handle::of(&ticket) {
                let _ = handle.id();
                assert!(again(&handle) == Some(handle));
            }
        }
        _ => {
            let tokens = Tokens::new().expect("the operating system has random numbers");
            let token = format!("{PREFIX}{}", String::from_utf8_lossy(bytes));
            assert!(tokens.user(&token, 0, |_, _| None).is_none());
        }
    }
}

fn messages(mut bytes: &[u8]) -> Vec<FlightData> {
    let mut messages = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(*length)).min(rest.len());
        let (message, rest) = rest.split_at(length);
        messages.extend(FlightData::decode(message));
        bytes = rest;
    }
    messages
}

/// What its ticket is read as.
fn again(handle: &Handle) -> Option<Handle> {
    let any = Any::decode(handle.ticket().ticket).ok()?;
    match Command::try_from(any).ok()? {
        Command::TicketStatementQuery(ticket) => Handle::of(&ticket).ok(),
        _ => None,
    }
}
