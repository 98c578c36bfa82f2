//! Batches: lines of many datagrams and connections are gathered, and written at once when there are enough of them or
//! when the oldest has waited for [`BATCH_TIMEOUT`]. Both as in InfluxDB.
//!
//! The batches of an input are written one after the other, so that a later point replaces an earlier one. A few may wait;
//! a sender that can wait (TCP) does so, datagrams that come meanwhile are dropped and counted.

use crate::server::audit::LogLimit;
use crate::server::http::Context;
use crate::server::received::{Destination, InputCounts, Reason, Writer};
use nyala_core::memory::{Charge, Component, MemoryBudget};
use nyala_core::{Error, ErrorKind, Result};
use nyala_db::write::WriteReport;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;

/// How long points wait for others at most.
pub(super) const BATCH_TIMEOUT: Duration = Duration::from_secs(1);
/// A batch of so many bytes is written, however few points it has.
const BATCH_BYTES: usize = 1 << 20;
/// The batches that may wait for the one before.
const PENDING_MAX: usize = 10;
/// Parsed lines take about as much memory again, and so does their record for the log.
const BYTES_PER_BYTE: u64 = 3;
/// How often a batch is written when the database asks to try again later, and the first pause between. The pauses double:
/// 6 seconds in all.
const TRIES: u32 = 6;
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// Gathers the lines of an input.
pub(super) struct Batcher {
    counts: Arc<InputCounts>,
    memory: Arc<MemoryBudget>,
    points_max: u64,
    gathered: Mutex<Batch>,
    batches: mpsc::Sender<Batch>,
}

/// The place of a batch that may wait. Nobody else takes it.
pub(super) type Room<'a> = mpsc::Permit<'a, Batch>;

/// Lines in nanoseconds.
#[derive(Default)]
pub(super) struct Batch {
    lines: Vec<u8>,
    points: u64,
    charge: Option<Charge>,
}

impl Batcher {
    /// A batcher, and what writes its batches until the batcher is dropped.
    pub(super) fn new(
        context: &Arc<Context>,
        memory: &Arc<MemoryBudget>,
        counts: Arc<InputCounts>,
        destination: Destination,
        points_max: u64,
    ) -> (Arc<Self>, impl Future<Output = ()> + Send + use<>) {
        let (batches, waiting) = mpsc::channel(PENDING_MAX);
        let writer = Writer { counts: counts.clone(), destination };
        let writing = write_all(waiting, context.clone(), writer);
        let (memory, gathered) = (memory.clone(), Mutex::default());
        (Arc::new(Self { counts, memory, points_max, gathered, batches }), writing)
    }

    /// Waits until one more batch may wait; `None` when nobody writes any more. A sender that can wait keeps the room until it has
    /// added what it has read: to ask for it and give it back would leave it to another sender that waits.
    pub(super) async fn room(&self) -> Option<Room<'_>> {
        self.batches.reserve().await.ok()
    }

    /// Adds whole lines with times in nanoseconds, which are `points` points. A sender that cannot wait has no `room`: if there is
    /// none, its points are dropped, and not those of others that were gathered before.
    pub(super) fn add(&self, lines: &[u8], points: u64, mut room: Option<Room<'_>>) {
        if points == 0 {
            return;
        }
        let mut gathered = self.gathered();
        let is_full = gathered.points >= self.points_max || gathered.lines.len() + lines.len() > BATCH_BYTES;
        if is_full && !self.pass_on(&mut gathered, room.take()) {
            return self.counts.reject(Reason::QueueFull, points);
        }
        let bytes = lines.len() as u64 * BYTES_PER_BYTE;
        let charge = gathered.charge.get_or_insert_with(|| self.memory.charge(Component::InFlight, 0));
        if charge.try_grow(bytes).is_err() {
            return self.counts.reject(Reason::MemoryFull, points);
        }
        gathered.lines.extend_from_slice(lines);
        gathered.points += points;
        if gathered.points >= self.points_max {
            // If it has no room, who comes next passes it on.
            self.pass_on(&mut gathered, room);
        }
    }

    /// Passes on what was gathered, at every [`BATCH_TIMEOUT`].
    pub(super) async fn tick(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(BATCH_TIMEOUT);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.pass_on(&mut self.gathered(), None);
        }
    }

    /// Passes on what was gathered last, even if it must wait.
    pub(super) async fn finish(&self) {
        let rest = std::mem::take(&mut *self.gathered());
        let points = rest.points;
        if points > 0 && self.batches.send(rest).await.is_err() {
            self.counts.reject(Reason::WriteFailed, points);
        }
    }

    /// Passes on what was gathered. Returns whether nothing is gathered then: without room it stays.
    fn pass_on<'a>(&'a self, gathered: &mut Batch, room: Option<Room<'a>>) -> bool {
        if gathered.points == 0 {
            return true;
        }
        let Some(room) = room.or_else(|| self.batches.try_reserve().ok()) else { return false };
        room.send(std::mem::take(gathered));
        true
    }

    fn gathered(&self) -> MutexGuard<'_, Batch> {
        // No code under this lock can panic and leave a change unfinished.
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn write_all(mut batches: mpsc::Receiver<Batch>, context: Arc<Context>, writer: Writer) {
    let warnings = LogLimit::default();
    while let Some(batch) = batches.recv().await {
        let mut delay = RETRY_DELAY;
        for attempt in 1.. {
            let Err(error) = write(&context, &writer, &batch).await else { break };
            if attempt < TRIES && error.kind() == ErrorKind::Retry {
                tokio::time::sleep(delay).await;
                delay *= 2;
                continue;
            }
            writer.counts.reject(Reason::WriteFailed, batch.points);
            if let Some(left_out) = warnings.next() {
                let (input, points) = (writer.counts.input, batch.points);
                tracing::warn!(input, points, %error, left_out, "points of an input could not be written");
            }
            break;
        }
    }
}

async fn write(context: &Context, writer: &Writer, batch: &Batch) -> Result<WriteReport> {
    let databases = context.databases.get().ok_or_else(|| Error::retry("the server is starting"))?;
    writer.write(&databases.writer, context.clock.now_ns(), &batch.lines, batch.points, None).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc::Receiver;

    const POINTS_MAX: u64 = 10;
    const SENDERS: u64 = 3;
    const LINES: u64 = 200;

    fn batcher() -> (Arc<Batcher>, Receiver<Batch>) {
        let (batches, waiting) = mpsc::channel(PENDING_MAX);
        let (counts, memory) = (InputCounts::new("test"), MemoryBudget::new(1 << 30));
        let gathered = Mutex::default();
        (Arc::new(Batcher { counts, memory, points_max: POINTS_MAX, gathered, batches }), waiting)
    }

    /// Writes everything, and returns the points.
    async fn write_slowly(mut waiting: Receiver<Batch>) -> u64 {
        let mut points = 0;
        while let Some(batch) = waiting.recv().await {
            assert_eq!(batch.lines.len() as u64, batch.points * 2);
            points += batch.points;
            tokio::task::yield_now().await;
        }
        points
    }

    #[tokio::test]
    async fn senders_that_can_wait_lose_nothing_to_each_other() {
        let (batcher, waiting) = batcher();
        let mut senders = tokio::task::JoinSet::new();
        for _ in 0..SENDERS {
            let batcher = batcher.clone();
            senders.spawn(async move {
                for _ in 0..LINES {
                    let room = batcher.room().await;
                    batcher.add(b"a\n", 1, room);
                }
            });
        }
        // All of them wait before the first batch is written.
        while batcher.batches.capacity() > 0 {
            tokio::task::yield_now().await;
        }
        let writing = tokio::spawn(write_slowly(waiting));
        while senders.join_next().await.is_some() {}
        batcher.finish().await;
        assert_eq!(batcher.counts.rejected(Reason::QueueFull), 0);
        drop(batcher);
        assert_eq!(writing.await.expect("it writes"), SENDERS * LINES);
    }

    #[tokio::test]
    async fn datagrams_without_room_are_dropped_and_not_what_was_gathered() {
        let (batcher, waiting) = batcher();
        let fits = POINTS_MAX * (PENDING_MAX as u64 + 1);
        for _ in 0..fits + 5 {
            batcher.add(b"a\n", 1, None);
        }
        assert_eq!(batcher.counts.rejected(Reason::QueueFull), 5);
        let ticking = tokio::spawn(batcher.clone().tick());
        tokio::task::yield_now().await;
        assert_eq!(batcher.counts.rejected(Reason::QueueFull), 5);
        ticking.abort();
        drop(ticking.await);
        let writing = tokio::spawn(write_slowly(waiting));
        batcher.finish().await;
        drop(batcher);
        assert_eq!(writing.await.expect("it writes"), fits);
    }
}
