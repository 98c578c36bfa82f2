//! The memory of a statement: what DataFusion reserves is charged to the query's share.

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};
use nyala_exec::QueryMemory;
use nyala_exec::memory::MemoryCharge;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A pool that charges a query's share.
pub(crate) struct SharePool {
    held: Mutex<Held>,
    limit_bytes: usize,
}

struct Held {
    charge: MemoryCharge,
    /// What was taken although the share is used up; DataFusion does so only for little.
    beyond_bytes: usize,
}

impl SharePool {
    pub(crate) fn of(memory: &QueryMemory) -> Self {
        let held = Held { charge: memory.hold(), beyond_bytes: 0 };
        Self { held: Mutex::new(held), limit_bytes: memory.limit_bytes() }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // Nothing under this lock can panic half-way.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryPool for SharePool {
    fn name(&self) -> &str {
        "query"
    }

    fn grow(&self, _: &MemoryReservation, additional: usize) {
        let mut held = self.held();
        if held.charge.charge(additional).is_err() {
            held.beyond_bytes += additional;
        }
    }

    fn shrink(&self, _: &MemoryReservation, shrink: usize) {
        let mut held = self.held();
        let beyond_bytes = shrink.min(held.beyond_bytes);
        held.beyond_bytes -= beyond_bytes;
        let left = held.charge.bytes().saturating_sub(shrink - beyond_bytes);
        held.charge.shrink_to(left);
    }

    fn try_grow(&self, _: &MemoryReservation, additional: usize) -> Result<()> {
        // Whoever asks may write rows to the disk then.
        self.held()
            .charge
            .charge(additional)
            .map_err(|error| DataFusionError::ResourcesExhausted(error.to_string()))
    }

    fn reserved(&self) -> usize {
        let held = self.held();
        held.charge.bytes() + held.beyond_bytes
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.limit_bytes)
    }
}

impl fmt::Debug for SharePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharePool({} of {} bytes)", self.reserved(), self.limit_bytes)
    }
}

impl fmt::Display for SharePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
