//! Ids that let servers recognise a repeated write.
//!
//! Every logical write gets the next number; each attempt repeats it. Servers keep the outcome of a write until
//! the client tells (with a later write) that all up to some number are settled.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use rand::Rng;

use crate::pb::rpc::RequestId;

#[derive(Debug)]
pub(crate) struct RequestIds {
    client_id: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last: i64,
    open: BTreeSet<i64>,
}

/// One write under way; dropping it settles the number.
#[derive(Debug)]
pub(crate) struct OpenRequest<'a> {
    ids: &'a RequestIds,
    number: i64,
    attempts: i64,
}

impl Default for RequestIds {
    fn default() -> Self {
        let random: u128 = rand::rng().random();
        Self { client_id: format!("{random:032x}"), state: Mutex::default() }
    }
}

impl RequestIds {
    pub(crate) fn open(&self) -> OpenRequest<'_> {
        let mut state = self.state.lock();
        state.last += 1;
        let number = state.last;
        state.open.insert(number);
        OpenRequest { ids: self, number, attempts: 0 }
    }
}

impl OpenRequest<'_> {
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

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        self.ids.state.lock().open.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_open_request_is_announced() {
        let ids = RequestIds::default();
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
