//! Threads that flush and compact in the background, and what they do next.
//!
//! A thread takes the most urgent work there is. Flushes come first: they bound memory and the log.
//! What fails (a full disk) is tried again after a pause that doubles, and nothing is given up.

pub(crate) mod compaction;
pub(crate) mod flush;
pub(crate) mod orphans;
pub(crate) mod output;
pub(crate) mod series_merge;

use crate::shared::Shared;
use compaction::Candidate;
use nyala_core::memory::Component;
use nyala_core::{Error, ErrorKind, Result};
use parking_lot::{Condvar, Mutex};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How much the threads stand back (in steps of `nice`) for those that answer clients, where cores are short. Who writes
/// faster than they keep up with is slowed by the account of memory.
const NICENESS: i32 = 5;
/// How often is looked for work that nobody announced.
const IDLE_WAIT: Duration = Duration::from_millis(500);
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Rows older than this are flushed when nothing else calls for it, so that a restart replays little.
const FLUSH_AGE: Duration = Duration::from_secs(600);
/// After so long without a write, rows are flushed before they fill their share of memory, …
const QUIET_FOR: Duration = Duration::from_millis(750);
/// … if they fill this part of it. A load that ended leaves neither a long log nor rows that readers merge.
const QUIET_SHARE: u64 = 8;
/// After so long without a write, and with nothing left to do, the log gives back the room it keeps to be fast …
const REST_AFTER: Duration = Duration::from_secs(2);
/// … unless its segment is no longer than this.
const SMALL_SEGMENT_BYTES: u64 = 2 << 20;
/// How long a batch waits for memory before it is refused: many flushes take place in that time.
const ADMISSION_WAIT_MAX: Duration = Duration::from_secs(10);
const ADMISSION_PAUSE: Duration = Duration::from_millis(5);

/// Work that could be done now, for the operator to see.
#[derive(Debug, Clone, PartialEq)]
pub struct QueuedWork {
    /// What: "flush" or "compact".
    pub kind: &'static str,
    /// Table and partition of a compaction.
    pub place: Option<(u32, u64)>,
    /// How urgent: above 1 it is due.
    pub score: f64,
}

/// The threads.
pub(crate) struct Maintenance {
    signal: Arc<Signal>,
    threads: Vec<JoinHandle<()>>,
}

/// Wakes the threads.
#[derive(Default)]
pub(crate) struct Signal {
    state: Mutex<SignalState>,
    changed: Condvar,
    /// The same as the state's, to be looked at often.
    stopping: AtomicBool,
}

#[derive(Default)]
struct SignalState {
    work: u64,
    stop: bool,
}

impl Signal {
    /// Says that there may be work.
    pub(crate) fn wake(&self) {
        self.state.lock().work += 1;
        self.changed.notify_one();
    }

    /// An error once the engine is about to close: for work that can as well be done after the next start.
    pub(crate) fn check_running(&self) -> Result<()> {
        match self.stopping.load(Ordering::Relaxed) {
            true => Err(Error::new(ErrorKind::Cancelled, "the store is closing")),
            false => Ok(()),
        }
    }
}

impl Shared {
    /// How urgent a flush is: 1 when it is due.
    pub(crate) fn flush_score(&self) -> f64 {
        let memory = self.budget.used_bytes(Component::Memtable) as f64 / self.budget.flush_bytes() as f64;
        let log = self.unflushed_log_bytes() as f64 / self.options.wal_bytes_max as f64;
        // Acknowledged under a relaxed policy, and their sync failed: only a rowset makes them durable.
        let doubtful = self.wal().doubtful_records() > self.flushed_doubtful.load(Ordering::Relaxed);
        memory.max(log).max(if doubtful { 1.0 } else { 0.0 })
    }

    /// Bytes of the log, since it was opened and before, that are not in rowsets.
    fn unflushed_log_bytes(&self) -> u64 {
        self.logged_bytes().saturating_sub(self.flushed_log_bytes.load(Ordering::Relaxed))
    }

    /// Bytes of records replayed and written so far.
    pub(crate) fn logged_bytes(&self) -> u64 {
        self.replayed_bytes.load(Ordering::Relaxed) + self.wal().written_bytes()
    }

    /// Rowsets worth merging now, best first.
    pub(crate) fn merges(&self, fan_in: usize) -> Vec<Candidate> {
        compaction::pick(&self.version(), fan_in, self.options.rowset_bytes_max)
    }

    /// Work that could be done now, most urgent first.
    pub(crate) fn queue(&self) -> Vec<QueuedWork> {
        let mut queue = vec![QueuedWork { kind: "flush", place: None, score: self.flush_score() }];
        queue.extend(self.merges(compaction::FAN_IN_BUSY).into_iter().map(|candidate| QueuedWork {
            kind: "compact",
            place: Some((candidate.table.0, candidate.partition)),
            score: 1.0 + candidate.score,
        }));
        queue
    }
}

impl Maintenance {
    pub(crate) fn start(shared: &Arc<Shared>, threads: usize) -> Result<Self> {
        let signal = shared.signal.clone();
        let mut started = Vec::new();
        for number in 0..threads {
            let (shared, signal) = (shared.clone(), signal.clone());
            let thread = std::thread::Builder::new()
                .name(format!("nyala-work-{number}"))
                .spawn(move || run(&shared, &signal))?;
            started.push(thread);
        }
        Ok(Self { signal, threads: started })
    }

    /// Ends the threads after the flush at hand; a compaction is given up.
    pub(crate) fn stop(&mut self) {
        self.signal.stopping.store(true, Ordering::Relaxed);
        self.signal.state.lock().stop = true;
        self.signal.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A panic there was reported there.
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared, signal: &Signal) {
    // Of the calling thread only; without it answers only come later.
    let _ = rustix::process::setpriority_process(None, NICENESS);
    let mut pause = PAUSE_MIN;
    let mut seen = 0;
    let now = Instant::now();
    let mut pace = Pace { last_flush: now, batches: 0, last_batch: now, is_rested: false };
    loop {
        // A broken invariant in one flush or compaction must not end all of them: it is reported by the panic
        // itself, and tried again like any failure, while memory and log keep what was acknowledged.
        let attempt = catch_unwind(AssertUnwindSafe(|| step(shared, &mut pace)));
        let outcome = attempt.unwrap_or_else(|_| Err(Error::retry("maintenance panicked")));
        let wait = match outcome {
            Ok(true) => {
                pause = PAUSE_MIN;
                Duration::ZERO
            }
            Ok(false) => IDLE_WAIT,
            Err(_) => {
                let wait = pause;
                pause = (pause * 2).min(PAUSE_MAX);
                wait
            }
        };
        let mut state = signal.state.lock();
        if state.stop {
            return;
        }
        if outcome.is_err() || (state.work == seen && !wait.is_zero()) {
            signal.changed.wait_for(&mut state, wait);
        }
        seen = state.work;
        if state.stop {
            return;
        }
    }
}

/// When a thread saw what last.
struct Pace {
    last_flush: Instant,
    batches: u64,
    last_batch: Instant,
    /// Since then the log has given back its room.
    is_rested: bool,
}

/// Does the most urgent work; false if there was none.
fn step(shared: &Shared, pace: &mut Pace) -> Result<bool> {
    let batches = shared.counters.batches.load(Ordering::Relaxed);
    if pace.batches != batches {
        (pace.batches, pace.last_batch, pace.is_rested) = (batches, Instant::now(), false);
    }
    let is_quiet = pace.last_batch.elapsed() >= QUIET_FOR;
    let is_worth = || shared.unflushed_bytes() >= shared.budget.flush_bytes() / QUIET_SHARE;
    let due = shared.flush_score() >= 1.0
        || pace.last_flush.elapsed() >= FLUSH_AGE
        || shared.counters.flush_failure.get().is_some()
        || (is_quiet && is_worth());
    if due && !shared.flushing.is_locked() {
        pace.last_flush = Instant::now();
        let frozen_only = shared.flush_is_pointless();
        if !frozen_only && shared.flush()? {
            pace.is_rested = false;
            return Ok(true);
        }
    }
    shared.refill_reserve();
    let mut failure = None;
    // Bound first: the version would live as long as the loop, and with it memtables flushed meanwhile.
    let fan_in = if is_quiet { compaction::FAN_IN_QUIET } else { compaction::FAN_IN_BUSY };
    let mut candidates = shared.merges(fan_in);
    // Before the version: every deleted range up to it is there.
    let durable = shared.durable_sequence();
    candidates.extend(compaction::pick_hidden(&shared.version(), durable, is_quiet));
    if candidates.is_empty() {
        // What failed is gone.
        shared.counters.compaction_failure.note(&Ok(()));
    }
    for candidate in candidates {
        // One partition that cannot be compacted does not keep the others from it.
        match shared.compact(&candidate) {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(error) => failure = Some(error),
        }
        if shared.flush_score() >= 1.0 {
            break;
        }
    }
    shared.orphans.sweep_if_due();
    shared.tell_manifest_of_log()?;
    if !pace.is_rested && pace.last_batch.elapsed() >= REST_AFTER {
        pace.is_rested = true;
        // With rows in it that wait for a flush, it would only be cut into more segments.
        let next_sequence = shared.catalog.lock().state.flushed_sequence + 1;
        if next_sequence == shared.wal().next_sequence() {
            shared.wal().rest(next_sequence, SMALL_SEGMENT_BYTES)?;
        }
    }
    failure.map_or(Ok(false), Err)
}

impl Shared {
    /// Says in the manifest that the log has begun a segment, so that it is missed if it disappears.
    fn tell_manifest_of_log(&self) -> Result<()> {
        let mut catalog = self.catalog.lock();
        if catalog.is_behind_log() { catalog.commit(Vec::new()) } else { Ok(()) }
    }

    /// Memory is held by snapshots or running flushes, not by rows a flush could write.
    fn flush_is_pointless(&self) -> bool {
        self.unflushed_bytes() < self.budget.flush_bytes() / 4
            && self.unflushed_log_bytes() < self.options.wal_bytes_max
            && self.budget.used_bytes(Component::Memtable) >= self.budget.flush_bytes()
    }

    /// Memory of rows that are in no rowset.
    fn unflushed_bytes(&self) -> u64 {
        let version = self.version();
        let partitions = version.tables.values().flat_map(|table| &table.partitions);
        let memtables = partitions.flat_map(|partition| partition.memtables());
        memtables.map(|memtable| memtable.memory_bytes()).sum()
    }

    /// Lets a batch in, slows it, or refuses it, by how full memory is.
    ///
    /// A client that waits for its answers is only ever slowed: past the hard limit its batch waits for a flush.
    /// Refused is what would wait beyond measure, because clients do not wait or nothing can be flushed.
    pub(crate) async fn admit(&self, batch_bytes: impl FnOnce() -> u64) -> Result<()> {
        let used = || self.budget.used_bytes(Component::Memtable);
        let is_full =
            || used() >= self.budget.memtable_bytes_max() || self.budget.is_full() || self.log_is_full();
        if used() < self.budget.flush_bytes() && !is_full() {
            return Ok(());
        }
        self.signal.wake();
        let started = Instant::now();
        if is_full() {
            let _place = self.wait_in_line(batch_bytes())?;
            while is_full() {
                if started.elapsed() >= ADMISSION_WAIT_MAX {
                    return Err(self.refusal());
                }
                self.timer.sleep(ADMISSION_PAUSE).await;
                self.signal.wake();
            }
        }
        let soft = self.budget.memtable_bytes_soft();
        if used() > soft {
            let fullness = (used() - soft) as f64 / (self.budget.memtable_bytes_max() - soft) as f64;
            // From nothing at the soft limit to 200 ms right below the hard one.
            self.timer.sleep(Duration::from_secs_f64(0.2 * (fullness * fullness).min(1.0))).await;
        }
        if started.elapsed() >= Duration::from_millis(1) {
            crate::stats::add(&self.counters.write_stalls, 1);
            crate::stats::add(&self.counters.write_stall_ns, started.elapsed().as_nanos() as u64);
        }
        Ok(())
    }

    /// A place among the batches that wait for memory, which hold memory themselves.
    fn wait_in_line(&self, batch_bytes: u64) -> Result<Place<'_>> {
        let waiting = &self.waiting_bytes;
        let before = waiting.fetch_add(batch_bytes, Ordering::Relaxed);
        let place = Place { waiting, bytes: batch_bytes };
        // A single batch may wait however large it is.
        let beyond = before > 0 && before + batch_bytes > self.budget.limit_bytes() / 8;
        if beyond { Err(self.refusal()) } else { Ok(place) }
    }

    /// The log is as long as it may become while a flush runs that will cut it.
    fn log_is_full(&self) -> bool {
        self.unflushed_log_bytes() >= self.options.wal_bytes_max.saturating_mul(2)
    }

    fn refusal(&self) -> nyala_core::Error {
        crate::stats::add(&self.counters.writes_refused, 1);
        if self.log_is_full() {
            let most = self.options.wal_bytes_max;
            return Error::retry(format!("the log is twice as long as wal-limit ({most} bytes), try again"));
        }
        Error::retry(format!("memory is full, try again ({})", self.budget.describe()))
    }
}

struct Place<'a> {
    waiting: &'a AtomicU64,
    bytes: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.waiting.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
