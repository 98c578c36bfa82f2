//! Whether the server starts, recovers, serves or stops. `assemble` sets it; every health check reads it.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

// 0 is starting.
const RECOVERING: u8 = 1;
const READY: u8 = 2;
const STOPPING: u8 = 3;

/// The state of the server.
#[derive(Debug, Default)]
pub struct Lifecycle {
    state: AtomicU8,
    replayed_bytes: AtomicU64,
}

impl Lifecycle {
    /// The log is being replayed, so far this many bytes.
    pub fn recovering(&self, replayed_bytes: u64) {
        self.replayed_bytes.store(replayed_bytes, Ordering::Relaxed);
        self.state.store(RECOVERING, Ordering::Release);
    }

    /// From now on queries and writes are answered.
    pub fn ready(&self) {
        self.state.store(READY, Ordering::Release);
    }

    /// A shutdown has begun.
    pub fn stopping(&self) {
        self.state.store(STOPPING, Ordering::Release);
    }

    /// Whether queries and writes are answered, and a message about it.
    pub fn describe(&self) -> (bool, String) {
        match self.state.load(Ordering::Acquire) {
            READY => (true, "ready for queries and writes".to_owned()),
            STOPPING => (false, "stopping".to_owned()),
            RECOVERING => {
                let replayed = self.replayed_bytes.load(Ordering::Relaxed) >> 10;
                (false, format!("recovering: {replayed} KiB of the log replayed"))
            }
            _ => (false, "starting".to_owned()),
        }
    }
}
