//! Flushes and compactions in the background: what is done next, and the threads that do it.
//!
//! A thread takes the most urgent work there is. Flushes come first: they bound memory and the log. Work that fails (on
//! a full disk) is tried again after a pause that doubles; nothing is given up.

pub(crate) mod compaction;
pub(crate) mod flush;
pub(crate) mod inputs;
pub(crate) mod loaded_run;
pub(crate) mod orphans;
pub(crate) mod output;
pub(crate) mod pace;
pub(crate) mod past;
mod queue;
pub(crate) mod series_merge;
pub(crate) mod stages;

use crate::files::wal::SyncPolicy;
use crate::memory::publisher::{UNFLUSHED_TOMBSTONES_MAX, VersionPublisher};
use crate::options::EngineOptions;
use crate::runtime::priority;
use crate::runtime::signal::WorkSignal;
use crate::stats::Counters;
use crate::writing::Writer;
use compaction::Candidate;
use nyala_core::memory::{Component, MemoryBudget};
use nyala_core::{Error, Result};
use orphans::Orphans;
use output::RowsetOutput;
use pace::MergePace;
use parking_lot::{Mutex, MutexGuard};
use queue::MaintenanceQueue;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the threads look for work that was not announced.
const IDLE_WAIT: Duration = Duration::from_millis(500);
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Rows older than this are flushed when nothing else calls for it, so that a restart replays little.
const FLUSH_AGE: Duration = Duration::from_secs(600);
/// After so long without a write, rows are flushed before they fill their share of memory, …
const QUIET_FOR: Duration = Duration::from_millis(750);
/// … if they fill this part of it. A load that ended leaves neither a long log nor rows that readers merge.
const QUIET_SHARE: u64 = 8;
/// After so long without a write, and with nothing left to do, the log gives back the space it keeps to be fast …
const REST_AFTER: Duration = Duration::from_secs(2);
/// … unless its segment is no longer than this.
const SMALL_SEGMENT_BYTES: u64 = 2 << 20;
/// A partition of more sorted runs than that is merged as fast as possible: readers look at each of them.
const RUNS_UNPACED: usize = 2 * compaction::FAN_IN_BUSY;
/// With a budget of so many bytes (a `memory-limit` of 256 MiB, less what the program itself takes), one more thread flushes.
const FLUSHING_THREAD_FROM: u64 = 224 << 20;

/// What flushes and compactions share, in the background and on request.
pub(crate) struct Maintenance {
    versions: Arc<VersionPublisher>,
    pub(crate) output: RowsetOutput,
    orphans: Orphans,
    pub(crate) options: EngineOptions,
    budget: Arc<MemoryBudget>,
    counters: Arc<Counters>,
    signal: Arc<WorkSignal>,
    queue: MaintenanceQueue,
    /// One flush at a time.
    flushing: Mutex<()>,
    /// Partitions being compacted.
    compacting: Mutex<Vec<u64>>,
    /// Partitions that are not to be compacted now, each as often as somebody says so.
    held: Mutex<Vec<u64>>,
    /// It has the lock of the directory, so it is dropped last.
    pub(crate) writer: Arc<Writer>,
}

/// The threads.
pub(crate) struct MaintenanceThreads {
    signal: Arc<WorkSignal>,
    threads: Vec<JoinHandle<()>>,
}

impl Maintenance {
    pub(crate) fn new(
        options: EngineOptions,
        writer: &Arc<Writer>,
        output: RowsetOutput,
        orphans: Orphans,
        counters: &Arc<Counters>,
        signal: &Arc<WorkSignal>,
    ) -> Self {
        Self {
            versions: writer.versions.clone(),
            output,
            orphans,
            budget: options.memory.clone(),
            options,
            counters: counters.clone(),
            signal: signal.clone(),
            queue: MaintenanceQueue::default(),
            flushing: Mutex::new(()),
            compacting: Mutex::default(),
            held: Mutex::default(),
            writer: writer.clone(),
        }
    }

    /// How urgent a flush is: 1 when it is due.
    fn flush_score(&self) -> f64 {
        let memory = self.budget.used_bytes(Component::Memtable) as f64 / self.budget.flush_bytes() as f64;
        let log = self.writer.log.unflushed_bytes() as f64 / self.options.wal_bytes_max as f64;
        let is_wanted = memory * STARVING_SHARE >= 1.0 && self.writer.admission.is_starving();
        let memory = if is_wanted { memory.max(1.0) } else { memory };
        let tombstones = self.versions.unflushed_tombstones() as f64 / UNFLUSHED_TOMBSTONES_MAX as f64;
        memory.max(log).max(tombstones).max(if self.writer.log.has_doubtful() { 1.0 } else { 0.0 })
    }

    /// The sequence up to which every delete is applied, and survives a power cut: rows that it hides need not be
    /// written again.
    fn durable_sequence(&self) -> u64 {
        match self.options.wal_sync {
            SyncPolicy::Always => self.versions.watermark.get(),
            SyncPolicy::Interval(_) | SyncPolicy::Never => self.versions.flushed_sequence(),
        }
    }

    /// Takes the space again that is kept for deletes, if there is room.
    fn refill_reserve(&self) {
        let manifest_bytes = self.versions.catalog.lock().log.length;
        self.writer.reserve.refill(manifest_bytes);
    }

    /// While this is held nothing is flushed, so the log gives up no record.
    pub(crate) fn hold_flushes(&self) -> MutexGuard<'_, ()> {
        self.flushing.lock()
    }

    /// Rowsets worth merging now, best first.
    pub(crate) fn merges(&self, fan_in: usize) -> Vec<Candidate> {
        compaction::pick(&self.versions, fan_in, &self.options)
    }
}

impl MaintenanceThreads {
    pub(crate) fn start(maintenance: &Arc<Maintenance>) -> Result<Self> {
        let mut threads = Vec::new();
        let count = maintenance.options.maintenance_threads;
        // One more only flushes: the others may all be in the middle of merges, which take minutes, and writers wait. Where
        // there is little memory, merges are short, and what one more takes beside its budget would be felt.
        let flushing = (count > 0 && maintenance.has_flushing_thread())
            .then_some(("nyala-flush".to_owned(), Duties::Flushes));
        let all = (0..count).map(|number| (format!("nyala-work-{number}"), Duties::All)).chain(flushing);
        for (name, duties) in all {
            let maintenance = maintenance.clone();
            let thread = std::thread::Builder::new().name(name).spawn(move || run(&maintenance, duties))?;
            threads.push(thread);
        }
        Ok(Self { signal: maintenance.signal.clone(), threads })
    }

    /// Ends the threads after the flush at hand; a compaction is given up.
    pub(crate) fn stop(&mut self) {
        self.signal.stop();
        for thread in self.threads.drain(..) {
            // A panic there was reported there.
            let _ = thread.join();
        }
    }
}

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Duties {
    All,
    Flushes,
}

fn run(maintenance: &Maintenance, duties: Duties) {
    // Clients that write faster than the threads can flush are slowed by admission.
    priority::lower();
    let mut pause = PAUSE_MIN;
    let mut seen = 0;
    let now = Instant::now();
    let mut pace = Pace { last_flush: now, batches: 0, last_batch: now, is_rested: false };
    loop {
        // A broken invariant in one flush or compaction must not end all of them: it is reported by the panic
        // itself, and tried again like any failure, while memory and log keep what was acknowledged.
        let outcome = contained(|| match duties {
            Duties::All => maintenance.step(&mut pace),
            Duties::Flushes => maintenance.flush_if_due(&mut pace),
        });
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
        if !maintenance.signal.wait(&mut seen, wait, outcome.is_err()) {
            return;
        }
    }
}

/// Does something whose panic is an error here, so that what it has begun is given up.
fn contained<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(Error::retry("maintenance panicked")))
}

/// While a stage waits for memory, this part (1/4) of what is flushed otherwise is worth a flush.
const STARVING_SHARE: f64 = 4.0;

/// What a thread did and saw last.
struct Pace {
    last_flush: Instant,
    batches: u64,
    last_batch: Instant,
    /// The log has given back its space since.
    is_rested: bool,
}

impl Maintenance {
    /// Flushes, if that is due; false if it was not.
    fn flush_if_due(&self, pace: &mut Pace) -> Result<bool> {
        let batches = self.counters.batches.load(Ordering::Relaxed);
        if pace.batches != batches {
            (pace.batches, pace.last_batch, pace.is_rested) = (batches, Instant::now(), false);
        }
        let is_quiet = pace.last_batch.elapsed() >= QUIET_FOR;
        let is_worth = || self.unflushed_bytes() >= self.budget.flush_bytes() / QUIET_SHARE;
        let due = self.flush_score() >= 1.0
            || pace.last_flush.elapsed() >= FLUSH_AGE
            || self.counters.flush_failure.get().is_some()
            || (is_quiet && is_worth());
        if due && !self.flushing.is_locked() {
            pace.last_flush = Instant::now();
            let frozen_only = self.flush_is_pointless();
            if !frozen_only && self.flush()? {
                pace.is_rested = false;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Does the most urgent work; false if there was none.
    fn step(&self, pace: &mut Pace) -> Result<bool> {
        if self.flush_if_due(pace)? {
            return Ok(true);
        }
        if self.versions.watermark.check().is_err() {
            // Nothing may be changed any more: see `VersionPublisher::commit`.
            return Ok(false);
        }
        let is_quiet = pace.last_batch.elapsed() >= QUIET_FOR;
        self.refill_reserve();
        let mut failure = None;
        // Collected first: the version must not live as long as the loop, with memtables that are flushed meanwhile.
        let fan_in = if is_quiet { compaction::FAN_IN_QUIET } else { compaction::FAN_IN_BUSY };
        let mut candidates = self.merges(fan_in);
        // Before the version: every deleted range up to it is there.
        let durable = self.durable_sequence();
        candidates.extend(compaction::pick_hidden(&self.versions, durable, is_quiet));
        self.queue.set_waiting(&candidates);
        if candidates.is_empty() {
            // Those that failed are gone or set aside.
            self.counters.compaction_failure.note(&Ok(()));
        }
        for (place, candidate) in candidates.iter().enumerate() {
            let pace = self.pace_of(candidate, &candidates[place + 1..]);
            // A partition that cannot be compacted does not keep the others from being compacted.
            match self.compact(candidate, &pace) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(error) => failure = Some(error),
            }
            if self.flush_score() >= 1.0 {
                break;
            }
        }
        self.forget_past()?;
        self.orphans.sweep_if_due();
        self.tell_manifest_of_log()?;
        if !pace.is_rested && pace.last_batch.elapsed() >= REST_AFTER {
            pace.is_rested = true;
            // If rows in it waited for a flush, this would only cut it into more segments.
            let next_sequence = self.versions.flushed_sequence() + 1;
            if next_sequence == self.writer.log.wal().next_sequence() {
                self.writer.log.wal().rest(next_sequence, SMALL_SEGMENT_BYTES)?;
            }
        }
        failure.map_or(Ok(false), Err)
    }

    /// Whether a thread does nothing but flushes.
    fn has_flushing_thread(&self) -> bool {
        self.budget.limit_bytes() >= FLUSHING_THREAD_FROM
    }

    /// How fast a merge goes: it leaves the machine to writers, unless something waits for it.
    fn pace_of(&self, candidate: &Candidate, others: &[Candidate]) -> MergePace<'_> {
        let compacting = self.compacting.lock();
        let is_free = |partition| partition != candidate.partition && !compacting.contains(&partition);
        let others_wait = others.iter().any(|other| is_free(other.partition));
        match candidate.runs > RUNS_UNPACED || others_wait || !self.has_flushing_thread() {
            true => MergePace::full(&self.signal),
            false => MergePace::beside_writers(&self.signal, &self.counters),
        }
    }

    /// Writes to the manifest that the log has begun a segment, so that its loss is noticed.
    fn tell_manifest_of_log(&self) -> Result<()> {
        let mut catalog = self.versions.catalog.lock();
        if catalog.is_behind_log() { catalog.commit(Vec::new()) } else { Ok(()) }
    }

    /// Whether memory is held by snapshots or running flushes, not by rows that a flush could write.
    fn flush_is_pointless(&self) -> bool {
        // What may be in no file has to be written, however little it is, and deleted ranges are not in memtables.
        !self.writer.log.has_doubtful()
            && self.versions.unflushed_tombstones() < UNFLUSHED_TOMBSTONES_MAX
            && self.unflushed_bytes() < self.budget.flush_bytes() / 4
            && self.writer.log.unflushed_bytes() < self.options.wal_bytes_max
            && self.budget.used_bytes(Component::Memtable) >= self.budget.flush_bytes()
    }

    /// Bytes of memtables in the current version.
    fn unflushed_bytes(&self) -> u64 {
        let version = self.versions.current();
        let partitions = version.tables.values().flat_map(|table| &table.partitions);
        let memtables = partitions.flat_map(|partition| partition.memtables());
        memtables.map(|memtable| memtable.memory_bytes()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Engine;
    use crate::files::fs::{FileSystem, OperationKind, SimulatedFs};
    use crate::single_series::{self, wait_until};
    use std::path::Path;
    use std::sync::OnceLock;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn closing_does_not_wait_for_a_compaction() -> Result<()> {
        let fs = SimulatedFs::new();
        let options =
            EngineOptions { fs: Arc::new(fs.clone()), maintenance_threads: 0, ..EngineOptions::new("/data") };
        let engine = Engine::open(options.clone())?;
        let table = single_series::create(&engine, 1000)?;
        for time_ns in 0..4 {
            single_series::write(&engine, table, time_ns..time_ns + 1)?;
            assert!(engine.flush()?);
        }
        drop(engine);
        // The compaction that the next engine begins with stands still until its thread is told to end.
        let (begun, signal) = (Arc::<AtomicBool>::default(), Arc::<OnceLock<Arc<WorkSignal>>>::default());
        let (seen, awaited) = (begun.clone(), signal.clone());
        fs.on_operation(move |_, operation| {
            let rowset = operation.path.extension().is_some_and(|extension| extension == "rowset");
            if rowset && operation.kind == OperationKind::Create {
                seen.store(true, Ordering::SeqCst);
                let is_stopped = || awaited.get().is_some_and(|signal| signal.check_running().is_err());
                wait_until("the engine closes", is_stopped);
            }
        });
        let engine = Engine::open(EngineOptions { maintenance_threads: 1, ..options })?;
        assert!(signal.set(engine.maintenance.signal.clone()).is_ok());
        wait_until("a compaction begins", || begun.load(Ordering::SeqCst));
        engine.close()?;
        let (stats, files) = (engine.stats(), fs.list(Path::new("/data/rowsets"))?.len());
        assert_eq!((stats.compactions, stats.compaction_failures, files), (0, 0, 4));
        assert_eq!(single_series::times(&engine, table)?, [0, 1, 2, 3]);
        Ok(())
    }
}
