//! Grouping series by the values of tags.

use super::{Groups, SeriesIndex};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use nyala_core::SeriesId;
use roaring::RoaringBitmap;
use std::borrow::Cow;

/// By group, the values of the same tags; a value is empty if the tag is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupValues {
    /// The values of a group.
    keys: usize,
    groups: usize,
    /// All values, one after the other.
    text: String,
    /// The end of each value.
    ends: Vec<usize>,
}

impl GroupValues {
    /// No groups yet, with this number of tags.
    pub fn of_keys(keys: usize) -> Self {
        Self { keys, ..Self::default() }
    }

    /// Adds a group with one value per tag.
    pub fn push<'a>(&mut self, values: impl Iterator<Item = &'a str>) {
        for value in values {
            self.text.push_str(value);
            self.ends.push(self.text.len());
        }
        self.groups += 1;
        debug_assert_eq!(self.ends.len(), self.groups * self.keys);
    }

    /// The number of groups.
    pub fn len(&self) -> usize {
        self.groups
    }

    /// Whether there are no groups.
    pub fn is_empty(&self) -> bool {
        self.groups == 0
    }

    /// The values of a group.
    pub fn of(&self, group: usize) -> impl ExactSizeIterator<Item = &str> + Clone {
        (group * self.keys..(group + 1) * self.keys).map(|at| {
            let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
            &self.text[start..self.ends[at]]
        })
    }

    /// Some of the groups, in the order given.
    #[must_use]
    pub fn only(&self, groups: &[usize]) -> Self {
        let mut some = Self::of_keys(self.keys);
        groups.iter().for_each(|group| some.push(self.of(*group)));
        some
    }

    /// The number of values of all groups together, and their bytes.
    pub fn size(&self) -> (usize, usize) {
        (self.ends.len(), self.text.len())
    }
}

impl SeriesIndex {
    /// Groups series by the values of tag keys. Returns the groups sorted by their values (empty if absent), and the
    /// group of each series in ascending order of ids.
    pub fn group(&self, ids: &RoaringBitmap, keys: &[String]) -> Groups {
        let mut values = GroupValues::of_keys(keys.len());
        if keys.is_empty() {
            let members: Vec<_> = ids.iter().map(|id| (SeriesId(id), 0)).collect();
            if !members.is_empty() {
                values.push(std::iter::empty());
            }
            return Groups { values, members };
        }
        let of_keys: Vec<_> = keys.iter().map(|key| self.tag_values(key)).collect();
        // Value numbers are increased by one here, so that 0 means absent.
        let word = |of_key: &TagValues<'_>, id| of_key.number(SeriesId(id)).map_or(0, |number| number + 1);
        let mut members = Vec::with_capacity(ids.len() as usize);
        // By group, one word per key, in the order in which groups are found.
        let mut words: Vec<u32> = Vec::new();
        if let [of_key] = of_keys.as_slice() {
            let mut numbers = Numbers::of(of_key.count() + 1, ids.len() as usize);
            for id in ids {
                let word = word(of_key, id);
                let (group, is_new) = numbers.number(word);
                if is_new {
                    words.push(word);
                }
                members.push((SeriesId(id), group));
            }
        } else {
            let mut found: HashMap<Vec<u32>, u32, FixedState> = HashMap::default();
            let mut of_group = Vec::with_capacity(keys.len());
            for id in ids {
                of_group.clear();
                of_group.extend(of_keys.iter().map(|of_key| word(of_key, id)));
                let next = found.len() as u32;
                let group = match found.get(&of_group) {
                    Some(group) => *group,
                    None => {
                        words.extend_from_slice(&of_group);
                        *found.entry(of_group.clone()).or_insert(next)
                    }
                };
                members.push((SeriesId(id), group));
            }
        }
        let text = |key: usize, word: u32| match word {
            0 => Cow::Borrowed(""),
            _ => of_keys[key].lossy_text(word - 1),
        };
        let order = order_of_groups(&words, keys.len(), text);
        let mut rank = vec![0; order.len()];
        for (position, group) in order.iter().enumerate() {
            rank[*group as usize] = position as u32;
            let first = *group as usize * keys.len();
            let texts: Vec<Cow<'_, str>> = (0..keys.len()).map(|key| text(key, words[first + key])).collect();
            values.push(texts.iter().map(|text| &**text));
        }
        members.iter_mut().for_each(|(_, group)| *group = rank[*group as usize]);
        Groups { values, members }
    }

    /// The tags of a series, for callers that need several of them.
    pub fn tag_words(&self, id: SeriesId) -> TagWords<'_> {
        TagWords(self.words.get(id.0))
    }

    /// The values of a tag key, for callers that need those of many series.
    pub fn tag_values(&self, key: &str) -> TagValues<'_> {
        let key = self.key_numbers.find(key.as_bytes());
        TagValues { index: self, key, last_shape: Default::default() }
    }
}

/// Sorts groups by the texts of their words; each group has one word per key. The sort is stable.
fn order_of_groups<'a>(words: &[u32], keys: usize, text: impl Fn(usize, u32) -> Cow<'a, str>) -> Vec<u32> {
    if keys == 1 {
        return order_of(&words.iter().map(|word| text(0, *word)).collect::<Vec<_>>());
    }
    let mut ranks = vec![0_u32; words.len()];
    for key in 0..keys {
        let of_key = || words.iter().skip(key).step_by(keys);
        let mut distinct: Vec<u32> = of_key().copied().collect();
        distinct.sort_unstable();
        distinct.dedup();
        let texts: Vec<Cow<'_, str>> = distinct.iter().map(|word| text(key, *word)).collect();
        let mut rank_of = vec![0; distinct.len()];
        let order = order_of(&texts);
        for pair in order.windows(2) {
            let [before, at] = [pair[0] as usize, pair[1] as usize];
            rank_of[at] = rank_of[before] + u32::from(texts[before] != texts[at]);
        }
        for (rank, word) in ranks.iter_mut().skip(key).step_by(keys).zip(of_key()) {
            *rank = rank_of[distinct.binary_search(word).expect("is among them")];
        }
    }
    let of_group = |group: &u32| &ranks[*group as usize * keys..(*group as usize + 1) * keys];
    let mut order: Vec<u32> = (0..(words.len() / keys) as u32).collect();
    order.sort_by(|a, b| of_group(a).cmp(of_group(b)));
    order
}

/// The positions of texts, sorted by the texts and then by position.
fn order_of(texts: &[Cow<'_, str>]) -> Vec<u32> {
    // The first bytes, compared as a number, nearly always decide.
    let head = |text: &str| {
        let mut head = [0; 16];
        let length = text.len().min(16);
        head[..length].copy_from_slice(&text.as_bytes()[..length]);
        u128::from_be_bytes(head)
    };
    let mut order: Vec<(u128, u32)> = texts.iter().map(|text| head(text)).zip(0..).collect();
    order.sort_unstable_by(|(head, at), (other_head, other)| {
        let texts = || texts[*at as usize].cmp(&texts[*other as usize]);
        head.cmp(other_head).then_with(texts).then(at.cmp(other))
    });
    order.into_iter().map(|(_, at)| at).collect()
}

/// Numbers words in the order in which they are found.
pub enum Numbers {
    /// By word.
    Listed(Vec<u32>, u32),
    /// For few words out of very many.
    Hashed(HashMap<u32, u32, FixedState>),
}

impl Numbers {
    /// For words below `end`, of which about `count` will be found.
    pub fn of(end: usize, count: usize) -> Self {
        match end / 4 <= count {
            true => Numbers::Listed(vec![u32::MAX; end], 0),
            false => Numbers::Hashed(HashMap::default()),
        }
    }

    /// The number of a word, and whether it is new.
    pub fn number(&mut self, word: u32) -> (u32, bool) {
        match self {
            Numbers::Listed(numbers, next) => {
                let number = &mut numbers[word as usize];
                let is_new = *number == u32::MAX;
                if is_new {
                    *number = *next;
                    *next += 1;
                }
                (*number, is_new)
            }
            Numbers::Hashed(numbers) => {
                let next = numbers.len() as u32;
                let number = *numbers.entry(word).or_insert(next);
                (number, number == next)
            }
        }
    }
}

/// The tags of a series, which may be removed, as numbers.
#[derive(Clone, Copy)]
pub struct TagWords<'a>(Option<&'a [u32]>);

/// The values of a tag key.
pub struct TagValues<'a> {
    index: &'a SeriesIndex,
    key: Option<u32>,
    /// The last shape, plus one, and the position of the key among the words of its series; 0 means that the shape
    /// lacks the key.
    last_shape: std::cell::Cell<(u32, u32)>,
}

impl<'a> TagValues<'a> {
    /// The number of values that the key ever had. All value numbers are below it.
    pub fn count(&self) -> usize {
        self.key.map_or(0, |key| self.index.keys[key as usize].values.end())
    }

    /// The number of the value of a series.
    pub fn number(&self, id: SeriesId) -> Option<u32> {
        self.number_in(self.index.tag_words(id))
    }

    /// The same, for callers that need several tags of a series.
    #[inline]
    pub fn number_in(&self, words: TagWords<'_>) -> Option<u32> {
        let (key, words) = (self.key?, words.0?);
        let shape = words[0];
        let (last, mut place) = self.last_shape.get();
        if last != shape + 1 {
            let keys = &self.index.shapes[shape as usize];
            place = keys.iter().position(|other| *other == key).map_or(0, |position| position as u32 + 1);
            self.last_shape.set((shape + 1, place));
        }
        (place > 0).then(|| words[place as usize])
    }

    /// The text of a value; empty if there is none.
    pub fn text(&self, number: u32) -> &'a str {
        std::str::from_utf8(self.bytes(number)).unwrap_or("")
    }

    fn lossy_text(&self, number: u32) -> Cow<'a, str> {
        String::from_utf8_lossy(self.bytes(number))
    }

    pub(super) fn bytes(&self, number: u32) -> &'a [u8] {
        let index = self.index;
        self.key.map_or(&[], |key| index.keys[key as usize].values.get(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Groups are equal to what sorting all texts gives.
    #[test]
    fn groups_are_those_of_sorted_texts() {
        let mut index = SeriesIndex::default();
        let long = "the first sixteen bytes are alike";
        let texts = [b"b".to_vec(), b"a".to_vec(), b"a\0".to_vec(), vec![0xff], vec![0xfe], Vec::new()];
        let mut values: Vec<Vec<u8>> = texts.to_vec();
        values.extend((0..9).map(|n| format!("{long} {}", n * 7 % 9).into_bytes()));
        for (number, host) in values.iter().enumerate() {
            for (other, region) in values.iter().enumerate().filter(|(other, _)| (number + other) % 3 > 0) {
                let mut tags = vec![("host", host.clone()), ("region", region.clone())];
                tags.retain(|(_, value)| !value.is_empty());
                if (number * other) % 5 == 1 {
                    tags.insert(0, ("a", b"x".to_vec()));
                }
                index.insert(&tags);
            }
        }
        for keys in [vec!["host"], vec!["region"], vec!["region", "host"], vec!["a", "none", "host"]] {
            let keys: Vec<String> = keys.into_iter().map(str::to_owned).collect();
            let groups = index.group(index.all(), &keys);
            let of_group: Vec<Vec<&str>> =
                (0..groups.values.len()).map(|group| groups.values.of(group).collect()).collect();
            assert!(of_group.is_sorted());
            assert!(groups.members.iter().map(|(id, _)| id.0).eq(index.all()));
            let mut sizes = vec![0; of_group.len()];
            for (id, group) in &groups.members {
                sizes[*group as usize] += 1;
                let tags = index.tags_of(*id);
                let value = |key: &String| tags.iter().find(|(own, _)| own == key).map_or("", |(_, v)| v);
                let shown: Vec<&str> = keys.iter().map(value).collect();
                assert_eq!(of_group[*group as usize], shown);
            }
            assert!(sizes.iter().all(|size| *size > 0));
            let none = index.group(&Default::default(), &keys);
            assert_eq!((none.values.len(), none.members.len()), (0, 0));
        }
    }

    #[test]
    fn words_are_numbered_however_many_there_are() {
        for end in [10, 1_000_000] {
            let mut numbers = Numbers::of(end, 3);
            let found: Vec<_> = [7, 2, 7, 9, 2].into_iter().map(|word| numbers.number(word)).collect();
            assert_eq!(found, [(0, true), (1, true), (0, false), (2, true), (1, false)]);
        }
    }
}
