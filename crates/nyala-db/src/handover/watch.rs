//! What is changed while somebody copies the store, in an order that proves that nothing is left out.
//!
//! Whoever copies takes a mark first, and the copy then. A change is noted when it has ended, with the number of the newest
//! mark, before the caller learns that it has ended. A change that the copy lacks had not ended when the copy was made, so
//! it is noted with the number of that mark or a later one. A change that is under way when somebody asks counts as changed
//! just now: the next copy may have it. One whose caller has gone meanwhile may still take effect at any time, and counts
//! as changed for ever.

use super::changed::Changed;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Changed just now, or at any time from now on.
const ANY_TIME: u64 = u64::MAX;

/// Watches the changes of a store.
pub(super) struct Watch {
    /// No other watch has this number.
    pub(super) epoch: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The newest mark.
    number: u64,
    ended: Changed,
    running: HashMap<u64, Changed>,
    next_running: u64,
    /// By callers that have gone.
    lost: Changed,
}

/// A change that is under way.
pub(super) struct Running {
    watch: Arc<Watch>,
    id: u64,
    is_over: bool,
}

impl Watch {
    pub(super) fn new(epoch: u64) -> Self {
        Self { epoch, state: Mutex::default() }
    }

    /// A new mark.
    pub(super) fn mark(&self) -> u64 {
        let mut state = self.state.lock();
        state.number += 1;
        state.number
    }

    /// A change begins that will change no more than this.
    pub(super) fn begin(self: &Arc<Self>, what: Changed) -> Running {
        let mut state = self.state.lock();
        let id = state.next_running;
        state.next_running += 1;
        state.running.insert(id, what);
        Running { watch: self.clone(), id, is_over: false }
    }

    /// What was changed since the first mark.
    pub(super) fn changed(&self) -> Changed {
        let state = self.state.lock();
        let mut all = state.ended.clone();
        state.running.values().chain([&state.lost]).for_each(|what| all.add_all(what, ANY_TIME));
        all
    }
}

impl Running {
    /// The change has ended, well or not.
    pub(super) fn end(mut self) {
        self.is_over = true;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = self.watch.state.lock();
        let number = state.number;
        let Some(what) = state.running.remove(&self.id) else { return };
        match self.is_over {
            true => state.ended.add_all(&what, number),
            false => state.lost.add_all(&what, number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nyala_core::{TableId, TimeRange};

    const TABLE: TableId = TableId(1);

    fn change(watch: &Arc<Watch>, time_ns: i64) -> Running {
        let mut what = Changed::default();
        what.add_rows(TABLE, TimeRange::new(time_ns, time_ns + 1), 0);
        watch.begin(what)
    }

    fn is_told(watch: &Watch, time_ns: i64, since: u64) -> bool {
        !watch.changed().rows_since(TABLE, since, TimeRange::new(time_ns, time_ns + 1)).is_empty()
    }

    #[test]
    fn a_change_counts_from_when_it_ended_and_always_while_nobody_knows() {
        let watch = Arc::new(Watch::new(1));
        let first = watch.mark();
        change(&watch, 10).end();
        let (long, gone) = (change(&watch, 20), change(&watch, 30));
        let second = watch.mark();
        assert!(is_told(&watch, 10, first) && !is_told(&watch, 10, second), "the copy has it");
        assert!(
            is_told(&watch, 20, second + 1) && is_told(&watch, 30, second + 1),
            "the next copy may have it"
        );
        long.end();
        drop(gone);
        assert!(is_told(&watch, 20, second), "the copy may lack it");
        let third = watch.mark();
        assert!(!is_told(&watch, 20, third) && is_told(&watch, 30, third));
    }
}
