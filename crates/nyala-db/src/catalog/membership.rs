//! Who may be in a measurement at the same time: writers share it, and whoever removes series or the measurement itself
//! has it alone, so that nothing is removed under a writer. Each measurement has its own: a removal keeps out who writes
//! to this measurement, and nobody else.
//!
//! Order of locks: what several measurements are needed for is locked in order of their tables, then `changing` of the
//! catalogue. A writer does not know its measurements before it has read its lines, with the ids it remembers; so it
//! enters without waiting, or gives up what it holds and waits for all (see `write.rs`).

use super::Measurement;
use nyala_core::TableId;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// Of one measurement.
#[derive(Default)]
pub(crate) struct Membership {
    lock: Arc<RwLock<()>>,
    /// How often series were removed: ids remembered from before may be of series that are gone.
    removals: AtomicU64,
    /// The measurement is no more. Its name may stand for another.
    ended: AtomicBool,
}

impl Membership {
    /// Keeps whoever removes out, with other writers.
    pub(crate) async fn share(&self) -> OwnedRwLockReadGuard<()> {
        self.lock.clone().read_owned().await
    }

    /// Keeps writers out, and others who remove.
    pub(crate) async fn own(&self) -> OwnedRwLockWriteGuard<()> {
        self.lock.clone().write_owned().await
    }

    /// How often series were removed. Does not change while it is shared.
    pub(crate) fn removals(&self) -> u64 {
        self.removals.load(Ordering::Acquire)
    }

    /// Series were removed by who owns it.
    pub(crate) fn note_removal(&self) {
        self.removals.fetch_add(1, Ordering::Release);
    }

    /// Whether the measurement is no more. Does not change while it is shared.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// The measurement was dropped by who owns it.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }
}

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
            held.push((measurement.table(), membership.lock.clone().try_read_owned().ok()?));
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
