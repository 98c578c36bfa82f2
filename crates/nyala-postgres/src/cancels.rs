//! Which query a request to cancel is about.
//!
//! A client learns a number and a secret when its session begins. Whoever sends both on another connection cancels what the
//! session executes. Nothing is answered, so nobody learns whether they were right.

use nyala_sql::CancelHandle;
use parking_lot::Mutex;
use ring::rand::{SecureRandom, SystemRandom};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

/// The sessions whose queries can be cancelled.
#[derive(Default)]
pub struct Cancels {
    sessions: Mutex<HashMap<i32, (i32, CancelHandle)>>,
    last: AtomicI32,
}

/// Keeps a session in the list until it is dropped.
pub struct CancelKey {
    list: Arc<Cancels>,
    /// The number of the session.
    pub number: i32,
    /// What only its client knows.
    pub secret: i32,
}

impl Cancels {
    /// Enters a session; `None` if the system gives no random numbers.
    pub fn enter(self: &Arc<Self>, handle: CancelHandle) -> Option<CancelKey> {
        let mut secret = [0; 4];
        SystemRandom::new().fill(&mut secret).ok()?;
        let secret = i32::from_be_bytes(secret);
        let mut sessions = self.sessions.lock();
        // Numbers come again only after 2^31 sessions. Clients expect that of a process, which is positive.
        let number = loop {
            let number = self.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1) & i32::MAX;
            if number > 0 && !sessions.contains_key(&number) {
                break number;
            }
        };
        sessions.insert(number, (secret, handle));
        drop(sessions);
        Some(CancelKey { list: self.clone(), number, secret })
    }

    /// Cancels what a session executes, if the secret is right.
    pub fn cancel(&self, number: i32, secret: i32) {
        let found = self.sessions.lock().get(&number).cloned();
        if let Some((_, handle)) = found.filter(|(own, _)| *own == secret) {
            handle.cancel();
        }
    }
}

impl Drop for CancelKey {
    fn drop(&mut self) {
        self.list.sessions.lock().remove(&self.number);
    }
}
