//! TLS: a certificate and its key, read anew on request, so that a renewed one is served without a restart.
//!
//! Connections go on with the certificate they began with. Sessions are not resumed across a change, since each
//! certificate has a memory of sessions of its own.

use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use tokio_rustls::TlsAcceptor;

/// A certificate in force, and where it was read.
pub struct Certificates {
    certificate: PathBuf,
    key: PathBuf,
    current: RwLock<TlsAcceptor>,
}

impl Certificates {
    /// Reads a certificate, those of its issuers behind it, and its key, all PEM; they may stand in one file.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, String> {
        let current = RwLock::new(acceptor(certificate, key)?);
        Ok(Self { certificate: certificate.into(), key: key.into(), current })
    }

    /// Reads the files again. What was in force stays so if they are not good.
    pub fn read_again(&self) -> Result<(), String> {
        let acceptor = acceptor(&self.certificate, &self.key)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = acceptor;
        Ok(())
    }

    /// What new connections are greeted with.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor, String> {
    let wrong = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let chain: Result<Vec<CertificateDer<'static>>, _> =
        CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
    let chain = chain.map_err(|error| wrong(certificate, &error))?;
    if chain.is_empty() {
        return Err(wrong(certificate, &"it holds no certificate in PEM"));
    }
    // Errors of reading a key tell nothing of it.
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, &error))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, secret))
        .map_err(|error| wrong(certificate, &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
