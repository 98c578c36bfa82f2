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

/// Lines in nanoseconds.
#[derive(Default)]
struct Batch {
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

    /// Adds whole lines with times in nanoseconds, which are `points` points.
    pub(super) fn add(&self, lines: &[u8], points: u64) {
        if points == 0 {
            return;
        }
        let mut gathered = self.gathered();
        if gathered.lines.len() + lines.len() > BATCH_BYTES {
            self.pass_on(&mut gathered);
        }
        let bytes = lines.len() as u64 * BYTES_PER_BYTE;
        let charge = gathered.charge.get_or_insert_with(|| self.memory.charge(Component::InFlight, 0));
        if charge.try_grow(bytes).is_err() {
            return self.counts.reject(Reason::MemoryFull, points);
        }
        gathered.lines.extend_from_slice(lines);
        gathered.points += points;
        if gathered.points >= self.points_max {
            self.pass_on(&mut gathered);
        }
    }

    /// Waits until one more batch may wait. Senders that can wait call it before they read on.
    pub(super) async fn room(&self) {
        // It fails only when nobody writes any more.
        drop(self.batches.reserve().await);
    }

    /// Passes on what was gathered, at every [`BATCH_TIMEOUT`].
    pub(super) async fn tick(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(BATCH_TIMEOUT);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.pass_on(&mut self.gathered());
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

    fn pass_on(&self, gathered: &mut Batch) {
        if gathered.points == 0 {
            return;
        }
        let batch = std::mem::take(gathered);
        let points = batch.points;
        if self.batches.try_send(batch).is_err() {
            self.counts.reject(Reason::QueueFull, points);
        }
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
