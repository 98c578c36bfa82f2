//! What was written, on its way to those who subscribed to it.
//!
//! Writing never waits for it and never fails because of it: it has a part of the memory of its own, and what there is
//! no room for is left out and counted.

use crate::ingest::ParseOptions;
use nyala_core::memory::{Charge, Component, MemoryBudget};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use tokio::sync::mpsc;

/// Requests that wait to be handed on.
const WAITING_MAX: usize = 1_000;

/// Where the writer leaves what subscribers get.
pub struct Feed {
    sender: mpsc::Sender<Written>,
    memory: Arc<MemoryBudget>,
    /// What all requests that subscribers still need may take, bytes.
    limit_bytes: usize,
    held_bytes: Arc<AtomicUsize>,
    counts: Arc<FeedCounts>,
}

/// What became of requests.
#[derive(Debug, Default)]
pub struct FeedCounts {
    /// Requests handed on.
    pub handed_on: AtomicU64,
    /// Requests there was no room for, …
    pub dropped: AtomicU64,
    /// … and the points in them.
    pub dropped_points: AtomicU64,
}

/// A request that was written. Its memory is given back when it goes.
pub struct Written {
    /// Its database.
    pub database: String,
    /// Its retention policy.
    pub policy: String,
    /// How its lines are read.
    pub options: ParseOptions,
    /// Its lines as they came.
    pub body: Vec<u8>,
    /// The points of it that were stored.
    pub points: u64,
    _held: (Part, Charge),
}

/// A part of a bounded number of bytes; given back when it goes.
pub struct Part {
    bytes: usize,
    all: Arc<AtomicUsize>,
}

impl Part {
    /// Takes a part, and tells what others have taken.
    pub fn take(all: &Arc<AtomicUsize>, bytes: usize) -> (Self, usize) {
        let others = all.fetch_add(bytes, Ordering::Relaxed);
        (Self { bytes, all: all.clone() }, others)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Feed {
    /// A feed, and where requests come out of it.
    pub fn new(memory: Arc<MemoryBudget>) -> (Self, mpsc::Receiver<Written>) {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let (held_bytes, counts) = (Arc::default(), Arc::default());
        // The other half is for what is made of them.
        let limit_bytes = (memory.subscribers_bytes_max() / 2) as usize;
        (Self { sender, memory, limit_bytes, held_bytes, counts }, receiver)
    }

    /// What became of requests.
    pub fn counts(&self) -> &Arc<FeedCounts> {
        &self.counts
    }

    /// Leaves a copy of a request, if there is room.
    pub(crate) fn offer(
        &self,
        database: &str,
        policy: &str,
        options: ParseOptions,
        body: &[u8],
        points: u64,
    ) {
        let room = self.hold(body.len()).zip(self.sender.try_reserve().ok());
        let sent = room.map(|(_held, place)| {
            let (database, policy) = (database.to_owned(), policy.to_owned());
            place.send(Written { database, policy, options, body: body.to_vec(), points, _held });
        });
        match sent {
            Some(()) => {
                self.counts.handed_on.fetch_add(1, Ordering::Relaxed);
            }
            None => {
                self.counts.dropped.fetch_add(1, Ordering::Relaxed);
                self.counts.dropped_points.fetch_add(points, Ordering::Relaxed);
            }
        }
    }

    fn hold(&self, bytes: usize) -> Option<(Part, Charge)> {
        let (part, others) = Part::take(&self.held_bytes, bytes);
        if others + bytes > self.limit_bytes {
            return None;
        }
        let charge = self.memory.try_charge(Component::Subscribers, bytes as u64).ok()?;
        Some((part, charge))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_get_their_part_of_the_memory_and_give_it_back() {
        let memory = MemoryBudget::new(3200);
        let (feed, mut written) = Feed::new(memory.clone());
        let offer = |bytes: usize| feed.offer("d", "p", ParseOptions::default(), &vec![b'#'; bytes], 7);
        offer(101);
        assert_eq!(feed.counts().dropped_points.load(Ordering::Relaxed), 7, "also one alone");
        offer(60);
        offer(41);
        offer(40);
        assert_eq!(feed.counts().handed_on.load(Ordering::Relaxed), 2);
        assert_eq!(feed.counts().dropped.load(Ordering::Relaxed), 2);
        let used = |component| memory.used_bytes(component);
        assert_eq!((used(Component::Subscribers), used(Component::InFlight)), (100, 0));
        let first = written.try_recv().expect("it was handed on");
        offer(1);
        assert_eq!(feed.counts().dropped.load(Ordering::Relaxed), 3, "it is still held");
        drop(first);
        offer(60);
        drop((feed, written));
        assert_eq!(memory.total_bytes(), 0);
    }
}
