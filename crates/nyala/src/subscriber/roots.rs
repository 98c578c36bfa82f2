//! The root certificates that HTTPS destinations are checked against: the system's, or those that `SSL_CERT_FILE` and
//! `SSL_CERT_DIR` name, as for other programs.

use nyala_client::Trust;
use rustls::ClientConfig;
use std::sync::{Arc, OnceLock};

/// TLS settings for connections to destinations. The certificates are read on first use.
pub(super) fn client() -> Result<Arc<ClientConfig>, String> {
    static CLIENT: OnceLock<Result<Arc<ClientConfig>, String>> = OnceLock::new();
    CLIENT.get_or_init(|| Trust::System.settings().map_err(|error| error.to_string())).clone()
}
