//! The memory of a statement: what DataFusion reserves is charged to the query's share.
//!
//! Operators that can use the disk get equal parts of the share, so that none of them has to fail because another one was
//! first. A part of the share is left to those that cannot.

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use nyala_exec::QueryMemory;
use nyala_exec::memory::MemoryCharge;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// This part (1/4) of the share is left to operators that cannot use the disk: they merge what others wrote there.
const FIXED_SHARE: usize = 4;

/// Channels between tasks get this part (1/16) of the share each: what they write to the disk at once, they read soon.
const CHANNEL_SHARE: usize = 16;

/// A pool that charges a query's share.
pub(crate) struct SharePool {
    memory: QueryMemory,
    held: Mutex<Held>,
}

struct Held {
    charge: MemoryCharge,
    /// What was taken although the share is used up; DataFusion does so only for little.
    beyond_bytes: usize,
    /// How many operators can use the disk, channels not counted.
    spilling: usize,
    /// What these hold.
    spillable_bytes: usize,
}

impl SharePool {
    pub(crate) fn of(memory: &QueryMemory) -> Self {
        let held = Held { charge: memory.hold(), beyond_bytes: 0, spilling: 0, spillable_bytes: 0 };
        Self { held: Mutex::new(held), memory: memory.clone() }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // Nothing under this lock can panic half-way.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What an operator that can use the disk may hold.
    fn part_bytes(&self, held: &Held) -> usize {
        let limit_bytes = self.memory.limit_bytes();
        let fixed_bytes = self.memory.used_bytes().saturating_sub(held.spillable_bytes);
        let left_bytes = limit_bytes.saturating_sub(fixed_bytes.max(limit_bytes / FIXED_SHARE));
        left_bytes / held.spilling.max(1)
    }
}

impl MemoryPool for SharePool {
    fn name(&self) -> &str {
        "query"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        if consumer.can_spill() && !is_channel(consumer) {
            self.held().spilling += 1;
        }
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        if consumer.can_spill() && !is_channel(consumer) {
            self.held().spilling -= 1;
        }
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        let mut held = self.held();
        if held.charge.charge(additional).is_err() {
            held.beyond_bytes += additional;
        }
        if reservation.consumer().can_spill() {
            held.spillable_bytes += additional;
        }
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        let mut held = self.held();
        let beyond_bytes = shrink.min(held.beyond_bytes);
        held.beyond_bytes -= beyond_bytes;
        let left = held.charge.bytes().saturating_sub(shrink - beyond_bytes);
        held.charge.shrink_to(left);
        if reservation.consumer().can_spill() {
            held.spillable_bytes = held.spillable_bytes.saturating_sub(shrink);
        }
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let mut held = self.held();
        let can_spill = reservation.consumer().can_spill();
        let part_bytes = match is_channel(reservation.consumer()) {
            true => self.memory.limit_bytes() / CHANNEL_SHARE,
            false => self.part_bytes(&held),
        };
        // One that has nothing to write to the disk could not go on without its first rows: a merge may have taken most of the rest.
        let is_first = reservation.size() == 0 && !is_channel(reservation.consumer());
        if can_spill && !is_first && reservation.size().saturating_add(additional) > part_bytes {
            let words = "sorting and grouping need more memory than the statement may have: raise memory-limit, or the quota \
                         query_memory_bytes of its user";
            return Err(DataFusionError::ResourcesExhausted(words.to_owned()));
        }
        // Whoever asks may write rows to the disk then.
        let charged = held.charge.charge(additional);
        charged.map_err(|error| DataFusionError::ResourcesExhausted(error.to_string()))?;
        if can_spill {
            held.spillable_bytes += additional;
        }
        Ok(())
    }

    fn reserved(&self) -> usize {
        let held = self.held();
        held.charge.bytes() + held.beyond_bytes
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.memory.limit_bytes())
    }
}

/// Whether something passes rows from task to task.
fn is_channel(consumer: &MemoryConsumer) -> bool {
    consumer.name().starts_with("Repartition")
}

impl fmt::Debug for SharePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharePool({} of {} bytes)", self.reserved(), self.memory.limit_bytes())
    }
}

impl fmt::Display for SharePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
