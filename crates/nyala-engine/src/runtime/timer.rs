//! Short sleeps for futures, on any executor.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
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
    /// Sleepers by deadline and number.
    sleepers: BTreeMap<(Instant, u64), Waker>,
    next: u64,
    stop: bool,
}

/// A sleep that is under way.
struct Sleep<'a> {
    shared: &'a TimerShared,
    deadline: Instant,
    /// Given when it is first polled.
    number: Option<u64>,
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
        Sleep { shared: &self.shared, deadline: Instant::now() + duration, number: None }.await;
    }
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if Instant::now() >= self.deadline {
            return Poll::Ready(());
        }
        let mut state = self.shared.state.lock();
        let number = *self.number.get_or_insert_with(|| {
            state.next += 1;
            state.next
        });
        state.sleepers.insert((self.deadline, number), context.waker().clone());
        drop(state);
        self.shared.changed.notify_one();
        Poll::Pending
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.shared.state.lock().sleepers.remove(&(self.deadline, number));
        }
    }
}

fn run(shared: &TimerShared) {
    let mut state = shared.state.lock();
    while !state.stop {
        let Some((&(deadline, _), _)) = state.sleepers.first_key_value() else {
            shared.changed.wait(&mut state);
            continue;
        };
        if Instant::now() < deadline {
            shared.changed.wait_until(&mut state, deadline);
            continue;
        }
        if let Some((_, waker)) = state.sleepers.pop_first() {
            // Whoever wakes may drop a sleep, which takes the lock.
            MutexGuard::unlocked(&mut state, || waker.wake());
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
