//! How many connections there may be at once. Where all slots are taken, the connection that has waited for its client
//! for the longest time is closed: who connects and says nothing keeps nobody out.
//!
//! A slot comes back when it is dropped, however its connection ends. A connection is closed between requests, or within
//! a body that pauses; never while a request is worked on: [`Slot::begin`] and `close_longest_waiting` agree by one
//! exchange who was first.

use super::audit::Pace;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// How long a body may pause before its connection may be closed for another.
const BODY_PAUSE: Duration = Duration::from_secs(1);
/// How often it is looked again for a connection to close, as long as there is none.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// What a connection is at: milliseconds since the server was started when it began to wait for its client, times two,
/// and one more within a body. Or one of these.
const WORKING: u64 = u64::MAX;
const CLOSED: u64 = u64::MAX - 1;

/// All slots of a kind of connections.
pub struct Slots {
    /// What they are for, in the log.
    name: &'static str,
    slots_max: usize,
    begun: Instant,
    /// In the order in which they were taken.
    taken: Mutex<BTreeMap<u64, Arc<State>>>,
    numbers: AtomicU64,
    freed: Notify,
    closed: AtomicU64,
    warnings: Pace,
}

struct State {
    doing: AtomicU64,
    /// Ends the connection.
    task: OnceLock<AbortHandle>,
}

/// The right to a connection.
pub struct Slot {
    number: u64,
    state: Arc<State>,
    slots: Arc<Slots>,
}

/// The server works for the client of a connection as long as this is there.
pub(super) struct Turn(Arc<Slot>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.wait_since(self.0.slots.now(false));
    }
}

impl Slots {
    /// So many slots.
    pub fn new(name: &'static str, slots_max: usize) -> Arc<Self> {
        Arc::new(Self {
            name,
            slots_max,
            begun: Instant::now(),
            taken: Mutex::default(),
            numbers: AtomicU64::new(0),
            freed: Notify::new(),
            closed: AtomicU64::new(0),
            warnings: Pace::default(),
        })
    }

    /// How many there are.
    pub fn max(&self) -> usize {
        self.slots_max
    }

    /// How many are taken.
    pub fn taken(&self) -> usize {
        self.lock().len()
    }

    /// Connections that were closed for others.
    pub fn closed(&self) -> u64 {
        self.closed.load(Ordering::Relaxed)
    }

    /// Takes a slot, as soon as there is one.
    pub(super) async fn take(self: &Arc<Self>) -> Slot {
        loop {
            if let Some(slot) = self.try_take() {
                return slot;
            }
            self.close_longest_waiting();
            drop(tokio::time::timeout(LOOK_INTERVAL, self.freed.notified()).await);
        }
    }

    fn try_take(self: &Arc<Self>) -> Option<Slot> {
        let mut taken = self.lock();
        if taken.len() >= self.slots_max {
            return None;
        }
        let state = Arc::new(State { doing: AtomicU64::new(self.now(false)), task: OnceLock::new() });
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        taken.insert(number, state.clone());
        Some(Slot { number, state, slots: self.clone() })
    }

    /// Closes one connection, unless one that was closed is still on its way out.
    fn close_longest_waiting(&self) {
        let taken = self.lock();
        let pausing_since = (self.begun.elapsed().saturating_sub(BODY_PAUSE)).as_millis() as u64 * 2;
        let mut longest: Option<(u64, &Arc<State>)> = None;
        for state in taken.values() {
            let doing = state.doing.load(Ordering::Relaxed);
            match doing {
                CLOSED => return,
                WORKING => continue,
                pausing if pausing & 1 == 1 && pausing > pausing_since => continue,
                _ => {}
            }
            if longest.is_none_or(|(since, _)| doing < since) && state.task.get().is_some() {
                longest = Some((doing, state));
            }
        }
        let Some((since, state)) = longest else { return };
        // If it is at something else by now, the next look finds another.
        let closed = state.doing.compare_exchange(since, CLOSED, Ordering::Relaxed, Ordering::Relaxed);
        if let (Ok(_), Some(task)) = (closed, state.task.get()) {
            task.abort();
            self.closed.fetch_add(1, Ordering::Relaxed);
            if let Some(left_out) = self.warnings.next() {
                tracing::warn!(
                    slots = self.slots_max,
                    left_out,
                    "all slots of {} are taken: the connection that waited for its client longest is closed",
                    self.name
                );
            }
        }
    }

    fn now(&self, in_body: bool) -> u64 {
        self.begun.elapsed().as_millis() as u64 * 2 + u64::from(in_body)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<State>>> {
        // Nothing under this lock can panic half-way.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// What is to be ended when the connection is to be closed.
    pub(super) fn serves(&self) -> impl FnOnce(AbortHandle) + use<> {
        let state = self.state.clone();
        // Nothing was there before: a connection has one task.
        move |task| drop(state.task.set(task))
    }

    /// Says that the server works for the client until the turn is dropped. `None`: the connection is being closed.
    pub(super) fn begin(self: &Arc<Self>) -> Option<Turn> {
        self.go_on().then(|| Turn(self.clone()))
    }

    /// Says that more of a body is waited for.
    pub(super) fn wait_for_body(&self) {
        self.wait_since(self.slots.now(true));
    }

    /// Says that more of a body is there. `false`: the connection is being closed.
    pub(super) fn go_on(&self) -> bool {
        let goes_on = |doing| (doing != CLOSED).then_some(WORKING);
        self.state.doing.fetch_update(Ordering::Relaxed, Ordering::Relaxed, goes_on).is_ok()
    }

    fn wait_since(&self, now: u64) {
        // One that is being closed stays so.
        let _ = self.state.doing.compare_exchange(WORKING, now, Ordering::Relaxed, Ordering::Relaxed);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.lock().remove(&self.number);
        self.slots.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection that is open until it is closed.
    async fn open(slots: &Arc<Slots>) -> std::sync::Weak<Slot> {
        let slot = Arc::new(slots.take().await);
        let (serves, seen) = (slot.serves(), Arc::downgrade(&slot));
        let task = tokio::spawn(async move {
            let _slot = slot;
            std::future::pending::<()>().await;
        });
        serves(task.abort_handle());
        // Waits are told apart by milliseconds.
        tokio::time::sleep(Duration::from_millis(5)).await;
        seen
    }

    #[tokio::test]
    async fn who_waited_longest_goes_and_nobody_who_is_worked_for() {
        let slots = Slots::new("tests", 3);
        let working = open(&slots).await;
        let turn = working.upgrade().unwrap().begin().unwrap();
        let (first, second) = (open(&slots).await, open(&slots).await);
        let third = open(&slots).await;
        assert!(first.upgrade().is_none() && second.upgrade().is_some(), "the first waited longest");
        drop(second.upgrade().unwrap().begin());
        open(&slots).await;
        assert!(third.upgrade().is_none() && second.upgrade().is_some(), "a request begins the wait anew");
        assert!(working.upgrade().is_some());
        assert_eq!((slots.taken(), slots.closed()), (3, 2));
        drop(turn);
    }

    #[tokio::test]
    async fn a_slot_comes_back_from_a_task_that_panics() {
        let slots = Slots::new("tests", 1);
        for _ in 0..3 {
            let slot = slots.take().await;
            let task = tokio::spawn(async move {
                let _slot = slot;
                assert_eq!(1, 2, "a panic that this test wants");
            });
            assert!(task.await.is_err());
        }
        assert_eq!(slots.taken(), 0);
    }

    #[tokio::test]
    async fn a_body_that_pauses_long_gives_way_and_one_that_comes_does_not() {
        let slots = Slots::new("tests", 1);
        let slot = open(&slots).await;
        let turn = slot.upgrade().unwrap().begin();
        slot.upgrade().unwrap().wait_for_body();
        slots.close_longest_waiting();
        assert_eq!(slots.closed(), 0);
        drop(turn.map(|turn| Arc::downgrade(&turn.0)));
        drop(slots.take().await);
        assert_eq!(slots.closed(), 1);
    }
}
