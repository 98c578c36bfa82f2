//! The clients of the load generator: HTTP (by `nyala-client`), and PostgreSQL's protocol for questions in SQL.
//!
//! It runs on the machine of the server it measures, so it has to cost little: a thread blocks on its connection, and
//! bodies are counted and dropped.

#[cfg(feature = "sql")]
pub mod copy;
pub mod database;
pub mod dialect;
pub mod sql;
