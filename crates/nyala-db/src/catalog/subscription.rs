//! Subscriptions: which written points are sent to whom.
//!
//! A subscription makes this server send requests to any address that it can reach, so only administrators may create
//! one.

use super::Catalog;
use nyala_core::{Error, Result};
use serde::{Deserialize, Serialize};

/// The most subscriptions of a database. Each has a queue and a sender.
pub const SUBSCRIPTIONS_MAX: usize = 32;
/// The most destinations of a subscription, …
const DESTINATIONS_MAX: usize = 32;
/// … and the longest URL of each: all of them are in one record.
const URL_MAX_BYTES: usize = 2_048;

/// A subscription.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Subscription {
    /// The retention policy whose points are sent.
    pub policy: String,
    /// Its name, unique within the policy.
    pub name: String,
    /// Whether each point goes to all destinations, or to one of them in turn.
    pub to_all: bool,
    /// The URLs of the destinations, as written.
    pub destinations: Vec<String>,
}

impl Subscription {
    /// The name of its mode in InfluxQL.
    pub fn mode(&self) -> &'static str {
        if self.to_all { "ALL" } else { "ANY" }
    }
}

/// The protocol of a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// One datagram per point.
    Udp,
    /// Requests to `/write`.
    Http,
    /// The same over TLS.
    Https,
}

/// A destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// Its protocol.
    pub scheme: Scheme,
    /// A name or address. An IPv6 address is without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The path before `/write`: empty, or a slash and more.
    pub path: String,
    /// Its query parameters, as written. Parameters that requests need take precedence.
    pub parameters: String,
    /// The user information of the URL: `user:password`.
    pub login: Option<String>,
}

impl Destination {
    /// Parses a URL, which must have a port; `None` if it is malformed.
    pub fn parse(text: &str) -> Option<Self> {
        // Line breaks and other characters that a URL cannot contain must not get into the head of a request.
        if text.len() > URL_MAX_BYTES || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        let (scheme, rest) = text.split_once("://")?;
        let scheme = match &*scheme.to_ascii_lowercase() {
            "udp" => Scheme::Udp,
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return None,
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        let rest = rest.split('#').next()?;
        let (path, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let path = path.trim_end_matches('/');
        let (login, place) = match authority.rsplit_once('@') {
            Some((login, place)) => (Some(login.to_owned()), place),
            None => (None, authority),
        };
        let (host, port) = place.rsplit_once(':')?;
        let host = match host.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']')?,
            None if host.contains(':') => return None,
            None => host,
        };
        if host.is_empty() || host.contains(['[', ']', '\\']) {
            return None;
        }
        let port = port.bytes().all(|digit| digit.is_ascii_digit()).then(|| port.parse().ok())??;
        Some(Self {
            scheme,
            host: host.into(),
            port,
            path: path.into(),
            parameters: parameters.into(),
            login,
        })
    }
}

impl Catalog {
    /// Adds a subscription to a database.
    pub async fn create_subscription(&self, database: &str, subscription: Subscription) -> Result<()> {
        for destination in &subscription.destinations {
            if Destination::parse(destination).is_none() {
                return Err(Error::invalid(format!("invalid subscription URL: {destination}")));
            }
        }
        let _changing = self.changing.lock().await;
        self.change_existing(database, |changed| {
            changed.named_policy(&subscription.policy)?;
            let is_same =
                |own: &Subscription| own.policy == subscription.policy && own.name == subscription.name;
            if changed.subscriptions.iter().any(is_same) {
                return Err(Error::conflict("subscription already exists"));
            }
            if changed.subscriptions.len() >= SUBSCRIPTIONS_MAX {
                return Err(Error::limit(format!("a database may have {SUBSCRIPTIONS_MAX} subscriptions")));
            }
            if subscription.destinations.len() > DESTINATIONS_MAX {
                return Err(Error::limit(format!("a subscription may have {DESTINATIONS_MAX} destinations")));
            }
            changed.subscriptions.push(subscription.clone());
            Ok(())
        })
        .await
    }

    /// Drops a subscription.
    pub async fn drop_subscription(&self, database: &str, policy: &str, name: &str) -> Result<()> {
        let _changing = self.changing.lock().await;
        self.change_existing(database, |changed| {
            changed.named_policy(policy)?;
            let before = changed.subscriptions.len();
            changed.subscriptions.retain(|own| own.policy != policy || own.name != name);
            match changed.subscriptions.len() < before {
                true => Ok(()),
                false => Err(Error::missing("subscription not found")),
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed_and_malformed_ones_refused() {
        let read = |text: &str| {
            let read = Destination::parse(text)?;
            Some((read.scheme, read.host, read.port, read.path + "?" + &read.parameters, read.login))
        };
        let plain = |scheme, host: &str, path: &str| Some((scheme, host.into(), 9, path.into(), None));
        assert_eq!(read("udp://h:9"), plain(Scheme::Udp, "h", "?"));
        assert_eq!(read("HTTP://127.0.0.1:9/"), plain(Scheme::Http, "127.0.0.1", "?"));
        assert_eq!(read("https://[::1]:9/a/b/?x=y#z"), plain(Scheme::Https, "::1", "/a/b?x=y"));
        let login = read("http://u:p@ss@h:9").and_then(|read| read.4);
        assert_eq!(login.as_deref(), Some("u:p@ss"));
        for bad in [
            "",
            "foo",
            "h:9",
            "tcp://h:9",
            "http://h",
            "http://h:",
            "http://:9",
            "http://h:x",
            "http://h:65536",
            "http://h:+1",
            "http://::1:9",
            "http://[::1:9",
            "http://h:9/a b",
            "http://h:9/\r\nX: y",
            "http://h\n:9",
            "http:///h:9",
            "http://h:9é",
            "http://a:9:9",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
        assert_eq!(read(&format!("http://h:9/{}", "a".repeat(URL_MAX_BYTES))), None);
    }
}
