//! PostgreSQL's wire protocol, version 3, over sessions of `nyala-sql`.
//!
//! A [`Server`] is given streams and serves a connection on each. A connection begins in [`server`], logs in
//! (`connection/log_in.rs`, [`authentication`]), and then answers messages (`connection/mod.rs`). Bytes of messages stand
//! in [`message`], those of values in [`value`], those of rows that are copied in [`copy`].
//!
//! Whatever a client sends, memory stays within bounds: messages, statements and portals are charged to the memory account
//! or counted. Malformed bytes get an error of the protocol.

pub mod authentication;
mod cancels;
mod connection;
pub mod copy;
pub mod error;
pub mod message;
mod server;
mod shared;
pub mod value;

pub use connection::wire::Duplex;
pub use shared::{Counts, Server, Settings, Surroundings};
