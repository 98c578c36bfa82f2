//! Published time-series benchmarks: workloads, load and query clients, reports.
//!
//! `nyala bench` is [`run`] on a [`BenchCommand`]. The crate talks to servers over HTTP only and knows
//! nothing of nyala's insides, so that a peer is measured by exactly the same means.
//!
//! A run: [`workload`] makes rows and writes them as text, [`run::load`] sends them through
//! [`client`] connections; [`query`] draws queries, [`run::queries`] asks them; [`measure`] looks at the
//! server's process meanwhile; [`verify`] checks answers; [`report`] shows what came of it.

pub mod cli;
pub mod client;
pub mod demo;
pub mod error;
pub mod measure;
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
