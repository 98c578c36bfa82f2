//! Keys that conditional batches on their way to the log have changed.
//!
//! Such a batch looks at what there is, is handed to the log, and leaves its tables: others need not wait for its sync.
//! Until it is applied nobody finds its rows in memory, so it claims their keys. Who comes upon a claimed key waits until
//! that batch is visible or has failed, and looks again.
//!
//! Batches that look at nothing need no claim: their sequences say who is newer.

use hashbrown::HashMap;
use nyala_core::TableId;
use parking_lot::Mutex;
use std::sync::Arc;

/// A key of a table, encoded.
pub(crate) type ClaimedKey = (TableId, Vec<u8>);

/// All claims, each with the sequence of its batch.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    keys: Mutex<HashMap<ClaimedKey, u64>>,
}

/// The claims of a batch, given up when it is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    claims: Arc<Claims>,
    keys: Vec<ClaimedKey>,
}

impl Claims {
    /// The batch that has claimed a key.
    pub(crate) fn find(&self, key: &ClaimedKey) -> Option<u64> {
        self.keys.lock().get(key).copied()
    }

    /// Claims keys for a batch. The caller has looked, and keeps out who looks meanwhile.
    pub(crate) fn claim(self: &Arc<Self>, keys: Vec<ClaimedKey>, sequence: u64) -> Claim {
        if !keys.is_empty() {
            self.keys.lock().extend(keys.iter().map(|key| (key.clone(), sequence)));
        }
        Claim { claims: self.clone(), keys }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.keys.is_empty() {
            let mut claimed = self.claims.keys.lock();
            for key in &self.keys {
                claimed.remove(key);
            }
        }
    }
}
