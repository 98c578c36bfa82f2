//! The types of queries of the suites.

use crate::time::{HOUR_SECONDS, MINUTE_SECONDS};

/// What a query computes from the measurement `cpu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Maximum of the first `fields` fields over `hosts` hosts together, per window of `window_seconds`.
    MaxByTime {
        /// Number of fields.
        fields: usize,
        /// Number of hosts.
        hosts: usize,
        /// Length of the time range.
        hours: i64,
        /// Length of a window.
        window_seconds: i64,
    },
    /// Maximum of every field over `hosts` hosts together, per hour of 8 hours.
    MaxAll {
        /// Number of hosts.
        hosts: usize,
    },
    /// Mean of the first `fields` fields per host and hour of 12 hours.
    MeanByHost {
        /// Number of fields.
        fields: usize,
    },
    /// Every row of 12 hours whose `usage_user` exceeds 90, of `hosts` hosts or of all.
    HighCpu {
        /// Number of hosts; `None` for all.
        hosts: Option<usize>,
    },
    /// The last row of each host.
    LastPoint,
    /// Maximum of `usage_user` over all hosts, per minute, of five minutes before some time: the first five of the data
    /// as in TSBS' InfluxQL, or the last five as in its description.
    FiveMinutes {
        /// Whether it is the last five.
        last: bool,
    },
}

impl Shape {
    /// The length of its time range, if it has one.
    pub fn range_seconds(self) -> Option<i64> {
        match self {
            Shape::MaxByTime { hours, .. } => Some(hours * HOUR_SECONDS),
            Shape::MaxAll { .. } => Some(8 * HOUR_SECONDS),
            Shape::MeanByHost { .. } | Shape::HighCpu { .. } => Some(12 * HOUR_SECONDS),
            // TSBS draws a window of an hour and uses its end.
            Shape::FiveMinutes { .. } => Some(HOUR_SECONDS),
            Shape::LastPoint => None,
        }
    }

    /// A description for users.
    pub fn describe(self) -> String {
        let hosts = |count| if count == 1 { "1 host".to_owned() } else { format!("{count} hosts together") };
        let fields = |count| if count == 1 { "usage_user".to_owned() } else { format!("{count} fields") };
        match self {
            Shape::MaxByTime { fields: count, hosts: named, hours, window_seconds } => {
                let window = if window_seconds == HOUR_SECONDS { "hour" } else { "minute" };
                format!("maximum of {} by {window}, {}, over {hours} h", fields(count), hosts(named))
            }
            Shape::MaxAll { hosts: named } => {
                format!("maximum of all fields by hour, {}, over 8 h", hosts(named))
            }
            Shape::MeanByHost { fields: count } => {
                format!("mean of {} by hour for each host, over 12 h", fields(count))
            }
            Shape::HighCpu { hosts: Some(named) } => {
                format!("rows with usage_user above 90, {}, over 12 h", hosts(named))
            }
            Shape::HighCpu { hosts: None } => {
                "rows with usage_user above 90, all hosts, over 12 h".to_owned()
            }
            Shape::LastPoint => "last row of each host".to_owned(),
            Shape::FiveMinutes { last: false } => {
                "maximum of usage_user of the first five minutes".to_owned()
            }
            Shape::FiveMinutes { last: true } => "maximum of usage_user of the last five minutes".to_owned(),
        }
    }

    /// How many hosts it names; `None` for all hosts.
    pub fn named_hosts(self) -> Option<usize> {
        match self {
            Shape::MaxByTime { hosts, .. } | Shape::MaxAll { hosts } => Some(hosts),
            Shape::HighCpu { hosts } => hosts,
            Shape::MeanByHost { .. } | Shape::LastPoint | Shape::FiveMinutes { .. } => None,
        }
    }
}

/// A type of query, under its published name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryKind {
    /// The suite's name for it.
    pub name: &'static str,
    /// What it computes.
    pub shape: Shape,
    /// Whether it is counted in queries per minute instead of per second.
    pub heavy: bool,
}

const fn max_by_time(name: &'static str, fields: usize, hosts: usize, hours: i64) -> QueryKind {
    let shape = Shape::MaxByTime { fields, hosts, hours, window_seconds: MINUTE_SECONDS };
    QueryKind { name, shape, heavy: false }
}

/// The fifteen types of TSBS' cpu-only use case.
pub const TSBS: [QueryKind; 15] = [
    max_by_time("single-groupby-1-1-1", 1, 1, 1),
    max_by_time("single-groupby-1-1-12", 1, 1, 12),
    max_by_time("single-groupby-1-8-1", 1, 8, 1),
    max_by_time("single-groupby-5-1-1", 5, 1, 1),
    max_by_time("single-groupby-5-1-12", 5, 1, 12),
    max_by_time("single-groupby-5-8-1", 5, 8, 1),
    QueryKind { name: "cpu-max-all-1", shape: Shape::MaxAll { hosts: 1 }, heavy: false },
    QueryKind { name: "cpu-max-all-8", shape: Shape::MaxAll { hosts: 8 }, heavy: false },
    QueryKind { name: "high-cpu-1", shape: Shape::HighCpu { hosts: Some(1) }, heavy: false },
    QueryKind { name: "double-groupby-1", shape: Shape::MeanByHost { fields: 1 }, heavy: true },
    QueryKind { name: "double-groupby-5", shape: Shape::MeanByHost { fields: 5 }, heavy: true },
    QueryKind { name: "double-groupby-all", shape: Shape::MeanByHost { fields: 10 }, heavy: true },
    QueryKind { name: "high-cpu-all", shape: Shape::HighCpu { hosts: None }, heavy: true },
    QueryKind { name: "lastpoint", shape: Shape::LastPoint, heavy: true },
    QueryKind { name: "groupby-orderby-limit", shape: Shape::FiveMinutes { last: false }, heavy: true },
];

/// groupby-orderby-limit as its description says: the last five minutes, newest first. Not one of the fifteen; it is
/// run only when it is named.
pub const TSBS_LAST_FIVE: QueryKind =
    QueryKind { name: "groupby-orderby-limit-desc", shape: Shape::FiveMinutes { last: true }, heavy: true };

/// The four queries that Akumuli ran of influxdb-comparisons.
pub const DEVOPS: [QueryKind; 4] = [
    max_by_time("1-host-1h-by-1m", 1, 1, 1),
    max_by_time("1-host-12h-by-1m", 1, 1, 12),
    max_by_time("8-hosts-1h-by-1m", 1, 8, 1),
    QueryKind {
        name: "1-host-12h-by-1h",
        shape: Shape::MaxByTime { fields: 1, hosts: 1, hours: 12, window_seconds: HOUR_SECONDS },
        heavy: false,
    },
];

/// Reads `all`, or names of `known` types separated by commas. A name that ends in `*` stands for all types with this
/// prefix.
pub fn parse_kinds(text: &str, known: &[QueryKind], default: usize) -> Result<Vec<QueryKind>, String> {
    if text == "all" {
        return Ok(known[..default].to_vec());
    }
    let mut kinds = Vec::new();
    for name in text.split(',').map(str::trim) {
        let before = kinds.len();
        kinds.extend(known.iter().filter(|kind| match name.strip_suffix('*') {
            Some(prefix) => kind.name.starts_with(prefix),
            None => kind.name == name,
        }));
        if kinds.len() == before {
            let names: Vec<&str> = known.iter().map(|kind| kind.name).collect();
            return Err(format!("no query type '{name}'; there are all, {}", names.join(", ")));
        }
    }
    Ok(kinds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_chosen_by_name() {
        let known: Vec<QueryKind> = TSBS.into_iter().chain([TSBS_LAST_FIVE]).collect();
        let names = |text| -> Result<Vec<&str>, String> {
            Ok(parse_kinds(text, &known, TSBS.len())?.iter().map(|kind| kind.name).collect())
        };
        assert_eq!(names("all").unwrap().len(), 15);
        assert_eq!(names("lastpoint, cpu-max-all-8").unwrap(), ["lastpoint", "cpu-max-all-8"]);
        assert_eq!(names("double-*").unwrap().len(), 3);
        assert_eq!(names("groupby-orderby-limit-desc").unwrap().len(), 1);
        assert!(names("nonsense").unwrap_err().contains("single-groupby-1-1-1"));
        assert!(names("").is_err());
    }
}
