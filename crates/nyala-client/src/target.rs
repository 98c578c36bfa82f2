//! The server's address.

use crate::error::{ClientError, Result};
use crate::tls::{Stream, Trust};
use rustls::ClientConfig;
use std::fmt::Write as _;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

/// A server's address, resolved once.
#[derive(Clone, Debug)]
pub struct Target {
    /// `host:port`.
    pub authority: String,
    addresses: Vec<SocketAddr>,
    tls: Option<Arc<ClientConfig>>,
}

impl Target {
    /// Reads `http://host:port` or `https://host:port`, optionally with a slash at its end.
    pub fn parse(url: &str) -> Result<Target> {
        Self::trusting(url, &Trust::default())
    }

    /// Whether it can be read, without asking for the addresses of its name.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(url: &str) -> Result<()> {
        parts(url).map(drop)
    }

    /// Like [`Target::parse`]; `trust` says whose certificates are enough.
    pub fn trusting(url: &str, trust: &Trust) -> Result<Target> {
        let (authority, port, is_tls) = parts(url)?;
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let with_port = if has_port { authority.to_owned() } else { format!("{authority}:{port}") };
        let addresses: Vec<SocketAddr> = with_port
            .to_socket_addrs()
            .map_err(ClientError::io(format!("looking up {authority}")))?
            .collect();
        if addresses.is_empty() {
            return Err(invalid(url, "its name has no address"));
        }
        let tls = is_tls.then(|| trust.settings()).transpose()?;
        Ok(Target { authority: authority.to_owned(), addresses, tls })
    }

    /// `http://host:port`.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.authority)
    }

    /// The port of the server if it listens on this machine.
    pub fn local_port(&self) -> Option<u16> {
        self.addresses.iter().find(|address| address.ip().is_loopback()).map(SocketAddr::port)
    }

    /// Whether both are the same place, whatever it is called.
    pub fn is_same_place(&self, other: &Target) -> bool {
        self.addresses.iter().any(|address| other.addresses.contains(address))
    }

    /// The host's name or address, without brackets around one of IPv6.
    fn host(&self) -> &str {
        let host = match self.authority.rsplit_once(':') {
            Some((host, port)) if port.parse::<u16>().is_ok() => host,
            _ => &self.authority,
        };
        host.trim_start_matches('[').trim_end_matches(']')
    }

    /// Connects within `timeout`. Without a `read_timeout`, reading waits without end.
    pub(crate) fn connect(&self, timeout: Duration, read_timeout: Option<Duration>) -> Result<Stream> {
        let context = || format!("connecting to {}", self.url());
        let mut failure = None;
        for address in &self.addresses {
            match TcpStream::connect_timeout(address, timeout) {
                Ok(stream) => {
                    let prepare = || {
                        stream.set_nodelay(true)?;
                        stream.set_read_timeout(read_timeout)?;
                        stream.set_write_timeout(Some(timeout))
                    };
                    prepare().map_err(ClientError::io(context()))?;
                    return match &self.tls {
                        Some(settings) => Stream::tls(stream, self.host(), settings.clone()),
                        None => Ok(Stream::Plain(stream)),
                    };
                }
                Err(error) => failure = Some(error),
            }
        }
        Err(ClientError::io(context())(failure.expect("a target has an address")))
    }
}

/// Escapes `text` for a query string as Go's `url.QueryEscape` does.
pub fn query_escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                escaped.push(char::from(byte))
            }
            b' ' => escaped.push('+'),
            _ => write!(escaped, "%{byte:02X}").expect("a string takes any text"),
        }
    }
    escaped
}

/// What stands in front of the path, the port that it has if it names none, and whether it is for TLS.
fn parts(url: &str) -> Result<(&str, u16, bool)> {
    let (rest, port, is_tls) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
        (Some(rest), _) => (rest, 80, false),
        (None, Some(rest)) => (rest, 443, true),
        (None, None) => return Err(invalid(url, "it has to begin with http:// or https://")),
    };
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    let is_other = |letter: char| "/?#@ ".contains(letter) || letter.is_control();
    match authority.is_empty() || authority.contains(is_other) {
        true => Err(invalid(url, "only http://host:port and https://host:port are supported")),
        false => Ok((authority, port, is_tls)),
    }
}

fn invalid(url: &str, why: &str) -> ClientError {
    ClientError::Invalid(format!("'{url}' is not a valid target: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_or_refused() {
        let target = Target::parse("http://127.0.0.1:8086/").unwrap();
        assert_eq!((&*target.authority, target.local_port()), ("127.0.0.1:8086", Some(8086)));
        assert_eq!(Target::parse("http://127.0.0.1").unwrap().local_port(), Some(80));
        let secure = Target::parse("https://[::1]/").unwrap();
        assert_eq!((&*secure.url(), secure.host(), secure.local_port()), ("https://[::1]", "::1", Some(443)));
        let by_name = Target::parse("https://localhost:8086").unwrap();
        assert!(target.is_same_place(&by_name) && !target.is_same_place(&secure));
        for url in [
            "127.0.0.1:8086",
            "ftp://127.0.0.1",
            "http://",
            "http://127.0.0.1:1\r\nX:y",
            "http://127.0.0.1:1/write",
            "http://u@h:1",
        ] {
            assert!(Target::parse(url).is_err() && Target::check(url).is_err(), "{url}");
        }
        // Nobody has this name, and nobody is asked for it.
        assert!(Target::check("http://collector.invalid:4318").is_ok());
    }

    #[test]
    fn queries_are_escaped_as_go_does() {
        assert_eq!(query_escape("SELECT max(a), b = 'c' ~é"), "SELECT+max%28a%29%2C+b+%3D+%27c%27+~%C3%A9");
    }
}
