//! The lock on a table of points. Writers hold it shared. Whoever removes series, or the table itself, holds it
//! exclusively, so that nothing is removed under a writer; so does who gives its new shards another width. Each
//! table has its own lock: a removal only blocks writers to this table. Other servers of a shared store are not
//! locked out: what they remove is applied at any time, and writers compare these counts again before they
//! acknowledge (`write.rs`).
//!
//! Order of locks: several tables are locked in order of their ids, then `changing` of the catalog. A writer does not
//! know its tables before it has parsed its lines with the ids that it has cached. So it first tries all locks without
//! waiting; if that fails, it releases everything and waits for all of them in order (see `write.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// The lock on one table.
#[derive(Default)]
pub(crate) struct TableLock {
    lock: Arc<RwLock<()>>,
    /// The number of removals of series. Ids that were cached before a removal may be of removed series.
    removals: AtomicU64,
    /// How often a tag was renamed. Ids that were cached before may be of series with other tags by now.
    renamed_tags: AtomicU64,
    /// Whether the table was dropped. Another measurement may have its name by now.
    dropped: AtomicBool,
}

impl TableLock {
    /// Locks out removals, together with other writers.
    pub(crate) async fn lock_shared(&self) -> OwnedRwLockReadGuard<()> {
        self.lock.clone().read_owned().await
    }

    /// The same, or `None` if this would have to wait.
    pub(super) fn try_lock_shared(&self) -> Option<OwnedRwLockReadGuard<()>> {
        self.lock.clone().try_read_owned().ok()
    }

    /// Locks out writers and other removals.
    pub(crate) async fn lock_exclusive(&self) -> OwnedRwLockWriteGuard<()> {
        self.lock.clone().write_owned().await
    }

    /// The number of removals of series. Does not change while the lock is held, but by other servers.
    pub(crate) fn removals(&self) -> u64 {
        self.removals.load(Ordering::Acquire)
    }

    /// Counts a removal of series. The caller holds the lock exclusively, unless it applies what another server did.
    pub(crate) fn note_removal(&self) {
        self.removals.fetch_add(1, Ordering::Release);
    }

    /// How often a tag was renamed. Does not change while the lock is held.
    pub(crate) fn renamed_tags(&self) -> u64 {
        self.renamed_tags.load(Ordering::Acquire)
    }

    /// Counts that a tag was renamed. The caller holds the lock exclusively.
    pub(crate) fn note_renamed_tag(&self) {
        self.renamed_tags.fetch_add(1, Ordering::Release);
    }

    /// Whether the table was dropped. Does not change while the lock is held, but by other servers.
    pub(crate) fn was_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    /// Marks the table as dropped. The caller holds the lock exclusively, unless it applies what another server did.
    /// Returns whether it was not marked before.
    pub(crate) fn mark_dropped(&self) -> bool {
        !self.dropped.swap(true, Ordering::AcqRel)
    }
}
