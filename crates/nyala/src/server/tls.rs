//! TLS: a certificate and its key. Both are read again at SIGHUP, so that a renewed certificate needs no restart.
//!
//! A connection keeps the certificate that it began with. TLS sessions are not resumed across a change, because each
//! certificate has its own session cache.

use super::HEADER_TIMEOUT;
use super::certificate;
use super::connection_threads::until_true;
use super::metric::Metric;
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// What accepts connections, by the protocol inside: clients name it in the handshake, and leave if it is another.
#[derive(Clone)]
struct Acceptors {
    http: TlsAcceptor,
    #[cfg(feature = "sql")]
    postgres: TlsAcceptor,
    #[cfg(feature = "sql")]
    flight: TlsAcceptor,
    /// When the certificate ceases to be valid, in seconds since 1970.
    not_after_s: Option<i64>,
}

/// The certificate in use, and the files it was read from.
pub struct Certificates {
    certificate: PathBuf,
    key: PathBuf,
    current: RwLock<Acceptors>,
}

impl Certificates {
    /// Reads a certificate, followed by those of its issuers, and its key, all in PEM; both may be in one file.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, String> {
        let current = RwLock::new(acceptors(certificate, key)?);
        Ok(Self { certificate: certificate.into(), key: key.into(), current })
    }

    /// Reads the files again. If they are not valid, the certificate in use stays.
    pub fn read_again(&self) -> Result<(), String> {
        let acceptors = acceptors(&self.certificate, &self.key)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = acceptors;
        Ok(())
    }

    fn current(&self) -> Acceptors {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// When the certificate in use ceases to be valid, in seconds since 1970, if that can be read.
    pub fn not_after_s(&self) -> Option<i64> {
        self.current().not_after_s
    }

    /// The same for `/metrics`.
    pub fn metric(&self) -> Option<Metric> {
        let help = "When the certificate in use ceases to be valid, in seconds since 1970.";
        let not_after_s = u64::try_from(self.not_after_s()?).unwrap_or(0);
        Some(Metric::gauge("nyala_certificate_not_after_seconds", help, not_after_s))
    }

    /// The acceptor for new connections of HTTP.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.current().http
    }

    /// The acceptor for new connections of PostgreSQL's protocol.
    #[cfg(feature = "sql")]
    pub(super) fn postgres_acceptor(&self) -> TlsAcceptor {
        self.current().postgres
    }

    /// The acceptor for new connections of Arrow Flight, which is gRPC and so HTTP/2.
    #[cfg(feature = "sql")]
    pub(super) fn flight_acceptor(&self) -> TlsAcceptor {
        self.current().flight
    }
}

/// Shakes hands with a client. `None`: the server stops, and the client has asked for nothing yet.
pub(super) async fn secured<S: AsyncRead + AsyncWrite + Unpin>(
    acceptor: TlsAcceptor,
    stream: S,
    mut stopped: watch::Receiver<bool>,
) -> io::Result<Option<TlsStream<S>>> {
    tokio::select! {
        secured = tokio::time::timeout(HEADER_TIMEOUT, acceptor.accept(stream)) => {
            secured.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?.map(Some)
        }
        () = until_true(&mut stopped) => Ok(None),
    }
}

/// Reads certificates again at every SIGHUP.
pub async fn renew_at_hangups(certificates: Option<Arc<Certificates>>) {
    let mut hangups = match signal(SignalKind::hangup()) {
        Ok(hangups) => hangups,
        Err(error) => return tracing::error!(%error, "certificates are not renewed at SIGHUP"),
    };
    while hangups.recv().await.is_some() {
        let Some(certificates) = &certificates else {
            tracing::info!("SIGHUP: there is no certificate to read again");
            continue;
        };
        match certificates.read_again() {
            Ok(()) => tracing::info!("new connections use the certificate that was read now"),
            Err(error) => {
                tracing::error!(%error, "cannot read the certificate: the previous one stays in use")
            }
        }
    }
}

fn acceptors(certificate: &Path, key: &Path) -> Result<Acceptors, String> {
    let wrong = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let chain: Result<Vec<CertificateDer<'static>>, _> =
        CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
    let chain = chain.map_err(|error| wrong(certificate, &error))?;
    if chain.is_empty() {
        return Err(wrong(certificate, &"it holds no certificate in PEM"));
    }
    let not_after_s = chain.first().and_then(|own| certificate::not_after(own));
    // Errors of reading a key do not quote it.
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, &error))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, secret))
        .map_err(|error| wrong(certificate, &error))?;
    let mut speaking = |protocol: &[u8]| {
        config.alpn_protocols = vec![protocol.to_vec()];
        TlsAcceptor::from(Arc::new(config.clone()))
    };
    Ok(Acceptors {
        http: speaking(b"http/1.1"),
        #[cfg(feature = "sql")]
        postgres: speaking(b"postgresql"),
        #[cfg(feature = "sql")]
        flight: speaking(b"h2"),
        not_after_s,
    })
}
