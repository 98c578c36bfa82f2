//! The list of running queries, so that clients can list and kill them, and limits apply.
//!
//! A request's statements enter the list together, under one number, and leave it when they are dropped. Their text is
//! written only when somebody lists queries, by the language they are in.

use crate::slowest::{SlowQuery, SlowestQueries};
use nyala_core::{Error, ErrorKind, Result};
use nyala_db::users::{Principal, QuerySlot};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Limits on queries; 0 means no limit.
#[derive(Debug, Clone, Copy, Default)]
pub struct QueryLimits {
    /// Requests with queries that run at the same time.
    pub concurrent_queries_max: usize,
    /// The longest time a query may run.
    pub timeout: Duration,
    /// Series of one measurement in a SELECT.
    pub series_max: usize,
    /// Windows of a SELECT.
    pub buckets_max: usize,
    /// Rows a SELECT reads.
    pub points_max: usize,
}

/// All running queries.
#[derive(Debug, Default)]
pub struct RunningQueries {
    /// How many queries may run, how long, and how much they may answer.
    pub limits: QueryLimits,
    queries: Mutex<BTreeMap<u64, Arc<Query>>>,
    last: AtomicU64,
    slowest: SlowestQueries,
    ended: Option<Ended>,
}

/// Is told of each query that has ended.
struct Ended(Box<dyn Fn(&Query) + Send + Sync>);

impl fmt::Debug for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ended")
    }
}

/// Why a query ends that somebody has stopped.
pub const INTERRUPTED: &str = "query interrupted";
/// The limit of time that a client of PostgreSQL sets.
pub const STATEMENT_TIMEOUT: &str = "statement_timeout";

/// Writes the text of a query, without passwords.
type Text = dyn Fn() -> String + Send + Sync;

/// A running query: the statements of one request. `write_text` is stored in place, so that a query that nobody lists
/// costs no further allocation.
pub struct Query<WriteText: ?Sized = Text> {
    number: u64,
    database: String,
    user: Option<String>,
    begun: Instant,
    timeout: Duration,
    /// The setting that it comes from.
    timeout_name: &'static str,
    killed: AtomicBool,
    stop: Notify,
    write_text: WriteText,
}

impl fmt::Debug for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Query({})", self.number)
    }
}

/// Keeps a query in the list of running queries until it is dropped.
#[derive(Debug)]
pub struct QueryGuard {
    query: Arc<Query>,
    list: Arc<RunningQueries>,
    /// What it takes of its user's quota.
    _slot: Option<QuerySlot>,
}

impl RunningQueries {
    /// An empty list with these limits.
    pub fn new(limits: QueryLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// The same; `ended` is told of each query that has ended, whether it succeeded or not.
    #[must_use]
    pub fn telling(self, ended: impl Fn(&Query) + Send + Sync + 'static) -> Self {
        Self { ended: Some(Ended(Box::new(ended))), ..self }
    }

    /// Enters a query into the list, unless too many are running, or its user has reached its quota. `write_text` writes its text, without passwords; it is
    /// called only when somebody lists queries.
    pub fn enter(
        self: &Arc<Self>,
        write_text: impl Fn() -> String + Send + Sync + 'static,
        database: &str,
        principal: &Principal,
    ) -> Result<QueryGuard> {
        self.enter_within(Duration::ZERO, write_text, database, principal)
    }

    /// The same for a query that its client gives so much time; zero means no limit.
    pub fn enter_within(
        self: &Arc<Self>,
        timeout: Duration,
        write_text: impl Fn() -> String + Send + Sync + 'static,
        database: &str,
        principal: &Principal,
    ) -> Result<QueryGuard> {
        let timeouts = [(timeout, STATEMENT_TIMEOUT), (self.limits.timeout, "query-timeout")];
        let timeouts = timeouts.into_iter().filter(|(timeout, _)| !timeout.is_zero());
        let (timeout, timeout_name) = timeouts.min().unwrap_or_default();
        let slot = principal.begin_query()?;
        let max = self.limits.concurrent_queries_max;
        let mut queries = self.lock();
        if max > 0 && queries.len() >= max {
            let message = format!("max-concurrent-queries limit exceeded({}, {max})", queries.len());
            return Err(Error::limit(message));
        }
        let user = match principal {
            Principal::User(user) => Some(user.name().to_owned()),
            Principal::Open | Principal::FirstAdmin => None,
        };
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let query: Arc<Query> = Arc::new(Query {
            number,
            database: database.to_owned(),
            user,
            begun: Instant::now(),
            timeout,
            timeout_name,
            killed: AtomicBool::new(false),
            stop: Notify::new(),
            write_text,
        });
        queries.insert(number, query.clone());
        Ok(QueryGuard { query, list: self.clone(), _slot: slot })
    }

    /// The running queries, by number.
    pub fn all(&self) -> Vec<Arc<Query>> {
        self.lock().values().cloned().collect()
    }

    /// The slowest queries of the last hour that have ended, the slowest first.
    pub fn slowest(&self) -> Vec<SlowQuery> {
        self.slowest.all(Instant::now())
    }

    /// How many queries were started.
    pub fn count(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }

    /// The query with a number, if it runs.
    pub fn find(&self, number: u64) -> Option<Arc<Query>> {
        self.lock().get(&number).cloned()
    }

    /// Asks a query to stop.
    pub fn kill(&self, number: u64) -> Result<()> {
        let query = self.find(number).ok_or_else(|| Error::missing(format!("no such query id: {number}")))?;
        if query.killed.swap(true, Ordering::AcqRel) {
            return Err(Error::conflict("already killed"));
        }
        query.stop.notify_waiters();
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

    /// Its text, without passwords.
    pub fn text(&self) -> String {
        (self.write_text)()
    }

    /// The request's database.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// The user, if that is known.
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

    /// Waits until the query must stop, and says why. Never returns otherwise.
    pub async fn stopped(&self) -> Error {
        if self.timeout.is_zero() {
            return self.until_killed().await;
        }
        let left = self.timeout.saturating_sub(self.elapsed());
        tokio::time::timeout(left, self.until_killed()).await.unwrap_or_else(|_| self.timed_out())
    }

    /// Fails if the query must stop. Long computations that never wait call this.
    pub fn check(&self) -> Result<()> {
        if self.is_killed() {
            return Err(interrupted());
        }
        match !self.timeout.is_zero() && self.elapsed() >= self.timeout {
            true => Err(self.timed_out()),
            false => Ok(()),
        }
    }

    fn timed_out(&self) -> Error {
        Error::new(ErrorKind::Cancelled, format!("{} limit exceeded", self.timeout_name))
    }

    async fn until_killed(&self) -> Error {
        let mut stop = std::pin::pin!(self.stop.notified());
        // From here on no notification is missed.
        stop.as_mut().enable();
        if !self.is_killed() {
            stop.await;
        }
        interrupted()
    }
}

fn interrupted() -> Error {
    Error::new(ErrorKind::Cancelled, INTERRUPTED)
}

impl QueryGuard {
    /// The query.
    pub fn query(&self) -> Arc<Query> {
        self.query.clone()
    }
}

impl Drop for QueryGuard {
    fn drop(&mut self) {
        self.list.lock().remove(&self.query.number);
        let (query, ended) = (&self.query, Instant::now());
        let duration = ended.saturating_duration_since(query.begun);
        self.list.slowest.ended(duration, ended, || SlowQuery {
            number: query.number,
            text: query.text(),
            database: query.database.clone(),
            user: query.user.clone(),
            duration,
            ended,
            is_killed: query.is_killed(),
        });
        if let Some(Ended(ended)) = &self.list.ended {
            ended(&self.query);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn queries_are_bounded_listed_and_killed() {
        let limits = QueryLimits { concurrent_queries_max: 2, ..QueryLimits::default() };
        let running = Arc::new(RunningQueries::new(limits));
        let enter = || running.enter(|| "SHOW QUERIES".to_owned(), "x", &Principal::Open);
        let (first, second) = (enter().unwrap(), enter().unwrap());
        assert_eq!(enter().unwrap_err().message(), "max-concurrent-queries limit exceeded(2, 2)");
        drop(second);
        assert_eq!(running.all().len(), 1);
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

    #[test]
    fn each_query_that_ends_is_told_of_once() {
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = told.clone();
        let tell = move |query: &Query| heard.lock().unwrap().push(query.text());
        let running = Arc::new(RunningQueries::default().telling(tell));
        let enter =
            |text: &'static str| running.enter(move || text.to_owned(), "x", &Principal::Open).unwrap();
        let (first, second) = (enter("first"), enter("second"));
        drop(second);
        drop(first);
        assert_eq!(*told.lock().unwrap(), ["second", "first"]);
    }

    #[tokio::test]
    async fn queries_end_after_their_timeout() {
        let limits = QueryLimits { timeout: Duration::from_millis(1), ..QueryLimits::default() };
        let running = Arc::new(RunningQueries::new(limits));
        let entered = running.enter(|| "a read".to_owned(), "", &Principal::Open).unwrap();
        assert_eq!(entered.query().stopped().await.message(), "query-timeout limit exceeded");
        assert_eq!(entered.query().check().unwrap_err().message(), "query-timeout limit exceeded");
    }
}
