//! Arrow Flight SQL over sessions of `nyala-sql`: gRPC, whose messages are Arrow's.
//!
//! A [`Server`] serves connections that its caller has accepted ([`connection`]). Each call says who sends it
//! ([`authentication`]); what it asks for is found in [`service`]. A query goes through [`statement`] and [`answer`], which
//! sends frames of Arrow arrays as they are computed. [`kept`] is what outlives a call: prepared statements, transactions,
//! and the list of what runs.

mod answer;
mod arbitrary;
mod authentication;
mod body;
mod caller;
mod catalogue;
mod connection;
mod error;
mod ingest;
mod input;
mod kept;
mod placeholder;
mod prepared;
mod prepared_statement;
mod registry;
mod running;
mod service;
mod session_tokens;
mod sessions;
mod shared;
mod statement;
mod ticket;
mod transaction;
mod wire_type;
mod work;

pub use arbitrary::read_arbitrary;
pub use connection::BeginCall;
pub use shared::{Authenticate, Counts, Ready, Refused, Server, Settings, Surroundings, Why};
