//! What the server is at: starting, serving, stopping. Read by every health check, and set from outside.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

// 0 is starting.
const RECOVERING: u8 = 1;
const READY: u8 = 2;
const STOPPING: u8 = 3;

/// What the server is at.
#[derive(Debug, Default)]
pub struct Stage {
    now: AtomicU8,
    replayed_bytes: AtomicU64,
}

impl Stage {
    /// Bytes of the log were replayed.
    pub fn recovering(&self, replayed_bytes: u64) {
        self.replayed_bytes.store(replayed_bytes, Ordering::Relaxed);
        self.now.store(RECOVERING, Ordering::Release);
    }

    /// Requests are answered from now on.
    pub fn ready(&self) {
        self.now.store(READY, Ordering::Release);
    }

    /// A shutdown has begun.
    pub fn stopping(&self) {
        self.now.store(STOPPING, Ordering::Release);
    }

    /// Whether queries and writes are answered, and words about it.
    pub fn describe(&self) -> (bool, String) {
        match self.now.load(Ordering::Acquire) {
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
