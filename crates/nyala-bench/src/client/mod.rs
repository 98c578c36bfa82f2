//! The HTTP client of the load generator.
//!
//! It runs on the machine of the server it measures, so it has to cost little: a thread blocks on its connection, and
//! bodies are counted and dropped.

pub mod connection;
pub mod database;
pub mod response;
pub mod target;
