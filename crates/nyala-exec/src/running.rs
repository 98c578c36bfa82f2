//! Queries that run: so that they can be listed, killed and bounded.
//!
//! A request's statements enter together, under one number, and leave when they are dropped. What they say is written
//! down only when somebody asks, by the language that they are in.

use nyala_core::{Error, ErrorKind, Result};
use nyala_db::users::Rights;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Bounds on queries; 0 is no bound.
#[derive(Debug, Clone, Copy, Default)]
pub struct QueryLimits {
    /// Requests with queries that run at once.
    pub concurrent_queries_max: usize,
    /// How long a query may run.
    pub timeout: Duration,
    /// Series of one measurement in a SELECT.
    pub series_max: usize,
    /// Windows of a SELECT.
    pub buckets_max: usize,
    /// Rows a SELECT reads.
    pub points_max: usize,
}

/// All queries that run.
#[derive(Debug, Default)]
pub struct RunningQueries {
    limits: QueryLimits,
    queries: Mutex<BTreeMap<u64, Arc<Query>>>,
    last: AtomicU64,
}

/// Writes down what a query asks, without passwords.
type Text = dyn Fn() -> String + Send + Sync;

/// What is asked at once. What writes it down lies in place, so that it costs nothing where nobody asks.
pub struct Query<Asked: ?Sized = Text> {
    number: u64,
    database: String,
    user: Option<String>,
    begun: Instant,
    timeout: Duration,
    killed: AtomicBool,
    told: Notify,
    asked: Asked,
}

impl fmt::Debug for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Query({})", self.number)
    }
}

/// A query among those that run, for as long as it is held.
#[derive(Debug)]
pub struct Entered {
    query: Arc<Query>,
    among: Arc<RunningQueries>,
}

impl RunningQueries {
    /// None yet, under these bounds.
    pub fn new(limits: QueryLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// The bounds.
    pub fn limits(&self) -> &QueryLimits {
        &self.limits
    }

    /// Lets a query run, unless there are too many. `asked` writes down what it asks, without passwords: far more
    /// queries run than are listed.
    pub fn enter(
        self: &Arc<Self>,
        asked: impl Fn() -> String + Send + Sync + 'static,
        database: &str,
        rights: &Rights,
    ) -> Result<Entered> {
        let most = self.limits.concurrent_queries_max;
        let mut queries = self.lock();
        if most > 0 && queries.len() >= most {
            let words = format!("max-concurrent-queries limit exceeded({}, {most})", queries.len());
            return Err(Error::limit(words));
        }
        let user = match rights {
            Rights::User(user) => Some(user.name().to_owned()),
            Rights::Open | Rights::FirstAdmin => None,
        };
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let query: Arc<Query> = Arc::new(Query {
            number,
            database: database.to_owned(),
            user,
            begun: Instant::now(),
            timeout: self.limits.timeout,
            killed: AtomicBool::new(false),
            told: Notify::new(),
            asked,
        });
        queries.insert(number, query.clone());
        Ok(Entered { query, among: self.clone() })
    }

    /// The queries that run, by number.
    pub fn all(&self) -> Vec<Arc<Query>> {
        self.lock().values().cloned().collect()
    }

    /// How many have run or do.
    pub fn count(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }

    /// Asks a query to stop.
    pub fn kill(&self, number: u64) -> Result<()> {
        let found = self.lock().get(&number).cloned();
        let query = found.ok_or_else(|| Error::missing(format!("no such query id: {number}")))?;
        if query.killed.swap(true, Ordering::AcqRel) {
            return Err(Error::conflict("already killed"));
        }
        query.told.notify_waiters();
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Arc<Query>>> {
        // Nothing under this lock can panic half-way.
        self.queries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Query {
    /// Its number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// What it asks, without passwords.
    pub fn text(&self) -> String {
        (self.asked)()
    }

    /// The request's database.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// Who asked, if that is known.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// How long it has been running.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Whether it was killed and is about to stop.
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    /// Waits until it must stop, and says why. Never ends otherwise.
    pub async fn stopped(&self) -> Error {
        if self.timeout.is_zero() {
            return self.told_to_stop().await;
        }
        let left = self.timeout.saturating_sub(self.elapsed());
        tokio::time::timeout(left, self.told_to_stop()).await.unwrap_or_else(|_| timed_out())
    }

    /// Says that it must stop, if so: for what computes long without waiting.
    pub fn check(&self) -> Result<()> {
        if self.is_killed() {
            return Err(interrupted());
        }
        match !self.timeout.is_zero() && self.elapsed() >= self.timeout {
            true => Err(timed_out()),
            false => Ok(()),
        }
    }

    async fn told_to_stop(&self) -> Error {
        let told = self.told.notified();
        let mut told = std::pin::pin!(told);
        // From here on nothing that is told is missed.
        told.as_mut().enable();
        if !self.is_killed() {
            told.await;
        }
        interrupted()
    }
}

fn interrupted() -> Error {
    Error::new(ErrorKind::Cancelled, "query interrupted")
}

fn timed_out() -> Error {
    Error::new(ErrorKind::Cancelled, "query-timeout limit exceeded")
}

impl Entered {
    /// The query.
    pub fn query(&self) -> Arc<Query> {
        self.query.clone()
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.among.lock().remove(&self.query.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn queries_are_bounded_listed_and_killed() {
        let limits = QueryLimits { concurrent_queries_max: 2, ..QueryLimits::default() };
        let running = Arc::new(RunningQueries::new(limits));
        let enter = || running.enter(|| "SHOW QUERIES".to_owned(), "x", &Rights::Open);
        let (first, second) = (enter().unwrap(), enter().unwrap());
        assert_eq!(enter().unwrap_err().message(), "max-concurrent-queries limit exceeded(2, 2)");
        drop(second);
        let third = enter().unwrap();
        assert_eq!(running.all().iter().map(|query| query.number()).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(third.query().text(), "SHOW QUERIES");
        assert!(first.query().check().is_ok());
        let waiting = first.query();
        let waiting = tokio::spawn(async move { waiting.stopped().await });
        tokio::task::yield_now().await;
        running.kill(1).unwrap();
        assert_eq!(waiting.await.unwrap().message(), "query interrupted");
        assert_eq!(first.query().stopped().await.message(), "query interrupted", "afterwards too");
        assert_eq!(first.query().check().unwrap_err().message(), "query interrupted");
        assert!(running.kill(1).is_err() && running.kill(2).is_err());
    }

    #[tokio::test]
    async fn queries_end_after_their_time() {
        let limits = QueryLimits { timeout: Duration::from_millis(1), ..QueryLimits::default() };
        let running = Arc::new(RunningQueries::new(limits));
        let entered = running.enter(|| "a read".to_owned(), "", &Rights::Open).unwrap();
        assert_eq!(entered.query().stopped().await.message(), "query-timeout limit exceeded");
        assert_eq!(entered.query().check().unwrap_err().message(), "query-timeout limit exceeded");
    }
}
