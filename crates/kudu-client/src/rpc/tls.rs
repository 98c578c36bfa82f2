//! TLS in Kudu: the handshake is tunnelled through negotiation messages, then ordinary records follow.
//!
//! The certificates of Kudu's built-in authority contain no host names, so a server is only checked by its chain to
//! that authority. It is not checked at all when the client sends nothing secret (log-in by user name).

use std::io::{self, Read, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::error::{Error, ErrorKind, Result};

/// Prepares a client session. With `trusted`, the server must have a certificate of one of these authorities.
pub(crate) fn client_session(trusted: Option<&[CertificateDer<'static>]>) -> Result<ClientConnection> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let roots = match trusted {
        None => None,
        Some(certificates) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates {
                roots.add(certificate.clone()).map_err(tls_error)?;
            }
            Some(roots)
        }
    };
    let verifier = Arc::new(ChainVerifier { roots, provider: provider.clone() });
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(tls_error)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    // The name is only sent as a hint (SNI); Kudu's servers have none.
    let name = ServerName::try_from("kudu").map_err(|error| Error::protocol(error.to_string()))?;
    ClientConnection::new(Arc::new(config), name).map_err(tls_error)
}

pub(crate) fn tls_error(error: rustls::Error) -> Error {
    let kind = match error {
        rustls::Error::InvalidCertificate(_) => ErrorKind::NotAuthenticated,
        _ => ErrorKind::Network,
    };
    Error::new(kind, format!("TLS: {error}"))
}

#[derive(Debug)]
struct ChainVerifier {
    roots: Option<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for ChainVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        if let Some(roots) = &self.roots {
            let certificate = ParsedCertificate::try_from(end_entity)?;
            let algorithms = self.provider.signature_verification_algorithms.all;
            verify_server_cert_signed_by_trust_anchor(&certificate, roots, intermediates, now, algorithms)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// A socket with a TLS session whose handshake is complete.
#[derive(Debug)]
pub(crate) struct TlsStream<S> {
    socket: S,
    session: ClientConnection,
}

/// A TLS record holds at most this much plain text.
const RECORD_BYTES: usize = 16 << 10;

impl<S> TlsStream<S> {
    pub(crate) fn new(socket: S, session: ClientConnection) -> Self {
        Self { socket, session }
    }
}

impl<S: AsyncWrite + Unpin> TlsStream<S> {
    fn poll_send_records(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.session.wants_write() {
            let mut adapter = Blocking { socket: &mut self.socket, context };
            match self.session.write_tls(&mut adapter) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// Adapts a non-blocking socket to rustls, which expects `WouldBlock` where tokio returns `Pending`.
struct Blocking<'a, 'b, S> {
    socket: &'a mut S,
    context: &'a mut Context<'b>,
}

impl<S: AsyncRead + Unpin> Read for Blocking<'_, '_, S> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(bytes);
        match Pin::new(&mut *self.socket).poll_read(self.context, &mut buffer) {
            Poll::Ready(Ok(())) => Ok(buffer.filled().len()),
            Poll::Ready(Err(error)) => Err(error),
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

impl<S: AsyncWrite + Unpin> Write for Blocking<'_, '_, S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match Pin::new(&mut *self.socket).poll_write(self.context, bytes) {
            Poll::Ready(result) => result,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for TlsStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            // Only one record's bytes are initialised: otherwise a large buffer would be zeroed on every call.
            let want = into.remaining().min(RECORD_BYTES);
            match this.session.reader().read(into.initialize_unfilled_to(want)) {
                Ok(read) => {
                    into.advance(read);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Poll::Ready(Ok(())),
                Err(error) => return Poll::Ready(Err(error)),
            }
            let mut adapter = Blocking { socket: &mut this.socket, context };
            match this.session.read_tls(&mut adapter) {
                Ok(_) => {
                    if let Err(error) = this.session.process_new_packets() {
                        return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TlsStream<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_send_records(context))?;
        let written = this.session.writer().write(bytes)?;
        // Pending is not an error: the rest is sent with the next write or flush.
        if let Poll::Ready(Err(error)) = this.poll_send_records(context) {
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_send_records(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.session.send_close_notify();
        ready!(this.poll_send_records(context))?;
        Pin::new(&mut this.socket).poll_shutdown(context)
    }
}
