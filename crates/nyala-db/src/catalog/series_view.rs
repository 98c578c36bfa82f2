//! The series of a measurement, in the index of its table, which other measurements may share.

use crate::series::{Groups, SeriesIndex, TagFilter, TagValues, TagWords, Tags};
use nyala_core::SeriesId;
use parking_lot::RwLockReadGuard;
use roaring::RoaringBitmap;
use std::borrow::Cow;

/// The tag that says to which member of a group a series belongs, ...
pub(super) const METRIC_KEY: &str = "__name__";
/// ... unless the series has this one.
pub(super) const MEMBER_KEY: &str = "";
/// A tag key that no series has, because a line break ends a line.
const ABSENT_KEY: &str = "\n";

/// The series of a measurement. They do not change while this is held. Ids passed in must be of its series.
pub struct SeriesView<'a> {
    index: RwLockReadGuard<'a, SeriesIndex>,
    /// The name of the member, if the measurement is a member of a group.
    member: Option<&'a str>,
}

impl<'a> SeriesView<'a> {
    pub(super) fn new(index: RwLockReadGuard<'a, SeriesIndex>, member: Option<&'a str>) -> Self {
        Self { index, member }
    }

    /// The key to look up. The extra tag of members is invisible.
    fn seen<'b>(&self, key: &'b str) -> &'b str {
        if self.member.is_some() && key == MEMBER_KEY { ABSENT_KEY } else { key }
    }

    /// The number of series in memory.
    pub fn len(&self) -> usize {
        match self.member {
            Some(member) if !self.index.has_key(MEMBER_KEY) => self.index.count_with(METRIC_KEY, member),
            Some(_) => self.all().len() as usize,
            None => self.index.len(),
        }
    }

    /// Whether there are no series in memory.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All series.
    pub fn all(&self) -> Cow<'_, RoaringBitmap> {
        match self.member {
            Some(member) => {
                let mut all = self.index.with_value(METRIC_KEY, member);
                if self.index.has_key(MEMBER_KEY) {
                    let of_others = TagFilter::NotEqual(MEMBER_KEY.to_owned(), String::new());
                    all -= self.index.select_among(&of_others, &all);
                    all |= self.index.with_value(MEMBER_KEY, member);
                }
                Cow::Owned(all)
            }
            None => Cow::Borrowed(self.index.all()),
        }
    }

    /// The series that satisfy a condition.
    pub fn select(&self, filter: &TagFilter) -> RoaringBitmap {
        match self.member {
            Some(_) => self.index.select_among(&filter.without(MEMBER_KEY), &self.all()),
            None => self.index.select(filter),
        }
    }

    /// The id of a tag set (sorted by key), if it is known.
    pub fn find(&self, tags: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)]) -> Option<SeriesId> {
        let Some(member) = self.member else { return self.index.find(tags) };
        let mut tags: Vec<_> = tags.iter().map(|(key, value)| (key.as_ref(), value.as_ref())).collect();
        if !tags.contains(&(METRIC_KEY.as_bytes(), member.as_bytes())) {
            tags.insert(0, (MEMBER_KEY.as_bytes(), member.as_bytes()));
        }
        self.index.find(&tags)
    }

    /// Whether any series has the tag key.
    pub fn has_key(&self, key: &str) -> bool {
        match self.member {
            Some(_) => self.index.has_key_among(self.seen(key), &self.all()),
            None => self.index.has_key(key),
        }
    }

    /// The tag keys of some series, sorted.
    pub fn keys_of(&self, ids: &RoaringBitmap) -> Vec<&str> {
        let mut keys = self.index.keys_of(ids);
        keys.retain(|key| *key != MEMBER_KEY);
        keys
    }

    /// The values that some series have for a tag key, sorted.
    pub fn values_of(&self, key: &str, ids: &RoaringBitmap) -> Vec<String> {
        self.index.values_of(self.seen(key), ids)
    }

    /// The tags of a series, sorted by key.
    pub fn tags_of(&self, id: SeriesId) -> Tags {
        let mut tags = self.index.tags_of(id);
        if self.member.is_some() && tags.first().is_some_and(|(key, _)| key == MEMBER_KEY) {
            tags.remove(0);
        }
        tags
    }

    /// The value of a tag of a series; empty if the series lacks the tag.
    pub fn value_of(&self, id: SeriesId, key: &str) -> &str {
        self.index.value_of(id, self.seen(key))
    }

    /// The same for many series: the key is looked up once.
    pub fn values_by_series<'b>(&'b self, key: &str) -> impl Fn(SeriesId) -> &'b str + use<'b> {
        self.index.values_by_series(self.seen(key))
    }

    /// See [`SeriesIndex::group`].
    pub fn group(&self, ids: &RoaringBitmap, keys: &[String]) -> Groups {
        match self.member.is_some() && keys.iter().any(|key| key == MEMBER_KEY) {
            true => {
                self.index.group(ids, &keys.iter().map(|key| self.seen(key).to_owned()).collect::<Vec<_>>())
            }
            false => self.index.group(ids, keys),
        }
    }

    /// See [`SeriesIndex::tag_words`].
    pub fn tag_words(&self, id: SeriesId) -> TagWords<'_> {
        self.index.tag_words(id)
    }

    /// See [`SeriesIndex::tag_values`].
    pub fn tag_values(&self, key: &str) -> TagValues<'_> {
        self.index.tag_values(self.seen(key))
    }
}
