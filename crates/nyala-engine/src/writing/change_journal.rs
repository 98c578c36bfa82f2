//! Which keys were written since the oldest open stage was opened.
//!
//! A commit of a stage asks whether somebody else was first to change one of its rows. Memtables and rowsets cannot tell:
//! rowsets do not know when each of their rows was written. So the keys of every batch are kept here, as the arrays that
//! they came in, for as long as a stage is open that does not see the batch. Without stages only batches that no reader
//! sees yet are kept: a stage that is opened now would not see them either.
//!
//! What is kept has a bound. When much of that is taken, keys of points are encoded. Beyond it the oldest stage is given up. Rowsets
//! are not counted: they stay on the disk for as long as they are kept here.

use super::encoded_points::EncodedPoints;
use super::write::Work;
use crate::files::rowset::Rowset;
use crate::memory::version::Version;
use crate::rows::tombstone::DeletedRange;
use arrow_array::{Array, ArrayRef};
use nyala_core::arrays::value_bytes;
use nyala_core::memory::{Charge, Component, MemoryBudget};
use nyala_core::store::Operation;
use nyala_core::{Error, Result, TableId, TableSchema};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The part of the memory limit that the keys may take.
const SHARE: u64 = 8;
/// What a change costs besides its keys, about.
const CHANGE_BYTES: u64 = 128;
/// From this part of the bound on, keys are encoded.
const ENCODED_FROM: u64 = 4;
/// Fewer rows are not worth it.
const ENCODED_ROWS_MIN: usize = 128;

/// What one operation wrote or deleted.
pub(crate) struct Change {
    pub(crate) table: TableId,
    pub(crate) sequence: u64,
    pub(crate) rows: ChangedRows,
}

pub(crate) enum ChangedRows {
    /// An array for each key column.
    Keys(Vec<ArrayRef>),
    Points(EncodedPoints),
    Range(DeletedRange),
    /// What was adopted of a stage.
    Rowsets(Vec<Arc<Rowset>>),
}

/// The changes, in the order in which they were applied.
pub(crate) struct ChangeJournal {
    state: Mutex<State>,
    bytes_max: u64,
}

struct State {
    changes: VecDeque<Arc<Change>>,
    /// The number of the first of them.
    first: u64,
    charge: Charge,
    /// From oldest to newest.
    stages: BTreeMap<u64, OpenStage>,
    next_stage: u64,
    /// Every reader that comes sees what was written up to here.
    seen: u64,
}

struct OpenStage {
    /// It sees what was written up to here.
    opened_at: u64,
    /// The number of the first change after its opening.
    first: u64,
    is_given_up: Arc<AtomicBool>,
}

/// The place of an open stage, given up when it is dropped.
pub(crate) struct JournalPlace {
    journal: Arc<ChangeJournal>,
    number: u64,
    opened_at: u64,
    first: u64,
    is_given_up: Arc<AtomicBool>,
}

/// Up to where the changes of a moment are in memory.
pub(crate) struct Settled {
    /// The number of the next change that comes.
    end: u64,
    /// Every reader sees what was written up to here.
    seen: u64,
}

impl ChangeJournal {
    pub(crate) fn new(budget: &Arc<MemoryBudget>) -> Self {
        let state = State {
            changes: VecDeque::new(),
            first: 0,
            charge: budget.charge(Component::Query, 0),
            stages: BTreeMap::new(),
            next_stage: 0,
            seen: 0,
        };
        Self { state: Mutex::new(state), bytes_max: budget.limit_bytes() / SHARE }
    }

    /// Notes what a batch is about to change in memory, before any reader sees it.
    pub(crate) fn note(&self, work: &Work, sequence: u64, version: &Version) {
        let mut changes = changes_of(work, sequence, version);
        if self.is_filling_up() {
            changes.iter_mut().for_each(|change| change.encode(version));
        }
        let mut state = self.state.lock();
        for change in changes {
            state.add(change);
        }
        state.keep_within(self.bytes_max);
    }

    fn is_filling_up(&self) -> bool {
        let state = self.state.lock();
        !state.stages.is_empty() && state.charge.bytes() > self.bytes_max / ENCODED_FROM
    }

    /// Readers see everything up to a sequence: what no stage needs is forgotten.
    pub(crate) fn seen_up_to(&self, watermark: u64) {
        let mut state = self.state.lock();
        state.seen = state.seen.max(watermark);
        state.forget();
    }

    /// Publishes a version with rowsets that were adopted: a stage is opened before or after that.
    pub(crate) fn publish(&self, changes: Vec<Change>, publish: impl FnOnce()) {
        let mut state = self.state.lock();
        for change in changes {
            state.add(change);
        }
        publish();
        state.forget();
        state.keep_within(self.bytes_max);
    }

    /// Keeps what is written from now on for a stage. `open` returns the stage, and the last sequence that it sees.
    pub(crate) fn open<T>(self: &Arc<Self>, open: impl FnOnce() -> (T, u64)) -> (JournalPlace, T) {
        let mut state = self.state.lock();
        // What a reader that comes now does not see is still here, and stays while this is locked.
        let (stage, opened_at) = open();
        let (number, is_given_up) = (state.next_stage, Arc::<AtomicBool>::default());
        let first = state.first + state.changes.len() as u64;
        state.next_stage += 1;
        state.stages.insert(number, OpenStage { opened_at, first, is_given_up: is_given_up.clone() });
        drop(state);
        (JournalPlace { journal: self.clone(), number, opened_at, first, is_given_up }, stage)
    }
}

impl State {
    fn add(&mut self, change: Change) {
        self.charge.grow(change.bytes());
        self.changes.push_back(Arc::new(change));
    }

    /// Gives stages up until what is kept has its bound.
    fn keep_within(&mut self, bytes_max: u64) {
        while self.charge.bytes() > bytes_max
            && let Some((_, stage)) = self.stages.pop_first()
        {
            stage.is_given_up.store(true, Ordering::Release);
            self.forget();
        }
    }

    /// Forgets the changes that every open stage sees, and every later one.
    fn forget(&mut self) {
        let opened = self.stages.values().map(|stage| stage.opened_at);
        let seen = opened.fold(self.seen, u64::min);
        // Stages are opened one after the other.
        let oldest = self.stages.values().map(|stage| stage.first).next().unwrap_or(u64::MAX);
        loop {
            let number = self.first;
            let is_seen = |change: &mut Arc<Change>| match change.rows {
                ChangedRows::Rowsets(_) => number < oldest,
                ChangedRows::Keys(_) | ChangedRows::Points(_) | ChangedRows::Range(_) => {
                    change.sequence <= seen
                }
            };
            let Some(change) = self.changes.pop_front_if(is_seen) else { return };
            self.first += 1;
            self.charge.set(self.charge.bytes() - change.bytes());
        }
    }
}

impl JournalPlace {
    /// An error if the stage was given up.
    pub(crate) fn check(&self) -> Result<()> {
        match self.is_given_up.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(Error::retry(format!(
                "the stage was open for too long and is given up: the keys that others wrote since it was opened take \
                 more than {} MiB of memory, an eighth of memory-limit. Commit sooner, or raise it",
                self.journal.bytes_max >> 20
            ))),
        }
    }

    /// Up to where changes are in memory.
    pub(crate) fn settled(&self) -> Settled {
        let state = self.journal.state.lock();
        Settled { end: state.first + state.changes.len() as u64, seen: state.seen }
    }

    /// The changes from a number on that the stage does not see, and the number of the next one to look at: all that are
    /// noted, or those before the first that may not be in memory yet.
    pub(crate) fn changes_from(
        &self,
        number: u64,
        settled: Option<&Settled>,
    ) -> Result<(Vec<Arc<Change>>, u64)> {
        let state = self.journal.state.lock();
        self.check()?;
        let known = number.saturating_sub(state.first) as usize;
        let (mut next, mut changes) = (state.first + known as u64, Vec::new());
        for change in state.changes.iter().skip(known) {
            if settled.is_some_and(|settled| !settled.has(next, change)) {
                break;
            }
            let is_unseen = match change.rows {
                ChangedRows::Rowsets(_) => next >= self.first,
                ChangedRows::Keys(_) | ChangedRows::Points(_) | ChangedRows::Range(_) => {
                    change.sequence > self.opened_at
                }
            };
            if is_unseen {
                changes.push(change.clone());
            }
            next += 1;
        }
        Ok((changes, next))
    }
}

impl Settled {
    /// Whether a view that is taken afterwards has what was changed.
    fn has(&self, number: u64, change: &Change) -> bool {
        match change.rows {
            // They were published when they were noted.
            ChangedRows::Rowsets(_) => number < self.end,
            // They are noted before they are applied.
            ChangedRows::Keys(_) | ChangedRows::Points(_) | ChangedRows::Range(_) => {
                change.sequence <= self.seen
            }
        }
    }
}

impl Drop for JournalPlace {
    fn drop(&mut self) {
        let mut state = self.journal.state.lock();
        state.stages.remove(&self.number);
        state.forget();
    }
}

impl Change {
    fn bytes(&self) -> u64 {
        let arrays: u64 = match &self.rows {
            ChangedRows::Keys(keys) => keys.iter().map(|values| value_bytes(values) as u64).sum(),
            ChangedRows::Points(points) => points.bytes(),
            ChangedRows::Range(range) => range.memory_bytes(),
            ChangedRows::Rowsets(_) => 0,
        };
        CHANGE_BYTES + arrays
    }

    /// Encodes its keys, if they are of many points.
    fn encode(&mut self, version: &Version) {
        let ChangedRows::Keys(keys) = &self.rows else { return };
        let is_of_points = version.table(self.table).is_ok_and(|table| table.schema.is_series_keyed());
        if is_of_points && keys[0].len() >= ENCODED_ROWS_MIN {
            self.rows = ChangedRows::Points(EncodedPoints::of(keys));
        }
    }
}

fn changes_of(work: &Work, sequence: u64, version: &Version) -> Vec<Change> {
    match work {
        Work::DeleteRange { table, range } => {
            vec![Change { table: *table, sequence, rows: ChangedRows::Range(range.clone()) }]
        }
        Work::Batch(batch) => {
            let change = |operation: &Operation| {
                let table = operation.table();
                // The rows of a dropped table go with it.
                let keys = key_arrays(operation, &version.table(table).ok()?.schema);
                Some(Change { table, sequence, rows: ChangedRows::Keys(keys) })
            };
            batch.operations.iter().filter_map(change).collect()
        }
    }
}

fn key_arrays(operation: &Operation, schema: &TableSchema) -> Vec<ArrayRef> {
    match operation {
        Operation::Upsert(upsert) => {
            let cells = |id| upsert.column(id).expect("a batch that was checked has its key columns");
            schema.key.iter().map(|id| cells(*id).values.clone()).collect()
        }
        Operation::DeleteKeys { keys, .. } => keys.clone(),
    }
}
