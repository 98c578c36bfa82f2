//! Credentials: the primary identity, and the token and certificates that the cluster issued for it.
//!
//! The primary identity (a user name, a Kerberos ticket, or a JSON web token) opens the first connection to the
//! masters. The leader answers with the cluster's CA certificates and, over a confidential connection, with a signed
//! authentication token. The client authenticates to tablet servers by this token. It must only be sent to servers of
//! this cluster, so it is used only when there is a CA to check the server's certificate with.

use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::pki_types::CertificateDer;

use crate::error::{Error, ErrorKind, Result};
use crate::pb::rpc::SignedToken;

/// Where the JSON web token comes from. It is asked at every log-in, because tokens expire and are replaced.
#[derive(Clone)]
pub(crate) struct JwtSource(Arc<dyn Fn() -> std::io::Result<String> + Send + Sync>);

impl JwtSource {
    pub(crate) fn new(read: impl Fn() -> std::io::Result<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    pub(crate) fn read(&self) -> Result<String> {
        let unreadable = |error| {
            Error::new(ErrorKind::NotAuthenticated, format!("the JSON web token cannot be read: {error}"))
        };
        (self.0)().map_err(unreadable)
    }
}

impl fmt::Debug for JwtSource {
    /// Without the token, which is a secret.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JwtSource")
    }
}

/// What the negotiation may use.
#[derive(Debug)]
pub(crate) struct Credentials {
    pub(crate) user: String,
    /// If set, the client logs in by Kerberos and never by user name.
    pub(crate) kerberos_service: Option<String>,
    pub(crate) jwt: Option<JwtSource>,
    granted: RwLock<Arc<Granted>>,
}

/// What the cluster issued.
#[derive(Clone, Debug, Default)]
pub(crate) struct Granted {
    pub(crate) authentication_token: Option<SignedToken>,
    pub(crate) trusted_certificates: Vec<CertificateDer<'static>>,
}

impl Credentials {
    pub(crate) fn new(
        user: String,
        kerberos_service: Option<String>,
        jwt: Option<JwtSource>,
        trusted: Vec<CertificateDer<'static>>,
    ) -> Self {
        let granted = Granted { authentication_token: None, trusted_certificates: trusted };
        Self { user, kerberos_service, jwt, granted: RwLock::new(Arc::new(granted)) }
    }

    /// The SASL mechanism of the primary identity.
    pub(crate) fn mechanism(&self) -> &'static str {
        if self.kerberos_service.is_some() { "GSSAPI" } else { "PLAIN" }
    }

    pub(crate) fn granted(&self) -> Arc<Granted> {
        self.granted.read().clone()
    }

    /// Keeps what the leading master sent. With a JWT the certificates are not replaced, because those that the user
    /// gave are more trustworthy than an unverified connection.
    pub(crate) fn grant(&self, token: Option<SignedToken>, certificates: Vec<CertificateDer<'static>>) {
        let mut granted = self.granted.write();
        let mut next = Granted::clone(&granted);
        if token.is_some() {
            next.authentication_token = token;
        }
        if self.jwt.is_none() && !certificates.is_empty() {
            next.trusted_certificates = certificates;
        }
        *granted = Arc::new(next);
    }

    /// Replaces the token, for tests of tokens that servers must refuse.
    #[cfg(feature = "test-cluster")]
    pub(crate) fn replace_token(&self, change: impl FnOnce(&mut SignedToken)) {
        let mut granted = self.granted.write();
        let mut next = Granted::clone(&granted);
        if let Some(token) = &mut next.authentication_token {
            change(token);
        }
        *granted = Arc::new(next);
    }
}
