//! What was written, on its way to those who subscribed to it.
//!
//! Writing never waits for it and never fails because of it: what there is no room for is left out and counted.

use crate::ingest::ParseOptions;
use nyala_core::memory::{Charge, Component, MemoryBudget};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use tokio::sync::mpsc;

/// Requests that wait to be handed on.
const WAITING_MAX: usize = 1_000;
/// What a time takes in a line at most, and the blank before it.
const TIME_BYTES: usize = 21;

/// Where the writer leaves what subscribers get.
pub struct Feed {
    sender: mpsc::Sender<Written>,
    memory: Arc<MemoryBudget>,
    limit_bytes: usize,
    waiting_bytes: Arc<AtomicUsize>,
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

/// A request that was written.
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
    /// What its lines take in the account of memory, also when all have times.
    pub held: Charge,
    waiting: Waiting,
}

/// A part of the bytes that may wait; given back when it goes.
struct Waiting {
    bytes: usize,
    all: Arc<AtomicUsize>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Written {
    /// Says that it does not wait any more; what it holds stays charged with the charge.
    pub fn taken(self) -> (Vec<u8>, ParseOptions, Charge) {
        let Self { body, options, held, waiting, .. } = self;
        drop(waiting);
        (body, options, held)
    }
}

impl Feed {
    /// A feed of which `limit_bytes` may wait, and where they come out.
    pub fn new(memory: Arc<MemoryBudget>, limit_bytes: usize) -> (Self, mpsc::Receiver<Written>) {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let (waiting_bytes, counts) = (Arc::default(), Arc::default());
        (Self { sender, memory, limit_bytes, waiting_bytes, counts }, receiver)
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
        let bytes = body.len() + points as usize * TIME_BYTES;
        let before = self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        let waiting = Waiting { bytes, all: self.waiting_bytes.clone() };
        // One that is larger than all that may wait goes alone.
        let has_room = before == 0 || before + bytes <= self.limit_bytes;
        let held =
            if has_room { self.memory.try_charge(Component::InFlight, bytes as u64).ok() } else { None };
        let sent = held.zip(self.sender.try_reserve().ok()).map(|(held, place)| {
            let (database, policy) = (database.to_owned(), policy.to_owned());
            place.send(Written { database, policy, options, body: body.to_vec(), points, held, waiting });
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
}
