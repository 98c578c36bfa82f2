//! The watermark: up to where every batch is synced and applied, or failed.
//!
//! Writers finish in any order, readers see a prefix. A writer registers before the log gives it a
//! sequence, with a bound below that sequence, so that the watermark cannot run past a batch that has its
//! sequence but is not registered yet.

use parking_lot::Mutex;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};

/// The shared watermark.
pub(crate) struct Watermark {
    published: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next_entry: u64,
    /// Batches under way: entry, and a sequence not above theirs.
    under_way: Vec<(u64, u64)>,
    /// The largest sequence finished.
    finished: u64,
    waiting: Vec<(u64, Waker)>,
}

/// A batch under way.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry(u64);

impl Watermark {
    pub(crate) fn new(sequence: u64) -> Self {
        let state = State { finished: sequence, ..State::default() };
        Self { published: AtomicU64::new(sequence), state: Mutex::new(state) }
    }

    /// The last sequence that readers may see, all before it included.
    pub(crate) fn get(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }

    /// Registers a batch whose sequence will not be below `bound`.
    pub(crate) fn begin(&self, bound: u64) -> Entry {
        let mut state = self.state.lock();
        let entry = state.next_entry;
        state.next_entry += 1;
        state.under_way.push((entry, bound));
        Entry(entry)
    }

    /// Says the sequence of a batch.
    pub(crate) fn set_sequence(&self, entry: &Entry, sequence: u64) {
        let mut state = self.state.lock();
        if let Some(found) = state.under_way.iter_mut().find(|(number, _)| *number == entry.0) {
            found.1 = sequence;
        }
        self.publish(state);
    }

    /// A batch is applied, or failed and never will be; `None`: it never got a sequence.
    pub(crate) fn finish(&self, entry: Entry, sequence: Option<u64>) {
        let mut state = self.state.lock();
        state.under_way.retain(|(number, _)| *number != entry.0);
        state.finished = state.finished.max(sequence.unwrap_or(0));
        self.publish(state);
    }

    fn publish(&self, mut state: parking_lot::MutexGuard<'_, State>) {
        let least = state.under_way.iter().map(|(_, bound)| *bound).min();
        let watermark = least.map_or(state.finished, |least| state.finished.min(least - 1));
        if watermark <= self.published.load(Ordering::Relaxed) {
            return;
        }
        self.published.store(watermark, Ordering::Release);
        let mut woken = Vec::new();
        state.waiting.retain(|(sequence, waker)| {
            let wait = *sequence > watermark;
            if !wait {
                woken.push(waker.clone());
            }
            wait
        });
        drop(state);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Waits until readers may see a sequence.
    pub(crate) async fn reached(&self, sequence: u64) {
        poll_fn(|context| {
            if self.get() >= sequence {
                return Poll::Ready(());
            }
            let mut state = self.state.lock();
            if self.get() >= sequence {
                return Poll::Ready(());
            }
            state.waiting.push((sequence, context.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_holds_it_back() {
        let watermark = Watermark::new(4);
        let (first, second) = (watermark.begin(5), watermark.begin(5));
        watermark.set_sequence(&second, 6);
        watermark.finish(second, Some(6));
        assert_eq!(watermark.get(), 4, "five may still come");
        watermark.set_sequence(&first, 5);
        watermark.finish(first, Some(5));
        assert_eq!(watermark.get(), 6);
        let third = watermark.begin(7);
        watermark.finish(third, None);
        assert_eq!(watermark.get(), 6);
    }
}
