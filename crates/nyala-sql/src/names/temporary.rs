//! What names mean of temporary relations.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How a statement names temporary relations.
#[derive(Debug, Clone)]
pub(crate) struct TemporaryNames {
    /// Whether names without a schema mean them: the queries of other views were written without knowing them.
    pub(super) are_seen: bool,
    /// Whether any was named.
    are_used: Arc<AtomicBool>,
}

impl Default for TemporaryNames {
    fn default() -> Self {
        Self { are_seen: true, are_used: Arc::default() }
    }
}

impl TemporaryNames {
    pub(super) fn note_used(&self) {
        self.are_used.store(true, Ordering::Relaxed);
    }

    /// Whether any was named.
    pub(crate) fn are_used(&self) -> bool {
        self.are_used.load(Ordering::Relaxed)
    }
}
