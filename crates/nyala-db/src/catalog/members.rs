//! The tables that a batch is written to, locked so that nobody removes series from them meanwhile.

use super::Measurement;
use nyala_core::TableId;
use std::sync::Arc;
use tokio::sync::OwnedRwLockReadGuard;

/// Shared locks on the tables of a batch.
#[derive(Default)]
pub(crate) struct Members {
    /// In order of table ids.
    held: Vec<(TableId, OwnedRwLockReadGuard<()>)>,
}

impl Members {
    /// Whether the tables of all these measurements are locked, and none of the measurements was dropped.
    pub(crate) fn hold(&self, measurements: &[Arc<Measurement>]) -> bool {
        let is_held = |measurement: &Arc<Measurement>| {
            self.held.binary_search_by_key(&measurement.table(), |(table, _)| *table).is_ok()
                && !measurement.has_ended()
        };
        measurements.iter().all(is_held)
    }

    /// Locks the tables of measurements if this needs no waiting.
    pub(crate) fn try_share(measurements: &[Arc<Measurement>]) -> Option<Self> {
        let mut held = Vec::with_capacity(measurements.len());
        for measurement in in_order(measurements) {
            let membership = measurement.stored().membership();
            held.push((measurement.table(), membership.try_share()?));
            if membership.has_ended() {
                return None;
            }
        }
        Some(Self { held })
    }

    /// Waits for the tables of measurements and locks them, except those that were dropped. The caller holds no other
    /// table lock, nor anything else that a holder of an exclusive lock may wait for.
    pub(crate) async fn share(measurements: &[Arc<Measurement>]) -> Self {
        let mut held = Vec::with_capacity(measurements.len());
        for measurement in in_order(measurements) {
            let guard = measurement.stored().membership().share().await;
            if !measurement.stored().membership().has_ended() {
                held.push((measurement.table(), guard));
            }
        }
        Self { held }
    }
}

/// Each table once, in order of table ids.
fn in_order(measurements: &[Arc<Measurement>]) -> Vec<&Arc<Measurement>> {
    let mut sorted: Vec<_> = measurements.iter().collect();
    sorted.sort_unstable_by_key(|measurement| measurement.table());
    sorted.dedup_by_key(|measurement| measurement.table());
    sorted
}
