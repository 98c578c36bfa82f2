//! How long to wait before trying again.
//!
//! Two things are kept apart. [`Backoff`] spaces the attempts of one operation. [`Pace`] belongs to a server:
//! it learns how many writes at once the server takes, by the rule congested networks use (one more for each
//! round that went well, half after a refusal), and once only one is left, how long to pause between them. A
//! server that refuses now and then so loses a little speed, where a fixed pause after each refusal would
//! idle it; and one that is truly full is asked ever more rarely.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::Rng;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

/// Rising pauses with jitter, for the attempts of one operation.
#[derive(Debug)]
pub(crate) struct Backoff {
    attempt: u32,
    first: Duration,
    most: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { attempt: 0, first: Duration::from_millis(8), most: Duration::from_secs(1) }
    }
}

impl Backoff {
    pub(crate) fn next_delay(&mut self) -> Duration {
        let ceiling = self.first.saturating_mul(1 << self.attempt.min(16)).min(self.most);
        self.attempt += 1;
        ceiling.mul_f64(rand::rng().random_range(0.5..1.0))
    }

    /// Waits; `false` when the deadline would pass first.
    pub(crate) async fn wait(&mut self, deadline: Instant) -> bool {
        let delay = self.next_delay();
        if Instant::now() + delay >= deadline {
            return false;
        }
        sleep(delay).await;
        true
    }
}

const MOST_AT_ONCE: f64 = 64.0;
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// What a server has shown it can take; shared by all writers of a client.
#[derive(Debug)]
pub(crate) struct Pace {
    state: Mutex<PaceState>,
    freed: Notify,
}

#[derive(Debug)]
struct PaceState {
    window: f64,
    in_flight: usize,
    /// After a refusal with a window of one.
    pause: Duration,
    /// When the window was last cut; answers to requests sent before do not cut it again.
    cut_at: Instant,
}

/// The right to have one write under way at a server.
#[derive(Debug)]
pub(crate) struct Turn {
    pace: Arc<Pace>,
    started: Instant,
}

impl Default for Pace {
    fn default() -> Self {
        let state = PaceState { window: 16.0, in_flight: 0, pause: Duration::ZERO, cut_at: Instant::now() };
        Self { state: Mutex::new(state), freed: Notify::new() }
    }
}

impl Pace {
    /// Waits until the server can be asked.
    pub(crate) async fn turn(self: &Arc<Self>, deadline: Instant) -> Option<Turn> {
        loop {
            let freed = self.freed.notified();
            if let Some(pause) = self.take_place() {
                // The place counts as taken while pausing, so pauses do not run in parallel.
                let mut turn = Turn { pace: self.clone(), started: Instant::now() };
                if !pause.is_zero() {
                    let jittered = pause.mul_f64(rand::rng().random_range(0.75..1.25));
                    if turn.started + jittered >= deadline {
                        return None;
                    }
                    sleep(jittered).await;
                    turn.started = Instant::now();
                }
                return Some(turn);
            }
            if tokio::time::timeout_at(deadline, freed).await.is_err() {
                return None;
            }
        }
    }

    fn take_place(&self) -> Option<Duration> {
        let mut state = self.state.lock();
        if state.in_flight >= state.window as usize {
            return None;
        }
        state.in_flight += 1;
        Some(state.pause)
    }
}

impl Turn {
    pub(crate) fn accepted(self) {
        let mut state = self.pace.state.lock();
        state.window = (state.window + 1.0 / state.window).min(MOST_AT_ONCE);
        state.pause = if state.pause <= FIRST_PAUSE { Duration::ZERO } else { state.pause / 2 };
    }

    pub(crate) fn refused(self) {
        let mut state = self.pace.state.lock();
        if self.started < state.cut_at {
            return;
        }
        state.cut_at = Instant::now();
        if state.window >= 2.0 {
            state.window /= 2.0;
        } else {
            state.window = 1.0;
            state.pause = (state.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.pace.state.lock().in_flight -= 1;
        self.pace.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_rise_to_a_bound() {
        let mut backoff = Backoff::default();
        let delays: Vec<_> = (0..20).map(|_| backoff.next_delay()).collect();
        assert!(delays[0] <= Duration::from_millis(8));
        assert!(delays.iter().all(|delay| *delay <= Duration::from_secs(1)));
        assert!(delays[19] >= Duration::from_millis(500));
    }

    #[tokio::test]
    async fn refusals_narrow_the_window_and_success_widens_it() {
        let pace = Arc::new(Pace::default());
        let deadline = Instant::now() + Duration::from_secs(5);
        for _ in 0..6 {
            pace.turn(deadline).await.unwrap().refused();
        }
        assert_eq!(pace.state.lock().window, 1.0);
        let paused = pace.state.lock().pause;
        assert!(paused >= FIRST_PAUSE);

        let held = pace.turn(deadline).await.unwrap();
        let soon = Instant::now() + Duration::from_millis(20);
        assert!(pace.turn(soon).await.is_none(), "only one at a time now");
        held.accepted();
        for _ in 0..200 {
            pace.turn(deadline).await.unwrap().accepted();
        }
        let state = pace.state.lock();
        assert!(state.window > 10.0 && state.pause.is_zero());
        assert_eq!(state.in_flight, 0);
    }

    #[tokio::test]
    async fn one_burst_of_refusals_counts_once() {
        let pace = Arc::new(Pace::default());
        let deadline = Instant::now() + Duration::from_secs(5);
        let mut turns = Vec::new();
        for _ in 0..8 {
            turns.push(pace.turn(deadline).await.unwrap());
        }
        turns.into_iter().for_each(Turn::refused);
        assert_eq!(pace.state.lock().window, 8.0);
    }
}
