//! Batches are admitted at once, slowed, or refused, by how full memory and the log are.
//!
//! A client that waits for its answers is only ever slowed: past the hard limit its batch waits for a flush. A batch is
//! refused when it would wait too long, because clients do not wait for answers or because nothing can be flushed. Rows of a stage
//! wait for memory in the same way.

use super::log_state::LogState;
use crate::runtime::signal::WorkSignal;
use crate::runtime::timer::Timer;
use crate::stats::{Counters, add};
use nyala_core::memory::{Charge, Component, MemoryBudget};
use nyala_core::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a batch waits for memory before it is refused: many flushes take place in that time.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// How long a stage waits. Whoever writes to it holds more memory than that, gives all of it back then, and begins anew.
const STAGE_WAIT_MAX: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(5);
/// While a flush is due it is announced this often, however many batches come: each time the threads look for all kinds of work,
/// and mostly a flush is under way. Where none could begin, writers wait no longer than that for the next look.
const ANNOUNCED_EVERY_MS: u64 = 100;

/// Decides when a batch may be written.
pub(crate) struct Admission {
    budget: Arc<MemoryBudget>,
    counters: Arc<Counters>,
    signal: Arc<WorkSignal>,
    timer: Timer,
    opened: Instant,
    /// When a flush was announced that has not ended yet, in ms since then, from 1 on; 0: none was.
    announced_ms: AtomicU64,
    /// Bytes of batches that wait for memory.
    waiting_bytes: AtomicU64,
    /// How many stages wait for memory.
    starving: AtomicU64,
}

impl Admission {
    pub(super) fn new(
        budget: Arc<MemoryBudget>,
        counters: Arc<Counters>,
        signal: Arc<WorkSignal>,
    ) -> Result<Self> {
        Ok(Self {
            budget,
            counters,
            signal,
            timer: Timer::start()?,
            opened: Instant::now(),
            announced_ms: AtomicU64::new(0),
            waiting_bytes: AtomicU64::new(0),
            starving: AtomicU64::new(0),
        })
    }

    /// Admits a batch; waits while memory or the log is full. What `may_use_reserve` does not wait for a flush while flushes fail:
    /// that is mostly a full disk, on which it makes room, and without it no flush would succeed again.
    pub(crate) async fn admit(
        &self,
        log: &LogState,
        may_use_reserve: impl Fn() -> bool,
        batch_bytes: impl FnOnce() -> u64,
    ) -> Result<()> {
        let used = || self.budget.used_bytes(Component::Memtable);
        let needs_flush = || used() >= self.budget.memtable_bytes_max() || log.is_full();
        let waits_in_vain = || self.counters.flush_failure.get().is_some() && may_use_reserve();
        let is_full = || self.budget.is_full() || (needs_flush() && !waits_in_vain());
        if used() < self.budget.flush_bytes() && !is_full() {
            self.flush_ended();
            return Ok(());
        }
        self.announce_flush();
        let started = Instant::now();
        if is_full() {
            let _waiting = self.start_waiting(log, batch_bytes())?;
            while is_full() {
                if started.elapsed() >= WAIT_MAX {
                    return Err(self.refusal(log));
                }
                self.timer.sleep(PAUSE).await;
                self.announce_flush();
            }
        }
        let soft = self.budget.memtable_bytes_soft();
        if used() > soft {
            let fullness = (used() - soft) as f64 / (self.budget.memtable_bytes_max() - soft) as f64;
            // From nothing at the soft limit to 200 ms right below the hard one.
            self.timer.sleep(Duration::from_secs_f64(0.2 * (fullness * fullness).min(1.0))).await;
        }
        if started.elapsed() >= Duration::from_millis(1) {
            add(&self.counters.write_stalls, 1);
            add(&self.counters.write_stall_ns, started.elapsed().as_nanos() as u64);
        }
        Ok(())
    }

    /// Takes memory for rows that are staged; waits for a flush while there is none.
    pub(crate) async fn take(&self, charge: &mut Charge, bytes: u64) -> Result<()> {
        // What is larger than that would not fit if nobody else had anything.
        if bytes > self.budget.limit_bytes() / 2 {
            return charge.try_grow(bytes).map_err(|error| Error::limit(error.to_string()));
        }
        let started = Instant::now();
        let mut starving = None;
        while let Err(error) = charge.try_grow(bytes) {
            if started.elapsed() >= STAGE_WAIT_MAX {
                add(&self.counters.writes_refused, 1);
                return Err(error);
            }
            starving.get_or_insert_with(|| Starving::of(&self.starving));
            self.signal.wake();
            self.timer.sleep(PAUSE).await;
        }
        if starving.is_some() {
            add(&self.counters.write_stalls, 1);
            add(&self.counters.write_stall_ns, started.elapsed().as_nanos() as u64);
        }
        Ok(())
    }

    /// Tells the threads that a flush is due, unless they were told lately.
    fn announce_flush(&self) {
        let now_ms = self.opened.elapsed().as_millis() as u64 + 1;
        let announced_ms = self.announced_ms.load(Ordering::Relaxed);
        if announced_ms > 0 && now_ms.saturating_sub(announced_ms) < ANNOUNCED_EVERY_MS {
            return;
        }
        let told =
            self.announced_ms.compare_exchange(announced_ms, now_ms, Ordering::Relaxed, Ordering::Relaxed);
        if told.is_ok() {
            self.signal.wake();
        }
    }

    /// A flush that is due from now on is announced at once.
    pub(crate) fn flush_ended(&self) {
        if self.announced_ms.load(Ordering::Relaxed) > 0 {
            self.announced_ms.store(0, Ordering::Relaxed);
        }
    }

    /// Tells the threads that a flush is due for another reason.
    pub(super) fn wake(&self) {
        self.signal.wake();
    }

    /// Whether a stage waits for memory, which only a flush gives it.
    pub(crate) fn is_starving(&self) -> bool {
        self.starving.load(Ordering::Relaxed) > 0
    }

    /// Counts a batch among those that wait, because they hold memory themselves.
    fn start_waiting(&self, log: &LogState, batch_bytes: u64) -> Result<WaitingBatch<'_>> {
        let waiting_bytes = &self.waiting_bytes;
        let before = waiting_bytes.fetch_add(batch_bytes, Ordering::Relaxed);
        let waiting = WaitingBatch { waiting_bytes, bytes: batch_bytes };
        // A single batch may wait however large it is.
        let is_beyond = before > 0 && before + batch_bytes > self.budget.limit_bytes() / 8;
        if is_beyond { Err(self.refusal(log)) } else { Ok(waiting) }
    }

    fn refusal(&self, log: &LogState) -> Error {
        add(&self.counters.writes_refused, 1);
        let failure = self.counters.flush_failure.get();
        let because =
            failure.map(|failure| format!("; nothing can be flushed: {failure}")).unwrap_or_default();
        if log.is_full() {
            let most = log.bytes_max;
            return Error::retry(format!(
                "the log is twice as long as wal-limit ({most} bytes), try again{because}"
            ));
        }
        Error::retry(format!("memory is full, try again ({}){because}", self.budget.describe()))
    }
}

/// A batch that waits for memory.
struct WaitingBatch<'a> {
    waiting_bytes: &'a AtomicU64,
    bytes: u64,
}

impl Drop for WaitingBatch<'_> {
    fn drop(&mut self) {
        self.waiting_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A stage that waits for memory.
struct Starving<'a>(&'a AtomicU64);

impl<'a> Starving<'a> {
    fn of(count: &'a AtomicU64) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Starving<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::fs::{OperationKind, SimulatedFs};
    use crate::single_series::{self, wait_until};
    use crate::{Engine, EngineOptions, EngineStats};
    use std::sync::atomic::AtomicBool;

    #[test]
    fn writes_during_a_flush_leave_the_threads_alone_and_the_next_flush_begins_by_itself() -> Result<()> {
        const SMALL: i64 = 3000;
        const LARGE: i64 = 20_000;
        let (fs, is_stuck, is_free) =
            (SimulatedFs::default(), Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let (stuck, free) = (is_stuck.clone(), is_free.clone());
        fs.on_operation(move |_, operation| {
            let is_rowset = operation.path.extension().is_some_and(|extension| extension == "rowset");
            if is_rowset && operation.kind == OperationKind::Create {
                stuck.store(true, Ordering::SeqCst);
                wait_until("the writes are done", || free.load(Ordering::SeqCst));
            }
        });
        let budget = MemoryBudget::new(128 << 20);
        let options = EngineOptions {
            fs: Arc::new(fs),
            maintenance_threads: 2,
            memory: budget.clone(),
            ..EngineOptions::new("/data")
        };
        let engine = Engine::open(options)?;
        let table = single_series::create(&engine, 1 << 40)?;
        let write = |times_ns| single_series::write(&engine, table, times_ns);
        let (mut next, used) = (0, || budget.used_bytes(Component::Memtable));
        let mut fill = |bytes: u64| -> Result<i64> {
            while used() < bytes {
                write(next..next + LARGE)?;
                next += LARGE;
            }
            Ok(next)
        };
        fill(budget.flush_bytes())?;
        // The batch after it announces the flush.
        let end = fill(used() + 1)?;
        wait_until("a flush is under way", || is_stuck.load(Ordering::SeqCst));
        let (before, begun) = (engine.writer.admission.signal.announced(), Instant::now());
        for row in 0..SMALL {
            write(end + (1 << 30) + row..end + (1 << 30) + row + 1)?;
        }
        let announced = engine.writer.admission.signal.announced() - before;
        // Times are whole milliseconds, so that two may be a little closer to each other.
        let most = begun.elapsed().as_millis() as u64 / (ANNOUNCED_EVERY_MS - 1) + 1;
        assert!(announced <= most, "{announced} times, of {most}, for {SMALL} small batches");
        // Enough for another flush, and nobody writes from then on.
        fill(used() + budget.flush_bytes())?;
        is_free.store(true, Ordering::SeqCst);
        // A flush is counted when its rows are gone from memory.
        let is_flushed = |stats: EngineStats| stats.memtable_rows == 0 && stats.flushes >= 2;
        wait_until("all is flushed", || is_flushed(engine.stats()));
        Ok(())
    }
}
