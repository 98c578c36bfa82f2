//! Numbers of sequences: none is given twice.
//!
//! The record of a sequence says up to which number somebody may have been given one. It is written before the first number
//! of a block is given, so a server that is killed leaves a gap and repeats nothing. A block is as large as the numbers of a
//! second, about: who takes many waits for the disk seldom. What is not given yet is given back when the server stops.
//! Numbers belong to no transaction: what is rolled back leaves a gap, as everywhere.

use super::definition::{SequenceDefinition, SequenceState};
use crate::records::Records;
use arrow_array::cast::AsArray;
use hashbrown::{HashMap, HashSet};
use nyala_core::store::{SnapshotRef, StoreRef};
use nyala_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

const TABLE: &str = "nyala.sequences";
/// How many numbers are reserved together at first, as in PostgreSQL, and at most.
const BLOCK: u64 = 32;
const BLOCK_MAX: u64 = 4096;
/// A block that is used up so soon is followed by a larger one.
const SOON: Duration = Duration::from_secs(1);

/// The counters of all sequences.
pub struct Sequences {
    store: StoreRef,
    /// Opened when the first number is wanted.
    records: tokio::sync::OnceCell<Records>,
    counters: Mutex<HashMap<u64, Arc<Counter>>>,
}

#[derive(Default)]
struct Counter {
    /// Held while the record is written.
    writing: tokio::sync::Mutex<()>,
    reserved: Mutex<Option<Reserved>>,
}

/// What is known of a sequence whose record was read.
#[derive(Clone, Copy)]
struct Reserved {
    /// What the record says.
    stored: SequenceState,
    /// How many numbers up to that one are not given yet.
    left: u64,
    /// From one of them to the next.
    increment: i64,
    /// The least and the greatest number, when they were reserved.
    bounds: (i64, i64),
    /// Where it was before the first of them.
    before: SequenceState,
    /// How many numbers the block had.
    size: u64,
    /// How many it might have had.
    block: u64,
    since: Option<Instant>,
}

/// There is no further number in a sequence that does not begin again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exhausted;

impl SequenceDefinition {
    /// How many numbers come after one before the bound, and the first of them.
    fn following(&self, state: SequenceState) -> (u64, i64) {
        let bound = if self.increment > 0 { self.maximum } else { self.minimum };
        let steps = |from: i64| {
            let increment = i128::from(self.increment);
            let distance = (i128::from(bound) - i128::from(from)) * increment.signum();
            // Rounded down: a number beyond the bound is less than no step away.
            u64::try_from(distance.div_euclid(increment.abs()).max(-1) + 1).unwrap_or(u64::MAX)
        };
        if !state.is_called {
            return (steps(state.last), state.last);
        }
        match state.last.checked_add(self.increment) {
            Some(next) => (steps(next), next),
            None => (0, state.last),
        }
    }

    /// Where it begins again.
    fn again(&self) -> SequenceState {
        let last = if self.increment > 0 { self.minimum } else { self.maximum };
        SequenceState { last, is_called: false }
    }

    /// The number so many steps after another.
    fn after(&self, first: i64, steps: u64) -> i64 {
        // It is within bounds: `following` counts the steps.
        (i128::from(first) + i128::from(self.increment) * i128::from(steps)) as i64
    }
}

impl Reserved {
    /// A block of which nothing is given, or none.
    fn new(stored: SequenceState, before: SequenceState, sequence: &SequenceDefinition) -> Self {
        let (increment, bounds) = (sequence.increment, (sequence.minimum, sequence.maximum));
        Self { stored, before, increment, bounds, left: 0, size: 0, block: BLOCK / 2, since: None }
    }

    /// Whether the block is one of the sequence as it is defined now.
    fn is_of(&self, sequence: &SequenceDefinition) -> bool {
        (self.increment, self.bounds) == (sequence.increment, (sequence.minimum, sequence.maximum))
    }

    /// Takes the next number.
    fn take(&mut self) -> Option<i64> {
        self.left = self.left.checked_sub(1)?;
        Some(self.number(self.left))
    }

    /// The number of the block after which so many remain.
    fn number(&self, left: u64) -> i64 {
        // It is within bounds: the block was cut to them.
        (i128::from(self.stored.last) - i128::from(self.increment) * i128::from(left)) as i64
    }

    /// Where the sequence is for who takes numbers one after the other.
    fn state(&self) -> SequenceState {
        match self.left {
            0 => self.stored,
            left if left == self.size => self.before,
            left => SequenceState { last: self.number(left), is_called: true },
        }
    }
}

impl Sequences {
    pub(crate) fn new(store: StoreRef) -> Self {
        Self { store, records: tokio::sync::OnceCell::new(), counters: Mutex::default() }
    }

    async fn records(&self) -> Result<&Records> {
        self.records.get_or_try_init(|| Records::open(self.store.clone(), TABLE)).await
    }

    fn counter(&self, id: u64) -> Arc<Counter> {
        self.counters.lock().entry(id).or_default().clone()
    }

    /// The next number, if it is reserved: without waiting for the disk.
    pub fn take_reserved(&self, sequence: &SequenceDefinition) -> Option<i64> {
        let counter = self.counter(sequence.id);
        let mut reserved = counter.reserved.lock();
        reserved.as_mut().filter(|own| own.is_of(sequence))?.take()
    }

    /// Reserves the next block, if nothing is left of the last one, or if the sequence was altered since.
    pub async fn reserve(&self, sequence: &SequenceDefinition) -> Result<std::result::Result<(), Exhausted>> {
        if self.store.capabilities().is_shared {
            let words = "a number of a sequence in a store that other servers write, too,";
            return Err(Error::unsupported(format!("{words} is not supported")));
        }
        let counter = self.counter(sequence.id);
        let _writing = counter.writing.lock().await;
        let known = self.known(sequence, &counter).await?;
        let mut from = match known.left {
            0 => known.stored,
            _ if known.is_of(sequence) => return Ok(Ok(())),
            _ => {
                // From now on nobody takes what is left of it.
                let state = counter.reserved.lock().take().unwrap_or(known).state();
                self.store(sequence.id, state).await?;
                *counter.reserved.lock() = Some(Reserved::new(state, state, sequence));
                state
            }
        };
        let (mut steps, mut first) = sequence.following(from);
        if steps == 0 {
            if !sequence.cycles {
                return Ok(Err(Exhausted));
            }
            from = sequence.again();
            (steps, first) = sequence.following(from);
        }
        let now = Instant::now();
        let block = match known.since.is_some_and(|since| now.duration_since(since) < SOON) {
            true => (known.block * 2).min(BLOCK_MAX),
            false => BLOCK,
        };
        let left = steps.min(block);
        let stored = SequenceState { last: sequence.after(first, left - 1), is_called: true };
        self.store(sequence.id, stored).await?;
        let known = Reserved::new(stored, from, sequence);
        *counter.reserved.lock() = Some(Reserved { left, size: left, block, since: Some(now), ..known });
        Ok(Ok(()))
    }

    /// What is known of a sequence, read if nothing is.
    async fn known(&self, sequence: &SequenceDefinition, counter: &Counter) -> Result<Reserved> {
        if let Some(known) = *counter.reserved.lock() {
            return Ok(known);
        }
        let found = match is_there(&self.store) {
            true => self.records().await?.find(&key_of(sequence.id)).await?,
            // It is made with the first number, so that a store of the past need not make it.
            false => None,
        };
        let stored = match found {
            None => sequence.beginning,
            Some(value) => read(&value)?,
        };
        let known = Reserved::new(stored, stored, sequence);
        *counter.reserved.lock() = Some(known);
        Ok(known)
    }

    async fn store(&self, id: u64, state: SequenceState) -> Result<()> {
        let records = self.records().await?;
        let value = serde_json::to_vec(&state).expect("a state is plain data");
        records.write(vec![records.put([(&key_of(id)[..], &value[..])])]).await
    }

    /// Where a sequence is, if that is known without reading its record.
    pub fn known_state(&self, sequence: &SequenceDefinition) -> Option<SequenceState> {
        let known = *self.counter(sequence.id).reserved.lock();
        known.map(|own| own.state())
    }

    /// Where a sequence is.
    pub async fn state(&self, sequence: &SequenceDefinition) -> Result<SequenceState> {
        let counter = self.counter(sequence.id);
        let _writing = counter.writing.lock().await;
        Ok(self.known(sequence, &counter).await?.state())
    }

    /// Sets where a sequence is.
    pub async fn set(&self, sequence: &SequenceDefinition, state: SequenceState) -> Result<()> {
        let counter = self.counter(sequence.id);
        let _writing = counter.writing.lock().await;
        // Nobody takes numbers of the old block while the record is written.
        let before = counter.reserved.lock().take();
        if let Err(error) = self.store(sequence.id, state).await {
            *counter.reserved.lock() = before;
            return Err(error);
        }
        *counter.reserved.lock() = Some(Reserved::new(state, state, sequence));
        Ok(())
    }

    /// Gives back what nobody has been given. Numbers that are wanted afterwards are reserved again.
    pub async fn give_back<'a>(&self, all: impl Iterator<Item = &'a SequenceDefinition>) -> Result<()> {
        for sequence in all {
            let counter = self.counter(sequence.id);
            let _writing = counter.writing.lock().await;
            let Some(known) = counter.reserved.lock().take() else { continue };
            if known.left > 0 {
                self.store(sequence.id, known.state()).await?;
            }
        }
        Ok(())
    }

    /// Forgets the counters of sequences that are gone. What is missed, the next start forgets.
    pub async fn forget(&self, gone: &[u64]) -> Result<()> {
        self.counters.lock().retain(|id, _| !gone.contains(id));
        if gone.is_empty() || !is_there(&self.store) {
            return Ok(());
        }
        let records = self.records().await?;
        let keys: Vec<[u8; 8]> = gone.iter().map(|id| key_of(*id)).collect();
        records.write(vec![records.remove(keys.iter().map(|key| &key[..]))]).await
    }

    /// Forgets counters that belong to no sequence: their sequences were dropped or restarted.
    pub(crate) async fn forget_others(&self, known: &HashSet<u64>) -> Result<()> {
        if !is_there(&self.store) {
            return Ok(());
        }
        let records = self.records().await?;
        let mut gone: Vec<Vec<u8>> = Vec::new();
        let is_known = |key: &[u8]| key.try_into().is_ok_and(|id| known.contains(&u64::from_be_bytes(id)));
        records
            .visit(b"", |key, _| {
                if !is_known(key) {
                    gone.push(key.to_vec())
                }
            })
            .await?;
        if gone.is_empty() {
            return Ok(());
        }
        records.write(vec![records.remove(gone.iter().map(|key| &key[..]))]).await
    }
}

/// Where all sequences are, by their numbers, as a snapshot has them.
pub(crate) async fn counters(
    store: &StoreRef,
    snapshot: &SnapshotRef,
) -> Result<BTreeMap<u64, SequenceState>> {
    let mut counters = BTreeMap::new();
    if !is_there(store) {
        return Ok(counters);
    }
    let records = Records::open(store.clone(), TABLE).await?;
    let mut rows = records.scan_in(snapshot, b"", b"").await?;
    while let Some(batch) = rows.next().await? {
        let (keys, values) = (batch.columns[0].as_binary::<i32>(), batch.columns[1].as_binary::<i32>());
        for (key, value) in keys.iter().zip(values).filter_map(|(key, value)| key.zip(value)) {
            let id = key.try_into().map(u64::from_be_bytes);
            let id =
                id.map_err(|_| Error::new(ErrorKind::Corrupt, "the key of a sequence has no 8 bytes"))?;
            counters.insert(id, read(value)?);
        }
    }
    Ok(counters)
}

fn is_there(store: &StoreRef) -> bool {
    store.tables().iter().any(|(_, schema)| schema.name == TABLE)
}

fn read(value: &[u8]) -> Result<SequenceState> {
    serde_json::from_slice(value).map_err(|error| {
        Error::new(ErrorKind::Corrupt, format!("the record of a sequence cannot be read: {error}"))
    })
}

fn key_of(id: u64) -> [u8; 8] {
    id.to_be_bytes()
}
