//! An HTTP/1.1 client that blocks: one thread, one connection, one request at a time.
//!
//! The benchmarks and the shell use it. Benchmarks share the machine with the server that they measure, so bodies can be
//! counted and dropped; the shell hands them on in pieces, so that its memory does not grow with an answer. The server is
//! not trusted: what it makes a client hold is bounded ([`response`]).

pub mod connection;
pub mod error;
pub mod response;
pub mod target;
pub mod tls;

pub use connection::{Canceller, Connection};
pub use error::ClientError;
pub use response::{Body, Response};
pub use target::{Target, query_escape};
pub use tls::Trust;
