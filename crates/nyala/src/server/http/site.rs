//! Which name a request calls the server by, and which web page it comes from.
//!
//! A browser sends what any page tells it to, to every address it reaches, and a server that asks nobody who they are
//! would do it. Pages cannot choose three headers. `Host` is the name in the page's own URL: a page whose name was made
//! to lead here (DNS rebinding) calls the server by its own name. `Origin` names the page of a request to another site,
//! and `Sec-Fetch-Site` says that it is one where there is no origin: an image, a link. Programs send neither of the two.

use super::response::{Answer, Failure, failure, plainly, whole};
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, CONNECTION, HOST, HeaderMap, HeaderValue, ORIGIN,
};
use hyper::http::request::Parts;
use hyper::http::uri::Authority;
use hyper::{Response, StatusCode, Version};
use std::net::{Ipv4Addr, Ipv6Addr};

/// What stands for any name.
const ANY: &str = "*";

/// The names and pages that requests may come by and from; `None`: all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sites {
    hosts: Option<Vec<String>>,
    origins: Option<Vec<String>>,
}

/// Why a request is not answered.
pub(super) enum Stranger {
    /// It names no host, or several.
    Broken(Box<Response<Answer>>),
    /// It calls the server by a name, or comes from a page, that is not allowed.
    Refused {
        /// The name or page.
        who: String,
        failure: Failure,
    },
}

impl Sites {
    /// Those of settings.
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

    /// Refuses a request that names no host or several, and on a network one that is not this server's.
    pub(super) fn check_host(&self, head: &Parts, by_network: bool) -> Result<(), Stranger> {
        let mut named = head.headers.get_all(HOST).iter();
        let host = match (named.next(), named.next()) {
            (_, Some(_)) => return Err(broken("400 Bad Request: too many Host headers")),
            (None, None) if head.version > Version::HTTP_10 => {
                return Err(broken("400 Bad Request: missing required Host header"));
            }
            (host, None) => host.map_or("", |host| host.to_str().unwrap_or("\u{fffd}")),
        };
        let Some(allowed) = self.hosts.as_ref().filter(|_| by_network) else { return Ok(()) };
        // A URL in full counts more than the header.
        for asked in [host, head.uri.authority().map_or("", Authority::as_str)] {
            let is_known =
                |name: &str| is_local(name) || allowed.iter().any(|known| known.eq_ignore_ascii_case(name));
            if !asked.is_empty() && !host_of(asked).is_some_and(is_known) {
                return Err(refused(asked, "this server is not called", "allowed-hosts"));
            }
        }
        Ok(())
    }

    /// The origin whose page may read the answer, if one sent the request; refuses a page that may not.
    pub(super) fn check_origin(&self, head: &Parts) -> Result<Option<HeaderValue>, Stranger> {
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
        if is_own || allowed.iter().any(|known| known.eq_ignore_ascii_case(shown)) {
            return Ok(origin.cloned());
        }
        Err(refused(shown, "this server answers no pages of", "allowed-origins"))
    }
}

/// What a setting lists; nothing if that is any.
fn names(listed: Option<Vec<String>>) -> Option<Vec<String>> {
    let listed: Vec<String> =
        listed?.iter().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
    (!listed.iter().any(|name| name == ANY)).then_some(listed)
}

/// The name or address in `name:port`, a dot at its end left out.
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

/// An address, or a name that is this machine everywhere: no page of another has it.
fn is_local(name: &str) -> bool {
    const LOCAL: &str = ".localhost";
    let end = name.len().checked_sub(LOCAL.len()).and_then(|start| name.get(start..));
    name.starts_with('[')
        || name.parse::<Ipv4Addr>().is_ok()
        || name.eq_ignore_ascii_case(&LOCAL[1..])
        || end.is_some_and(|end| end.eq_ignore_ascii_case(LOCAL))
}

/// As InfluxDB's library answers it.
fn broken(words: &'static str) -> Stranger {
    let mut response = plainly(whole(StatusCode::BAD_REQUEST, super::TEXT, words));
    // Whoever passed it on may take its end for elsewhere.
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    Stranger::Broken(Box::new(response))
}

fn refused(who: &str, words: &str, setting: &str) -> Stranger {
    let who: String = who.chars().take(200).collect();
    let failure = failure(
        StatusCode::FORBIDDEN,
        format!("{words} {}: name it in {setting} if it should be", nyala_db::quoted(&who)),
    );
    Stranger::Refused { who, failure }
}

/// Lets pages of an origin read the answer, as InfluxDB does: Grafana's browser access needs it.
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

    fn sites(hosts: Option<&[&str]>, origins: Option<&[&str]>) -> Sites {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Sites::new(hosts.map(owned), origins.map(owned)).expect("valid")
    }

    fn head(headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::get("/query");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a request").into_parts().0
    }

    #[test]
    fn names_that_no_page_of_another_has_are_known() {
        let judged = sites(Some(&["influx.example.com"]), None);
        for known in [
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
            assert!(judged.check_host(&head(&[("host", known)]), true).is_ok(), "{known}");
        }
        for strange in [
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
            assert!(judged.check_host(&head(&[("host", strange)]), true).is_err(), "{strange}");
            assert!(sites(None, None).check_host(&head(&[("host", strange)]), true).is_ok(), "{strange}");
            assert!(
                sites(Some(&["*"]), None).check_host(&head(&[("host", strange)]), true).is_ok(),
                "{strange}"
            );
        }
        let (mut in_full, _) =
            Request::get("http://evil.example/query").body(()).expect("a request").into_parts();
        in_full.headers.insert(HOST, HeaderValue::from_static("localhost"));
        assert!(judged.check_host(&in_full, true).is_err());
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
    fn pages_of_others_are_refused_and_programs_are_not() {
        let judged = sites(None, Some(&["http://grafana:3000"]));
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
            // Behind a proxy the page's own host is another, and only the browser knows.
            (&[("origin", "http://proxy"), ("sec-fetch-site", "same-origin")], true),
            (&[("sec-fetch-site", "none")], true),
            (&[("sec-fetch-site", "cross-site")], false),
            (&[("sec-fetch-site", "same-site")], false),
            (&[grafana, ("sec-fetch-site", "cross-site")], true),
        ] {
            let headers = [&[("host", "own:8086")], headers].concat();
            assert_eq!(judged.check_origin(&head(&headers)).is_ok(), answered, "{headers:?}");
            for open in [sites(None, None), sites(None, Some(&["*"]))] {
                assert!(
                    open.check_origin(&head(&headers))
                        .is_ok_and(|origin| { origin == head(&headers).headers.get("origin").cloned() })
                );
            }
        }
    }

    #[test]
    fn what_can_be_no_name_is_said() {
        let refused = |hosts: &str, origins: &str| {
            Sites::new(Some(vec![hosts.to_owned()]), Some(vec![origins.to_owned()])).is_err()
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
