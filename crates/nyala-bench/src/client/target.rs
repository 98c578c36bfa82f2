//! The server's address, and the dialect it speaks.

use crate::error::{BenchError, Result};
use std::fmt::Write as _;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// What the server understands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Dialect {
    /// InfluxDB 1.x: databases, InfluxQL (nyala speaks it).
    #[default]
    Influx,
    /// VictoriaMetrics: no databases, MetricsQL.
    Victoriametrics,
}

impl Dialect {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Influx => "influx",
            Dialect::Victoriametrics => "victoriametrics",
        }
    }
}

/// A server's address, resolved once.
#[derive(Clone, Debug)]
pub struct Target {
    /// `host:port`.
    pub authority: String,
    addresses: Vec<SocketAddr>,
}

impl Target {
    /// Reads `http://host:port`, optionally with a slash at its end.
    pub fn parse(url: &str) -> Result<Target> {
        let invalid = |why: &str| BenchError::Invalid(format!("'{url}' is not a valid target: {why}"));
        let rest = url.strip_prefix("http://").ok_or_else(|| invalid("it has to begin with http://"))?;
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.is_empty() || authority.contains(['/', '?', '#', '@', ' ']) {
            return Err(invalid("only http://host:port is supported"));
        }
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let with_port = if has_port { authority.to_owned() } else { format!("{authority}:80") };
        let addresses: Vec<SocketAddr> =
            with_port.to_socket_addrs().map_err(BenchError::io(format!("looking up {authority}")))?.collect();
        if addresses.is_empty() {
            return Err(invalid("its name has no address"));
        }
        Ok(Target { authority: authority.to_owned(), addresses })
    }

    /// `http://host:port`.
    pub fn url(&self) -> String {
        format!("http://{}", self.authority)
    }

    /// The port of the server if it listens on this machine.
    pub fn local_port(&self) -> Option<u16> {
        self.addresses.iter().find(|address| address.ip().is_loopback()).map(SocketAddr::port)
    }

    pub(super) fn connect(&self, timeout: Duration) -> Result<TcpStream> {
        let context = || format!("connecting to {}", self.url());
        let mut failure = None;
        for address in &self.addresses {
            match TcpStream::connect_timeout(address, timeout) {
                Ok(stream) => {
                    let prepare = || {
                        stream.set_nodelay(true)?;
                        stream.set_read_timeout(Some(timeout))?;
                        stream.set_write_timeout(Some(timeout))
                    };
                    prepare().map_err(BenchError::io(context()))?;
                    return Ok(stream);
                }
                Err(error) => failure = Some(error),
            }
        }
        Err(BenchError::io(context())(failure.expect("a target has an address")))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_or_refused() {
        let target = Target::parse("http://127.0.0.1:8086/").unwrap();
        assert_eq!((&*target.authority, target.local_port()), ("127.0.0.1:8086", Some(8086)));
        assert_eq!(Target::parse("http://127.0.0.1").unwrap().local_port(), Some(80));
        for url in
            ["127.0.0.1:8086", "https://127.0.0.1", "http://", "http://127.0.0.1:1/write", "http://u@h:1"]
        {
            assert!(Target::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn queries_are_escaped_as_go_does() {
        assert_eq!(query_escape("SELECT max(a), b = 'c' ~é"), "SELECT+max%28a%29%2C+b+%3D+%27c%27+~%C3%A9");
    }
}
