//! Attempts to load the same rows. A client that was cut off does not know whether its last statement was executed, and one that
//! begins again must not be overtaken by it: statements of a later attempt wait until those of earlier ones have ended, and
//! an earlier attempt that comes later is refused.
//!
//! It is known only in memory: a server that starts again has no statement of before.

use crate::server::http::params::Params;
use crate::server::http::response::{Failure, failure};
use hyper::StatusCode;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Loads that are remembered at a time, of all users and of one of them.
const LOADS_MAX: usize = 10_000;
const LOADS_OF_USER_MAX: usize = 1_000;
/// The longest name of a load, bytes.
const NAME_BYTES_MAX: usize = 100;
/// How long a load is remembered after its last statement: no request is on its way for so long.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// The loads.
#[derive(Default)]
pub struct LoadAttempts {
    loads: Mutex<HashMap<LoadKey, Load>>,
    ended: Notify,
}

/// Names of one user say nothing to another.
#[derive(Clone, PartialEq, Eq, Hash)]
struct LoadKey {
    user: Option<String>,
    name: String,
}

struct Load {
    /// The last one.
    attempt: u64,
    /// Statements of it that run.
    running: usize,
    /// Statements of earlier attempts that still run.
    earlier: usize,
    /// When the last statement began or ended.
    last: Instant,
}

/// A statement of an attempt, until it is dropped.
pub(super) struct RunningAttempt {
    attempts: Arc<LoadAttempts>,
    key: LoadKey,
    attempt: u64,
}

impl LoadAttempts {
    /// Begins a statement of the attempt that a request names, after those of earlier attempts; `None` if it names none.
    pub(super) async fn begin(
        self: &Arc<Self>,
        user: Option<&str>,
        params: &Params,
    ) -> Result<Option<RunningAttempt>, Failure> {
        let name = params.get("load");
        if name.is_empty() {
            return Ok(None);
        }
        let attempt = params.get("attempt").parse().ok().filter(|_| name.len() <= NAME_BYTES_MAX);
        let attempt: u64 = attempt.ok_or_else(|| {
            let words = format!(
                "load is a name of at most {NAME_BYTES_MAX} bytes, and needs attempt, the number of the attempt"
            );
            failure(StatusCode::BAD_REQUEST, words)
        })?;
        let key = LoadKey { user: user.map(str::to_owned), name: name.to_owned() };
        let running = self.announce(key.clone(), attempt)?;
        loop {
            let ended = self.ended.notified();
            if !self.must_wait(&key, attempt)? {
                return Ok(Some(running));
            }
            ended.await;
        }
    }

    fn announce(self: &Arc<Self>, key: LoadKey, attempt: u64) -> Result<RunningAttempt, Failure> {
        let mut loads = self.lock();
        let are_many = |loads: &HashMap<LoadKey, Load>| {
            loads.len() >= LOADS_MAX
                || loads.keys().filter(|known| known.user == key.user).count() >= LOADS_OF_USER_MAX
        };
        if !loads.contains_key(&key) && are_many(&loads) {
            loads.retain(|_, load| load.running + load.earlier > 0 || load.last.elapsed() < REMEMBERED);
            if are_many(&loads) {
                return Err(failure(StatusCode::SERVICE_UNAVAILABLE, "too many loads in an hour"));
            }
        }
        let load = loads.entry(key.clone());
        let load = load.or_insert_with(|| Load { attempt, running: 0, earlier: 0, last: Instant::now() });
        if attempt < load.attempt {
            return Err(overtaken());
        }
        if attempt > load.attempt {
            load.earlier += std::mem::take(&mut load.running);
            load.attempt = attempt;
        }
        load.running += 1;
        load.last = Instant::now();
        Ok(RunningAttempt { attempts: self.clone(), key, attempt })
    }

    /// Whether statements of earlier attempts run; an error if a later attempt has begun meanwhile.
    fn must_wait(&self, key: &LoadKey, attempt: u64) -> Result<bool, Failure> {
        match self.lock().get(key) {
            Some(load) if load.attempt > attempt => Err(overtaken()),
            load => Ok(load.is_some_and(|load| load.earlier > 0)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<LoadKey, Load>> {
        self.loads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RunningAttempt {
    fn drop(&mut self) {
        if let Some(load) = self.attempts.lock().get_mut(&self.key) {
            match load.attempt == self.attempt {
                true => load.running -= 1,
                false => load.earlier -= 1,
            }
            load.last = Instant::now();
        }
        self.attempts.ended.notify_waiters();
    }
}

fn overtaken() -> Failure {
    failure(StatusCode::CONFLICT, "a later attempt of this load has begun: nothing was executed")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(attempt: u64) -> Params {
        Params::parse(&format!("load=a&attempt={attempt}"))
    }

    #[tokio::test]
    async fn later_attempts_wait_for_earlier_ones_and_keep_others_out() {
        let attempts = Arc::new(LoadAttempts::default());
        assert!(attempts.begin(None, &Params::parse("db=d")).await.is_ok_and(|own| own.is_none()));
        assert!(attempts.begin(None, &Params::parse("load=a")).await.is_err());
        let first = attempts.begin(None, &params(1)).await.map_err(drop).unwrap();
        let beside = attempts.begin(None, &params(1)).await.map_err(drop).unwrap();
        let waiting = tokio::spawn({
            let attempts = attempts.clone();
            async move { attempts.begin(None, &params(2)).await.map_err(drop) }
        });
        tokio::task::yield_now().await;
        drop(first);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished(), "one of the first attempt runs");
        assert!(attempts.begin(None, &params(1)).await.is_err(), "it is too late");
        drop(beside);
        let second = waiting.await.unwrap().unwrap();
        assert!(second.is_some());
        assert!(attempts.begin(None, &params(2)).await.is_ok());
        // Of two that wait, the earlier one is told that it is overtaken.
        let third = tokio::spawn({
            let attempts = attempts.clone();
            async move { attempts.begin(None, &params(3)).await.map_err(drop) }
        });
        tokio::task::yield_now().await;
        let fourth = tokio::spawn({
            let attempts = attempts.clone();
            async move { attempts.begin(None, &params(4)).await.map_err(drop) }
        });
        tokio::task::yield_now().await;
        drop(second);
        assert!(third.await.unwrap().is_err());
        assert!(fourth.await.unwrap().is_ok());
        let loads = attempts.lock();
        let load = loads.values().next().expect("it is remembered");
        assert_eq!((loads.len(), load.running, load.earlier), (1, 0, 0));
    }

    #[tokio::test]
    async fn users_have_names_and_room_of_their_own() {
        let attempts = Arc::new(LoadAttempts::default());
        let later = attempts.begin(Some("ann"), &params(2)).await.map_err(drop).unwrap();
        assert!(attempts.begin(Some("bob"), &params(1)).await.is_ok());
        assert!(attempts.begin(Some("ann"), &params(1)).await.is_err());
        for number in 1..LOADS_OF_USER_MAX {
            let params = Params::parse(&format!("load={number}&attempt=1"));
            assert!(attempts.begin(Some("ann"), &params).await.is_ok(), "{number}");
        }
        let more = Params::parse("load=more&attempt=1");
        assert!(attempts.begin(Some("ann"), &more).await.is_err());
        assert!(attempts.begin(Some("bob"), &more).await.is_ok());
        assert!(attempts.begin(None, &more).await.is_ok());
        drop(later);
    }
}
