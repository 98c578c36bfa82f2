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
