//! The stages of a write, for tests that break it off at each of them.

use std::fmt;
use std::sync::Arc;

/// How far a batch has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It was let in; nothing is checked.
    Admitted,
    /// Its record is made.
    Encoded,
    /// The log has its record, perhaps not yet on disk.
    Submitted,
    /// The log's promise is kept; nothing is in memory.
    Logged,
    /// The rows of one partition are in memory.
    Applying,
    /// All rows are in memory; readers do not see them.
    Applied,
}

/// Called at every stage of every write, in the thread that is at it.
#[derive(Clone, Default)]
pub struct StageHook(Option<Arc<dyn Fn(Stage) + Send + Sync>>);

impl StageHook {
    /// A hook that calls `visit`.
    pub fn new(visit: impl Fn(Stage) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(visit)))
    }

    #[inline]
    pub(crate) fn at(&self, stage: Stage) {
        if let Some(visit) = &self.0 {
            visit(stage);
        }
    }
}

impl fmt::Debug for StageHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "StageHook(set)" } else { "StageHook(none)" })
    }
}
