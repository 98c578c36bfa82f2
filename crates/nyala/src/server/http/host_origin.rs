//! Checks the host name that a request uses, and the web page that it comes from.
//!
//! A browser sends any request that a page asks for, to every address that the browser can reach. A server without
//! authentication would execute it. Three headers cannot be chosen by a page. `Host` is the name in the URL: after DNS
//! rebinding, it is the name of the malicious page. `Origin` names the page that sends a request to another site.
//! `Sec-Fetch-Site` says that a request without an origin comes from another site, such as an image or a link. Programs
//! send neither of the last two.

use super::response::{Answer, Failure, failure, with_body, without_sniffing};
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, CONNECTION, HOST, HeaderMap, HeaderValue, ORIGIN,
};
use hyper::http::request::Parts;
use hyper::http::uri::Authority;
use hyper::{Response, StatusCode, Version};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Allows any name.
const ANY: &str = "*";

/// The host names and web pages that requests may use; `None`: all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedSites {
    hosts: Option<Vec<String>>,
    origins: Option<Vec<String>>,
}

/// Why a request is rejected.
pub(super) enum Rejection {
    /// It names no host, or several.
    Invalid(Box<Response<Answer>>),
    /// Its host name or web page is not allowed.
    Forbidden {
        /// The host name or page.
        who: String,
        failure: Failure,
    },
}

impl AllowedSites {
    /// Reads the settings.
    pub fn new(hosts: Option<Vec<String>>, origins: Option<Vec<String>>) -> Result<Self, String> {
        let sites = Self { hosts: names(hosts), origins: names(origins) };
        for host in sites.hosts.iter().flatten() {
            if host_of(host) != Some(host.as_str()) {
                return Err(format!("allowed-hosts: {host:?} is not a name such as influxdb.example.com"));
            }
        }
        for origin in sites.origins.iter().flatten() {
            let authority = origin.split_once("://").map(|(_, authority)| authority);
            if origin != "null" && authority.is_none_or(|authority| host_of(authority).is_none()) {
                return Err(format!(
                    "allowed-origins: {origin:?} is not scheme, name and port of a page, such as http://grafana.example.com:3000"
                ));
            }
        }
        Ok(sites)
    }

    /// Rejects a request that names no host or several. On a network, also rejects a host name that is not allowed.
    pub(super) fn check_host(&self, head: &Parts, by_network: bool) -> Result<(), Rejection> {
        let mut named = head.headers.get_all(HOST).iter();
        let host = match (named.next(), named.next()) {
            (_, Some(_)) => return Err(invalid("400 Bad Request: too many Host headers")),
            (None, None) if head.version > Version::HTTP_10 => {
                return Err(invalid("400 Bad Request: missing required Host header"));
            }
            (host, None) => host.map_or("", |host| host.to_str().unwrap_or("\u{fffd}")),
        };
        let Some(allowed) = self.hosts.as_ref().filter(|_| by_network) else { return Ok(()) };
        // A request with an absolute URL has two host names.
        for name in [host, head.uri.authority().map_or("", Authority::as_str)] {
            let is_known =
                |name: &str| is_local(name) || allowed.iter().any(|listed| listed.eq_ignore_ascii_case(name));
            if !name.is_empty() && !host_of(name).is_some_and(is_known) {
                return Err(forbidden(name, "this server is not called", "allowed-hosts"));
            }
        }
        Ok(())
    }

    /// The origin that may read the answer, if a page sent the request; rejects a page that is not allowed.
    pub(super) fn check_origin(&self, head: &Parts) -> Result<Option<HeaderValue>, Rejection> {
        let headers = &head.headers;
        let origin = headers.get(ORIGIN).filter(|origin| !origin.is_empty());
        let Some(allowed) = &self.origins else { return Ok(origin.cloned()) };
        let site = headers.get("sec-fetch-site").map_or("", |site| site.to_str().unwrap_or(""));
        let shown = match (site, origin) {
            ("same-origin" | "none", _) => return Ok(origin.cloned()),
            ("cross-site" | "same-site", None) => "another site",
            (_, None) => return Ok(None),
            (_, Some(origin)) => origin.to_str().unwrap_or("\u{fffd}"),
        };
        let own = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("");
        let is_own = shown.split_once("://").is_some_and(|(_, page)| page.eq_ignore_ascii_case(own));
        if is_own || allowed.iter().any(|listed| listed.eq_ignore_ascii_case(shown)) {
            return Ok(origin.cloned());
        }
        Err(forbidden(shown, "this server answers no pages of", "allowed-origins"))
    }
}

/// The names that a setting lists; `None` if it allows any.
fn names(listed: Option<Vec<String>>) -> Option<Vec<String>> {
    let listed: Vec<String> =
        listed?.iter().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
    (!listed.iter().any(|name| name == ANY)).then_some(listed)
}

/// The name or address in `name:port`, without a dot at its end.
fn host_of(authority: &str) -> Option<&str> {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port),
        _ => (authority, ""),
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_valid = match bare {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.bytes().all(is_name),
    };
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
    (is_valid && is_port).then(|| host.strip_suffix('.').unwrap_or(host))
}

/// Whether a name is an address or a local name, which no page of another site can have.
fn is_local(name: &str) -> bool {
    const LOCAL: &str = ".localhost";
    let end = name.len().checked_sub(LOCAL.len()).and_then(|start| name.get(start..));
    name.starts_with('[')
        || name.parse::<Ipv4Addr>().is_ok()
        || name.eq_ignore_ascii_case(&LOCAL[1..])
        || end.is_some_and(|end| end.eq_ignore_ascii_case(LOCAL))
}

/// Answers like the HTTP library of InfluxDB.
fn invalid(words: &'static str) -> Rejection {
    let mut response = without_sniffing(with_body(StatusCode::BAD_REQUEST, super::TEXT, words));
    // A proxy may see the end of the request at another place.
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    Rejection::Invalid(Box::new(response))
}

fn forbidden(who: &str, words: &str, setting: &str) -> Rejection {
    let who: String = who.chars().take(200).collect();
    let failure = failure(
        StatusCode::FORBIDDEN,
        format!("{words} {}: name it in {setting} if it should be", nyala_db::quoted(&who)),
    );
    Rejection::Forbidden { who, failure }
}

/// Lets pages of an origin read the answer, as InfluxDB does. Grafana needs it when it asks from the browser.
pub(super) fn allow_origin(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    let methods = "DELETE, GET, OPTIONS, POST, PUT";
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(methods));
    let names = "Accept, Accept-Encoding, Authorization, Content-Length, Content-Type, X-CSRF-Token, X-HTTP-Method-Override";
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(names));
    let shown = "Date, X-InfluxDB-Version, X-InfluxDB-Build";
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(shown));
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Request;

    fn sites(hosts: Option<&[&str]>, origins: Option<&[&str]>) -> AllowedSites {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        AllowedSites::new(hosts.map(owned), origins.map(owned)).expect("valid")
    }

    fn head(headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::get("/query");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a request").into_parts().0
    }

    #[test]
    fn local_names_and_addresses_are_allowed() {
        let checker = sites(Some(&["influx.example.com"]), None);
        for local in [
            "localhost",
            "LOCALHOST:8086",
            "a.localhost",
            "127.0.0.1:8086",
            "10.0.0.7",
            "[::1]:8086",
            "[fe80::1]",
            "influx.example.com",
            "Influx.Example.com.:443",
            "",
        ] {
            assert!(checker.check_host(&head(&[("host", local)]), true).is_ok(), "{local}");
        }
        for unknown in [
            "evil.example",
            "localhost.evil.example",
            "evil.example:8086",
            "influxdb",
            "127.0.0.1.evil.example",
            "127.0.0.1@evil.example",
            "[::1",
            "localhost:8086:1",
            "evil.example#localhost",
            "[evil]",
        ] {
            assert!(checker.check_host(&head(&[("host", unknown)]), true).is_err(), "{unknown}");
            assert!(sites(None, None).check_host(&head(&[("host", unknown)]), true).is_ok(), "{unknown}");
            assert!(
                sites(Some(&["*"]), None).check_host(&head(&[("host", unknown)]), true).is_ok(),
                "{unknown}"
            );
        }
        let (mut in_full, _) =
            Request::get("http://evil.example/query").body(()).expect("a request").into_parts();
        in_full.headers.insert(HOST, HeaderValue::from_static("localhost"));
        assert!(checker.check_host(&in_full, true).is_err());
    }

    #[test]
    fn a_request_names_one_host() {
        let open = sites(None, None);
        assert!(open.check_host(&head(&[]), true).is_err());
        assert!(open.check_host(&head(&[("host", "a"), ("host", "a")]), true).is_err());
        let mut old = head(&[]);
        old.version = Version::HTTP_10;
        assert!(open.check_host(&old, true).is_ok());
    }

    #[test]
    fn pages_of_other_sites_are_rejected_and_programs_are_not() {
        let checker = sites(None, Some(&["http://grafana:3000"]));
        let grafana = ("origin", "http://grafana:3000");
        for (headers, answered) in [
            (&[][..], true),
            (&[grafana], true),
            (&[("origin", "HTTP://Grafana:3000")], true),
            (&[("origin", "http://grafana:3001")], false),
            (&[("origin", "https://grafana:3000")], false),
            (&[("origin", "http://grafana:3000.evil.example")], false),
            (&[("origin", "null")], false),
            (&[("origin", "\u{fffd}")], false),
            (&[("origin", "http://own:8086")], true),
            (&[("origin", "http://own")], false),
            // Behind a proxy the page's host differs, and only the browser knows that it is the same site.
            (&[("origin", "http://proxy"), ("sec-fetch-site", "same-origin")], true),
            (&[("sec-fetch-site", "none")], true),
            (&[("sec-fetch-site", "cross-site")], false),
            (&[("sec-fetch-site", "same-site")], false),
            (&[grafana, ("sec-fetch-site", "cross-site")], true),
        ] {
            let headers = [&[("host", "own:8086")], headers].concat();
            assert_eq!(checker.check_origin(&head(&headers)).is_ok(), answered, "{headers:?}");
            for open in [sites(None, None), sites(None, Some(&["*"]))] {
                assert!(
                    open.check_origin(&head(&headers))
                        .is_ok_and(|origin| { origin == head(&headers).headers.get("origin").cloned() })
                );
            }
        }
    }

    #[test]
    fn invalid_names_in_settings_are_errors() {
        let refused = |hosts: &str, origins: &str| {
            AllowedSites::new(Some(vec![hosts.to_owned()]), Some(vec![origins.to_owned()])).is_err()
        };
        assert!(
            !refused("a.example", "https://a.example:8080") && !refused("", "null") && !refused("*", "*")
        );
        for host in ["http://a", "a:8086", "a/b", "*.a"] {
            assert!(refused(host, "*"), "{host}");
        }
        for origin in ["a", "http://a/", "http://", "*.a", "http://a/b"] {
            assert!(refused("*", origin), "{origin}");
        }
    }
}
