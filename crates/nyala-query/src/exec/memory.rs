//! What a query may hold in memory.

use nyala_core::memory::{Charge, Component, MemoryBudget};
use nyala_core::{Error, Result};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What is taken from the server's account at once: a light query asks it at most once.
const STEP_BYTES: usize = 256 << 10;

/// A query's share of memory; clones charge the same one. What it takes is taken from the account of the whole
/// server too, and given back to it when the last clone goes.
#[derive(Debug, Clone)]
pub struct QueryMemory {
    share: Arc<Share>,
    limit_bytes: usize,
}

#[derive(Debug)]
struct Share {
    used_bytes: AtomicUsize,
    /// What the server's account was charged with, at least what is used.
    reserved_bytes: AtomicUsize,
    charge: Mutex<Charge>,
}

impl QueryMemory {
    /// A share of `limit_bytes` of a server's memory.
    pub fn new(limit_bytes: usize, server: &Arc<MemoryBudget>) -> Self {
        let charge = Mutex::new(server.charge(Component::Query, 0));
        let share = Share { used_bytes: AtomicUsize::new(0), reserved_bytes: AtomicUsize::new(0), charge };
        Self { share: Arc::new(share), limit_bytes }
    }

    /// The share.
    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    /// Takes `bytes` of it until the query ends, or takes none and says that it is used up.
    pub fn charge(&self, bytes: usize) -> Result<()> {
        let used_bytes = self.share.used_bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let charged = self.check(used_bytes);
        if charged.is_err() {
            self.share.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        charged
    }

    fn check(&self, used_bytes: usize) -> Result<()> {
        if used_bytes > self.limit_bytes {
            return Err(Error::limit(format!(
                "query needs more than its {} MiB of memory: narrow its time range or its series, or raise memory-limit",
                self.limit_bytes >> 20
            )));
        }
        if used_bytes > self.share.reserved_bytes.load(Ordering::Relaxed) {
            return self.share.reserve(used_bytes);
        }
        Ok(())
    }

    /// An account of what a part of the query holds for a while.
    pub fn hold(&self) -> Held {
        Held { memory: self.clone(), bytes: 0 }
    }
}

/// What a part of a query holds, given back when it goes. The server's account keeps it for this query.
pub struct Held {
    memory: QueryMemory,
    bytes: usize,
}

impl Held {
    /// Takes more of the query's share.
    pub fn charge(&mut self, bytes: usize) -> Result<()> {
        self.memory.charge(bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Gives back all but `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        let freed = self.bytes.saturating_sub(bytes);
        self.memory.share.used_bytes.fetch_sub(freed, Ordering::Relaxed);
        self.bytes -= freed;
    }

    /// What is held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

impl Share {
    /// Charges the server's account so that `used_bytes` are covered.
    fn reserve(&self, used_bytes: usize) -> Result<()> {
        // Nothing under this lock can panic half-way.
        let mut charge = self.charge.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = used_bytes.next_multiple_of(STEP_BYTES) as u64;
        let held = charge.bytes();
        if wanted > held {
            charge.try_grow(wanted - held)?;
            self.reserved_bytes.store(wanted as usize, Ordering::Relaxed);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_bounded_by_its_share_and_by_the_server() {
        let server = MemoryBudget::new(10 << 20);
        let first = QueryMemory::new(6 << 20, &server);
        first.charge(1000).expect("fits");
        assert_eq!(server.total_bytes(), STEP_BYTES as u64);
        first.charge(5 << 20).expect("fits");
        let second = QueryMemory::new(6 << 20, &server);
        assert_eq!(
            second.charge(5 << 20).expect_err("the server is full").kind(),
            nyala_core::ErrorKind::Retry
        );
        assert_eq!(
            first.charge(2 << 20).expect_err("the share is used up").kind(),
            nyala_core::ErrorKind::Limit
        );
        drop(first);
        second.charge(1 << 20).expect("fits now: what was refused is given up with its query");
        drop(second);
        assert_eq!(server.total_bytes(), 0);
    }
}
