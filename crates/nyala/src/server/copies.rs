//! The copies of the store that backups are made of, as the server makes and removes them.
//!
//! There is one at a time. Its reader, `nyala backup`, holds its lease and says when it is done. A reader that was killed
//! says nothing, and its lease is free: then the copy is removed after a moment.

use super::metric::Metric;
use crate::backup::copies::{self, CopiedStore, CopyPlace};
use nyala_core::env::ClockRef;
use nyala_core::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// Who asked for a copy takes its lease within this time, or has gone.
const LEASE_WAIT: Duration = Duration::from_secs(10);

/// How often copies are looked for whose readers were killed.
const LOOK_INTERVAL: Duration = Duration::from_secs(30);

/// Makes a copy of the store in a directory. Blocks.
type CopyTo = dyn Fn(&Path) -> Result<CopiedStore> + Send + Sync;

/// Makes and removes copies.
pub struct Copies {
    data_dir: PathBuf,
    copy_to: Box<CopyTo>,
    clock: ClockRef,
    /// Locked while a copy is made.
    making: Mutex<()>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The copy that was made last, and when.
    current: Option<(CopyPlace, Instant)>,
    backups: u64,
    failures: u64,
    last: LastBackup,
}

/// The last backup that was finished.
#[derive(Default)]
struct LastBackup {
    time_seconds: u64,
    duration: Duration,
    bytes: u64,
    new_bytes: u64,
}

/// What a copy was good for.
#[derive(Debug, Clone, Copy)]
pub enum Ended {
    /// A backup was made of it, which has so much.
    Finished { bytes: u64, new_bytes: u64 },
    /// It was read, and is no backup.
    Read,
    /// There is no backup.
    GivenUp,
}

impl Copies {
    pub fn new(data_dir: PathBuf, copy_to: Box<CopyTo>, clock: ClockRef) -> Self {
        Self { data_dir, copy_to, clock, making: Mutex::default(), state: Mutex::default() }
    }

    /// Makes a copy. A conflict if there is one that somebody reads. Blocks.
    pub fn make(&self) -> Result<(CopyPlace, CopiedStore)> {
        let _making = match self.making.try_lock() {
            Ok(making) => making,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Err(Error::conflict("a backup is being started already"));
            }
        };
        if let Some(name) = self.remove_unread()?.into_iter().next() {
            let seconds = LOOK_INTERVAL.as_secs();
            return Err(Error::conflict(format!(
                "a backup or a move is under way already: its copy is {name}; if its program has ended, try again in {seconds} seconds"
            )));
        }
        let (place, lease) = CopyPlace::new(&self.data_dir, self.clock.now_ns()).map_err(failed)?;
        let made = (self.copy_to)(&place.dir);
        let copied = match made {
            Ok(copied) => copied,
            Err(error) => {
                self.state().failures += 1;
                // The next one removes it if this fails.
                let _ = place.remove();
                return Err(error);
            }
        };
        self.state().current = Some((place.clone(), Instant::now()));
        drop(lease);
        Ok((place, copied))
    }

    /// Removes a copy. Blocks.
    pub fn end(&self, name: &str, ended: Ended) -> Result<()> {
        let known = self.state().current.take_if(|(place, _)| place.name == name);
        let Some((place, since)) = known else {
            return Err(Error::missing(format!("there is no copy {name:?}")));
        };
        let mut state = self.state();
        match ended {
            Ended::GivenUp => state.failures += 1,
            Ended::Read => {}
            Ended::Finished { bytes, new_bytes } => {
                let time_seconds = (self.clock.now_ns() / 1_000_000_000) as u64;
                state.backups += 1;
                state.last = LastBackup { time_seconds, duration: since.elapsed(), bytes, new_bytes };
            }
        }
        drop(state);
        place.remove().map_err(failed)
    }

    /// Removes copies whose readers were killed.
    pub async fn keep_clear(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(LOOK_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let copies = self.clone();
            // A panic is logged by the panic itself.
            if let Ok(Err(error)) = tokio::task::spawn_blocking(move || copies.remove_unread()).await {
                tracing::warn!(%error, "cannot remove a copy that was made for a backup: it keeps space");
            }
        }
    }

    /// Removes copies that nobody reads, and returns the names of the others. Blocks.
    pub fn remove_unread(&self) -> Result<Vec<String>> {
        let awaited = {
            let state = self.state();
            let recent = state.current.as_ref().filter(|(_, since)| since.elapsed() < LEASE_WAIT);
            recent.map(|(place, _)| place.name.clone())
        };
        let mut left = copies::remove_unread(&self.data_dir, awaited.as_deref()).map_err(failed)?;
        let mut state = self.state();
        let is_gone = |name: &String| awaited.as_ref() != Some(name) && !left.contains(name);
        if state.current.take_if(|(place, _)| is_gone(&place.name)).is_some() {
            state.failures += 1;
            tracing::warn!("a backup ended without a word: what was kept for it is removed");
        }
        left.extend(awaited);
        Ok(left)
    }

    pub fn metrics(&self) -> Vec<Metric> {
        let State { backups, failures, last, .. } = &*self.state();
        let (counter, gauge) = (Metric::counter, Metric::gauge);
        vec![
            counter("nyala_backups_total", "Backups that were finished.", *backups),
            counter("nyala_backup_failures_total", "Backups that were begun and not finished.", *failures),
            gauge(
                "nyala_backup_last_time_seconds",
                "When the last backup since the start was finished, in seconds since 1970.",
                last.time_seconds,
            ),
            gauge("nyala_backup_last_bytes", "Bytes of the last backup.", last.bytes),
            gauge(
                "nyala_backup_last_new_bytes",
                "Bytes that the last backup has and the one before had not.",
                last.new_bytes,
            ),
            Metric::duration(
                "nyala_backup_last_duration_seconds",
                "How long the last backup took.",
                last.duration,
            ),
        ]
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code under this lock can panic and leave a change unfinished.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn failed(words: String) -> Error {
    Error::new(ErrorKind::Io, words)
}
