//! Limits how many connections are open. When all permits are taken, the limiter closes the connection that has waited
//! longest for its client, so that idle connections keep nobody out.
//!
//! A permit is returned when it is dropped, however its connection ends. The limiter closes a connection between
//! requests or while a body pauses, but never while the server works on a request: [`ConnectionPermit::begin_request`]
//! and `close_longest_idle` decide by one atomic exchange which of them came first.

use super::audit::LogLimit;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// How long a body may pause before its connection may be closed for another.
const BODY_PAUSE: Duration = Duration::from_secs(1);
/// How long to wait before looking again for a connection to close, when none could be closed.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

// The activity of a connection is one of these values, or the time when it began to wait for its client: milliseconds
// since the start of the server, times two, plus one within a body.
const WORKING: u64 = u64::MAX;
const CLOSED: u64 = u64::MAX - 1;

/// Limits how many connections of a listener are open.
pub struct ConnectionLimiter {
    /// The listener, for the log.
    name: &'static str,
    /// The most open connections.
    pub connections_max: usize,
    started: Instant,
    /// Open connections by number: in the order in which they were accepted.
    open: Mutex<BTreeMap<u64, Arc<State>>>,
    next_number: AtomicU64,
    freed: Notify,
    closed: AtomicU64,
    warnings: LogLimit,
}

struct State {
    activity: AtomicU64,
    /// The task that serves the connection; aborting it closes the connection.
    task: OnceLock<AbortHandle>,
}

/// The right to keep one connection open.
pub struct ConnectionPermit {
    number: u64,
    state: Arc<State>,
    limiter: Arc<ConnectionLimiter>,
}

/// Marks a connection as active while the server works for its client. Dropping it marks the connection as idle.
pub(super) struct ActiveRequest(Arc<ConnectionPermit>);

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.wait_since(self.0.limiter.now(false));
    }
}

impl ConnectionLimiter {
    /// At most so many connections.
    pub fn new(name: &'static str, connections_max: usize) -> Arc<Self> {
        Arc::new(Self {
            name,
            connections_max,
            started: Instant::now(),
            open: Mutex::default(),
            next_number: AtomicU64::new(0),
            freed: Notify::new(),
            closed: AtomicU64::new(0),
            warnings: LogLimit::default(),
        })
    }

    /// How many connections are open.
    pub fn open(&self) -> usize {
        self.lock().len()
    }

    /// How many idle connections were closed to make room for others.
    pub fn closed(&self) -> u64 {
        self.closed.load(Ordering::Relaxed)
    }

    /// Waits for a permit.
    pub(super) async fn take(self: &Arc<Self>) -> ConnectionPermit {
        loop {
            if let Some(permit) = self.try_take() {
                return permit;
            }
            self.close_longest_idle();
            drop(tokio::time::timeout(RETRY_INTERVAL, self.freed.notified()).await);
        }
    }

    fn try_take(self: &Arc<Self>) -> Option<ConnectionPermit> {
        let mut open = self.lock();
        if open.len() >= self.connections_max {
            return None;
        }
        let state = Arc::new(State { activity: AtomicU64::new(self.now(false)), task: OnceLock::new() });
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        open.insert(number, state.clone());
        Some(ConnectionPermit { number, state, limiter: self.clone() })
    }

    /// Closes one connection, unless one that it closed before still has to end.
    fn close_longest_idle(&self) {
        let open = self.lock();
        let pausing_since = (self.started.elapsed().saturating_sub(BODY_PAUSE)).as_millis() as u64 * 2;
        let mut longest: Option<(u64, &Arc<State>)> = None;
        for state in open.values() {
            let activity = state.activity.load(Ordering::Relaxed);
            match activity {
                CLOSED => return,
                WORKING => continue,
                pausing if pausing & 1 == 1 && pausing > pausing_since => continue,
                _ => {}
            }
            if longest.is_none_or(|(since, _)| activity < since) && state.task.get().is_some() {
                longest = Some((activity, state));
            }
        }
        let Some((since, state)) = longest else { return };
        // If its activity changed meanwhile, the next attempt finds another connection.
        let closed = state.activity.compare_exchange(since, CLOSED, Ordering::Relaxed, Ordering::Relaxed);
        if let (Ok(_), Some(task)) = (closed, state.task.get()) {
            task.abort();
            self.closed.fetch_add(1, Ordering::Relaxed);
            if let Some(left_out) = self.warnings.next() {
                tracing::warn!(
                    connections_max = self.connections_max,
                    left_out,
                    "all connections of {} are taken: the one that waited longest for its client is closed",
                    self.name
                );
            }
        }
    }

    fn now(&self, in_body: bool) -> u64 {
        self.started.elapsed().as_millis() as u64 * 2 + u64::from(in_body)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<State>>> {
        // No code under this lock can panic and leave a change unfinished.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionPermit {
    /// Takes the task that is aborted when the connection must be closed.
    pub(super) fn task_setter(&self) -> impl FnOnce(AbortHandle) + use<> {
        let state = self.state.clone();
        // The cell was empty: a connection has one task.
        move |task| drop(state.task.set(task))
    }

    /// Marks the connection as active until the result is dropped. `None`: the connection is being closed.
    pub(super) fn begin_request(self: &Arc<Self>) -> Option<ActiveRequest> {
        self.resume().then(|| ActiveRequest(self.clone()))
    }

    /// Says that the server waits for more of a body.
    pub(super) fn wait_for_body(&self) {
        self.wait_since(self.limiter.now(true));
    }

    /// Says that more of a body arrived. `false`: the connection is being closed.
    pub(super) fn resume(&self) -> bool {
        let to_working = |activity| (activity != CLOSED).then_some(WORKING);
        self.state.activity.fetch_update(Ordering::Relaxed, Ordering::Relaxed, to_working).is_ok()
    }

    fn wait_since(&self, now: u64) {
        // A connection that is being closed stays closed.
        let _ = self.state.activity.compare_exchange(WORKING, now, Ordering::Relaxed, Ordering::Relaxed);
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.limiter.lock().remove(&self.number);
        self.limiter.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection that is open until it is closed.
    async fn open(limiter: &Arc<ConnectionLimiter>) -> std::sync::Weak<ConnectionPermit> {
        let permit = Arc::new(limiter.take().await);
        let (task_setter, seen) = (permit.task_setter(), Arc::downgrade(&permit));
        let task = tokio::spawn(async move {
            let _slot = permit;
            std::future::pending::<()>().await;
        });
        task_setter(task.abort_handle());
        // Waits differ by milliseconds.
        tokio::time::sleep(Duration::from_millis(5)).await;
        seen
    }

    #[tokio::test]
    async fn the_longest_idle_connection_is_closed_and_no_active_one() {
        let limiter = ConnectionLimiter::new("tests", 3);
        let working = open(&limiter).await;
        let active = working.upgrade().unwrap().begin_request().unwrap();
        let (first, second) = (open(&limiter).await, open(&limiter).await);
        let third = open(&limiter).await;
        assert!(first.upgrade().is_none() && second.upgrade().is_some(), "the first waited longest");
        drop(second.upgrade().unwrap().begin_request());
        open(&limiter).await;
        assert!(third.upgrade().is_none() && second.upgrade().is_some(), "a request starts the wait again");
        assert!(working.upgrade().is_some());
        assert_eq!((limiter.open(), limiter.closed()), (3, 2));
        drop(active);
    }

    #[tokio::test]
    async fn a_permit_comes_back_from_a_task_that_panics() {
        let limiter = ConnectionLimiter::new("tests", 1);
        for _ in 0..3 {
            let permit = limiter.take().await;
            let task = tokio::spawn(async move {
                let _slot = permit;
                assert_eq!(1, 2, "a panic that this test wants");
            });
            assert!(task.await.is_err());
        }
        assert_eq!(limiter.open(), 0);
    }

    #[tokio::test]
    async fn a_connection_whose_body_pauses_long_is_closed() {
        let limiter = ConnectionLimiter::new("tests", 1);
        let permit = open(&limiter).await;
        let active = permit.upgrade().unwrap().begin_request();
        let begun = Instant::now();
        permit.upgrade().unwrap().wait_for_body();
        limiter.close_longest_idle();
        assert!(limiter.closed() == 0 || begun.elapsed() >= BODY_PAUSE);
        drop(active.map(|active| Arc::downgrade(&active.0)));
        drop(limiter.take().await);
        assert_eq!(limiter.closed(), 1);
    }
}
