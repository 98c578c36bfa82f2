//! A lane: requests that wait for one destination, or for whichever of several takes them, and the task that sends
//! them.
//!
//! Requests wait as they came, one copy for all lanes. What a lane sends next is made when it is sent, within the lane's
//! share, so what a destination that hangs holds is bounded whatever was written.

use super::Counts;
use super::destination::Sender;
use nyala_core::memory::{Charge, Component, MemoryBudget};
use nyala_db::feed::{Part, Written};
use nyala_db::ingest::Lines;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Requests that wait in a lane.
const QUEUE_MAX: usize = 1_000;
/// Lines are sent together up to this size, a share that is smaller, or a line that is longer.
const TOGETHER_BYTES: usize = 1 << 20;

/// What lanes have together: memory, counts.
pub(super) struct Common {
    pub(super) memory: Arc<MemoryBudget>,
    pub(super) all: Counts,
    lanes: AtomicUsize,
}

impl Common {
    pub(super) fn new(memory: Arc<MemoryBudget>) -> Self {
        Self { memory, all: Counts::default(), lanes: AtomicUsize::new(0) }
    }

    /// A quarter of what is for subscribers may wait in lanes, each with the same share. Half of the rest is the feed's;
    /// the other is for what is being sent, which takes up to twice its text.
    fn share_bytes(&self) -> usize {
        self.memory.subscribers_bytes_max() as usize / 4 / self.lanes.load(Ordering::Relaxed).max(1)
    }
}

/// Where to send, and what became of it.
pub(super) struct Way {
    pub(super) sender: Sender,
    pub(super) counts: Arc<Counts>,
}

/// A lane. Dropping it ends it, with what waits in it.
pub(super) struct Lane {
    sender: mpsc::Sender<Reading>,
    waiting_bytes: Arc<AtomicUsize>,
    common: Arc<Common>,
    task: JoinHandle<()>,
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.common.lanes.fetch_sub(1, Ordering::Relaxed);
        self.task.abort();
    }
}

impl Lane {
    /// Begins one whose points take one of several ways.
    pub(super) fn begin(ways: Vec<Way>, common: Arc<Common>) -> Self {
        let (sender, waiting) = mpsc::channel(QUEUE_MAX);
        common.lanes.fetch_add(1, Ordering::Relaxed);
        let sending = Sending { ways, next: 0, waiting, begun: None, common: common.clone() };
        Self { sender, waiting_bytes: Arc::default(), common, task: tokio::spawn(sending.run()) }
    }

    /// Adds a request, if there is room.
    pub(super) fn offer(&self, written: &Arc<Written>) {
        let bytes = written.body.len();
        let (part, others) = Part::take(&self.waiting_bytes, bytes);
        // What is larger than the share goes alone: the feed has bounded it.
        let has_room = others == 0 || others + bytes <= self.common.share_bytes();
        let reading = Reading { written: written.clone(), at: 0, _part: part };
        if !has_room || self.sender.try_send(reading).is_err() {
            self.common.all.dropped(written.points);
        }
    }
}

/// A request that was read up to a place.
struct Reading {
    written: Arc<Written>,
    at: usize,
    _part: Part,
}

/// Lines that are sent together.
pub(super) struct Batch {
    pub(super) lines: Lines,
    _held: Charge,
}

/// Sends what is in a lane.
struct Sending {
    ways: Vec<Way>,
    /// Whose turn it is.
    next: usize,
    waiting: mpsc::Receiver<Reading>,
    /// What did not fit into the last batch whole.
    begun: Option<Reading>,
    common: Arc<Common>,
}

impl Sending {
    async fn run(mut self) {
        while let Some(mut lines) = self.next_lines().await {
            lines.text.shrink_to_fit();
            lines.ends.shrink_to_fit();
            let points = lines.ends.len() as u64;
            if points == 0 {
                continue;
            }
            match self.common.memory.try_charge(Component::Subscribers, lines.memory_bytes() as u64) {
                Ok(held) => self.send(&Arc::new(Batch { lines, _held: held }), points).await,
                Err(_) => self.common.all.dropped(points),
            }
        }
    }

    /// What is sent next; `None` when nothing more comes.
    async fn next_lines(&mut self) -> Option<Lines> {
        let mut lines = Lines::default();
        let mut reading = match self.begun.take() {
            Some(begun) => begun,
            None => self.waiting.recv().await?,
        };
        let limit_bytes = self.common.share_bytes().min(TOGETHER_BYTES);
        loop {
            let Written { body, options, .. } = &*reading.written;
            reading.at = lines.add(body, reading.at, options, limit_bytes);
            if reading.at < body.len() {
                self.begun = Some(reading);
                return Some(lines);
            }
            match self.waiting.try_recv() {
                Ok(next) => reading = next,
                Err(_) => return Some(lines),
            }
        }
    }

    /// Sends the first way in turn that takes it.
    async fn send(&mut self, batch: &Arc<Batch>, points: u64) {
        let all = &self.common.all;
        for _ in 0..self.ways.len() {
            let turn = self.next % self.ways.len();
            self.next = turn + 1;
            let Way { sender, counts } = &mut self.ways[turn];
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
