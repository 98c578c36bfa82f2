//! The series index of one measurement: tag sets ↔ ids, tag values → ids.
//!
//! Ids are given out in order and never reused. A tag set is stored as a *shape* (its tag keys) and one value number
//! per key. The bytes of keys and values are stored once. The whole index is in memory. It is built from the durable
//! records of the measurement when that is first used, and it is charged to the memory budget.
//!
//! Its memory is proportional to the existing series. Removing series frees their words, the values that no other
//! series has, and what refers to them (see `runs.rs`).

mod activity;
mod among;
mod dictionary;
mod filter;
mod groups;
mod idle_sets;
mod postings;
mod presence;
mod runs;

pub(crate) use activity::Activity;
pub use filter::TagFilter;
pub use groups::{GroupValues, Numbers, TagValues, TagWords};
pub use idle_sets::SeriesPin;
pub(crate) use idle_sets::{IdleSeries, IdleSet};
pub(crate) use presence::Presence;

use dictionary::Dictionary;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use nyala_core::SeriesId;
use postings::Postings;
use regex::bytes::Regex;
use roaring::RoaringBitmap;
use runs::Runs;
use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher};

/// Tags of a series, sorted by key.
pub type Tags = Vec<(String, String)>;

/// The series of a measurement.
#[derive(Default)]
pub struct SeriesIndex {
    keys: Vec<TagKey>,
    key_numbers: Dictionary,
    /// By shape, the numbers of its keys, in order of the keys' bytes.
    shapes: Vec<Box<[u32]>>,
    /// Shapes by their keys.
    shape_numbers: HashTable<u32>,
    /// By id, its words: the shape, then one value number per key of the shape.
    words: Runs<u32>,
    /// Ids by their words.
    ids: HashTable<u32>,
    hasher: FixedState,
    alive: RoaringBitmap,
    /// The words of a tag set that is being looked up.
    trial: Vec<u32>,
}

struct TagKey {
    name: String,
    /// The values of the key, each with its series.
    values: Dictionary<Postings>,
    /// The series that have the key.
    series: RoaringBitmap,
    /// The number of values with more than one series, and the number of these series.
    shared: (usize, usize),
}

/// The memory of a set of series besides its elements: the set itself and its first container.
const SHARED_BYTES: usize = 96;
/// The number of unused keys up to which the index is not rebuilt.
const UNUSED_KEYS_MAX: usize = 64;
/// The number of value numbers that a key has given out, above which values are numbered anew. (Values of series that
/// come back get new numbers.)
const VALUE_NUMBERS_MAX: usize = 1 << 30;

impl SeriesIndex {
    /// The number of series.
    pub fn len(&self) -> usize {
        self.alive.len() as usize
    }

    /// Whether there are no series.
    pub fn is_empty(&self) -> bool {
        self.alive.is_empty()
    }

    /// Whether a series exists.
    pub fn contains(&self, id: SeriesId) -> bool {
        self.alive.contains(id.0)
    }

    /// The id of the next new series.
    pub fn next_id(&self) -> SeriesId {
        SeriesId(self.words.next)
    }

    /// Makes sure that ids below `id` are not given out.
    pub fn reserve_ids(&mut self, id: SeriesId) {
        self.words.reserve(id.0);
    }

    /// The id of a tag set (sorted by key), if it exists.
    pub fn find(&self, tags: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)]) -> Option<SeriesId> {
        let mut keys = Vec::with_capacity(tags.len());
        let mut words = Vec::with_capacity(tags.len() + 1);
        words.push(0);
        for (key, value) in tags {
            let key = self.key_numbers.find(key.as_ref())?;
            words.push(self.keys[key as usize].values.find(value.as_ref())?);
            keys.push(key);
        }
        words[0] = self.find_shape(keys.iter().copied())?;
        self.find_words(&words)
    }

    fn find_words(&self, words: &[u32]) -> Option<SeriesId> {
        self.ids.find(self.hasher.hash_one(words), |id| self.words_of(*id) == words).map(|id| SeriesId(*id))
    }

    /// The id of a tag set (sorted by key), which is inserted if it is new, and whether it is new.
    pub fn insert(&mut self, tags: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)]) -> (SeriesId, bool) {
        // If the tag set exists, all its keys and values have numbers, so nothing is added.
        let (shape, values) = self.number(tags);
        self.trial.clear();
        self.trial.push(shape);
        self.trial.extend(values.iter().map(|(_, value)| *value));
        if let Some(id) = self.find_words(&self.trial) {
            return (id, false);
        }
        let id = self.next_id();
        self.add(id, shape, &values);
        (id, true)
    }

    /// Adds a tag set under an id that is not in use.
    pub fn insert_with_id(&mut self, id: SeriesId, tags: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)]) {
        let (shape, values) = self.number(tags);
        self.add(id, shape, &values);
    }

    /// The numbers of a shape and of its values. New keys and values get numbers.
    fn number(&mut self, tags: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)]) -> (u32, Vec<(u32, u32)>) {
        let mut values = Vec::with_capacity(tags.len());
        for (key, value) in tags {
            let number = self.key_number(key.as_ref());
            values.push((number, self.keys[number as usize].values.insert(value.as_ref())));
        }
        (self.shape_number(&values), values)
    }

    fn add(&mut self, id: SeriesId, shape: u32, values: &[(u32, u32)]) {
        let mut words = std::mem::take(&mut self.trial);
        words.clear();
        words.push(shape);
        for (key, value) in values {
            let tag_key = &mut self.keys[*key as usize];
            let postings = tag_key.values.item_mut(*value).expect("the value was just numbered");
            let (sets, series) = postings.insert(id.0);
            tag_key.shared = (tag_key.shared.0 + sets, tag_key.shared.1 + series);
            tag_key.series.insert(id.0);
            words.push(*value);
        }
        self.words.insert(id.0, &words, ());
        self.alive.insert(id.0);
        let hash = self.hasher.hash_one(&*words);
        let Self { ids, words: all, hasher, .. } = self;
        ids.insert_unique(hash, id.0, |id| hasher.hash_one(words_of(all, *id)));
        self.trial = words;
    }

    /// Removes series. Their ids are not used again.
    pub fn remove(&mut self, gone: &RoaringBitmap) {
        let gone = gone & &self.alive;
        if gone.len() == self.alive.len() {
            let next = self.next_id();
            *self = Self::default();
            return self.reserve_ids(next);
        }
        let mut unused: Vec<Vec<u32>> = vec![Vec::new(); self.keys.len()];
        for id in &gone {
            let words = words_of(&self.words, id);
            if let Ok(entry) = self.ids.find_entry(self.hasher.hash_one(words), |other| *other == id) {
                entry.remove();
            }
            for (key, value) in self.shapes[words[0] as usize].iter().zip(&words[1..]) {
                let tag_key = &mut self.keys[*key as usize];
                let postings = tag_key.values.item_mut(*value).expect("a series has it");
                let (sets, series) = postings.remove(id);
                if postings.is_empty() {
                    unused[*key as usize].push(*value);
                }
                tag_key.shared = (tag_key.shared.0 - sets, tag_key.shared.1 - series);
            }
        }
        self.alive -= &gone;
        self.words.remove_all(&gone);
        for (key, mut unused) in self.keys.iter_mut().zip(unused) {
            unused.sort_unstable();
            key.values.remove_all(&unused);
            key.series -= &gone;
        }
        let Self { ids, words, hasher, .. } = self;
        dictionary::shrink(ids, |id| hasher.hash_one(words_of(words, *id)));
        let unused_keys = self.keys.iter().filter(|key| key.series.is_empty()).count();
        let numbers = self.keys.iter().map(|key| key.values.end()).max().unwrap_or(0);
        if unused_keys > UNUSED_KEYS_MAX.max(self.keys.len() / 2) || numbers > VALUE_NUMBERS_MAX {
            self.make_anew();
        }
    }

    /// Removes keys and shapes that no series has, and numbers values anew.
    fn make_anew(&mut self) {
        let next = self.next_id();
        let old = std::mem::take(self);
        for id in &old.alive {
            let words = words_of(&old.words, id);
            let keys = old.shapes[words[0] as usize].iter().map(|key| &old.keys[*key as usize]);
            let tags: Vec<(&[u8], &[u8])> = keys
                .zip(&words[1..])
                .map(|(key, value)| (key.name.as_bytes(), key.values.get(*value)))
                .collect();
            self.insert_with_id(SeriesId(id), &tags);
        }
        self.reserve_ids(next);
    }

    fn key_number(&mut self, key: &[u8]) -> u32 {
        let number = self.key_numbers.insert(key);
        if self.keys.len() <= number as usize {
            if self.keys.is_empty() {
                self.keys.reserve_exact(1);
            }
            self.keys.push(TagKey {
                name: String::from_utf8_lossy(key).into_owned(),
                values: Dictionary::default(),
                series: RoaringBitmap::new(),
                shared: (0, 0),
            });
        }
        number
    }

    fn shape_number(&mut self, values: &[(u32, u32)]) -> u32 {
        let keys = values.iter().map(|(key, _)| *key);
        if let Some(known) = self.find_shape(keys.clone()) {
            return known;
        }
        let number = self.shapes.len() as u32;
        self.shapes.push(keys.clone().collect());
        let Self { shapes, shape_numbers, hasher, .. } = self;
        let hash = |number: &u32| hash_of_keys(hasher, shapes[*number as usize].iter().copied());
        shape_numbers.insert_unique(hash(&number), number, hash);
        number
    }

    fn find_shape(&self, keys: impl Iterator<Item = u32> + Clone) -> Option<u32> {
        let is_same = |number: &u32| self.shapes[*number as usize].iter().copied().eq(keys.clone());
        self.shape_numbers.find(hash_of_keys(&self.hasher, keys.clone()), is_same).copied()
    }

    fn words_of(&self, id: u32) -> &[u32] {
        words_of(&self.words, id)
    }

    /// All series.
    pub fn all(&self) -> &RoaringBitmap {
        &self.alive
    }

    /// Whether any series has the tag key.
    pub fn has_key(&self, key: &str) -> bool {
        self.key(key).is_some_and(|key| !key.series.is_empty())
    }

    /// The tag keys of these series, sorted.
    pub fn keys_of(&self, ids: &RoaringBitmap) -> Vec<&str> {
        let mut keys: Vec<&str> =
            self.keys.iter().filter(|key| !key.series.is_disjoint(ids)).map(|key| &*key.name).collect();
        keys.sort_unstable();
        keys
    }

    /// The values that these series have for a tag key, sorted.
    pub fn values_of(&self, key: &str, ids: &RoaringBitmap) -> Vec<String> {
        if (ids.len() as usize) < self.tag_values(key).count() {
            let of_series = self.tag_values(key);
            let numbers: BTreeSet<u32> = ids.iter().filter_map(|id| of_series.number(SeriesId(id))).collect();
            let text = |number: &u32| String::from_utf8_lossy(of_series.bytes(*number)).into_owned();
            let mut values: Vec<String> = numbers.iter().map(text).collect();
            values.sort_unstable();
            return values;
        }
        let Some(key) = self.key(key) else { return Vec::new() };
        let mut values: Vec<String> = key
            .values
            .iter()
            .filter(|(_, _, postings)| postings.intersects(ids))
            .map(|(_, value, _)| String::from_utf8_lossy(value).into_owned())
            .collect();
        values.sort_unstable();
        values
    }

    /// The tags of a series, sorted by key.
    pub fn tags_of(&self, id: SeriesId) -> Tags {
        if !self.alive.contains(id.0) {
            return Tags::new();
        }
        let words = self.words_of(id.0);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.shapes[words[0] as usize]
            .iter()
            .zip(&words[1..])
            .map(|(key, value)| {
                let key = &self.keys[*key as usize];
                (key.name.clone(), text(key.values.get(*value)))
            })
            .collect()
    }

    /// The value of a tag of a series; empty if the series lacks the tag.
    pub fn value_of(&self, id: SeriesId, key: &str) -> &str {
        self.values_by_series(key)(id)
    }

    /// The same for many series: the key is looked up once.
    pub fn values_by_series<'a>(&'a self, key: &str) -> impl Fn(SeriesId) -> &'a str + use<'a> {
        let values = self.tag_values(key);
        move |id| values.number(id).map_or("", |number| values.text(number))
    }

    /// The series that satisfy a condition.
    pub fn select(&self, filter: &TagFilter) -> RoaringBitmap {
        match filter {
            TagFilter::All => self.alive.clone(),
            TagFilter::None => RoaringBitmap::new(),
            TagFilter::Equal(key, value) if value.is_empty() => self.without_key(key),
            TagFilter::Equal(key, value) => self.with_value(key, value),
            TagFilter::NotEqual(key, value) if value.is_empty() => {
                self.key(key).map(|key| key.series.clone()).unwrap_or_default()
            }
            TagFilter::NotEqual(key, value) => &self.alive - self.with_value(key, value),
            TagFilter::Matches(key, regex) => self.matching(key, regex),
            TagFilter::MatchesNot(key, regex) => &self.alive - self.matching(key, regex),
            TagFilter::And(filters) => {
                let mut sets = filters.iter();
                let Some(first) = sets.next() else { return self.alive.clone() };
                let mut ids = self.select(first);
                for filter in sets {
                    if ids.is_empty() {
                        break;
                    }
                    ids &= self.select(filter);
                }
                ids
            }
            TagFilter::Or(filters) => {
                filters.iter().fold(RoaringBitmap::new(), |ids, filter| ids | self.select(filter))
            }
        }
    }

    fn key(&self, key: &str) -> Option<&TagKey> {
        self.key_numbers.find(key.as_bytes()).map(|number| &self.keys[number as usize])
    }

    /// The series that have a value for a tag key.
    pub(crate) fn with_value(&self, key: &str, value: &str) -> RoaringBitmap {
        let mut ids = RoaringBitmap::new();
        if let Some(key) = self.key(key)
            && let Some(postings) =
                key.values.find(value.as_bytes()).and_then(|number| key.values.item(number))
        {
            postings.add_to(&mut ids);
        }
        ids
    }

    fn without_key(&self, key: &str) -> RoaringBitmap {
        match self.key(key) {
            Some(key) => &self.alive - &key.series,
            None => self.alive.clone(),
        }
    }

    fn matching(&self, key: &str, regex: &Regex) -> RoaringBitmap {
        let mut ids = RoaringBitmap::new();
        if let Some(tag_key) = self.key(key) {
            let mut single = Vec::new();
            for (_, _, postings) in tag_key.values.iter().filter(|(_, value, _)| regex.is_match(value)) {
                match postings {
                    Postings::One(id) => single.push(*id),
                    postings => postings.add_to(&mut ids),
                }
            }
            single.sort_unstable();
            ids |= single.into_iter().collect::<RoaringBitmap>();
        }
        if regex.is_match(b"") {
            ids |= self.without_key(key);
        }
        ids
    }

    /// The approximate memory, bytes.
    pub fn memory_bytes(&self) -> usize {
        let keys: usize = self.keys.iter().map(TagKey::memory_bytes).sum();
        let shapes = self.shapes.iter().map(|keys| size_of_val(keys) + size_of_val(&**keys)).sum::<usize>();
        keys + shapes
            + self.shape_numbers.allocation_size()
            + self.words.memory_bytes()
            + self.ids.allocation_size()
            + self.alive.serialized_size()
    }
}

impl TagKey {
    /// The approximate memory, bytes. A series takes two bytes in the set of a value.
    fn memory_bytes(&self) -> usize {
        let (values, series) = self.shared;
        let shared = values * SHARED_BYTES + series * 2;
        size_of::<Self>()
            + self.name.len()
            + self.values.memory_bytes()
            + shared
            + self.series.serialized_size()
    }
}

fn hash_of_keys(hasher: &FixedState, keys: impl Iterator<Item = u32>) -> u64 {
    let mut state = hasher.build_hasher();
    keys.for_each(|key| state.write_u32(key));
    state.finish()
}

/// The words of a series, which must exist.
fn words_of(words: &Runs<u32>, id: u32) -> &[u32] {
    words.get(id).expect("the series is there")
}

/// Series grouped by tag values.
#[derive(Debug, Clone, Default)]
pub struct Groups {
    /// By group, the values of the requested keys, sorted; a value is empty if the tag is absent.
    pub values: GroupValues,
    /// The series in ascending order, each with its group.
    pub members: Vec<(SeriesId, u32)>,
}

#[cfg(test)]
mod tests;
