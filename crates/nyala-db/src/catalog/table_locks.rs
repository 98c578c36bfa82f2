//! The tables that a batch is written to, locked so that nobody removes series from them meanwhile.

use super::Measurement;
use nyala_core::TableId;
use std::sync::Arc;
use tokio::sync::OwnedRwLockReadGuard;

/// Shared locks on the tables of a batch.
#[derive(Default)]
pub(crate) struct TableLocks {
    /// In order of table ids.
    locks: Vec<(TableId, OwnedRwLockReadGuard<()>)>,
}

impl TableLocks {
    /// Whether the tables of all these measurements are locked, and none of the measurements was dropped.
    pub(crate) fn cover(&self, measurements: &[Arc<Measurement>]) -> bool {
        let is_locked = |measurement: &Arc<Measurement>| {
            self.locks.binary_search_by_key(&measurement.table(), |(table, _)| *table).is_ok()
                && !measurement.was_dropped()
        };
        measurements.iter().all(is_locked)
    }

    /// Locks the tables of measurements if this needs no waiting.
    pub(crate) fn try_lock(measurements: &[Arc<Measurement>]) -> Option<Self> {
        let mut locks = Vec::with_capacity(measurements.len());
        for measurement in in_order(measurements) {
            let table_lock = measurement.stored().table_lock();
            locks.push((measurement.table(), table_lock.try_lock_shared()?));
            if table_lock.was_dropped() {
                return None;
            }
        }
        Some(Self { locks })
    }

    /// Locks the tables of measurements, in place of those that are locked or beside them, if this needs no waiting. Returns
    /// whether all of them are locked now, and none of the measurements was dropped.
    pub(crate) fn try_cover(&mut self, measurements: &[Arc<Measurement>], beside: bool) -> bool {
        if self.cover(measurements) {
            return true;
        }
        let is_new = |measurement: &&Arc<Measurement>| {
            !beside || self.locks.binary_search_by_key(&measurement.table(), |(table, _)| *table).is_err()
        };
        let new: Vec<Arc<Measurement>> = measurements.iter().filter(is_new).cloned().collect();
        let Some(added) = Self::try_lock(&new) else { return false };
        match beside {
            true => self.locks.extend(added.locks),
            false => *self = added,
        }
        self.locks.sort_unstable_by_key(|(table, _)| *table);
        self.cover(measurements)
    }

    /// Waits for the tables of measurements and locks them, except those that were dropped. The caller holds no other
    /// table lock, nor anything else that a holder of an exclusive lock may wait for.
    pub(crate) async fn lock(measurements: &[Arc<Measurement>]) -> Self {
        let mut locks = Vec::with_capacity(measurements.len());
        for measurement in in_order(measurements) {
            let guard = measurement.stored().table_lock().lock_shared().await;
            if !measurement.stored().table_lock().was_dropped() {
                locks.push((measurement.table(), guard));
            }
        }
        Self { locks }
    }
}

/// Each table once, in order of table ids.
fn in_order(measurements: &[Arc<Measurement>]) -> Vec<&Arc<Measurement>> {
    let mut sorted: Vec<_> = measurements.iter().collect();
    sorted.sort_unstable_by_key(|measurement| measurement.table());
    sorted.dedup_by_key(|measurement| measurement.table());
    sorted
}
