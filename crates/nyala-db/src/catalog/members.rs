//! The measurements that a batch is written to, held so that nobody removes series from them meanwhile.

use super::Measurement;
use nyala_core::TableId;
use std::sync::Arc;
use tokio::sync::OwnedRwLockReadGuard;

/// The measurements of a batch, from which nobody removes anything meanwhile.
#[derive(Default)]
pub(crate) struct Members {
    /// In order of their tables.
    held: Vec<(TableId, OwnedRwLockReadGuard<()>)>,
}

impl Members {
    /// Whether all of these are held, and there.
    pub(crate) fn hold(&self, measurements: &[Arc<Measurement>]) -> bool {
        let is_held = |measurement: &Arc<Measurement>| {
            self.held.binary_search_by_key(&measurement.table(), |(table, _)| *table).is_ok()
                && !measurement.has_ended()
        };
        measurements.iter().all(is_held)
    }

    /// Holds measurements if nobody has to be waited for.
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

    /// Waits for measurements and holds them, except those that are no more. The caller holds none, nor what somebody
    /// who removes may wait for.
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

/// Each measurement once, in order of their tables.
fn in_order(measurements: &[Arc<Measurement>]) -> Vec<&Arc<Measurement>> {
    let mut sorted: Vec<_> = measurements.iter().collect();
    sorted.sort_unstable_by_key(|measurement| measurement.table());
    sorted.dedup_by_key(|measurement| measurement.table());
    sorted
}
