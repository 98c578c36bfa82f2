//! Wakes background threads, and tells them when the store closes.

use nyala_core::{Error, ErrorKind, Result};
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Shared by the threads and by those who have work for them.
#[derive(Default)]
pub(crate) struct WorkSignal {
    state: Mutex<State>,
    changed: Condvar,
    /// The same as the state's, for those who look often.
    stopping: AtomicBool,
}

#[derive(Default)]
struct State {
    /// How often work was announced.
    announced: u64,
    stop: bool,
}

impl WorkSignal {
    /// Announces work.
    pub(crate) fn wake(&self) {
        self.state.lock().announced += 1;
        // Not each thread does all kinds of work.
        self.changed.notify_all();
    }

    #[cfg(test)]
    pub(crate) fn announced(&self) -> u64 {
        self.state.lock().announced
    }

    /// An error when the store is about to close: for work that the next start can do as well.
    pub(crate) fn check_running(&self) -> Result<()> {
        match self.stopping.load(Ordering::Relaxed) {
            true => Err(Error::new(ErrorKind::Cancelled, "the store is closing")),
            false => Ok(()),
        }
    }

    /// Tells all threads to end.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.state.lock().stop = true;
        self.changed.notify_all();
    }

    /// Sleeps for `pause`, or until there is work: work that was announced after `seen` was read ends the sleep at
    /// once, unless the pause follows a failure. False when the thread has to end.
    pub(crate) fn wait(&self, seen: &mut u64, pause: Duration, after_failure: bool) -> bool {
        let mut state = self.state.lock();
        let until = Instant::now() + pause;
        while !state.stop && (after_failure || state.announced == *seen) {
            if self.changed.wait_until(&mut state, until).timed_out() {
                break;
            }
        }
        *seen = state.announced;
        !state.stop
    }
}
