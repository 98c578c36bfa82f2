//! Published time-series benchmarks: workloads, load and query clients, reports.
