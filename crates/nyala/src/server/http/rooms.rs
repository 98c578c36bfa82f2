//! Memory for the text of long answers, used again and again: fresh memory is cleared page by page before it is
//! written, and grown from little it is copied.

use bytes::Bytes;
use nyala_core::memory::{Charge, Component, MemoryBudget};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a room holds: a piece of an answer, and what is written before a look at how much that is.
const ROOM_BYTES: usize = 3 << 19;
/// The most rooms that wait to be used: as many as an answer has on its way.
const IDLE_MAX: u64 = 6;
/// They take at most this part of the server's memory.
const IDLE_SHARE: u64 = 32;

/// Rooms that wait to be used.
pub struct Rooms {
    idle_max: usize,
    idle: Mutex<Idle>,
}

struct Idle {
    rooms: Vec<Vec<u8>>,
    charge: Charge,
}

impl Rooms {
    /// None yet; what waits is charged to the server's memory.
    pub fn new(memory: &Arc<MemoryBudget>) -> Arc<Self> {
        let idle_max = IDLE_MAX.min(memory.limit_bytes() / IDLE_SHARE / ROOM_BYTES as u64) as usize;
        let idle = Idle { rooms: Vec::new(), charge: memory.charge(Component::Query, 0) };
        Arc::new(Self { idle_max, idle: Mutex::new(idle) })
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        // Nothing under this lock can panic half-way.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An empty room.
    pub(super) fn take(&self) -> Vec<u8> {
        let mut idle = self.idle();
        match idle.rooms.pop() {
            Some(room) => {
                idle.count();
                room
            }
            None => {
                drop(idle);
                Vec::with_capacity(ROOM_BYTES)
            }
        }
    }

    /// Takes a room back, if it is one.
    pub(super) fn give(&self, mut bytes: Vec<u8>) {
        if !is_room(&bytes) {
            return;
        }
        bytes.clear();
        let mut idle = self.idle();
        if idle.rooms.len() < self.idle_max {
            idle.rooms.push(bytes);
            idle.count();
        }
    }

    /// Bytes to be sent, whose room comes back when they are.
    pub(super) fn lend(self: &Arc<Self>, bytes: Vec<u8>) -> Bytes {
        match is_room(&bytes) {
            true => Bytes::from_owner(Lent { bytes, rooms: self.clone() }),
            false => bytes.into(),
        }
    }
}

impl Idle {
    fn count(&mut self) {
        self.charge.set((self.rooms.len() * ROOM_BYTES) as u64);
    }
}

/// Whether bytes have as much room as others may want, and not much more.
fn is_room(bytes: &Vec<u8>) -> bool {
    (ROOM_BYTES..=ROOM_BYTES * 4 / 3).contains(&bytes.capacity())
}

struct Lent {
    bytes: Vec<u8>,
    rooms: Arc<Rooms>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.rooms.give(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rooms_come_back_and_are_counted_while_they_wait() {
        let memory = MemoryBudget::new(512 << 20);
        let rooms = Rooms::new(&memory);
        let mut first = rooms.take();
        first.extend_from_slice(b"text");
        let at = first.as_ptr();
        let sent = rooms.lend(first);
        assert_eq!((&*sent, memory.total_bytes()), (&b"text"[..], 0));
        drop(sent);
        assert_eq!(memory.total_bytes(), ROOM_BYTES as u64);
        let again = rooms.take();
        assert_eq!((again.len(), again.as_ptr(), memory.total_bytes()), (0, at, 0));
        rooms.give(Vec::with_capacity(ROOM_BYTES * 2));
        rooms.give(b"short".to_vec());
        assert_eq!(memory.total_bytes(), 0);
        (0..20).for_each(|_| rooms.give(Vec::with_capacity(ROOM_BYTES)));
        assert_eq!(memory.total_bytes(), IDLE_MAX * ROOM_BYTES as u64);
        drop(rooms);
        assert_eq!(memory.total_bytes(), 0);
        let few = Rooms::new(&MemoryBudget::new(8 << 20));
        few.give(few.take());
        assert!(few.idle().rooms.is_empty());
    }
}
