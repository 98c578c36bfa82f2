//! What is measured: the server's use of the machine, latencies, rates.

pub mod latency;
pub mod server;
