//! Which writers run at the same time.
//!
//! Every batch shares the locks of the tables it writes to. Operations that must look before they write hold these
//! locks exclusively: deletes and updates by predicate, changes of a table, large conditional batches. Nothing changes
//! in their tables between the look and the write, however long it takes, and batches for other tables go on. Small
//! conditional batches hold the locks exclusively only until the log has them, and claim their keys for the time after
//! that (see `claims.rs`).
//!
//! A batch shares the lock of the store from before it has a sequence until it is applied, which is short. While the
//! lock is held exclusively, no batch is under way: every sequence that was given out is applied or has failed.
//!
//! Order of locks: locks of tables by ascending id, the store's lock, catalog, version.

use super::Writer;
use nyala_core::{Result, TableId};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard};

/// How the lock of a table is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LockMode {
    Shared,
    /// Exclusively until the log has the batch. Batches that claimed keys may still be under way.
    Claiming,
    Exclusive,
}

/// The locks of some tables, held.
pub(crate) struct TableLocks(Vec<TableLock>);

#[expect(dead_code, reason = "held for their drop")]
enum TableLock {
    Shared(OwnedRwLockReadGuard<()>),
    Claiming(OwnedRwLockWriteGuard<()>),
    Exclusive(OwnedRwLockWriteGuard<()>),
}

impl TableLocks {
    /// Releases the locks of tables whose keys are claimed now.
    pub(crate) fn release_claimed(&mut self) {
        self.0.retain(|lock| !matches!(lock, TableLock::Claiming(_)));
    }
}

impl Writer {
    /// Waits for the locks of tables. After an exclusive lock was taken, everything that was written to its table
    /// before is visible.
    pub(crate) async fn lock_tables(&self, mut tables: Vec<(TableId, LockMode)>) -> Result<TableLocks> {
        // When a table is named twice, the stricter mode is taken.
        tables.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        tables.dedup_by_key(|(id, _)| *id);
        let version = self.versions.current();
        let mut locks = Vec::with_capacity(tables.len());
        for (id, mode) in &tables {
            let lock = version.table(*id)?.lock.clone();
            locks.push(match mode {
                LockMode::Shared => TableLock::Shared(lock.read_owned().await),
                LockMode::Claiming => TableLock::Claiming(lock.write_owned().await),
                LockMode::Exclusive => TableLock::Exclusive(lock.write_owned().await),
            });
        }
        if tables.iter().any(|(_, mode)| *mode == LockMode::Exclusive) {
            // A batch releases its locks when it is applied. It is visible when all batches before it are, of whatever
            // table.
            let watermark = &self.versions.watermark;
            watermark.check()?;
            watermark.reached(self.log.wal().next_sequence() - 1).await?;
        }
        Ok(TableLocks(locks))
    }
}
