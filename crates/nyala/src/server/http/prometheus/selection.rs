//! What a request of remote read selects: label matchers as filters of measurements and tags, and a time range.

use super::lines::NAME_LABEL;
use nyala_core::{Error, Result, TimeRange};
use nyala_db::series::TagFilter;
use nyala_exec::QueryMemory;
use nyala_query::influxql::Regex;
use prost::Message;

/// The field that holds samples.
pub(super) const FIELD: &str = "value";
/// Labels that stand for the measurement or the field.
const MEASUREMENT_LABELS: [&str; 3] = [NAME_LABEL, "_measurement", "_name"];
const FIELD_LABEL: &str = "_field";
/// The most matchers: each may be a regular expression, which takes time to compile ...
const MATCHERS_MAX: usize = 64;
/// ... and memory.
const EXPRESSION_MAX_BYTES: usize = 1 << 20;

/// What a query selects.
pub(super) struct Selection {
    pub(super) names: Vec<LabelMatcher>,
    pub(super) tags: TagFilter,
    pub(super) time: TimeRange,
}

/// What a matcher asks of a label's value; a missing label has the empty value.
pub(super) enum LabelMatcher {
    Equal(String),
    NotEqual(String),
    Matches(regex::bytes::Regex),
    MatchesNot(regex::bytes::Regex),
}

#[derive(Clone, PartialEq, Message)]
struct ReadRequest {
    #[prost(message, repeated, tag = "1")]
    queries: Vec<Query>,
}

#[derive(Clone, PartialEq, Message)]
struct Query {
    #[prost(int64, tag = "1")]
    start_ms: i64,
    #[prost(int64, tag = "2")]
    end_ms: i64,
    #[prost(message, repeated, tag = "3")]
    matchers: Vec<Matcher>,
}

#[derive(Clone, PartialEq, Message)]
struct Matcher {
    #[prost(int32, tag = "1")]
    kind: i32,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(string, tag = "3")]
    value: String,
}

impl Selection {
    /// Reads the message of a request.
    pub(super) fn of(bytes: &[u8], memory: &QueryMemory) -> Result<Self> {
        let request = ReadRequest::decode(bytes).map_err(|error| Error::invalid(error.to_string()))?;
        select(&request, memory)
    }
}

fn select(request: &ReadRequest, memory: &QueryMemory) -> Result<Selection> {
    let [query] = &request.queries[..] else {
        return Err(Error::invalid("Prometheus read endpoint currently only supports one query at a time"));
    };
    if query.matchers.is_empty() {
        return Err(Error::invalid("expected matcher"));
    }
    if query.matchers.len() > MATCHERS_MAX {
        return Err(Error::limit(format!("a query may have {MATCHERS_MAX} matchers")));
    }
    let (mut names, mut tags) = (Vec::new(), Vec::new());
    for matcher in &query.matchers {
        let label_matcher = LabelMatcher::of(matcher, memory)?;
        match &*matcher.name {
            name if MEASUREMENT_LABELS.contains(&name) => names.push(label_matcher),
            FIELD_LABEL if label_matcher.matches(FIELD) => {}
            FIELD_LABEL => tags.push(TagFilter::None),
            name => tags.push(label_matcher.into_tag_filter(name)),
        }
    }
    // As in InfluxDB, a bound at or before 1970 means no bound.
    let bound = |time_ms: i64| (time_ms > 0).then(|| time_ms.saturating_mul(1_000_000));
    let time = TimeRange::new(
        bound(query.start_ms).unwrap_or(i64::MIN),
        bound(query.end_ms).map_or(i64::MAX, |last_ns| last_ns.saturating_add(1)),
    );
    Ok(Selection { names, tags: TagFilter::And(tags), time })
}

impl LabelMatcher {
    fn of(matcher: &Matcher, memory: &QueryMemory) -> Result<Self> {
        // Expressions of Prometheus match whole values.
        let regex = || Regex::new(&format!("^(?:{})$", matcher.value));
        let regex = || regex()?.compile_within(EXPRESSION_MAX_BYTES);
        if matches!(matcher.kind, 2 | 3) {
            memory.charge(EXPRESSION_MAX_BYTES)?;
        }
        Ok(match matcher.kind {
            0 => LabelMatcher::Equal(matcher.value.clone()),
            1 => LabelMatcher::NotEqual(matcher.value.clone()),
            2 => LabelMatcher::Matches(regex().map_err(Error::invalid)?),
            3 => LabelMatcher::MatchesNot(regex().map_err(Error::invalid)?),
            kind => return Err(Error::invalid(format!("unknown match type {kind}"))),
        })
    }

    pub(super) fn matches(&self, value: &str) -> bool {
        match self {
            LabelMatcher::Equal(own) => own == value,
            LabelMatcher::NotEqual(own) => own != value,
            LabelMatcher::Matches(regex) => regex.is_match(value.as_bytes()),
            LabelMatcher::MatchesNot(regex) => !regex.is_match(value.as_bytes()),
        }
    }

    fn into_tag_filter(self, name: &str) -> TagFilter {
        let name = name.to_owned();
        match self {
            LabelMatcher::Equal(value) => TagFilter::Equal(name, value),
            LabelMatcher::NotEqual(value) => TagFilter::NotEqual(name, value),
            LabelMatcher::Matches(regex) => TagFilter::Matches(name, regex),
            LabelMatcher::MatchesNot(regex) => TagFilter::MatchesNot(name, regex),
        }
    }
}
