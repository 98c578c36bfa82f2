//! The watermark: every batch up to this sequence is synced and applied, or has failed.
//!
//! Writers finish in any order, readers see a prefix. A writer registers before the log gives it a
//! sequence, with a bound below that sequence, so that the watermark cannot run past a batch that has its
//! sequence but is not registered yet.
//!
//! A batch that the log may have, and that is only partly in memory, holds the watermark back until the next start. No
//! row from its sequence on is shown, no new batch begins, and waiters get an error. The next start replays the batch
//! from the log. The same holds when a change of the manifest does not reach readers (`publisher.rs`).

use nyala_core::{Error, ErrorKind, Result};
use parking_lot::{Mutex, MutexGuard};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};

/// The shared watermark.
pub(crate) struct Watermark {
    published: AtomicU64,
    /// Rows from this sequence on are not shown before the next start.
    lost_from: AtomicU64,
    state: Mutex<State>,
}

/// The watermark has not lost a batch.
const NOTHING_LOST: u64 = u64::MAX;

#[derive(Default)]
struct State {
    /// The number of the next entry, or of who waits next.
    next_number: u64,
    /// Batches under way: entry, and a sequence not above theirs.
    under_way: Vec<(u64, u64)>,
    /// The largest sequence finished.
    finished: u64,
    waiting: Vec<Waiting>,
}

/// Somebody who waits for a sequence.
struct Waiting {
    number: u64,
    sequence: u64,
    waker: Waker,
}

/// Who waits as long as this is held, and was asked.
struct Waiter<'a> {
    watermark: &'a Watermark,
    number: Option<u64>,
}

/// A batch under way. If it is dropped before it is finished, a panic broke it off, and it is lost.
pub(crate) struct Entry {
    watermark: Arc<Watermark>,
    number: u64,
    is_finished: bool,
}

impl Watermark {
    pub(crate) fn new(sequence: u64) -> Arc<Self> {
        let state = State { finished: sequence, ..State::default() };
        Arc::new(Self {
            published: AtomicU64::new(sequence),
            lost_from: AtomicU64::new(NOTHING_LOST),
            state: Mutex::new(state),
        })
    }

    /// Whether batches may begin: an error says why not.
    pub(crate) fn check(&self) -> Result<()> {
        match self.lost_from.load(Ordering::Acquire) {
            NOTHING_LOST => Ok(()),
            sequence => Err(Error::retry(format!(
                "the store takes no more writes until the server is started again: batch {sequence}, or a change of the \
                 manifest before it, is on the disk and broke off on its way into memory"
            ))),
        }
    }

    /// The last sequence that readers may see, all before it included.
    pub(crate) fn get(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }

    /// Registers a batch whose sequence will not be below `bound`; refused once one was lost.
    pub(crate) fn begin(self: &Arc<Self>, bound: u64) -> Result<Entry> {
        let mut state = self.state.lock();
        // Under the lock, so that a later loss wakes those who wait for this batch.
        self.check()?;
        let number = state.take_number();
        state.under_way.push((number, bound));
        Ok(Entry { watermark: self.clone(), number, is_finished: false })
    }

    /// Lets nothing begin any more before the next start, and shows no more than is shown now.
    pub(crate) fn close(self: &Arc<Self>) {
        // As if the next batch had broken off. It is an error if one has already.
        drop(self.begin(self.get() + 1));
    }

    /// Marks a batch as lost: it stays under way until the next start.
    fn lose(&self, number: u64) {
        let mut state = self.state.lock();
        let Some((_, bound)) = state.under_way.iter().find(|(other, _)| *other == number) else { return };
        let lost_from = self.lost_from.load(Ordering::Relaxed).min(*bound);
        self.lost_from.store(lost_from, Ordering::Release);
        tracing::error!(
            sequence = lost_from,
            "what is on the disk broke off on its way into memory: nothing is written before the next start"
        );
        let woken = state.waiting.extract_if(.., |waiting| waiting.sequence >= lost_from).collect();
        wake(state, woken);
    }

    fn publish(&self, mut state: MutexGuard<'_, State>) {
        let least = state.under_way.iter().map(|(_, bound)| *bound).min();
        let watermark = least.map_or(state.finished, |least| state.finished.min(least - 1));
        if watermark <= self.published.load(Ordering::Relaxed) {
            return;
        }
        self.published.store(watermark, Ordering::Release);
        let woken = state.waiting.extract_if(.., |waiting| waiting.sequence <= watermark).collect();
        wake(state, woken);
    }

    /// Waits until readers may see a sequence. An error says that they never will.
    pub(crate) async fn reached(&self, sequence: u64) -> Result<()> {
        let mut waiter = Waiter { watermark: self, number: None };
        poll_fn(|context| {
            if self.get() >= sequence {
                return Poll::Ready(Ok(()));
            }
            let mut state = self.state.lock();
            if self.get() >= sequence {
                return Poll::Ready(Ok(()));
            }
            if sequence >= self.lost_from.load(Ordering::Relaxed) {
                return Poll::Ready(Err(lost()));
            }
            // Whoever polls it now is woken, and nobody else.
            let known = waiter.take_from(&mut state);
            let (number, waker) = (state.take_number(), context.waker().clone());
            waiter.number = Some(number);
            state.waiting.push(Waiting { number, sequence, waker });
            drop(state);
            drop(known);
            Poll::Pending
        })
        .await
    }
}

impl State {
    fn take_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }
}

fn wake(state: MutexGuard<'_, State>, woken: Vec<Waiting>) {
    drop(state);
    woken.into_iter().for_each(|waiting| waiting.waker.wake());
}

impl Waiter<'_> {
    /// Its place, if it has one. It is dropped without the lock: a waker may own anything.
    fn take_from(&mut self, state: &mut State) -> Option<Waiting> {
        let number = self.number.take()?;
        let place = state.waiting.iter().position(|waiting| waiting.number == number)?;
        Some(state.waiting.swap_remove(place))
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if self.number.is_some() {
            let mut state = self.watermark.state.lock();
            let known = self.take_from(&mut state);
            drop(state);
            drop(known);
        }
    }
}

impl Entry {
    /// Sets the sequence of the batch.
    pub(crate) fn set_sequence(&self, sequence: u64) {
        let mut state = self.watermark.state.lock();
        if let Some(found) = state.under_way.iter_mut().find(|(number, _)| *number == self.number) {
            found.1 = sequence;
        }
        self.watermark.publish(state);
    }

    /// The batch is applied or has failed. `None`: it never got a sequence.
    pub(crate) fn finish(mut self, sequence: Option<u64>) {
        self.is_finished = true;
        let mut state = self.watermark.state.lock();
        state.under_way.retain(|(number, _)| *number != self.number);
        state.finished = state.finished.max(sequence.unwrap_or(0));
        self.watermark.publish(state);
    }
}

/// Sequences that no batch gets. Until they are dropped, no reader sees them, or a later one.
pub(crate) struct TakenSequences {
    pub(crate) last: u64,
    /// Until they are dropped.
    entry: Option<Entry>,
}

impl TakenSequences {
    /// Those of an entry up to `last`.
    pub(crate) fn new(last: u64, entry: Entry) -> Self {
        Self { last, entry: Some(entry) }
    }
}

impl Drop for TakenSequences {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            entry.finish(Some(self.last));
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if !self.is_finished {
            self.watermark.lose(self.number);
        }
    }
}

/// The error of a batch that is in the log and is not shown before the next start.
pub(crate) fn lost() -> Error {
    Error::new(
        ErrorKind::Unknown,
        "the batch is in the log and cannot be shown before the server is started again: it, one before it or a change \
         of the manifest broke off on its way into memory",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block_on;
    use std::sync::atomic::AtomicUsize;
    use std::task::{Context, Wake};

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn who_waits_is_woken_once_and_nothing_stays_of_who_does_not_wait_any_more() -> Result<()> {
        let watermark = Watermark::new(4);
        let (first, last) = (Arc::<Woken>::default(), Arc::<Woken>::default());
        let entry = watermark.begin(5)?;
        let (mut waits, mut given_up) = (Box::pin(watermark.reached(5)), Box::pin(watermark.reached(5)));
        for woken in [&first, &first, &last] {
            let waker = Waker::from(woken.clone());
            assert!(waits.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            assert!(given_up.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            assert_eq!(watermark.state.lock().waiting.len(), 2);
        }
        drop(given_up);
        assert_eq!(watermark.state.lock().waiting.len(), 1);
        entry.finish(Some(5));
        assert_eq!([first, last].map(|woken| woken.0.load(Ordering::Relaxed)), [0, 1]);
        block_on(waits)
    }

    #[test]
    fn a_gap_holds_it_back() -> Result<()> {
        let watermark = Watermark::new(4);
        let (first, second) = (watermark.begin(5)?, watermark.begin(5)?);
        second.set_sequence(6);
        second.finish(Some(6));
        assert_eq!(watermark.get(), 4, "five may still come");
        first.set_sequence(5);
        first.finish(Some(5));
        assert_eq!(watermark.get(), 6);
        let third = watermark.begin(7)?;
        third.finish(None);
        assert_eq!(watermark.get(), 6);
        Ok(())
    }

    #[test]
    fn nobody_waits_for_what_broke_off() -> Result<()> {
        let watermark = Watermark::new(4);
        let (first, second, third) = (watermark.begin(5)?, watermark.begin(5)?, watermark.begin(5)?);
        first.set_sequence(5);
        second.set_sequence(6);
        third.set_sequence(7);
        let waiting = {
            let watermark = watermark.clone();
            std::thread::spawn(move || block_on(watermark.reached(7)))
        };
        third.finish(Some(7));
        drop(second);
        assert_eq!(waiting.join().expect("no panic").expect_err("never shown").kind(), ErrorKind::Unknown);
        // What came before is shown, and nothing from there on.
        first.finish(Some(5));
        assert_eq!(watermark.get(), 5);
        block_on(watermark.reached(5))?;
        assert_eq!(block_on(watermark.reached(6)).expect_err("broke off").kind(), ErrorKind::Unknown);
        let refused = watermark.begin(8).err().expect("nothing is begun any more");
        assert_eq!(refused.kind(), ErrorKind::Retry);
        Ok(())
    }
}
