//! Chooses the store that the server uses. Nothing else is decided here.

pub mod disk;
mod embedded;
#[cfg(feature = "sql")]
pub mod exchange;
mod kudu;
#[cfg(feature = "sql")]
pub mod spill;

use crate::backup::copies::CopiedStore;
use crate::config::{Config, StoreKind};
use crate::server::health::Check;
use crate::server::metric::Metric;
use nyala_core::Result;
use nyala_core::memory::MemoryBudget;
use nyala_core::store::StoreRef;
use std::path::Path;
use std::sync::Arc;
use tokio::runtime::Handle;

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

    /// Makes a copy of everything as it is now in a directory of its disk, which is empty or not there; unsupported if a
    /// store keeps its data elsewhere. Blocks.
    fn copy_to(&self, dir: &Path) -> Result<CopiedStore>;

    /// What it did and holds.
    fn metrics(&self) -> Vec<Metric>;

    /// Makes everything durable and closes the store. Blocks.
    fn stop(&self) -> Result<()>;
}

pub use embedded::{copy_closed, open_copy, open_to_read};

/// What becomes of the past that a data directory has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Past {
    /// It is kept for as long as the setting `history` says, and forgotten if that says nothing.
    Kept,
    /// All of it stays: the server that keeps it is another one, with its own settings.
    Left,
}

/// Opens the configured store, and tells `on_replay` how many bytes of its log were replayed so far. Blocks.
pub fn open(
    config: &Config,
    past: Past,
    memory: &Arc<MemoryBudget>,
    work: &Handle,
    on_replay: &mut dyn FnMut(u64),
) -> Result<Arc<dyn Storage>> {
    Ok(match config.store {
        StoreKind::Embedded => Arc::new(embedded::Embedded::open(config, past, memory, on_replay)?),
        StoreKind::Kudu => Arc::new(kudu::Kudu::open(config, work.clone())?),
    })
}
