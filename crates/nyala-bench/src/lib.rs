//! Published time-series benchmarks: workloads, load and query clients, reports.
//!
//! `nyala bench` is [`run`] on a [`BenchCommand`]. The crate talks to servers over HTTP and PostgreSQL's protocol only and knows
//! nothing of nyala's insides, so that a peer is measured by exactly the same means.
//!
//! In a run, [`workload`] generates rows as line protocol and [`run::load`] sends them over connections of [`client`].
//! [`query`] draws random queries and [`run::queries`] sends those. Meanwhile [`measure`] samples the server's process.
//! [`verify`] checks answers, and [`report`] prints the results.

pub mod cli;
pub mod client;
pub mod demo;
pub mod error;
pub mod measure;
#[cfg(feature = "sql")]
pub mod peer;
pub mod query;
pub mod random;
pub mod report;
pub mod run;
pub mod server;
pub mod time;
pub mod verify;
pub mod workload;

pub use cli::BenchCommand;
pub use error::BenchError;
pub use run::run;
pub use server::ServerUnderTest;
