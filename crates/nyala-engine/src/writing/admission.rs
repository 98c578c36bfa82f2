//! Batches are admitted at once, slowed, or refused, by how full memory and the log are.
//!
//! A client that waits for its answers is only ever slowed: past the hard limit its batch waits for a flush. A batch is
//! refused when it would wait too long, because clients do not wait for answers or because nothing can be flushed.

use super::log_state::LogState;
use crate::runtime::signal::WorkSignal;
use crate::runtime::timer::Timer;
use crate::stats::{Counters, add};
use nyala_core::memory::{Component, MemoryBudget};
use nyala_core::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a batch waits for memory before it is refused: many flushes take place in that time.
const WAIT_MAX: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(5);

/// Decides when a batch may be written.
pub(crate) struct Admission {
    budget: Arc<MemoryBudget>,
    counters: Arc<Counters>,
    signal: Arc<WorkSignal>,
    timer: Timer,
    /// Bytes of batches that wait for memory.
    waiting_bytes: AtomicU64,
}

impl Admission {
    pub(super) fn new(
        budget: Arc<MemoryBudget>,
        counters: Arc<Counters>,
        signal: Arc<WorkSignal>,
    ) -> Result<Self> {
        Ok(Self { budget, counters, signal, timer: Timer::start()?, waiting_bytes: AtomicU64::new(0) })
    }

    /// Admits a batch; waits while memory or the log is full.
    pub(crate) async fn admit(&self, log: &LogState, batch_bytes: impl FnOnce() -> u64) -> Result<()> {
        let used = || self.budget.used_bytes(Component::Memtable);
        let is_full = || used() >= self.budget.memtable_bytes_max() || self.budget.is_full() || log.is_full();
        if used() < self.budget.flush_bytes() && !is_full() {
            return Ok(());
        }
        self.signal.wake();
        let started = Instant::now();
        if is_full() {
            let _waiting = self.start_waiting(log, batch_bytes())?;
            while is_full() {
                if started.elapsed() >= WAIT_MAX {
                    return Err(self.refusal(log));
                }
                self.timer.sleep(PAUSE).await;
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
            add(&self.counters.write_stalls, 1);
            add(&self.counters.write_stall_ns, started.elapsed().as_nanos() as u64);
        }
        Ok(())
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
        if log.is_full() {
            let most = log.bytes_max;
            return Error::retry(format!("the log is twice as long as wal-limit ({most} bytes), try again"));
        }
        Error::retry(format!("memory is full, try again ({})", self.budget.describe()))
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
