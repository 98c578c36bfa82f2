//! Who writes beside whom.
//!
//! Every batch shares the gates of the tables it writes to. Who must look before it writes (deletes and updates by
//! predicate, changes of a table, large conditional batches) holds those tables' gates alone: nothing changes in them
//! between the look and the write, however long it takes, and batches for other tables go on. Small conditional batches
//! hold them alone only until the log has them, and claim their keys for the time after it (see `claims`).
//!
//! The store's gate is shared from before a batch has a sequence until it is applied, which is short. Held alone, no
//! batch is under way: every sequence given out is applied, or failed.
//!
//! Order of locks: gates of tables by ascending id, the store's gate, catalog, version.

use super::Writer;
use nyala_core::{Result, TableId};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard};

/// How a table's gate is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Access {
    Shared,
    /// Alone until the log has the batch; what others have claimed may still be on its way.
    Claiming,
    Alone,
}

/// The gates of some tables, held.
pub(crate) struct TableGates(Vec<TableGate>);

#[expect(dead_code, reason = "held for their drop")]
enum TableGate {
    Shared(OwnedRwLockReadGuard<()>),
    Claiming(OwnedRwLockWriteGuard<()>),
    Alone(OwnedRwLockWriteGuard<()>),
}

impl TableGates {
    /// Leaves those of which the keys are claimed now.
    pub(crate) fn leave_claimed(&mut self) {
        self.0.retain(|gate| !matches!(gate, TableGate::Claiming(_)));
    }
}

impl Writer {
    /// Waits for the gates of tables. If one is held alone, everything that was written to it before is visible then.
    pub(crate) async fn enter_tables(&self, mut tables: Vec<(TableId, Access)>) -> Result<TableGates> {
        // Of one table named twice the stricter access is taken.
        tables.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        tables.dedup_by_key(|(id, _)| *id);
        let version = self.versions.current();
        let mut gates = Vec::with_capacity(tables.len());
        for (id, access) in &tables {
            let gate = version.table(*id)?.gate.clone();
            gates.push(match access {
                Access::Shared => TableGate::Shared(gate.read_owned().await),
                Access::Claiming => TableGate::Claiming(gate.write_owned().await),
                Access::Alone => TableGate::Alone(gate.write_owned().await),
            });
        }
        if tables.iter().any(|(_, access)| *access == Access::Alone) {
            // A batch leaves its gates when it is applied, and is visible when all before it are, of whatever table.
            let watermark = &self.versions.watermark;
            watermark.check()?;
            watermark.reached(self.log.wal().next_sequence() - 1).await?;
        }
        Ok(TableGates(gates))
    }
}
