//! Memory for bodies and for the text of long answers, used again and again: fresh memory is cleared page by page before
//! it is written, and grown from little it is copied. What waits is charged; nobody misses it when it is given up.

use bytes::Bytes;
use nyala_core::memory::{Charge, Component, MemoryBudget};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a room for an answer holds: a piece of it, and what is written before a look at how much that is.
const ANSWER_BYTES: usize = 3 << 19;
/// Rooms for answers that wait, at most: as many as an answer has on its way.
const ANSWERS_IDLE_MAX: usize = 6;
/// They take at most this part of the server's memory.
const ANSWERS_SHARE: u64 = 32;
/// Bodies shorter than this are gathered in fresh memory, which costs little; longer ones are not kept.
const BODY_BYTES: RangeInclusive<usize> = 64 << 10..=4 << 20;
/// Rooms for bodies that wait, at most.
const BODIES_IDLE_MAX: usize = 8;
/// They take at most this part of the server's memory: a quarter of what bodies may take.
const BODIES_SHARE: u64 = 16;

/// Rooms that wait to be used.
pub struct Rooms {
    /// What a fresh one holds.
    fresh_bytes: usize,
    /// Those that are kept have this much room: as much as others may want, and not much more.
    kept_bytes: RangeInclusive<usize>,
    idle_max: usize,
    idle_bytes_max: u64,
    idle: Mutex<Idle>,
}

struct Idle {
    rooms: Vec<Vec<u8>>,
    charge: Charge,
    /// Whether one was taken since the last look.
    used: bool,
}

impl Rooms {
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
        let idle = Mutex::new(Idle { rooms: Vec::new(), charge, used: false });
        Arc::new(Self { fresh_bytes, kept_bytes, idle_max, idle_bytes_max, idle })
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        // Nothing under this lock can panic half-way.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An empty room. What it takes is charged by whoever took it.
    pub(super) fn take(&self) -> Vec<u8> {
        let mut idle = self.idle();
        idle.used = true;
        match idle.rooms.pop() {
            Some(room) => {
                idle.count();
                room
            }
            None => {
                drop(idle);
                Vec::with_capacity(self.fresh_bytes)
            }
        }
    }

    /// Takes a room back, if it is one.
    pub(super) fn give(&self, mut bytes: Vec<u8>) {
        if !self.is_room(&bytes) {
            return;
        }
        bytes.clear();
        let mut idle = self.idle();
        let fits = idle.charge.bytes() + bytes.capacity() as u64 <= self.idle_bytes_max;
        if fits && idle.rooms.len() < self.idle_max {
            idle.rooms.push(bytes);
            idle.count();
        }
    }

    /// Gives up those that wait: memory is short.
    pub(super) fn give_up(&self) {
        let mut idle = self.idle();
        idle.rooms = Vec::new();
        idle.count();
    }

    /// Gives up those that wait if none was taken since this was called before.
    pub fn rest(&self) {
        if !std::mem::take(&mut self.idle().used) {
            self.give_up();
        }
    }

    /// Bytes to be sent, whose room comes back when they are.
    pub(super) fn lend(self: &Arc<Self>, bytes: Vec<u8>) -> Bytes {
        match self.is_room(&bytes) {
            true => Bytes::from_owner(Lent { bytes, rooms: self.clone() }),
            false => bytes.into(),
        }
    }

    fn is_room(&self, bytes: &Vec<u8>) -> bool {
        self.kept_bytes.contains(&bytes.capacity())
    }
}

impl Idle {
    fn count(&mut self) {
        self.charge.set(self.rooms.iter().map(|room| room.capacity() as u64).sum());
    }
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
        let rooms = Rooms::for_answers(&memory);
        let mut first = rooms.take();
        first.extend_from_slice(b"text");
        let at = first.as_ptr();
        let sent = rooms.lend(first);
        assert_eq!((&*sent, memory.total_bytes()), (&b"text"[..], 0));
        drop(sent);
        assert_eq!(memory.total_bytes(), ANSWER_BYTES as u64);
        let again = rooms.take();
        assert_eq!((again.len(), again.as_ptr(), memory.total_bytes()), (0, at, 0));
        rooms.give(Vec::with_capacity(ANSWER_BYTES * 2));
        rooms.give(b"short".to_vec());
        assert_eq!(memory.total_bytes(), 0);
        (0..20).for_each(|_| rooms.give(Vec::with_capacity(ANSWER_BYTES)));
        assert_eq!(memory.total_bytes(), (ANSWERS_IDLE_MAX * ANSWER_BYTES) as u64);
        drop(rooms);
        assert_eq!(memory.total_bytes(), 0);
        let few = Rooms::for_answers(&MemoryBudget::new(8 << 20));
        few.give(few.take());
        assert!(few.idle().rooms.is_empty());
    }

    #[test]
    fn rooms_that_nobody_uses_are_given_up() {
        let memory = MemoryBudget::new(64 << 20);
        let rooms = Rooms::for_bodies(&memory);
        (0..20).for_each(|_| rooms.give(Vec::with_capacity(1 << 20)));
        assert_eq!(memory.used_bytes(Component::InFlight), 4 << 20, "a sixteenth");
        rooms.give(rooms.take());
        rooms.rest();
        assert_eq!(memory.total_bytes(), 4 << 20, "one was used");
        rooms.rest();
        assert_eq!(memory.total_bytes(), 0);
    }
}
