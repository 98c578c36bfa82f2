//! Measurements: the server's resource use, and latencies.

pub mod latency;
pub mod server;
