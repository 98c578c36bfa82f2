//! Short sleeps for futures, on any executor.

use parking_lot::{Condvar, Mutex};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A thread that wakes sleepers.
pub(crate) struct Timer {
    shared: Arc<TimerShared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct TimerShared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Deadline and number of a sleeper, earliest first.
    sleepers: BinaryHeap<Reverse<(Instant, u64)>>,
    wakers: Vec<(u64, Waker)>,
    next: u64,
    stop: bool,
}

impl Timer {
    pub(crate) fn start() -> nyala_core::Result<Self> {
        let shared = Arc::new(TimerShared::default());
        let thread = std::thread::Builder::new().name("nyala-timer".to_owned()).spawn({
            let shared = shared.clone();
            move || run(&shared)
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Waits at least so long.
    pub(crate) async fn sleep(&self, duration: Duration) {
        let deadline = Instant::now() + duration;
        poll_fn(|context| {
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            let mut state = self.shared.state.lock();
            let number = state.next;
            state.next += 1;
            state.sleepers.push(Reverse((deadline, number)));
            state.wakers.push((number, context.waker().clone()));
            drop(state);
            self.shared.changed.notify_one();
            Poll::Pending
        })
        .await;
    }
}

fn run(shared: &TimerShared) {
    let mut state = shared.state.lock();
    while !state.stop {
        let Some(Reverse((deadline, number))) = state.sleepers.peek().copied() else {
            shared.changed.wait(&mut state);
            continue;
        };
        if Instant::now() < deadline {
            shared.changed.wait_until(&mut state, deadline);
            continue;
        }
        state.sleepers.pop();
        if let Some(place) = state.wakers.iter().position(|(other, _)| *other == number) {
            let (_, waker) = state.wakers.swap_remove(place);
            waker.wake();
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.shared.state.lock().stop = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
