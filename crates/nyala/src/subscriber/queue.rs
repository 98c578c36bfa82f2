//! A queue of requests for one destination, or for any one of several, and the task that sends them.
//!
//! Requests wait in the form in which they arrived, one copy for all queues. The task makes the next batch just before
//! it sends it, within the queue's share of memory. So a destination that hangs holds a bounded amount of memory.

use super::Counts;
use super::sender::{Batch, Sender};
use nyala_core::memory::{Component, MemoryBudget};
use nyala_db::feed::{QueuedBytes, SubmittedRequest};
use nyala_db::ingest::Lines;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// The most requests that wait in a queue.
const QUEUE_MAX: usize = 1_000;
/// The largest batch, unless the queue's share is smaller or a single line is longer.
const BATCH_MAX_BYTES: usize = 1 << 20;

/// What all queues share: memory and counts.
pub(super) struct Shared {
    pub(super) memory: Arc<MemoryBudget>,
    pub(super) all: Counts,
    queues: AtomicUsize,
}

impl Shared {
    pub(super) fn new(memory: Arc<MemoryBudget>) -> Self {
        Self { memory, all: Counts::default(), queues: AtomicUsize::new(0) }
    }

    /// Each queue's share: all queues together get a quarter of the memory for subscribers. Half of that memory is the
    /// feed's; the last quarter is for batches that are being sent, which take up to twice their text.
    fn share_bytes(&self) -> usize {
        self.memory.subscribers_bytes_max() as usize / 4 / self.queues.load(Ordering::Relaxed).max(1)
    }
}

/// A destination and its counts.
pub(super) struct Destination {
    pub(super) sender: Sender,
    pub(super) counts: Arc<Counts>,
}

/// A queue. Dropping it drops what waits in it.
pub(super) struct Queue {
    sender: mpsc::Sender<Pending>,
    waiting_bytes: Arc<AtomicUsize>,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.shared.queues.fetch_sub(1, Ordering::Relaxed);
        self.task.abort();
    }
}

impl Queue {
    /// Starts a queue; each batch goes to one of the destinations.
    pub(super) fn start(destinations: Vec<Destination>, shared: Arc<Shared>) -> Self {
        let (sender, waiting) = mpsc::channel(QUEUE_MAX);
        shared.queues.fetch_add(1, Ordering::Relaxed);
        let queue_task = QueueTask { destinations, next: 0, waiting, partial: None, shared: shared.clone() };
        Self { sender, waiting_bytes: Arc::default(), shared, task: tokio::spawn(queue_task.run()) }
    }

    /// Adds a request if the queue has room, or else counts its points as dropped.
    pub(super) fn offer(&self, written: &Arc<SubmittedRequest>) {
        let bytes = written.body.len();
        let (part, others) = QueuedBytes::take(&self.waiting_bytes, bytes);
        // A request larger than the share is accepted when the queue is empty: the feed has bounded its size.
        let has_room = others == 0 || others + bytes <= self.shared.share_bytes();
        let pending = Pending { written: written.clone(), at: 0, _part: part };
        if !has_room || self.sender.try_send(pending).is_err() {
            self.shared.all.dropped(written.points);
        }
    }
}

/// A request that was sent up to byte `at`.
struct Pending {
    written: Arc<SubmittedRequest>,
    at: usize,
    _part: QueuedBytes,
}

/// Sends what is in a queue.
struct QueueTask {
    destinations: Vec<Destination>,
    /// The destination that is tried first next time.
    next: usize,
    waiting: mpsc::Receiver<Pending>,
    /// The rest of a request that did not fit into the last batch.
    partial: Option<Pending>,
    shared: Arc<Shared>,
}

impl QueueTask {
    async fn run(mut self) {
        while let Some(mut lines) = self.next_lines().await {
            lines.text.shrink_to_fit();
            lines.ends.shrink_to_fit();
            let points = lines.ends.len() as u64;
            if points == 0 {
                continue;
            }
            match self.shared.memory.try_charge(Component::Subscribers, lines.memory_bytes() as u64) {
                Ok(held) => self.send(&Arc::new(Batch { lines, _charge: held }), points).await,
                Err(_) => self.shared.all.dropped(points),
            }
        }
    }

    /// The lines of the next batch; `None` when the queue ends.
    async fn next_lines(&mut self) -> Option<Lines> {
        let mut lines = Lines::default();
        let mut pending = match self.partial.take() {
            Some(partial) => partial,
            None => self.waiting.recv().await?,
        };
        let limit_bytes = self.shared.share_bytes().min(BATCH_MAX_BYTES);
        loop {
            let SubmittedRequest { body, options, .. } = &*pending.written;
            pending.at = lines.add(body, pending.at, options, limit_bytes);
            if pending.at < body.len() {
                self.partial = Some(pending);
                return Some(lines);
            }
            match self.waiting.try_recv() {
                Ok(next) => pending = next,
                Err(_) => return Some(lines),
            }
        }
    }

    /// Sends a batch to the first destination in turn that accepts it.
    async fn send(&mut self, batch: &Arc<Batch>, points: u64) {
        let all = &self.shared.all;
        for _ in 0..self.destinations.len() {
            let turn = self.next % self.destinations.len();
            self.next = turn + 1;
            let Destination { sender, counts } = &mut self.destinations[turn];
            match sender.send(batch).await {
                Ok(too_long) => {
                    let too_long = too_long as u64;
                    all.dropped(too_long);
                    [all, &**counts].iter().for_each(|counts| counts.written(points - too_long));
                    return;
                }
                Err(words) => {
                    counts.failed();
                    tracing::debug!(words, "points did not reach a subscriber");
                }
            }
        }
        all.failed();
    }
}
