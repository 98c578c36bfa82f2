//! Chooses the store that the server uses. Nothing else is decided here.

pub mod disk;
mod embedded;

use crate::config::Config;
use crate::server::health::Check;
use crate::server::metric::Metric;
use nyala_core::Result;
use nyala_core::memory::MemoryBudget;
use nyala_core::store::StoreRef;
use std::sync::Arc;

/// A store, and what its operators need beside the contract.
pub trait Storage: Send + Sync + 'static {
    /// The contract.
    fn store(&self) -> StoreRef;

    /// What was acknowledged and is lost, unless an operator accepted the loss.
    fn losses(&self) -> Vec<String>;

    /// Problems that exist now.
    fn checks(&self) -> Vec<Check>;

    /// Checks the disk, and tries failed background work again that no request may trigger soon. Blocks.
    fn maintain(&self);

    /// What it did and holds.
    fn metrics(&self) -> Vec<Metric>;

    /// Makes everything durable and closes the store. Blocks.
    fn stop(&self) -> Result<()>;
}

/// Opens the configured store, and tells `on_replay` how many bytes of its log were replayed so far. Blocks.
pub fn open(
    config: &Config,
    memory: &Arc<MemoryBudget>,
    on_replay: &mut dyn FnMut(u64),
) -> Result<Arc<dyn Storage>> {
    Ok(Arc::new(embedded::Embedded::open(config, memory, on_replay)?))
}
