//! Ids by which servers recognise a repeated write.
//!
//! Every logical write gets the next sequence number, and each of its attempts repeats that number. Servers keep the
//! outcome of a write until a later write of this client announces a first incomplete number that is higher.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use rand::Rng;

use crate::pb::rpc::RequestId;

#[derive(Debug)]
pub(crate) struct RequestTracker {
    client_id: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last: i64,
    open: BTreeSet<i64>,
}

/// One write in flight. Dropping it settles its number.
#[derive(Debug)]
pub(crate) struct TrackedRequest<'a> {
    ids: &'a RequestTracker,
    number: i64,
    attempts: i64,
}

impl Default for RequestTracker {
    fn default() -> Self {
        let random: u128 = rand::rng().random();
        Self { client_id: format!("{random:032x}"), state: Mutex::default() }
    }
}

impl RequestTracker {
    pub(crate) fn open(&self) -> TrackedRequest<'_> {
        let mut state = self.state.lock();
        state.last += 1;
        let number = state.last;
        state.open.insert(number);
        TrackedRequest { ids: self, number, attempts: 0 }
    }
}

impl TrackedRequest<'_> {
    /// The id of the next attempt.
    pub(crate) fn attempt(&mut self) -> RequestId {
        let attempt_no = self.attempts;
        self.attempts += 1;
        let state = self.ids.state.lock();
        RequestId {
            client_id: self.ids.client_id.clone(),
            seq_no: self.number,
            first_incomplete_seq_no: state.open.first().copied().unwrap_or(self.number),
            attempt_no,
        }
    }
}

impl Drop for TrackedRequest<'_> {
    fn drop(&mut self) {
        self.ids.state.lock().open.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_open_request_is_announced() {
        let ids = RequestTracker::default();
        let mut first = ids.open();
        let mut second = ids.open();
        assert_eq!(first.attempt().seq_no, 1);
        let id = second.attempt();
        assert_eq!((id.seq_no, id.first_incomplete_seq_no, id.attempt_no), (2, 1, 0));
        drop(first);
        let id = second.attempt();
        assert_eq!((id.seq_no, id.first_incomplete_seq_no, id.attempt_no), (2, 2, 1));
    }
}
