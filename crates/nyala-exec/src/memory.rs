//! The memory limit of a query.
//!
//! What a query of a user with a quota of memory reserves counts against that, too.
//!
//! A query reserves memory from the server's budget in steps, and returns several steps at once when its own use falls. So
//! a light query touches the server's budget once, and so does a query that takes and frees little at a time. Each time
//! the budget is touched, so much memory moves that the cost of touching it does not matter.

use nyala_core::memory::{Charge, Component, MemoryBudget};
use nyala_core::{Error, ErrorKind, Result, before_long_work};
use nyala_db::users::{Principal, QuotaMemory};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How often it is looked whether there is memory.
const PAUSE: Duration = Duration::from_millis(5);
/// What is reserved at once: a light query reserves at most once.
const STEP_BYTES: usize = 256 << 10;
/// When a query has reserved more than this beyond its use, it returns all but one step.
const IDLE_BYTES_MAX: usize = 4 * STEP_BYTES;

/// A query's share of memory; clones charge the same share. What it uses is reserved from the server's budget, and
/// returned when it is no longer used, at the latest when the last clone is dropped.
#[derive(Debug, Clone)]
pub struct QueryMemory {
    share: Arc<Share>,
    limit_bytes: usize,
    /// The most that the quota of the user leaves, if there is one.
    quota_bytes: usize,
}

#[derive(Debug)]
struct Share {
    used_bytes: AtomicUsize,
    /// What is reserved from the server's budget: at least what is used.
    reserved_bytes: AtomicUsize,
    reserved: Mutex<Reserved>,
}

/// What is reserved: of both as much.
#[derive(Debug)]
struct Reserved {
    server: Charge,
    user: Option<QuotaMemory>,
}

impl QueryMemory {
    /// A share of `limit_bytes` of a server's memory, for what the server does by itself.
    pub fn new(limit_bytes: usize, server: &Arc<MemoryBudget>) -> Self {
        Self::within(None, limit_bytes, server)
    }

    /// The same for what somebody asks.
    pub fn of(principal: &Principal, limit_bytes: usize, server: &Arc<MemoryBudget>) -> Self {
        Self::within(principal.query_memory(), limit_bytes, server)
    }

    fn within(user: Option<QuotaMemory>, limit_bytes: usize, server: &Arc<MemoryBudget>) -> Self {
        let quota_bytes = user.as_ref().map_or(usize::MAX, |user| user.most_bytes() as usize);
        let reserved = Mutex::new(Reserved { server: server.charge(Component::Query, 0), user });
        let share = Share { used_bytes: AtomicUsize::new(0), reserved_bytes: AtomicUsize::new(0), reserved };
        Self { share: Arc::new(share), limit_bytes, quota_bytes }
    }

    /// The most that can be charged.
    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes.min(self.quota_bytes)
    }

    /// What is charged now.
    pub fn used_bytes(&self) -> usize {
        self.share.used_bytes.load(Ordering::SeqCst)
    }

    /// Charges `bytes` until the query ends, or charges nothing and fails if the share is used up.
    pub fn charge(&self, bytes: usize) -> Result<()> {
        let used_bytes = self.share.used_bytes.fetch_add(bytes, Ordering::SeqCst).saturating_add(bytes);
        let charged = self.check(used_bytes);
        if charged.is_err() {
            self.share.used_bytes.fetch_sub(bytes, Ordering::SeqCst);
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
        if used_bytes > self.share.reserved_bytes.load(Ordering::SeqCst) {
            return self.share.reserve(used_bytes);
        }
        Ok(())
    }

    /// An empty charge for what a part of the query holds for a while.
    pub fn hold(&self) -> MemoryCharge {
        MemoryCharge { memory: self.clone(), bytes: 0 }
    }
}

/// Memory that a part of a query holds; freed when this is dropped.
pub struct MemoryCharge {
    memory: QueryMemory,
    bytes: usize,
}

impl MemoryCharge {
    /// Charges more of the query's share.
    pub fn charge(&mut self, bytes: usize) -> Result<()> {
        self.memory.charge(bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Charges more, and waits for so long while the server's memory is full: a flush frees some. For statements that write,
    /// which are slowed as writers of line protocol are.
    pub async fn charge_within(&mut self, wait_max: Duration, bytes: usize) -> Result<()> {
        let until = Instant::now() + wait_max;
        loop {
            match self.charge(bytes) {
                Err(error) if error.kind() == ErrorKind::Retry && Instant::now() < until => {
                    before_long_work().await;
                    tokio::time::sleep(PAUSE).await;
                }
                charged => return charged,
            }
        }
    }

    /// Frees all but `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        let freed = self.bytes.saturating_sub(bytes);
        self.memory.share.free(freed);
        self.bytes -= freed;
    }

    /// How much is held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for MemoryCharge {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

impl Share {
    /// Reserves from the server's budget until `used_bytes` are covered.
    fn reserve(&self, used_bytes: usize) -> Result<()> {
        // Nothing under this lock can panic half-way.
        let mut reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = used_bytes.next_multiple_of(STEP_BYTES) as u64;
        if wanted > reserved.server.bytes() {
            reserved.grow_to(wanted)?;
            self.reserved_bytes.store(wanted as usize, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Frees what is no longer used, and returns to the server what is too much to keep.
    fn free(&self, bytes: usize) {
        let used_bytes = self.used_bytes.fetch_sub(bytes, Ordering::SeqCst).saturating_sub(bytes);
        if self.reserved_bytes.load(Ordering::SeqCst) > used_bytes.saturating_add(IDLE_BYTES_MAX) {
            self.give_back();
        }
    }

    #[cold]
    fn give_back(&self) {
        let covering = |used_bytes: usize| used_bytes.saturating_add(STEP_BYTES).next_multiple_of(STEP_BYTES);
        let mut reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        let kept_bytes = covering(self.used_bytes.load(Ordering::SeqCst));
        if kept_bytes as u64 >= reserved.server.bytes() {
            return;
        }
        self.reserved_bytes.store(kept_bytes, Ordering::SeqCst);
        // A thread that charges more meanwhile either has seen that and waits for the lock, or is seen here.
        let kept_bytes = kept_bytes.max(covering(self.used_bytes.load(Ordering::SeqCst)));
        let kept_bytes = kept_bytes.min(reserved.server.bytes() as usize);
        self.reserved_bytes.store(kept_bytes, Ordering::SeqCst);
        reserved.shrink_to(kept_bytes as u64);
    }
}

impl Reserved {
    fn grow_to(&mut self, bytes: u64) -> Result<()> {
        let more = bytes - self.server.bytes();
        if let Some(user) = &mut self.user {
            user.try_grow(more)?;
        }
        let grown = self.server.try_grow(more);
        if grown.is_err()
            && let Some(user) = &mut self.user
        {
            user.shrink_to(bytes - more);
        }
        grown
    }

    fn shrink_to(&mut self, bytes: u64) {
        self.server.set(bytes);
        if let Some(user) = &mut self.user {
            user.shrink_to(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_limited_by_its_share_and_by_the_server() {
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

    #[test]
    fn freed_memory_returns_to_the_server() {
        let server = MemoryBudget::new(64 << 20);
        let memory = QueryMemory::new(32 << 20, &server);
        memory.charge(1000).expect("fits");
        let mut held = memory.hold();
        held.charge(16 << 20).expect("fits");
        assert_eq!(server.total_bytes(), (16 << 20) + STEP_BYTES as u64);
        held.shrink_to(8 << 20);
        assert_eq!(server.total_bytes(), (8 << 20) + 2 * STEP_BYTES as u64, "what is used, and a step");
        let other = QueryMemory::new(64 << 20, &server);
        other.charge(40 << 20).expect("there is room for another");
        drop(held);
        assert_eq!(server.total_bytes(), (40 << 20) + 2 * STEP_BYTES as u64);
        drop((memory, other));
        assert_eq!(server.total_bytes(), 0);
    }

    #[test]
    fn a_light_query_reserves_once() {
        let server = MemoryBudget::new(64 << 20);
        let memory = QueryMemory::new(32 << 20, &server);
        let mut kept = memory.hold();
        for bytes in [0, 3 << 20] {
            kept.charge(bytes).expect("fits");
            memory.hold().charge(3 * STEP_BYTES).expect("fits");
            let reserved_bytes = server.total_bytes();
            for _ in 0..100 {
                let mut held = memory.hold();
                held.charge(3 * STEP_BYTES).expect("fits");
                assert_eq!(server.total_bytes(), reserved_bytes);
                drop(held);
                assert_eq!(server.total_bytes(), reserved_bytes);
            }
        }
    }

    #[test]
    fn used_memory_stays_reserved_while_others_free() {
        let server = MemoryBudget::new(1 << 30);
        let memory = QueryMemory::new(1 << 30, &server);
        std::thread::scope(|scope| {
            for thread in 1..=4 {
                let (memory, server) = (&memory, &server);
                scope.spawn(move || {
                    for round in 0..2_000 {
                        let mut held = memory.hold();
                        held.charge((round % 7 + thread) << 19).expect("fits");
                        // What counts is the account: who gives back says for a moment that less is reserved.
                        assert!(server.total_bytes() >= held.bytes() as u64);
                    }
                });
            }
        });
        let reserved_bytes = memory.share.reserved_bytes.load(Ordering::SeqCst);
        assert!(reserved_bytes <= IDLE_BYTES_MAX && server.total_bytes() == reserved_bytes as u64);
    }
}
