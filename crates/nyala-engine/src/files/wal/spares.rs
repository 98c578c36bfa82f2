//! Files that wait to become segments, and how more of them are asked for; `spare_maker.rs` makes them.

use std::path::PathBuf;

use parking_lot::{Condvar, Mutex};

pub(super) const SPARE_SUFFIX: &str = ".spare";
/// A file that a segment can be written to.
#[derive(Debug)]
pub(super) struct Spare {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
}

/// What the log asks of the thread that makes spares.
#[derive(Debug, Default)]
pub(super) struct Demand {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    wanted_bytes: Option<u64>,
    /// How often everything that was asked for was given up.
    given_up: u64,
    is_closed: bool,
}

/// A spare that was asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order {
    pub(super) bytes: u64,
    given_up: u64,
}

impl Demand {
    /// Asks for a spare of so many bytes.
    pub(super) fn want(&self, bytes: u64) {
        self.state.lock().wanted_bytes = Some(bytes);
        self.changed.notify_one();
    }

    /// Takes back what was asked for, also what is being made.
    pub(super) fn give_up(&self) {
        let mut state = self.state.lock();
        state.wanted_bytes = None;
        state.given_up += 1;
    }

    /// Ends the thread.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// Waits for the next order; none when the log closes.
    pub(super) fn wait(&self) -> Option<Order> {
        let mut state = self.state.lock();
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(bytes) = state.wanted_bytes.take() {
                return Some(Order { bytes, given_up: state.given_up });
            }
            self.changed.wait(&mut state);
        }
    }

    /// Whether what was ordered is still wanted.
    pub(super) fn is_open(&self, order: &Order) -> bool {
        let state = self.state.lock();
        !state.is_closed && state.given_up == order.given_up
    }
}
