//! Workloads: the data that the published benchmarks write, generated from a seed while they are sent.

pub mod cpu;
pub mod devops;
pub mod file;
pub mod host;
pub mod narrow;
#[cfg(feature = "sql")]
pub mod tables;
pub mod ycsb;

/// The size of a claimed batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSize {
    /// Lines.
    pub rows: u64,
    /// Field values in them.
    pub values: u64,
}

/// A source of batches for any number of loader threads.
pub trait Workload: Sync {
    /// A claimed batch, not yet text. A loader reuses one value for all its batches.
    type Batch: Default + Send;

    /// All rows that it gives, if that is known.
    fn total_rows(&self) -> Option<u64>;

    /// Takes the next batch; `None` when the data set is complete. Safe to call from many threads.
    fn claim(&self, batch: &mut Self::Batch) -> Option<BatchSize>;

    /// Replaces `body` with the batch as InfluxDB line protocol.
    fn write(&self, batch: &Self::Batch, body: &mut Vec<u8>);
}
