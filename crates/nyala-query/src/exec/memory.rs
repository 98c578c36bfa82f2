//! What a query may hold in memory.

use nyala_core::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A query's share of memory; clones charge the same one.
#[derive(Debug, Clone)]
pub struct QueryMemory {
    used_bytes: Arc<AtomicUsize>,
    limit_bytes: usize,
}

impl QueryMemory {
    /// A share of `limit_bytes`.
    pub fn new(limit_bytes: usize) -> Self {
        Self { used_bytes: Arc::default(), limit_bytes }
    }

    /// Takes `bytes` of it until the query ends, or says that it is used up.
    pub fn charge(&self, bytes: usize) -> Result<()> {
        let used_bytes = self.used_bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if used_bytes > self.limit_bytes {
            return Err(Error::limit(format!(
                "query needs more than its {} MiB of memory: narrow its time range or its series, or raise memory-limit",
                self.limit_bytes >> 20
            )));
        }
        Ok(())
    }

    /// Gives back what was taken.
    pub fn release(&self, bytes: usize) {
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}
