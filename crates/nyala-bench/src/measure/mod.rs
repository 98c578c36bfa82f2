//! Measurements: the server's resource use, what it counts itself, and latencies.

pub mod counters;
pub mod histogram;
pub mod latency;
pub mod server;
