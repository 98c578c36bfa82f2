//! The thread of the log: it takes what waits in the queue, writes and syncs it, and keeps the promises.
//!
//! A thread of its own, rather than the first writer doing the work for all: a server thread that handed in a
//! batch fills the memtable or answers others while the disk works. The handover costs two wake-ups a group,
//! some 10 µs beside a sync of 100 µs at best.

use std::time::{Duration, Instant};

use nyala_core::{Error, ErrorKind};

use super::SyncPolicy;
use super::queue::{MAX_GROUP_RECORDS, Queue, Work};
use super::stats::add;
use super::writer::Writer;

/// After a group of at most this size the log waits a moment: its writers are soon back with their next records.
const SMALL_GROUP_BYTES: u64 = 128 << 10;
/// It waits for this part (1/8) of the last sync.
const GATHER_SHARE: u32 = 8;
/// It does not wait after shorter syncs: an eighth of them is less than the shortest time that a thread sleeps.
const SLOW_SYNC: Duration = Duration::from_micros(400);

/// Closes the queue when the thread ends, also by a panic, so that what waits gets an error.
struct CloseAtEnd<'a>(&'a Queue);

impl Drop for CloseAtEnd<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let error =
                Error::new(ErrorKind::Unknown, "its thread panicked, and nothing is written until a restart");
            self.0.counters.last_failure.note::<()>(&Err(error));
        }
        self.0.fail();
    }
}

/// Writes what the queue holds until it is closed.
pub(super) fn run(queue: &Queue, mut writer: Writer, policy: SyncPolicy) {
    let _close = CloseAtEnd(queue);
    // The time by which what was written must be synced.
    let mut deadline: Option<Instant> = None;
    loop {
        match queue.take(writer.room(), deadline) {
            Work::Write(entries) => {
                let outcome = writer.write(&entries).and_then(|()| match policy {
                    SyncPolicy::Always => writer.sync(),
                    SyncPolicy::Interval(interval) => {
                        let now = Instant::now();
                        if now < *deadline.get_or_insert(now + interval) {
                            return Ok(());
                        }
                        deadline = None;
                        writer.sync()
                    }
                    SyncPolicy::Never => Ok(()),
                });
                queue.counters.last_failure.note(&outcome);
                if outcome.is_ok() {
                    writer.acknowledged(entries.len() as u64);
                    add(&queue.counters.records, entries.len() as u64);
                }
                // Without a pause the first writer that is back would begin a sync alone, and the others would wait for it and
                // for the next one: two groups that take turns. So as many are waited for as were answered.
                let last_sync = writer.last_sync();
                let gathers = policy == SyncPolicy::Always
                    && last_sync >= SLOW_SYNC
                    && entries.iter().map(|entry| entry.length).sum::<u64>() <= SMALL_GROUP_BYTES;
                let expected = gathers.then(|| queue.len() + entries.len());
                for mut entry in entries {
                    entry.promise.keep(outcome.clone());
                }
                if let Some(expected) = expected {
                    queue.gather(expected.min(MAX_GROUP_RECORDS), last_sync / GATHER_SHARE);
                }
                if queue.is_empty() {
                    writer.mark_end();
                }
            }
            Work::Begin { sequence, bytes } => {
                let begun = writer.begin_next(sequence, bytes);
                queue.counters.last_failure.note(&begun);
                if let Err(error) = begun {
                    add(&queue.counters.failed_writes, 1);
                    let error =
                        Error::retry(format!("the log cannot be written now, nothing was stored: {error}"));
                    for mut entry in queue.take_records() {
                        entry.promise.keep(Err(error.clone()));
                    }
                }
            }
            Work::Sync(mut promise) => {
                let outcome = writer.sync();
                queue.counters.last_failure.note(&outcome);
                deadline = None;
                writer.mark_end();
                promise.keep(outcome);
            }
            Work::Reopen(mut promise) => {
                let outcome = writer.reopen(queue.next_sequence());
                queue.counters.last_failure.note(&outcome);
                promise.keep(outcome);
            }
            Work::Rest { small_bytes, mut promise } => {
                promise.keep(writer.rest(small_bytes));
            }
            Work::CloseSegment(mut promise) => {
                let outcome = writer.close_segment();
                queue.counters.last_failure.note(&outcome);
                promise.keep(outcome);
            }
            Work::Timeout => {
                // No ticket waits for this sync. A failure is counted, and the next write begins a new segment.
                queue.counters.last_failure.note(&writer.sync());
                deadline = None;
                writer.mark_end();
            }
            Work::Close => {
                writer.close();
                return;
            }
        }
    }
}
