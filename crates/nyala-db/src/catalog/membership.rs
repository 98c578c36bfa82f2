//! Who may be in a measurement at the same time: writers share it, and whoever removes series or the measurement itself
//! has it alone, so that nothing is removed under a writer. Each measurement has its own: a removal keeps out who writes
//! to this measurement, and nobody else.
//!
//! Order of locks: what several measurements are needed for is locked in order of their tables, then `changing` of the
//! catalogue. A writer does not know its measurements before it has read its lines, with the ids it remembers; so it
//! enters without waiting, or gives up what it holds and waits for all (see `write.rs`).

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

    /// The same, unless somebody who removes has to be waited for.
    pub(super) fn try_share(&self) -> Option<OwnedRwLockReadGuard<()>> {
        self.lock.clone().try_read_owned().ok()
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
