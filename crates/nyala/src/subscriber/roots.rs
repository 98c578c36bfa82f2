//! Root certificates for destinations with HTTPS: those of the system, or the file that the variable `SSL_CERT_FILE`
//! names, as for other programs.

use rustls::crypto::ring::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// Where systems keep root certificates.
const FILES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
];

/// The TLS configuration, read when it is first needed.
pub(super) fn client() -> Result<Arc<ClientConfig>, String> {
    static CLIENT: OnceLock<Result<Arc<ClientConfig>, String>> = OnceLock::new();
    CLIENT.get_or_init(read).clone()
}

fn read() -> Result<Arc<ClientConfig>, String> {
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let file = named.or_else(|| FILES.iter().map(PathBuf::from).find(|file| file.is_file()));
    let file = file.ok_or("no file of trusted certificates was found: name one with SSL_CERT_FILE")?;
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(&file).map_err(|error| wrong(&error))?;
    // Files of systems hold some certificates that rustls cannot read.
    let (added, _) = roots.add_parsable_certificates(certificates.filter_map(Result::ok));
    if added == 0 {
        return Err(wrong(&"it holds no certificate in PEM"));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&error))?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}
