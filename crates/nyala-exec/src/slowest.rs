//! The slowest queries of the last hour, for people who ask afterwards.
//!
//! A query that is fast costs two comparisons when it ends: its text is written only if it is one of the slowest.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How many are kept …
const KEPT_MAX: usize = 20;
/// … and for how long.
const KEPT_FOR: Duration = Duration::from_secs(3600);
/// The most bytes of a text that are kept.
const TEXT_MAX_BYTES: usize = 4096;

/// A query that has ended.
#[derive(Debug, Clone)]
pub struct SlowQuery {
    /// Its number.
    pub number: u64,
    /// Its text, without passwords; a long one is cut.
    pub text: String,
    /// The request's database.
    pub database: String,
    /// The user, if that is known.
    pub user: Option<String>,
    /// How long it took.
    pub duration: Duration,
    /// When it ended.
    pub ended: Instant,
    /// Whether somebody has ended it.
    pub is_killed: bool,
}

/// The slowest queries.
#[derive(Debug)]
pub(crate) struct SlowestQueries {
    begun: Instant,
    /// What takes longer is one of the slowest, µs …
    least_us: AtomicU64,
    /// … and whatever ends after this moment, ms since `begun`: then the first of the others is too old.
    expires_ms: AtomicU64,
    kept: Mutex<Vec<SlowQuery>>,
}

impl Default for SlowestQueries {
    fn default() -> Self {
        Self {
            begun: Instant::now(),
            least_us: AtomicU64::new(0),
            expires_ms: AtomicU64::new(0),
            kept: Mutex::default(),
        }
    }
}

impl SlowestQueries {
    /// A query has ended after this time. `describe` is called if it is one of the slowest.
    pub(crate) fn ended(&self, duration: Duration, ended: Instant, describe: impl FnOnce() -> SlowQuery) {
        let is_faster = micros(duration) <= self.least_us.load(Ordering::Relaxed);
        if is_faster && self.millis(ended) < self.expires_ms.load(Ordering::Relaxed) {
            return;
        }
        let mut query = describe();
        if query.text.len() > TEXT_MAX_BYTES {
            let is_end = |end: &usize| query.text.is_char_boundary(*end);
            let end = (0..=TEXT_MAX_BYTES).rev().find(is_end).unwrap_or(0);
            // Not truncated: that would keep all of its memory.
            query.text = format!("{}…", &query.text[..end]);
        }
        let mut kept = self.lock();
        kept.push(query);
        self.forget(&mut kept, ended);
    }

    /// All of them, the slowest first.
    pub(crate) fn all(&self, now: Instant) -> Vec<SlowQuery> {
        let mut kept = self.lock();
        self.forget(&mut kept, now);
        kept.clone()
    }

    /// Forgets those that are too old or not slow enough, and notes what a query must be to be kept.
    fn forget(&self, kept: &mut Vec<SlowQuery>, now: Instant) {
        kept.retain(|own| now.saturating_duration_since(own.ended) < KEPT_FOR);
        kept.sort_by_key(|own| std::cmp::Reverse(own.duration));
        kept.truncate(KEPT_MAX);
        let is_full = kept.len() == KEPT_MAX;
        let least = kept.last().filter(|_| is_full).map_or(0, |own| micros(own.duration));
        let first = kept.iter().map(|own| own.ended).min().filter(|_| is_full);
        self.least_us.store(least, Ordering::Relaxed);
        self.expires_ms.store(first.map_or(0, |first| self.millis(first + KEPT_FOR)), Ordering::Relaxed);
    }

    fn millis(&self, moment: Instant) -> u64 {
        moment.saturating_duration_since(self.begun).as_millis() as u64
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<SlowQuery>> {
        // Nothing under this lock can panic half-way.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn micros(duration: Duration) -> u64 {
    duration.as_micros() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_are_kept_for_an_hour() {
        let slowest = SlowestQueries::default();
        let begun = Instant::now();
        let numbers = |slowest: &SlowestQueries, now| -> Vec<u64> {
            slowest.all(now).iter().map(|own| own.number).collect()
        };
        // A query that began at the beginning; its number is how long it took.
        let end = |milliseconds: u64| {
            let duration = Duration::from_millis(milliseconds);
            let describe = || SlowQuery {
                number: milliseconds,
                text: format!("query {}", "ä".repeat(TEXT_MAX_BYTES)),
                database: "d".to_owned(),
                user: None,
                duration,
                ended: begun + duration,
                is_killed: false,
            };
            slowest.ended(duration, begun + duration, describe);
            milliseconds
        };
        let all: Vec<u64> = (1..=KEPT_MAX as u64 + 5).map(|number| end(number * 1000)).collect();
        let expected: Vec<u64> = all.iter().rev().take(KEPT_MAX).copied().collect();
        assert_eq!(numbers(&slowest, Instant::now()), expected);
        assert!(slowest.all(Instant::now())[0].text.len() <= TEXT_MAX_BYTES + 3);
        // A faster one is not looked at, until one of them is too old.
        end(500);
        assert_eq!(numbers(&slowest, Instant::now()), expected);
        let later = end(KEPT_FOR.as_millis() as u64 + 20_000);
        let now = begun + KEPT_FOR + Duration::from_millis(20_000);
        assert_eq!(numbers(&slowest, now)[0], later);
        assert!(numbers(&slowest, now).len() < KEPT_MAX);
        assert!(numbers(&slowest, now + KEPT_FOR).is_empty());
    }
}
