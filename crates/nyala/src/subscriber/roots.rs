//! The root certificates that HTTPS destinations are checked against: the system's, or those that `SSL_CERT_FILE` and
//! `SSL_CERT_DIR` name, as for other programs.

use rustls::crypto::ring::default_provider;
use rustls::{ClientConfig, RootCertStore};
use std::sync::{Arc, OnceLock};

/// TLS settings for connections to destinations. The certificates are read on first use.
pub(super) fn client() -> Result<Arc<ClientConfig>, String> {
    static CLIENT: OnceLock<Result<Arc<ClientConfig>, String>> = OnceLock::new();
    CLIENT.get_or_init(read).clone()
}

fn read() -> Result<Arc<ClientConfig>, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Some systems have certificates that rustls cannot parse; the others are enough.
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        let cause = found.errors.first().map_or_else(String::new, |error| format!(" ({error})"));
        return Err(format!(
            "no trusted certificate was found: name a file of them with SSL_CERT_FILE{cause}"
        ));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}
