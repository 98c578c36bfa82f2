//! Published time-series benchmarks: workloads, load and query clients, reports.

pub mod client;
pub mod error;
pub mod measure;
pub mod random;
pub mod time;
pub mod workload;
