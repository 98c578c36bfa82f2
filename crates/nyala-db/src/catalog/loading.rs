//! Loading the series of a table that several servers write to, while this server goes on following the log of changes.
//!
//! The records of a large table are read for seconds. What the log says meanwhile of its series is kept, and made up for when
//! they are read. Only at the end the log stands still for a moment.

use super::missed_changes::MissedChanges;
use super::series_table::{Loaded, SeriesTable};
use crate::records::{Applied, ChangeLog, SeriesChange};
use nyala_core::Result;
use parking_lot::Mutex;
use tokio::sync::MutexGuard;

/// So often changes are made up for while the log goes on. Those that came last are made while it stands still.
const ROUNDS: usize = 4;

/// Forgets missed changes when loading ends, also if it fails or is given up.
struct Loading<'a>(&'a Mutex<Option<MissedChanges>>);

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}

impl SeriesTable {
    /// Reads the series, and makes up for what the log has said of them meanwhile. From then on it stands still until
    /// `paused` is dropped.
    pub(super) async fn read_beside<'a>(
        &self,
        log: &'a ChangeLog,
        paused: &mut Option<MutexGuard<'a, Applied>>,
    ) -> Result<Loaded> {
        let recent = {
            let applied = log.pause().await;
            *self.missed.lock() = Some(MissedChanges::default());
            applied.recent(self.table())
        };
        let _loading = Loading(&self.missed);
        let loaded = self.loaded_from(Self::read(&[self]).await?.remove(0), recent);
        for _ in 0..ROUNDS {
            let changes = self.take_missed();
            if changes.is_empty() {
                break;
            }
            self.make_all(&loaded, &changes).await?;
        }
        let applied = log.pause().await;
        let are_too_many = self.missed.lock().as_ref().is_some_and(MissedChanges::are_too_many);
        let changes = match are_too_many {
            true => vec![(0, SeriesChange::Everything(applied.recent(self.table())))],
            false => self.take_missed(),
        };
        self.make_all(&loaded, &changes).await?;
        *paused = Some(applied);
        Ok(loaded)
    }

    async fn make_all(&self, loaded: &Loaded, changes: &[(i64, SeriesChange)]) -> Result<()> {
        for (number, change) in changes {
            self.make(loaded, *number, change).await?;
        }
        Ok(())
    }

    fn take_missed(&self) -> Vec<(i64, SeriesChange)> {
        let mut missed = self.missed.lock();
        missed.as_mut().map_or_else(Vec::new, MissedChanges::take)
    }

    /// Keeps a change if the series are being read.
    pub(super) fn note_missed(&self, number: i64, change: &SeriesChange) {
        if let Some(missed) = &mut *self.missed.lock() {
            missed.note(number, change);
        }
    }
}
