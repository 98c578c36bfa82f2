//! Queries about a subset of the series. They never look at all series; a condition on a tag reads the series of its value.

use super::postings::Postings;
use super::{SeriesIndex, TagFilter};
use nyala_core::SeriesId;
use regex::bytes::Regex;
use roaring::RoaringBitmap;
use std::collections::HashMap;

impl SeriesIndex {
    /// How many series have a value for a tag key.
    pub(crate) fn count_with(&self, key: &str, value: &str) -> usize {
        let Some(key) = self.key(key) else { return 0 };
        let postings = key.values.find(value.as_bytes()).and_then(|number| key.values.item(number));
        postings.map_or(0, Postings::len)
    }

    /// Whether any of some series has the tag key.
    pub(crate) fn has_key_among(&self, key: &str, ids: &RoaringBitmap) -> bool {
        self.key(key).is_some_and(|key| !key.series.is_disjoint(ids))
    }

    /// Those of some series that satisfy a condition.
    pub(crate) fn select_among(&self, filter: &TagFilter, ids: &RoaringBitmap) -> RoaringBitmap {
        match filter {
            TagFilter::All => ids.clone(),
            TagFilter::None => RoaringBitmap::new(),
            TagFilter::Equal(key, value) if value.is_empty() => ids - self.with_key_among(key, ids),
            TagFilter::Equal(key, value) => self.with_value(key, value) & ids,
            TagFilter::NotEqual(key, value) if value.is_empty() => self.with_key_among(key, ids),
            TagFilter::NotEqual(key, value) => ids - self.with_value(key, value),
            TagFilter::Matches(key, regex) => self.matching_among(key, regex, ids),
            TagFilter::MatchesNot(key, regex) => ids - self.matching_among(key, regex, ids),
            TagFilter::And(filters) => {
                let mut left = ids.clone();
                for filter in filters {
                    if left.is_empty() {
                        break;
                    }
                    left = self.select_among(filter, &left);
                }
                left
            }
            TagFilter::Or(filters) => {
                filters.iter().fold(RoaringBitmap::new(), |all, filter| all | self.select_among(filter, ids))
            }
        }
    }

    fn with_key_among(&self, key: &str, ids: &RoaringBitmap) -> RoaringBitmap {
        self.key(key).map(|key| &key.series & ids).unwrap_or_default()
    }

    /// Each value of these series is tested once.
    fn matching_among(&self, key: &str, regex: &Regex, ids: &RoaringBitmap) -> RoaringBitmap {
        let values = self.tag_values(key);
        let absent = regex.is_match(b"");
        let mut known: HashMap<u32, bool> = HashMap::new();
        let mut matches = |id: &u32| match values.number(SeriesId(*id)) {
            Some(number) => *known.entry(number).or_insert_with(|| regex.is_match(values.bytes(number))),
            None => absent,
        };
        ids.iter().filter(|id| matches(id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_about_a_subset_equal_those_of_the_whole_index() {
        let mut index = SeriesIndex::default();
        for number in 0..200_u32 {
            let (host, region) = (format!("h{}", number % 17), format!("r{}", number % 5));
            let tags: &[(&str, &str)] = match number % 3 {
                0 => &[("host", &host)],
                1 => &[("host", &host), ("n", &number.to_string()), ("region", &region)],
                _ => &[("n", &number.to_string())],
            };
            index.insert(tags);
        }
        let regex = |text: &str| Regex::new(text).unwrap();
        let text = str::to_owned;
        let single = [
            TagFilter::All,
            TagFilter::None,
            TagFilter::Equal(text("host"), text("h3")),
            TagFilter::Equal(text("host"), text("")),
            TagFilter::Equal(text("none"), text("")),
            TagFilter::NotEqual(text("region"), text("r1")),
            TagFilter::NotEqual(text("region"), text("")),
            TagFilter::Matches(text("host"), regex("^h1")),
            TagFilter::Matches(text("host"), regex("^$")),
            TagFilter::MatchesNot(text("n"), regex("[0-4]$")),
        ];
        let both = single.iter().flat_map(|a| single.iter().map(|b| vec![a.clone(), b.clone()]));
        let both: Vec<Vec<TagFilter>> = both.collect();
        let filters = single.iter().cloned();
        let filters = filters
            .chain(both.iter().cloned().map(TagFilter::And))
            .chain(both.iter().cloned().map(TagFilter::Or));
        let some = (0..200).filter(|id| id % 7 < 3).collect::<RoaringBitmap>() & index.all();
        for filter in filters {
            assert_eq!(index.select_among(&filter, &some), index.select(&filter) & &some, "{filter:?}");
        }
        assert_eq!(index.count_with("host", "h3"), index.with_value("host", "h3").len() as usize);
        assert!(index.has_key_among("region", &some) && !index.has_key_among("region", &[0].into()));
    }
}
