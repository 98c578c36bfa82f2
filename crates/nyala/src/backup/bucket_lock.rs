//! Who uses the backups of a bucket now, so that nobody removes what another one needs.
//!
//! A bucket has no locks, but what was written is listed at once. So each command puts an object of its own into `locks/`, and
//! looks afterwards which others there are: of two that may not run together, at least one sees the other, and gives up.
//! Whoever has a lock writes it again from time to time. One that was not written for long is of a command that was killed.
//! The ages of locks are compared with that of one's own, so only the clock of the server counts.

use nyala_core::env::{Clock, SystemClock};
use nyala_files::{Bucket, FileErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

const LOCKS: &str = "locks";
/// A lock is written again after so long. With all that the client repeats, that takes two minutes more at most.
const REFRESH: Duration = Duration::from_secs(45);
/// One that is so much older than a new one is nobody's.
const STALE: Duration = Duration::from_secs(300);

/// What somebody does with the backups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Add,
    Read,
    Remove,
}

impl Purpose {
    const ALL: [Self; 3] = [Self::Add, Self::Read, Self::Remove];

    fn verb(self) -> &'static str {
        match self {
            Self::Add => "adds",
            Self::Read => "reads",
            Self::Remove => "removes",
        }
    }

    /// Nothing may happen beside a removal.
    fn excludes(self, other: Self) -> bool {
        self == Self::Remove || other == Self::Remove
    }
}

/// A lock, until it is dropped.
pub struct BucketLock {
    held: Arc<LockObject>,
    /// Ends the thread that refreshes it.
    end: Option<Sender<()>>,
    refreshing: Option<JoinHandle<()>>,
}

struct LockObject {
    bucket: Bucket,
    purpose: Purpose,
    path: String,
    /// Somebody has taken it for that of a killed command.
    is_lost: AtomicBool,
}

impl BucketLock {
    /// Takes a lock, or says who has another one. `None`: the place can only be read, and so is not removed from by its readers
    /// either.
    pub fn take(bucket: &Bucket, purpose: Purpose) -> Result<Option<Self>, String> {
        let own = format!("{}-{:x}-{:x}", purpose.verb(), SystemClock.now_ns(), std::process::id());
        let path = format!("{LOCKS}/{own}");
        let held = LockObject { bucket: bucket.clone(), purpose, path, is_lost: AtomicBool::new(false) };
        match held.write() {
            Err(_) if purpose == Purpose::Read => return Ok(None),
            written => written?,
        }
        if let Err(words) = held.check() {
            held.remove();
            return Err(words);
        }
        let held = Arc::new(held);
        let (end, ended) = channel();
        let refreshed = held.clone();
        let refresh = move || {
            while ended.recv_timeout(REFRESH) == Err(RecvTimeoutError::Timeout) {
                refreshed.refresh();
            }
        };
        let started = std::thread::Builder::new().name("lock".to_owned()).spawn(refresh);
        let refreshing = started.map_err(|error| format!("starting a thread: {error}"))?;
        Ok(Some(Self { held, end: Some(end), refreshing: Some(refreshing) }))
    }

    /// Whether it still keeps others away: a machine may have slept.
    pub fn check(&self) -> Result<(), String> {
        self.held.check()
    }
}

impl Drop for BucketLock {
    fn drop(&mut self) {
        drop(self.end.take());
        // It does not panic, and if it did, the lock is removed all the same.
        let _ = self.refreshing.take().map(JoinHandle::join);
        self.held.remove();
    }
}

impl LockObject {
    fn write(&self) -> Result<(), String> {
        let who = format!("process {}\n", std::process::id());
        self.bucket.put(&self.path, who.into_bytes()).map_err(|error| error.message)
    }

    /// What cannot be refreshed now may be later; [`LockObject::check`] finds out.
    fn refresh(&self) {
        match self.bucket.object(&self.path) {
            Err(error) if error.kind == FileErrorKind::Missing => {
                self.is_lost.store(true, Ordering::Relaxed);
            }
            _ if self.is_lost.load(Ordering::Relaxed) => {}
            _ => drop(self.write()),
        }
    }

    /// Looks whether it is there, and no other one that excludes it.
    fn check(&self) -> Result<(), String> {
        let url = self.bucket.url();
        let locks = self.bucket.folder(LOCKS).and_then(|folder| folder.objects());
        let locks = locks.map_err(|error| error.message)?;
        let (_, own_name) = self.path.split_once('/').unwrap_or_default();
        let own = locks.iter().find(|(name, _)| name == own_name);
        let Some((_, own)) = own.filter(|_| !self.is_lost.load(Ordering::Relaxed)) else {
            return Err(format!(
                "this command was not heard of for long, and {url} may have changed: try again"
            ));
        };
        for (name, lock) in &locks {
            let verb = name.split('-').next().unwrap_or_default();
            let Some(purpose) = Purpose::ALL.into_iter().find(|purpose| purpose.verb() == verb) else {
                continue;
            };
            if name == own_name || !purpose.excludes(self.purpose) {
                continue;
            }
            let age_ms = own.modified_ms.saturating_sub(lock.modified_ms);
            if u128::try_from(age_ms).is_ok_and(|age_ms| age_ms > STALE.as_millis()) {
                self.bucket.remove(&[format!("{LOCKS}/{name}")]).map_err(|error| error.message)?;
                continue;
            }
            return Err(format!(
                "another command {verb} the backups in {url} now, or was killed in the last {} minutes ({LOCKS}/{name}): \
                 try again when it is done",
                STALE.as_secs() / 60
            ));
        }
        Ok(())
    }

    /// What cannot be removed is stale before long.
    fn remove(&self) {
        drop(self.bucket.remove(std::slice::from_ref(&self.path)));
    }
}
