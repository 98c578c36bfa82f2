//! The last failure of some work of the store, for health checks and metrics.

use nyala_core::Result;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// The last failure of one kind of work; nothing since it succeeded.
#[derive(Debug, Default)]
pub(crate) struct LastFailure {
    /// Read by every success.
    is_there: AtomicBool,
    message: Mutex<Option<String>>,
}

impl LastFailure {
    /// Records how the work ended.
    pub(crate) fn note<T>(&self, outcome: &Result<T>) {
        let message = match outcome {
            Ok(_) if !self.is_there.load(Ordering::Relaxed) => return,
            Ok(_) => None,
            Err(error) => Some(error.to_string()),
        };
        self.is_there.store(message.is_some(), Ordering::Relaxed);
        *self.message.lock() = message;
    }

    /// Why it failed, if it did when it was last tried.
    pub(crate) fn get(&self) -> Option<String> {
        self.is_there.load(Ordering::Relaxed).then(|| self.message.lock().clone())?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nyala_core::Error;

    #[test]
    fn a_success_ends_a_failure() {
        let failure = LastFailure::default();
        failure.note(&Ok(()));
        assert_eq!(failure.get(), None);
        failure.note::<()>(&Err(Error::retry("full")));
        assert!(failure.get().is_some_and(|message| message.contains("full")));
        failure.note(&Ok(()));
        assert_eq!(failure.get(), None);
    }
}
