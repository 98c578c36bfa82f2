//! Workloads: what the published benchmarks write. Seeded, streamed, never a file.

pub mod cpu;
mod cpu_lines;
pub mod devops;
pub mod file;
pub mod host;
pub mod narrow;

/// What a claimed batch holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Lines.
    pub rows: u64,
    /// Field values in them.
    pub values: u64,
}

/// A source of batches for any number of loader threads.
pub trait Workload: Sync {
    /// A claimed batch, not yet text; reused from batch to batch.
    type Block: Default + Send;

    /// Rows that it gives until it ends, from its first on, as far as it knows.
    fn total_rows(&self) -> Option<u64>;

    /// Takes the next batch; `None` when the data set is complete. Calls are serialised inside.
    fn claim(&self, block: &mut Self::Block) -> Option<Batch>;

    /// Replaces `body` by the batch as InfluxDB line protocol.
    fn write(&self, block: &Self::Block, body: &mut Vec<u8>);
}
