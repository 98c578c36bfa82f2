//! Keys that conditional batches on their way to the log have changed.
//!
//! A conditional batch looks at the rows there are, is handed to the log, and releases its table locks, so that others
//! need not wait for its sync. Until it is applied its rows are not in memory, so it claims their keys. A batch that
//! meets a claimed key waits until the other batch is visible or has failed, and looks again.
//!
//! Unconditional batches need no claims: their sequences say which one is newer.

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
    /// The sequence of the batch that has claimed one of some keys.
    pub(crate) fn find_any(&self, keys: &[ClaimedKey]) -> Option<u64> {
        let claimed = self.keys.lock();
        if claimed.is_empty() {
            return None;
        }
        keys.iter().find_map(|key| claimed.get(key).copied())
    }

    /// Claims keys for a batch. The caller has looked, and its table locks keep other conditional batches from looking
    /// meanwhile.
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
