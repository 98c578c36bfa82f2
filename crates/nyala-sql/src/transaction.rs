//! A transaction of a session: one snapshot for all that it reads.

use nyala_core::store::SnapshotRef;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// Whether a session is in a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionStatus {
    /// It is in none: each statement is a transaction of its own.
    Idle,
    /// It is in one.
    Active,
    /// A statement of it failed: all others fail until it is rolled back.
    Failed,
}

/// A transaction that was begun.
#[derive(Default)]
pub(crate) struct Transaction {
    /// What it shows, taken by its first statement.
    pub(crate) snapshot: Arc<OnceCell<SnapshotRef>>,
    pub(crate) has_failed: bool,
}
