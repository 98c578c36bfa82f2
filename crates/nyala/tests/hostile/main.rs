//! What hostile or broken clients may send. Each request is refused with the right status and a helpful message, the
//! server continues, its memory stays within its limit, and no stored data is lost.

#[path = "../support/client.rs"]
#[allow(dead_code, reason = "the compatibility test uses the rest")]
mod client;

mod bodies;
mod connections;
mod queries;
mod server;
mod writes;
