//! Conditions on tags, answered from the index alone.

use regex::bytes::Regex;
use std::borrow::Cow;

/// A condition on the tags of a series. A tag that the series lacks has the empty value, as in InfluxDB.
#[derive(Debug, Clone)]
pub enum TagFilter {
    /// Every series.
    All,
    /// No series.
    None,
    /// The tag has the value. The empty value means that the tag is absent.
    Equal(String, String),
    /// The tag has another value.
    NotEqual(String, String),
    /// The value matches.
    Matches(String, Regex),
    /// The value does not match.
    MatchesNot(String, Regex),
    /// All conditions hold.
    And(Vec<TagFilter>),
    /// One of the conditions holds.
    Or(Vec<TagFilter>),
}

impl TagFilter {
    /// The condition as it is when no series has a tag key.
    pub(crate) fn without(&self, absent: &str) -> Cow<'_, Self> {
        let known = |holds: bool| Cow::Owned(if holds { TagFilter::All } else { TagFilter::None });
        let each = |filters: &[Self]| filters.iter().map(|own| own.without(absent).into_owned()).collect();
        match self {
            TagFilter::Equal(key, value) if key == absent => known(value.is_empty()),
            TagFilter::NotEqual(key, value) if key == absent => known(!value.is_empty()),
            TagFilter::Matches(key, regex) if key == absent => known(regex.is_match(b"")),
            TagFilter::MatchesNot(key, regex) if key == absent => known(!regex.is_match(b"")),
            TagFilter::And(filters) => Cow::Owned(TagFilter::And(each(filters))),
            TagFilter::Or(filters) => Cow::Owned(TagFilter::Or(each(filters))),
            other => Cow::Borrowed(other),
        }
    }

    /// Whether the condition holds for a series with these tags. It selects the same series as the index does, for
    /// series that are not in the index.
    pub(crate) fn holds(&self, tags: &[(&[u8], &[u8])]) -> bool {
        let value = |key: &str| {
            tags.iter().find(|(own, _)| *own == key.as_bytes()).map_or(&[][..], |(_, value)| *value)
        };
        match self {
            TagFilter::All => true,
            TagFilter::None => false,
            TagFilter::Equal(key, wanted) => value(key) == wanted.as_bytes(),
            TagFilter::NotEqual(key, unwanted) => value(key) != unwanted.as_bytes(),
            TagFilter::Matches(key, regex) => regex.is_match(value(key)),
            TagFilter::MatchesNot(key, regex) => !regex.is_match(value(key)),
            TagFilter::And(filters) => filters.iter().all(|filter| filter.holds(tags)),
            TagFilter::Or(filters) => filters.iter().any(|filter| filter.holds(tags)),
        }
    }
}
