//! Queries as text: exactly the InfluxQL that TSBS sends, and the MetricsQL that it sends to VictoriaMetrics for the
//! types that MetricsQL can express.

use super::generator::Query;
use super::kind::Shape;
use crate::client::dialect::Dialect;
use crate::time::{HOUR_SECONDS, rfc3339};
use crate::workload::cpu::FIELDS;
use nyala_client::query_escape;

/// The HTTP request of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// `GET` or `POST`.
    pub method: &'static str,
    /// Path and query string.
    pub path: String,
}

/// The request for `query`; `None` if the dialect cannot express it.
pub fn request(query: &Query, dialect: Dialect, database: &str) -> Option<Request> {
    match dialect {
        Dialect::Influx => Some(influxql_request(&influxql(query), database)),
        Dialect::Victoriametrics => {
            let (text, step) = metricsql(query)?;
            let (start, end) = (query.span.start, query.span.end);
            let text = query_escape(&text);
            let path = format!("/api/v1/query_range?query={text}&start={start}&end={end}&step={step}");
            Some(Request { method: "GET", path })
        }
    }
}

/// The request for an InfluxQL statement.
pub fn influxql_request(statement: &str, database: &str) -> Request {
    let path = format!("/query?q={}&db={}", query_escape(statement), query_escape(database));
    Request { method: "POST", path }
}

/// The query in the language of `dialect`, to show to people.
pub fn display(query: &Query, dialect: Dialect) -> Option<String> {
    match dialect {
        Dialect::Influx => Some(influxql(query)),
        Dialect::Victoriametrics => metricsql(query).map(|(text, _)| text),
    }
}

/// TSBS' InfluxQL, with its capitals, commas and spaces.
pub fn influxql(query: &Query) -> String {
    let (start, end) = (rfc3339(query.span.start), rfc3339(query.span.end));
    let range = format!("time >= '{start}' and time < '{end}'");
    match query.shape {
        Shape::MaxByTime { fields, window_seconds, .. } => format!(
            "SELECT {} from cpu where {} and {range} group by time({})",
            aggregates("max", fields, ", "),
            host_condition(&query.hosts),
            if window_seconds == HOUR_SECONDS { "1h" } else { "1m" },
        ),
        Shape::MaxAll { .. } => format!(
            "SELECT {} from cpu where {} and {range} group by time(1h)",
            aggregates("max", FIELDS.len(), ","),
            host_condition(&query.hosts),
        ),
        Shape::MeanByHost { fields } => format!(
            "SELECT {} from cpu where {range} group by time(1h),hostname",
            aggregates("mean", fields, ", "),
        ),
        Shape::HighCpu { hosts } => {
            let condition =
                hosts.map_or_else(String::new, |_| format!("and {}", host_condition(&query.hosts)));
            format!("SELECT * from cpu where usage_user > 90.0 {condition} and {range}")
        }
        Shape::LastPoint => "SELECT * from cpu group by \"hostname\" order by time desc limit 1".to_owned(),
        Shape::FiveMinutes { last: false } => {
            format!("SELECT max(usage_user) from cpu WHERE time < '{end}' group by time(1m) limit 5")
        }
        Shape::FiveMinutes { last: true } => format!(
            "SELECT max(usage_user) from cpu WHERE time < '{end}' group by time(1m) order by time desc limit 5"
        ),
    }
}

fn aggregates(function: &str, fields: usize, separator: &str) -> String {
    let calls: Vec<String> = FIELDS[..fields].iter().map(|field| format!("{function}({field})")).collect();
    calls.join(separator)
}

fn host_condition(hosts: &[u64]) -> String {
    let clauses: Vec<String> = hosts.iter().map(|host| format!("hostname = 'host_{host}'")).collect();
    format!("({})", clauses.join(" or "))
}

/// The query and its step in seconds.
fn metricsql(query: &Query) -> Option<(String, i64)> {
    match query.shape {
        Shape::MaxByTime { fields, window_seconds, .. } => {
            let range = if window_seconds == HOUR_SECONDS { "1h" } else { "1m" };
            let series = selector(fields, &query.hosts);
            Some((format!("max(max_over_time({series}[{range}])) by (__name__)"), window_seconds))
        }
        Shape::MaxAll { .. } => {
            let series = selector(FIELDS.len(), &query.hosts);
            Some((format!("max(max_over_time({series}[1h])) by (__name__)"), HOUR_SECONDS))
        }
        Shape::MeanByHost { fields } => {
            let series = selector(fields, &[]);
            Some((format!("avg(avg_over_time({series}[1h])) by (__name__, hostname)"), HOUR_SECONDS))
        }
        Shape::HighCpu { .. } | Shape::LastPoint | Shape::FiveMinutes { .. } => None,
    }
}

fn selector(fields: usize, hosts: &[u64]) -> String {
    let names: Vec<String> = hosts.iter().map(|host| format!("host_{host}")).collect();
    let hosts = match names.len() {
        0 => String::new(),
        1 => format!("hostname='{}'", names[0]),
        _ => format!("hostname=~'{}'", names.join("|")),
    };
    if fields == 1 {
        return format!("cpu_{}{{{hosts}}}", FIELDS[0]);
    }
    let comma = if hosts.is_empty() { "" } else { ", " };
    format!("{{__name__=~'cpu_({})'{comma}{hosts}}}", FIELDS[..fields].join("|"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::kind::{DEVOPS, QueryKind, TSBS, TSBS_LAST_FIVE};
    use crate::time::Span;

    fn query(kind: QueryKind, hosts: &[u64], start: i64) -> Query {
        let seconds = kind.shape.range_seconds().unwrap_or(0);
        Query { shape: kind.shape, hosts: hosts.to_vec(), span: Span { start, end: start + seconds } }
    }

    fn kind(name: &str) -> QueryKind {
        *TSBS.iter().find(|kind| kind.name == name).unwrap()
    }

    #[test]
    fn influxql_is_what_tsbs_sends() {
        for (query, text) in [
            (
                query(kind("single-groupby-1-1-1"), &[9], 358),
                "SELECT max(usage_user) from cpu where (hostname = 'host_9') and \
                 time >= '1970-01-01T00:05:58Z' and time < '1970-01-01T01:05:58Z' group by time(1m)",
            ),
            (
                query(kind("single-groupby-5-8-1"), &[5, 9], 358),
                "SELECT max(usage_user), max(usage_system), max(usage_idle), max(usage_nice), \
                 max(usage_iowait) from cpu where (hostname = 'host_5' or hostname = 'host_9') and \
                 time >= '1970-01-01T00:05:58Z' and time < '1970-01-01T01:05:58Z' group by time(1m)",
            ),
            (
                query(kind("cpu-max-all-1"), &[3], 3250),
                "SELECT max(usage_user),max(usage_system),max(usage_idle),max(usage_nice),\
                 max(usage_iowait),max(usage_irq),max(usage_softirq),max(usage_steal),max(usage_guest),\
                 max(usage_guest_nice) from cpu where (hostname = 'host_3') and \
                 time >= '1970-01-01T00:54:10Z' and time < '1970-01-01T08:54:10Z' group by time(1h)",
            ),
            (
                query(kind("double-groupby-5"), &[], 3250),
                "SELECT mean(usage_user), mean(usage_system), mean(usage_idle), mean(usage_nice), \
                 mean(usage_iowait) from cpu where time >= '1970-01-01T00:54:10Z' and \
                 time < '1970-01-01T12:54:10Z' group by time(1h),hostname",
            ),
            (
                query(kind("high-cpu-all"), &[], 3250),
                "SELECT * from cpu where usage_user > 90.0  and \
                 time >= '1970-01-01T00:54:10Z' and time < '1970-01-01T12:54:10Z'",
            ),
            (
                query(kind("high-cpu-1"), &[5], 2850),
                "SELECT * from cpu where usage_user > 90.0 and (hostname = 'host_5') and \
                 time >= '1970-01-01T00:47:30Z' and time < '1970-01-01T12:47:30Z'",
            ),
            (
                query(kind("lastpoint"), &[], 0),
                "SELECT * from cpu group by \"hostname\" order by time desc limit 1",
            ),
            (
                query(kind("groupby-orderby-limit"), &[], 982),
                "SELECT max(usage_user) from cpu WHERE time < '1970-01-01T01:16:22Z' group by time(1m) limit 5",
            ),
            (
                query(TSBS_LAST_FIVE, &[], 982),
                "SELECT max(usage_user) from cpu WHERE time < '1970-01-01T01:16:22Z' group by time(1m) \
                 order by time desc limit 5",
            ),
            (
                query(DEVOPS[3], &[7], 0),
                "SELECT max(usage_user) from cpu where (hostname = 'host_7') and \
                 time >= '1970-01-01T00:00:00Z' and time < '1970-01-01T12:00:00Z' group by time(1h)",
            ),
        ] {
            assert_eq!(influxql(&query), text);
        }
    }

    #[test]
    fn metricsql_is_what_tsbs_sends() {
        let text = |query: &Query| metricsql(query).map(|(text, _)| text);
        assert_eq!(
            text(&query(kind("single-groupby-1-1-1"), &[5], 0)).unwrap(),
            "max(max_over_time(cpu_usage_user{hostname='host_5'}[1m])) by (__name__)"
        );
        assert_eq!(
            text(&query(kind("single-groupby-5-8-1"), &[5, 9], 0)).unwrap(),
            "max(max_over_time({__name__=~'cpu_(usage_user|usage_system|usage_idle|usage_nice|usage_iowait)', \
             hostname=~'host_5|host_9'}[1m])) by (__name__)"
        );
        assert_eq!(
            text(&query(kind("double-groupby-1"), &[], 0)).unwrap(),
            "avg(avg_over_time(cpu_usage_user{}[1h])) by (__name__, hostname)"
        );
        assert_eq!(text(&query(kind("lastpoint"), &[], 0)), None);
    }

    #[test]
    fn requests_are_escaped() {
        let request = request(&query(kind("lastpoint"), &[], 0), Dialect::Influx, "a b").unwrap();
        assert_eq!(request.method, "POST");
        assert!(request.path.starts_with("/query?q=SELECT+%2A+from+cpu+group+by+%22hostname%22"));
        assert!(request.path.ends_with("&db=a+b"));
    }
}
