//! A pool of buffers for bodies and for the text of long answers. Reuse is cheaper than fresh memory, which the system
//! clears page by page and which is copied while it grows. Idle buffers are charged and can be released at any time.

use bytes::Bytes;
use nyala_core::memory::{Charge, Component, MemoryBudget};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The size of a buffer for an answer: one segment, and what is written before the size is checked again.
const ANSWER_BYTES: usize = 3 << 19;
/// The most idle buffers for answers: as many as one answer has in use.
const ANSWERS_IDLE_MAX: usize = 6;
/// Idle buffers for answers take at most this fraction of the memory limit: 1/32.
const ANSWERS_SHARE: u64 = 32;
/// Sizes of buffers for bodies that are kept: shorter ones are cheap to allocate, longer ones take too much memory.
const BODY_BYTES: RangeInclusive<usize> = 64 << 10..=4 << 20;
/// The most idle buffers for bodies.
const BODIES_IDLE_MAX: usize = 8;
/// Idle buffers for bodies take at most this fraction of the memory limit: 1/16, a quarter of what bodies may take.
const BODIES_SHARE: u64 = 16;

/// Buffers that wait to be used again.
pub struct BufferPool {
    /// The capacity of a new buffer.
    fresh_bytes: usize,
    /// Buffers of these capacities are kept.
    kept_bytes: RangeInclusive<usize>,
    idle_max: usize,
    idle_bytes_max: u64,
    idle: Mutex<Idle>,
}

/// Idle buffers.
struct Idle {
    buffers: Vec<Vec<u8>>,
    charge: Charge,
    /// Whether a buffer was taken since the last `release_unused`.
    used: bool,
}

impl BufferPool {
    /// For the text of long answers.
    pub fn for_answers(memory: &Arc<MemoryBudget>) -> Arc<Self> {
        let kept_bytes = ANSWER_BYTES..=ANSWER_BYTES * 4 / 3;
        let idle_bytes_max = memory.limit_bytes() / ANSWERS_SHARE;
        Self::new(
            ANSWER_BYTES,
            kept_bytes,
            ANSWERS_IDLE_MAX,
            idle_bytes_max,
            memory.charge(Component::Query, 0),
        )
    }

    /// For bodies of requests.
    pub fn for_bodies(memory: &Arc<MemoryBudget>) -> Arc<Self> {
        let idle_bytes_max = memory.limit_bytes() / BODIES_SHARE;
        Self::new(0, BODY_BYTES, BODIES_IDLE_MAX, idle_bytes_max, memory.charge(Component::InFlight, 0))
    }

    fn new(
        fresh_bytes: usize,
        kept_bytes: RangeInclusive<usize>,
        idle_max: usize,
        idle_bytes_max: u64,
        charge: Charge,
    ) -> Arc<Self> {
        let idle = Mutex::new(Idle { buffers: Vec::new(), charge, used: false });
        Arc::new(Self { fresh_bytes, kept_bytes, idle_max, idle_bytes_max, idle })
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        // No code under this lock can panic and leave a change unfinished.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An empty buffer. The caller charges its capacity.
    pub(super) fn take(&self) -> Vec<u8> {
        let mut idle = self.idle();
        idle.used = true;
        match idle.buffers.pop() {
            Some(buffer) => {
                idle.update_charge();
                buffer
            }
            None => {
                drop(idle);
                Vec::with_capacity(self.fresh_bytes)
            }
        }
    }

    /// Takes a buffer back, and keeps it if its capacity is useful.
    pub(super) fn give_back(&self, mut bytes: Vec<u8>) {
        if !self.is_kept_size(&bytes) {
            return;
        }
        bytes.clear();
        let mut idle = self.idle();
        let fits = idle.charge.bytes() + bytes.capacity() as u64 <= self.idle_bytes_max;
        if fits && idle.buffers.len() < self.idle_max {
            idle.buffers.push(bytes);
            idle.update_charge();
        }
    }

    /// Releases all idle buffers, because memory is short.
    pub(super) fn release_all(&self) {
        let mut idle = self.idle();
        idle.buffers = Vec::new();
        idle.update_charge();
    }

    /// Releases all idle buffers if none was taken since the last call.
    pub fn release_unused(&self) {
        if !std::mem::take(&mut self.idle().used) {
            self.release_all();
        }
    }

    /// Bytes to be sent, whose buffer comes back to the pool afterwards.
    pub(super) fn lend(self: &Arc<Self>, bytes: Vec<u8>) -> Bytes {
        match self.is_kept_size(&bytes) {
            true => Bytes::from_owner(Lent { bytes, pool: self.clone() }),
            false => bytes.into(),
        }
    }

    fn is_kept_size(&self, bytes: &Vec<u8>) -> bool {
        self.kept_bytes.contains(&bytes.capacity())
    }
}

impl Idle {
    fn update_charge(&mut self) {
        self.charge.set(self.buffers.iter().map(|buffer| buffer.capacity() as u64).sum());
    }
}

struct Lent {
    bytes: Vec<u8>,
    pool: Arc<BufferPool>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.pool.give_back(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_and_are_charged_while_idle() {
        let memory = MemoryBudget::new(512 << 20);
        let pool = BufferPool::for_answers(&memory);
        let mut first = pool.take();
        first.extend_from_slice(b"text");
        let at = first.as_ptr();
        let sent = pool.lend(first);
        assert_eq!((&*sent, memory.total_bytes()), (&b"text"[..], 0));
        drop(sent);
        assert_eq!(memory.total_bytes(), ANSWER_BYTES as u64);
        let again = pool.take();
        assert_eq!((again.len(), again.as_ptr(), memory.total_bytes()), (0, at, 0));
        pool.give_back(Vec::with_capacity(ANSWER_BYTES * 2));
        pool.give_back(b"short".to_vec());
        assert_eq!(memory.total_bytes(), 0);
        (0..20).for_each(|_| pool.give_back(Vec::with_capacity(ANSWER_BYTES)));
        assert_eq!(memory.total_bytes(), (ANSWERS_IDLE_MAX * ANSWER_BYTES) as u64);
        drop(pool);
        assert_eq!(memory.total_bytes(), 0);
        let few = BufferPool::for_answers(&MemoryBudget::new(8 << 20));
        few.give_back(few.take());
        assert!(few.idle().buffers.is_empty());
    }

    #[test]
    fn unused_buffers_are_released() {
        let memory = MemoryBudget::new(64 << 20);
        let pool = BufferPool::for_bodies(&memory);
        (0..20).for_each(|_| pool.give_back(Vec::with_capacity(1 << 20)));
        assert_eq!(memory.used_bytes(Component::InFlight), 4 << 20, "a sixteenth");
        pool.give_back(pool.take());
        pool.release_unused();
        assert_eq!(memory.total_bytes(), 4 << 20, "one was used");
        pool.release_unused();
        assert_eq!(memory.total_bytes(), 0);
    }
}
