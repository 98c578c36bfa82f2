//! Ctrl-C and SIGTERM: noted, so that what runs is stopped and removed before the process ends.

use std::sync::{Arc, Condvar, Mutex};
use tokio::signal::unix::{SignalKind, signal};

/// Whether a signal has come.
pub(super) struct Interrupt {
    state: Arc<(Mutex<bool>, Condvar)>,
}

impl Interrupt {
    /// Listens from now on. No signal of them ends the process any more, also no second one: cleaning up takes seconds.
    pub(super) fn listen() -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("waiting for signals: {error}");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let both = || Ok((signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?));
        let (mut interrupt, mut terminate) = runtime.block_on(async { both() }).map_err(failed)?;
        let state = Arc::new((Mutex::new(false), Condvar::new()));
        let noted = state.clone();
        let body = move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
            });
            *noted.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = true;
            noted.1.notify_all();
        };
        std::thread::Builder::new().name("signals".into()).spawn(body).map_err(failed)?;
        Ok(Self { state })
    }

    pub(super) fn has_come(&self) -> bool {
        *self.state.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns when a signal comes, or has come.
    pub(super) fn wait(&self) {
        let come = self.state.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let waited = self.state.1.wait_while(come, |come| !*come);
        drop(waited.unwrap_or_else(|poisoned| poisoned.into_inner()));
    }
}
