//! Ctrl-C: ends the statement that runs, and nothing else.

use crate::error::{Result, ShellError};
use nyala_client::Canceller;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

/// What Ctrl-C ends.
#[derive(Clone, Default)]
pub(crate) struct Interrupt(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    /// Ctrl-C was pressed since the statement began.
    is_pressed: bool,
    /// The request under way.
    request: Option<Canceller>,
}

impl Interrupt {
    /// Handles SIGINT from now on. Without it, Ctrl-C ends the program.
    pub(crate) fn listen(&self) -> Result<()> {
        let failed = |error: std::io::Error| ShellError::Command(format!("waiting for Ctrl-C: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let mut pressed = runtime.block_on(async { signal(SignalKind::interrupt()) }).map_err(failed)?;
        let interrupt = self.clone();
        let body = move || {
            runtime.block_on(async {
                while pressed.recv().await.is_some() {
                    interrupt.press();
                }
            });
        };
        std::thread::Builder::new().name("interrupts".into()).spawn(body).map_err(failed)?;
        Ok(())
    }

    /// A statement begins: what was pressed before does not count.
    pub(crate) fn begin(&self) {
        *self.state() = State::default();
    }

    /// A request of the statement begins.
    pub(crate) fn watch(&self, request: Canceller) {
        let mut state = self.state();
        if state.is_pressed {
            request.cancel();
        }
        state.request = Some(request);
    }

    /// Whether Ctrl-C was pressed since the statement began.
    pub(crate) fn is_pressed(&self) -> bool {
        self.state().is_pressed
    }

    /// Waits so long, or until Ctrl-C is pressed: then it is true.
    pub(crate) fn is_pressed_within(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut state = self.state();
        while !state.is_pressed {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.0.1.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn press(&self) {
        let mut state = self.state();
        state.is_pressed = true;
        state.request.iter().for_each(Canceller::cancel);
        self.0.1.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
