//! Kudu's RPC layer: frames, negotiation, connections and the connection pool.

pub(crate) mod connection;
pub(crate) mod credentials;
pub(crate) mod frame;
#[cfg(feature = "kerberos")]
pub(crate) mod gssapi;
pub(crate) mod messenger;
pub(crate) mod negotiation;
pub(crate) mod tls;

pub(crate) use connection::CallOptions;
pub(crate) use messenger::{Login, Messenger};
