//! The load generator's side of HTTP: blocking keep-alive connections that cost the machine little.

pub mod connection;
pub mod response;
pub mod target;
