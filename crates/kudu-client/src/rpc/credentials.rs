//! Who we are: the primary identity, and the tokens and certificates the cluster handed out in return.
//!
//! The primary identity (a user name, a Kerberos ticket, or a JSON web token) opens the first connection to the masters. The
//! leader answers with the cluster's CA certificates and, for a user name over a confidential connection, with
//! a signed authentication token. Tablet servers then see the token; because it must only ever be shown to a
//! server of this very cluster, a token is used only together with a CA to check the server's certificate.

use std::sync::Arc;

use parking_lot::RwLock;
use rustls::pki_types::CertificateDer;

use crate::pb::rpc::SignedToken;

/// What the negotiation may use.
#[derive(Debug)]
pub(crate) struct Credentials {
    pub(crate) user: String,
    /// With it the log-in is by Kerberos, and never by user name.
    pub(crate) kerberos_service: Option<String>,
    pub(crate) jwt: Option<String>,
    granted: RwLock<Arc<Granted>>,
}

/// What the cluster handed out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Granted {
    pub(crate) authentication_token: Option<SignedToken>,
    pub(crate) trusted_certificates: Vec<CertificateDer<'static>>,
}

impl Credentials {
    pub(crate) fn new(
        user: String,
        kerberos_service: Option<String>,
        jwt: Option<String>,
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

    /// Keeps what the leading master sent. Certificates given by the user are not replaced: with a JWT they
    /// came from a source more trustworthy than an unverified connection.
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
