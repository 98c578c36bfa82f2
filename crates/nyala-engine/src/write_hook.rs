//! The steps of a write, and of changes of the manifest, for tests that break these off at each of them.

use std::fmt;
use std::sync::Arc;

/// How far a batch or a change has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteStep {
    /// It was admitted; nothing is checked.
    Admitted,
    /// Its record is encoded.
    Encoded,
    /// The log has its record, perhaps not yet on disk.
    Submitted,
    /// The log has stored it as its sync policy promises; nothing is in memory.
    Logged,
    /// The rows of one partition are in memory.
    Applying,
    /// All rows are in memory; readers do not see them.
    Applied,
    /// The rows of a large stage are in files; its commit is about to lock its tables.
    Adopting,
    /// The manifest has a change, by whatever work; readers do not see it.
    Committed,
}

/// Called at every step, in the thread that takes it.
#[derive(Clone, Default)]
pub struct WriteHook(Option<Arc<dyn Fn(WriteStep) + Send + Sync>>);

impl WriteHook {
    /// A hook that calls `visit`.
    pub fn new(visit: impl Fn(WriteStep) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(visit)))
    }

    #[inline]
    pub(crate) fn call(&self, step: WriteStep) {
        if let Some(visit) = &self.0 {
            visit(step);
        }
    }
}

impl fmt::Debug for WriteHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "WriteHook(set)" } else { "WriteHook(none)" })
    }
}
