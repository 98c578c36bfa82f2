//! Subscriptions: what one server sends to the other, and what became of it.

use super::schema::{rows, text};
use super::servers::{Server, Servers};
use nyala_client::Target;
use serde::Serialize;
use serde_json::Value;

/// A subscription of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Subscription {
    pub(super) database: String,
    pub(super) policy: String,
    pub(super) name: String,
    /// URLs, with passwords.
    pub(super) destinations: Vec<String>,
}

/// What a subscription has sent since its server was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Sent {
    /// The server that sends.
    pub(super) from: &'static str,
    pub(super) database: String,
    pub(super) retention_policy: String,
    pub(super) points: u64,
    /// Requests that were lost, with all points in them.
    pub(super) lost_requests: u64,
    /// Points for which nyala had no room; InfluxDB counts requests only.
    pub(super) lost_points: u64,
}

/// The subscriptions of a server.
pub(super) fn list(server: &Server) -> Result<Vec<Subscription>, String> {
    let answer = server.execute("", "SHOW SUBSCRIPTIONS")?;
    let mut all = Vec::new();
    for series in answer["series"].as_array().into_iter().flatten() {
        for row in series["values"].as_array().into_iter().flatten() {
            let destinations = row[3].as_array().into_iter().flatten().filter_map(text).collect();
            let named = (text(&series["name"]), text(&row[0]), text(&row[1]));
            let (Some(database), Some(policy), Some(name)) = named else { continue };
            all.push(Subscription { database, policy, name, destinations });
        }
    }
    Ok(all)
}

/// Whether a URL of a subscription leads to a server.
pub(super) fn leads_to(url: &str, target: &Target) -> bool {
    let Some((scheme, place)) = place_of(url) else { return false };
    Target::parse(&format!("{scheme}://{place}")).is_ok_and(|own| own.is_same_place(target))
}

/// The scheme of a URL, and the host with its port.
pub(super) fn place_of(url: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    Some((scheme, authority.rsplit_once('@').map_or(authority, |(_, place)| place)))
}

/// What either server has sent to the other. Who may not know that is told nothing.
pub(super) fn sent(servers: &Servers) -> Vec<Sent> {
    let Servers { influxdb, nyala } = servers;
    [(influxdb, nyala), (nyala, influxdb)]
        .into_iter()
        .flat_map(|(from, to)| {
            let answer = from.execute("", "SHOW STATS FOR 'subscriber'").unwrap_or_default();
            let all = answer["series"].as_array().cloned().unwrap_or_default();
            let of_series = move |series: &Value| of_statistics(from.name, series, &to.target);
            all.iter().filter_map(of_series).collect::<Vec<_>>()
        })
        .collect()
}

fn of_statistics(from: &'static str, series: &Value, to: &Target) -> Option<Sent> {
    let tags = &series["tags"];
    if !leads_to(tags["destination"].as_str()?, to) {
        return None;
    }
    let columns = series["columns"].as_array()?;
    let row = series["values"].as_array()?.first()?;
    let number = |name: &str| {
        let at = columns.iter().position(|column| column == name)?;
        row[at].as_u64()
    };
    Some(Sent {
        from,
        database: text(&tags["database"])?,
        retention_policy: text(&tags["retention_policy"])?,
        points: number("pointsWritten")?,
        lost_requests: number("writeFailures")?,
        lost_points: number("pointsDropped").unwrap_or(0),
    })
}

/// How many requests InfluxDB has lost before they came to a subscription, of all subscriptions.
pub(super) fn lost_before(influxdb: &Server) -> u64 {
    let answer = influxdb.execute("", "SHOW STATS FOR 'write'").unwrap_or_default();
    let columns = answer["series"][0]["columns"].as_array();
    let at = columns.and_then(|columns| columns.iter().position(|column| column == "subWriteDrop"));
    let lost = rows(&answer).next().zip(at).and_then(|(row, at)| row[at].as_u64());
    lost.unwrap_or(0)
}

impl Sent {
    /// A line of a report.
    pub(super) fn line(&self) -> String {
        let Sent { from, database, retention_policy, points, lost_requests, lost_points } = self;
        let place = nyala_shell::escaped(&format!("{database}.{retention_policy}")).into_owned();
        let lost = match (lost_requests, lost_points) {
            (0, 0) => "lost none".to_owned(),
            (requests, 0) => format!("LOST {requests} requests, with all points in them"),
            (requests, points) => {
                format!("LOST {requests} requests, with all points in them, and {points} points")
            }
        };
        format!("{place}: {from} has sent {points} points since its start, and {lost}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_leads_to_a_server_whatever_else_is_in_it() {
        let target = Target::parse("http://127.0.0.1:8087").unwrap();
        for url in
            ["http://127.0.0.1:8087", "http://a:b%40c@localhost:8087/", "http://127.0.0.1:8087/x?y=z@w"]
        {
            assert!(leads_to(url, &target), "{url}");
        }
        for url in [
            "http://127.0.0.1:8086",
            "udp://127.0.0.1:8087",
            "127.0.0.1:8087",
            "http://127.0.0.1:8086/@127.0.0.1:8087",
        ] {
            assert!(!leads_to(url, &target), "{url}");
        }
    }

    #[test]
    fn statistics_of_the_way_to_the_other_server_are_read() {
        let target = Target::parse("http://127.0.0.1:8087").unwrap();
        let series = serde_json::json!({"name": "subscriber", "columns": ["pointsWritten", "writeFailures"],
            "tags": {"database": "d", "destination": "http://127.0.0.1:8087", "retention_policy": "p"},
            "values": [[12, 3]]});
        let sent = of_statistics("InfluxDB", &series, &target).unwrap();
        assert_eq!(
            sent.line(),
            "d.p: InfluxDB has sent 12 points since its start, and LOST 3 requests, with all points in them"
        );
        let all = serde_json::json!({"name": "subscriber", "columns": ["pointsWritten"], "values": [[12]]});
        assert_eq!(of_statistics("InfluxDB", &all, &target), None);
    }
}
