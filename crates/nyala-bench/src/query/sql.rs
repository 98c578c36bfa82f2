//! Queries as SQL: what TSBS asks TimescaleDB, on a table that has tags and fields as columns.
//!
//! One difference: `groupby-orderby-limit` asks for the five minutes that the InfluxQL of TSBS asks for.

use super::generator::Query;
use super::kind::Shape;
use crate::time::{HOUR_SECONDS, MINUTE_SECONDS, rfc3339};
use crate::workload::cpu::FIELDS;

/// The statement for `query`.
pub fn sql(query: &Query) -> String {
    let (start, end) = (rfc3339(query.span.start), rfc3339(query.span.end));
    let range = format!("time >= '{start}' AND time < '{end}'");
    match query.shape {
        Shape::MaxByTime { fields, window_seconds, .. } => {
            maxima(fields, window_seconds, &format!("{} AND {range}", host_condition(&query.hosts)))
        }
        Shape::MaxAll { .. } => {
            maxima(FIELDS.len(), HOUR_SECONDS, &format!("{} AND {range}", host_condition(&query.hosts)))
        }
        Shape::MeanByHost { fields } => format!(
            "SELECT time_bucket('{HOUR_SECONDS} seconds', time) AS hour, hostname, {} FROM cpu WHERE {range} \
             GROUP BY hour, hostname ORDER BY hour, hostname",
            aggregates("avg", "mean", fields),
        ),
        Shape::HighCpu { hosts } => {
            let hosts = hosts.map_or_else(String::new, |_| format!(" AND {}", host_condition(&query.hosts)));
            format!("SELECT * FROM cpu WHERE usage_user > 90.0 AND {range}{hosts} ORDER BY time")
        }
        Shape::LastPoint => {
            "SELECT DISTINCT ON (hostname) * FROM cpu ORDER BY hostname, time DESC".to_owned()
        }
        Shape::FiveMinutes { last } => format!(
            "SELECT time_bucket('{MINUTE_SECONDS} seconds', time) AS minute, {} FROM cpu WHERE time < '{end}' \
             GROUP BY minute ORDER BY minute{} LIMIT 5",
            aggregates("max", "max", 1),
            if last { " DESC" } else { "" },
        ),
    }
}

fn maxima(fields: usize, window_seconds: i64, condition: &str) -> String {
    let unit = if window_seconds == HOUR_SECONDS { "hour" } else { "minute" };
    let aggregates = aggregates("max", "max", fields);
    format!(
        "SELECT time_bucket('{window_seconds} seconds', time) AS {unit}, {aggregates} FROM cpu WHERE {condition} \
         GROUP BY {unit} ORDER BY {unit}"
    )
}

fn aggregates(function: &str, prefix: &str, fields: usize) -> String {
    let call = |field: &&str| format!("{function}({field}) AS {prefix}_{field}");
    FIELDS[..fields].iter().map(call).collect::<Vec<_>>().join(", ")
}

fn host_condition(hosts: &[u64]) -> String {
    let names: Vec<String> = hosts.iter().map(|host| format!("'host_{host}'")).collect();
    format!("hostname IN ({})", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::kind::{TSBS, TSBS_LAST_FIVE};
    use crate::time::Span;

    #[test]
    fn sql_is_what_tsbs_asks() {
        let text = |name: &str, hosts: &[u64]| {
            let kind = TSBS.into_iter().chain([TSBS_LAST_FIVE]).find(|kind| kind.name == name).unwrap();
            let span = Span { start: 358, end: 358 + kind.shape.range_seconds().unwrap_or(0) };
            sql(&Query { shape: kind.shape, hosts: hosts.to_vec(), span })
        };
        assert_eq!(
            text("single-groupby-1-8-1", &[5, 9]),
            "SELECT time_bucket('60 seconds', time) AS minute, max(usage_user) AS max_usage_user FROM cpu \
             WHERE hostname IN ('host_5', 'host_9') AND time >= '1970-01-01T00:05:58Z' AND \
             time < '1970-01-01T01:05:58Z' GROUP BY minute ORDER BY minute"
        );
        assert_eq!(
            text("double-groupby-1", &[]),
            "SELECT time_bucket('3600 seconds', time) AS hour, hostname, avg(usage_user) AS mean_usage_user \
             FROM cpu WHERE time >= '1970-01-01T00:05:58Z' AND time < '1970-01-01T12:05:58Z' \
             GROUP BY hour, hostname ORDER BY hour, hostname"
        );
        assert_eq!(
            text("high-cpu-1", &[3]),
            "SELECT * FROM cpu WHERE usage_user > 90.0 AND time >= '1970-01-01T00:05:58Z' AND \
             time < '1970-01-01T12:05:58Z' AND hostname IN ('host_3') ORDER BY time"
        );
        assert!(text("groupby-orderby-limit", &[]).ends_with("GROUP BY minute ORDER BY minute LIMIT 5"));
        assert!(text("groupby-orderby-limit-desc", &[]).ends_with("ORDER BY minute DESC LIMIT 5"));
    }
}
