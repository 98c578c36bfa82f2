//! What writers remember between requests: the series of what they wrote, and the room for batches.
//!
//! Each writer has its own, so that they need not wait for each other. That costs a key and its id per writer and
//! series, so a cache that grew large is shared: writers take turns in reading lines, and log and store them beside
//! each other as before.

use crate::ingest::{ParsedBatch, SeriesCache, SeriesCacheLimits};
use parking_lot::Mutex;
use std::sync::Arc;

/// The most writers kept ready for later requests.
const IDLE_WRITERS_MAX: usize = 8;
/// The most memory a writer keeps for its next batch.
const IDLE_BATCH_BYTES_MAX: usize = 4 << 20;
/// A cache of more series is shared: some 5 MB.
pub(super) const OWN_SERIES_MAX: usize = 1 << 16;
/// The most caches that are shared, each of another retention policy.
const SHARED_MAX: usize = 3;

/// Of all writers.
pub(super) struct Memories {
    idle: Mutex<Vec<Memory>>,
    shared: Mutex<Vec<Arc<SharedSeries>>>,
    limits: SeriesCacheLimits,
}

/// What a writer remembers of one retention policy between requests.
pub(super) struct Memory {
    place: (String, String),
    own: SeriesCache,
    /// To be used instead of its own.
    shared: Option<Arc<SharedSeries>>,
    pub(super) batch: ParsedBatch,
}

struct SharedSeries {
    place: (String, String),
    known: tokio::sync::Mutex<SeriesCache>,
}

/// Series that nobody else uses meanwhile.
pub(super) enum Turn<'a> {
    Own(&'a mut SeriesCache),
    Shared(tokio::sync::MutexGuard<'a, SeriesCache>),
}

impl Turn<'_> {
    pub(super) fn cache(&mut self) -> &mut SeriesCache {
        match self {
            Turn::Own(known) => known,
            Turn::Shared(known) => known,
        }
    }
}

impl Memory {
    /// Waits for the cache that the writer uses; the batch beside it.
    pub(super) async fn turn(&mut self) -> (Turn<'_>, &mut ParsedBatch) {
        let turn = match &self.shared {
            Some(shared) => Turn::Shared(shared.known.lock().await),
            None => Turn::Own(&mut self.own),
        };
        (turn, &mut self.batch)
    }
}

impl Memories {
    pub(super) fn new(limits: SeriesCacheLimits) -> Self {
        Self { idle: Mutex::default(), shared: Mutex::default(), limits }
    }

    /// The memory of a writer to a retention policy.
    pub(super) fn take(&self, database: &str, policy: &str) -> Memory {
        let is_same = |place: &(String, String)| place.0 == database && place.1 == policy;
        let mut idle = self.idle.lock();
        let mut memory = match idle.iter().rposition(|memory| is_same(&memory.place)) {
            Some(position) => idle.swap_remove(position),
            None => {
                if idle.len() >= IDLE_WRITERS_MAX {
                    idle.remove(0);
                }
                let own = SeriesCache::new(self.limits);
                let place = (database.to_owned(), policy.to_owned());
                Memory { place, own, shared: None, batch: ParsedBatch::new() }
            }
        };
        drop(idle);
        memory.shared = self.shared.lock().iter().find(|shared| is_same(&shared.place)).cloned();
        memory
    }

    /// Keeps a memory for later requests.
    pub(super) fn give_back(&self, mut memory: Memory) {
        if memory.batch.memory_bytes() > IDLE_BATCH_BYTES_MAX {
            memory.batch = ParsedBatch::new();
        }
        memory.shared = None;
        if memory.own.len() > OWN_SERIES_MAX {
            self.share(&mut memory);
        }
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_WRITERS_MAX {
            idle.push(memory);
        }
    }

    /// Makes what a writer knows known to all; where others came first it is forgotten.
    fn share(&self, memory: &mut Memory) {
        let known = std::mem::replace(&mut memory.own, SeriesCache::new(self.limits));
        let mut shared = self.shared.lock();
        if shared.iter().any(|shared| shared.place == memory.place) {
            return;
        }
        if shared.len() >= SHARED_MAX {
            shared.remove(0);
        }
        let place = memory.place.clone();
        shared.push(Arc::new(SharedSeries { place, known: tokio::sync::Mutex::new(known) }));
    }
}
