//! Threads that flush and compact in the background, and what they do next.
//!
//! A thread takes the most urgent work there is. Flushes come first: they bound memory and the log.
//! What fails (a full disk) is tried again after a pause that doubles, and nothing is given up.

use crate::compaction;
use crate::shared::Shared;
use nyala_core::memory::Component;
use nyala_core::{Error, ErrorKind, Result};
use parking_lot::{Condvar, Mutex};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often is looked for work that nobody announced.
const IDLE_WAIT: Duration = Duration::from_secs(1);
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Rows older than this are flushed when nothing else calls for it, so that a restart replays little.
const FLUSH_AGE: Duration = Duration::from_secs(600);

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

    /// Work that could be done now, most urgent first.
    pub(crate) fn queue(&self) -> Vec<QueuedWork> {
        let mut queue = vec![QueuedWork { kind: "flush", place: None, score: self.flush_score() }];
        queue.extend(compaction::pick(&self.version()).into_iter().map(|candidate| QueuedWork {
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
    let mut pause = PAUSE_MIN;
    let mut seen = 0;
    let mut last_flush = Instant::now();
    loop {
        // A broken invariant in one flush or compaction must not end all of them: it is reported by the panic
        // itself, and tried again like any failure, while memory and log keep what was acknowledged.
        let attempt = catch_unwind(AssertUnwindSafe(|| step(shared, &mut last_flush)));
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

/// Does the most urgent work; false if there was none.
fn step(shared: &Shared, last_flush: &mut Instant) -> Result<bool> {
    let due = shared.flush_score() >= 1.0 || last_flush.elapsed() >= FLUSH_AGE;
    if due && !shared.flushing.is_locked() {
        *last_flush = Instant::now();
        let frozen_only = shared.flush_is_pointless();
        if !frozen_only && shared.flush()? {
            return Ok(true);
        }
    }
    let mut failure = None;
    for candidate in compaction::pick(&shared.version()) {
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
    failure.map_or(Ok(false), Err)
}

impl Shared {
    /// Memory is held by snapshots or running flushes, not by rows a flush could write.
    fn flush_is_pointless(&self) -> bool {
        let version = self.version();
        let partitions = || version.tables.values().flat_map(|table| &table.partitions);
        let active: u64 = partitions()
            .flat_map(|partition| partition.memtables())
            .map(|memtable| memtable.memory_bytes())
            .sum();
        active < self.budget.flush_bytes() / 4
            && self.unflushed_log_bytes() < self.options.wal_bytes_max
            && self.budget.used_bytes(Component::Memtable) >= self.budget.flush_bytes()
    }

    /// Lets a batch in, slows it, or refuses it, by how full memory is.
    pub(crate) async fn admit(&self) -> Result<()> {
        let held = self.budget.used_bytes(Component::Memtable);
        if held < self.budget.flush_bytes() && self.budget.total_bytes() < self.budget.limit_bytes() {
            return Ok(());
        }
        self.signal.wake();
        if held >= self.budget.memtable_bytes_max() || self.budget.total_bytes() >= self.budget.limit_bytes()
        {
            crate::stats::add(&self.counters.writes_refused, 1);
            return Err(Error::retry(format!("memory is full, try again ({})", self.budget.describe())));
        }
        let soft = self.budget.memtable_bytes_soft();
        if held > soft {
            let fullness = (held - soft) as f64 / (self.budget.memtable_bytes_max() - soft) as f64;
            // From nothing at the soft limit to 200 ms right below the hard one.
            let pause = Duration::from_secs_f64(0.2 * fullness * fullness);
            crate::stats::add(&self.counters.write_stalls, 1);
            crate::stats::add(&self.counters.write_stall_ns, pause.as_nanos() as u64);
            self.timer.sleep(pause).await;
        }
        Ok(())
    }
}
