//! Certificates for tests, made by openssl.

use crate::peers;
use std::path::Path;
use std::process::Command;

pub(crate) fn has_openssl() -> bool {
    let found = peers::works("openssl", &["version"]).then_some(());
    peers::require("openssl", "install openssl", found).is_some()
}

/// Writes a self-signed certificate, which is valid for two days, and its key.
pub(crate) fn make(certificate: &Path, key: &Path) {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
        .args(["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-keyout")
        .arg(key)
        .arg("-out")
        .arg(certificate)
        .output()
        .expect("it runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}
