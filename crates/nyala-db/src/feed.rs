//! SubmittedRequest points on their way to subscribers.
//!
//! Writes never wait for subscribers and never fail because of them. The feed has its own share of the memory; points
//! for which there is no room are dropped and counted.

use crate::ingest::ParseOptions;
use nyala_core::memory::{Charge, Component, MemoryBudget};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use tokio::sync::mpsc;

/// The most requests that wait in the feed.
const WAITING_MAX: usize = 1_000;

/// The queue into which the writer puts copies of requests.
pub struct Feed {
    sender: mpsc::Sender<SubmittedRequest>,
    memory: Arc<MemoryBudget>,
    /// The most bytes of all requests that subscribers still need.
    limit_bytes: usize,
    held_bytes: Arc<AtomicUsize>,
    counts: Arc<FeedCounts>,
}

/// Counters of requests.
#[derive(Debug, Default)]
pub struct FeedCounts {
    /// Requests that were passed on.
    pub handed_on: AtomicU64,
    /// Requests that were dropped for lack of room, …
    pub dropped: AtomicU64,
    /// … and the points in them.
    pub dropped_points: AtomicU64,
}

/// A written request. Dropping it gives its memory back.
pub struct SubmittedRequest {
    /// Its database.
    pub database: String,
    /// Its retention policy.
    pub policy: String,
    /// How its lines are parsed.
    pub options: ParseOptions,
    /// Its lines as received.
    pub body: Vec<u8>,
    /// The number of its points that were stored.
    pub points: u64,
    _held: (QueuedBytes, Charge),
}

/// A share of a bounded number of bytes. Dropping it gives the share back.
pub struct QueuedBytes {
    bytes: usize,
    all: Arc<AtomicUsize>,
}

impl QueuedBytes {
    /// Takes a share. Returns it and how much others have taken.
    pub fn take(all: &Arc<AtomicUsize>, bytes: usize) -> (Self, usize) {
        let others = all.fetch_add(bytes, Ordering::Relaxed);
        (Self { bytes, all: all.clone() }, others)
    }
}

impl Drop for QueuedBytes {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Feed {
    /// A feed, and the queue from which requests are received.
    pub fn new(memory: Arc<MemoryBudget>) -> (Self, mpsc::Receiver<SubmittedRequest>) {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let (held_bytes, counts) = (Arc::default(), Arc::default());
        // The other half is for what the subscribers' senders make of the requests.
        let limit_bytes = (memory.subscribers_bytes_max() / 2) as usize;
        (Self { sender, memory, limit_bytes, held_bytes, counts }, receiver)
    }

    /// The counters of requests.
    pub fn counts(&self) -> &Arc<FeedCounts> {
        &self.counts
    }

    /// Puts a copy of a request into the feed if there is room.
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
            place.send(SubmittedRequest { database, policy, options, body: body.to_vec(), points, _held });
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

    fn hold(&self, bytes: usize) -> Option<(QueuedBytes, Charge)> {
        let (part, others) = QueuedBytes::take(&self.held_bytes, bytes);
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
    fn requests_in_the_feed_are_charged_and_give_their_memory_back() {
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
