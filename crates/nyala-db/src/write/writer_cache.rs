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
pub(super) struct WriterCaches {
    idle: Mutex<Vec<WriterCache>>,
    shared: Mutex<Vec<Arc<SharedCache>>>,
    limits: SeriesCacheLimits,
    memory: Arc<MemoryBudget>,
}

/// (database, retention policy, form of the lines).
type CacheKey = (String, String, Form);

/// What is cached of one retention policy between requests.
pub(super) struct WriterCache {
    key: CacheKey,
    own: ChargedCache,
    /// Used in place of its own cache, if there is one.
    shared: Option<Arc<SharedCache>>,
    pub(super) batch: ParsedBatch,
    /// For the memory of the batch.
    charge: Charge,
}

struct SharedCache {
    key: CacheKey,
    known: tokio::sync::Mutex<ChargedCache>,
}

pub(super) struct ChargedCache {
    cache: SeriesCache,
    charge: Charge,
    /// The number of series that are charged.
    charged_series: usize,
}

impl ChargedCache {
    fn charge(&mut self) {
        if self.charged_series != self.cache.len() {
            self.charged_series = self.cache.len();
            self.charge.set(self.cache.memory_bytes() as u64);
        }
    }
}

/// A cache that nobody else uses meanwhile.
pub(super) enum CacheLease<'a> {
    Own(&'a mut ChargedCache),
    Shared(tokio::sync::MutexGuard<'a, ChargedCache>),
}

impl CacheLease<'_> {
    pub(super) fn cache(&mut self) -> &mut SeriesCache {
        match self {
            CacheLease::Own(known) => &mut known.cache,
            CacheLease::Shared(known) => &mut known.cache,
        }
    }
}

impl WriterCache {
    /// Waits for the cache that the writer uses. Returns it with the batch.
    pub(super) async fn lease(&mut self) -> (CacheLease<'_>, &mut ParsedBatch) {
        let lease = match &self.shared {
            Some(shared) => CacheLease::Shared(shared.known.lock().await),
            None => CacheLease::Own(&mut self.own),
        };
        (lease, &mut self.batch)
    }
}

impl WriterCaches {
    /// The cache keeps to the limits, and to its part of the memory.
    pub(super) fn new(mut limits: SeriesCacheLimits, memory: Arc<MemoryBudget>) -> Self {
        let part_bytes = memory.limit_bytes() / CACHE_SHARE;
        limits.max_key_bytes = limits.max_key_bytes.min(part_bytes as usize);
        limits.max_entries = limits.max_entries.min((part_bytes / ENTRY_BYTES) as usize);
        Self { idle: Mutex::default(), shared: Mutex::default(), limits, memory }
    }

    fn empty_cache(&self, form: Form) -> ChargedCache {
        let charge = self.memory.charge(Component::SeriesIndex, 0);
        let cache = match form {
            Form::Lines => SeriesCache::new(self.limits),
            Form::Samples => SeriesCache::new(self.limits).of_group(),
        };
        ChargedCache { cache, charge, charged_series: 0 }
    }

    /// Takes a cache for a retention policy.
    pub(super) fn take(&self, database: &str, policy: &str, form: Form) -> WriterCache {
        let is_same = |key: &CacheKey| key.0 == database && key.1 == policy && key.2 == form;
        let mut idle = self.idle.lock();
        let mut taken = match idle.iter().rposition(|cache| is_same(&cache.key)) {
            Some(position) => idle.swap_remove(position),
            None => {
                if idle.len() >= IDLE_WRITERS_MAX {
                    idle.remove(0);
                }
                let own = self.empty_cache(form);
                let key = (database.to_owned(), policy.to_owned(), form);
                let charge = self.memory.charge(Component::SeriesIndex, 0);
                WriterCache { key, own, shared: None, batch: ParsedBatch::new(), charge }
            }
        };
        drop(idle);
        taken.shared = self.shared.lock().iter().find(|shared| is_same(&shared.key)).cloned();
        taken
    }

    /// Returns a cache for later requests.
    pub(super) fn give_back(&self, mut returned: WriterCache) {
        let batch_bytes_max = (self.memory.limit_bytes() / IDLE_BATCH_SHARE).min(IDLE_BATCH_BYTES_MAX as u64);
        if returned.batch.memory_bytes() as u64 > batch_bytes_max {
            returned.batch = ParsedBatch::new();
        }
        returned.charge.set(returned.batch.memory_bytes() as u64);
        // If somebody uses it now, they charge it later.
        if let Some(shared) = returned.shared.take()
            && let Ok(mut known) = shared.known.try_lock()
        {
            known.charge();
        }
        returned.own.charge();
        if self.memory.total_bytes() > self.memory.limit_bytes() / 100 * SHORT_PERCENT {
            self.forget();
            return;
        }
        if returned.own.cache.len() > OWN_SERIES_MAX || returned.own.charge.bytes() > OWN_BYTES_MAX as u64 {
            self.share(&mut returned);
        }
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_WRITERS_MAX {
            idle.push(returned);
        }
    }

    /// Drops all caches: memory is short, and everything can be looked up again.
    fn forget(&self) {
        self.idle.lock().clear();
        self.shared.lock().clear();
    }

    /// Makes a writer's cache the shared one. If there is one already, the writer's cache is dropped.
    fn share(&self, writer: &mut WriterCache) {
        let known = std::mem::replace(&mut writer.own, self.empty_cache(writer.key.2));
        let mut shared = self.shared.lock();
        if shared.iter().any(|shared| shared.key == writer.key) {
            return;
        }
        let others_bytes = |shared: &[Arc<SharedCache>]| -> u64 {
            let charged =
                |known: &SharedCache| known.known.try_lock().map_or(0, |known| known.charge.bytes());
            shared.iter().map(|shared| charged(shared)).sum()
        };
        let room_bytes = self.memory.limit_bytes() / SHARED_SHARE;
        while shared.len() >= SHARED_MAX || (!shared.is_empty() && others_bytes(&shared) > room_bytes) {
            shared.remove(0);
        }
        let key = writer.key.clone();
        shared.push(Arc::new(SharedCache { key, known: tokio::sync::Mutex::new(known) }));
    }
}
