//! The write-ahead log: a write is acknowledged when its record is here.
//!
//! Any number of threads [`Wal::submit`] payloads; the log gives each a sequence at once. One thread of the log writes
//! everything that waits, syncs it according to the [`SyncPolicy`] and completes the [`Ticket`]s. After a slow sync it waits
//! briefly, so that answered writers join the next group. A ticket is waited for by blocking or as a future, so a server
//! thread need not stand still for a sync.
//!
//! Records live in segments, which are preallocated (then reused), so that a sync seldom has more to write than
//! the data. The header of a segment says how much of the one before counts. Hence the invariants:
//!
//! - A record that was acknowledged under [`SyncPolicy::Always`] is replayed, whole, unless bytes rot; and then
//!   the replay says which file and where.
//! - Replay yields records in order of their sequences. Sequences may have gaps: one that failed is not reused.
//! - After a failed sync nothing is acknowledged until a new segment was begun, whose header cuts off what is in
//!   doubt. The next write tries that by itself, and so does [`Wal::reopen`].
//! - When the disk is full the write fails with nothing stored, and the log works again when there is space.
//!
//! Next stops: `queue.rs` for what waits, `group_commit.rs` for the thread that writes it, `writer.rs` for what happens on
//! disk, `replay.rs` for reading. The bytes are drawn in `docs/format/wal.md`.

mod copy;
mod group_commit;
mod queue;
mod replay;
mod segment;
mod stats;
mod writer;

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use nyala_core::{Error, Result};
use parking_lot::Mutex;

pub(crate) use copy::CopiedLog;
pub use queue::Ticket;
pub(crate) use replay::headers;
pub use replay::{Record, ReplayReport, decode, first_sequence, replay, verify};
pub use stats::{SYNC_BUCKETS, WalStats};

use crate::files::framed_log::{FILE_HEADER_BYTES, FRAME_HEADER_BYTES, MAX_FILE_BYTES};
use crate::files::fs::FsRef;
use queue::Queue;
pub(crate) use segment::MAGIC;
use segment::Segments;
use writer::Writer;

/// The longest payload: what a program may have to hold in memory to read one.
pub const MAX_PAYLOAD_BYTES: u64 = 256 << 20;

/// When what was written is put on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Before it is acknowledged. Nothing that was acknowledged is lost.
    Always,
    /// At most so much later. A power cut loses what was acknowledged since.
    Interval(Duration),
    /// When the operating system pleases, and when a segment is full.
    Never,
}

/// Settings of the log.
#[derive(Debug, Clone)]
pub struct WalOptions {
    /// When to sync.
    pub sync: SyncPolicy,
    /// Length of a segment; a longer record gets a segment of its own length.
    pub segment_bytes: u64,
    /// Bytes of segments up to which those that are given up are kept as spares.
    pub kept_bytes: u64,
    /// Payload bytes that may wait to be written; more are refused with [`nyala_core::ErrorKind::Retry`].
    pub queue_bytes: u64,
    /// The lowest sequence to give out, for a log whose segments are all gone.
    pub first_sequence: u64,
    /// Shared with the manifest.
    pub progress: Arc<Progress>,
}

/// How far log and manifest are surely on disk: each records the other's progress, so that a loss is noticed.
#[derive(Debug, Default)]
pub struct Progress {
    segment: AtomicU64,
    sequence: AtomicU64,
    revision: AtomicU64,
}

impl Progress {
    /// The number of the newest segment of the log, and the last record that was synced.
    pub(crate) fn of_log(&self) -> (u64, u64) {
        (self.segment.load(Ordering::Acquire), self.sequence.load(Ordering::Acquire))
    }

    fn begun(&self, segment: u64) {
        self.segment.store(segment, Ordering::Release);
    }

    fn synced(&self, sequence: u64) {
        self.sequence.store(sequence, Ordering::Release);
    }

    fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    /// The manifest is on disk up to this revision.
    pub(crate) fn set_revision(&self, revision: u64) {
        self.revision.store(revision, Ordering::Release);
    }
}

impl Default for WalOptions {
    fn default() -> Self {
        Self {
            sync: SyncPolicy::Always,
            segment_bytes: 64 << 20,
            kept_bytes: 128 << 20,
            queue_bytes: 128 << 20,
            first_sequence: 1,
            progress: Arc::default(),
        }
    }
}

/// An open log.
#[derive(Debug)]
pub struct Wal {
    queue: Arc<Queue>,
    segments: Arc<Mutex<Segments>>,
    thread: Option<JoinHandle<()>>,
}

impl Wal {
    /// Replays the records from sequence `from` on and opens the log for writing behind them.
    ///
    /// Damage is in the report and does not keep the log from opening: the caller decides. The directory must
    /// exist and belong to this process.
    pub fn open(
        fs: FsRef,
        dir: &Path,
        options: WalOptions,
        from: u64,
        visit: &mut dyn FnMut(Record) -> Result<()>,
    ) -> Result<(Self, ReplayReport)> {
        let smallest = FILE_HEADER_BYTES + FRAME_HEADER_BYTES;
        if !(smallest..=MAX_FILE_BYTES - MAX_PAYLOAD_BYTES).contains(&options.segment_bytes) {
            return Err(Error::invalid(format!("a log segment of {} bytes", options.segment_bytes)));
        }
        let (report, end) = replay::read(&fs, dir, from, visit)?;
        let next_sequence = end.next_sequence.max(options.first_sequence);
        let queue = Arc::new(Queue::new(next_sequence, options.queue_bytes));
        let writer = Writer::open(fs, dir, &options, end, queue.counters.clone())?;
        let segments = writer.segments.clone();
        let thread = std::thread::Builder::new()
            .name("nyala-wal".to_owned())
            .spawn({
                let queue = queue.clone();
                move || group_commit::run(&queue, writer, options.sync)
            })
            .map_err(|error| Error::from(error).context("cannot start the thread of the log"))?;
        Ok((Self { queue, segments, thread: Some(thread) }, report))
    }

    /// Submits a payload, in parts, to the log. Its sequence is known at once; it is in the log when the ticket says
    /// so. Dropping the ticket does not take the record back.
    pub fn submit(&self, parts: Vec<Bytes>) -> Result<Ticket> {
        self.submit_numbered(parts, |_| {})
    }

    /// [`Wal::submit`], and calls `numbered` with the sequence, in the order of sequences.
    pub fn submit_numbered(&self, parts: Vec<Bytes>, numbered: impl FnOnce(u64)) -> Result<Ticket> {
        self.queue.submit(parts, numbered)
    }

    /// [`Wal::submit`] and wait. Returns the record's sequence.
    ///
    /// An error of kind [`nyala_core::ErrorKind::Unknown`] says that the record may or may not be there after a
    /// restart; after any other nothing of it is stored.
    pub fn append(&self, parts: Vec<Bytes>) -> Result<u64> {
        self.submit(parts)?.wait()
    }

    /// Puts everything that was submitted before on disk, whatever the policy.
    pub fn sync(&self) -> Result<()> {
        self.queue.request_sync()?.wait().map(|_| ())
    }

    /// After a failure: begins a new segment so that writes are acknowledged again. Does nothing if they are. The
    /// next write does the same; this is for trying before one comes.
    pub fn reopen(&self) -> Result<()> {
        self.queue.request_reopen()?.wait().map(|_| ())
    }

    /// Writes a log of the records from one sequence to another to a directory that has none. The caller makes sure that
    /// all of them were acknowledged, and that none is given up meanwhile.
    pub(crate) fn copy(
        &self,
        new_dir: &Path,
        sequences: RangeInclusive<u64>,
        revision: u64,
    ) -> Result<CopiedLog> {
        self.queue.request_closed_segment()?.wait()?;
        let (fs, dir, closed) = self.segments.lock().closed();
        copy::copy(&fs, (&dir, &closed), new_dir, sequences, revision)
    }

    /// Gives up the segments that hold only records with sequences below `sequence`.
    pub fn truncate_before(&self, sequence: u64) -> Result<()> {
        self.segments.lock().truncate_before(sequence)
    }

    /// Gives back the space that the log keeps to be fast, if its active segment is longer than `small_bytes`: for a
    /// log that nothing is written to. Only records from `sequence` on are still needed.
    pub fn rest(&self, sequence: u64, small_bytes: u64) -> Result<()> {
        self.queue.request_rest(small_bytes)?.wait()?;
        let mut segments = self.segments.lock();
        segments.truncate_before(sequence)?;
        segments.shrink()
    }

    /// The sequence that the next record gets.
    pub fn next_sequence(&self) -> u64 {
        self.queue.next_sequence()
    }

    /// Takes sequences that no record gets, and calls `numbered` with the last one, in the order of sequences.
    pub(crate) fn skip_sequences(&self, count: u64, numbered: impl FnOnce(u64)) -> u64 {
        self.queue.skip_sequences(count, numbered)
    }

    /// Bytes of records that a replay from the beginning would read.
    pub fn size_bytes(&self) -> u64 {
        self.segments.lock().size_bytes()
    }

    /// Bytes of records written since the log was opened.
    pub fn written_bytes(&self) -> u64 {
        self.queue.counters.written_bytes.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Records that were acknowledged and whose sync failed: see [`WalStats::doubtful_records`].
    pub fn doubtful_records(&self) -> u64 {
        self.queue.counters.doubtful_records.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Why nothing is acknowledged: the last attempt to write or sync failed.
    pub fn failure(&self) -> Option<String> {
        self.queue.counters.last_failure.get()
    }

    /// Counters since the log was opened.
    pub fn stats(&self) -> WalStats {
        let segments = self.segments.lock();
        self.queue.counters.snapshot(segments.count(), segments.size_bytes())
    }
}

impl Drop for Wal {
    /// Writes and syncs what waits.
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.take() {
            // A panic there was reported there; what waited got its error from the queue.
            let _ = thread.join();
        }
    }
}
