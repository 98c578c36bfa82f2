//! TLS of a connection: which certificates of servers are trusted, and the stream that a request goes over.

use crate::error::{ClientError, Result};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, ring::default_provider, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme, StreamOwned,
};
use std::io::{IoSlice, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

/// Which certificates are trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Those that the system trusts (`SSL_CERT_FILE` and `SSL_CERT_DIR` name others).
    #[default]
    System,
    /// Those in a PEM file.
    File(PathBuf),
    /// Any: the connection is encrypted, and its other end may be anybody.
    Anybody,
}

impl Trust {
    /// The settings of connections. Files are read at once.
    ///
    /// # Errors
    /// A file cannot be read, or there is no certificate to trust.
    pub fn settings(&self) -> Result<Arc<ClientConfig>> {
        let provider = Arc::new(default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| ClientError::Invalid(error.to_string()))?;
        let settings = match self {
            Trust::Anybody => {
                builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
            }
            Trust::File(_) | Trust::System => builder.with_root_certificates(self.roots()?),
        };
        Ok(Arc::new(settings.with_no_client_auth()))
    }

    fn roots(&self) -> Result<RootCertStore> {
        let mut roots = RootCertStore::empty();
        let Trust::File(path) = self else {
            // Some systems have certificates that rustls cannot parse; the others are enough.
            let found = rustls_native_certs::load_native_certs();
            let (added, _) = roots.add_parsable_certificates(found.certs);
            if added == 0 {
                let cause = found.errors.first().map_or_else(String::new, |error| format!(" ({error})"));
                let words = "no trusted certificate was found: name a file of them with SSL_CERT_FILE";
                return Err(ClientError::Invalid(format!("{words}{cause}")));
            }
            return Ok(roots);
        };
        let invalid = |words: String| ClientError::Invalid(format!("{}: {words}", path.display()));
        let certificates = CertificateDer::pem_file_iter(path).map_err(|error| invalid(error.to_string()))?;
        for certificate in certificates {
            let certificate = certificate.map_err(|error| invalid(error.to_string()))?;
            roots.add(certificate).map_err(|error| invalid(error.to_string()))?;
        }
        match roots.is_empty() {
            true => Err(invalid("it has no certificate in PEM".to_owned())),
            false => Ok(roots),
        }
    }
}

/// Lets any certificate pass; signatures are still verified, so that its owner is at the other end.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// What requests and answers go over.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// TLS over a connection to the host of that name. The handshake happens with the first bytes.
    pub(crate) fn tls(stream: TcpStream, host: &str, settings: Arc<ClientConfig>) -> Result<Stream> {
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|error| ClientError::Invalid(format!("the host '{host}': {error}")))?;
        let connection = ClientConnection::new(settings, name)
            .map_err(|error| ClientError::Protocol(format!("TLS: {error}")))?;
        Ok(Stream::Tls(Box::new(StreamOwned::new(connection, stream))))
    }

    /// The connection below.
    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(stream) => stream,
            Stream::Tls(stream) => stream.get_ref(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.read(buffer),
            Stream::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.write(buffer),
            Stream::Tls(stream) => stream.write(buffer),
        }
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> std::io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.write_vectored(buffers),
            Stream::Tls(stream) => stream.write_vectored(buffers),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Stream::Plain(stream) => stream.flush(),
            Stream::Tls(stream) => stream.flush(),
        }
    }
}
