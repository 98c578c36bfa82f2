//! Memory of request bodies: its charge, and the buffer that a body is gathered or decompressed in.

use super::super::buffer_pool::BufferPool;
use nyala_core::Result;
use nyala_core::memory::{Charge, Component, MemoryBudget};
use std::sync::Arc;

/// Bodies up to this length are accepted even when memory is full, so that queries are answered beside too many writes.
/// All connections together cannot hold much in them.
const SMALL_BODY_BYTES: u64 = 8 << 10;

/// The charge of a body and of what is parsed from it. All bodies together get a part of the memory limit; a small body
/// is always accepted.
pub(in super::super) struct BodyCharge(Charge);

impl BodyCharge {
    pub(in super::super) fn of(memory: &Arc<MemoryBudget>) -> Self {
        Self(memory.charge(Component::InFlight, 0))
    }

    /// Charges more, or fails with `Retry`.
    pub(in super::super) fn grow(&mut self, bytes: usize) -> Result<()> {
        if self.0.bytes() + bytes as u64 <= SMALL_BODY_BYTES {
            self.0.grow(bytes as u64);
            return Ok(());
        }
        self.0.try_grow(bytes as u64)
    }

    pub(in super::super) fn shrink(&mut self, bytes: usize) {
        self.0.set(self.0.bytes().saturating_sub(bytes as u64));
    }
}

/// A pooled buffer that a body is gathered in.
pub(in super::super) struct Buffer {
    pub(in super::super) bytes: Vec<u8>,
    pool: Arc<BufferPool>,
}

impl Buffer {
    /// An empty buffer; its capacity is charged.
    pub(in super::super) fn take(buffers: &Arc<BufferPool>, charge: &mut BodyCharge) -> Self {
        let bytes = buffers.take();
        // The pool had charged it until now, so no memory is needed in addition.
        charge.0.grow(bytes.capacity() as u64);
        Self { bytes, pool: buffers.clone() }
    }

    /// Makes room for `more` bytes, and doubles that up to `most_bytes` in all. The room is charged before it is
    /// allocated.
    pub(in super::super) fn reserve(
        &mut self,
        more: usize,
        most_bytes: usize,
        charge: &mut BodyCharge,
    ) -> Result<()> {
        let (needed, capacity) = (self.bytes.len() + more, self.bytes.capacity());
        if needed <= capacity {
            return Ok(());
        }
        let wanted = needed.saturating_mul(2).min(most_bytes).max(needed);
        // While the bytes move, the old buffer is there beside the new one.
        charge.grow(wanted).or_else(|_| {
            self.pool.release_all();
            charge.grow(wanted)
        })?;
        self.bytes.reserve_exact(wanted - self.bytes.len());
        charge.shrink(capacity);
        Ok(())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.pool.give_back(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_grows_with_what_arrives_and_all_of_it_is_charged() {
        let memory = MemoryBudget::new(64 << 20);
        let buffers = BufferPool::for_bodies(&memory);
        let mut charge = BodyCharge::of(&memory);
        let mut buffer = Buffer::take(&buffers, &mut charge);
        for _ in 0..4 {
            buffer.reserve(32 << 10, 25_000_000, &mut charge).unwrap();
            buffer.bytes.extend_from_slice(&[b'#'; 32 << 10]);
            let capacity = buffer.bytes.capacity();
            assert!(capacity <= 2 * buffer.bytes.len(), "{capacity} of {}", buffer.bytes.len());
            assert_eq!(memory.total_bytes(), capacity as u64);
        }
        buffer.reserve(1 << 10, (128 << 10) + 1_024, &mut charge).unwrap();
        let capacity = buffer.bytes.capacity();
        drop((buffer, charge));
        assert_eq!(memory.total_bytes(), capacity as u64, "it is idle in the pool");
        let mut charge = BodyCharge::of(&memory);
        let again = Buffer::take(&buffers, &mut charge);
        assert_eq!((again.bytes.capacity(), memory.total_bytes()), (capacity, capacity as u64));
        // Idle buffers are released when memory is short.
        buffers.give_back(Vec::with_capacity(1 << 20));
        let _others = memory.charge(Component::Query, (63 << 20) - capacity as u64);
        let mut more = Buffer { bytes: Vec::new(), pool: buffers.clone() };
        more.reserve(512 << 10, 512 << 10, &mut charge).unwrap();
    }
}
