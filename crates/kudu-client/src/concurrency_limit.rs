//! How many writes a client sends to one server at once.
//!
//! [`ConcurrencyLimit`] learns what the server takes by the rule of TCP congestion control: one more write after each
//! round without a refusal, half as many after a refusal. When only one write is left, it learns how long to pause
//! between writes instead. A server that refuses now and then loses little speed this way, whereas a fixed pause after
//! each refusal would leave it idle. A server that stays overloaded gets writes less and less often.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::Rng;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

const MAX_WINDOW: f64 = 64.0;
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The limit of one server; all writers of a client share it.
#[derive(Debug)]
pub(crate) struct ConcurrencyLimit {
    state: Mutex<LimitState>,
    freed: Notify,
}

#[derive(Debug)]
struct LimitState {
    window: f64,
    in_flight: usize,
    /// Waited before each write while the window is one.
    pause: Duration,
    /// When the window was last reduced. Refusals of requests sent before do not reduce it again.
    reduced_at: Instant,
}

/// Permission to have one write in flight to a server.
#[derive(Debug)]
pub(crate) struct Permit {
    limit: Arc<ConcurrencyLimit>,
    started: Instant,
}

impl Default for ConcurrencyLimit {
    fn default() -> Self {
        let state =
            LimitState { window: 16.0, in_flight: 0, pause: Duration::ZERO, reduced_at: Instant::now() };
        Self { state: Mutex::new(state), freed: Notify::new() }
    }
}

impl ConcurrencyLimit {
    /// Waits until the server may be sent another write; `None` when the deadline passes first.
    pub(crate) async fn acquire(self: &Arc<Self>, deadline: Instant) -> Option<Permit> {
        loop {
            let freed = self.freed.notified();
            if let Some(pause) = self.try_acquire() {
                // The permit is taken before the pause, so pauses do not run in parallel.
                let mut permit = Permit { limit: self.clone(), started: Instant::now() };
                if !pause.is_zero() {
                    let jittered = pause.mul_f64(rand::rng().random_range(0.75..1.25));
                    if permit.started + jittered >= deadline {
                        return None;
                    }
                    sleep(jittered).await;
                    permit.started = Instant::now();
                }
                return Some(permit);
            }
            if tokio::time::timeout_at(deadline, freed).await.is_err() {
                return None;
            }
        }
    }

    fn try_acquire(&self) -> Option<Duration> {
        let mut state = self.state.lock();
        if state.in_flight >= state.window as usize {
            return None;
        }
        state.in_flight += 1;
        Some(state.pause)
    }
}

impl Permit {
    pub(crate) fn accepted(self) {
        let mut state = self.limit.state.lock();
        state.window = (state.window + 1.0 / state.window).min(MAX_WINDOW);
        state.pause = if state.pause <= FIRST_PAUSE { Duration::ZERO } else { state.pause / 2 };
    }

    pub(crate) fn refused(self) {
        let mut state = self.limit.state.lock();
        if self.started < state.reduced_at {
            return;
        }
        state.reduced_at = Instant::now();
        if state.window >= 2.0 {
            state.window /= 2.0;
        } else {
            state.window = 1.0;
            state.pause = (state.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.limit.state.lock().in_flight -= 1;
        self.limit.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn refusals_narrow_the_window_and_success_widens_it() {
        let limit = Arc::new(ConcurrencyLimit::default());
        let deadline = Instant::now() + Duration::from_secs(60);
        for _ in 0..6 {
            limit.acquire(deadline).await.unwrap().refused();
        }
        assert_eq!(limit.state.lock().window, 1.0);
        let paused = limit.state.lock().pause;
        assert!(paused >= FIRST_PAUSE);

        let held = limit.acquire(deadline).await.unwrap();
        let soon = Instant::now() + Duration::from_millis(20);
        assert!(limit.acquire(soon).await.is_none(), "only one at a time now");
        held.accepted();
        for _ in 0..200 {
            limit.acquire(deadline).await.unwrap().accepted();
        }
        let state = limit.state.lock();
        assert!(state.window > 10.0 && state.pause.is_zero());
        assert_eq!(state.in_flight, 0);
    }

    #[tokio::test]
    async fn one_burst_of_refusals_counts_once() {
        let limit = Arc::new(ConcurrencyLimit::default());
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut permits = Vec::new();
        for _ in 0..8 {
            permits.push(limit.acquire(deadline).await.unwrap());
        }
        permits.into_iter().for_each(Permit::refused);
        assert_eq!(limit.state.lock().window, 8.0);
    }
}
