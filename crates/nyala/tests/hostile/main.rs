//! What a hostile or broken client can send: each request is refused with the right status and words that help,
//! the server goes on, its memory stays within a bound, and nothing that was stored is lost.

#[path = "../support/client.rs"]
#[allow(dead_code, reason = "the compatibility test uses the rest")]
mod client;

mod bodies;
mod connections;
mod queries;
mod server;
mod writes;
