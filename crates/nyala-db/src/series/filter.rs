//! Conditions on tags, answered from the index alone.

use regex::bytes::Regex;

/// A condition on the tags of a series. A tag that a series lacks has the empty value, as in InfluxDB.
#[derive(Debug, Clone)]
pub enum TagFilter {
    /// Every series.
    All,
    /// No series.
    None,
    /// The tag has the value; the empty value: the tag is absent.
    Equal(String, String),
    /// The tag has another value.
    NotEqual(String, String),
    /// The value matches.
    Matches(String, Regex),
    /// The value does not match.
    MatchesNot(String, Regex),
    /// All hold.
    And(Vec<TagFilter>),
    /// One holds.
    Or(Vec<TagFilter>),
}

impl TagFilter {
    /// Whether it holds for a series with these tags: what selects the same series as the index does, for those that are not
    /// in it.
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
