//! The queue of the log: records and requests, and the tickets that wait for them.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use nyala_core::{Error, ErrorKind, Result};
use parking_lot::{Condvar, Mutex};

use super::MAX_PAYLOAD_BYTES;
use super::stats::Counters;
use crate::files::framed_log::frame_bytes;

/// The most that is written and synced together: a sync of this takes some 10 ms, and all its writers wait so long.
const MAX_GROUP_BYTES: u64 = 16 << 20;
/// Bounds the slices of one write.
pub(super) const MAX_GROUP_RECORDS: usize = 1024;

/// The promise of the log for one record.
#[derive(Debug)]
#[must_use = "the record is in the log only when the ticket says so"]
pub struct Ticket {
    sequence: u64,
    completion: Arc<Completion>,
}

/// A record that waits.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) sequence: u64,
    pub(super) parts: Vec<Bytes>,
    pub(super) length: u64,
    pub(super) crc: u32,
    pub(super) promise: Promise,
}

#[derive(Debug, Default)]
struct Completion {
    state: Mutex<CompletionState>,
    done: Condvar,
}

#[derive(Debug, Default)]
struct CompletionState {
    outcome: Option<Result<()>>,
    waker: Option<Waker>,
}

/// The other end of a ticket. Dropped unkept, the outcome is unknown: nobody waits forever.
#[derive(Debug)]
pub(super) struct Promise(Option<Arc<Completion>>);

#[derive(Debug)]
enum Item {
    Record(Entry),
    Sync(Promise),
    Reopen(Promise),
    Rest { small_bytes: u64, promise: Promise },
    CloseSegment(Promise),
}

#[derive(Debug)]
struct State {
    items: VecDeque<Item>,
    waiting_bytes: u64,
    next_sequence: u64,
    /// The thread sleeps and must be woken when so many items wait; 0 while it works.
    wake_at: usize,
    closed: bool,
}

#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    work: Condvar,
    limit_bytes: u64,
    pub(super) counters: Arc<Counters>,
}

pub(super) enum Work {
    /// These fit behind what is in the segment.
    Write(Vec<Entry>),
    /// The next record does not fit.
    Begin {
        sequence: u64,
        bytes: u64,
    },
    Sync(Promise),
    Reopen(Promise),
    Rest {
        small_bytes: u64,
        promise: Promise,
    },
    CloseSegment(Promise),
    Timeout,
    Close,
}

impl Ticket {
    /// The sequence of the record. It says nothing about whether it is stored.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Blocks until the outcome is known.
    pub fn wait(self) -> Result<u64> {
        let mut state = self.completion.state.lock();
        loop {
            if let Some(outcome) = state.outcome.take() {
                return outcome.map(|()| self.sequence);
            }
            self.completion.done.wait(&mut state);
        }
    }
}

impl Future for Ticket {
    type Output = Result<u64>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.completion.state.lock();
        match state.outcome.take() {
            Some(outcome) => Poll::Ready(outcome.map(|()| self.sequence)),
            None => {
                match &mut state.waker {
                    Some(waker) => waker.clone_from(context.waker()),
                    None => state.waker = Some(context.waker().clone()),
                }
                Poll::Pending
            }
        }
    }
}

impl Promise {
    fn pair(sequence: u64) -> (Self, Ticket) {
        let completion = Arc::new(Completion::default());
        (Self(Some(completion.clone())), Ticket { sequence, completion })
    }

    pub(super) fn keep(&mut self, outcome: Result<()>) {
        if let Some(completion) = self.0.take() {
            let waker = {
                let mut state = completion.state.lock();
                state.outcome = Some(outcome);
                state.waker.take()
            };
            completion.done.notify_all();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.keep(Err(Error::new(ErrorKind::Unknown, "the log stopped before the record was synced")));
    }
}

impl Queue {
    pub(super) fn new(next_sequence: u64, limit_bytes: u64) -> Self {
        let state =
            State { items: VecDeque::new(), waiting_bytes: 0, next_sequence, wake_at: 0, closed: false };
        let counters = Arc::new(Counters::default());
        Self { state: Mutex::new(state), work: Condvar::new(), limit_bytes, counters }
    }

    pub(super) fn next_sequence(&self) -> u64 {
        self.state.lock().next_sequence
    }

    pub(super) fn skip_sequences(&self, count: u64, numbered: impl FnOnce(u64)) -> u64 {
        let mut state = self.state.lock();
        state.next_sequence += count;
        numbered(state.next_sequence - 1);
        state.next_sequence - 1
    }

    pub(super) fn submit(&self, parts: Vec<Bytes>, numbered: impl FnOnce(u64)) -> Result<Ticket> {
        let length: u64 = parts.iter().map(|part| part.len() as u64).sum();
        if length > MAX_PAYLOAD_BYTES {
            return Err(Error::limit(format!(
                "a record of {length} bytes; the log takes up to {MAX_PAYLOAD_BYTES}"
            )));
        }
        // Here, in the caller's thread, so that callers share the work.
        let mut hasher = crc32fast::Hasher::new();
        parts.iter().for_each(|part| hasher.update(part));
        let crc = hasher.finalize();
        let mut state = self.state.lock();
        if state.waiting_bytes > 0 && state.waiting_bytes + length > self.limit_bytes {
            return Err(Error::retry("the disk does not keep up: the queue of the log is full"));
        }
        let sequence = state.next_sequence;
        let (promise, ticket) = Promise::pair(sequence);
        self.push(&mut state, Item::Record(Entry { sequence, parts, length, crc, promise }))?;
        numbered(sequence);
        state.next_sequence += 1;
        state.waiting_bytes += length;
        Ok(ticket)
    }

    pub(super) fn request_sync(&self) -> Result<Ticket> {
        let (promise, ticket) = Promise::pair(0);
        self.push(&mut self.state.lock(), Item::Sync(promise))?;
        Ok(ticket)
    }

    pub(super) fn request_reopen(&self) -> Result<Ticket> {
        let (promise, ticket) = Promise::pair(0);
        self.push(&mut self.state.lock(), Item::Reopen(promise))?;
        Ok(ticket)
    }

    pub(super) fn request_rest(&self, small_bytes: u64) -> Result<Ticket> {
        let (promise, ticket) = Promise::pair(0);
        self.push(&mut self.state.lock(), Item::Rest { small_bytes, promise })?;
        Ok(ticket)
    }

    pub(super) fn request_closed_segment(&self) -> Result<Ticket> {
        let (promise, ticket) = Promise::pair(0);
        self.push(&mut self.state.lock(), Item::CloseSegment(promise))?;
        Ok(ticket)
    }

    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.work.notify_one();
    }

    /// Ends the queue: whatever waits gets an error, and nothing is taken any more.
    pub(super) fn fail(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let items = std::mem::take(&mut state.items);
        drop(state);
        drop(items);
    }

    fn push(&self, state: &mut State, item: Item) -> Result<()> {
        if state.closed {
            return Err(Error::new(ErrorKind::Io, "the log is closed"));
        }
        let is_record = matches!(item, Item::Record(_));
        state.items.push_back(item);
        if state.wake_at > 0 && (state.items.len() >= state.wake_at || !is_record) {
            state.wake_at = 0;
            self.work.notify_one();
        }
        Ok(())
    }

    /// The next work, given the space in the segment; waits for work until `deadline`.
    pub(super) fn take(&self, room: u64, deadline: Option<Instant>) -> Work {
        let mut state = self.state.lock();
        loop {
            match state.items.pop_front() {
                Some(Item::Record(first)) => return state.take_group(first, room),
                Some(Item::Sync(promise)) => return Work::Sync(promise),
                Some(Item::Reopen(promise)) => return Work::Reopen(promise),
                Some(Item::Rest { small_bytes, promise }) => return Work::Rest { small_bytes, promise },
                Some(Item::CloseSegment(promise)) => return Work::CloseSegment(promise),
                None if state.closed => return Work::Close,
                None => {}
            }
            state.wake_at = 1;
            match deadline {
                None => self.work.wait(&mut state),
                Some(deadline) => {
                    if self.work.wait_until(&mut state, deadline).timed_out() && state.items.is_empty() {
                        state.wake_at = 0;
                        return Work::Timeout;
                    }
                }
            }
            state.wake_at = 0;
        }
    }

    /// Waits until so many items wait, for at most so long. Anything but a record ends it.
    pub(super) fn gather(&self, count: usize, duration: Duration) {
        let deadline = Instant::now() + duration;
        let mut state = self.state.lock();
        let is_record = |item: &Item| matches!(item, Item::Record(_));
        while state.items.len() < count && state.items.iter().all(is_record) && !state.closed {
            state.wake_at = count;
            if self.work.wait_until(&mut state, deadline).timed_out() {
                break;
            }
        }
        state.wake_at = 0;
    }

    /// How many items wait.
    pub(super) fn len(&self) -> usize {
        self.state.lock().items.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.state.lock().items.is_empty()
    }

    /// Takes all records that wait.
    pub(super) fn take_records(&self) -> Vec<Entry> {
        let mut state = self.state.lock();
        let mut entries = Vec::new();
        for item in std::mem::take(&mut state.items) {
            match item {
                Item::Record(entry) => entries.push(entry),
                other => state.items.push_back(other),
            }
        }
        state.waiting_bytes = 0;
        entries
    }
}

impl State {
    fn take_group(&mut self, first: Entry, room: u64) -> Work {
        let mut bytes = frame_bytes(first.length);
        if bytes > room {
            let sequence = first.sequence;
            self.items.push_front(Item::Record(first));
            return Work::Begin { sequence, bytes };
        }
        self.waiting_bytes -= first.length;
        let mut entries = vec![first];
        while entries.len() < MAX_GROUP_RECORDS
            && let Some(Item::Record(next)) = self.items.front()
            && bytes + frame_bytes(next.length) <= room.min(MAX_GROUP_BYTES)
            && let Some(Item::Record(next)) = self.items.pop_front()
        {
            bytes += frame_bytes(next.length);
            self.waiting_bytes -= next.length;
            entries.push(next);
        }
        Work::Write(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_group_is_gathered_until_its_writers_are_there_or_its_time_is_over() -> Result<()> {
        let queue = Arc::new(Queue::new(1, 1 << 20));
        let submit = |queue: &Queue| queue.submit(vec![Bytes::from_static(b"record")], |_| {});
        let long = Duration::from_secs(600);
        let mut tickets = vec![submit(&queue)?];
        let writers: Vec<_> = (0..2)
            .map(|_| {
                let queue = queue.clone();
                thread::spawn(move || submit(&queue))
            })
            .collect();
        queue.gather(3, long);
        assert_eq!(queue.len(), 3);
        for writer in writers {
            tickets.push(writer.join().expect("no panic")?);
        }
        // Who does not come is not waited for longer than that.
        queue.gather(4, Duration::from_millis(1));
        assert_eq!(queue.len(), 3);
        // Neither is anything else kept waiting, …
        let asking = {
            let queue = queue.clone();
            thread::spawn(move || queue.request_sync())
        };
        queue.gather(100, long);
        tickets.push(asking.join().expect("no panic")?);
        // … whether it comes meanwhile or was there.
        queue.gather(100, long);
        let Work::Write(entries) = queue.take(1 << 20, None) else { panic!("there are records") };
        assert_eq!(entries.len(), 3);
        Ok(())
    }
}
