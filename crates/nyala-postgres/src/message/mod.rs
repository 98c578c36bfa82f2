//! Messages of the protocol: what clients send ([`frontend`]), what they are answered ([`backend`]), and what a connection
//! begins with ([`startup`]).
//!
//! A message is a letter, its length, and fields. They are written here by hand: the `pgwire` crate has them too, but it
//! makes an object of every row, admits messages of 1 GiB, and replaces what is no UTF-8 instead of refusing it.

pub mod backend;
mod fields;
pub mod frontend;
pub mod startup;

pub use frontend::{Bind, Frontend, Target};
pub use startup::Startup;
