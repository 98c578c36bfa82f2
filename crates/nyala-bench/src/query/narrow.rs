//! Queries on narrow data: of one series, of one instance, by a regular expression, and of all data.

use super::text::{Request, influxql_request};
use crate::random::Random;
use crate::time::{HOUR_SECONDS, rfc3339};
use crate::workload::narrow::{METRICS_PER_INSTANCE, NarrowConfig};

/// A type of query on narrow data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NarrowKind {
    /// Its name.
    pub name: &'static str,
    /// Whether it is counted in queries per minute instead of per second.
    pub heavy: bool,
    template: &'static str,
}

const fn kind(name: &'static str, heavy: bool, template: &'static str) -> NarrowKind {
    NarrowKind { name, heavy, template }
}

/// The types. `{…}` stands for a random instance, a random metric, or a random time range of an hour (or all data if it
/// is shorter).
pub const NARROW: [NarrowKind; 7] = [
    kind(
        "one-series",
        false,
        "SELECT max(value) FROM narrow WHERE instance = 'i{instance}' AND metric = 'm{metric}' AND {range} \
         GROUP BY time(1m)",
    ),
    kind(
        "one-instance",
        false,
        "SELECT mean(value) FROM narrow WHERE instance = 'i{instance}' AND {range} GROUP BY metric",
    ),
    kind(
        "instances-by-regex",
        true,
        "SELECT mean(value) FROM narrow WHERE instance =~ /^i{instance}[0-9]?$/ AND metric = 'm{metric}' \
         AND {range} GROUP BY instance",
    ),
    kind(
        "one-metric",
        true,
        "SELECT mean(value), max(value) FROM narrow WHERE metric = 'm{metric}' AND {range} GROUP BY time(1m)",
    ),
    kind("count-all", true, "SELECT count(value) FROM narrow"),
    kind("percentile-all", true, "SELECT percentile(value, 99) FROM narrow"),
    kind("distinct-all", true, "SELECT count(distinct(value)) FROM narrow"),
];

/// `count` requests of one type, different ones in each round.
pub fn requests(
    kind: &NarrowKind,
    config: &NarrowConfig,
    database: &str,
    round: u64,
    count: u32,
) -> Vec<Request> {
    let stream = kind.name.bytes().fold(3 << 40, |sum: u64, byte| sum.wrapping_mul(31) ^ u64::from(byte));
    let mut random = Random::new(config.seed, stream.wrapping_add(round));
    (0..count).map(|_| influxql_request(&text(kind, config, &mut random), database)).collect()
}

fn text(kind: &NarrowKind, config: &NarrowConfig, random: &mut Random) -> String {
    let slot = random.below(config.slots);
    let window = HOUR_SECONDS.min(config.span.seconds());
    let start = config.span.start + random.below((config.span.seconds() - window + 1) as u64) as i64;
    let range = format!("time >= '{}' AND time < '{}'", rfc3339(start), rfc3339(start + window));
    kind.template
        .replace("{instance}", &(slot / METRICS_PER_INSTANCE).to_string())
        .replace("{metric}", &(slot % METRICS_PER_INSTANCE).to_string())
        .replace("{range}", &range)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{Span, TSBS_START};

    #[test]
    fn texts_are_filled_in() {
        let config = NarrowConfig {
            slots: 1,
            span: Span { start: TSBS_START, end: TSBS_START + 120 },
            interval_seconds: 10,
            churn_per_hour: 0.0,
            late_share: 0.0,
            late_ticks: 0,
            seed: 0,
        };
        let text = text(&NARROW[0], &config, &mut Random::new(0, 0));
        assert_eq!(
            text,
            "SELECT max(value) FROM narrow WHERE instance = 'i0' AND metric = 'm0' AND \
             time >= '2016-01-01T00:00:00Z' AND time < '2016-01-01T00:02:00Z' GROUP BY time(1m)"
        );
        for kind in NARROW {
            assert!(requests(&kind, &config, "db", 0, 2).iter().all(|request| !request.path.contains("%7B")));
        }
    }
}
