//! The connection pool: calls servers by address over connections that it opens when needed.
//!
//! There is one connection per server and login. Callers that need the same connection wait for a single negotiation.
//! The messenger does not retry, because what an error means depends on the call.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prost::Message;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use super::connection::{CallOptions, Connection, Limits};
use super::credentials::Credentials;
use super::negotiation::{NegotiationOptions, negotiate};
use crate::error::{Error, ErrorKind, Result};
use crate::metrics::Metrics;
use crate::pb;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// The port of a master, unless it is configured otherwise.
const MASTER_PORT: u16 = 7051;

/// The longest name in DNS. Addresses are copied for each replica, so none may be large.
const MAX_HOST_BYTES: usize = 255;

impl Address {
    /// Reads `host:port`; without a port it is the masters' default.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let bad = || Error::invalid(format!("{text:?} is not an address (host:port)"));
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().map_err(|_| bad())?),
            None => (text, MASTER_PORT),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').trim();
        if host.is_empty() {
            return Err(bad());
        }
        Ok(Self { host: host.to_owned(), port })
    }

    pub(crate) fn from_pb(address: &pb::HostPort) -> Result<Self> {
        if address.host.len() > MAX_HOST_BYTES {
            return Err(Error::protocol(format!("a host name of {} bytes", address.host.len())));
        }
        let port = u16::try_from(address.port).map_err(|_| Error::protocol("a port beyond 65535"))?;
        Ok(Self { host: address.host.clone(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.host, self.port)
    }
}

/// Which identity a connection is opened with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Login {
    /// The primary identity, for the masters, which issue tokens for it.
    Primary,
    /// The authentication token if there is one.
    Token,
}

/// Settings of all connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessengerSettings {
    pub(crate) connect_timeout: Duration,
    pub(crate) limits: Limits,
    pub(crate) require_encryption: bool,
    pub(crate) encrypt_loopback: bool,
}

type Slot = Arc<tokio::sync::Mutex<Option<Arc<Connection>>>>;

/// The pool of connections of one client.
#[derive(Debug)]
pub(crate) struct Messenger {
    settings: MessengerSettings,
    pub(crate) credentials: Credentials,
    pub(crate) metrics: Arc<Metrics>,
    slots: Mutex<HashMap<(Address, Login), Slot>>,
}

impl Messenger {
    pub(crate) fn new(settings: MessengerSettings, credentials: Credentials, metrics: Arc<Metrics>) -> Self {
        Self { settings, credentials, metrics, slots: Mutex::default() }
    }

    /// One attempt of one call. The error names the server.
    pub(crate) async fn call<Answer>(
        &self,
        address: &Address,
        login: Login,
        (service, method): (&'static str, &'static str),
        message: &impl Message,
        options: &CallOptions,
    ) -> Result<(Answer, Vec<Vec<u8>>)>
    where
        Answer: Message + Default,
    {
        let attempt = async {
            let connection = self.connection(address, login, options.deadline).await?;
            let response = connection.call(service, method, message, options).await?;
            Ok((Answer::decode(response.body)?, response.sidecars))
        };
        let result: Result<_> = attempt.await;
        result.map_err(|error| {
            if error.kind() == ErrorKind::Busy {
                Metrics::count(&self.metrics.busy_answers);
            }
            tracing::debug!(%address, method, %error, "call failed");
            error.at_server(&address.to_string())
        })
    }

    /// Closes the connections with this login, so that the next call negotiates again.
    pub(crate) fn forget(&self, login: Login) {
        self.slots.lock().retain(|(_, kept), _| *kept != login);
    }

    /// Closes the connections to this server, which stopped answering.
    pub(crate) fn forget_server(&self, address: &Address) {
        self.slots.lock().retain(|(kept, _), _| kept != address);
    }

    async fn connection(
        &self,
        address: &Address,
        login: Login,
        deadline: Instant,
    ) -> Result<Arc<Connection>> {
        let slot = self.slots.lock().entry((address.clone(), login)).or_default().clone();
        let deadline = deadline.min(Instant::now() + self.settings.connect_timeout);
        let connect = async {
            let mut slot = slot.lock().await;
            if let Some(connection) = slot.as_ref().filter(|connection| !connection.is_broken()) {
                return Ok(connection.clone());
            }
            let connection = Arc::new(self.connect(address, login).await?);
            *slot = Some(connection.clone());
            Ok(connection)
        };
        match timeout_at(deadline, connect).await {
            Ok(result) => result,
            Err(_) => {
                Metrics::count(&self.metrics.connection_failures);
                Err(Error::new(ErrorKind::Network, "connecting and negotiating took too long"))
            }
        }
    }

    async fn connect(&self, address: &Address, login: Login) -> Result<Connection> {
        let negotiated = async {
            let socket = TcpStream::connect((address.host.as_str(), address.port)).await?;
            socket.set_nodelay(true)?;
            let is_loopback = socket.peer_addr().is_ok_and(|address| address.ip().is_loopback());
            let options = NegotiationOptions {
                is_loopback,
                require_encryption: self.settings.require_encryption,
                encrypt_loopback: self.settings.encrypt_loopback,
                offer_token: login == Login::Token,
            };
            negotiate(socket, &address.host, &self.credentials, options).await
        };
        match negotiated.await {
            Ok(transport) => {
                Metrics::count(&self.metrics.connections);
                tracing::debug!(%address, ?login, "connected");
                let server = address.to_string();
                Ok(Connection::start(transport, server, self.settings.limits, self.metrics.clone()))
            }
            Err(error) => {
                Metrics::count(&self.metrics.connection_failures);
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_with_and_without_port() {
        let address = |host: &str, port| Address { host: host.into(), port };
        assert_eq!(Address::parse("a.b:99").unwrap(), address("a.b", 99));
        assert_eq!(Address::parse("a.b").unwrap(), address("a.b", MASTER_PORT));
        assert_eq!(Address::parse("[::1]:5").unwrap(), address("::1", 5));
        for bad in ["", ":1", "a:", "a:x", "a:70000"] {
            assert!(Address::parse(bad).is_err(), "{bad}");
        }
    }
}
