//! What writers cache between requests: ids of series, and memory for batches.
//!
//! Each concurrent writer has its own cache, so that writers do not wait for each other. This costs a key and its id
//! per writer and series, so a cache that has grown large is shared: writers then parse lines one after the other, but
//! log and store them in parallel as before.

use super::Form;
use crate::ingest::{ParsedBatch, SeriesCache, SeriesCacheLimits};
use nyala_core::memory::{Charge, Component, MemoryBudget};
use parking_lot::Mutex;
use std::sync::Arc;

/// The most caches kept for later requests.
const IDLE_WRITERS_MAX: usize = 8;
/// The most memory that is kept for a next batch, …
const IDLE_BATCH_BYTES_MAX: usize = 4 << 20;
/// … and the most as a part of the memory limit.
const IDLE_BATCH_SHARE: u64 = 64;
/// A cache with more series than this is shared: some 5 MB, …
pub(super) const OWN_SERIES_MAX: usize = 1 << 16;
/// … and so is a cache with longer keys.
const OWN_BYTES_MAX: usize = 8 << 20;
/// The most shared caches, each of another retention policy, …
const SHARED_MAX: usize = 3;
/// … and the part of the memory limit that all of them may take before the oldest is dropped.
const SHARED_SHARE: u64 = 4;
/// The keys of a cache may take this part of the memory limit, and its table as much again.
const CACHE_SHARE: u64 = 5;
/// If this much of the memory limit is taken, nothing is cached.
const SHORT_PERCENT: u64 = 80;
/// The approximate memory of a series in a cache besides its key.
const ENTRY_BYTES: u64 = 48;

/// The caches of all writers.
pub(super) struct Memories {
    idle: Mutex<Vec<Memory>>,
    shared: Mutex<Vec<Arc<SharedSeries>>>,
    limits: SeriesCacheLimits,
    memory: Arc<MemoryBudget>,
}

/// (database, retention policy, form of the lines).
type Place = (String, String, Form);

/// What is cached of one retention policy between requests.
pub(super) struct Memory {
    place: Place,
    own: KnownSeries,
    /// Used in place of its own cache, if there is one.
    shared: Option<Arc<SharedSeries>>,
    pub(super) batch: ParsedBatch,
    /// For the memory of the batch.
    charge: Charge,
}

struct SharedSeries {
    place: Place,
    known: tokio::sync::Mutex<KnownSeries>,
}

pub(super) struct KnownSeries {
    cache: SeriesCache,
    charge: Charge,
    /// The number of series that are charged.
    charged_series: usize,
}

impl KnownSeries {
    fn charge(&mut self) {
        if self.charged_series != self.cache.len() {
            self.charged_series = self.cache.len();
            self.charge.set(self.cache.memory_bytes() as u64);
        }
    }
}

/// A cache that nobody else uses meanwhile.
pub(super) enum Turn<'a> {
    Own(&'a mut KnownSeries),
    Shared(tokio::sync::MutexGuard<'a, KnownSeries>),
}

impl Turn<'_> {
    pub(super) fn cache(&mut self) -> &mut SeriesCache {
        match self {
            Turn::Own(known) => &mut known.cache,
            Turn::Shared(known) => &mut known.cache,
        }
    }
}

impl Memory {
    /// Waits for the cache that the writer uses. Returns it with the batch.
    pub(super) async fn turn(&mut self) -> (Turn<'_>, &mut ParsedBatch) {
        let turn = match &self.shared {
            Some(shared) => Turn::Shared(shared.known.lock().await),
            None => Turn::Own(&mut self.own),
        };
        (turn, &mut self.batch)
    }
}

impl Memories {
    /// The cache keeps to the limits, and to its part of the memory.
    pub(super) fn new(mut limits: SeriesCacheLimits, memory: Arc<MemoryBudget>) -> Self {
        let part_bytes = memory.limit_bytes() / CACHE_SHARE;
        limits.max_key_bytes = limits.max_key_bytes.min(part_bytes as usize);
        limits.max_entries = limits.max_entries.min((part_bytes / ENTRY_BYTES) as usize);
        Self { idle: Mutex::default(), shared: Mutex::default(), limits, memory }
    }

    fn nothing_known(&self, form: Form) -> KnownSeries {
        let charge = self.memory.charge(Component::SeriesIndex, 0);
        let cache = match form {
            Form::Lines => SeriesCache::new(self.limits),
            Form::Samples => SeriesCache::new(self.limits).of_group(),
        };
        KnownSeries { cache, charge, charged_series: 0 }
    }

    /// Takes a cache for a retention policy.
    pub(super) fn take(&self, database: &str, policy: &str, form: Form) -> Memory {
        let is_same = |place: &Place| place.0 == database && place.1 == policy && place.2 == form;
        let mut idle = self.idle.lock();
        let mut memory = match idle.iter().rposition(|memory| is_same(&memory.place)) {
            Some(position) => idle.swap_remove(position),
            None => {
                if idle.len() >= IDLE_WRITERS_MAX {
                    idle.remove(0);
                }
                let own = self.nothing_known(form);
                let place = (database.to_owned(), policy.to_owned(), form);
                let charge = self.memory.charge(Component::SeriesIndex, 0);
                Memory { place, own, shared: None, batch: ParsedBatch::new(), charge }
            }
        };
        drop(idle);
        memory.shared = self.shared.lock().iter().find(|shared| is_same(&shared.place)).cloned();
        memory
    }

    /// Returns a cache for later requests.
    pub(super) fn give_back(&self, mut memory: Memory) {
        let batch_bytes_max = (self.memory.limit_bytes() / IDLE_BATCH_SHARE).min(IDLE_BATCH_BYTES_MAX as u64);
        if memory.batch.memory_bytes() as u64 > batch_bytes_max {
            memory.batch = ParsedBatch::new();
        }
        memory.charge.set(memory.batch.memory_bytes() as u64);
        // If somebody uses it now, they charge it later.
        if let Some(shared) = memory.shared.take()
            && let Ok(mut known) = shared.known.try_lock()
        {
            known.charge();
        }
        memory.own.charge();
        if self.memory.total_bytes() > self.memory.limit_bytes() / 100 * SHORT_PERCENT {
            self.forget();
            return;
        }
        if memory.own.cache.len() > OWN_SERIES_MAX || memory.own.charge.bytes() > OWN_BYTES_MAX as u64 {
            self.share(&mut memory);
        }
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_WRITERS_MAX {
            idle.push(memory);
        }
    }

    /// Drops all caches: memory is short, and everything can be looked up again.
    fn forget(&self) {
        self.idle.lock().clear();
        self.shared.lock().clear();
    }

    /// Makes a writer's cache the shared one. If there is one already, the writer's cache is dropped.
    fn share(&self, memory: &mut Memory) {
        let known = std::mem::replace(&mut memory.own, self.nothing_known(memory.place.2));
        let mut shared = self.shared.lock();
        if shared.iter().any(|shared| shared.place == memory.place) {
            return;
        }
        let others_bytes = |shared: &[Arc<SharedSeries>]| -> u64 {
            let charged =
                |known: &SharedSeries| known.known.try_lock().map_or(0, |known| known.charge.bytes());
            shared.iter().map(|shared| charged(shared)).sum()
        };
        let room_bytes = self.memory.limit_bytes() / SHARED_SHARE;
        while shared.len() >= SHARED_MAX || (!shared.is_empty() && others_bytes(&shared) > room_bytes) {
            shared.remove(0);
        }
        let place = memory.place.clone();
        shared.push(Arc::new(SharedSeries { place, known: tokio::sync::Mutex::new(known) }));
    }
}
