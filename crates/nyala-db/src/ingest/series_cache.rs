//! Finds a series id by the bytes `measurement,tag=value,…`, as a client writes them. This is the hottest look-up of
//! all, so a cache has no locks: one writer at a time uses it (`write/writer_cache.rs`), for one database and policy.
//!
//! Clients send the same series in the same order again and again. So each entry remembers which entry followed it. The
//! next line is first compared with that key, then with the last key again and with the keys one and two further: a row
//! that is late or missing does not change the order. If this keeps missing, guessing pauses, and only every 64th line
//! is guessed. Otherwise the key is hashed. An entry takes 24 bytes, 5 to 10 in the table, and its key once, so a
//! million series of 100 bytes take some 140 MB.
//!
//! Different spellings of a series (order of tags, escapes) are different entries, to which the caller gives the same
//! id. Limits are enforced between requests: a request may exceed them by its own new keys. When they are reached, keys
//! that were not used since the last time are evicted. If that frees too little, all keys are.
//!
//! Ids of removed series must not be returned. So the cache keeps the generation of the ids of each measurement, and
//! the owner makes it forget ids that the measurement no longer has.

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

use super::key::{TagSet, guess_key_end, measurement_of};
use super::known_fields::MAX_PLAIN_NAME_BYTES;
use super::options::MAX_KEY_BYTES;

/// The series id of a row whose series the caller has not resolved yet.
pub const UNRESOLVED_SERIES: u32 = u32::MAX;

/// Keys are stored in chunks that never move. A key's position is a chunk and an offset in one word, so 4 GiB is the
/// most.
const CHUNK_BITS: u32 = 20;
const CHUNK_BYTES: usize = 1 << CHUNK_BITS;

/// After this many misses in a row, only every `GUESS_INTERVAL`th line is guessed.
const MISSES_TO_PAUSE: u32 = 16;
const GUESS_INTERVAL: u32 = 64;

/// The number of series that may be missing between two that follow each other.
const SKIPPED_MAX: usize = 2;

const NO_ENTRY: u32 = u32::MAX;

/// The key contains no newline or unescaped blank and is short enough. So all passes of the slow path parse a line
/// alike that starts with it and a space.
const PLAIN: u8 = 1;
/// Used since entries were last evicted.
const USED: u8 = 2;
/// In the list of pending series.
const PENDING: u8 = 4;

/// A key in a [`SeriesCache`], valid until the next request begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SeriesHandle(pub(super) u32);

/// Limits of a [`SeriesCache`].
#[derive(Clone, Copy, Debug)]
pub struct SeriesCacheLimits {
    /// The most keys.
    pub max_entries: usize,
    /// The most bytes of keys. Values above 3 GiB mean 3 GiB.
    pub max_key_bytes: usize,
}

impl Default for SeriesCacheLimits {
    /// Room for two million short keys or 600 000 of TSBS' size, which is at most some 170 MB. If a client writes more
    /// series in turn than fit, none is ever found, so choose the size by what the writers may hold.
    fn default() -> Self {
        Self { max_entries: 2_000_000, max_key_bytes: 96 << 20 }
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    place: u32,
    hash: u32,
    series_id: u32,
    measurement: u32,
    next: u32,
    key_bytes: u16,
    flags: u8,
}

/// The state of a table for which the ids of its series are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation {
    /// Its table.
    pub table: u32,
    /// The number of removals of series from the table.
    pub removals: u64,
    /// How often a tag of its series was renamed.
    pub renamed_tags: u64,
}

/// A measurement that has keys.
#[derive(Debug)]
struct CachedMeasurement {
    name: Box<[u8]>,
    /// The generation of the ids of its series; none before there are any.
    generation: Option<Generation>,
}

/// What the parser needs to know of an entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoundSeries {
    pub(super) handle: SeriesHandle,
    pub(super) series_id: u32,
    pub(super) measurement: u32,
    pub(super) key_bytes: usize,
}

/// Series ids by key.
#[derive(Debug)]
pub struct SeriesCache {
    limits: SeriesCacheLimits,
    hasher: RandomState,
    chunks: Vec<Vec<u8>>,
    entries: Vec<Entry>,
    table: HashTable<u32>,
    measurements: Vec<CachedMeasurement>,
    measurement_table: HashTable<u32>,
    pending: Vec<SeriesHandle>,
    previous: u32,
    misses: u32,
    lines: u32,
    /// Whether all measurements are treated as one without a name: the group that they are members of.
    is_group: bool,
}

impl SeriesCache {
    /// An empty cache.
    pub fn new(limits: SeriesCacheLimits) -> Self {
        Self {
            limits,
            hasher: RandomState::default(),
            chunks: Vec::new(),
            entries: Vec::new(),
            table: HashTable::new(),
            measurements: Vec::new(),
            measurement_table: HashTable::new(),
            pending: Vec::new(),
            previous: NO_ENTRY,
            misses: 0,
            lines: 0,
            is_group: false,
        }
    }

    /// The same, but all measurements are treated as one without a name, the group that they are members of. So their
    /// rows are in one group.
    #[must_use]
    pub fn of_group(mut self) -> Self {
        self.is_group = true;
        self
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes held.
    pub fn memory_bytes(&self) -> usize {
        self.chunks.iter().map(Vec::capacity).sum::<usize>()
            + self.entries.capacity() * size_of::<Entry>()
            + self.table.allocation_size()
            + self.measurement_table.allocation_size()
            + self
                .measurements
                .iter()
                .map(|measurement| measurement.name.len() + size_of::<CachedMeasurement>())
                .sum::<usize>()
    }

    /// Makes sure that the ids of a measurement's series have this generation. Ids of another generation are forgotten
    /// unless they are still `in_use`, and all of them if the table is another or a tag was renamed. Returns whether parsed rows may have ids that were forgotten.
    pub fn renew(
        &mut self,
        measurement: &[u8],
        generation: Generation,
        mut in_use: impl FnMut(u32) -> bool,
    ) -> bool {
        let Some(number) = self.find_measurement(measurement) else { return false };
        let Some(known) = self.measurements[number].generation.replace(generation) else { return false };
        if known == generation {
            return false;
        }
        let are_others = known.table != generation.table || known.renamed_tags != generation.renamed_tags;
        let mut forgotten = false;
        for entry in self.entries.iter_mut().filter(|entry| entry.measurement as usize == number) {
            let id = entry.series_id;
            if id != UNRESOLVED_SERIES && (are_others || !in_use(id)) {
                entry.series_id = UNRESOLVED_SERIES;
                forgotten = true;
            }
        }
        forgotten
    }

    /// The series of the last batch that have no id, each once.
    pub fn pending(&self) -> &[SeriesHandle] {
        &self.pending
    }

    /// The measurement of a series, unescaped. It need not be UTF-8.
    pub fn measurement(&self, handle: SeriesHandle) -> &[u8] {
        &self.measurements[self.entries[handle.0 as usize].measurement as usize].name
    }

    /// The measurement of a series as its line names it, unescaped, also in a group.
    pub fn written_measurement(&self, handle: SeriesHandle) -> Vec<u8> {
        measurement_of(self.key(handle))
    }

    /// Reads the tags of a series.
    pub fn read_tags(&self, handle: SeriesHandle, tags: &mut TagSet) {
        tags.read(self.key(handle));
    }

    /// The key of a series as it was written.
    pub fn key(&self, handle: SeriesHandle) -> &[u8] {
        self.key_of(&self.entries[handle.0 as usize])
    }

    /// Id of a series, or [`UNRESOLVED_SERIES`].
    pub fn series_id(&self, handle: SeriesHandle) -> u32 {
        self.entries[handle.0 as usize].series_id
    }

    /// Sets the id of a series.
    pub fn set_series_id(&mut self, handle: SeriesHandle, series_id: u32) {
        self.entries[handle.0 as usize].series_id = series_id;
    }

    /// Begins a batch: the list of pending series is cleared.
    pub(super) fn begin_batch(&mut self) {
        for handle in std::mem::take(&mut self.pending) {
            self.entries[handle.0 as usize].flags &= !PENDING;
        }
    }

    /// Begins a request: evicts keys if the limits are reached.
    pub(super) fn begin_request(&mut self) {
        self.begin_batch();
        let max_key_bytes = self.limits.max_key_bytes.min(3 << 30);
        let key_bytes = self.chunks.len() * CHUNK_BYTES;
        // The last chunk is rarely full. One chunk is always allowed.
        if self.entries.len() > self.limits.max_entries || key_bytes > max_key_bytes.max(CHUNK_BYTES) {
            self.evict(max_key_bytes);
        }
    }

    /// Keeps the keys used since the last time, unless they would fill more than three quarters of the room. In that
    /// case the next eviction would follow soon and free as little.
    fn evict(&mut self, max_key_bytes: usize) {
        let anew = Self { is_group: self.is_group, ..Self::new(self.limits) };
        let old = std::mem::replace(self, anew);
        let used = || old.entries.iter().filter(|entry| entry.flags & USED != 0);
        let used_bytes: usize = used().map(|entry| usize::from(entry.key_bytes)).sum();
        if used().count() > self.limits.max_entries / 4 * 3 || used_bytes > max_key_bytes / 4 * 3 {
            return;
        }
        self.hasher = old.hasher.clone();
        for entry in used() {
            let key = old.key_of(entry);
            let place = self.store_key(key);
            let known = &old.measurements[entry.measurement as usize];
            let measurement = self.intern_measurement(&known.name);
            self.measurements[measurement as usize].generation = known.generation;
            self.insert_entry(Entry {
                place,
                measurement,
                next: NO_ENTRY,
                flags: entry.flags & PLAIN,
                ..*entry
            });
        }
    }

    /// The series whose key is at the start of `line`, followed by a space, if it is known and plain.
    #[inline(always)]
    pub(super) fn find_line(&mut self, line: &[u8]) -> Option<FoundSeries> {
        self.lines = self.lines.wrapping_add(1);
        if self.misses < MISSES_TO_PAUSE || self.lines.is_multiple_of(GUESS_INTERVAL) {
            if let Some(found) = self.guess(line) {
                self.misses = 0;
                return Some(found);
            }
            self.misses = self.misses.saturating_add(1);
        }
        let key = &line[..guess_key_end(line)?];
        let found = self.find(key, self.hash(key))?;
        let plain = self.entries[found.handle.0 as usize].flags & PLAIN != 0;
        plain.then_some(found)
    }

    #[inline(always)]
    fn guess(&self, line: &[u8]) -> Option<FoundSeries> {
        let next = self.entries.get(self.previous as usize)?.next;
        self.begins_with(line, next).or_else(|| self.guess_near(line, next))
    }

    #[inline(never)]
    fn guess_near(&self, line: &[u8], mut next: u32) -> Option<FoundSeries> {
        if let Some(again) = self.begins_with(line, self.previous) {
            return Some(again);
        }
        (0..SKIPPED_MAX).find_map(|_| {
            next = self.entries.get(next as usize).map_or(NO_ENTRY, |entry| entry.next);
            self.begins_with(line, next)
        })
    }

    /// Whether [`Self::guess_near`] finds an entry.
    fn is_near(&self, handle: u32) -> bool {
        let mut next = self.previous;
        (0..SKIPPED_MAX + 2).any(|_| {
            let found = next == handle;
            next = self.entries.get(next as usize).map_or(NO_ENTRY, |entry| entry.next);
            found
        })
    }

    #[inline(always)]
    fn begins_with(&self, line: &[u8], handle: u32) -> Option<FoundSeries> {
        let entry = self.entries.get(handle as usize)?;
        let key_bytes = usize::from(entry.key_bytes);
        if entry.flags & PLAIN == 0
            || line.get(key_bytes) != Some(&b' ')
            || &line[..key_bytes] != self.key_of(entry)
        {
            return None;
        }
        Some(FoundSeries {
            handle: SeriesHandle(handle),
            series_id: entry.series_id,
            measurement: entry.measurement,
            key_bytes,
        })
    }

    /// The entry of `key`, which is inserted if it is new. The key is valid.
    pub(super) fn find_or_insert(&mut self, key: &[u8]) -> FoundSeries {
        let hash = self.hash(key);
        if let Some(found) = self.find(key, hash) {
            return found;
        }
        let name = if self.is_group { Vec::new() } else { measurement_of(key) };
        let entry = Entry {
            place: self.store_key(key),
            hash,
            series_id: UNRESOLVED_SERIES,
            measurement: self.intern_measurement(&name),
            next: NO_ENTRY,
            key_bytes: u16::try_from(key.len()).expect("a valid key is at most 65535 bytes"),
            flags: if is_plain(key) { PLAIN } else { 0 },
        };
        let handle = self.insert_entry(entry);
        FoundSeries {
            handle,
            series_id: UNRESOLVED_SERIES,
            measurement: entry.measurement,
            key_bytes: key.len(),
        }
    }

    /// Notes that a row of this series was parsed.
    #[inline(always)]
    pub(super) fn advance(&mut self, found: &FoundSeries) {
        let handle = found.handle.0;
        if let Some(previous) = self.entries.get(self.previous as usize)
            && previous.next != handle
            && !self.is_near(handle)
        {
            self.entries[self.previous as usize].next = handle;
        }
        self.previous = handle;
        let entry = &mut self.entries[handle as usize];
        if entry.flags & USED == 0 {
            entry.flags |= USED;
        }
        if found.series_id == UNRESOLVED_SERIES && entry.flags & PENDING == 0 {
            entry.flags |= PENDING;
            self.pending.push(found.handle);
        }
    }

    /// The number of a measurement. It is below [`Self::measurement_count`].
    pub(super) fn find_measurement(&self, name: &[u8]) -> Option<usize> {
        let same = |&index: &u32| *self.measurements[index as usize].name == *name;
        self.measurement_table.find(self.hasher.hash_one(name), same).map(|&index| index as usize)
    }

    pub(super) fn measurement_count(&self) -> usize {
        self.measurements.len()
    }

    pub(super) fn measurement_name(&self, measurement: u32) -> &[u8] {
        &self.measurements[measurement as usize].name
    }

    fn key_of(&self, entry: &Entry) -> &[u8] {
        let offset = entry.place as usize % CHUNK_BYTES;
        &self.chunks[(entry.place >> CHUNK_BITS) as usize][offset..offset + usize::from(entry.key_bytes)]
    }

    fn hash(&self, key: &[u8]) -> u32 {
        (self.hasher.hash_one(key) >> 32) as u32
    }

    fn find(&self, key: &[u8], hash: u32) -> Option<FoundSeries> {
        let same = |&index: &u32| {
            let entry = &self.entries[index as usize];
            entry.hash == hash && self.key_of(entry) == key
        };
        let &index = self.table.find(spread(hash), same)?;
        let entry = &self.entries[index as usize];
        Some(FoundSeries {
            handle: SeriesHandle(index),
            series_id: entry.series_id,
            measurement: entry.measurement,
            key_bytes: key.len(),
        })
    }

    fn insert_entry(&mut self, entry: Entry) -> SeriesHandle {
        let index = u32::try_from(self.entries.len()).expect("fewer keys than bytes of keys");
        if self.entries.len() == self.entries.capacity() {
            // Doubling a table of a million entries would leave much unused.
            self.entries.reserve_exact((self.entries.len() / 4).max(64));
        }
        self.entries.push(entry);
        let entries = &self.entries;
        self.table.insert_unique(spread(entry.hash), index, |&index| spread(entries[index as usize].hash));
        SeriesHandle(index)
    }

    fn store_key(&mut self, key: &[u8]) -> u32 {
        let last = self.chunks.last().map_or(CHUNK_BYTES, Vec::len);
        if last + key.len() > CHUNK_BYTES {
            self.chunks.push(Vec::with_capacity(CHUNK_BYTES));
        }
        let chunk = self.chunks.len() - 1;
        let offset = self.chunks[chunk].len();
        self.chunks[chunk].extend_from_slice(key);
        u32::try_from((chunk << CHUNK_BITS) + offset).expect("keys of a cache below 4 GiB")
    }

    fn intern_measurement(&mut self, name: &[u8]) -> u32 {
        if let Some(known) = self.find_measurement(name) {
            return known as u32;
        }
        let index = self.measurements.len() as u32;
        self.measurements.push(CachedMeasurement { name: name.into(), generation: None });
        let (hasher, measurements) = (&self.hasher, &self.measurements);
        let rehash = |&index: &u32| hasher.hash_one(&*measurements[index as usize].name);
        self.measurement_table.insert_unique(hasher.hash_one(name), index, rehash);
        index
    }
}

/// Makes the table's 64-bit hash from the 32 bits that an entry keeps.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// See [`PLAIN`]. The pass that cuts blocks takes a backslash and the next byte as a pair. It must see neither a blank
/// (its field section would begin) nor the end of the block.
fn is_plain(key: &[u8]) -> bool {
    let mut at = 0;
    while at < key.len() {
        match key[at] {
            b'\\' => at += 1,
            b' ' => return false,
            _ => {}
        }
        at += 1;
    }
    at == key.len() && !key.contains(&b'\n') && key.len() + 4 + MAX_PLAIN_NAME_BYTES <= MAX_KEY_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(cache: &mut SeriesCache, key: &str) -> FoundSeries {
        let found = cache.find_or_insert(key.as_bytes());
        cache.advance(&found);
        found
    }

    #[test]
    fn the_key_that_followed_last_time_is_guessed() {
        let mut cache = SeriesCache::new(SeriesCacheLimits::default());
        for key in ["m,h=a", "m,h=b", "m,h=c", "m,h=a"] {
            write(&mut cache, key);
        }
        assert_eq!(cache.len(), 3);
        let guessed = cache.guess(b"m,h=b f=1").expect("b follows a");
        assert_eq!(cache.key(guessed.handle), b"m,h=b");
        assert!(cache.guess(b"m,h=bc f=1").is_none());
        assert!(cache.guess(b"m,h=b").is_none());
        assert_eq!(cache.find_line(b"m,h=c f=1").map(|found| found.handle.0), Some(2));
        assert!(cache.find_line(b"m,h=d f=1").is_none());
    }

    #[test]
    fn a_late_or_missing_row_does_not_change_the_order() {
        let mut cache = SeriesCache::new(SeriesCacheLimits::default());
        let keys: Vec<String> = (0..100).map(|number| format!("m,h={number}")).collect();
        for key in &keys {
            write(&mut cache, key);
        }
        for skipped in [3, 4, 50] {
            for (number, key) in keys.iter().enumerate().filter(|(number, _)| *number != skipped) {
                for _ in 0..1 + usize::from(number == skipped + 20) {
                    if number > 0 {
                        let guessed = cache.guess(format!("{key} f=1").as_bytes()).expect("is near");
                        assert_eq!(guessed.handle.0, number as u32);
                    }
                    write(&mut cache, key);
                }
            }
        }
        let next = |number: u32| cache.entries[number as usize].next;
        assert!((0..99).all(|number| next(number) == number + 1));
    }

    #[test]
    fn pending_series_are_listed_once_per_batch() {
        let mut cache = SeriesCache::new(SeriesCacheLimits::default());
        cache.begin_request();
        let found = write(&mut cache, "m,h=a");
        write(&mut cache, "m,h=a");
        assert_eq!(cache.pending(), [found.handle]);
        cache.begin_batch();
        let found = write(&mut cache, "m,h=a");
        assert_eq!(cache.pending(), [found.handle]);
        cache.set_series_id(found.handle, 7);
        cache.begin_batch();
        assert_eq!(write(&mut cache, "m,h=a").series_id, 7);
        assert!(cache.pending().is_empty());
    }

    #[test]
    fn eviction_keeps_what_is_in_use() {
        let mut cache = SeriesCache::new(SeriesCacheLimits { max_entries: 100, max_key_bytes: 1 << 20 });
        for number in 0..101 {
            let found = write(&mut cache, &format!("m{},h={number}", number % 3));
            cache.set_series_id(found.handle, number);
        }
        cache.begin_request();
        assert_eq!(cache.len(), 0, "all were used");
        for number in 0..101 {
            let found = cache.find_or_insert(format!("m{},h={number}", number % 3).as_bytes());
            cache.set_series_id(found.handle, number);
            if number % 2 == 0 {
                cache.advance(&found);
            }
        }
        cache.begin_request();
        assert_eq!(cache.len(), 51);
        for number in (0..101).step_by(2) {
            let found = cache.find_or_insert(format!("m{},h={number}", number % 3).as_bytes());
            assert_eq!(found.series_id, number);
            assert_eq!(cache.measurement(found.handle), format!("m{}", number % 3).as_bytes());
        }
        assert_eq!(cache.len(), 51);
    }

    #[test]
    fn key_bytes_are_bounded_between_requests() {
        let limits = SeriesCacheLimits { max_entries: 1_000_000, max_key_bytes: 4 << 20 };
        let mut cache = SeriesCache::new(limits);
        for round in 0..30 {
            cache.begin_request();
            assert!(cache.memory_bytes() < 8 << 20);
            for number in 0..10 {
                write(&mut cache, &format!("m,h={round}-{number}{}", "x".repeat(60_000)));
            }
        }
    }

    #[test]
    fn keys_that_passes_parse_differently_are_not_plain() {
        for (key, plain) in [
            (r"m,a=b", true),
            (r"m,a=b\ c", true),
            (r"m,a=b\\ c", false),
            ("m,a=b\\\nc", false),
            (r"m\,x,a=\=", true),
        ] {
            assert_eq!(is_plain(key.as_bytes()), plain, "{key}");
        }
        assert!(!is_plain(&[b'x'; MAX_KEY_BYTES]));
    }
}
