//! Quotas: how much a user may ask for and write, on this server, whatever the protocol.
//!
//! A rate is a bucket that fills again by time. A query takes its drop before it begins. How much a write contains is known
//! after it was read, so it is let in while the bucket is not empty, takes what it wrote afterwards, and may leave a debt that the
//! next one waits for. So a batch is never cut, and the rate holds over any longer time.
//!
//! Series are not counted by user: who has created one is not stored, and would cost all series of everybody space. They are
//! counted by database, where they are known anyway, also after a restart and after some were removed. The user of a quota
//! creates none where there are too many (`write/new_series.rs`).

use nyala_core::{Error, Result};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a user may use; 0 means any number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Quota {
    /// Queries that run at the same time.
    #[serde(skip_serializing_if = "is_zero")]
    pub concurrent_queries: u64,
    /// Queries that begin within a minute.
    #[serde(skip_serializing_if = "is_zero")]
    pub queries_per_minute: u64,
    /// Points or rows written within a second.
    #[serde(skip_serializing_if = "is_zero")]
    pub points_per_second: u64,
    /// Bytes of bodies, statements and copied values within a second.
    #[serde(skip_serializing_if = "is_zero")]
    pub bytes_per_second: u64,
    /// Memory of all queries that run.
    #[serde(skip_serializing_if = "is_zero")]
    pub query_memory_bytes: u64,
    /// Series of a database after which the user creates none there.
    #[serde(skip_serializing_if = "is_zero")]
    pub series_per_database: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The quotas that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaKind {
    /// [`Quota::concurrent_queries`].
    ConcurrentQueries,
    /// [`Quota::queries_per_minute`].
    QueriesPerMinute,
    /// [`Quota::points_per_second`].
    PointsPerSecond,
    /// [`Quota::bytes_per_second`].
    BytesPerSecond,
    /// [`Quota::query_memory_bytes`].
    QueryMemoryBytes,
    /// [`Quota::series_per_database`].
    SeriesPerDatabase,
}

impl QuotaKind {
    /// All of them, in the order in which they are listed.
    pub const ALL: [Self; 6] = [
        Self::ConcurrentQueries,
        Self::QueriesPerMinute,
        Self::PointsPerSecond,
        Self::BytesPerSecond,
        Self::QueryMemoryBytes,
        Self::SeriesPerDatabase,
    ];

    /// Its name in statements and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::ConcurrentQueries => "concurrent_queries",
            Self::QueriesPerMinute => "queries_per_minute",
            Self::PointsPerSecond => "points_per_second",
            Self::BytesPerSecond => "bytes_per_second",
            Self::QueryMemoryBytes => "query_memory_bytes",
            Self::SeriesPerDatabase => "series_per_database",
        }
    }

    /// The quota of a name, in any case.
    pub fn named(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name));
        found.ok_or_else(|| {
            let all = Self::ALL.map(Self::name).join(", ");
            Error::invalid(format!("unknown quota {name:?}: there are {all}"))
        })
    }
}

impl Quota {
    /// Whether nothing is limited.
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }

    /// One of the limits.
    pub fn get(&self, kind: QuotaKind) -> u64 {
        match kind {
            QuotaKind::ConcurrentQueries => self.concurrent_queries,
            QuotaKind::QueriesPerMinute => self.queries_per_minute,
            QuotaKind::PointsPerSecond => self.points_per_second,
            QuotaKind::BytesPerSecond => self.bytes_per_second,
            QuotaKind::QueryMemoryBytes => self.query_memory_bytes,
            QuotaKind::SeriesPerDatabase => self.series_per_database,
        }
    }

    /// Changes one of the limits.
    pub fn set(&mut self, kind: QuotaKind, most: u64) {
        let limit = match kind {
            QuotaKind::ConcurrentQueries => &mut self.concurrent_queries,
            QuotaKind::QueriesPerMinute => &mut self.queries_per_minute,
            QuotaKind::PointsPerSecond => &mut self.points_per_second,
            QuotaKind::BytesPerSecond => &mut self.bytes_per_second,
            QuotaKind::QueryMemoryBytes => &mut self.query_memory_bytes,
            QuotaKind::SeriesPerDatabase => &mut self.series_per_database,
        };
        *limit = most;
    }
}

/// How often something was refused because of a quota, by kind.
#[derive(Debug, Default)]
pub struct Refusals([AtomicU64; QuotaKind::ALL.len()]);

impl Refusals {
    /// How often because of one kind.
    pub fn count(&self, kind: QuotaKind) -> u64 {
        self.0[kind as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn note(&self, kind: QuotaKind) {
        self.0[kind as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// What a user uses at the moment. Clones are the same meter, and all are equal: users are compared by what they may do.
#[derive(Clone, Default)]
pub struct Meter(Arc<Used>);

#[derive(Default)]
struct Used {
    running: AtomicU64,
    queries: Mutex<Bucket>,
    points: Mutex<Bucket>,
    bytes: Mutex<Bucket>,
    memory_bytes: AtomicU64,
    refusals: Arc<Refusals>,
}

impl PartialEq for Meter {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Meter {}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Meter({} running)", self.running())
    }
}

/// A query that runs, until it is dropped.
#[derive(Debug)]
pub struct QuerySlot(Meter);

impl Drop for QuerySlot {
    fn drop(&mut self) {
        self.0.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Memory that a query holds of its user's quota, until this is dropped.
#[derive(Debug)]
pub struct QuotaMemory {
    meter: Meter,
    user: String,
    most_bytes: u64,
    bytes: u64,
    was_refused: bool,
}

impl QuotaMemory {
    /// The most that all queries of the user may hold.
    pub fn most_bytes(&self) -> u64 {
        self.most_bytes
    }

    /// Takes more, or nothing if the queries of the user would hold too much.
    pub fn try_grow(&mut self, bytes: u64) -> Result<()> {
        let held_bytes = &self.meter.0.memory_bytes;
        let all_bytes = held_bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if all_bytes <= self.most_bytes {
            self.bytes += bytes;
            return Ok(());
        }
        held_bytes.fetch_sub(bytes, Ordering::Relaxed);
        // What sorts asks again and again, because it goes on with files.
        if !std::mem::replace(&mut self.was_refused, true) {
            self.meter.0.refusals.note(QuotaKind::QueryMemoryBytes);
        }
        let (user, name, most_bytes) = (&self.user, QuotaKind::QueryMemoryBytes.name(), self.most_bytes);
        Err(Error::limit(format!(
            "queries of user {user:?} need more memory than its quota {name} = {most_bytes}: narrow the query, or wait for others \
             of this user to end"
        )))
    }

    /// Gives back all but `bytes`.
    pub fn shrink_to(&mut self, bytes: u64) {
        let freed = self.bytes.saturating_sub(bytes);
        self.meter.0.memory_bytes.fetch_sub(freed, Ordering::Relaxed);
        self.bytes -= freed;
    }
}

impl Drop for QuotaMemory {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

impl Meter {
    /// A meter that counts refusals where others do.
    pub(super) fn counting(refusals: Arc<Refusals>) -> Self {
        Self(Arc::new(Used { refusals, ..Used::default() }))
    }

    /// How many queries run.
    pub fn running(&self) -> u64 {
        self.0.running.load(Ordering::Relaxed)
    }

    /// Lets a query begin, or says when it may. Without a limit of queries nothing is counted.
    pub fn begin_query(&self, user: &str, quota: &Quota) -> Result<Option<QuerySlot>> {
        if quota.concurrent_queries == 0 && quota.queries_per_minute == 0 {
            return Ok(None);
        }
        let running = self.0.running.fetch_add(1, Ordering::Relaxed);
        let slot = QuerySlot(self.clone());
        if quota.concurrent_queries > 0 && running >= quota.concurrent_queries {
            return Err(self.refused(QuotaKind::ConcurrentQueries, user, quota, Duration::from_secs(1)));
        }
        if quota.queries_per_minute > 0 {
            let most = quota.queries_per_minute as f64;
            let mut queries = self.0.queries.lock();
            queries.fill(Instant::now(), most, most / 60.0);
            let missing = 1.0 - queries.level;
            if missing > 0.0 {
                let wait = Duration::from_secs_f64(missing * 60.0 / most);
                return Err(self.refused(QuotaKind::QueriesPerMinute, user, quota, wait));
            }
            queries.level -= 1.0;
        }
        Ok(Some(slot))
    }

    /// What a query charges its memory to; `None` without a quota.
    pub(super) fn query_memory(&self, user: &str, quota: &Quota) -> Option<QuotaMemory> {
        let most_bytes = quota.query_memory_bytes;
        let (meter, user) = (self.clone(), user.to_owned());
        (most_bytes > 0).then(|| QuotaMemory { meter, user, most_bytes, bytes: 0, was_refused: false })
    }

    pub(super) fn admit_write(&self, user: &str, quota: &Quota) -> Result<()> {
        for (kind, bucket) in self.of_writes() {
            let most = quota.get(kind) as f64;
            if most == 0.0 {
                continue;
            }
            let mut bucket = bucket.lock();
            bucket.fill(Instant::now(), most, most);
            if bucket.level <= 0.0 {
                let wait = Duration::from_secs_f64((-bucket.level / most).min(1e9));
                return Err(self.refused(kind, user, quota, wait));
            }
        }
        Ok(())
    }

    pub(super) fn has_written(&self, quota: &Quota, points: u64, bytes: u64) {
        for ((kind, bucket), written) in self.of_writes().into_iter().zip([points, bytes]) {
            if quota.get(kind) > 0 {
                bucket.lock().level -= written as f64;
            }
        }
    }

    fn of_writes(&self) -> [(QuotaKind, &Mutex<Bucket>); 2] {
        [(QuotaKind::PointsPerSecond, &self.0.points), (QuotaKind::BytesPerSecond, &self.0.bytes)]
    }

    fn refused(&self, kind: QuotaKind, user: &str, quota: &Quota, wait: Duration) -> Error {
        self.0.refusals.note(kind);
        let (name, most) = (kind.name(), quota.get(kind));
        Error::throttled(format!("user {user:?} has reached its quota {name} = {most}"), wait)
    }
}

/// Fills by time.
#[derive(Default)]
struct Bucket {
    level: f64,
    filled: Option<Instant>,
}

impl Bucket {
    fn fill(&mut self, now: Instant, most: f64, per_second: f64) {
        self.level = match self.filled {
            Some(filled) => {
                let seconds = now.saturating_duration_since(filled).as_secs_f64();
                (self.level + seconds * per_second).min(most)
            }
            None => most,
        };
        self.filled = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nyala_core::ErrorKind;

    #[test]
    fn so_many_queries_run_at_once() {
        let (meter, quota) = (Meter::default(), Quota { concurrent_queries: 2, ..Quota::default() });
        let first = meter.begin_query("ann", &quota).unwrap();
        let second = meter.begin_query("ann", &quota).unwrap();
        let refused = meter.begin_query("ann", &quota).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Throttled);
        assert!(refused.message().contains("concurrent_queries = 2"), "{refused}");
        assert_eq!((meter.running(), meter.0.refusals.count(QuotaKind::ConcurrentQueries)), (2, 1));
        drop((first, second));
        assert!(meter.begin_query("ann", &quota).unwrap().is_some());
        assert_eq!(meter.running(), 0);
    }

    #[test]
    fn so_many_queries_begin_in_a_minute() {
        let (meter, quota) = (Meter::default(), Quota { queries_per_minute: 2, ..Quota::default() });
        assert!(meter.begin_query("ann", &quota).is_ok() && meter.begin_query("ann", &quota).is_ok());
        let refused = meter.begin_query("ann", &quota).unwrap_err();
        assert!((29..=30).contains(&refused.retry_after_seconds().unwrap()), "{refused:?}");
        // Half a minute later one more.
        meter.0.queries.lock().filled = Instant::now().checked_sub(Duration::from_secs(31));
        assert!(meter.begin_query("ann", &quota).is_ok() && meter.begin_query("ann", &quota).is_err());
    }

    #[test]
    fn a_large_write_is_let_in_and_paid_for_by_those_after_it() {
        let (meter, quota) = (Meter::default(), Quota { points_per_second: 100, ..Quota::default() });
        assert!(meter.admit_write("ann", &quota).is_ok());
        meter.has_written(&quota, 1100, 1 << 40);
        let refused = meter.admit_write("ann", &quota).unwrap_err();
        assert_eq!((refused.kind(), refused.retry_after_seconds()), (ErrorKind::Throttled, Some(10)));
        meter.0.points.lock().filled = Instant::now().checked_sub(Duration::from_secs(11));
        assert!(meter.admit_write("ann", &quota).is_ok());
    }

    #[test]
    fn queries_share_the_memory_of_their_user() {
        let (meter, quota) = (Meter::default(), Quota { query_memory_bytes: 100, ..Quota::default() });
        let query = || meter.query_memory("ann", &quota).unwrap();
        let (mut first, mut second) = (query(), query());
        first.try_grow(60).unwrap();
        assert_eq!(second.try_grow(41).unwrap_err().kind(), ErrorKind::Limit);
        assert!(second.try_grow(41).is_err() && second.try_grow(40).is_ok());
        assert_eq!(meter.0.refusals.count(QuotaKind::QueryMemoryBytes), 1, "once for each query");
        first.shrink_to(10);
        second.try_grow(50).unwrap();
        drop(second);
        query().try_grow(90).unwrap();
        drop(first);
        assert_eq!(meter.0.memory_bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn without_a_quota_nothing_is_counted() {
        let (meter, quota) = (Meter::default(), Quota::default());
        meter.has_written(&quota, u64::MAX, u64::MAX);
        assert!(
            meter.begin_query("ann", &quota).unwrap().is_none() && meter.admit_write("ann", &quota).is_ok()
        );
        assert!(meter.query_memory("ann", &quota).is_none());
        assert!(QuotaKind::named("Points_per_second").is_ok());
        assert!(QuotaKind::named("x").unwrap_err().message().contains("bytes_per_second"));
    }
}
