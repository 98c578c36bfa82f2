//! The store that the server stands on: which one is the only decision made here.

pub mod disk;
mod embedded;

use crate::config::Config;
use crate::server::health::Check;
use nyala_core::Result;
use nyala_core::memory::MemoryBudget;
use nyala_core::store::StoreRef;
use nyala_query::report::Report;
use std::sync::Arc;

/// A store, and what the people who run it need beside the contract.
pub trait Storage: Send + Sync + 'static {
    /// The contract.
    fn store(&self) -> StoreRef;

    /// What was acknowledged and is lost, as far as nobody has accepted it.
    fn losses(&self) -> Vec<String>;

    /// What is not as it should be.
    fn checks(&self) -> Vec<Check>;

    /// Looks at what it stands on, and tries again what failed and nobody may ask for soon. Blocks.
    fn look_after(&self);

    /// Appends what it did and holds in Prometheus' text format.
    fn metrics(&self, text: &mut String);

    /// The same as SHOW STATS shows it.
    fn report(&self) -> Report;

    /// Makes everything durable and ends. Blocks.
    fn stop(&self) -> Result<()>;
}

/// Opens the store that is configured; tells `watch` how many bytes of its log were read again. Blocks.
pub fn open(
    config: &Config,
    memory: &Arc<MemoryBudget>,
    watch: &mut dyn FnMut(u64),
) -> Result<Arc<dyn Storage>> {
    Ok(Arc::new(embedded::Embedded::open(config, memory, watch)?))
}
